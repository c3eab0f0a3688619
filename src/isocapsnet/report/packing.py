"""Arrays small enough to travel inside a page."""

import base64
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def pack_numbers(values: ArrayLike) -> dict[str, Any]:
    """Numbers as half-precision floats (three digits at any magnitude) of their largest one, base64, little-endian.

    The page gets them back as ``number * scale``.
    """
    numbers = np.asarray(values, dtype=np.float64)
    scale = float(np.abs(numbers).max(initial=0.0)) or 1.0
    return {
        "shape": list(numbers.shape),
        "scale": scale,
        "data": base64.b64encode((numbers / scale).astype("<f2").tobytes()).decode(),
    }


def pack_indices(values: ArrayLike) -> dict[str, Any]:
    """Whole numbers below 65536 as base64, little-endian."""
    numbers = np.asarray(values)
    return {"shape": list(numbers.shape), "data": base64.b64encode(numbers.astype("<u2").tobytes()).decode()}
