"""Arrays packed for a page, and an outline of the cortex for the 3-D viewer."""

import base64
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isocapsnet._validation import InputError

# Surfaces of the fsaverage family are subdivided icosahedra: the first 2562 vertices are those of the coarser mesh.
_N_VERTICES = 2562
_SMOOTHING_STEPS = 4


@lru_cache(maxsize=1)
def cortex_outline() -> dict[str, Any]:
    """Both hemispheres of nilearn's fsaverage5, coarser and smoother: ``vertices`` in millimetres and ``triangles``."""
    try:
        from nilearn.datasets import load_fsaverage
    except ImportError as error:
        raise InputError('The 3-D viewer needs nilearn; run: pip install "isocapsnet[plots]"') from error
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
    return {
        "shape": list(numbers.shape),
        "scale": scale,
        "data": base64.b64encode((numbers / scale).astype("<f2").tobytes()).decode(),
    }


def pack_indices(values: ArrayLike) -> dict[str, Any]:
    """Integers below 65536 in base64, little-endian."""
    numbers = np.asarray(values)
    return {"shape": list(numbers.shape), "data": base64.b64encode(numbers.astype("<u2").tobytes()).decode()}
