"""The table of subjects beside the matrices (BIDS ``participants.tsv`` and its relatives), and who is who in it.

A file must never get the row of another subject: if names are ambiguous, the study is refused.
"""

import itertools
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError
from isocapsnet.datasets.fields import MISSING, is_missing, missing_words
from isocapsnet.datasets.formats.name_parts import Run, find_runs
from isocapsnet.datasets.formats.tables import choose_rows, open_table, suggest_filters
from isocapsnet.datasets.formats.text import is_counting, is_number, parse_numbers
from isocapsnet.datasets.formats.titles import is_identifier, names_people, rank_title
from isocapsnet.datasets.identifiers import Tokens, find_separated, match_subjects, tokenize
from isocapsnet.datasets.isolation import ReadLimit

if TYPE_CHECKING:
    from isocapsnet.datasets.findings import Findings

_TABLE_NAMES = re.compile(r"(.*(participants|metadata|phenotyp|demographics).*|subjects)\.(tsv|csv)", re.IGNORECASE)
_FLOAT = re.compile(r"(\d{1,15})[.,]0+", re.ASCII)
# As a spreadsheet rounds identifiers: 5.0952e4, 5E+04.
_ROUNDED = re.compile(r"\d+([.,]\d+e\+?|e\+)\d+", re.ASCII | re.IGNORECASE)


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

    ``ids`` are the subjects of its rows without the prefix of BIDS, empty if the identifier is missing. ``where``
    leaves rows out after files were matched with all of them, so that no file gets the row of another subject. The
    columns ``used`` (target, site, covariates) are never taken as identifiers.
    """

    def __init__(
        self,
        source: Path | pd.DataFrame,
        file_names: Sequence[str],
        limit: ReadLimit | None = None,
        *,
        id_column: str | None = None,
        where: Sequence[str] = (),
        used: Collection[str] = (),
    ) -> None:
        self.table = whole = open_table(source, limit)
        self.name, self.where = whole.name, where
        self._runs = find_runs(file_names)
        wanted = {run.tokens for runs in self._runs.values() for run in runs}
        indexes = {name: _find_rows(clean_identifiers(cells), wanted) for name, cells in self.table.columns.items()}
        if id_column is None:
            id_column = self._choose({name: i for name, i in indexes.items() if name not in used}, file_names)
        self.id_column = id_column
        if not is_identifier(id_column):
            self._runs = {name: [run for run in runs if run.is_all] for name, runs in self._runs.items()}
        ids = self.table.column(self.id_column)
        if rounded := next(filter(_ROUNDED.fullmatch, ids), None):
            raise InputError(f"{self.name} has the identifier {rounded}; a spreadsheet may have rounded it.")
        self.ids = clean_identifiers(ids)
        self._rows = indexes[self.id_column]
        self._check_positions()
        self._check_counting(file_names)
        kept = choose_rows(whole, where)
        index = {row: new for new, row in enumerate(kept)}
        self._rows = {tokens: [index[row] for row in rows if row in index] for tokens, rows in self._rows.items()}
        self.table, self.ids = whole.take(kept), [self.ids[row] for row in kept]
        self.n_left_out = len(whole.lines) - len(kept)

    def _choose(self, indexes: Mapping[str, Mapping[Tokens, list[int]]], file_names: Sequence[str]) -> str:
        """The column that names most files.

        Numbers may be ages or counts that occur in file names by accident. They are identifiers if the title of the
        column says so, or in the first column of a table without such a title, unless it counts the rows. Another
        column that assigns a file to another subject is refused, unless the first is participant_id or the other has
        fewer than half as many different values, as columns of groups have.
        """
        matches = {
            column: {name: self._match(name, index, is_identifier(column)) for name in file_names}
            for column, index in indexes.items()
            if is_identifier(column) or self._may_identify(column, index, indexes)
        }
        sizes = {column: len({*self.table.columns[column]}) for column in matches}
        matches = {c: files for c, files in matches.items() if not self._is_group(c, indexes[c], files)}
        scores = {c: len({run.tokens for runs in files.values() for run in runs}) for c, files in matches.items()}
        best = max(scores, key=lambda column: (scores[column], -rank_title(column)), default=None)
        if best is None or not scores[best]:
            raise InputError(
                f"No column of {self.name} names the subjects as the files do ({file_names[0]!r}, for example); a "
                "column of numbers needs the title participant_id, or subjects= must name it."
            )
        for rival in matches if rank_title(best) > 0 else ():
            if 2 * sizes[rival] < sizes[best]:
                continue
            for name in file_names:
                ours, theirs = (
                    {row for run in matches[column][name] for row in indexes[column][run.tokens]}
                    for column in (best, rival)
                )
                if ours and theirs and not ours & theirs:
                    lines = f"lines {self.table.lines[min(ours)]} and {self.table.lines[min(theirs)]}"
                    raise InputError(
                        f"Columns {best!r} and {rival!r} of {self.name} both name {name}, but as different "
                        f"subjects ({lines}); call the column of identifiers participant_id."
                    )
        return best

    def _is_group(self, column: str, index: Collection[Tokens], files: Mapping[str, list[Run]]) -> bool:
        """Whether a column holds numbers of groups: two for many rows, or a few that name a minority of the files."""
        values = {cell for cell in self.table.columns[column] if not is_missing(cell)}
        if len(self.table.lines) < 3 * len(values) or any(len(tokens) > 1 for tokens in index):
            return False
        return len(values) <= 2 or 2 * sum(map(bool, files.values())) < len(files)

    def _may_identify(self, column: str, index: Collection[Tokens], columns: Collection[str]) -> bool:
        """Whether a column whose title does not say so may hold identifiers."""
        if any(len(tokens) > 1 or not tokens[0].isdigit() for tokens in index):
            return True
        is_first = column == next(iter(self.table.columns))
        return is_first and not is_counting(self.table.columns[column]) and not any(map(is_identifier, columns))

    def _match(self, file_name: str, index: Collection[Tokens], is_titled: bool = True) -> list[Run]:
        """The longest runs of a file name that are identifiers, one for each identifier.

        Numbers may be left over only if the title of the column says that it has identifiers.
        """
        matching = [run for run in self._runs[file_name] if run.tokens in index and (is_titled or run.is_all)]
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
                f"{other} has the subject {' '.join(matches[other].tokens)} of {self.name} elsewhere in its name "
                f"than {one} has {' '.join(matches[one].tokens)}; name all files in the same way, such as sub-ID."
            )

    def _check_counting(self, file_names: Sequence[str]) -> None:
        """Refuse a column that counts the rows from another number than the files do."""
        matched = {run.tokens for name in file_names for run in self._match(name, self._rows)}
        if not is_counting(self.ids) or len(matched) == len(self.ids):
            return
        beyond = {str(int(self.ids[0]) - 1), str(int(self.ids[-1]) + 1)}
        for name in file_names:
            if not self._match(name, self._rows) and beyond & {*tokenize(name)}:
                raise InputError(
                    f"Column {self.id_column!r} of {self.name} counts from {self.ids[0]} to {self.ids[-1]}, and {name} "
                    "is not among its numbers; if it does not name the subjects, remove it."
                )

    def list_targets(self) -> list[str]:
        """Columns of two to ten different values, which may be classes."""
        values = {name: {cell for cell in cells if not is_missing(cell)} for name, cells in self.table.columns.items()}
        return [name for name, several in values.items() if 2 <= len(several) <= 10 and name != self.id_column]

    def merge_rows(self, columns: Sequence[str], findings: "Findings") -> None:
        """Settle several rows of one subject: if they agree in the ``columns`` that are used, the first counts.

        Rows that differ, and subjects in two spellings (sub-1 and sub-01), are refused.
        """
        cells = [self.table.columns[column] for column in columns if column in self.table.columns]
        listed = {tokens: rows for tokens, rows in _find_rows(self.ids).items() if len(rows) > 1}
        repeated = [r for tokens, r in listed.items() if tokens in self._rows or len({self.ids[row] for row in r}) > 1]
        conflicts = [
            rows for rows in repeated if len({(self.ids[row], *(one[row] for one in cells)) for row in rows}) > 1
        ]
        if not conflicts:
            if repeated:
                used = " and ".join(map(repr, columns)) or "all columns that are used"
                what = f"several rows of {self.name} for one subject, which agree in {used}: the first counts"
                findings.handle(what, f"{len(repeated)} subjects")
            return
        rows = conflicts[0]
        names = " and ".join(map(repr, sorted({self.ids[row] for row in rows})[:3]))
        lines = list_some([self.table.lines[row] for row in rows])
        more = f" (and {len(conflicts) - 1:,} other subjects several times)" if len(conflicts) > 1 else ""
        filters = [f'where="{one}"' for one in itertools.islice(suggest_filters(self.table, repeated), 3)]
        how = f", such as {' or '.join(filters)}" if filters else ""
        findings.errors.append(
            f"{self.name} lists {names} {len(rows)} times, in lines {lines}, with different values{more}; keep one row "
            f"each, or choose rows with where={how}."
        )

    def check_people(self, used: Collection[str], exclude: Sequence[str], findings: "Findings") -> None:
        """Refuse rows that another column assigns to one person, if their identifiers do not say so.

        Columns that are ``used`` for something else, and subjects who are excluded, do not count.
        """
        rows = sorted({row for several in self._rows.values() for row in several[:1]})
        excluded = {*match_subjects(exclude, [self.ids[row] for row in rows], {}).values()}
        rows = [row for row in rows if self.ids[row] not in excluded]
        for title, cells in self.table.columns.items():
            there = [row for row in rows if not is_missing(cells[row])]
            people = [cells[row] for row in there]
            if title in (self.id_column, *used) or not names_people(title, people, has_ids=True):
                continue
            separated = find_separated(people, [self.ids[row] for row in there])
            repeated = [[there[i] for i in several] for several in separated]
            if repeated:
                names = list_some([self.ids[row] for row in repeated[0]], 3)
                filters = [f'where="{one}"' for one in itertools.islice(suggest_filters(self.table, repeated), 3)]
                how = f", such as {' or '.join(filters)}" if filters else ""
                findings.errors.append(
                    f"Column {title!r} of {self.name} says that {names} are of one person ({len(repeated)} people have "
                    f"several scans); choose one with where={how}, or call the scans sub-01_ses-1, sub-01_ses-2. If it "
                    "does not name persons, name it with covariates=."
                )

    def find(self, file_name: str) -> int | None:
        """The row of the subject that a file is named after; ``None`` if there is none, or if it was left out."""
        runs = self._match(file_name, self._rows)
        if len(runs) > 1:
            names = list_some(sorted(repr(" ".join(run.tokens)) for run in runs), 3)
            raise InputError(f"{file_name} could belong to {names} of {self.name}; rename the file.")
        return next((self._rows[run.tokens][0] for run in runs if self._rows[run.tokens]), None)

    def values(self, column: str, rows: Sequence[int | None]) -> list[str]:
        """A column for the subjects in ``rows``; empty text for a missing value and for a subject not in the table."""
        cells = self.table.column(column)
        return ["" if row is None or is_missing(cells[row]) else cells[row] for row in rows]

    def missing_words(self, column: str, rows: Sequence[int | None]) -> Counter[str]:
        """How often which word other than n/a says in a column that a value is missing."""
        cells = self.table.column(column)
        return missing_words([cells[row] for row in rows if row is not None])

    def covariates(self, columns: Sequence[str], rows: Sequence[int | None]) -> pd.DataFrame:
        """Several columns for the subjects in ``rows``, as numbers where all values that are there are numbers."""
        frame = pd.DataFrame({column: self.values(column, rows) for column in columns})
        for column in columns:
            cells = frame[column].tolist()
            texts = [cell for cell in cells if not is_number(cell)]
            if texts and 2 * len(texts) < sum(map(bool, cells)):
                raise InputError(
                    f"{self.name} has {texts[0]!r} in column {column!r}, whose other values are numbers; correct it, "
                    "or write n/a if it is missing."
                )
            if cells and not texts:
                name = f"{self.name}, column {column!r},"
                frame[column] = parse_numbers(name, [[cell] for cell in cells], [0] * len(cells))[:, 0]
        return frame


def clean_identifiers(cells: Sequence[str]) -> list[str]:
    """Identifiers without the prefix of BIDS, empty where they are missing.

    A column that a spreadsheet has changed to numbers (50952.0) is read as whole numbers.
    """
    present = {cell for cell in {*cells} if cell.lower() not in MISSING}
    if present and all(map(_FLOAT.fullmatch, present)):
        return [re.split("[.,]", cell)[0] if cell in present else "" for cell in cells]
    return [cell.removeprefix("sub-") if cell in present else "" for cell in cells]


def _find_rows(identifiers: Sequence[str], wanted: Collection[Tokens] | None = None) -> dict[Tokens, list[int]]:
    """The rows of each identifier (or only of those wanted) in any writing: sub-1 and sub-01 are one."""
    keys = {one: tokenize(one) for one in {*identifiers}}
    rows: dict[Tokens, list[int]] = {}
    for row, identifier in enumerate(identifiers):
        tokens = keys[identifier]
        if tokens and (wanted is None or tokens in wanted):
            rows.setdefault(tokens, []).append(row)
    return rows
