"""The pipeline that a fit follows: given by options, or that of a method in a benchmark."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from isocapsnet._methods import list_one_method, list_transforms, load_plugins, make_method, make_step
from isocapsnet._packages import check_packages
from isocapsnet._planning import open_with_covariates
from isocapsnet._results import Results
from isocapsnet._results_folders import open_results
from isocapsnet._validation import InputError
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.evaluation.plan import MethodSpec
from isocapsnet.evaluation.preparation import COVARIATES, TRANSFORM, Step, check_installed
from isocapsnet.evaluation.protocol import Protocol
from isocapsnet.evaluation.results import MethodResult
from isocapsnet.evaluation.samples import Samples


@dataclass(frozen=True)
class Pipeline:
    """What is fitted to which data.

    Attributes
    ----------
    spec : MethodSpec
    steps : tuple of Step
        The preparation.
    samples : Samples
    transforms : mapping of str to Step
        Of which the search may choose one as the last step.
    protocol : Protocol or None
        Of the search for settings; None without a search.
    expected : dict or None
        The performance in a benchmark, as in a model card.
    """

    spec: MethodSpec
    steps: tuple[Step, ...]
    samples: Samples
    transforms: Mapping[str, Step] = field(default_factory=dict)
    protocol: Protocol | None = None
    expected: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        """Refuse what needs packages that are not installed."""
        check_packages(self.spec.label, self.spec.packages)
        check_installed((*self.steps, *self.transforms.values()))


def plan_refit(
    folder: str | Path, method: Any, data: Any, reading: Mapping[str, Any], *, device: str | None = None
) -> Pipeline:
    """The pipeline of a method in a benchmark, for the data of that benchmark."""
    from isocapsnet.models import MODELS

    results = open_results(folder)
    row = _find_row(results, method)
    job = results.records[next(iter(row.keys.values()))]["job"]
    if any(step["name"] == COVARIATES for step in job["preparation"]):
        raise InputError(f"{row.method} is given covariates instead of graphs, so it cannot be saved as a model.")
    steps = tuple(make_step(step["name"], step["parameters"], tuple(step["columns"])) for step in job["preparation"])
    if job["method"] not in {*MODELS, *load_plugins()}:
        raise InputError(f"{row.method} in {folder} is your own estimator; fit it with fit(data, estimator).")
    spec = make_method(job["method"], job["parameters"], use_unlabeled=job["use_unlabeled"], device=device)
    if spec.version != job["version"]:
        raise InputError(
            f"The code of {row.method} was changed after the benchmark in {folder}, so its performance is not known; "
            "run the benchmark again."
        )
    columns = [column for step in steps for column in step.columns]
    graphs = _find_data(results, folder, data, columns, reading)
    samples = _group_as(graphs, results.context["data"]["digest"], any(step.name == "connectivity" for step in steps))
    choices = [] if TRANSFORM in spec.space else job["space"].get(TRANSFORM, [])
    searched = [*spec.space, *([TRANSFORM] if choices else [])]
    space = {name: values for name, values in job["space"].items() if name in searched}
    return Pipeline(
        MethodSpec(**{**vars(spec), "space": space}),
        steps,
        samples,
        list_transforms(choices),
        Protocol.from_json(job["protocol"]),
        _expect(results, row),
    )


def _find_row(results: Results, method: Any) -> MethodResult:
    """The row of a method, which is named as in the table, or without parameters if that is one row."""
    rows = [row for row in results.summary.rows if row.keys]
    label = method
    with suppress(InputError):  # a name of the table that is no method, or not one
        label = list_one_method(method).label
    found = [row for row in rows if row.method in (method, label)] or [row for row in rows if row.name == method]
    if len(found) != 1:
        problem = "has no finished method" if not found else f"has {len(found)} methods called"
        raise InputError(
            f"The benchmark in {results.folders[0]} {problem} {method!r:.60}; choose from "
            f"{', '.join(row.method for row in rows) or 'none'} with method=."
        )
    [row] = found
    if row.failed:
        raise InputError(f"{row.failed} of {row.jobs} jobs of {row.method} failed; run the benchmark again first.")
    return row


def _find_data(
    results: Results, folder: str | Path, data: Any, columns: Sequence[str], reading: Mapping[str, Any]
) -> BrainGraphs:
    """The data of a benchmark: its own copy, or equal data that are given."""
    if data is None:
        if reading := {name: value for name, value in reading.items() if value not in (None, (), "auto", False)}:
            raise InputError(f"like= reads the data of the benchmark; leave out {next(iter(reading))}=, or give data.")
        if results.data is None:
            raise InputError(f"{folder} has no usable copy of the data; give the data of the benchmark.")
        return results.data
    graphs = open_with_covariates(data, columns, reading)
    digest = (results.context.get("passport") or {}).get("digest")
    if graphs.digest() != digest:
        raise InputError(
            f"{graphs.name or 'The data'} are not the data of the benchmark in {folder}, so its performance says "
            "nothing about them; read them with the same options, leave the data out, or leave out like=."
        )
    return graphs


def _group_as(graphs: BrainGraphs, digest: str, use_series: bool) -> Samples:
    """The data with the grouping of a benchmark, which is part of its digest."""
    columns = [] if graphs.covariates is None else list(graphs.covariates.columns)
    views = (Samples(graphs, group, use_series) for group in (None, *columns))
    samples = next((view for view in views if view.digest == digest), None)
    if samples is None:
        raise InputError(
            "No covariate of the data groups the graphs as the benchmark did; name the column with covariates=."
        )
    return samples


def _expect(results: Results, row: MethodResult) -> dict[str, Any]:
    """The performance of a row of the table, as JSON values."""
    metrics = {
        name: [float(value) if np.isfinite(value) else None for value in metric] for name, metric in row.metrics.items()
    }
    return {
        "benchmark": results.title,
        "method": row.method,
        "metrics": metrics,
        "n_folds": len(row.keys),
        "n_predictions": int(sum(row.n_test.values())),
        "verdict": row.verdict,
        "test": results.summary.test,
    }
