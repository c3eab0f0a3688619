"""Matrices and edge lists as text: header and index column are recognised by their content."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.datasets.formats.text import Grid, check_decimals, is_number, is_value, is_whole, parse_numbers

#: What the column is called that names or counts the rows; pandas leaves the corner empty.
INDEX_TITLES = frozenset({"", "node", "nodes", "index", "time", "region", "unnamed: 0"})
#: Titles of the two columns of nodes, in lower case and without punctuation.
_ENDS = re.compile(
    r"source|target|from|to|src|dst|i|j|u|v|row|col|column|start|end|head|tail|(source|target)?(node|region|roi)[12ab]?"
)
_NO_WEIGHT = re.compile(r"(p|q)([-_ .]?val(ue)?)?|p[-_ ]?(fdr|corr?)|fdr", re.IGNORECASE)


@dataclass(frozen=True)
class TextMatrix:
    """The numbers of a text file, the names of its columns and the texts that name its rows, where it has them."""

    values: NDArray[np.float64]
    names: list[str] | None
    row_names: list[str] | None = None


@dataclass(frozen=True)
class EdgeList:
    """The edges of one file: ``ends`` are whole numbers or names ``(n_edges, 2)``, ``lines`` where they stand.

    ``is_titled`` says that a header calls the columns source and target, or the like; without a column of weights all
    are 1.
    """

    name: str
    ends: NDArray[Any]
    weights: NDArray[np.float64]
    lines: Sequence[int]
    is_titled: bool = False
    has_weights: bool = True


def parse_matrix(grid: Grid) -> TextMatrix:
    """The matrix in a grid of cells.

    A header row and an index column are recognised by text instead of numbers, by an empty corner, or by codes (0, 1,
    2... or 2001, 2002, 2101...) if the matrix would not be square with them. A row or column of codes that may also be
    values is refused.
    """
    has_header, n_index = _find_layout(grid)
    header = grid.rows[0] if has_header else None
    rows, lines = grid.rows[has_header:], grid.lines[has_header:]
    if not rows:
        raise InputError(f"{grid.name} has a header but no numbers.")
    n_columns = len(rows[0]) - n_index
    if n_columns < 1:
        raise InputError(f"{grid.name} holds no numbers beside its column {grid.rows[0][0]!r}.")
    if header is not None:
        header = header[-n_columns:] if len(header) in (n_columns, n_columns + n_index) else header
        if len(header) != n_columns:
            raise InputError(f"{grid.name} names {len(header)} columns but has {n_columns}.")
    values = parse_numbers(grid.name, [row[n_index:] for row in rows], lines)
    check_decimals(grid, values)
    row_names = [row[n_index - 1] for row in rows] if n_index else []
    if all(map(is_value, row_names)):
        return TextMatrix(values, header)
    if len(rows) == n_columns:
        header = row_names if header is None or _is_numbering(header) else header
        if header != row_names and sorted(header) == sorted(row_names):
            raise InputError(f"{grid.name} names its rows in another order than its columns; use one order for both.")
    return TextMatrix(values, header, row_names)


def _find_layout(grid: Grid) -> tuple[bool, int]:
    """Whether the first row is a header, and how many leading columns name the rows."""
    first, body = grid.rows[0], grid.rows[1:]
    is_short = bool(body) and len(body[0]) == len(first) + 1  # as R writes it
    width = len(first) + is_short
    if other := next((i for i, row in enumerate(body, start=1) if len(row) != width), None):
        found = f"{len(grid.rows[other])} in line {grid.lines[other]}"
        raise InputError(f"{grid.name} has {width} values in its first row but {found}.")
    columns = zip(*body, strict=True)
    n_text = sum(1 for _ in takewhile(lambda column: not any(map(is_number, column)), columns))
    if body and n_text == len(body[0]):
        raise InputError(f"{grid.name} has the text {body[0][-1]!r} where a number should be (line {grid.lines[1]}).")
    _check_words(grid, n_text)
    names = first if is_short else first[n_text:]
    is_titled = not is_short and 0 < n_text <= len(first) and first[n_text - 1].lower() in INDEX_TITLES
    if is_short or is_titled or not all(map(is_number, names)):
        odd = next((cell for cell in names if cell and not _is_code(cell) and not _is_name(cell)), None)
        if odd is not None or (is_short and all(row[-1] == "" for row in body)):
            what = f"has {odd!r} among the names in line {grid.lines[0]}" if odd else "has a delimiter after every row"
            raise InputError(f"{grid.name} {what}; is it damaged?")
        return True, n_text or _count_titled(grid, first, body, is_short)
    is_header, is_index = _find_codes(grid.name, [row[n_text:] for row in grid.rows])
    if not is_header and any(map(is_number, first[:n_text])):
        raise InputError(f"{grid.name} has texts in its first column, but the number {first[0]!r} in its first line.")
    return is_header, n_text + is_index


def _is_code(cell: str) -> bool:
    return cell.isascii() and cell.isdigit()


def _is_name(cell: str) -> bool:
    return any(map(str.isalpha, cell)) and not is_value(cell)


def _count_titled(grid: Grid, header: Sequence[str], body: Sequence[Sequence[str]], is_short: bool) -> int:
    """1 where the first column holds numbers but counts or names the rows, by its title or for lack of one."""
    if not body or not (is_short or header[0].lower() in INDEX_TITLES):
        return 0
    column = [row[0] for row in body]
    is_index = _is_numbering(column) or column == list(header[-len(column) :])
    if not (is_short and _are_codes(header)):  # else the first line may just have lost a value
        values = [float(cell.replace(",", ".")) for cell in column if is_value(cell)]
        is_rising = len(values) == len(column) and all(a < b for a, b in pairwise(values))
        is_index |= is_rising or (all(map(is_whole, column)) and len({*column}) == len(column))
    if not is_index:
        what = "has one name less than values" if is_short else f"calls its first column {header[0]!r}"
        raise InputError(f"{grid.name} {what}, but the first column ({column[0]}...) does not name or count the rows.")
    return 1


def _find_codes(name: str, rows: Sequence[Sequence[str]]) -> tuple[bool, bool]:
    """Whether the first row is a header and the first column an index, in a grid that holds numbers alone."""
    first, n_rows, n_columns = rows[0], len(rows), len(rows[0])
    if n_rows == 1:
        return False, False
    if first[0] == "" and n_columns > 1 and _are_codes(first[1:]) and _are_codes([row[0] for row in rows[1:]]):
        is_diagonal = n_rows == n_columns and all(row[i] == "" for i, row in enumerate(rows))
        return (False, False) if is_diagonal else (True, True)
    is_header = n_columns > 1 and _are_codes(first)
    is_index = n_columns > 1 and _is_numbering([row[0] for row in rows])
    if not (is_header or is_index) or not all(is_number(cell) for row in rows for cell in row):
        return False, False
    if n_rows == n_columns and not _is_symmetric(rows):
        if is_index or (is_header and (_is_numbering(first) or not _are_whole(rows[1:]))):
            where = "column" if is_index else "line"
            raise InputError(f"{name} is square, but its first {where} counts; name rows and columns, or neither.")
        return False, False
    if n_rows == n_columns or not is_header or _is_numbering(first) or not _are_whole(rows[1:]):
        return is_header and n_rows != n_columns, is_index and n_columns == n_rows + 1
    if n_rows == n_columns + 1 and _is_symmetric(rows[1:]):
        return True, False
    # Whole numbers above whole numbers are values if most are within the range of their columns.
    values = np.array([[float(cell) if is_value(cell) else np.nan for cell in row] for row in rows])
    within = (values[0] >= np.fmin.reduce(values[1:])) & (values[0] <= np.fmax.reduce(values[1:]))
    if n_rows == n_columns + 1 or within.mean() <= 0.5:
        raise InputError(f"{name} has a first line that may be a header or values; name the columns, or write # first.")
    return False, False


def _are_codes(cells: Sequence[str]) -> bool:
    return all(map(_is_code, cells)) and len({*cells}) == len(cells)


def _is_numbering(cells: Sequence[str]) -> bool:
    """Whether cells count 0, 1, 2... or 1, 2, 3..., also as 1.0 or 1.00e+00."""
    if not all(map(is_whole, cells)):
        return False
    counted = [float(cell) for cell in cells]
    return counted[0] in (0, 1) and counted == [counted[0] + step for step in range(len(cells))]


def _are_whole(rows: Sequence[Sequence[str]]) -> bool:
    return all(is_whole(cell) or not is_value(cell) for row in rows for cell in row)


def _is_symmetric(rows: Sequence[Sequence[str]]) -> bool:
    return [*map(tuple, rows)] == [*zip(*rows, strict=True)]


def _check_words(grid: Grid, n_text: int) -> None:
    """Refuse texts that are several numbers, which another delimiter would separate, and too many texts."""
    if n_text > 2:
        raise InputError(f"{grid.name} has {n_text} columns of text before its numbers; keep at most the rows' names.")
    for row, line in zip(grid.rows, grid.lines, strict=True):
        for cell in row[:n_text]:
            if len(words := cell.split()) > 1 and all(map(is_value, words)):
                raise InputError(f"{grid.name} has {cell!r} in one cell in line {line}; use one delimiter.")


def is_end(title: str) -> bool:
    """Whether a column is called as those of nodes in edge lists are."""
    return _ENDS.fullmatch(re.sub(r"[\W_]", "", title.lower())) is not None


def find_edges(grid: Grid) -> EdgeList | None:
    """The edge list that a text file may be; ``None`` where it cannot be one."""
    rows, lines = grid.rows, grid.lines
    first = [row[0] for row in rows]
    # pandas leaves the title of its counting column empty.
    if first[0] == "" and len(first) > 1 and first[1:] == [str(number) for number in range(len(first) - 1)]:
        rows = [row[1:] for row in rows]
    width = len(rows[0])
    if width not in (2, 3) or any(len(row) != width for row in rows):
        return None
    is_titled = all(map(is_end, rows[0][:2]))
    if width == 3 and (_NO_WEIGHT.fullmatch(rows[0][2]) or (not is_titled and is_end(rows[0][2]))):
        raise InputError(f"{grid.name} calls its third column {rows[0][2]!r}; an edge list is source, target, weight.")
    has_header = is_titled or _has_header(rows)
    rows, lines = rows[has_header:], lines[has_header:]
    if not rows:
        return EdgeList(grid.name, np.empty((0, 2), dtype=np.int64), np.empty(0), (), True) if is_titled else None
    ends = parse_ends(rows)
    try:
        weights = np.ones(len(rows)) if width == 2 else parse_numbers(grid.name, [row[2:] for row in rows], lines)[:, 0]
    except InputError:
        return None
    return None if ends is None else EdgeList(grid.name, ends, weights, lines, is_titled, width == 3)


def edges_of_matrix(name: str, matrix: NDArray[Any]) -> EdgeList | None:
    """The edge list that an array of two or three columns may be."""
    if matrix.ndim != 2 or matrix.shape[1] not in (2, 3) or not len(matrix):
        return None
    ends = np.asarray(matrix[:, :2], dtype=np.float64)
    if not np.isfinite(ends).all() or (ends % 1).any() or ends.min() < 0 or ends.max() >= 2**53:
        return None
    weights = np.ones(len(matrix)) if matrix.shape[1] == 2 else np.asarray(matrix[:, 2], dtype=np.float64)
    return EdgeList(name, ends.astype(np.int64), weights, range(1, len(matrix) + 1))


def _has_header(rows: list[list[str]]) -> bool:
    """Whether the first row holds unusual titles: no number for a weight, or texts above whole numbers."""
    first = rows[0]
    if len(first) == 3 and not is_number(first[2]):
        return True
    body = [cell for row in rows[1:] for cell in row[:2]]
    return bool(body) and not any(map(is_value, first[:2])) and all(map(is_whole, body))


def parse_ends(rows: list[list[str]]) -> NDArray[Any] | None:
    """Nodes as whole numbers where all are, else as names; ``None`` where some cannot be nodes."""
    cells = [cell for row in rows for cell in row[:2]]
    if not all(cell.isascii() and cell.isdigit() for cell in cells):
        if any(is_number(cell) and not (is_whole(cell) and float(cell) >= 0) for cell in cells):
            return None
        if not all(map(is_whole, cells)):
            is_padded = any(is_whole(cell) and f"{float(cell):.0f}" != cell for cell in cells)
            return None if is_padded else np.array(cells, dtype=np.str_).reshape(-1, 2)
    numbers = np.array([float(cell) for cell in cells]).reshape(-1, 2)
    return numbers.astype(np.int64) if numbers.max() < 2**53 else None
