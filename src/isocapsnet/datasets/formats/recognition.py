"""What the files of a folder are: matrices, edge lists or time series.

All files are considered together, because a folder has one kind of files. A table is only read as time series if it
cannot be anything else, or if its name or an option says so.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.datasets.findings import Findings
from isocapsnet.datasets.formats.matrices import EdgeList

Kind = Literal["graphs", "edges", "series"]

_SERIES = re.compile(r"time[-_]?series|ptseries|_rois_|\.1d$", re.IGNORECASE)
# Tables of fewer columns are edge lists, coordinates or counts more often than signals of so few regions.
_FEW_COLUMNS = 4
_TITLES = {"graphs": "adjacency matrices", "edges": "edge lists", "series": "time series, rows being time points"}


@dataclass
class Content:
    """What one file holds: a table of numbers, an edge list, or what may be either.

    ``array`` is the name of the matrix, if the file may have several.
    """

    source: str
    matrix: NDArray[Any] | None = None
    node_names: list[str] | None = None
    has_row_names: bool = False
    edges: EdgeList | None = None
    array: str = ""

    @property
    def is_square(self) -> bool:
        """Whether the file may be an adjacency matrix."""
        return self.matrix is not None and self.matrix.shape[0] == self.matrix.shape[1]

    @property
    def is_symmetric(self) -> bool:
        """Whether the file is a symmetric matrix of more than one node, up to rounding."""
        if not self.is_square or self.matrix is None or len(self.matrix) < 2:
            return False
        matrix = np.asarray(self.matrix, dtype=np.float64)
        rounding = 1e-6 * float(np.nanmax(np.abs(matrix), initial=0.0))
        return np.allclose(matrix, matrix.T, rtol=0.0, atol=rounding, equal_nan=True)


def is_named_series(file_name: str) -> bool:
    """Whether a file is called as time series are."""
    return _SERIES.search(file_name) is not None


def find_strays(names: Mapping[str, tuple[str, bool]], contents: Mapping[str, Content | None]) -> list[str]:
    """Files that are no subject's: no number in a name where all others have one, no row in the table, other content.

    ``names`` has the stem of each file and whether the table of subjects has a row for it; ``contents`` what was read,
    ``None`` if nothing could be.
    """
    odd = [source for source, (stem, has_row) in names.items() if not has_row and not any(map(str.isdigit, stem))]
    others = [contents[source] for source in names if source not in odd]
    if not others or len(odd) > max(1, len(others) // 4):
        return []
    is_square = all(one is not None and one.is_square for one in others)
    is_list = all(one is not None and one.edges is not None for one in others)
    widths = {one.matrix.shape[1] for one in others if one is not None and one.matrix is not None}

    def is_like_others(one: Content | None) -> bool:
        if one is None:
            return False
        if is_square or is_list:
            return (is_square and one.is_square) or (is_list and one.edges is not None)
        return one.matrix is not None and one.matrix.shape[1] in widths

    return [source for source in odd if not is_like_others(contents[source])]


def recognise(
    contents: Sequence[Content], asked: str, n_nodes: int | None, findings: Findings
) -> tuple[Kind, list[Content]]:
    """The kind of the files, on record, and those that can be of it; the others are noted as errors.

    ``n_nodes`` is the number of nodes, if it was given.
    """
    if asked in ("edges", "series"):
        kind, why = cast(Kind, asked), "as asked for"
    elif asked == "auto" and is_named_series(contents[0].source):
        if all(one.is_symmetric for one in contents):
            kind, why = "graphs", "all are square and symmetric, although they are named like time series"
        else:
            kind, why = "series", "by their names"
    else:
        kind, why = _weigh(contents, asked, n_nodes)
    errors = {one.source: _refuse_kind(one, kind, contents) for one in contents}
    fitting = [one for one in contents if errors[one.source] is None]
    if kind == "series":
        errors |= {one.source: _refuse_series(one, asked) for one in fitting}
        if asked == "auto":
            few = [one.source for one in fitting if one.matrix is not None and one.matrix.shape[1] < _FEW_COLUMNS]
            if few and is_named_series(few[0]):
                what = f"{len(few)} files, such as {few[0]}, are time series by name"
                findings.warnings.append(f"{what}, but have few columns.")
    for source, sentence in errors.items():
        if sentence is not None:
            findings.refuse(source, sentence)
    findings.handle(f"files read as {_TITLES[kind]} ({why})", f"{len(contents)} files")
    return kind, fitting


def _weigh(contents: Sequence[Content], asked: str, n_nodes: int | None) -> tuple[Kind, str]:
    """Matrices or edge lists where all or most files can be; else time series where all have as many columns."""
    n_files = len(contents)
    n_squares, n_lists = sum(one.is_square for one in contents), sum(one.edges is not None for one in contents)
    if n_squares == n_lists == n_files and asked == "auto":
        if n_nodes is not None and all(one.matrix is not None and len(one.matrix) != n_nodes for one in contents):
            return "edges", f"none is a matrix of {n_nodes} nodes"
        raise InputError(f'{contents[0].source} may be a matrix or an edge list; pass kind="graphs" or kind="edges".')
    if n_squares == n_files:
        return "graphs", "all are square" if asked == "auto" else "as asked for"
    if n_lists > n_squares and 2 * n_lists >= n_files:
        return "edges", "rows of two nodes and, optionally, a weight"
    widths = {one.matrix.shape[1] for one in contents if one.matrix is not None}
    if n_squares:
        return "graphs", "some are square"
    if asked == "graphs" or len(widths) > 1:
        return "graphs", "as asked for" if asked == "graphs" else "their numbers of columns differ"
    return "series", "none is square, and all have the same number of columns"


def _refuse_kind(content: Content, kind: Kind, contents: Sequence[Content]) -> str | None:
    """A sentence about a file that cannot be what the others are."""
    if kind == "edges":
        if content.edges is not None:
            return None
        other = next((one.source for one in contents if one.edges is not None), None)
        what = "a square matrix" if content.is_square else "no edge list (rows of two nodes and, optionally, a weight)"
    else:
        is_list = content.edges is not None and kind == "graphs" and not content.is_square
        if content.matrix is not None and not is_list:
            return None
        other = next((one.source for one in contents if one.is_square), None)
        what = "an edge list" if content.edges is not None else "no table of numbers"
    but = "" if other is None else f", but {other} is {'an edge list' if kind == 'edges' else 'a square matrix'}"
    return f"{content.source} is {what}{but}; all files must be of one kind."


def _refuse_series(content: Content, asked: str) -> str | None:
    """A sentence where a table may be something other than time series, or has a column that is none."""
    assert content.matrix is not None
    n_columns = content.matrix.shape[1]
    if counting := _find_counting_column(content.matrix):
        return f"{content.source} counts in column {counting}; remove that column if it numbers time points or nodes."
    what = None
    if asked == "series":
        return None
    if is_named_series(content.source):
        what = "is called a time series but may be an edge list" if content.edges is not None else None
    elif n_columns < _FEW_COLUMNS:
        what = f"has {n_columns} column(s)"
    elif content.has_row_names:
        what = "names its rows, as tables of nodes do"
    elif not (np.nan_to_num(np.asarray(content.matrix[:, :2], dtype=np.float64)) % 1).any():
        what = "has whole numbers in its first two columns, as tables of edges do"
    return None if what is None else f'{content.source} {what}; if its rows are time points, pass kind="series".'


def _find_counting_column(matrix: NDArray[Any]) -> int | None:
    """The number of the first column that rises by the same step in every row, as numbers of rows and times do."""
    if len(matrix) < 3:
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        steps = np.diff(np.asarray(matrix, dtype=np.float64), axis=0)
        mean = steps.mean(axis=0)  # steps of times that were rounded differ a little
        is_counting = (mean > 0) & (np.abs(steps - mean) <= 0.2 * np.abs(mean)).all(axis=0)
    return int(np.argmax(is_counting)) + 1 if is_counting.any() else None
