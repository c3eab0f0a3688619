"""What is mended in graphs and time series while they are read, each time on record, and which gaps are refused."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import iter_chunks

if TYPE_CHECKING:
    from isocapsnet.datasets.study import Findings


def mend_stack(
    graphs: NDArray[Any], sources: Sequence[str], findings: "Findings", *, may_mirror: bool = True
) -> NDArray[Any]:
    """Mend the graphs that need it; the array is copied only then, so that a clean memory map stays one."""
    filled: dict[int, NDArray[Any]] = {}
    triangular: list[int] = []
    for start, chunk in iter_chunks(graphs):
        finite = np.isfinite(chunk).all(axis=(1, 2))
        upper, lower = np.triu(chunk != 0, k=1).any(axis=(1, 2)), np.tril(chunk != 0, k=-1).any(axis=(1, 2))
        for i in np.flatnonzero(~finite).tolist():
            filled[start + i] = fill_gaps(chunk[i], sources[start + i], findings)
        triangular += (start + np.flatnonzero(finite & (upper != lower))).tolist()
    triangular += [i for i, graph in filled.items() if _is_triangular(graph)]
    others = (filled.get(i, graphs[i]) for i in sorted({*range(len(graphs))} - {*triangular}))
    if triangular and may_mirror and not _keep_direction(others, [sources[i] for i in triangular], findings):
        filled |= {i: _mirror(filled.get(i, graphs[i])) for i in triangular}
    if not filled:
        return graphs
    copy = np.array(graphs)
    copy[list(filled)] = list(filled.values())
    return copy


def mirror_triangles(graphs: list[NDArray[Any]], sources: Sequence[str], findings: "Findings") -> list[NDArray[Any]]:
    """Give the graphs that have edges in one triangle only both, unless graphs of this study have a direction."""
    is_triangular = [_is_triangular(graph) for graph in graphs]
    others = (graph for graph, is_one in zip(graphs, is_triangular, strict=True) if not is_one)
    found = [source for source, is_one in zip(sources, is_triangular, strict=True) if is_one]
    if not found or _keep_direction(others, found, findings):
        return graphs
    return [_mirror(graph) if is_one else graph for graph, is_one in zip(graphs, is_triangular, strict=True)]


def _keep_direction(others: Iterable[NDArray[Any]], triangular: Sequence[str], findings: "Findings") -> bool:
    """Whether triangles may be meant, because another graph differs from its transpose; on record."""
    is_directed = any(map(_has_direction, others))
    what = "kept, because other graphs have a direction" if is_directed else "mirrored"
    for source in triangular:
        findings.handle(f"triangular matrix {what}", source)
    return is_directed


def _is_triangular(graph: NDArray[Any]) -> bool:
    return graph.shape[0] == graph.shape[1] and bool(np.triu(graph, k=1).any() != np.tril(graph, k=-1).any())


def _has_direction(graph: NDArray[Any]) -> bool:
    """Whether a graph differs from its transpose by more than rounding."""
    if graph.shape[0] != graph.shape[1]:
        return False
    difference = np.abs(np.subtract(graph, graph.T, dtype=np.float64))
    return bool(difference.max(initial=0.0) > 1e-6 * np.abs(graph).max(initial=0.0))


def _mirror(graph: NDArray[Any]) -> NDArray[Any]:
    return np.where(np.eye(len(graph), dtype=bool), graph, graph + graph.T).astype(graph.dtype)


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
        findings.errors.append(
            f"{source} has the value {graph[row, column]} at row {row + 1}, column {column + 1}; "
            "fill the gap or leave the subject out with --exclude."
        )
        return graph
    what = "nodes without signal (missing values)" if is_silent.any() else "missing or infinite diagonal"
    findings.handle(f"{what} set to 0", source)
    return np.where(gaps, 0, graph).astype(graph.dtype)


def mend_series(series: NDArray[Any], source: str, findings: "Findings") -> NDArray[Any]:
    """Set columns without any value to 0; refuse other gaps."""
    gaps = ~np.isfinite(series)
    is_silent = gaps.all(axis=0)
    if gaps[:, ~is_silent].any():
        row, column = np.argwhere(gaps & ~is_silent)[0]
        findings.errors.append(
            f"{source} has the value {series[row, column]} at time point {row + 1}, node {column + 1}; "
            "interpolate it or leave the subject out with --exclude."
        )
    elif is_silent.any():
        findings.handle("nodes without signal (missing values) set to 0", source)
        return np.where(is_silent, 0, series)
    return series
