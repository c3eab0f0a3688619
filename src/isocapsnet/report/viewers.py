"""The data of the two interactive parts of a page: connectomes in 3-D, reconstructed matrices."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet.report.content import Content
from isocapsnet.report.cortex import cortex_outline, pack_numbers
from isocapsnet.report.evidence import Scene
from isocapsnet.report.figures.brain import is_heavy_tailed
from isocapsnet.report.figures.style import NEGATIVE, POSITIVE, class_colours, without_diagonal

if TYPE_CHECKING:
    from isocapsnet.explanation.summary import Reconstructions

#: Bytes of the page that reconstructions may take, all methods together.
_MATRIX_BYTES = 2_000_000


def connectome_data(content: Content, scenes: Sequence[Scene]) -> dict[str, Any] | None:
    """Cortex, regions and scenes in the order of the page; None without scenes or coordinates."""
    if content.coordinates is None or not scenes:
        return None
    return {
        "coordinates": pack_numbers(content.coordinates),
        "cortex": cortex_outline(),
        "colours": {"positive": POSITIVE, "negative": NEGATIVE, "classes": class_colours(len(content.classes))},
        "scenes": [_scene_data(scene) for scene in scenes],
    }


def _scene_data(scene: Scene) -> dict[str, Any]:
    """A scene as JSON; node weights are relative to the largest, edges are [node, node, weight]."""
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
    """For each method with a decoder, its subjects by class and the packed matrices."""
    methods = list(_with_decoder(content))
    subjects, matrices = [], []
    for index, (label, graphs) in enumerate(methods):
        kept = _choose(graphs, _MATRIX_BYTES // len(methods))
        labels = graphs.labels[kept]
        groups = [
            (content.classes[code], [(int(i), graphs.subjects[kept[i]]) for i in np.flatnonzero(labels == code)])
            for code in np.unique(labels)
        ]
        left_out = graphs.n_available - len(kept)
        subjects.append({"index": index, "method": label, "groups": groups, "shown": len(kept), "left_out": left_out})
        matrices.append({"inputs": pack_numbers(graphs.inputs[kept]), "outputs": pack_numbers(graphs.outputs[kept])})
    return subjects, matrices


def wants_logarithm(content: Content) -> bool:
    """Whether the edges of the first graph span so many magnitudes that colours should be logarithmic."""
    _, graphs = next(_with_decoder(content), ("", None))
    return graphs is not None and is_heavy_tailed(without_diagonal(np.asarray(graphs.inputs[0], dtype=float)))


def _with_decoder(content: Content) -> "Iterator[tuple[str, Reconstructions]]":
    for method in content.methods:
        if method.explanation is not None and method.explanation.reconstructions is not None:
            yield method.label, method.explanation.reconstructions


def _choose(graphs: "Reconstructions", budget: int) -> NDArray[np.int64]:
    """Indices of the graphs that fit into ``budget`` bytes of base64, classes in turn, at least one of each."""
    bytes_each = 2 * 2 * graphs.inputs[0].size * 4 / 3
    rank = np.empty(len(graphs.labels), dtype=np.int64)
    for code in np.unique(graphs.labels):
        members = np.flatnonzero(graphs.labels == code)
        rank[members] = np.arange(len(members))
    count = max(int(budget // bytes_each), len(np.unique(graphs.labels)))
    return np.sort(np.lexsort((graphs.labels, rank))[:count])
