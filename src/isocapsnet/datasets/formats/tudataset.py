"""TUDataset text folders: ``NAME_A.txt``, ``NAME_graph_indicator.txt``, ``NAME_graph_labels.txt``."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.datasets.findings import Findings
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.isolation import ReadLimit
from isocapsnet.datasets.reading import Reader, ReadOptions, assemble


def _find_prefix(source: Any) -> str | None:
    """The NAME of a TUDataset folder; ``None`` for anything else."""
    if not isinstance(source, Path) or not source.is_dir():
        return None
    names = [path.name.removesuffix("_graph_indicator.txt") for path in source.glob("*_graph_indicator.txt")]
    return names[0] if names and (source / f"{names[0]}_A.txt").exists() else None


def read_tudataset(folder: Path, options: ReadOptions, findings: Findings, limit: ReadLimit) -> BrainGraphs | None:
    """Read all graphs of a TUDataset folder.

    Brain datasets of the collection leave out nodes without edges and name the regions by node labels. If labels
    are unique within each graph, they identify the region of a node. The weight of an edge is its first attribute.
    """
    prefix = str(_find_prefix(folder))
    edges = _whole_numbers(folder / f"{prefix}_A.txt", limit, n_columns=2) - 1
    graph_of_node = _whole_numbers(folder / f"{prefix}_graph_indicator.txt", limit, n_columns=1)[:, 0] - 1
    labels = _optional(folder / f"{prefix}_graph_labels.txt", limit)
    weights = _optional(folder / f"{prefix}_edge_attributes.txt", limit)
    n_graphs = int(graph_of_node[-1]) + 1
    if n_graphs != len(present := np.unique(graph_of_node)) or present[0] != 0 or (np.diff(graph_of_node) < 0).any():
        raise InputError(f"{prefix}_graph_indicator.txt does not list the nodes of graph 1, then 2, and so on.")
    if edges.min() < 0 or edges.max() >= len(graph_of_node):
        raise InputError(f"{prefix}_A.txt names a node that {prefix}_graph_indicator.txt does not have.")
    if weights is not None and len(weights) != len(edges):
        raise InputError(f"{prefix}_edge_attributes.txt holds {len(weights)} weights for {len(edges)} edges.")
    if labels is not None and len(labels) != n_graphs:
        raise InputError(f"{prefix}_graph_labels.txt holds {len(labels)} labels for {n_graphs} graphs.")
    source, target = edges.T
    graph = graph_of_node[source]
    if (crossing := np.flatnonzero(graph != graph_of_node[target])).size:
        raise InputError(f"{prefix}_A.txt: edge {crossing[0] + 1} joins nodes of two different graphs.")
    node = _node_index(folder, prefix, graph_of_node, findings, limit)
    n_nodes = int(node.max()) + 1
    limit.take(8 * n_graphs * n_nodes**2, prefix)
    graphs = np.zeros((n_graphs, n_nodes, n_nodes), dtype=np.float64)
    values = np.ones(len(edges)) if weights is None else weights[:, 0]
    graphs[graph, node[source], node[target]] = values
    if (conflicts := np.flatnonzero(graphs[graph, node[source], node[target]] != values)).size:
        raise InputError(f"{prefix}_A.txt: edge {conflicts[0] + 1} is listed again with another weight.")
    numbers = [str(i + 1) for i in range(n_graphs)]
    return assemble(
        graphs,
        numbers,
        options,
        findings,
        sources=[f"{prefix} graph {number}" for number in numbers],
        labels=None if labels is None else labels[:, 0].tolist(),
        name=folder.stem,
    )


READER = Reader(lambda source: _find_prefix(source) is not None, read_tudataset)


def _node_index(
    folder: Path, prefix: str, graph_of_node: NDArray[np.int64], findings: Findings, limit: ReadLimit
) -> NDArray[np.int64]:
    """Which row of its graph's matrix each node is."""
    counts = np.bincount(graph_of_node)
    differ = counts.min() < counts.max()
    path = folder / f"{prefix}_node_labels.txt"
    if path.exists():
        region = _whole_numbers(path, limit)[:, 0]
        if len(region) != len(graph_of_node):
            raise InputError(f"{path.name} holds {len(region)} labels for {len(graph_of_node)} nodes.")
        pairs = np.stack([graph_of_node, region], axis=1)
        if len(np.unique(pairs, axis=0)) == len(pairs):
            if differ:
                findings.handle("nodes absent from the file kept without edges", prefix)
            return region - region.min()
    if differ:
        raise InputError(f"{prefix} has graphs of {counts.min()} to {counts.max()} nodes and no node labels.")
    return np.arange(len(graph_of_node)) % counts[0]


def _read(path: Path, limit: ReadLimit) -> NDArray[np.float64]:
    if not path.is_file():  # a pipe or a device would never end
        raise InputError(f"{path.name} is not a file.")
    limit.check(8 * path.stat().st_size, path.name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an empty file, which is refused below
            values = np.loadtxt(path, delimiter=",", ndmin=2)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path.name} is not a comma-separated list of numbers ({error}).") from error
    if not values.size:
        raise InputError(f"{path.name} is empty.")
    return values


def _whole_numbers(path: Path, limit: ReadLimit, n_columns: int | None = None) -> NDArray[np.int64]:
    """A table of whole numbers, of ``n_columns`` columns if that is given."""
    values = _read(path, limit)
    if n_columns is not None and values.shape[1] != n_columns:
        raise InputError(f"{path.name} has {values.shape[1]} columns; {n_columns} are needed.")
    wrong = ~(np.isfinite(values) & (values == np.round(values)) & (np.abs(values) < 2**53))
    if wrong.any():
        row = int(np.argwhere(wrong)[0, 0])
        raise InputError(f"{path.name} holds {values[wrong][0]:g} in row {row + 1}; whole numbers are needed.")
    return values.astype(np.int64)


def _optional(path: Path, limit: ReadLimit) -> NDArray[np.float64] | None:
    return _read(path, limit) if path.exists() else None
