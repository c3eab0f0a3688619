"""In-memory lists of PyTorch Geometric ``Data``, recognised by their attributes: torch is not imported here."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.datasets.findings import Findings
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.isolation import ReadLimit
from isocapsnet.datasets.reading import Reader, ReadOptions, assemble


def is_geometric(items: Any) -> bool:
    """Whether this is a non-empty list of objects with an ``edge_index``."""
    return isinstance(items, list | tuple) and bool(items) and all(hasattr(item, "edge_index") for item in items)


def read_geometric(
    items: Sequence[Any], options: ReadOptions, findings: Findings, limit: ReadLimit
) -> BrainGraphs | None:
    """Dense weighted graphs of ``Data`` objects; ``y`` is the label, ``edge_attr`` or ``edge_weight`` the weight."""
    labels = [_label(number, item) for number, item in enumerate(items)]
    return assemble(
        [_adjacency(number, item, limit) for number, item in enumerate(items)],
        [str(number + 1) for number in range(len(items))],
        options,
        findings,
        sources=[f"graph {number}" for number in range(len(items))],
        labels=None if all(label is None for label in labels) else labels,
    )


READER = Reader(is_geometric, read_geometric)


def _as_array(tensor: Any) -> NDArray[Any]:
    return np.asarray(tensor.detach().cpu() if hasattr(tensor, "detach") else tensor)


def _label(number: int, item: Any) -> Any:
    label = getattr(item, "y", None)
    if label is None:
        return None
    values = _as_array(label).ravel()
    if len(values) != 1:
        raise InputError(f"Graph {number} has {len(values)} labels in y; one per graph is needed.")
    return values[0].item()


def _adjacency(number: int, item: Any, limit: ReadLimit) -> NDArray[Any]:
    index = _as_array(item.edge_index)
    n_nodes = getattr(item, "num_nodes", None)
    if n_nodes is None:
        raise InputError(f"Graph {number} does not say how many nodes it has; set num_nodes.")
    if index.ndim != 2 or index.shape[0] != 2 or (index.size and not 0 <= index.min() <= index.max() < n_nodes):
        raise InputError(f"Graph {number} has an edge_index of shape {index.shape} that does not fit {n_nodes} nodes.")
    weights = next((w for name in ("edge_weight", "edge_attr") if (w := getattr(item, name, None)) is not None), None)
    values = np.ones(index.shape[1], dtype=np.float32) if weights is None else _as_array(weights)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (index.shape[1],):
        raise InputError(f"Graph {number} has edge attributes of shape {values.shape}; one weight per edge is needed.")
    limit.take(int(n_nodes) ** 2 * values.itemsize, f"Graph {number}")
    adjacency = np.zeros((int(n_nodes), int(n_nodes)), dtype=values.dtype)
    adjacency[index[0], index[1]] = values
    if (adjacency[index[0], index[1]] != values).any():
        raise InputError(f"Graph {number} lists an edge twice with different weights; keep one.")
    return adjacency
