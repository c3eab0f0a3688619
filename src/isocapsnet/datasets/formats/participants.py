"""The table of subjects beside the matrices (BIDS ``participants.tsv`` and its relatives), and who is who in it."""

import io
import itertools
import re
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from isocapsnet._validation import InputError
from isocapsnet.datasets.formats.text import find_delimiter, read_text
from isocapsnet.datasets.labels import MISSING

_TABLE_NAMES = re.compile(r"(.*(participants|metadata|phenotyp|demographics).*|subjects)\.(tsv|csv)", re.IGNORECASE)


def is_table(path: Path) -> bool:
    """Whether a file is called as tables of subjects are."""
    return _TABLE_NAMES.fullmatch(path.name) is not None


def find_table(folder: Path) -> Path | None:
    """``participants.tsv`` or its like in the folder; for derivatives also in the BIDS dataset up to two above."""
    is_derivative = "derivatives" in folder.absolute().parts or (folder / "dataset_description.json").exists()
    for place in (folder, *(folder.absolute().parents[:2] if is_derivative else ())):
        tables = sorted(p for p in place.iterdir() if p.is_file() and is_table(p))
        if tables:
            return next((t for t in tables if t.stem == "participants"), tables[0])
    return None


def read_table(path: Path) -> pd.DataFrame:
    """All columns as text; missing values as empty text."""
    text = read_text(path)
    first_line = text.split("\n", 1)[0]
    try:
        table = pd.read_csv(io.StringIO(text), sep=find_delimiter(first_line), dtype=str, keep_default_na=False)
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InputError(f"{path.name} is not a readable table ({error}).") from error
    table.columns = table.columns.str.strip()
    return table.map(lambda cell: "" if str(cell).strip().lower() in MISSING else str(cell).strip())


def tokenize(name: str) -> tuple[str, ...]:
    """The words and numbers of an identifier or file name: "sub-0050952" and "50952" are the same subject.

    In a BIDS file name only the subject's entity counts.
    """
    entity = re.search(r"(?:^|_)sub-([^_.]+)", name)
    return tuple(t.lstrip("0") or "0" for t in re.findall(r"[a-z]+|[0-9]+", (entity[1] if entity else name).lower()))


class Participants:
    """A table of subjects whose identifier column has been found by what the files are called.

    Parameters
    ----------
    path : Path
    file_names : sequence of str
        Names of the subjects' files without extension.
    """

    def __init__(self, path: Path, file_names: Sequence[str]) -> None:
        self.path = path
        self.table = read_table(path)
        tokens = [tokenize(name) for name in file_names]
        self._prefix = _common_length(tokens)
        self._suffix = _common_length([name[::-1] for name in tokens])
        indexes = {column: self._index(column) for column in self.table.columns}
        found = {
            column: len(set().union(*(self._matches(name, index) for name in file_names)))
            for column, index in indexes.items()
        }
        preferred = [column for column in found if column.lower() in ("participant_id", "subject_id", "sub_id")]
        self.id_column = max(found, key=lambda column: (found[column], column in preferred), default="")
        if not found.get(self.id_column):
            raise InputError(
                f"No column of {path.name} names the subjects as the files do ({file_names[0]!r}, for example)."
            )
        self._rows = indexes[self.id_column]

    def _index(self, column: str) -> dict[tuple[str, ...], list[int]]:
        rows: dict[tuple[str, ...], list[int]] = {}
        for row, identifier in enumerate(self.table[column]):
            if tokens := tokenize(identifier):
                rows.setdefault(tokens, []).append(row)
        return rows

    def _matches(self, file_name: str, index: dict[tuple[str, ...], list[int]]) -> set[tuple[str, ...]]:
        """Identifiers that occur in a file name as a run of its tokens; only the longest runs count.

        A run must reach into the part where file names differ: what they share, such as an atlas, names nobody.
        """
        tokens = tokenize(file_name)
        first, last = self._prefix, len(tokens) - self._suffix - 1
        if first > last:
            first, last = 0, len(tokens) - 1
        for length in range(len(tokens), 0, -1):
            starts = range(max(0, first - length + 1), min(last, len(tokens) - length) + 1)
            if matching := {tokens[start : start + length] for start in starts} & index.keys():
                return matching
        return set()

    def duplicates(self) -> list[str]:
        """A sentence for each subject that the table lists more than once."""
        ids = self.table[self.id_column]
        return [
            f"{self.path.name} lists {ids.iloc[rows[0]]!r} {len(rows)} times, in rows "
            f"{', '.join(str(row + 2) for row in rows)}; keep one row per subject."
            for rows in self._rows.values()
            if len(rows) > 1
        ]

    def find(self, file_name: str) -> int | None:
        """The row of the subject that a file is named after; ``None`` when there is none."""
        found = self._matches(file_name, self._rows)
        if len(found) > 1:
            names = ", ".join(repr(self.table[self.id_column].iloc[self._rows[key][0]]) for key in sorted(found)[:3])
            raise InputError(f"{file_name} could belong to {names} of {self.path.name}; rename the file.")
        return self._rows[found.pop()][0] if found else None

    def identifier(self, row: int) -> str:
        """The subject of a row, without the prefix of BIDS."""
        return str(self.table[self.id_column].iloc[row]).removeprefix("sub-")

    def without(self, rows: Collection[int | None]) -> list[str]:
        """The subjects of the table that are in none of these rows."""
        listed = [row for rows_of_subject in self._rows.values() for row in rows_of_subject]
        return [self.identifier(row) for row in sorted(listed) if row not in rows]

    def values(self, column: str, rows: Sequence[int | None]) -> list[str]:
        """A column for the subjects in ``rows``; empty text for a missing value and for a subject not in the table."""
        if column not in self.table:
            raise InputError(f"{self.path.name} has no column {column!r}; it has {', '.join(self.table.columns)}.")
        cells = self.table[column].tolist()
        return ["" if row is None else cells[row] for row in rows]

    def covariates(self, columns: Sequence[str], rows: Sequence[int | None]) -> pd.DataFrame:
        """Several columns for the subjects in ``rows``, as numbers where all values that are there are numbers."""
        frame = pd.DataFrame({column: self.values(column, rows) for column in columns})
        for column in columns:
            numbers = pd.to_numeric(frame[column].replace("", None), errors="coerce")
            if not (numbers.isna() & (frame[column] != "")).any():
                frame[column] = numbers.astype(np.float64)
        return frame


def _common_length(sequences: list[tuple[str, ...]]) -> int:
    """How many tokens all sequences start with; 0 when there is only one."""
    if len(sequences) < 2:
        return 0
    return sum(1 for _ in itertools.takewhile(lambda column: len(set(column)) == 1, zip(*sequences, strict=False)))
