"""Matrices as text, however they were exported: delimiter, header and index column are found in the content."""

import csv
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.datasets.labels import MISSING

_INDEX_TITLES = MISSING | {"node", "nodes", "index", "time", "region", "unnamed: 0"}


def read_text(path: Path) -> str:
    """The text of a file in UTF-8 (with or without byte-order mark), UTF-16 or Latin-1."""
    content = path.read_bytes()
    for encoding in ("utf-16",) if content[:2] in (b"\xff\xfe", b"\xfe\xff") else ("utf-8-sig", "latin-1"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise InputError(f"{path.name} is not a text file.")


def find_delimiter(line: str) -> str:
    """The first of tab, semicolon and comma that the line contains, else a blank."""
    return next((delimiter for delimiter in "\t;," if delimiter in line), " ")


def read_text_matrix(path: Path) -> tuple[NDArray[np.float64], list[str] | None]:
    """Read a matrix and the names of its columns (``None`` when the file has none).

    Lines that start with ``#`` are comments. A header row and an index column are recognised by text where numbers
    should be, by an empty corner, or by numbering 0, 1, 2... or 1, 2, 3... where the matrix would not be square.
    """
    lines = [line for line in read_text(path).splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        raise InputError(f"{path.name} is empty.")
    delimiter = find_delimiter(lines[0])
    if delimiter != " " and all(line.endswith(delimiter) for line in lines):
        lines = [line[:-1] for line in lines]
    first = _split(lines[0], delimiter)
    second = _split(lines[1], delimiter) if len(lines) > 1 else []
    header = None
    if _is_header(first, second, n_lines=len(lines)):
        header, lines = first, lines[1:]
    if not lines:
        raise InputError(f"{path.name} has a header but no numbers.")
    values = _parse(path, lines, delimiter)
    while _has_index(header, values):
        values = values.iloc[:, 1:]
        header = header[-values.shape[1] :] if header else None
    if header is not None and len(header) != values.shape[1]:
        raise InputError(f"{path.name} names {len(header)} columns but has {values.shape[1]}.")
    return _as_numbers(path, values, first_line=1 + (header is not None)), header


def _split(line: str, delimiter: str) -> list[str]:
    cells = next(csv.reader([line.strip(" ")], delimiter=delimiter, skipinitialspace=True))
    return [cell.strip() for cell in cells]


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return cell.lower() in MISSING
    return True


def _is_numbering(cells: list[str]) -> bool:
    return cells in ([str(i) for i in range(len(cells))], [str(i + 1) for i in range(len(cells))])


def _is_header(first: list[str], second: list[str], n_lines: int) -> bool:
    if len(second) == len(first) + 1:
        return True
    if n_lines == len(first) + 1 and all(map(str.isdigit, first)) and len({*first}) == len(first):
        return True  # region codes above a square matrix
    has_title = len(first) > 1 and (first[0].lower() in _INDEX_TITLES or not _is_number(first[0]))
    names = first[1:] if has_title else first
    return not all(map(_is_number, names)) or (len(names) > 2 and _is_numbering(names))


def _parse(path: Path, lines: list[str], delimiter: str) -> pd.DataFrame:
    widths = (
        [len(_split(line, delimiter)) for line in lines] if '"' in "".join(lines) else _quick_widths(lines, delimiter)
    )
    if len(set(widths)) > 1:
        row = next(i for i, width in enumerate(widths) if width != widths[0])
        raise InputError(
            f"{path.name} has {widths[0]} values in its first row of numbers but {widths[row]} in row {row + 1}; "
            "the file is damaged or its delimiter is unusual."
        )
    decimal = "," if delimiter in "\t; " and any("," in line for line in lines) else "."
    return pd.read_csv(
        io.StringIO("\n".join(lines)),
        sep=r"\s+" if delimiter == " " else delimiter,
        header=None,
        decimal=decimal,
        na_values=sorted(MISSING),
        skipinitialspace=True,
    )


def _quick_widths(lines: list[str], delimiter: str) -> list[int]:
    return [len(line.split()) if delimiter == " " else line.count(delimiter) + 1 for line in lines]


def _has_index(header: list[str] | None, values: pd.DataFrame) -> bool:
    n_rows, n_columns = values.shape
    if n_columns < 2:
        return False
    if header is not None and (len(header) == n_columns - 1 or header[0].lower() in _INDEX_TITLES):
        return True
    column = values.iloc[:, 0]
    if column.dtype.kind not in "iuf":
        return not any(_is_number(str(cell)) for cell in column)
    return n_columns == n_rows + 1 and _is_numbering([f"{cell:g}" for cell in column])


def _as_numbers(path: Path, values: pd.DataFrame, first_line: int) -> NDArray[Any]:
    try:
        return values.to_numpy(dtype=np.float64)
    except ValueError:
        for column in range(values.shape[1]):
            for row, cell in enumerate(values.iloc[:, column]):
                if isinstance(cell, str) and not re.fullmatch(r"[-+0-9.eE]+", cell):
                    raise InputError(
                        f"{path.name} has the text {cell!r} where a number should be (row {row + first_line}, column "
                        f"{column + 1} of the numbers)."
                    ) from None
        raise InputError(f"{path.name} holds values that are no numbers.") from None
