"""What every reader shares: the options, the record of what was noticed, and the way to :class:`BrainGraphs`.

A :class:`Reader` is one file in ``formats/`` and one line in ``READERS`` of :mod:`~isocapsnet.datasets.readers`. It
collects matrices and what is known about their subjects, notes problems in :class:`Findings` instead of stopping at the
first one, and ends with :func:`assemble`, which applies exclusions, mends, aligns, checks and builds the dataset.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.datasets.atlas import Layout, find_atlas, layout_of, load_atlas
from isocapsnet.datasets.fields import encode_labels, select_folds
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.isolation import ReadLimit
from isocapsnet.datasets.mending import mend_and_align


@dataclass
class Findings:
    """Everything noticed while reading: errors, warnings, what was mended and where, who was left out and why."""

    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    handled: dict[str, list[str]] = field(default_factory=dict)
    exclusions: dict[str, str] = field(default_factory=dict)

    def handle(self, what: str, where: str) -> None:
        """Record that something was mended in one file."""
        self.handled.setdefault(what, []).append(where)

    def exclude(self, names: Iterable[str], subjects: Sequence[str]) -> NDArray[np.int64]:
        """Record the subjects that the user leaves out, and return the indices of the others.

        A name may have the BIDS prefix ``sub-``. Names that no subject has are refused.
        """
        excluded = {name if name in subjects else name.removeprefix("sub-") for name in names}
        if missing := sorted(excluded.difference(subjects, self.exclusions)):
            example = f"; subjects are called {subjects[0]!r}, for example" if len(subjects) else ""
            raise InputError(f"There is no subject {missing[0]!r} to exclude{example}.")
        self.exclusions |= dict.fromkeys(sorted(excluded.intersection(subjects)), "excluded on request")
        return np.flatnonzero([subject not in excluded for subject in subjects])

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note an error and leave the block, instead of stopping the reader."""
        try:
            yield
        except InputError as error:
            self.errors.append(str(error))


def as_names(names: str | Iterable[Any]) -> tuple[str, ...]:
    """One name or several as a tuple."""
    return (names,) if isinstance(names, str) else tuple(map(str, names))


@dataclass(frozen=True)
class ReadOptions:
    """How to read; the fields are explained at :func:`isocapsnet.datasets.readers.load_graphs`.

    One name instead of several, the text of a path, and data instead of their layout are converted.
    """

    target: str | None = None
    site: str | None = None
    covariates: Sequence[str] | None = None
    participants: Path | None = None
    select: Sequence[str] = ()
    exclude: Sequence[str] = ()
    kind: Literal["auto", "graphs", "edges", "series"] = "auto"
    atlas: str | None = None
    n_nodes: int | None = None
    index_base: Literal[0, 1] | None = None
    directed: bool | None = None
    like: Layout | None = None
    read_limit: int | None = None

    def __post_init__(self) -> None:
        plain: dict[str, Any] = {name: as_names(getattr(self, name)) for name in ("select", "exclude")}
        if self.covariates is not None:
            plain["covariates"] = as_names(self.covariates)
        if self.participants is not None:
            plain["participants"] = Path(self.participants)
        if isinstance(self.like, BrainGraphs):
            plain["like"] = layout_of(self.like)
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    @property
    def expected_n_nodes(self) -> int | None:
        """The number of nodes, if ``n_nodes`` or ``like`` gives it."""
        return self.n_nodes if self.n_nodes is not None or self.like is None else self.like.n_nodes


#: Options that name columns, and those that only folders of files need.
COLUMN_OPTIONS = ("target", "site", "covariates")
FOLDER_OPTIONS = ("participants", "select", "kind", "index_base", "directed")


@dataclass(frozen=True)
class Reader:
    """A format that :func:`~isocapsnet.datasets.readers.load_graphs` reads.

    Parameters
    ----------
    recognise : callable
        ``recognise(source)`` says whether a source has this format. The source is a Path, or any object that is not a
        path.
    read : callable
        ``read(source, options, findings, limit)`` returns what :func:`assemble` returns.
    options : tuple of str
        The ``COLUMN_OPTIONS`` and ``FOLDER_OPTIONS`` that the reader uses. The others are refused.
    """

    recognise: Callable[[Any], bool]
    read: Callable[[Any, ReadOptions, Findings, ReadLimit], BrainGraphs | None]
    options: tuple[str, ...] = ()


