"""Unweighted graphs: each graph keeps its strongest edges."""

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import iter_chunks
from isocapsnet.models._parameters import one_of

NEGATIVE_EDGES = ("drop", "absolute")
NegativeEdges = Annotated[str, one_of(*NEGATIVE_EDGES)]


def binarise(X: NDArray[Any], density: float, negative_edges: str) -> NDArray[np.bool_]:
    """Which edges each graph keeps ``(n_graphs, n_nodes, n_nodes)``: its ``density * n_nodes * (n_nodes - 1)``
    heaviest, at least two, never one of weight 0 and never the diagonal.

    Negative edges count by absolute weight (``"absolute"``) or are never kept (``"drop"``). Edges tied with the
    last one kept are kept too, so that the result does not depend on the order of the nodes.
    """
    n_nodes = X.shape[1]
    kept = np.zeros(X.shape, dtype=bool)
    if n_nodes == 1:
        return kept
    off_diagonal = ~np.eye(n_nodes, dtype=bool)
    # Both directions are counted, so a symmetric graph keeps whole edges.
    n_kept = max(2, round(density * n_nodes * (n_nodes - 1)))
    for start, chunk in iter_chunks(X):
        weights = np.asarray(chunk[:, off_diagonal], dtype=np.float64)
        if negative_edges == "absolute":
            weights = np.abs(weights)
        last = np.partition(weights, -n_kept, axis=1)[:, [-n_kept]]
        kept[start : start + len(chunk), off_diagonal] = (weights >= last) & (weights > 0)
    return kept
