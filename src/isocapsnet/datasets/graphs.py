"""BrainGraphs: connectomes with the data of their subjects, and a record of how they were read."""

import copy
import html
import inspect
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from isocapsnet._safe_text import list_some, printable
from isocapsnet._validation import InputError, check_graphs
from isocapsnet.datasets import fields
from isocapsnet.datasets.archive import read_archive, write_archive
from isocapsnet.datasets.atlas import Atlas
from isocapsnet.datasets.identifiers import find_persons
from isocapsnet.datasets.isolation import ReadLimit
from isocapsnet.datasets.passport import format_passport, make_passport
from isocapsnet.datasets.storage import from_arrays, is_saved, to_arrays


class BrainGraphs:
    """Brain graphs with labels, subjects and a passport; immutable.

    Parameters
    ----------
    adjacency : array (n_graphs, n_nodes, n_nodes), optional
        Held as a read-only view, never copied: do not write to the array that was passed. May be memory-mapped.
        May be absent when ``time_series`` is given; graphs are then made inside a fold.
    labels : array-like (n_graphs,), optional
        A class per graph; ``None``, NaN or an empty text mark an unlabelled graph. With ``label_names`` these are
        codes already: indices into the names, -1 for an unlabelled graph.
    label_names : sequence of str, optional
        Names of the classes.
    subjects : sequence of str (n_graphs,), optional
        Unique identifiers; by default numbers.
    identifiers : sequence of str (n_graphs,), optional
        Subjects as their table or files call them, such as sub-01 for 01: in tables and messages, not in the digest.
    sites : sequence of str (n_graphs,), optional
        Acquisition sites.
    covariates : DataFrame (n_graphs, n_covariates), optional
        Numbers are kept as float64, everything else as text; NaN and empty texts are missing values.
    time_series : sequence of arrays (n_timepoints, n_nodes), optional
        The number of time points may differ between subjects.
    atlas : Atlas, optional
        Names and coordinates of the nodes.
    folds : sequence of int arrays, optional
        Predefined test sets: indices of graphs.
    exclusions : mapping, optional
        Excluded subjects, with the reason.
    handled : mapping, optional
        What was corrected while reading, and where.
    name : str, optional
        The name of the dataset in tables and reports.

    Attributes
    ----------
    labels : ndarray of int (n_graphs,)
        Indices into ``label_names``; -1 for an unlabelled graph.
    label_names : tuple of str
        In the order of the labels' values (numbers by size), so that the last name is the "positive" class.
    """

    adjacency: NDArray[Any] | None
    labels: NDArray[np.int64]
    label_names: tuple[str, ...]
    subjects: NDArray[np.str_]
    identifiers: NDArray[np.str_]
    sites: NDArray[np.str_] | None
    time_series: tuple[NDArray[Any], ...] | None
    atlas: Atlas | None
    folds: tuple[NDArray[np.int64], ...]
    exclusions: Mapping[str, str]
    handled: Mapping[str, tuple[str, ...]]
    name: str

    def __init__(
        self,
        adjacency: ArrayLike | None = None,
        labels: ArrayLike | Sequence[Any] | None = None,
        *,
        label_names: Sequence[str] | None = None,
        subjects: Sequence[str] | NDArray[Any] | None = None,
        identifiers: Sequence[str] | NDArray[Any] | None = None,
        sites: Sequence[str] | NDArray[Any] | None = None,
        covariates: pd.DataFrame | None = None,
        time_series: Sequence[ArrayLike] | None = None,
        atlas: Atlas | None = None,
        folds: Sequence[ArrayLike] = (),
        exclusions: Mapping[str, str] | None = None,
        handled: Mapping[str, Sequence[str]] | None = None,
        name: str = "",
    ) -> None:
        graphs = None if adjacency is None else fields.read_only(check_graphs(adjacency, name="adjacency"))
        series = None if time_series is None else fields.check_series(time_series)
        n_graphs = fields.count_graphs(graphs, series)
        subject_ids = fields.check_subjects(range(1, n_graphs + 1) if subjects is None else subjects, n_graphs)
        shown_ids = fields.check_texts("identifiers", subject_ids if identifiers is None else identifiers, n_graphs)
        codes, names = fields.check_codes(labels, label_names, n_graphs)
        self.__dict__.update(
            adjacency=graphs,
            time_series=series,
            labels=fields.read_only(codes),
            label_names=names,
            subjects=subject_ids,
            identifiers=shown_ids,
            sites=None if sites is None else fields.check_texts("sites", sites, n_graphs),
            _covariates=None if covariates is None else fields.check_covariates(covariates, shown_ids),
            atlas=atlas,
            folds=tuple(fields.check_fold(i, fold, n_graphs) for i, fold in enumerate(folds, start=1)),
            exclusions=MappingProxyType(dict(exclusions or {})),
            handled=MappingProxyType({what: tuple(where) for what, where in (handled or {}).items()}),
            name=name,
        )
        if atlas is not None and len(atlas) != self.n_nodes:
            raise InputError(f"Atlas {atlas.name!r} has {len(atlas)} nodes but the graphs have {self.n_nodes}.")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"BrainGraphs is immutable; use replace({name}=...) to get a changed copy.")

    def __len__(self) -> int:
        return len(self.subjects)

    def _facts(self) -> dict[str, str]:
        """What the representations say."""
        classes = [f"{name}: {count}" for name, count in zip(self.label_names, self.class_counts, strict=True)]
        sites = [] if self.sites is None else np.unique(self.sites).tolist()
        atlas = "" if self.atlas is None else self.atlas.name or "named nodes"
        facts = {"nodes": str(self.n_nodes), "classes": list_some(classes), "sites": list_some(sites), "atlas": atlas}
        return {"time series" if self.is_time_series else "graphs": str(len(self))} | facts

    def __str__(self) -> str:
        (kind, number), *_ = (facts := self._facts()).items()
        size = f"{number} {kind} of {facts['nodes']} nodes"
        return printable(f"{self.name or 'unnamed'}: {size}; {facts['classes'] or 'no labels'}")

    def __repr__(self) -> str:
        return f"BrainGraphs({self})"

    def _repr_html_(self) -> str:
        rows = [(what, html.escape(printable(fact))) for what, fact in self._facts().items() if fact]
        cells = "".join(f"<tr><th>{what}</th><td>{fact}</td></tr>" for what, fact in rows)
        return f"<table><caption>{html.escape(printable(self.name or 'BrainGraphs'))}</caption>{cells}</table>"

    def __getitem__(self, selection: Any) -> Self:
        """Some of the graphs: a slice, indices, a mask, or names of subjects (one or a list)."""
        if isinstance(selection, slice):
            return self.subset(np.arange(len(self))[selection])
        chosen = np.atleast_1d(np.asarray(selection))
        if chosen.dtype.kind == "U":
            names = [*self.identifiers.tolist(), *self.subjects.tolist()]
            index = {name: i % len(self) for i, name in enumerate(names)}
            if missing := [name for name in chosen.tolist() if name not in index]:
                raise InputError(f"There is no subject {missing[0]!r}; the first is {str(self.identifiers[0])!r}.")
            chosen = np.array([index[name] for name in chosen.tolist()])
        return self.subset(chosen)

    def to_dataframe(self) -> pd.DataFrame:
        """One row per graph: ``subject``, ``label`` (the name of its class), ``site`` and the covariates."""
        names = np.array([*self.label_names, None], dtype=object)  # code -1 is the last
        columns = {"subject": self.identifiers, "label": names[self.labels]}
        frame = pd.DataFrame(columns if self.sites is None else columns | {"site": self.sites})
        covariates = self.covariates
        return frame if covariates is None else pd.concat([frame, covariates.reset_index(drop=True)], axis=1)

    @property
    def n_nodes(self) -> int:
        """Nodes of each graph."""
        return int(self.adjacency.shape[1] if self.adjacency is not None else (self.time_series or ())[0].shape[1])

    @property
    def X(self) -> NDArray[Any]:  # noqa: N802
        """What a pipeline is fitted to: the adjacency, else an object array ``(n_graphs,)`` of time series.

        A time series is an array ``(n_times, n_nodes)``; their lengths may differ.
        """
        if self.adjacency is not None:
            return self.adjacency
        series = np.empty(len(self), dtype=object)
        series[:] = self.time_series
        return series

    @property
    def is_time_series(self) -> bool:
        """Whether there are only time series, which the first step of a pipeline converts to graphs."""
        return self.adjacency is None

    @property
    def covariates(self) -> pd.DataFrame | None:
        """A copy of the covariates ``(n_graphs, n_covariates)``, indexed by ``identifiers``."""
        frame: pd.DataFrame | None = self.__dict__["_covariates"]
        return None if frame is None else frame.copy()

    @property
    def persons(self) -> NDArray[np.str_]:
        """The person of each graph ``(n_graphs,)``: the subject, unless names say that several graphs are of one."""
        persons = find_persons(self.subjects.tolist())
        return self.subjects if len({*persons}) == len(persons) else np.array(persons)

    @property
    def is_labelled(self) -> NDArray[np.bool_]:
        """Which graphs have a label ``(n_graphs,)``."""
        return self.labels >= 0

    @property
    def class_counts(self) -> NDArray[np.int64]:
        """Labelled graphs of each class ``(n_classes,)``."""
        return np.bincount(self.labels[self.is_labelled], minlength=len(self.label_names))

    @property
    def passport(self) -> dict[str, Any]:
        """A copy of the passport: plain JSON values with the content digest."""
        return copy.deepcopy(self._passport)

    @cached_property
    def _passport(self) -> dict[str, Any]:
        passport = make_passport(self)
        saved = self.__dict__.get("_saved_digest")
        if saved is not None and saved != passport["digest"]:
            raise InputError(
                f"{self.name}: the file was changed after it was saved (its digest was {saved} and is now "
                f"{passport['digest']}); convert the original data again."
            )
        return passport

    def digest(self) -> str:
        """The content digest of the passport: equal data, equal digest."""
        return str(self._passport["digest"])

    def describe(self) -> str:
        """The passport as text that can be printed."""
        return "\n".join(f"{what:<17} {printable(value)}" for what, value in format_passport(self._passport))

    def replace(self, **changes: Any) -> Self:
        """A copy with ``changes`` of constructor arguments."""
        names = {*inspect.signature(type(self)).parameters} - ({"identifiers"} if "subjects" in changes else set())
        return type(self)(**{name: getattr(self, name) for name in names} | changes)

    def subset(self, selection: ArrayLike, *, reason: str | None = None) -> Self:
        """The graphs of a ``selection``: indices, in that order, or a mask of ``n_graphs``.

        Folds keep the graphs that remain. With a ``reason``, the others are recorded as exclusions.
        """
        index = np.asarray(selection)
        if index.dtype == bool:
            if index.shape != (len(self),):
                raise InputError(f"The mask has shape {index.shape}; there are {len(self)} graphs.")
            index = np.flatnonzero(index)
        if index.size == 0:
            raise InputError("The selection is empty; a dataset needs at least one graph.")
        if index.ndim != 1 or index.dtype.kind not in "iu":
            raise InputError(f"A selection must be indices, a mask or names, not {index.dtype} of shape {index.shape}.")
        index = np.arange(len(self))[index]
        # A slice if indices are consecutive, so that a subset of a memory map stays one.
        rows = slice(int(index[0]), int(index[-1]) + 1) if (np.diff(index) == 1).all() else index
        covariates = self.covariates
        exclusions = dict(self.exclusions)
        if reason is not None:
            exclusions |= dict.fromkeys(np.delete(self.identifiers, index).tolist(), reason)
        return self.replace(
            adjacency=None if self.adjacency is None else self.adjacency[rows],
            labels=self.labels[index],
            subjects=self.subjects[index],
            identifiers=self.identifiers[index],
            sites=None if self.sites is None else self.sites[index],
            covariates=None if covariates is None else covariates.iloc[index],
            time_series=None if self.time_series is None else [self.time_series[i] for i in index],
            folds=fields.select_folds(self.folds, index),
            exclusions=exclusions,
        )

    def save(self, path: str | Path) -> None:
        """Write everything to ``path``, an ``.npz`` without pickles that :meth:`load` maps instead of reading."""
        path = Path(path)
        if path.suffix != ".npz":
            raise InputError(f"{path.name} does not end in .npz; graphs are saved as .npz.")
        write_archive(path, to_arrays(self))

    @classmethod
    def load(cls, path: str | Path, *, read_limit: int | None = None) -> Self:
        """Open ``path``, which :meth:`save` wrote.

        Large arrays are memory-mapped; the digest is checked with the passport. ``read_limit`` as in ``load_graphs``.
        """
        path = Path(path)
        arrays = read_archive(path, ReadLimit(read_limit), own=True)
        if not is_saved(arrays):
            raise InputError(f"{path.name} was not saved by BrainGraphs.save; read it with load_graphs.")
        return cls.from_arrays(arrays, path.name)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], where: str) -> Self:
        """The inverse of :meth:`save`, on the arrays of the archive ``where``."""
        arguments, digest = from_arrays(arrays, where)
        data = cls(**arguments)
        data.__dict__["_saved_digest"] = digest
        return data
