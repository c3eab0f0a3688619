"""TUDataset text folders: ``NAME_A.txt``, ``NAME_graph_indicator.txt``, ``NAME_graph_labels.txt``."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.datasets.study import Findings, Study


def find_prefix(folder: Path) -> str | None:
    """The NAME of a TUDataset folder, or ``None`` when it is none."""
    names = [path.name.removesuffix("_graph_indicator.txt") for path in folder.glob("*_graph_indicator.txt")]
    return names[0] if names and (folder / f"{names[0]}_A.txt").exists() else None


def read_tudataset(folder: Path, findings: Findings) -> Study:
    """Read all graphs of a TUDataset folder.

    Brain datasets of the collection leave out nodes without edges and name the regions by node labels; where labels
    are unique within each graph they say which region a node is. The weight of an edge is its first attribute.
    """
    prefix = find_prefix(folder)
    edges = _read(folder / f"{prefix}_A.txt").astype(np.int64) - 1
    graph_of_node = _read(folder / f"{prefix}_graph_indicator.txt")[:, 0].astype(np.int64) - 1
    labels = _optional(folder / f"{prefix}_graph_labels.txt")
    weights = _optional(folder / f"{prefix}_edge_attributes.txt")
    n_graphs = int(graph_of_node.max()) + 1
    if edges.min() < 0 or edges.max() >= len(graph_of_node) or (weights is not None and len(weights) != len(edges)):
        raise InputError(f"{prefix}_A.txt names nodes, or has weights, that do not fit the other files.")
    if labels is not None and len(labels) != n_graphs:
        raise InputError(f"{prefix}_graph_labels.txt holds {len(labels)} labels for {n_graphs} graphs.")
    node = _node_index(folder, str(prefix), graph_of_node, findings)
    n_nodes = int(node.max()) + 1
    graphs = np.zeros((n_graphs, n_nodes, n_nodes), dtype=np.float64)
    source, target = edges.T
    graphs[graph_of_node[source], node[source], node[target]] = 1 if weights is None else weights[:, 0]
    numbers = [str(i + 1) for i in range(n_graphs)]
    return Study(
        matrices=graphs,
        sources=[f"{prefix} graph {number}" for number in numbers],
        subjects=numbers,
        labels=None if labels is None else labels[:, 0].tolist(),
    )


def _node_index(folder: Path, prefix: str, graph_of_node: NDArray[np.int64], findings: Findings) -> NDArray[np.int64]:
    """Which row of its graph's matrix each node is."""
    counts = np.bincount(graph_of_node)
    within = np.arange(len(graph_of_node)) - np.repeat(np.cumsum(counts) - counts, counts)
    if (np.diff(graph_of_node) < 0).any():
        raise InputError(f"{prefix}_graph_indicator.txt does not list the nodes graph by graph.")
    node_labels = _optional(folder / f"{prefix}_node_labels.txt")
    if node_labels is not None:
        region = node_labels[:, 0].astype(np.int64)
        pairs = np.stack([graph_of_node, region], axis=1)
        if len(region) == len(graph_of_node) and len(np.unique(pairs, axis=0)) == len(pairs):
            if len(set(counts.tolist())) > 1:
                findings.handle("nodes absent from the file kept without edges", prefix)
            return region - region.min()
    if len(set(counts.tolist())) > 1:
        raise InputError(
            f"{prefix} has graphs of {counts.min()} to {counts.max()} nodes and no node labels that say which region "
            "a node is; all subjects need the same atlas."
        )
    return within


def _read(path: Path) -> NDArray[np.float64]:
    try:
        return np.loadtxt(path, delimiter=",", ndmin=2)
    except ValueError as error:
        raise InputError(f"{path.name} is not a comma-separated list of numbers ({error}).") from error


def _optional(path: Path) -> NDArray[np.float64] | None:
    return _read(path) if path.exists() else None
