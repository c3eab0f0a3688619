"""One table with all subjects: a row of edges for each; an edge list of all of them is read by ``edge_table``."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError
from isocapsnet.datasets.findings import Findings
from isocapsnet.datasets.formats.edge_table import as_array, find_edge_columns, read_edge_table
from isocapsnet.datasets.formats.joining import columns_of, find_cohort
from isocapsnet.datasets.formats.participants import clean_identifiers, is_identifier
from isocapsnet.datasets.formats.tables import as_text, has_names, open_table
from isocapsnet.datasets.formats.text import (
    find_delimiter,
    is_counting,
    is_number,
    is_value,
    is_whole,
    parse_numbers,
)
from isocapsnet.datasets.formats.triangles import expand_rows, find_pairs
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.isolation import ReadLimit
from isocapsnet.datasets.reading import COLUMN_OPTIONS, TABLE_OPTIONS, Reader, ReadOptions, assemble

_SUFFIXES = (".csv", ".tsv", ".txt")
_LONGEST_LINE = 1 << 26


@dataclass(frozen=True)
class _Rows:
    """A table of one row per subject: the edges, their titles, and the other columns as texts."""

    values: NDArray[np.float64]
    titles: list[str] | None
    columns: dict[str, list[str]]


def read_rows(source: Any, options: ReadOptions, findings: Findings, limit: ReadLimit) -> BrainGraphs | None:
    """Read a text file or a data frame in which every row is a subject, or an edge of a subject."""
    where, name = (source.name, source.stem) if isinstance(source, Path) else ("the data frame", "")
    titles = _first_line(source)
    if (edges := find_edge_columns(titles)) is not None:
        about = read_edge_table(open_table(source, limit), edges, options, findings, limit)
        return assemble(options=replace(options, exclude=()), findings=findings, name=name, **about)
    if options.index_base is not None or options.directed is not None or options.kind == "edges":
        raise InputError(
            f"{where} is not an edge list with columns of subjects, sources and targets; it has {list_some(titles)}."
        )
    rows = _read_frame(source, options) if isinstance(source, pd.DataFrame) else _read_text(source, options, limit)
    graphs, node_names = expand_rows(rows.values, rows.titles, where, options, findings)
    ids = _find_ids(where, rows.columns, options)
    columns = {key: as_array(where, cells) for key, cells in rows.columns.items() if cells is not ids}
    if ids is not None and options.subjects is not None:
        findings.handle(f"subjects from the column {options.subjects}", f"{len(ids)} subjects")
    if ids is not None:
        written, ids = ids, clean_identifiers(ids)
        findings.identify(ids, written)
    cohort = find_cohort(where, len(graphs), columns, options, findings, limit, ids=ids)
    return assemble(
        graphs,
        options=options,
        findings=findings,
        sources=[f"{where}, subject {name}" for name in map(findings.name_of, cohort["subjects"])],
        node_names=None if node_names is None else [node_names] * len(graphs),
        name=name,
        **cohort,
    )


def _is_rows(source: Any) -> bool:
    if isinstance(source, Path):
        return source.suffix.lower() in _SUFFIXES and source.is_file()
    return isinstance(source, pd.DataFrame)


READER = Reader(_is_rows, read_rows, (*COLUMN_OPTIONS, *TABLE_OPTIONS, "triangle", "index_base", "directed", "kind"))


def _first_line(source: Any) -> list[str]:
    if isinstance(source, pd.DataFrame):
        return ([str(source.index.name)] if has_names(source.index) else []) + [str(title) for title in source.columns]
    _, cells = next(_lines(source), (0, []))
    return cells


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The cells of each line that is not blank or a comment, with its number."""
    delimiter = None
    with path.open(encoding="utf-8-sig", newline=None) as file:
        number = 0
        try:
            while line := file.readline(_LONGEST_LINE):
                number += 1
                if len(line) >= _LONGEST_LINE or "\0" in line:
                    raise InputError(f"{path.name} is not a table of text: line {number} is too long or not text.")
                if line.strip() and not line.startswith("#"):
                    line = line.strip("\n").strip(" ")
                    delimiter = delimiter or find_delimiter(line)
                    cells = line.split() if delimiter == " " else line.split(delimiter)
                    yield number, [cell.strip().strip('"') for cell in cells]
        except UnicodeDecodeError as error:
            raise InputError(f"{path.name} is not a text file in UTF-8; save it as UTF-8.") from error


