"""Corrections of graphs and time series while they are read, which are recorded, and gaps that are refused."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isocapsnet._safe_text import list_some
from isocapsnet.datasets.atlas import are_numbered
from isocapsnet.datasets.fields import MISSING_CODES, find_spellings
from isocapsnet.datasets.formats.text import is_counting

if TYPE_CHECKING:
    from isocapsnet.datasets.findings import Findings

_Graphs = TypeVar("_Graphs", NDArray[Any], list[NDArray[Any]])
# With 10 time points, the 95 % interval of a correlation of 0 reaches to 0.63; with fewer, correlations are noise.
_MIN_TIME_POINTS = 10
_CODE_TEXTS = [text.format(code) for code in MISSING_CODES for text in ("{:.0f}", "{:.1f}")]
_NUMBERED = re.compile(r"^(?:[vx]|var|col(?:umn)?[ _]?)(?=\d)", re.IGNORECASE)


def mend_and_align(
    matrices: Any,
    node_names: Sequence[Sequence[str] | None] | None,
    sources: Sequence[str],
    findings: "Findings",
    is_series: bool,
    *,
    may_mirror: bool,
    node_order: Sequence[str] | None,
    max_missing: float,
) -> tuple[Any, Sequence[str] | None]:
    """Matrices without gaps, with their nodes in one order, and the names of the nodes if they have names."""
    if isinstance(matrices, np.ndarray):
        return mend_graphs(matrices, sources, findings, may_mirror=may_mirror), node_names[0] if node_names else None
    if len(matrices) != len(sources):  # the reader has noted an error
        return matrices, None
    if is_series:
        matrices = [mend_series(one, source, findings) for one, source in zip(matrices, sources, strict=True)]
    else:  # before nodes are reordered, which would hide triangles
        matrices = mend_graphs(list(matrices), sources, findings, may_mirror=may_mirror)
    matrices, common_names = align_nodes(
        matrices, node_names, sources, findings, is_series, node_order=node_order, max_missing=max_missing
    )
    _check_shapes(matrices, sources, findings, is_series)
    return matrices, common_names


def mend_graphs(graphs: _Graphs, sources: Sequence[str], findings: "Findings", *, may_mirror: bool) -> _Graphs:
    """Fill gaps and, if ``may_mirror``, mirror triangles, unless other graphs are directed.

    An array ``(n_graphs, n_nodes, n_nodes)`` is only copied if a graph is changed, so that a memory map stays one.
    """
    mended: dict[int, NDArray[Any]] = {}
    triangular: list[int] = []
    for i, graph in enumerate(graphs):
        if not np.isfinite(graph).all():
            graph = mended[i] = fill_gaps(graph, sources[i], findings)
        _refuse_codes(graph, sources[i], findings)
        is_square = graph.shape[0] == graph.shape[1]
        if may_mirror and is_square and np.triu(graph, k=1).any() != np.tril(graph, k=-1).any():
            triangular.append(i)
    if triangular:
        others = sorted({*range(len(graphs))} - {*triangular})
        is_directed = any(_has_direction(mended.get(i, graphs[i])) for i in others)
        what = "kept, because other graphs have a direction" if is_directed else "mirrored"
        for i in triangular:
            findings.handle(f"triangular matrix {what}", sources[i])
            if not is_directed:
                graph = mended.get(i, graphs[i])
                mended[i] = np.where(np.eye(len(graph), dtype=bool), graph, graph + graph.T).astype(graph.dtype)
    if not mended:
        return graphs
    copy: Any = np.array(graphs) if isinstance(graphs, np.ndarray) else list(graphs)
    for i, graph in mended.items():
        copy[i] = graph
    return copy


def _has_direction(graph: NDArray[Any]) -> bool:
    """Whether a graph differs from its transpose by more than rounding."""
    if graph.shape[0] != graph.shape[1]:
        return False
    difference = np.abs(np.subtract(graph, graph.T, dtype=np.float64))
    return bool(difference.max(initial=0.0) > 1e-6 * np.abs(graph).max(initial=0.0))


def fill_gaps(graph: NDArray[Any], source: str, findings: "Findings") -> NDArray[Any]:
    """Set nodes without signal and missing diagonals to 0; refuse other gaps."""
    gaps = ~np.isfinite(graph)
    if graph.shape[0] != graph.shape[1] or not gaps.any():
        return graph
    diagonal = np.eye(len(graph), dtype=bool)
    is_silent = (gaps | diagonal).all(axis=0) & (gaps | diagonal).all(axis=1) & gaps.any(axis=0)
    others = gaps & ~(is_silent[:, None] | is_silent[None, :] | diagonal)
    if others.any():
        row, column = np.argwhere(others)[0]
        findings.refuse(
            source,
            f"{source} has the value {graph[row, column]} at row {row + 1}, column {column + 1}; "
            "fill the gap or leave the subject out with exclude=.",
        )
        return graph
    what = "nodes without signal (missing values)" if is_silent.any() else "missing or infinite diagonal"
    findings.handle(f"{what} set to 0", source)
    return np.where(gaps, 0, graph).astype(graph.dtype)


def _find_code(values: NDArray[Any]) -> float | None:
    """The number that means a missing value: -99, -999 or -9999, if all others are far from it."""
    low = float(values.min(initial=0.0))
    if not np.isfinite(low):  # a node without signal does not hide the code in another
        values = values[np.isfinite(values)]
        low = float(values.min(initial=0.0))
    return low if low in MISSING_CODES and values[values > low].min(initial=0.0) > low / 10 else None


def _refuse_codes(values: NDArray[Any], source: str, findings: "Findings") -> None:
    if (code := _find_code(values)) is not None:
        row, column = np.argwhere(values == code)[0]
        findings.refuse(
            source,
            f"{source} has the value {code:g} at row {row + 1}, column {column + 1}, which may mean a missing value; "
            "write nan if it does, or leave the subject out with exclude=.",
        )


def mend_covariates(covariates: pd.DataFrame, findings: "Findings") -> pd.DataFrame:
    """Covariates whose numbers that mean a missing value are NaN, on record."""
    frame = covariates.copy()
    for column in (column for column in frame if frame[column].dtype.kind in "iuf"):
        while (code := _find_code(frame[column].dropna().to_numpy())) is not None:
            is_code = frame[column] == code
            findings.handle(f"{code:g} in {column!r} taken for a missing value", f"{is_code.sum()} subjects")
            frame[column] = frame[column].astype(float).mask(is_code)
    for column in (column for column in frame if frame[column].dtype.kind not in "biuf"):
        texts = frame[column].fillna("").astype(str)
        for code in sorted({*texts[texts.isin(_CODE_TEXTS)]}):
            is_code = texts == code
            findings.handle(f"{code} in {column!r} taken for a missing value", f"{is_code.sum()} subjects")
            frame[column] = texts = texts.mask(is_code, "")
        if (two := find_spellings(texts.unique())) is not None:
            findings.warnings.append(
                f"{column!r} has the values {two[0]!r} and {two[1]!r}, which may be one; write one."
            )
    return frame


def mend_series(series: NDArray[Any], source: str, findings: "Findings") -> NDArray[Any]:
    """Set columns without any value to 0; refuse other gaps."""
    _refuse_codes(series, source, findings)
    gaps = ~np.isfinite(series)
    is_silent = gaps.all(axis=0)
    if gaps[:, ~is_silent].any():
        row, column = np.argwhere(gaps & ~is_silent)[0]
        findings.refuse(
            source,
            f"{source} has the value {series[row, column]} at time point {row + 1}, node {column + 1}; "
            "interpolate it or leave the subject out with exclude=.",
        )
    elif is_silent.any():
        findings.handle("nodes without signal (missing values) set to 0", source)
        return np.where(is_silent, 0, series)
    return series


def align_nodes(
    matrices: list[NDArray[Any]],
    node_names: Sequence[Sequence[str] | None] | None,
    sources: Sequence[str],
    findings: "Findings",
    is_series: bool,
    *,
    node_order: Sequence[str] | None,
    max_missing: float,
) -> tuple[list[NDArray[Any]], Sequence[str] | None]:
    """Bring matrices whose files name their nodes into one node order.

    Nodes that a subject lacks have no edges. A subject who lacks more than the share ``max_missing`` is refused.
    """
    named: list[Sequence[str]] = [names for names in node_names or () if names is not None]
    if len(named) < len(matrices) or not named:
        if any(list(names) != list(named[0]) for names in named):
            findings.errors.append("Some files name their nodes, in different orders, and others do not.")
        elif named:
            count = f"{len(named)} of {len(matrices)} files"
            findings.handle("names of nodes not used, because only some files have them; one order is assumed", count)
            findings.warnings.append(
                f"Only {count} name their nodes; the order is assumed to be the same in the others."
            )
        return matrices, None
    if node_order is None and any(list(names) != list(named[0]) for names in named) and all(map(are_numbered, named)):
        return matrices, None  # positions, not names: which nodes are missing is not known
    reference = list(_merge_names(named, max_missing) if node_order is None else node_order)
    index = {node: i for i, node in enumerate(reference)}
    aligned = []
    for matrix, names, source in zip(matrices, named, sources, strict=True):
        others = [node for node in names if node not in index]
        missing = len(reference) - len(names)
        if others or len(set(names)) != len(names):
            findings.refuse(
                source,
                f"{source} names nodes that the other files do not have ({', '.join(others[:3]) or 'one twice'}); "
                "all subjects need the same atlas.",
            )
        elif missing > max_missing * len(reference):
            share = f"{missing} of {len(reference)} nodes are missing, which is more than max_missing={max_missing:g}"
            findings.refuse(source, f"{source} has {len(names)} nodes: {share} allows.")
        elif list(names) != reference and (is_series or len(matrix) == len(names)):
            order = [index[node] for node in names]
            full = np.zeros((len(matrix) if is_series else len(reference), len(reference)))
            full[(slice(None), order) if is_series else np.ix_(order, order)] = matrix
            matrix = full
            findings.handle("nodes absent from the file kept without edges" if missing else "nodes reordered", source)
        aligned.append(matrix)
    return aligned, reference


def _is_numbering(names: Sequence[str]) -> bool:
    """Whether names only count the columns, as pandas, R (V1, X1) and MATLAB (Var1) write them."""
    return is_counting([_NUMBERED.sub("", name) for name in names])


def _merge_names(named: Sequence[Sequence[str]], max_missing: float) -> list[str]:
    """The names of the longest list, and those that it lacks, each after the one that precedes it in another list.

    If names are added, all must be in at least two lists and in one of twenty, because others may be misspelled. The
    lists that have them must share most of their names with the longest, because they may be of another atlas.
    """
    longest: Sequence[str] = max(named, key=len)
    counts = Counter(name for names in named for name in {*names})
    least = max(2, 0.05 * len(named))
    if len(counts) > len(longest):
        usual = [names for names in named if all(counts[name] >= least for name in names)]
        longest = max(usual or [longest], key=len)
    reference, known = list(longest), {*longest}
    for names in named:
        if not known.issuperset(names) and len(known.intersection(names)) >= (1 - max_missing) * len(names):
            position = 0
            for name in names:
                if name in known:
                    position = reference.index(name) + 1
                elif counts[name] >= least:
                    reference.insert(position, name)
                    known.add(name)
                    position += 1
    return reference


def _check_shapes(
    matrices: Sequence[NDArray[Any]], sources: Sequence[str], findings: "Findings", is_series: bool
) -> None:
    """Refuse matrices with a different number of nodes, and short time series."""
    sizes = Counter(matrix.shape[1] for matrix in matrices)
    common, n_common = sizes.most_common(1)[0] if matrices else (0, 0)
    if len(sizes) > 2 and 2 * n_common <= len(matrices):
        listed = list_some([f"{size} ({count} subjects)" for size, count in sorted(sizes.items())])
        findings.errors.append(
            f"The subjects have different numbers of nodes: {listed}; pass regions=, a list of the regions of each "
            "subject, or write the names of the nodes into the files."
        )
        return
    for matrix, source in zip(matrices, sources, strict=True):
        rows, columns = matrix.shape
        if not is_series and rows != columns:
            findings.refuse(source, f"{source} holds {rows} x {columns} values; an adjacency matrix must be square.")
        elif columns != common:
            findings.refuse(source, f"{source} has {columns} nodes but most graphs have {common}.")
        elif is_series and rows < _MIN_TIME_POINTS:
            findings.refuse(source, f"{source} has {rows} time points; at least {_MIN_TIME_POINTS} are needed.")
    if is_series and matrices and (shorter := sum(rows < columns for rows, columns in map(np.shape, matrices))):
        what = f"{shorter} of {len(matrices)} time series"
        findings.warnings.append(f"{what} have fewer time points than nodes, so correlations are singular.")
