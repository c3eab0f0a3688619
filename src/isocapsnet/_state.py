"""Fitted state as JSON values and arrays, and its checks before an object is restored from a file (leaf module)."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from isocapsnet._validation import InputError

#: Type and shape of an array. A name instead of a number is a free length, equal wherever the name is used.
Expected = tuple[DTypeLike, tuple[int | str, ...]]
#: JSON values, and named arrays.
State = tuple[dict[str, Any], dict[str, NDArray[Any]]]


class Stateful:
    """What a fit has learned, as JSON values and arrays; what comes from a file is checked before it is used."""

    #: Checks ``check(name, value)`` of the fitted values in a file, by attribute without its underscore.
    _state_values: ClassVar[dict[str, Callable[[str, Any], Any]]] = {}

    def _get_state(self) -> State:
        """The fitted state: JSON-serialisable values, and named arrays."""
        values = {name: getattr(self, f"{name}_") for name in self._state_values}
        return values, {name: getattr(self, f"{name}_") for name in self._state_arrays()}

    def _set_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """The inverse of ``_get_state``, called on an object with equal parameters and ``n_nodes_in_`` set."""
        for name, check in self._state_values.items():
            check(name, values[name])
            setattr(self, f"{name}_", values[name])
        check_arrays(arrays, self._state_arrays())
        for name, array in arrays.items():
            setattr(self, f"{name}_", array)

    def _state_arrays(self) -> dict[str, Expected]:
        """Type and shape of the fitted arrays in a file, by attribute without its underscore."""
        raise NotImplementedError


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


def check_names(name: str, value: Any) -> list[str]:
    """Raise InputError for anything but a list of different texts."""
    is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
    if not is_list or len(set(value)) < len(value):
        raise InputError(f"{name} is not a list of different names")
    return value


def check_positive(name: str, array: NDArray[Any]) -> None:
    """Raise InputError for an array with a value that is not above 0."""
    if not (array > 0).all():
        raise InputError(f"array {name!r} has a value that is not positive")
