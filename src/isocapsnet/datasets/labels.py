"""Labels as researchers write them, turned into class codes."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError

#: Texts that stand for a missing value, in lower case.
MISSING = frozenset({"", "n/a", "na", "nan", "none", "null", "<na>"})


def is_missing(value: Any) -> bool:
    """Whether a value is missing: None, NaN, or a text such as "n/a"."""
    return value is None or value != value or str(value).strip().lower() in MISSING


def encode_labels(values: Iterable[Any]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return ``(codes, names)``: per value the index of its name, -1 where it is missing.

    Names stand in the order of the values: numbers by size, also when written as text, other texts alphabetically.
    Refused are numbers that look like a measurement, and texts that differ for nearly all subjects.
    """
    names = [None if is_missing(value) else _name(value) for value in values]
    counts = Counter(name for name in names if name is not None)
    _check_classes(counts)
    distinct = sorted(counts, key=_sort_key)
    index = {name: code for code, name in enumerate(distinct)}
    return np.array([-1 if name is None else index[name] for name in names], dtype=np.int64), tuple(distinct)


def _check_classes(counts: Counter[str]) -> None:
    """Refuse values that differ for nearly all subjects, or that look like a measurement."""
    n_values, n_labels = len(counts), counts.total()
    numbers = [name for name in counts if _as_number(name) is not None]
    fraction = next((name for name in numbers if not (_as_number(name) or 0.0).is_integer()), None)
    are_numbers = len(numbers) == n_values
    is_spread = are_numbers and (n_values > 20 or (n_values > 10 and min(counts.values()) < 3))
    if fraction is not None or is_spread or (are_numbers and n_values > 4 and 2 * n_values > n_labels):
        first = "" if fraction is None else f", such as {fraction}"
        raise InputError(
            f"The target has {n_values} different numbers for {n_labels} subjects{first}; it looks continuous, and "
            "regression is not supported. Choose a column of classes, or write names instead of numbers."
        )
    if n_values > max(10, n_labels // 2):
        raise InputError(f"The target has {n_values} different values for {n_labels} subjects; choose classes.")


def _as_number(text: str) -> float | None:
    """The number that a text is, with a decimal point or a decimal comma."""
    try:
        return float(text.replace(",", ".", 1))
    except ValueError:
        return None


def _name(value: Any) -> str:
    text = str(value).strip()
    number = None if "," in text else _as_number(text)
    return text if number is None or not number.is_integer() else str(int(number))


def _sort_key(name: str) -> tuple[bool, float, str]:
    number = None if "," in name else _as_number(name)
    return (number is None, number or 0.0, name)
