"""What the tests of several methods compare them with."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def graphs_for_grakel(graphs: NDArray[np.bool_], node_labels: str) -> list[tuple[dict[Any, Any], dict[int, int]]]:
    """Graphs as GraKeL reads them: each node's neighbours, each node's label."""
    labelled = []
    for graph in graphs:
        labels = range(len(graph)) if node_labels == "region" else graph.sum(axis=1).tolist()
        neighbours = [np.flatnonzero(row).tolist() for row in graph]
        labelled.append(({v: dict.fromkeys(near, 1.0) for v, near in enumerate(neighbours)}, dict(enumerate(labels))))
    return labelled
