"""Labels as researchers write them, turned into class codes."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError

#: Texts that stand for a missing value, in lower case.
MISSING = frozenset({"", "n/a", "na", "nan", "none", "null", "<na>"})


def is_missing(value: Any) -> bool:
    """Whether a value says that nothing is known: None, NaN, or a text such as "n/a"."""
    return value is None or value != value or str(value).strip().lower() in MISSING


def encode_labels(values: Iterable[Any]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return ``(codes, names)``: per value the index of its name, -1 where it is missing.

    Names stand in the order of the values: numbers by size, also when written as text, other texts alphabetically.
    """
    names = [None if is_missing(value) else _name(value) for value in values]
    distinct = sorted({name for name in names if name is not None}, key=_sort_key)
    index = {name: code for code, name in enumerate(distinct)}
    return np.array([-1 if name is None else index[name] for name in names], dtype=np.int64), tuple(distinct)


def _name(value: Any) -> str:
    text = str(value).strip()
    try:
        number = float(text)
    except ValueError:
        return text
    if not number.is_integer():
        raise InputError(f"The label {text} is a fractional number; labels must name classes.")
    return str(int(number))


def _sort_key(name: str) -> tuple[bool, float, str]:
    try:
        return (False, float(name), name)
    except ValueError:
        return (True, 0.0, name)
