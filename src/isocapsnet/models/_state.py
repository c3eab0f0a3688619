"""What a file says about a fitted estimator, compared with what it must be before anything is built from it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from isocapsnet._validation import InputError

#: Type and shape of an array; a text instead of a number names a length that is free, but one wherever it is named.
Expected = tuple[DTypeLike, tuple[int | str, ...]]


def check_arrays(arrays: Mapping[str, NDArray[Any]], expected: Mapping[str, Expected]) -> None:
    """Refuse arrays that are missing, unknown, or of another type or shape than expected."""
    for problem, names in (("no", set(expected) - set(arrays)), ("an unknown", set(arrays) - set(expected))):
        if names:
            raise InputError(f"it has {problem} array {min(names)!r:.60}")
    lengths: dict[str, int] = {}
    for name, (dtype, shape) in expected.items():
        found = arrays[name]
        if found.dtype != np.dtype(dtype):
            raise InputError(f"array {name!r} holds {found.dtype} values instead of {np.dtype(dtype)}")
        wanted = tuple(
            lengths.setdefault(length, found.shape[axis] if axis < found.ndim else 0)
            if isinstance(length, str)
            else length
            for axis, length in enumerate(shape)
        )
        if found.shape != wanted:
            raise InputError(f"array {name!r} has shape {found.shape} instead of {wanted}")


def check_truth(name: str, value: Any) -> bool:
    """Refuse anything but True and False."""
    if not isinstance(value, bool):
        raise InputError(f"{name} is neither true nor false")
    return value
