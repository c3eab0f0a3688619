"""Delimited text: how a file is decoded, where its cells begin and end, which number a cell is, tables with a header.

If a cell or a line can be read in two ways, the file is refused.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError
from isocapsnet.datasets.fields import MISSING
from isocapsnet.datasets.isolation import ReadLimit

# Memory that a character takes at most, once it is part of a cell: a short number is an object of 60 bytes.
_CELL_BYTES = 20
_QUOTED = re.compile(r'"[^"\n]*"')
_BREAKS = re.compile(r"\r\n|\r")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_PLAIN = re.compile(r"[0-9eE+.\-]*", re.ASCII)
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?|[-+]?inf(inity)?", re.ASCII | re.IGNORECASE)
_WHOLE = re.compile(r"[-+]?\d+(\.0*)?([eE][-+]?0+)?", re.ASCII)
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+", re.ASCII)
_PADDED = re.compile(r"[-+]?0\d+|-0", re.ASCII)
# By delimiter, others that may not separate every row just as well.
_RIVALS = {",": ";\t", ";": "\t"}


def read_text(path: Path, limit: ReadLimit | None = None) -> str:
    """The text of a file in UTF-8 (with or without byte-order mark), UTF-16 or Windows-1252; its lines end in LF."""
    if path.exists() and not path.is_file():  # a pipe or a device would never end
        raise InputError(f"{path.name} is not a file.")
    (limit or ReadLimit()).check(_CELL_BYTES * path.stat().st_size, path.name)
    content = path.read_bytes()
    is_wide = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    for encoding in ("utf-16",) if is_wide else ("utf-8-sig", "cp1252"):
        try:
            text = _BREAKS.sub("\n", content.decode(encoding))
        except UnicodeDecodeError:
            continue
        if control := _CONTROLS.search(text):
            line = text.count("\n", 0, control.start()) + 1
            raise InputError(f"{path.name} is not a text file: line {line} holds the character {control[0]!r}.")
        return text
    raise InputError(f"{path.name} is not a text file in UTF-8, UTF-16 or Windows-1252; save it as UTF-8.")


def find_delimiter(line: str) -> str:
    """The first of tab, semicolon and comma that the line has outside quotes, else a blank.

    Commas are decimal commas if numbers are separated by blanks.
    """
    bare = _QUOTED.sub("", line)
    delimiter = next((delimiter for delimiter in "\t;," if delimiter in bare), " ")
    words = bare.split()
    return " " if delimiter == "," and len(words) > 1 and all(map(is_value, words)) else delimiter


@dataclass(frozen=True)
class Grid:
    """The cells of a text file, without blank lines and comments; ``lines`` are their line numbers in the file."""

    name: str
    rows: list[list[str]]
    lines: list[int]
    delimiter: str


def read_grid(path: Path, limit: ReadLimit | None = None) -> Grid:
    """Split a file into cells. The first line decides the delimiter; lines that start with ``#`` are comments.

    A delimiter at the end of every line does not start another column.
    """
    numbered = [
        (number, line.strip(" "))
        for number, line in enumerate(read_text(path, limit).split("\n"), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not numbered:
        raise InputError(f"{path.name} is empty.")
    delimiter = find_delimiter(numbered[0][1])
    if delimiter != " " and all(line.endswith(delimiter) for _, line in numbered):
        numbered = [(number, line[:-1]) for number, line in numbered]
    rows = [_split(path, number, line, delimiter) for number, line in numbered]
    return Grid(path.name, rows, [number for number, _ in numbered], delimiter)


def _split(path: Path, number: int, line: str, delimiter: str) -> list[str]:
    if '"' not in line:
        return line.split() if delimiter == " " else [cell.strip() for cell in line.split(delimiter)]
    try:
        (cells,) = csv.reader([line], delimiter=delimiter, skipinitialspace=True, strict=True)
    except csv.Error as error:
        raise InputError(f"{path.name} has a quote in line {number} that is not closed ({error}).") from error
    return [cell.strip() for cell in cells]


def is_value(cell: str) -> bool:
    """Whether a cell is a number, with a decimal point or a decimal comma."""
    return _NUMBER.fullmatch(cell.replace(",", ".", 1)) is not None


def is_number(cell: str) -> bool:
    """Whether a cell is a number or says that one is missing."""
    return is_value(cell) or cell.lower() in MISSING


def is_whole(cell: str) -> bool:
    """Whether a cell is a whole number: 7, 7.0 or 7.00e+00."""
    return _WHOLE.fullmatch(cell) is not None


def is_index(cell: str) -> bool:
    """Whether a cell is a whole number that may be an index: 0, 7, 007."""
    return cell.isascii() and cell.isdigit() and len(cell) < 10


def is_counting(cells: Sequence[str]) -> bool:
    """Whether cells are 0, 1, 2... or 1, 2, 3..."""
    numbers = [str(number) for number in range(len(cells) + 1)]
    return list(cells) in (numbers[:-1], numbers[1:])


def parse_numbers(name: str, rows: Sequence[Sequence[str]], lines: Sequence[int]) -> NDArray[np.float64]:
    """Cells as numbers of the same shape; missing values are NaN.

    Decimal commas are read as such if at least one of them cannot separate thousands. ``name`` and ``lines`` are
    for the sentences.
    """
    cells = list(chain.from_iterable(rows))
    shape = (len(rows), len(rows[0]))
    if _PLAIN.fullmatch("".join(cells)):
        try:
            return np.array(cells, dtype=np.float64).reshape(shape)
        except ValueError:  # an empty or a damaged cell
            pass
    if any("," in cell for cell in cells):
        cells = _without_decimal_commas(name, cells)
    values = np.empty(len(cells))
    for i, cell in enumerate(cells):
        if _NUMBER.fullmatch(cell):
            values[i] = float(cell)
        elif cell.lower() in MISSING:
            values[i] = np.nan
        else:
            row, column = divmod(i, shape[1])
            raise InputError(f"{name} has the text {cell!r}, not a number (line {lines[row]}, column {column + 1}).")
    return values.reshape(shape)


def _without_decimal_commas(name: str, cells: list[str]) -> list[str]:
    with_comma = [cell for cell in cells if "," in cell]
    if all(map(_THOUSANDS.fullmatch, with_comma)):
        raise InputError(f"{name} has {with_comma[0]!r}, whose comma may separate thousands; write decimal points.")
    if both := next((cell for cell in cells if "." in cell), None):
        raise InputError(f"{name} has decimal commas ({with_comma[0]!r}) and points ({both!r}); write one of them.")
    return [cell.replace(",", ".", 1) for cell in cells]


def check_decimals(grid: Grid, values: NDArray[np.float64]) -> None:
    """Refuse numbers with decimal commas that a comma as delimiter has cut in two: 0,05 as 0 and 05."""
    if grid.delimiter == "," and values.shape[1] % 2 == 0 and not (np.nan_to_num(values) % 1).any():
        padded = next((cell for cell in chain.from_iterable(grid.rows) if _PADDED.fullmatch(cell)), None)
        # Signs stand before the comma, so that every second column would never have a minus.
        has_minus = np.any(values < 0, axis=0)
        if padded is not None or (len(values) >= 10 and has_minus[::2].any() and not has_minus[1::2].any()):
            raise InputError(
                f"{grid.name} may have decimal commas, which its commas between values would cut in two"
                f"{'' if padded is None else f' ({padded!r})'}; write decimal points, or semicolons between values."
            )


@dataclass(frozen=True)
class Table:
    """Columns of text without surrounding blanks, and the line that each row stands in."""

    name: str
    columns: dict[str, tuple[str, ...]]
    lines: list[int]
    is_quoted: bool

    def take(self, rows: Sequence[int]) -> "Table":
        """Some of the rows, by index."""
        columns = {name: tuple(cells[row] for row in rows) for name, cells in self.columns.items()}
        return Table(self.name, columns, [self.lines[row] for row in rows], self.is_quoted)

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

    The header decides the delimiter: the first of tab, semicolon and comma that it has, else blanks. Tabs separate
    without quoting, as in BIDS: a quote is a character. Commas and semicolons separate with the quoting of RFC 4180.
    Every row has as many fields as the header, or the table is refused by line. Blank lines are skipped. A header cell
    without a name is called by its position: "column 1".
    """
    text = read_text(path, limit)
    if not text.strip():
        raise InputError(f"{path.name} is empty.")
    delimiter = find_delimiter(text.lstrip("\n ").split("\n", 1)[0])
    lines: list[int] = []
    rows: list[list[str]] = []
    for line, row in _split_table(path, text, delimiter):
        if any(row):
            if rows and len(row) != len(rows[0]):
                raise InputError(f"{path.name} has {len(row)} fields in line {line} but {len(rows[0])} in its header.")
            lines.append(line)
            rows.append(row)
    if not rows:
        raise InputError(f"{path.name} has no column names in its first line.")
    header, *body = rows
    names = _name_columns(path, header, is_quoted=delimiter in ",;")
    n_rivals = len(names) - 1
    others = [line for line in text.split("\n") if line.strip()][1:]
    for rival in _RIVALS.get(delimiter, "") if others and n_rivals else "":
        if all(line.count(rival) == n_rivals for line in others):
            what = f"{delimiter!r} between its header's names but {rival!r} in every other line"
            raise InputError(f"{path.name} has {what}.")
    columns = zip(*body, strict=True) if body else ((),) * len(names)
    return Table(path.name, dict(zip(names, columns, strict=True)), lines[1:], is_quoted=delimiter in ",;")


def _split_table(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
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
            # A quoted field that spans lines must not hold what could be another row.
            further = [line for cell in row for line in cell.split("\n")[1:]] if reader.line_num > first else ()
            if any(delimiter in line for line in further) or (further and len(row) == 1):
                raise InputError(f"{path.name} has a quote in line {first} that spans rows to line {reader.line_num}.")
            yield first, [cell.strip() for cell in row]
            first = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path.name} has a quote in line {first} that is not closed ({error}).") from error


def _name_columns(path: Path, header: list[str], is_quoted: bool) -> list[str]:
    names = [name or f"column {number}" for number, name in enumerate(header, start=1)]
    if repeated := next((name for name, count in Counter(names).items() if count > 1), None):
        raise InputError(f"{path.name} has two columns called {repeated!r}; rename one.")
    if not is_quoted and (quoted := next((name for name in names if name[:1] == '"' or name[-1:] == '"'), None)):
        raise InputError(f"{path.name} has a column called {quoted}; tables with tabs have no quoting (BIDS).")
    return names
