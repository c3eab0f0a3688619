"""The dataset as an evaluation reads it, and how a worker process gets it."""

import pkgutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.evaluation.naming import canonical_json, digest_of


class Graphs(Protocol):
    """The attributes that an evaluation reads of a dataset (:class:`isocapsnet.BrainGraphs` has them).

    ``labels`` (n_graphs,) are indices into ``label_names``, -1 for an unlabelled graph. ``X`` holds graphs
    ``(n_graphs, n_nodes, n_nodes)`` or time series ``(n_graphs,)``, each ``(n_times, n_nodes)``. ``folds`` are the test
    indices of predefined folds.
    """

    @property
    def X(self) -> NDArray[Any]: ...  # noqa: N802
    @property
    def is_time_series(self) -> bool: ...
    @property
    def labels(self) -> NDArray[np.int64]: ...
    @property
    def label_names(self) -> Sequence[str]: ...
    @property
    def subjects(self) -> NDArray[Any]: ...
    @property
    def sites(self) -> NDArray[Any] | None: ...
    @property
    def covariates(self) -> Any: ...
    @property
    def folds(self) -> Sequence[NDArray[np.int64]]: ...
    def digest(self) -> str: ...
    def replace(self, **changes: Any) -> Self: ...


@dataclass(frozen=True, eq=False)
class Samples:
    """A view of a dataset: the graphs or time series, and which of them belong together.

    Parameters
    ----------
    data : Graphs
    group : str, optional
        The covariate that says which graphs are of one person. Graphs of a person are never split between training
        and test. By default each graph is of a person of its own.
    use_series : bool
        Use the time series of a dataset that has graphs as well.
    """

    data: Graphs
    group: str | None = None
    use_series: bool = False

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def digest(self) -> str:
        """The digest of the data and of the grouping, which changes the splits."""
        digest = self.data.digest()
        return digest if self.group is None else digest_of([digest, "group", self.group])

    @cached_property
    def _source(self) -> Graphs:
        return self.data.replace(adjacency=None) if self.use_series and not self.data.is_time_series else self.data

    @cached_property
    def X(self) -> NDArray[Any]:  # noqa: N802
        """Graphs ``(n_graphs, n_nodes, n_nodes)``, or an object array ``(n_graphs,)`` of time series."""
        return self._source.X

    @property
    def is_time_series(self) -> bool:
        """Whether ``X`` holds time series, which a first preparation step turns into graphs."""
        return self._source.is_time_series

    @property
    def labels(self) -> NDArray[np.int64]:
        """Class of each graph ``(n_graphs,)``, an index into the dataset's label names; -1 for none."""
        return self.data.labels

    @cached_property
    def labelled(self) -> NDArray[np.int64]:
        """Indices of the labelled graphs."""
        return np.flatnonzero(self.labels >= 0)

    @cached_property
    def unlabelled(self) -> NDArray[np.int64]:
        """Indices of the unlabelled graphs."""
        return np.flatnonzero(self.labels < 0)

    @cached_property
    def classes(self) -> NDArray[np.int64]:
        """The labels that occur, sorted."""
        return np.unique(self.labels[self.labelled])

    @property
    def class_names(self) -> list[str]:
        """The names of ``classes``."""
        return [self.data.label_names[code] for code in self.classes]

    @cached_property
    def subjects(self) -> NDArray[Any]:
        """The person of each graph ``(n_graphs,)``."""
        if self.group is None:
            return self.data.subjects
        if self.covariates is None or self.group not in self.covariates:
            raise InputError(f"The data have no covariate {self.group!r} to group graphs by.")
        persons: NDArray[Any] = self.covariates[self.group].to_numpy()
        return persons

    @cached_property
    def groups(self) -> NDArray[Any] | None:
        """``subjects`` if a person has several labelled graphs, else None."""
        persons = self.subjects[self.labelled]
        return self.subjects if len(np.unique(persons)) < len(persons) else None

    @property
    def sites(self) -> NDArray[Any] | None:
        return self.data.sites

    @cached_property
    def covariates(self) -> Any:
        """DataFrame of one row per graph, or None."""
        return self.data.covariates

    @property
    def folds(self) -> Sequence[NDArray[np.int64]]:
        """Test indices of each predefined fold; empty without predefined folds."""
        return self.data.folds


#: The data that this process used last. One dataset at a time may be all that fits into memory.
_LOADED: dict[tuple[Any, ...], Samples] = {}


@dataclass(frozen=True)
class DataSource:
    """How every worker process reads the dataset; all of it is JSON.

    Parameters
    ----------
    loader : str
        The import path of a function, ``"package.module:function"``. ``loader(**arguments)`` returns the dataset.
    digest : str
        The digest of the :class:`Samples` that jobs are planned for; others are refused.
    arguments : mapping
        JSON values. On a cluster, a path among them must be reachable from each machine.
    file : str or None
        The file that the loader reads. If it changes, it is read and checked again.
    group, use_series
        See :class:`Samples`.
    """

    loader: str
    digest: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    file: str | None = None
    group: str | None = None
    use_series: bool = False

    def load(self) -> Samples:
        """The data. A process reads them once, and again when the file has changed."""
        key = self._state()
        if key not in _LOADED:
            samples = self._read()
            self.keep(samples)
        return _LOADED[key]

    def keep(self, samples: Samples) -> None:
        """Use data that are in memory already, until the file changes."""
        _LOADED.clear()
        _LOADED[self._state()] = samples

    def _state(self) -> tuple[Any, ...]:
        """The source with the size, time and inode of its file."""
        identity: tuple[Any, ...] = (
            self.loader,
            self.digest,
            canonical_json(dict(self.arguments)),
            self.group,
            self.use_series,
        )
        if self.file is not None:
            with suppress(OSError):
                status = Path(self.file).stat()
                identity += (status.st_size, status.st_mtime_ns, status.st_ino)
        return identity

    def _read(self) -> Samples:
        if self.file is not None and not Path(self.file).exists():
            raise InputError(
                f"There is no {self.file} on this machine; the results folder must be reachable from every worker."
            )
        try:
            samples = Samples(pkgutil.resolve_name(self.loader)(**self.arguments), self.group, self.use_series)
            digest = samples.digest
        except Exception as error:  # a damaged archive can fail in any way
            if self.file is None:
                raise
            raise InputError(
                f"{self.file}, the copy of the data, is damaged or was changed after the jobs were planned ({error}). "
                "Run the benchmark again to write a new copy."
            ) from error
        if digest != self.digest:
            raise InputError(
                f"The data in {self.file or self.loader} have the digest {_short(digest)}, but the jobs were planned "
                f"for {_short(self.digest)}: the data changed. Start the benchmark again."
            )
        return samples


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]
