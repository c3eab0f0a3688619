"""The data of the page's two interactive parts: connectomes in 3-D, reconstructed matrices."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet.report.content import Content, Reconstructions
from isocapsnet.report.cortex import cortex_outline
from isocapsnet.report.evidence import Scene
from isocapsnet.report.figures.brain import is_heavy_tailed, without_diagonal
from isocapsnet.report.figures.style import NEGATIVE, POSITIVE, class_colours
from isocapsnet.report.packing import pack_numbers

#: Bytes of the page that reconstructions may take, all methods together.
_MATRIX_BYTES = 2_000_000


def connectome_data(content: Content, scenes: Sequence[Scene]) -> dict[str, Any] | None:
    """Cortex, regions and scenes in the page's order; None without scenes or coordinates."""
    if content.coordinates is None or not scenes:
        return None
    return {
        "coordinates": pack_numbers(content.coordinates),
        "cortex": cortex_outline(),
        "colours": {"positive": POSITIVE, "negative": NEGATIVE, "classes": class_colours(len(content.classes))},
        "scenes": [_scene_data(scene) for scene in scenes],
    }


def _scene_data(scene: Scene) -> dict[str, Any]:
    """A scene as JSON; weights of nodes relative to the heaviest, edges as [node, node, weight]."""
    nodes = scene.nodes / (scene.nodes.max(initial=0.0) or 1.0)
    edges = np.triu(scene.edges)
    strong = np.argwhere(np.abs(edges) > 0.05 * np.abs(edges).max(initial=1e-300))
    return {
        "title": scene.title,
        "sentence": scene.sentence,
        "nodes": [round(float(weight), 4) for weight in nodes],
        "favours": scene.favours.tolist(),
        "edges": [[int(a), int(b), float(f"{edges[a, b]:.3g}")] for a, b in strong],
        "top": scene.top,
    }


def reconstruction_data(content: Content) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """For each method with a decoder: what the subject list needs, and the packed matrices."""
    found = [method.reconstructions for method in content.methods if method.reconstructions is not None]
    listed, packed = [], []
    for index, graphs in enumerate(found):
        kept = _choose(graphs, _MATRIX_BYTES // len(found))
        labels = graphs.labels[kept]
        groups = [
            (content.classes[code], [(int(at), graphs.subjects[kept[at]]) for at in np.flatnonzero(labels == code)])
            for code in np.unique(labels)
        ]
        left_out = graphs.n_available - len(kept)
        listed.append(
            {"index": index, "method": graphs.method, "groups": groups, "shown": len(kept), "left_out": left_out}
        )
        packed.append({"inputs": pack_numbers(graphs.inputs[kept]), "outputs": pack_numbers(graphs.outputs[kept])})
    return listed, packed


def wants_logarithm(content: Content) -> bool:
    """Whether the first graph's edges span so many magnitudes that colours should be logarithmic."""
    for method in content.methods:
        if method.reconstructions is not None:
            return is_heavy_tailed(without_diagonal(np.asarray(method.reconstructions.inputs[0], dtype=float)))
    return False


def _choose(graphs: Reconstructions, budget: int) -> NDArray[np.int64]:
    """Places of the graphs that fit into ``budget`` bytes of base64, classes in turn, at least one of each."""
    bytes_each = 2 * 2 * graphs.inputs[0].size * 4 / 3
    rank = np.empty(len(graphs.labels), dtype=np.int64)
    for code in np.unique(graphs.labels):
        members = np.flatnonzero(graphs.labels == code)
        rank[members] = np.arange(len(members))
    count = max(int(budget // bytes_each), len(np.unique(graphs.labels)))
    return np.sort(np.lexsort((graphs.labels, rank))[:count])
