"""From what a reader found to BrainGraphs: one place where all formats are checked and mended.

A reader fills a :class:`Study` and notes problems in :class:`Findings` instead of stopping at the first one.
:func:`assemble` does the checks that every format needs.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.datasets.atlas import ATLASES, Atlas, load_atlas
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.labels import encode_labels
from isocapsnet.datasets.mending import fill_gaps, mend_series, mend_stack, mirror_triangles

# Of fewer, correlations are mostly noise: with 10, the 95 % interval around 0 reaches to 0.63.
_FEWEST_TIME_POINTS = 10


@dataclass
class Findings:
    """Everything noticed while reading: what is refused, what is worth a warning, what was mended, who is left out."""

    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    handled: dict[str, list[str]] = field(default_factory=dict)
    exclusions: dict[str, str] = field(default_factory=dict)

    def handle(self, what: str, where: str) -> None:
        """Record that something was mended in one place."""
        self.handled.setdefault(what, []).append(where)

    def raise_errors(self) -> None:
        """Refuse the data with the first error, saying how many more there are."""
        if self.errors:
            more = len(self.errors) - 1
            hint = f" ({more} more; `isocapsnet data check` lists them all.)" if more else ""
            raise InputError(self.errors[0] + hint)


@dataclass(frozen=True)
class Layout:
    """What is known of graphs that others must be like: their nodes, and whether edges have a direction."""

    n_nodes: int
    node_names: Sequence[str] | None = None
    directed: bool | None = None


@dataclass(frozen=True)
class ReadOptions:
    """How to read; the fields are explained at :func:`isocapsnet.datasets.readers.load_graphs`."""

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

    @property
    def known_n_nodes(self) -> int | None:
        """The number of nodes, where an option or the data to be like say it."""
        return self.n_nodes if self.n_nodes is not None or self.like is None else self.like.n_nodes


@dataclass
class Study:
    """What a reader found, before checks.

    ``matrices`` holds one matrix per subject, square or (n_timepoints, n_nodes), as a list or as one array
    ``(n_graphs, n_nodes, n_nodes)``; ``sources`` says where each came from, for the sentences. ``node_names`` is
    one sequence per subject where the files name their nodes. ``is_directed`` is ``None`` where the matrices are to
    tell: a triangle alone is then mirrored, unless other subjects' graphs have a direction.
    """

    matrices: Sequence[NDArray[Any]] | NDArray[Any]
    sources: Sequence[str]
    subjects: Sequence[str]
    labels: Sequence[Any] | None = None
    sites: Sequence[str] | None = None
    covariates: pd.DataFrame | None = None
    node_names: Sequence[Sequence[str] | None] | None = None
    coordinates: NDArray[Any] | None = None
    atlas_name: str = ""
    folds: Sequence[NDArray[Any]] = ()
    is_series: bool = False
    is_directed: bool | None = None


def assemble(study: Study, findings: Findings, *, atlas: str | None = None, name: str = "") -> BrainGraphs | None:
    """Check a study and make BrainGraphs of it; ``None`` when ``findings`` hold an error."""
    duplicates = [subject for subject, count in Counter(study.subjects).items() if count > 1]
    for subject in duplicates:
        where = [source for source, other in zip(study.sources, study.subjects, strict=True) if other == subject]
        findings.errors.append(
            f"Subject {subject!r} has {len(where)} matrices ({', '.join(where[:3])}); keep one, or choose with "
            "--select a part of the file name that only one of them has."
        )
    node_names: Sequence[str] | None = None
    matrices: Any = study.matrices
    if isinstance(matrices, np.ndarray):
        matrices = mend_stack(matrices, study.sources, findings, may_mirror=study.is_directed is None)
        node_names = study.node_names[0] if study.node_names else None
    elif len(matrices) == len(study.sources):  # else the reader has noted why not
        mend = mend_series if study.is_series else fill_gaps
        matrices = [mend(one, source, findings) for one, source in zip(matrices, study.sources, strict=True)]
        if not study.is_series and study.is_directed is None:  # a triangle is one in the order of its own file
            matrices = mirror_triangles(matrices, study.sources, findings)
        matrices, node_names = _align_nodes(matrices, study, findings)
        _check_shapes(matrices, study, findings)
    codes, label_names = _encode(study, findings)
    if findings.errors:
        return None
    if isinstance(matrices, list) and not study.is_series:
        matrices = np.stack(matrices)
    n_nodes = matrices[0].shape[1]
    return BrainGraphs(
        None if study.is_series else matrices,
        codes,
        label_names=label_names,
        subjects=study.subjects,
        sites=study.sites,
        covariates=study.covariates,
        time_series=matrices if study.is_series else None,
        atlas=_find_atlas(atlas, node_names, study, n_nodes, name),
        folds=study.folds,
        exclusions=findings.exclusions,
        handled=findings.handled,
        name=name,
    )


def _align_nodes(
    matrices: list[NDArray[Any]], study: Study, findings: Findings
) -> tuple[list[NDArray[Any]], Sequence[str] | None]:
    """Bring matrices whose files name their nodes into one node order."""
    named: list[Sequence[str]] = [names for names in study.node_names or () if names is not None]
    if len(named) < len(matrices) or not named:
        if any(list(names) != list(named[0]) for names in named):
            findings.errors.append(
                "Some files name their nodes, in different orders, and others do not; name all nodes."
            )
        return matrices, None
    longest = max(named, key=len)
    reference = list(longest)
    index = {node: i for i, node in enumerate(reference)}
    aligned = []
    for matrix, names, source in zip(matrices, named, study.sources, strict=True):
        unknown = [node for node in names if node not in index]
        if unknown or len(set(names)) != len(names):
            findings.errors.append(
                f"{source} names nodes that the other files do not have ({', '.join(unknown[:3]) or 'one twice'}); "
                "all subjects need the same atlas."
            )
        elif list(names) != reference and (study.is_series or len(matrix) == len(names)):
            order = [index[node] for node in names]
            full = np.zeros((len(matrix) if study.is_series else len(reference), len(reference)))
            full[(slice(None), order) if study.is_series else np.ix_(order, order)] = matrix
            matrix = full
            missing = len(reference) - len(names)
            findings.handle("nodes absent from the file kept without edges" if missing else "nodes reordered", source)
        aligned.append(matrix)
    return aligned, reference


def _check_shapes(matrices: Sequence[NDArray[Any]], study: Study, findings: Findings) -> None:
    """Refuse files of other node counts."""
    common = Counter(matrix.shape[1] for matrix in matrices).most_common(1)
    for matrix, source in zip(matrices, study.sources, strict=True):
        rows, columns = matrix.shape
        if not study.is_series and rows != columns:
            findings.errors.append(f"{source} holds {rows} x {columns} values; an adjacency matrix must be square.")
        elif columns != common[0][0]:
            findings.errors.append(
                f"{source} has {columns} nodes but most files have {common[0][0]}; all subjects need the same atlas."
            )
        elif study.is_series and rows < _FEWEST_TIME_POINTS:
            findings.errors.append(
                f"{source} has {rows} time points; at least {_FEWEST_TIME_POINTS} are needed for correlations."
            )
    if study.is_series and matrices and (shorter := sum(rows < columns for rows, columns in map(np.shape, matrices))):
        findings.warnings.append(
            f"{shorter} of {len(matrices)} time series have fewer time points than nodes; their correlations are "
            "singular. Are rows time points?"
        )


def _encode(study: Study, findings: Findings) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Class codes and names; labels that cannot name classes are refused."""
    labels = [None] * len(study.subjects) if study.labels is None else list(study.labels)
    try:
        codes, names = encode_labels(labels)
    except InputError as error:
        findings.errors.append(str(error))
        return np.zeros(0, dtype=np.int64), ()
    n_unlabelled = int((codes < 0).sum())
    if n_unlabelled and names:
        findings.warnings.append(f"{n_unlabelled} of {len(codes)} subjects have no label; they are kept as unlabelled.")
    if len(names) == 1:
        findings.warnings.append(f"All labels are {names[0]!r}; a classifier needs two classes.")
    for name, count in zip(names, np.bincount(codes[codes >= 0], minlength=len(names)), strict=True):
        if count < 3:
            findings.warnings.append(f"Class {name!r} has {count} subject(s); 3-fold cross-validation needs 3.")
    return codes, names


def _find_atlas(
    asked: str | None, node_names: Sequence[str] | None, study: Study, n_nodes: int, name: str
) -> Atlas | None:
    """The atlas asked for, else the nodes' own names, else a known atlas that the data are named after."""
    if asked is not None:
        return load_atlas(asked)
    if study.coordinates is not None or node_names is not None:
        known = next((a for a in map(load_atlas, ATLASES) if list(a.node_names) == list(node_names or ())), None)
        names = node_names or [str(i) for i in range(1, n_nodes + 1)]
        return known or Atlas(names, study.coordinates, name=study.atlas_name)
    named = [a for a in ATLASES if a in f"{study.atlas_name} {name}".lower() and ATLASES[a][1] == n_nodes]
    return load_atlas(named[0]) if named else None
