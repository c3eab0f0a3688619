"""What is mended in graphs and time series while they are read, always on record, and which gaps are refused."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from isocapsnet.datasets.reading import Findings

_Graphs = TypeVar("_Graphs", NDArray[Any], list[NDArray[Any]])


def mend_graphs(graphs: _Graphs, sources: Sequence[str], findings: "Findings", *, may_mirror: bool) -> _Graphs:
    """Fill gaps and, where ``may_mirror``, mirror triangles, unless other graphs have a direction.

    An array ``(n_graphs, n_nodes, n_nodes)`` is copied only where a graph is mended, so that a memory map stays one.
    """
    mended: dict[int, NDArray[Any]] = {}
    triangular: list[int] = []
    for i, graph in enumerate(graphs):
        if not np.isfinite(graph).all():
            graph = mended[i] = fill_gaps(graph, sources[i], findings)
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
        findings.errors.append(
            f"{source} has the value {graph[row, column]} at row {row + 1}, column {column + 1}; "
            "fill the gap or leave the subject out with exclude=."
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
            "interpolate it or leave the subject out with exclude=."
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
) -> tuple[list[NDArray[Any]], Sequence[str] | None]:
    """Bring matrices whose files name their nodes into one node order."""
    named: list[Sequence[str]] = [names for names in node_names or () if names is not None]
    if len(named) < len(matrices) or not named:
        if any(list(names) != list(named[0]) for names in named):
            findings.errors.append("Some files name their nodes, in different orders, and others do not.")
        return matrices, None
    longest = max(named, key=len)
    reference = list(longest)
    index = {node: i for i, node in enumerate(reference)}
    aligned = []
    for matrix, names, source in zip(matrices, named, sources, strict=True):
        others = [node for node in names if node not in index]
        if others or len(set(names)) != len(names):
            findings.errors.append(
                f"{source} names nodes that the other files do not have ({', '.join(others[:3]) or 'one twice'}); "
                "all subjects need the same atlas."
            )
        elif list(names) != reference and (is_series or len(matrix) == len(names)):
            order = [index[node] for node in names]
            full = np.zeros((len(matrix) if is_series else len(reference), len(reference)))
            full[(slice(None), order) if is_series else np.ix_(order, order)] = matrix
            matrix = full
            missing = len(reference) - len(names)
            findings.handle("nodes absent from the file kept without edges" if missing else "nodes reordered", source)
        aligned.append(matrix)
    return aligned, reference
