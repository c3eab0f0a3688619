"""Checks of the arrays and values in a model file, before a model is built from them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from isocapsnet._validation import InputError

#: Type and shape of an array. A name instead of a number is a free length, equal wherever the name is used.
Expected = tuple[DTypeLike, tuple[int | str, ...]]


def check_arrays(arrays: Mapping[str, NDArray[Any]], expected: Mapping[str, Expected]) -> None:
    """Raise InputError for arrays that are missing, unexpected, or of a wrong type or shape."""
    for problem, names in (("no", set(expected) - set(arrays)), ("an unexpected", set(arrays) - set(expected))):
        if names:
            raise InputError(f"it has {problem} array {min(names)!r:.60}")
    lengths: dict[str, int] = {}
    for name, (dtype, shape) in expected.items():
        array = arrays[name]
        if array.dtype != np.dtype(dtype):
            raise InputError(f"array {name!r} holds {array.dtype} values instead of {np.dtype(dtype)}")
        wanted = tuple(
            lengths.setdefault(length, array.shape[axis] if axis < array.ndim else 0)
            if isinstance(length, str)
            else length
            for axis, length in enumerate(shape)
        )
        if array.shape != wanted:
            raise InputError(f"array {name!r} has shape {array.shape} instead of {wanted}")


def check_truth(name: str, value: Any) -> bool:
    """Raise InputError for anything but True and False."""
    if not isinstance(value, bool):
        raise InputError(f"{name} is neither true nor false")
    return value