def assemble(
    matrices: Sequence[NDArray[Any]] | NDArray[Any],
    subjects: Sequence[str],
    options: ReadOptions,
    findings: Findings,
    *,
    sources: Sequence[str] | None = None,
    labels: Sequence[Any] | None = None,
    sites: Sequence[str] | None = None,
    covariates: pd.DataFrame | None = None,
    node_names: Sequence[Sequence[str] | None] | None = None,
    coordinates: NDArray[Any] | None = None,
    atlas_name: str = "",
    folds: Sequence[NDArray[Any]] = (),
    is_series: bool = False,
    is_directed: bool | None = None,
    name: str = "",
) -> BrainGraphs | None:
    """Build BrainGraphs from the data that a reader collected; ``None`` if ``findings`` have an error.

    Parameters
    ----------
    matrices : sequence of arrays, or array (n_graphs, n_nodes, n_nodes)
        One per subject, square or (n_timepoints, n_nodes).
    subjects : sequence of str
    options, findings : ReadOptions, Findings
        As the reader was given them.
    sources : sequence of str, optional
        Source of each matrix, for messages; by default the subject.
    node_names : sequence, optional
        One sequence of names per subject; ``None`` if a file does not name its nodes.
    coordinates, atlas_name : optional
        Of the nodes, used if no atlas is given.
    is_series : bool
        Whether the matrices are time series.
    is_directed : bool, optional
        Whether edges are directed. If not given, a single triangle is mirrored unless other graphs are directed.
    labels, sites, covariates, folds, name
        As in :class:`BrainGraphs`.
    """
    subjects = [str(subject) for subject in subjects]
    for what, values in (("matrices", matrices), ("labels", labels), ("sites", sites), ("covariates", covariates)):
        if values is not None and len(values) != len(subjects) and not findings.errors:
            counts = f"{len(subjects)} subjects but {len(values)} {what}"
            findings.errors.append(f"{name or 'The data'}: there are {counts}.")
            return None
    kept = findings.exclude(options.exclude, subjects)
    sources = _take([f"subject {subject}" for subject in subjects] if sources is None else sources, kept)
    labels, sites, node_names = (_take(values, kept) for values in (labels, sites, node_names))
    if len(kept) < len(subjects):
        matrices = matrices[kept] if isinstance(matrices, np.ndarray) else _take(matrices, kept)
        folds = select_folds(folds, kept)
        covariates = None if covariates is None else covariates.iloc[kept]
        subjects = _take(subjects, kept)
    if not len(subjects) and not findings.errors:
        findings.errors.append(f"{name or 'The data'}: no subject is left to read.")
    _check_unique(subjects, sources, findings)
    may_mirror = is_directed is None and not (options.like is not None and options.like.directed)
    matrices, common_names = mend_and_align(matrices, node_names, sources, findings, is_series, may_mirror=may_mirror)
    codes, label_names = _encode(labels, len(subjects), findings)
    if findings.errors:
        return None
    atlas = None if options.atlas is None else load_atlas(options.atlas)
    return BrainGraphs(
        None if is_series else np.stack(matrices) if isinstance(matrices, list) else matrices,
        codes,
        label_names=label_names,
        subjects=subjects,
        sites=sites,
        covariates=covariates,
        time_series=list(matrices) if is_series else None,
        atlas=atlas or find_atlas(common_names, coordinates, matrices[0].shape[1], atlas_name, name),
        folds=folds,
        exclusions=findings.exclusions,
        handled=findings.handled,
        name=name,
    )


def apply_options(data: BrainGraphs, options: ReadOptions, findings: Findings) -> BrainGraphs:
    """Apply options to a dataset that was built before; columns are its covariates."""
    covariates = pd.DataFrame() if data.covariates is None else data.covariates
    target = None if options.target == "labels" else options.target
    wanted = [column for column in (target, options.site, *(options.covariates or ())) if column]
    if missing := [column for column in wanted if column not in covariates]:
        columns = ", ".join(map(str, covariates)) or "none"
        raise InputError(f"{data.name or 'The data'} has no covariate {missing[0]!r}; it has {columns}.")
    changes: dict[str, Any] = {}
    if target:
        changes |= {"labels": covariates[target].tolist(), "label_names": None}
    if options.site:
        changes["sites"] = covariates[options.site].tolist()
    if options.covariates:
        changes["covariates"] = covariates[list(options.covariates)]
    if options.atlas is not None:
        changes["atlas"] = load_atlas(options.atlas)
    data = data.replace(**changes) if changes else data
    findings.handled |= {what: list(where) for what, where in data.handled.items()}
    findings.exclusions |= data.exclusions
    if options.exclude:
        data = data.subset(findings.exclude(options.exclude, data.subjects.tolist()))
        data = data.replace(exclusions=findings.exclusions)
    return data


def _take(values: Any, index: NDArray[np.int64]) -> Any:
    return None if values is None else [values[i] for i in index]


def _check_unique(subjects: Sequence[str], sources: Sequence[str], findings: Findings) -> None:
    for subject in (subject for subject, count in Counter(subjects).items() if count > 1):
        where = [source for source, other in zip(sources, subjects, strict=True) if other == subject]
        problem = f"Subject {subject!r} has {len(where)} matrices"
        if len(set(where)) > 1:  # of several files, one can be chosen
            problem += f" ({', '.join(where[:3])}); choose one with select= by a part of its file name"
        findings.errors.append(f"{problem}, or keep one of them.")


def _encode(
    labels: Sequence[Any] | None, n_subjects: int, findings: Findings
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Class codes and names, with warnings about small classes; no classes if the labels cannot be used."""
    codes: NDArray[np.int64] = np.full(n_subjects, -1)
    names: tuple[str, ...] = ()
    if labels is not None:
        with findings.noting():
            codes, names = encode_labels(labels)
    n_unlabelled = int((codes < 0).sum())
    if n_unlabelled and names:
        findings.warnings.append(f"{n_unlabelled} of {len(codes)} subjects have no label; they are kept as unlabelled.")
    if len(names) == 1:
        findings.warnings.append(f"All labels are {names[0]!r}; a classifier needs two classes.")
    for name, count in zip(names, np.bincount(codes[codes >= 0], minlength=len(names)), strict=True):
        if count < 3:
            findings.warnings.append(f"Class {name!r} has {count} subject(s); 3-fold cross-validation needs 3.")
    return codes, names
