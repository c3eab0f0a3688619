"""The data of the two interactive parts of a page: connectomes in 3-D, reconstructed matrices."""

import base64
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from isocapsnet._packages import importing
from isocapsnet.report.content import Content
from isocapsnet.report.evidence import Scene
from isocapsnet.report.figures.brain import is_heavy_tailed
from isocapsnet.report.figures.style import NEGATIVE, POSITIVE, class_colours, without_diagonal

if TYPE_CHECKING:
    from isocapsnet.explanation.reconstructions import Reconstructions

#: Bytes of the page that reconstructions may take, all methods together.
_MATRIX_BYTES = 2_000_000
# Surfaces of the fsaverage family are subdivided icosahedra: the first 2562 vertices are those of the coarser mesh.
_N_VERTICES = 2562
_SMOOTHING_STEPS = 4


def connectome_data(content: Content, scenes: Sequence[Scene]) -> dict[str, Any] | None:
    """Cortex, regions and scenes in the order of the page; None without scenes or coordinates."""
    if content.coordinates is None or not scenes:
        return None
    return {
        "coordinates": pack_numbers(content.coordinates),
        "cortex": cortex_outline(),
        "networks": next(
            (list(s.explanation.networks) for s in scenes if s.explanation and s.explanation.networks), []
        ),
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
    rank = pd.Series(graphs.labels).groupby(graphs.labels).cumcount()
    count = max(int(budget // bytes_each), len(np.unique(graphs.labels)))
    return np.sort(np.lexsort((graphs.labels, rank))[:count])


@cache
def cortex_outline() -> dict[str, Any]:
    """Both hemispheres of nilearn's fsaverage5, coarser and smoother: ``vertices`` in millimetres and ``triangles``."""
    with importing("The 3-D viewer needs nilearn", "plots"):
        from nilearn.datasets import load_fsaverage
    surfaces = load_fsaverage("fsaverage5")
    halves = [
        _coarsen(surfaces["pial"].parts[side].coordinates, surfaces["sphere"].parts[side].coordinates)
        for side in ("left", "right")
    ]
    vertices = np.concatenate([half[0] for half in halves])
    triangles = np.concatenate([halves[0][1], halves[1][1] + _N_VERTICES])
    return {"vertices": pack_numbers(vertices), "triangles": pack_indices(triangles)}


def _coarsen(
    pial: NDArray[np.floating[Any]], sphere: NDArray[np.floating[Any]]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The coarser mesh: vertices ``(n_vertices, 3)`` and triangles ``(n_triangles, 3)`` that face outwards.

    On the sphere the triangles of the coarser icosahedron are the faces of the vertices' convex hull.
    """
    from scipy.spatial import ConvexHull

    on_sphere = np.asarray(sphere[:_N_VERTICES], dtype=float)
    triangles = ConvexHull(on_sphere).simplices.astype(np.int64)
    a, b, c = (on_sphere[triangles[:, i]] for i in range(3))
    inwards = np.einsum("ij,ij->i", np.cross(b - a, c - a), a) < 0
    triangles[inwards] = triangles[inwards][:, ::-1]
    vertices = np.asarray(pial[:_N_VERTICES], dtype=float)
    sources = triangles[:, [0, 1, 2]].ravel()
    targets = triangles[:, [1, 2, 0]].ravel()
    degree = np.bincount(sources, minlength=_N_VERTICES)[:, None]
    for _ in range(_SMOOTHING_STEPS):
        total = np.zeros_like(vertices)
        np.add.at(total, sources, vertices[targets])
        vertices = (vertices + total / degree) / 2
    return vertices, triangles


def pack_numbers(values: ArrayLike) -> dict[str, Any]:
    """Numbers divided by the largest one, as half-precision floats (three digits) in base64, little-endian."""
    numbers = np.asarray(values, dtype=np.float64)
    scale = float(np.abs(numbers).max(initial=0.0)) or 1.0
    return {**_pack(numbers / scale, "<f2"), "scale": scale}


def pack_indices(values: ArrayLike) -> dict[str, Any]:
    """Integers below 65536 in base64, little-endian."""
    return _pack(np.asarray(values), "<u2")


def _pack(values: NDArray[Any], kind: str) -> dict[str, Any]:
    return {"shape": list(values.shape), "data": base64.b64encode(values.astype(kind).tobytes()).decode()}
