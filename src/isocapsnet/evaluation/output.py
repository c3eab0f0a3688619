"""``results.csv`` and ``results.json`` of a results folder: written, and read with checks."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from isocapsnet._files import DamagedError, read_json, write_whole
from isocapsnet._safe_text import spreadsheet_safe
from isocapsnet.evaluation.evidence import FoldIndex
from isocapsnet.evaluation.metrics import METRICS
from isocapsnet.evaluation.procedures import TESTS
from isocapsnet.evaluation.results import MethodResult, ResultsTable
from isocapsnet.evaluation.site_scores import SiteResults
from isocapsnet.evaluation.statistics import Interval, wilson_interval


def results_frame(table: ResultsTable) -> pd.DataFrame:
    """One row per method: method, jobs, failed, each metric with ``_low`` and ``_high``, seconds, verdict."""
    rows = []
    for row in table.rows:
        cells: dict[str, Any] = {"method": row.method, "jobs": row.jobs, "failed": row.failed}
        for name in METRICS:
            cells |= _bounds(name, row.metrics[name])
        rows.append(cells | {"seconds": row.seconds, "verdict": row.verdict})
    return pd.DataFrame(rows)


def sites_frame(results: SiteResults, classes: Sequence[Any]) -> pd.DataFrame:
    """One row per site and method: site, n_subjects, test graphs of each class, method, ROC AUC with its bounds."""
    rows = []
    for site in results.sites:
        counts = {f"n_{name}": count for name, count in zip(classes, site.counts, strict=True)}
        known = {"site": ", ".join(site.sites), "n_subjects": site.n_subjects, **counts}
        rows += [known | {"method": method} | _bounds("roc_auc", area) for method, area in site.areas.items()]
    return pd.DataFrame(rows)


def site_summary_frame(results: SiteResults) -> pd.DataFrame:
    """One row per method: the random-effects summary over sites."""
    return pd.DataFrame(
        {
            "method": method,
            "n_sites": summary.n_sites,
            **_bounds("roc_auc", summary.mean),
            "deviation": summary.deviation,
            "i_squared": summary.share,
            "p_heterogeneity": summary.p_value,
            "heterogeneity": summary.heterogeneity,
        }
        for method, summary in results.summaries.items()
    )


def _bounds(name: str, interval: Interval) -> dict[str, float]:
    return dict(zip((name, f"{name}_low", f"{name}_high"), interval, strict=True))


def results_json(table: ResultsTable, context: Mapping[str, Any]) -> dict[str, Any]:
    """The same with scores per fold, keys of records, comparisons and ``context``; NaN and infinity become null."""
    content = {
        **context,
        "test": table.test,
        "test_over_train": table.test_over_train,
        "sites": None if table.sites is None else table.sites.to_json(),
        "site_results": None if table.site_results is None else table.site_results.to_json(),
        "methods": [_method_json(row) for row in table.rows],
        "comparisons": [
            asdict(comparison) | {"difference": comparison.difference._asdict()} for comparison in table.comparisons
        ],
    }
    plain: dict[str, Any] = _finite(content)
    return plain


def write_results(folder: Path, table: ResultsTable, context: Mapping[str, Any]) -> None:
    """Write ``results.csv`` and ``results.json``; ``context`` says where the numbers come from."""
    write_whole(folder / "results.csv", spreadsheet_safe(results_frame(table)).to_csv(index=False).encode())
    write_whole(folder / "results.json", json.dumps(results_json(table, context), indent=1).encode())


def read_context(folder: Path) -> tuple[dict[str, Any], str | None]:
    """The context in ``results.json``, and what is wrong with the file (None if nothing is).

    Parts that :func:`write_results` would not write are left out.
    """
    try:
        content = read_json(folder / "results.json")
    except FileNotFoundError:
        return {}, "is missing, as it is before a run has ended"
    except DamagedError as error:
        return {}, f"is damaged: it {error}"
    if not isinstance(content, dict) or not _is_passport(content.get("passport")):
        return {}, "is damaged: it says nothing about the data"
    wrong = [name for name, is_valid in _CONTEXT.items() if name in content and not is_valid(content[name])]
    context = {name: content[name] for name in _CONTEXT if name in content and name not in wrong}
    return context, f"is damaged: {wrong[0]} cannot be used" if wrong else None


def _has(content: Any, **kinds: Any) -> bool:
    """Whether these entries of a mapping have their type, as far as they are there, and numbers a possible size."""
    if not isinstance(content, dict):
        return False
    given = [(content[name], kind) for name, kind in kinds.items() if content.get(name) is not None]
    return all(
        isinstance(value, kind)
        and not isinstance(value, bool)
        and (isinstance(value, str | dict) or 0 <= value < _LARGEST)
        for value, kind in given
    )


def _is_passport(content: Any) -> bool:
    counts = content.get("classes") if isinstance(content, dict) else None
    return (
        _has(content, name=str, digest=str, n_graphs=int, n_nodes=int, n_folds=int, classes=dict)
        and {"name", "digest"} <= content.keys()
        and _has(counts or {}, **dict.fromkeys(counts or {}, int))
    )


_LARGEST = 10_000_000
_COUNTS = dict.fromkeys(("n_folds", "repeats", "inner_folds", "n_candidates", "permutations"), int)
_NEEDED = ("needed_above_chance", "needed_between_methods", "needed_equivalence")
_POWER = dict.fromkeys(("n_scores", "above_chance", "between_methods", "equivalence", *_NEEDED), int | float)
#: What is used of ``results.json``, and how it is recognised.
_CONTEXT: dict[str, Callable[[Any], bool]] = {
    "passport": _is_passport,
    "command": lambda value: isinstance(value, str),
    "versions": lambda value: isinstance(value, dict) and _has(value, **dict.fromkeys(value, str)),
    "method_versions": lambda value: isinstance(value, dict) and all(type(number) is int for number in value.values()),
    "protocol": lambda value: _has(value, name=str, search=str, **_COUNTS),
    "preparation": lambda value: (
        isinstance(value, list) and all(_has(step, name=str) and "name" in step for step in value)
    ),
    "test": lambda value: isinstance(value, str) and value in TESTS,
    "detectable": lambda value: _has(value, **_POWER),
    "data": lambda value: _has(value, digest=str, file=str),
    "confounds": lambda value: isinstance(value, str),
    "sweep": lambda value: (
        _has(value, method=str, parameter=str, methods=dict) and value.keys() >= {"method", "parameter", "methods"}
    ),
}


def _method_json(row: MethodResult) -> dict[str, Any]:
    return {
        "method": row.method,
        "jobs": row.jobs,
        "failed": row.failed,
        "failures": row.failures,
        "metrics": {name: interval._asdict() for name, interval in row.metrics.items()},
        "folds": [_fold_json(row, index) for index in row.scores],
        "seconds": row.seconds,
        "use_unlabeled": row.use_unlabeled,
        "p_chance": row.p_chance,
        "verdict": row.verdict,
        "is_best": row.is_best,
        "left_out": {what: {"folds": count, "reason": reason} for what, (count, reason) in row.left_out.items()},
        "covariates": row.covariates,
        "not_better_than": row.not_better_than,
        "curve_gaps": {
            str(share): {"jobs": count, "reason": reason} for share, (count, reason) in row.curve_gaps.items()
        },
        "learning_curve": [point._asdict() | {"area": point.area._asdict()} for point in row.curve],
        "audit": None if row.audit is None else asdict(row.audit) | {"difference": row.audit.difference._asdict()},
    }


def _fold_json(row: MethodResult, index: FoldIndex) -> dict[str, Any]:
    """The scores of one test fold, its accuracy with a Wilson interval."""
    scores, n_test = row.scores[index], row.n_test[index]
    _, low, high = wilson_interval(round(scores["accuracy"] * n_test), n_test)
    where = {"repeat": index[0], "fold": index[1], "key": row.keys[index]}
    size = {"n_test": n_test, "weight": row.weights[index]}
    return {**where, **size, **scores, "accuracy_low": low, "accuracy_high": high}


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
