"""What every reader shares: the options, the record of what was noticed, and the way to :class:`BrainGraphs`.

A :class:`Reader` is one file in ``formats/`` and one line in ``READERS`` of :mod:`~isocapsnet.datasets.readers`. It
collects matrices and what is known about their subjects, notes problems in :class:`Findings` instead of stopping at the
first one, and ends with :func:`assemble`, which applies exclusions, mends, aligns, checks and builds the dataset.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.datasets.atlas import (
    Atlas,
    Layout,
    are_numbered,
    check_networks,
    find_atlas,
    fit_atlas,
    layout_of,
    load_atlas,
)
from isocapsnet.datasets.fields import check_sites, encode_labels, missing_words, select_folds
from isocapsnet.datasets.findings import Findings
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.identifiers import check_unique, read_list
from isocapsnet.datasets.isolation import ReadLimit
from isocapsnet.datasets.mending import mend_and_align, mend_covariates


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
    participants: Path | pd.DataFrame | None = None
    where: Sequence[str] = ()
    array: str | None = None
    subjects: str | Path | Sequence[str] | None = None
    select: Sequence[str] = ()
    exclude: Sequence[str] = ()
    skip_refused: bool = False
    kind: Literal["auto", "graphs", "edges", "series"] = "auto"
    atlas: str | Path | Atlas | None = None
    n_nodes: int | None = None
    index_base: Literal[0, 1] | None = None
    directed: bool | None = None
    triangle: Literal["upper", "lower"] | None = None
    regions: Path | None = None
    max_missing: float | None = None
    like: Layout | None = None
    read_limit: int | None = None

    def __post_init__(self) -> None:
        plain: dict[str, Any] = {name: as_names(getattr(self, name)) for name in ("select", "where")}
        names = [[name] if name[:1] != "@" else read_list(name[1:]) for name in as_names(self.exclude)]
        plain["exclude"] = tuple(chain.from_iterable(names))
        if self.covariates is not None:
            plain["covariates"] = as_names(self.covariates)
        for name in ("participants", "regions"):
            if isinstance(value := getattr(self, name), str):
                plain[name] = Path(value)
        if isinstance(self.like, BrainGraphs):
            plain["like"] = layout_of(self.like)
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    def given(self, names: Iterable[str]) -> list[str]:
        """Those of the options that were given."""

        def is_default(value: Any) -> bool:
            return value is None or (isinstance(value, str | tuple) and value in ("auto", ()))

        return [name for name in names if not is_default(getattr(self, name))]

    @property
    def expected_n_nodes(self) -> int | None:
        """The number of nodes, if ``n_nodes`` or ``like`` gives it."""
        return self.n_nodes if self.n_nodes is not None or self.like is None else self.like.n_nodes


#: Options that name columns; those about a table of subjects beside the graphs; those that only some files need.
COLUMN_OPTIONS = ("target", "site", "covariates")
TABLE_OPTIONS = ("participants", "where", "subjects")
FOLDER_OPTIONS = (*TABLE_OPTIONS, "array", "select", "kind", "index_base", "directed", "regions", "max_missing")
FILE_OPTIONS = (*FOLDER_OPTIONS, "triangle")
#: The share of regions that a subject may lack unless another is given.
MAX_MISSING = 0.5


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
        The ``COLUMN_OPTIONS`` and ``FILE_OPTIONS`` that the reader uses. The others are refused.
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
    node_order: Sequence[str] | None = None,
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
    node_order : sequence of str, optional
        The names of all nodes; by default those of the file that names most, which must have all others.
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
    sources = [f"subject {name}" for name in map(findings.name_of, subjects)] if sources is None else sources
    findings.subjects |= dict(zip(sources, subjects, strict=False))
    kept = findings.exclude(options.exclude, subjects)
    findings.name_exclusions()
    sources = _take(sources, kept)
    labels, sites, node_names = (_take(values, kept) for values in (labels, sites, node_names))
    if len(kept) < len(subjects):
        matrices = matrices[kept] if isinstance(matrices, np.ndarray) else _take(matrices, kept)
        folds = select_folds(folds, kept)
        covariates = None if covariates is None else covariates.iloc[kept]
        subjects = _take(subjects, kept)
    if not len(subjects) and not findings.errors:
        findings.errors.append(f"{name or 'The data'}: no subject is left to read.")
    check_unique(subjects, sources, findings)
    may_mirror = is_directed is None and not (options.like is not None and options.like.directed)
    matrices, common_names = mend_and_align(
        matrices,
        node_names,
        sources,
        findings,
        is_series,
        may_mirror=may_mirror,
        node_order=node_order,
        max_missing=MAX_MISSING if options.max_missing is None else options.max_missing,
    )
    codes, label_names = _encode(labels, len(subjects), findings)
    if findings.errors:
        return None
    n_nodes = matrices[0].shape[1]
    atlas = None if options.atlas is None else fit_atlas(load_atlas(options.atlas), common_names, n_nodes)
    if atlas is not None and (common_names is None or are_numbered(common_names)):
        check_networks(atlas, [name, *sources])
    return BrainGraphs(
        None if is_series else np.stack(matrices) if isinstance(matrices, list) else matrices,
        codes,
        label_names=label_names,
        subjects=subjects,
        identifiers=[*map(findings.name_of, subjects)],
        sites=sites,
        covariates=None if covariates is None else mend_covariates(covariates, findings),
        time_series=list(matrices) if is_series else None,
        atlas=atlas or find_atlas(common_names, coordinates, n_nodes, atlas_name),
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
        names = None if data.atlas is None else data.atlas.node_names
        changes["atlas"] = fit_atlas(load_atlas(options.atlas), names, data.n_nodes)
    data = data.replace(**changes) if changes else data
    findings.handled |= {what: list(where) for what, where in data.handled.items()}
    findings.exclusions |= data.exclusions
    findings.identifiers |= dict(zip(data.subjects.tolist(), data.identifiers.tolist(), strict=True))
    if options.exclude:
        data = data.subset(findings.exclude(options.exclude, data.subjects.tolist()))
        findings.name_exclusions()
        data = data.replace(exclusions=findings.exclusions)
    if data.sites is not None:
        remedy = "give it one name with data.replace(sites=...); BrainGraphs.load(path) opens a saved dataset as it is"
        check_sites(np.unique(data.sites).tolist(), remedy)
    return data


def _take(values: Any, index: NDArray[np.int64]) -> Any:
    return None if values is None else [values[i] for i in index]


def _encode(
    labels: Sequence[Any] | None, n_subjects: int, findings: Findings
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Class codes and names, with warnings about small classes; no classes if the labels cannot be used."""
    codes: NDArray[np.int64] = np.full(n_subjects, -1)
    names: tuple[str, ...] = ()
    if labels is not None:
        with findings.noting():
            codes, names = encode_labels(labels)
        for word, count in missing_words(labels).items():
            findings.handle(f"{word!r} among the labels taken for a missing label", f"{count} subjects")
    n_unlabelled = int((codes < 0).sum())
    if n_unlabelled and names:
        findings.warnings.append(f"{n_unlabelled} of {len(codes)} subjects have no label; they are kept as unlabelled.")
    if len(names) == 1:
        findings.warnings.append(f"All labels are {names[0]!r}; a classifier needs two classes.")
    for name, count in zip(names, np.bincount(codes[codes >= 0], minlength=len(names)), strict=True):
        if count < 3:
            findings.warnings.append(f"Class {name!r} has {count} subject(s); 3-fold cross-validation needs 3.")
    return codes, names
