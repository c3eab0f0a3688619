"""``.nel`` files, the lists of nodes and edges of the graph repository (KKI, OHSU, Peking_1).

Lines start with a letter: ``n`` number label, ``e`` node node weight, ``g`` name of the graph, ``x`` class, at its end.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.datasets.findings import Findings
from isocapsnet.datasets.formats.edge_graphs import natural_key
from isocapsnet.datasets.formats.regions import known_nodes
from isocapsnet.datasets.formats.text import is_index, is_value, read_text
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.isolation import ReadLimit
from isocapsnet.datasets.reading import Reader, ReadOptions, assemble

_LENGTHS = {"n": (3,), "e": (3, 4), "g": (2, 3), "x": (2,)}


@dataclass
class _Graph:
    nodes: dict[str, str] = field(default_factory=dict)
    edges: dict[tuple[str, str], float] = field(default_factory=dict)
    name: str = ""
    label: str = ""


def read_nel(path: Path, options: ReadOptions, findings: Findings, limit: ReadLimit) -> BrainGraphs | None:
    """Undirected graphs; labels of nodes say which regions they are, and a region that a graph lacks has no edges."""
    graphs = _parse(path, limit)
    regions = sorted({region for graph in graphs for region in graph.nodes.values()}, key=natural_key)
    if (listed := known_nodes(options)) and {*regions} <= {*listed}:
        regions = listed
    elif all(map(is_index, regions)):
        low, high = int(regions[0]), int(regions[-1])
        if high - low >= 2 * len(regions) + 10:
            raise InputError(f"{path.name} has regions from {low} to {high}, but only {len(regions)} of them.")
        regions = [str(number) for number in range(low, high + 1)]
    limit.take(8 * len(graphs) * len(regions) ** 2, path.name)
    index = {region: i for i, region in enumerate(regions)}
    if any(len(graph.nodes) < len(regions) for graph in graphs):
        findings.handle("nodes absent from the file kept without edges", path.name)
    return assemble(
        np.stack([_adjacency(graph, index) for graph in graphs]),
        [graph.name or str(number) for number, graph in enumerate(graphs, start=1)],
        options,
        findings,
        labels=[graph.label for graph in graphs],
        node_names=[regions] * len(graphs),
        is_directed=False,
        name=path.stem,
    )


READER = Reader(lambda source: isinstance(source, Path) and source.suffix == ".nel" and source.is_file(), read_nel)


def _adjacency(graph: _Graph, index: dict[str, int]) -> NDArray[Any]:
    matrix = np.zeros((len(index), len(index)))
    for (first, second), weight in graph.edges.items():
        i, j = index[graph.nodes[first]], index[graph.nodes[second]]
        matrix[i, j] = matrix[j, i] = weight
    return matrix


def _parse(path: Path, limit: ReadLimit) -> list[_Graph]:
    graphs: list[_Graph] = []
    graph = _Graph()
    for number, line in enumerate(read_text(path, limit).split("\n"), start=1):
        if not (words := line.split()):
            continue
        where = f"{path.name}, line {number}"
        if len(words) not in _LENGTHS.get(words[0], ()):
            raise InputError(f"{where}: {line[:60]!r} is not a line of a .nel file (n, e, g or x and its values).")
        _take_line(graph, words, where)
        if words[0] == "x":
            graphs.append(graph)
            graph = _Graph()
    if graph != _Graph():
        raise InputError(f"{path.name} ends inside a graph; it is incomplete.")
    if not graphs or not any(one.nodes for one in graphs):
        raise InputError(f"{path.name} has no graphs.")
    return graphs


def _take_line(graph: _Graph, words: list[str], where: str) -> None:
    """Add what one line says to a graph."""
    kind, *values = words
    if kind == "n":
        node, region = values
        region = str(int(region)) if is_index(region) else region
        if node in graph.nodes or region in graph.nodes.values():
            raise InputError(f"{where}: the node {node} or its label {region} is listed twice in one graph.")
        graph.nodes[node] = region
    elif kind == "e":
        first, second, weight = values[0], values[1], values[2] if len(values) == 3 else "1"
        if first not in graph.nodes or second not in graph.nodes or not is_value(weight) or "," in weight:
            raise InputError(f"{where}: the edge {first} - {second} has an unknown node or the weight {weight!r}.")
        pair = (
            (first, second) if (first, second) in graph.edges or (second, first) not in graph.edges else (second, first)
        )
        if graph.edges.setdefault(pair, float(weight)) != float(weight):
            raise InputError(f"{where}: the edge {first} - {second} has two weights; keep one.")
    elif kind == "g":
        graph.name = values[-1]
    else:
        graph.label = values[0]
