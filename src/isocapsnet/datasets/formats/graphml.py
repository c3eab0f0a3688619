"""GraphML, one file per subject, as connectome releases and networkx write it."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._packages import importing
from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError
from isocapsnet.datasets.isolation import Parsed, ReadLimit, parse

#: Edge attributes that are taken as the weight, in this order of preference.
_WEIGHTS = ("weight", "number_of_fibers", "fiber_count", "streamlines")


def read_graphml(path: Path, limit: ReadLimit) -> tuple[NDArray[np.float64], list[str]]:
    """The adjacency matrix ``(n_nodes, n_nodes)`` and the node names of a GraphML file.

    In a file without any edge attribute, edges count 1. An undirected graph gives a symmetric matrix.
    """
    arrays, facts = parse(parse_graphml, path, limit)
    return arrays["matrix"], facts["names"]


def parse_graphml(path: Path, limit: ReadLimit) -> Parsed:
    """The matrix and node names of a GraphML file; runs in the isolated process."""
    with importing(f"{path.name} is GraphML, which needs defusedxml", "data"):
        from defusedxml import DefusedXmlException, ElementTree
    try:
        root = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, DefusedXmlException, LookupError, ValueError) as error:
        raise InputError(f"{path.name} is not readable as GraphML ({error}).") from error
    graphs = [] if root is None else list(root.iterfind("{*}graph"))
    if root is None or len(graphs) != 1:
        raise InputError(f"{path.name} holds {len(graphs)} graphs; one is needed.")
    (graph,) = graphs
    # Node ids written as numbers are sorted as numbers: 2 before 10.
    names = sorted((node.get("id", "") for node in graph.iterfind("{*}node")), key=lambda n: (len(n), n))
    index = {name: i for i, name in enumerate(names)}
    if len(index) != len(names) or not names:
        raise InputError(f"{path.name} has no nodes or two nodes with the same id.")
    limit.check(8 * len(names) ** 2, path.name)
    weight_key = _find_weight_key(path, root, graph)
    matrix = np.zeros((len(names), len(names)))
    seen = np.zeros(matrix.shape, dtype=bool)
    default = graph.get("edgedefault")
    for edge in graph.iterfind("{*}edge"):
        ends = edge.get("source", ""), edge.get("target", "")
        if missing := [end for end in ends if end not in index]:
            raise InputError(f"{path.name} has an edge to the node {missing[0]!r}, which it does not declare.")
        i, j = (index[end] for end in ends)
        weight = _weight(path, edge, weight_key)
        is_directed = {"true": True, "false": False}.get(edge.get("directed", ""), default == "directed")
        for a, b in ((i, j),) if is_directed else ((i, j), (j, i)):
            if seen[a, b] and matrix[a, b] != weight:
                raise InputError(f"{path.name} gives the edge {ends[0]} - {ends[1]} two weights; keep one.")
            matrix[a, b], seen[a, b] = weight, True
    return {"matrix": matrix}, {"names": _find_names(root, graph, names)}


def _find_names(root: Any, graph: Any, ids: list[str]) -> list[str]:
    """The names of the nodes: their ids, unless these are numbers (n0, n1... as igraph writes) and nodes have names."""
    if not all(node_id.removeprefix("n").isdecimal() for node_id in ids):
        return ids
    keys = {key.get("attr.name"): key.get("id") for key in root.iterfind("{*}key") if key.get("for") in ("node", "all")}
    for attribute in (keys[name] for name in ("name", "label") if name in keys):
        texts = {
            node.get("id"): (data.text or "").strip()
            for node in graph.iterfind("{*}node")
            for data in node.iterfind("{*}data")
            if data.get("key") == attribute
        }
        if len(texts) == len({*texts.values()} - {""}) == len(ids):
            return [texts[node_id] for node_id in ids]
    return ids


def _find_weight_key(path: Path, root: Any, graph: Any) -> Any:
    """The ``<key>`` of the weight; None where edges have no attributes at all."""
    # The standard's default for a key without "for" is "all".
    keys = {key.get("id"): key for key in root.iterfind("{*}key") if key.get("for", "all") in ("edge", "all")}
    used = {data.get("key") for edge in graph.iterfind("{*}edge") for data in edge.iterfind("{*}data")}
    if undeclared := sorted(map(str, used - keys.keys())):
        raise InputError(f"{path.name}: edges have the attribute {undeclared[0]!r}, which no <key> declares for edges.")
    declared_for_edges = {key_id for key_id, key in keys.items() if key.get("for") == "edge"}
    named = {keys[key_id].get("attr.name", ""): keys[key_id] for key_id in keys if key_id in used | declared_for_edges}
    weight = next((named[name] for name in _WEIGHTS if name in named), None)
    if weight is None and named:
        raise InputError(f"{path.name}: edges have {list_some(sorted(named))} but none of {list_some(_WEIGHTS)}.")
    return weight


def _weight(path: Path, edge: Any, key: Any) -> float:
    """The weight of an edge, or the default that the key declares."""
    if key is None:
        return 1.0
    texts = [data.text for data in edge.iterfind("{*}data") if data.get("key") == key.get("id")]
    texts = texts or [default.text for default in key.iterfind("{*}default")] or [None]
    try:
        if len(texts) != 1 or "_" in (texts[0] or ""):
            raise ValueError("not one number")
        return float(texts[0] or "")
    except ValueError as error:
        ends = f"{edge.get('source')} - {edge.get('target')}"
        raise InputError(f"{path.name}: the edge {ends} has the weight {texts[0]!r}, not a number.") from error
