"""The subjects of a benchmark: what a loader hands over, and how a worker calls that loader."""

import json
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.evaluation.naming import canonical_json


@dataclass(frozen=True, eq=False)
class Study:
    """Graphs (or time series) and what is known of each subject, all in one order.

    Parameters
    ----------
    X : array (n_graphs, n_nodes, n_nodes) or (n_graphs, n_times, n_nodes)
        Graphs, or time series; an object array of ``(n_times, n_nodes)`` where lengths differ.
    labels : array (n_graphs,)
        Class labels of one sortable type.
    digest : str
        Names the content, so that records of other data are never mistaken for this one's.
    class_names : sequence of str, optional
        What records call the classes, in the order of the sorted labels.
    labelled : array of bool (n_graphs,), optional
        False where ``labels`` means nothing. Without it every subject has a label.
    subjects : array (n_graphs,), optional
        Who each graph belongs to; graphs of one subject are never split between training and test.
    sites : array (n_graphs,), optional
    covariates : DataFrame of n_graphs rows, optional
    folds : sequence of index arrays, optional
        Test subjects of each predefined fold.
    is_time_series : bool
        Whether ``X`` holds time series, which a first preparation step turns into graphs.
    """

    X: NDArray[Any]
    labels: NDArray[Any]
    digest: str
    class_names: Sequence[str] | None = None
    labelled: NDArray[np.bool_] | None = None
    subjects: NDArray[Any] | None = None
    sites: NDArray[Any] | None = None
    covariates: Any = None
    folds: Sequence[NDArray[np.int64]] | None = None
    is_time_series: bool = False

    @cached_property
    def known(self) -> NDArray[np.int64]:
        """Indices of the subjects that have a label."""
        return np.arange(len(self.X)) if self.labelled is None else np.flatnonzero(self.labelled)

    @cached_property
    def unknown(self) -> NDArray[np.int64]:
        """Indices of the subjects without a label."""
        return np.setdiff1d(np.arange(len(self.X)), self.known)

    @cached_property
    def classes(self) -> NDArray[Any]:
        """The sorted class labels."""
        return np.unique(self.labels[self.known])

    @cached_property
    def groups(self) -> NDArray[Any] | None:
        """``subjects`` where somebody occurs more than once among the labelled, else None."""
        if self.subjects is None or len(np.unique(self.subjects[self.known])) == len(self.known):
            return None
        return self.subjects


@dataclass(frozen=True)
class DataSource:
    """Where every worker reads the study from: ``loader(**arguments)`` returns a :class:`Study`.

    Parameters
    ----------
    loader : str
        An import path, ``"package.module:function"``. It computes the study's digest from what it reads.
    digest : str
        Of the study that jobs are planned for; any other is refused.
    arguments : mapping
        JSON values. On a cluster a path among them must be reachable from each machine.
    file : str or None
        The one file that the loader reads; when it changes, it is read and checked again.
    """

    loader: str
    digest: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    file: str | None = None

    def load(self) -> Study:
        """The study, read once per process and each time that its file was changed."""
        return _load(self.loader, self.digest, canonical_json(dict(self.arguments)), self.file, _state(self.file))


@lru_cache(maxsize=1)
def _load(loader: str, digest: str, arguments: str, file: str | None, state: tuple[int, ...] | None) -> Study:
    study: Study = pkgutil.resolve_name(loader)(**json.loads(arguments))
    if study.digest != digest:
        raise InputError(
            f"The data in {file or f'{loader}({arguments})'} have the digest {_short(study.digest)}, but the jobs were "
            f"planned for {_short(digest)}: the data changed in between. Start the benchmark again."
        )
    return study


def _state(file: str | None) -> tuple[int, ...] | None:
    """Size, time of change and inode of a file; None where there is none."""
    if file is None:
        return None
    try:
        status = Path(file).stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]