def _read_text(path: Path, options: ReadOptions, limit: ReadLimit) -> _Rows:
    lines = _lines(path)
    number, first = next(lines, (0, []))
    if not first:
        raise InputError(f"{path.name} is empty.")
    titles = _find_titles(path.name, number, first)
    is_edge = _find_edges(titles or [f"column {i}" for i in range(1, len(first) + 1)], first, options)
    others = np.flatnonzero(~is_edge).tolist()
    chosen = np.flatnonzero(is_edge).tolist()
    texts: list[list[str]] = []
    values: list[NDArray[np.float64]] = []
    edge_titles = None if titles is None else [titles[i] for i in chosen]
    body = lines if titles is not None else _prepend((number, first), lines)
    for line, cells in body:
        if len(cells) != len(first):
            raise InputError(f"{path.name} has {len(cells)} fields in line {line} but {len(first)} in its first line.")
        row = parse_numbers(path.name, [[cells[i] for i in chosen] if others else cells], [line])[0]
        if not values:  # a table whose first row is no graph is refused before the others are read
            expand_rows(row[None], edge_titles, path.name, options, Findings())
        limit.take(row.nbytes, path.name)
        values.append(row)
        texts.append([cells[i] for i in others])
    if not values or not chosen:
        raise InputError(f"{path.name} has no rows of numbers.")
    names = titles or ["participant_id"] * len(first)
    columns = {names[i]: [row[position] for row in texts] for position, i in enumerate(others)}
    # pandas writes a column without a title that counts the rows.
    columns = {key: cells for key, cells in columns.items() if key or not is_counting(cells)}
    return _Rows(np.stack(values), edge_titles, columns)


def _prepend(first: tuple[int, list[str]], rest: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    yield first
    yield from rest


def _find_titles(name: str, line: int, cells: list[str]) -> list[str] | None:
    """The first line if it has titles, ``None`` if it has values, with or without an identifier in front."""
    rest = cells if is_number(cells[0]) and cells[0] else cells[1:]
    if not all(map(is_number, rest)) or is_counting(rest):
        if any(is_value(cell) and not is_whole(cell) for cell in cells):
            raise InputError(f"{name} has texts and fractions in line {line}; a table needs titles or values there.")
        if len({*cells}) < len(cells):
            twice = next(cell for cell, count in Counter(cells).items() if count > 1)
            raise InputError(f"{name} has two columns called {twice!r}; rename one.")
        return cells
    if all(map(is_whole, rest)) and len(rest) > 2 and len({*rest}) == len(rest):
        raise InputError(
            f"{name} has whole numbers in line {line} that may be titles or values; write titles as names."
        )
    return None


def _find_edges(titles: Sequence[str], first: Sequence[str], options: ReadOptions) -> NDArray[np.bool_]:
    """Which columns are edges: those whose titles name pairs of nodes, else all that are not named otherwise."""
    named = {*columns_of(options), options.subjects if isinstance(options.subjects, str) else None, ""}
    is_free = np.array([title not in named and not is_identifier(title) for title in titles])
    free = [title for title, one in zip(titles, is_free, strict=True) if one]
    if find_pairs(free) is None:
        patterns = [re.sub(r"\d+", "#", title) for title in free]
        pattern, _ = Counter(patterns).most_common(1)[0] if patterns else ("", 0)
        pairs = {title for title, one in zip(free, patterns, strict=True) if one == pattern}
        if pattern.count("#") == 2 and find_pairs([title for title in free if title in pairs]) is not None:
            return np.array([title in pairs for title in titles])
        if len({*patterns}) > 1:
            odd = [title for title, one in zip(free, patterns, strict=True) if one != pattern]
            what = f"The columns {list_some(odd, 3)} are not called as the other edges are ({pattern})"
            raise InputError(f"{what}; name them with subjects=, target=, site= or covariates=, or remove them.")
    if all(title.startswith("column ") for title in titles):  # no titles: the first column may have identifiers
        is_free[0] = is_number(first[0])
        is_free[1:] = True
    return is_free


def _read_frame(frame: pd.DataFrame, options: ReadOptions) -> _Rows:
    titles = [str(title) for title in frame.columns]
    if len({*titles}) < len(titles):
        raise InputError("The data frame has two columns of the same name; rename one.")
    is_edge = _find_edges(titles, ["0"] * len(titles), options) if titles else np.zeros(0, dtype=bool)
    edges = frame.loc[:, is_edge]
    if edges.empty or any(dtype.kind not in "biuf" for dtype in edges.dtypes):
        texts = [str(title) for title in edges if edges[title].dtype.kind not in "biuf"]
        raise InputError(
            f"The data frame has no numbers in {list_some(texts) or 'any column'}; name columns that are not edges."
        )
    columns = {titles[i]: [*map(as_text, frame.iloc[:, i])] for i in np.flatnonzero(~is_edge).tolist()}
    if has_names(frame.index):
        columns = {"participant_id": [*map(as_text, frame.index)]} | columns
    return _Rows(edges.to_numpy(np.float64), [str(title) for title in edges], columns)


def _find_ids(where: str, columns: Mapping[str, list[str]], options: ReadOptions) -> list[str] | None:
    """The column of identifiers: the one that was asked for, else the only one whose title says so."""
    if options.subjects is not None:
        return columns.get(options.subjects) if isinstance(options.subjects, str) else None
    titles = [
        title for title in columns if is_identifier(title) or (title == "" and not all(map(is_whole, columns[title])))
    ]
    titles = [title for title in titles if title == "participant_id"] or titles
    if len(titles) > 1:
        raise InputError(
            f"{where} has several columns of identifiers ({list_some(titles)}); choose one with subjects=."
        )
    return columns[titles[0]] if titles else None
