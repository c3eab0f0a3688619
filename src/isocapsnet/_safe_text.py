"""Text that comes from data, made safe to print on a terminal and to write into a spreadsheet (leaf module).

File names, identifiers and column names come from the authors of the data. They may contain escape sequences, line
breaks, marks that reverse the writing direction, or formulas.
"""

import re
from collections.abc import Collection, Hashable
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_LONGEST = 1000
_LISTED = 6
# What makes a spreadsheet take a cell for a formula, with the full-width forms that some of them accept.
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?(inf|nan)", re.ASCII | re.IGNORECASE)


def printable(text: object, limit: int = _LONGEST) -> str:
    """One line of text for the terminal: what cannot be seen is escaped, and the middle of a long text is left out."""
    line = str(text)
    if len(line) > limit:
        head, tail = 2 * limit // 3, limit // 3
        line = f"{line[:head]} [...] {line[-tail:]}"
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def list_some(items: Collection[object], limit: int = _LISTED) -> str:
    """The first items, separated by commas, and how many more there are."""
    listed = ", ".join(printable(item, 100) for item in islice(items, limit))
    return listed if len(items) <= limit else f"{listed} and {len(items) - limit:,} more"


def spreadsheet_safe(frame: "pd.DataFrame") -> "pd.DataFrame":
    """A copy of a table in which no cell, row name or column name is a formula.

    A text that a spreadsheet would run gets an apostrophe in front. Numbers stay as they are, negative ones and
    those that are written as text too.
    """
    safe = frame.copy()
    for position in range(safe.shape[1]):
        column = safe.iloc[:, position]
        if column.dtype.kind not in "biufcmM":
            safe.isetitem(position, [_neutral(value) for value in column])
    safe.columns = safe.columns.map(_neutral)
    safe.index = safe.index.map(_neutral)
    return safe


def _neutral(value: Any) -> Hashable:
    is_formula = isinstance(value, str) and value.startswith(_FORMULA) and not _NUMBER.fullmatch(value)
    return f"'{value}" if is_formula else value
