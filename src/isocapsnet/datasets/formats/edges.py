"""Edge lists, one file per subject: rows of source, target and, optionally, a weight."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.datasets.formats.text import Grid, is_number, is_value, is_whole, parse_numbers

#: Titles of the two columns of nodes, in lower case and without punctuation.
_ENDS = re.compile(
    r"source|target|from|to|src|dst|i|j|u|v|row|col|column|start|end|head|tail|(source|target)?(node|region|roi)[12ab]?"
)


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
    is_titled = all(_ENDS.fullmatch(re.sub(r"[\W_]", "", cell.lower())) for cell in rows[0][:2])
    has_header = is_titled or _has_header(rows)
    rows, lines = rows[has_header:], lines[has_header:]
    if not rows:
        return EdgeList(grid.name, np.empty((0, 2), dtype=np.int64), np.empty(0), (), True) if is_titled else None
    ends = _parse_ends(rows)
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


def _parse_ends(rows: list[list[str]]) -> NDArray[Any] | None:
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
