"""The table of subjects beside the matrices (BIDS ``participants.tsv`` and its relatives), and who is who in it.

A file must never get another subject's row: where names allow two answers, the study is refused.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pandas as pd

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError
from isocapsnet.datasets.fields import is_missing
from isocapsnet.datasets.formats.identifiers import (
    Run,
    Tokens,
    clean_identifiers,
    find_repeated,
    find_runs,
    index_identifiers,
    is_rounded,
)
from isocapsnet.datasets.formats.text import is_counting, is_number, parse_numbers, read_table
from isocapsnet.datasets.isolation import ReadLimit

_TABLE_NAMES = re.compile(r"(.*(participants|metadata|phenotyp|demographics).*|subjects)\.(tsv|csv)", re.IGNORECASE)
#: Words in the titles of columns that hold identifiers.
_ID_WORDS = frozenset(
    "id ids subject subjectid subj subjid sub subid participant patient identifier code".split()  # noqa: SIM905
)


def is_table(path: Path) -> bool:
    """Whether a file is called as tables of subjects are."""
    return _TABLE_NAMES.fullmatch(path.name) is not None


def find_table(folder: Path) -> Path | None:
    """``participants.tsv`` or its like in the folder; for derivatives also in the two folders above."""
    is_derivative = "derivatives" in folder.absolute().parts or (folder / "dataset_description.json").exists()
    for candidate in (folder, *(folder.absolute().parents[:2] if is_derivative else ())):
        tables = sorted(p for p in candidate.iterdir() if p.is_file() and is_table(p))
        tables = [table for table in tables if table.stem.lower() == "participants"] or tables
        if len(tables) > 1:
            names = list_some([table.name for table in tables])
            raise InputError(f"{candidate.name} has several tables ({names}); choose one with participants=.")
        if tables:
            return tables[0]
    return None


class Participants:
    """A table of subjects, whose column of identifiers is the one that occurs in ``file_names``, without extension.

    ``ids`` are the subjects of its rows without the prefix of BIDS, empty where the identifier is missing.
    """

    def __init__(self, path: Path, file_names: Sequence[str], limit: ReadLimit | None = None) -> None:
        self.path = path
        self.table = read_table(path, limit)
        self._runs = find_runs(file_names)
        wanted = {run.tokens for runs in self._runs.values() for run in runs}
        indexes = {
            name: index_identifiers(clean_identifiers(cells), wanted) for name, cells in self.table.columns.items()
        }
        self.id_column = self._choose(indexes, file_names)
        ids = self.table.column(self.id_column)
        if rounded := next(filter(is_rounded, ids), None):
            raise InputError(f"{path.name} has the identifier {rounded}; a spreadsheet may have rounded it.")
        self.ids = clean_identifiers(ids)
        self._rows = indexes[self.id_column]
        self._check_positions()

    def _choose(self, indexes: Mapping[str, Mapping[Tokens, list[int]]], file_names: Sequence[str]) -> str:
        """The column that names most files.

        Numbers alone may be ages or counts that coincide with file names. They are identifiers where the column's title
        says so, or where it is the first of a table without such a title, unless it counts the rows. Another column
        that names a file as another subject is refused, unless the first is participant_id.
        """
        matches = {
            column: {name: self._match(name, index) for name in file_names}
            for column, index in indexes.items()
            if _is_identifier(column) or self._may_identify(column, index)
        }
        scores = {c: len({run.tokens for runs in files.values() for run in runs}) for c, files in matches.items()}
        best = max(scores, key=lambda column: (scores[column], -_rank(column)), default=None)
        if best is None or not scores[best]:
            raise InputError(
                f"No column of {self.path.name} names the subjects as the files do ({file_names[0]!r}, for example); a "
                "column of numbers needs the title participant_id."
            )
        for rival in matches if _rank(best) > 0 else ():
            for name in file_names:
                ours, theirs = (
                    {row for run in matches[column][name] for row in indexes[column][run.tokens]}
                    for column in (best, rival)
                )
                if ours and theirs and not ours & theirs:
                    lines = f"lines {self.table.lines[min(ours)]} and {self.table.lines[min(theirs)]}"
                    raise InputError(
                        f"Columns {best!r} and {rival!r} of {self.path.name} both name {name}, but as different "
                        f"subjects ({lines}); call the column of identifiers participant_id."
                    )
        return best

    def _may_identify(self, column: str, index: Collection[Tokens]) -> bool:
        """Whether a column whose title does not say so may hold identifiers."""
        if any(len(tokens) > 1 or not tokens[0].isdigit() for tokens in index):
            return True
        columns = self.table.columns
        is_first = column == next(iter(columns))
        return is_first and not is_counting(columns[column]) and not any(map(_is_identifier, columns))

    def _match(self, file_name: str, index: Collection[Tokens]) -> list[Run]:
        """The longest runs of a file name that are identifiers, one for each identifier."""
        matching = [run for run in self._runs[file_name] if run.tokens in index]
        return list({run.tokens: run for run in matching if len(run.tokens) == len(matching[0].tokens)}.values())

    def _check_positions(self) -> None:
        """Refuse files that have their identifiers at different positions of their names: one may be another number."""
        matches = {name: runs[0] for name in self._runs if len(runs := self._match(name, self._rows)) == 1}
        before, after = {run.n_before for run in matches.values()}, {run.n_after for run in matches.values()}
        inside = {run.is_inside for run in matches.values()}
        if len(inside) > 1 or (len(before) > 1 and len(after) > 1):
            positions = {name: run.is_inside if len(inside) > 1 else run.n_before for name, run in matches.items()}
            usual = Counter(positions.values()).most_common(1)[0][0]
            one = next(name for name, position in positions.items() if position == usual)
            other = next(name for name, position in positions.items() if position != usual)
            raise InputError(
                f"{other} has the subject {' '.join(matches[other].tokens)} of {self.path.name} elsewhere in its name "
                f"than {one} has {' '.join(matches[one].tokens)}; name all files in the same way, such as sub-ID."
            )

    def duplicates(self) -> list[str]:
        """A sentence for each subject that the table lists more than once; sub-1 and sub-01 are one."""
        return [
            f"{self.path.name} lists {' and '.join(map(repr, sorted({self.ids[row] for row in rows})[:3]))} "
            f"{len(rows)} times, in lines {list_some([self.table.lines[row] for row in rows])}; keep one row each."
            for rows in find_repeated(self.ids)
        ]

    def find(self, file_name: str) -> int | None:
        """The row of the subject that a file is named after; ``None`` when there is none."""
        rows = [self._rows[run.tokens][0] for run in self._match(file_name, self._rows)]
        if len(rows) > 1:
            names = list_some([repr(self.ids[row]) for row in sorted(rows)], 3)
            raise InputError(f"{file_name} could belong to {names} of {self.path.name}; rename the file.")
        return rows[0] if rows else None

    def values(self, column: str, rows: Sequence[int | None]) -> list[str]:
        """A column for the subjects in ``rows``; empty text for a missing value and for a subject not in the table."""
        cells = self.table.column(column)
        return ["" if row is None or is_missing(cells[row]) else cells[row] for row in rows]

    def missing_words(self, column: str, rows: Sequence[int | None]) -> Counter[str]:
        """How often which word other than n/a says in a column that a value is missing."""
        cells = self.table.column(column)
        words = [cells[row] for row in rows if row is not None and is_missing(cells[row])]
        return Counter(word for word in words if word.lower() not in ("", "n/a"))

    def covariates(self, columns: Sequence[str], rows: Sequence[int | None]) -> pd.DataFrame:
        """Several columns for the subjects in ``rows``, as numbers where all values that are there are numbers."""
        frame = pd.DataFrame({column: self.values(column, rows) for column in columns})
        for column in columns:
            cells = frame[column].tolist()
            if cells and all(map(is_number, cells)):
                name = f"{self.path.name}, column {column!r},"
                frame[column] = parse_numbers(name, [[cell] for cell in cells], [0] * len(cells))[:, 0]
        return frame


def _rank(column: str) -> int:
    """0 for participant_id, 1 for other titles of identifiers, 2 for all others."""
    words = re.findall(r"[a-z]+", column.lower())
    if "".join(words) == "participantid":
        return 0
    return 1 if _ID_WORDS & {*words} else 2


def _is_identifier(column: str) -> bool:
    return _rank(column) < 2
