"""Near-duplicate subjects: some public datasets contain the same person twice."""

import heapq

import numpy as np
from numpy.typing import NDArray

from isocapsnet.datasets.graphs import BrainGraphs

# Subjects per block: two blocks of 200-node edge vectors are 80 MB.
_BLOCK = 500


def find_duplicates(
    data: BrainGraphs, threshold: float = 0.99, limit: int = 100
) -> tuple[list[tuple[str, str, float]], int]:
    """Pairs of subjects whose edge vectors correlate above ``threshold``.

    Returns the ``limit`` most similar pairs as ``(subject, subject, correlation)``, and the number of all such pairs.
    """
    strongest: list[tuple[float, int, int]] = []
    n_pairs = 0
    blocks = range(0, len(data), _BLOCK)
    for first in blocks:
        rows = _standard_edges(data, first)
        for second in blocks[first // _BLOCK :]:
            correlation = rows @ (rows if second == first else _standard_edges(data, second)).T
            if second == first:
                correlation[np.tril_indices_from(correlation)] = -1
            i, j = np.nonzero(correlation > threshold)
            n_pairs += len(i)
            pairs = zip((-correlation[i, j]).tolist(), (first + i).tolist(), (second + j).tolist(), strict=True)
            strongest = heapq.nsmallest(limit, [*strongest, *pairs])
    return [(str(data.subjects[i]), str(data.subjects[j]), -value) for value, i, j in strongest], n_pairs


def _standard_edges(data: BrainGraphs, start: int) -> NDArray[np.float32]:
    """Edge vectors of one block, centred and of length 1 ``(n_block, n_edges)``; a constant one is zero."""
    rows, columns = np.triu_indices(data.n_nodes, k=1)
    block = slice(start, start + _BLOCK)
    if data.adjacency is not None:
        edges = data.adjacency[block][:, rows, columns].astype(np.float64)
    else:
        with np.errstate(invalid="ignore", divide="ignore"):
            graphs = [np.corrcoef(series, rowvar=False) for series in (data.time_series or ())[block]]
        edges = np.nan_to_num(np.stack(graphs))[:, rows, columns]
    edges -= edges.mean(axis=1, keepdims=True)
    length = np.linalg.norm(edges, axis=1, keepdims=True)
    return (edges / np.where(length > 0, length, 1)).astype(np.float32)
