"""Tables of subjects from a file or a data frame, and a choice of their rows."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError
from isocapsnet.datasets.fields import decode
from isocapsnet.datasets.formats.text import Table, is_value, read_table
from isocapsnet.datasets.isolation import ReadLimit

_CONDITION = re.compile(r"\s*(?P<column>[^=!]+?)\s*(?P<sign>!?=)=?\s*(?P<value>.*?)\s*")
# Columns with more different values are not searched for a filter to suggest.
_MOST_VALUES = 30


def open_table(source: Path | pd.DataFrame, limit: ReadLimit | None = None) -> Table:
    """A table of texts. The lines of a data frame are its rows, counted from 1, and its named index is a column."""
    if isinstance(source, Path):
        return read_table(source, limit)
    frame = source.reset_index() if has_names(source.index) else source
    columns = {str(name): tuple(map(as_text, frame.iloc[:, i])) for i, name in enumerate(frame.columns)}
    if len(columns) < frame.shape[1]:
        raise InputError("The data frame has two columns of the same name; rename one.")
    return Table("the data frame", columns, list(range(1, len(frame) + 1)), is_quoted=True)


def has_names(index: Any) -> bool:
    """Whether the index of a data frame was set, and does not just count the rows."""
    return index.name is not None or not pd.api.types.is_integer_dtype(index)


def as_text(value: Any) -> str:
    """A cell of a data frame as a table has it: empty if missing, and whole numbers without decimals."""
    if pd.isna(value):
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(decode(value)).strip()


def choose_rows(table: Table, conditions: Sequence[str]) -> list[int]:
    """The rows that fulfil all conditions, ``COLUMN=VALUE`` or ``COLUMN!=VALUE``.

    Numbers are compared by value, texts without regard to capitals. An empty value and ``n/a`` are a missing value.
    """
    kept = list(range(len(table.lines)))
    for condition in conditions:
        match = _CONDITION.fullmatch(condition)
        if match is None:
            raise InputError(f"where={condition!r} is not a condition; write COLUMN=VALUE or COLUMN!=VALUE.")
        cells = table.column(match["column"])
        is_wanted = [_plain(cell) == _plain(match["value"]) for cell in cells]
        kept = [row for row in kept if is_wanted[row] == (match["sign"] == "=")]
        if not kept or not any(is_wanted):
            what = "fulfils" if not kept else "has the value of"
            raise InputError(
                f"No row of {table.name} {what} {condition!r}; the column {match['column']!r} has "
                f"{list_some(sorted({*cells}))}."
            )
    return kept


def _plain(cell: str) -> str | float:
    """A value as it is compared: the number that it is, or a text in one spelling."""
    text = cell.strip().casefold()
    if is_value(text) and "," not in text:
        return float(text)
    return "" if text == "n/a" else text


def suggest_filters(table: Table, repeated: Sequence[Sequence[int]]) -> Iterator[str]:
    """Conditions that leave one row of each subject, of whom ``repeated`` are the rows."""
    for name, cells in table.columns.items():
        if len(values := {cells[row] for rows in repeated for row in rows}) <= _MOST_VALUES:
            for value in sorted(values):
                if value and all(sum(cells[row] == value for row in rows) == 1 for rows in repeated):
                    yield f"{name}={value}"
