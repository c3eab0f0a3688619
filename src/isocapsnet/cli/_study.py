"""A dataset as the benchmark needs it, and the copy of it that workers read."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.benchmark.naming import digest_of
from isocapsnet.benchmark.study import DataSource, Study
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.labels import is_missing


def publish_study(data: BrainGraphs, folder: Path, *, group: str | None, use_series: bool) -> DataSource:
    """Put a copy of the data under ``folder``, which workers map into memory, and say how to read it."""
    path = (folder / "data" / f"{data.digest().removeprefix('sha256:')[:16]}.npz").resolve()
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        data.save(path)
    # Who belongs together changes the splits, so it is part of what names the data.
    digest = data.digest() if group is None else digest_of([data.digest(), "group", group])
    arguments = {"path": str(path), "digest": digest, "group": group, "use_series": use_series}
    return DataSource("isocapsnet.cli._study:load_study", digest, arguments)


def load_study(path: str, digest: str, group: str | None, use_series: bool) -> Study:
    """What :func:`publish_study` saved; labels are codes, so that the last class name is the positive class."""
    if not Path(path).exists():
        raise InputError(
            f"There is no {path} on this machine; the results folder must be one that every worker can reach."
        )
    data = BrainGraphs.load(path)
    covariates = data.covariates
    subjects = data.subjects
    if group is not None:
        if covariates is None or group not in covariates:
            raise InputError(f"There is no column {group!r} that says who a graph belongs to.")
        subjects = covariates[group].to_numpy()
        refuse_missing(f"the column {group!r} does not say who", subjects, data)
    present = np.unique(data.labels[data.is_labelled])
    return Study(
        X=_time_series(data) if use_series else _graphs(data),
        labels=data.labels,
        digest=digest,
        class_names=[data.label_names[code] for code in present],
        labelled=data.is_labelled,
        subjects=subjects,
        sites=data.sites,
        covariates=covariates,
        folds=data.folds or None,
        is_time_series=use_series,
    )


def refuse_missing(what: str, values: NDArray[Any], data: BrainGraphs) -> None:
    """Refuse labelled graphs without a value: as an empty text they would all be of one person, or of one site."""
    missing = [index for index in np.flatnonzero(data.is_labelled) if is_missing(values[index])]
    if missing:
        raise InputError(
            f"Of {len(missing)} labelled graphs {what} they belong to, first of {data.subjects[missing[0]]}; fill the "
            "gaps, or leave these graphs out with --exclude."
        )


def _graphs(data: BrainGraphs) -> NDArray[Any]:
    assert data.adjacency is not None
    return data.adjacency


def _time_series(data: BrainGraphs) -> NDArray[Any]:
    series = np.empty(len(data), dtype=object)
    for place, one in enumerate(data.time_series or ()):
        series[place] = one
    return series
