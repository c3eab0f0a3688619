"""A dataset as the benchmark needs it, and the copy of it that workers read."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.datasets.fields import is_missing
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.evaluation.failures import printable
from isocapsnet.evaluation.files import naming, set_aside
from isocapsnet.evaluation.naming import digest_of
from isocapsnet.evaluation.records import check_truth
from isocapsnet.evaluation.study import DataSource, Study


def publish_study(data: BrainGraphs, folder: Path, *, group: str | None, use_series: bool) -> DataSource:
    """Put a copy of the data under ``folder``, which workers map into memory, and say how to read it.

    A copy that is there is read and held against the data; one that differs is written again.
    """
    path = (folder / "data" / f"{data.digest().removeprefix('sha256:')[:16]}.npz").absolute()
    if not _is_copy(path, data):
        if path.exists():
            warnings.warn(f"{path} is damaged or was changed; it is written again from the data.", stacklevel=2)
        if path.is_dir():
            set_aside(path, folder / "rejected" / "data")
        with naming(path):
            data.save(path)
    arguments = {"path": str(path), "group": group, "use_series": use_series}
    return DataSource("isocapsnet.cli._study:load_study", study_digest(data, group), arguments, file=str(path))


def load_study(path: str, group: str | None, use_series: bool) -> Study:
    """What :func:`publish_study` saved; labels are codes, so that the last class name is the positive class.

    The digest is that of what is read, all of it.
    """
    if not Path(path).exists():
        raise InputError(
            f"There is no {path} on this machine; the results folder must be one that every worker can reach."
        )
    try:
        data = BrainGraphs.load(path)
        data.digest()
    except Exception as error:  # a damaged archive can fail in any way
        raise InputError(
            f"{path}, the copy of the data, is damaged or was changed since the jobs were planned ({error}). Run the "
            "same command again: it writes the copy anew."
        ) from error
    return _as_study(data, group, use_series)


def study_digest(data: BrainGraphs, group: str | None) -> str:
    """Who belongs together changes the splits, so it is part of what names the data."""
    return data.digest() if group is None else digest_of([data.digest(), "group", group])


class DataCopies:
    """The intact copies of data in results folders, by the digest that records name.

    Attributes
    ----------
    problems : list of str
        A sentence for each copy that cannot be used.
    """

    def __init__(self, *folders: Path) -> None:
        self.problems: list[str] = []
        self._copies = self._open(sorted(path for folder in folders for path in folder.glob("data/*.npz")))
        self._opened: list[BrainGraphs] = []
        self._truth: dict[str, tuple[list[int], list[str]] | None] = {}

    def find(self, digest: str) -> tuple[BrainGraphs, str | None] | None:
        """The data with this digest, and the column that says who belongs together; None where there is no copy."""
        for data in self._all():
            for group in (None, *([] if data.covariates is None else data.covariates.columns)):
                if study_digest(data, group) == digest:
                    return data, group
        return None

    def check(self, record: Mapping[str, Any]) -> None:
        """Refuse a record (DamagedError) whose labels are not those of its data, where there is a copy."""
        digest = record["job"]["dataset"]
        if digest not in self._truth:
            found = self.find(digest)
            self._truth[digest] = None if found is None else _true_labels(found[0])
        truth = self._truth[digest]
        if truth is not None:
            check_truth(record, *truth)

    def _all(self) -> Iterator[BrainGraphs]:
        """Copies are read when they are asked for, each once."""
        yield from self._opened
        for data in self._copies:
            self._opened.append(data)
            yield data

    def _open(self, paths: Sequence[Path]) -> Iterator[BrainGraphs]:
        for path in paths:
            try:
                data = BrainGraphs.load(path)
                data.digest()
            except Exception as error:  # a damaged archive can fail in any way
                self.problems.append(printable(f"The folder's copy of the data cannot be used: {path.name}: {error}"))
            else:
                yield data


def refuse_missing(column: str, values: NDArray[Any], data: BrainGraphs) -> None:
    """Refuse labelled graphs without a value: as an empty text they would all be of one person, or of one site."""
    missing = [index for index in np.flatnonzero(data.is_labelled) if is_missing(values[index])]
    if missing:
        raise InputError(
            f"{len(missing)} labelled graphs have no value in the column {column} (first: "
            f"{data.subjects[missing[0]]}); fill the gaps, or leave these graphs out with --exclude."
        )


def _is_copy(path: Path, data: BrainGraphs) -> bool:
    """Whether a file holds these data, by its content."""
    try:
        return path.is_file() and BrainGraphs.load(path).digest() == data.digest()
    except Exception:  # a damaged archive can fail in any way
        return False


def _as_study(data: BrainGraphs, group: str | None, use_series: bool) -> Study:
    covariates = data.covariates
    subjects = data.subjects
    if group is not None:
        if covariates is None or group not in covariates:
            raise InputError(f"There is no column {group!r} that says who a graph belongs to.")
        subjects = covariates[group].to_numpy()
        refuse_missing(repr(group), subjects, data)
    present = np.unique(data.labels[data.is_labelled])
    return Study(
        X=_time_series(data) if use_series else _graphs(data),
        labels=data.labels,
        digest=study_digest(data, group),
        class_names=[data.label_names[code] for code in present],
        labelled=data.is_labelled,
        subjects=subjects,
        sites=data.sites,
        covariates=covariates,
        folds=data.folds or None,
        is_time_series=use_series,
    )


def _true_labels(data: BrainGraphs) -> tuple[list[int], list[str]]:
    """Codes as records have them, -1 for an unlabelled graph, and the names of the classes."""
    present = np.unique(data.labels[data.is_labelled])
    codes = np.where(data.is_labelled, np.searchsorted(present, data.labels), -1)
    return codes.tolist(), [data.label_names[code] for code in present]


def _graphs(data: BrainGraphs) -> NDArray[Any]:
    assert data.adjacency is not None
    return data.adjacency


def _time_series(data: BrainGraphs) -> NDArray[Any]:
    series = np.empty(len(data), dtype=object)
    for place, one in enumerate(data.time_series or ()):
        series[place] = one
    return series
