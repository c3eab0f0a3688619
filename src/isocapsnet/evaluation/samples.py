"""The dataset as an evaluation reads it, and how a worker process gets it."""

import pkgutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.evaluation.naming import canonical_json, digest_of

if TYPE_CHECKING:
    from isocapsnet.datasets.graphs import BrainGraphs


class Samples:
    """A dataset, with the graphs that belong together; nothing is copied.

    Parameters
    ----------
    data : BrainGraphs
    group : str, optional
        The covariate that says which graphs are of one person. Graphs of a person are never split between training
        and test. By default the names of the subjects say so: sub-01_ses-1 and sub-01_ses-2 are of one person.
    use_series : bool
        Use the time series of a dataset that has graphs as well.
    """

    def __init__(self, data: "BrainGraphs", group: str | None = None, use_series: bool = False) -> None:
        self.data, self.group, self.use_series = data, group, use_series
        source = data.replace(adjacency=None) if use_series and not data.is_time_series else data
        #: Graphs ``(n_graphs, n_nodes, n_nodes)``, or an object array ``(n_graphs,)`` of time series
        #: ``(n_times, n_nodes)``, which a first preparation step turns into graphs.
        self.X, self.is_time_series = source.X, source.is_time_series
        #: ``labels`` (n_graphs,) are indices into the dataset's label names, -1 for an unlabelled graph.
        self.labels, self.sites, self.folds = data.labels, data.sites, data.folds
        #: DataFrame of one row per graph, or None.
        self.covariates: Any = data.covariates
        #: Indices of the graphs with and without a label.
        self.labelled, self.unlabelled = np.flatnonzero(self.labels >= 0), np.flatnonzero(self.labels < 0)
        #: The labels that occur, sorted, and their names.
        self.classes: NDArray[np.int64] = np.unique(self.labels[self.labelled])
        self.class_names = [data.label_names[code] for code in self.classes]
        #: The person of each graph ``(n_graphs,)``.
        self.subjects: NDArray[Any] = data.persons
        #: Of the data and of the grouping, which changes the splits.
        self.digest = data.digest()
        if group is not None:
            if self.covariates is None or group not in self.covariates:
                raise InputError(f"The data have no covariate {group!r} to group graphs by.")
            self.subjects = self.covariates[group].to_numpy()
            self.digest = digest_of([self.digest, "group", group])

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def groups(self) -> NDArray[Any] | None:
        """``subjects`` if a person has several labelled graphs, else None."""
        persons = self.subjects[self.labelled]
        return self.subjects if len(np.unique(persons)) < len(persons) else None

    @cached_property
    def persons(self) -> NDArray[np.int64] | None:
        """``groups`` as numbers ``(n_graphs,)``, or None."""
        if self.groups is None:
            return None
        numbers: NDArray[np.int64] = np.unique(self.groups.astype(str), return_inverse=True)[1].astype(np.int64)
        return numbers


#: The data that this process used last. One dataset at a time may be all that fits into memory.
_LOADED: dict[tuple[Any, ...], Samples] = {}


@dataclass(frozen=True)
class DataSource:
    """How every worker process reads the dataset; all of it is JSON."""

    #: The import path of a function, ``"package.module:function"``. ``loader(**arguments)`` returns the dataset.
    loader: str
    #: The digest of the :class:`Samples` that jobs are planned for; others are refused.
    digest: str
    #: JSON values. On a cluster, a path among them must be reachable from each machine.
    arguments: Mapping[str, Any] = field(default_factory=dict)
    #: The file that the loader reads. If it changes, it is read and checked again.
    file: str | None = None
    #: See :class:`Samples`.
    group: str | None = None
    use_series: bool = False

    def load(self) -> Samples:
        """The data. A process reads them once, and again when the file has changed."""
        samples = _LOADED.get(self._state())
        if samples is None:
            samples = self._read()
            self.keep(samples)
        return samples

    def keep(self, samples: Samples) -> None:
        """Use data that are in memory already, until the file changes."""
        _LOADED.clear()
        _LOADED[self._state()] = samples

    def _state(self) -> tuple[Any, ...]:
        """The source with the size, time and inode of its file."""
        identity = canonical_json(vars(self))
        if self.file is not None:
            with suppress(OSError):
                status = Path(self.file).stat()
                return identity, status.st_size, status.st_mtime_ns, status.st_ino
        return (identity,)

    def _read(self) -> Samples:
        if self.file is not None and not Path(self.file).exists():
            raise InputError(
                f"There is no {self.file} on this machine; the results folder must be reachable from every worker."
            )
        try:
            samples = Samples(pkgutil.resolve_name(self.loader)(**self.arguments), self.group, self.use_series)
        except Exception as error:  # a damaged archive can fail in any way
            if self.file is None:
                raise
            raise InputError(
                f"{self.file}, the copy of the data, is damaged or was changed after the jobs were planned ({error}). "
                "Run the benchmark again to write a new copy."
            ) from error
        if samples.digest != self.digest:
            raise InputError(
                f"The data in {self.file or self.loader} have the digest {_short(samples.digest)}, but the jobs were "
                f"planned for {_short(self.digest)}: the data changed. Start the benchmark again."
            )
        return samples


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]
