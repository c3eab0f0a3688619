"""GraphML, one file per subject, as connectome releases and networkx write it."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError

#: Edge attributes that are taken as the weight, first come first served.
_WEIGHTS = ("weight", "number_of_fibers", "fiber_count", "streamlines")


def read_graphml(path: Path) -> tuple[NDArray[np.float64], list[str]]:
    """The adjacency matrix ``(n_nodes, n_nodes)`` and the node names of a GraphML file.

    Edges without a weight attribute count 1. An undirected graph gives a symmetric matrix.
    """
    try:
        from defusedxml import DefusedXmlException, ElementTree
    except ImportError as error:
        raise InputError(f"{path.name} is GraphML; install isocapsnet[data] to read it.") from error
    try:
        root = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, DefusedXmlException) as error:
        raise InputError(f"{path.name} is not readable as GraphML ({error}).") from error
    graph = None if root is None else root.find("{*}graph")
    if root is None or graph is None:
        raise InputError(f"{path.name} holds no graph.")
    edge_keys = {
        key.get("attr.name", ""): key.get("id") for key in root.iterfind("{*}key") if key.get("for") in ("edge", "all")
    }
    weight_key = next((edge_keys[name] for name in _WEIGHTS if name in edge_keys), None)
    if weight_key is None and edge_keys:
        raise InputError(
            f"{path.name} has edge attributes {', '.join(edge_keys)} but none of {', '.join(_WEIGHTS)}; "
            "rename the attribute that is the weight."
        )
    # Node ids written as numbers are sorted as numbers: 2 before 10.
    names = sorted((node.get("id", "") for node in graph.iterfind("{*}node")), key=lambda n: (len(n), n))
    index = {name: i for i, name in enumerate(names)}
    if len(index) != len(names) or not names:
        raise InputError(f"{path.name} has no nodes or two nodes with the same id.")
    matrix = np.zeros((len(names), len(names)))
    is_directed = graph.get("edgedefault") == "directed"
    for edge in graph.iterfind("{*}edge"):
        try:
            i, j = index[edge.get("source", "")], index[edge.get("target", "")]
        except KeyError as error:
            raise InputError(f"{path.name} has an edge to the unknown node {error}.") from error
        matrix[i, j] = _weight(path, edge, weight_key)
        if not is_directed:
            matrix[j, i] = matrix[i, j]
    return matrix, names


def _weight(path: Path, edge: Any, weight_key: str | None) -> float:
    if weight_key is None:
        return 1.0
    text = next((data.text for data in edge.iterfind("{*}data") if data.get("key") == weight_key), None)
    try:
        return float(text or "")
    except ValueError as error:
        raise InputError(
            f"{path.name}: the edge {edge.get('source')} - {edge.get('target')} has the weight {text!r}, not a number."
        ) from error
