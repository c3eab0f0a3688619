"""Tables with a header, split into columns.

Tabs separate without quoting, as in BIDS: a quote is a character. Commas and semicolons separate with the quoting of
RFC 4180. Every row has as many fields as the header, or the table is refused by line.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError
from isocapsnet.datasets.formats.text import find_delimiter, read_text
from isocapsnet.datasets.isolation import ReadLimit

# By delimiter, others that may not separate every row just as well.
_RIVALS = {",": ";\t", ";": "\t"}


@dataclass(frozen=True)
class Table:
    """Columns of text without surrounding blanks, and the line that each row stands in."""

    name: str
    columns: dict[str, tuple[str, ...]]
    lines: list[int]
    is_quoted: bool

    def column(self, name: str) -> tuple[str, ...]:
        """One column; quotes around a value of a table that has no quoting are refused."""
        if name not in self.columns:
            raise InputError(f"{self.name} has no column {name!r}; it has {list_some(self.columns, 20)}.")
        cells = self.columns[name]
        if not self.is_quoted:
            quoted = next((row for row, cell in enumerate(cells) if cell[:1] == '"' or cell[-1:] == '"'), None)
            if quoted is not None:
                where = f"{self.name}, column {name!r}, line {self.lines[quoted]}"
                raise InputError(f"{where}: {cells[quoted]} has a quote; tables with tabs have no quoting (BIDS).")
        return cells


def read_table(path: Path, limit: ReadLimit | None = None) -> Table:
    """Split a table into its columns.

    The header decides the delimiter: the first of tab, semicolon and comma that it has, else blanks. Blank lines are
    skipped. A header cell without a name is called by its position: "column 1".
    """
    text = read_text(path, limit)
    if not text.strip():
        raise InputError(f"{path.name} is empty.")
    delimiter = find_delimiter(text.lstrip("\n ").split("\n", 1)[0])
    lines: list[int] = []
    rows: list[list[str]] = []
    for line, row in _split(path, text, delimiter):
        if any(row):
            if rows and len(row) != len(rows[0]):
                raise InputError(f"{path.name} has {len(row)} fields in line {line} but {len(rows[0])} in its header.")
            lines.append(line)
            rows.append(row)
    if not rows:
        raise InputError(f"{path.name} has no column names in its first line.")
    header, *body = rows
    names = _name_columns(path, header, is_quoted=delimiter in ",;")
    if rival := next((other for other in _RIVALS.get(delimiter, "") if _separates(other, text, len(names))), None):
        raise InputError(f"{path.name} has {delimiter!r} between its header's names but {rival!r} in every other line.")
    columns = zip(*body, strict=True) if body else ((),) * len(names)
    return Table(path.name, dict(zip(names, columns, strict=True)), lines[1:], is_quoted=delimiter in ",;")


def _split(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and stripped fields."""
    if delimiter in "\t ":
        separator = None if delimiter == " " else delimiter
        for number, line in enumerate(text.split("\n"), start=1):
            yield number, [cell.strip() for cell in line.split(separator)]
        return
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True, skipinitialspace=True)
    first = 1
    try:
        for row in reader:
            if reader.line_num > first and _has_swallowed(row, delimiter):
                raise InputError(f"{path.name} has a quote in line {first} that spans rows to line {reader.line_num}.")
            yield first, [cell.strip() for cell in row]
            first = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path.name} has a quote in line {first} that is not closed ({error}).") from error


def _has_swallowed(row: list[str], delimiter: str) -> bool:
    """Whether a quoted field that spans lines holds what could be another row."""
    further = [line for cell in row for line in cell.split("\n")[1:]]
    return len(row) == 1 or any(delimiter in line for line in further)


def _separates(other: str, text: str, n_columns: int) -> bool:
    """Whether another delimiter would split every row into as many fields as the header has."""
    body = [line for line in text.split("\n") if line.strip()][1:]
    return n_columns > 1 and bool(body) and all(line.count(other) == n_columns - 1 for line in body)


def _name_columns(path: Path, header: list[str], is_quoted: bool) -> list[str]:
    names = [name or f"column {number}" for number, name in enumerate(header, start=1)]
    if repeated := next((name for name, count in Counter(names).items() if count > 1), None):
        raise InputError(f"{path.name} has two columns called {repeated!r}; rename one.")
    if not is_quoted and (quoted := next((name for name in names if name[:1] == '"' or name[-1:] == '"'), None)):
        raise InputError(f"{path.name} has a column called {quoted}; tables with tabs have no quoting (BIDS).")
    return names
