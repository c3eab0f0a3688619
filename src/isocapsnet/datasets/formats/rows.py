"""One table with all subjects: a row of edges for each, or an edge list with a column of subjects."""

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
from isocapsnet.datasets.formats.edge_graphs import build_graphs
from isocapsnet.datasets.formats.joining import columns_of, find_cohort
from isocapsnet.datasets.formats.matrices import EdgeList, is_end, parse_ends
from isocapsnet.datasets.formats.participants import clean_identifiers, is_identifier
from isocapsnet.datasets.formats.tables import as_text, has_names, open_table
from isocapsnet.datasets.formats.text import (
    Table,
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
_WEIGHT = re.compile(r"weights?|values?|r|z|strength|correlation|connectivity|edge", re.IGNORECASE)


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
    if (edges := _find_edge_columns(titles)) is not None:
        _check_unused(where, open_table(source, limit), edges, options)
        about = _read_edge_table(open_table(source, limit), edges, options, findings, limit)
        return assemble(options=replace(options, exclude=()), findings=findings, name=name, **about)
    if options.index_base is not None or options.directed is not None or options.kind == "edges":
        raise InputError(
            f"{where} is not an edge list with columns of subjects, sources and targets; it has {list_some(titles)}."
        )
    rows = _read_frame(source, options) if isinstance(source, pd.DataFrame) else _read_text(source, options, limit)
    graphs, node_names = expand_rows(rows.values, rows.titles, where, options, findings)
    ids = _find_ids(where, rows.columns, options)
    columns = {key: _as_array(where, cells) for key, cells in rows.columns.items() if cells is not ids}
    if ids is not None and options.subjects is not None:
        findings.handle("column read as subjects", str(options.subjects))
    ids = None if ids is None else clean_identifiers(ids)
    cohort = find_cohort(where, len(graphs), columns, options, findings, limit, ids=ids)
    return assemble(
        graphs,
        options=options,
        findings=findings,
        sources=[f"{where}, subject {subject}" for subject in cohort["subjects"]],
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
    body = lines if titles is not None else _prepend((number, first), lines)
    for line, cells in body:
        if len(cells) != len(first):
            raise InputError(f"{path.name} has {len(cells)} fields in line {line} but {len(first)} in its first line.")
        row = parse_numbers(path.name, [[cells[i] for i in chosen] if others else cells], [line])[0]
        limit.take(row.nbytes, path.name)
        values.append(row)
        texts.append([cells[i] for i in others])
    if not values or not chosen:
        raise InputError(f"{path.name} has no rows of numbers.")
    names = titles or ["participant_id"] * len(first)
    columns = {names[i]: [row[position] for row in texts] for position, i in enumerate(others)}
    # pandas writes a column without a title that counts the rows.
    columns = {key: cells for key, cells in columns.items() if key or not is_counting(cells)}
    return _Rows(np.stack(values), None if titles is None else [titles[i] for i in chosen], columns)


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


def _as_array(where: str, cells: Sequence[str]) -> NDArray[Any]:
    """A column as numbers where all values that are there are numbers, else as texts."""
    if all(map(is_number, cells)) and any(map(is_value, cells)):
        return parse_numbers(where, [[cell] for cell in cells], [0] * len(cells))[:, 0]
    return np.array(cells, dtype=np.str_)


def _find_edge_columns(titles: Sequence[str]) -> tuple[str, str, str, str | None] | None:
    """The columns of subjects, sources, targets and weights of an edge list, if the titles say so."""
    ends = [title for title in titles if is_end(title)]
    others = [title for title in titles if title not in ends]
    ids = [title for title in others if is_identifier(title)]
    ids = [title for title in ids if title.lower() == "participant_id"] or ids
    if len(ends) != 2 or len(ids) != 1:
        return None
    weights = [title for title in others if _WEIGHT.fullmatch(title)]
    if len(weights) > 1:
        raise InputError(f"The edge list has several columns of weights ({list_some(weights)}); keep one.")
    return ids[0], ends[0], ends[1], weights[0] if weights else None


def _check_unused(where: str, table: Table, edges: tuple[str, str, str, str | None], options: ReadOptions) -> None:
    """Refuse a column that could hold weights or sessions, which would be ignored."""
    ids = table.column(edges[0])
    for title in (t for t in table.columns if t not in {*edges, *columns_of(options)}):
        cells = table.columns[title]
        if is_counting(cells) and title in ("", "column 1"):
            continue
        if len({*zip(ids, cells, strict=True)}) > len({*ids}):
            raise InputError(
                f"{where} has the column {title!r}, whose values differ between the edges of a subject; call it "
                "weight, or remove it."
            )


def _read_edge_table(
    table: Table, edges: tuple[str, str, str, str | None], options: ReadOptions, findings: Findings, limit: ReadLimit
) -> dict[str, Any]:
    """The graphs of an edge list of all subjects, as keywords of :func:`assemble`."""
    id_column, first, second, weight = edges
    ids = clean_identifiers(table.column(id_column))
    rows_of: dict[str, list[int]] = {}
    for row, subject in enumerate(ids):
        if not subject:
            raise InputError(f"{table.name} has no subject in line {table.lines[row]}.")
        rows_of.setdefault(subject, []).append(row)
    pairs = [[a, b] for a, b in zip(table.column(first), table.column(second), strict=True)]
    ends = parse_ends(pairs) if pairs else None
    if ends is None:
        raise InputError(f"{table.name} has values in {first!r} and {second!r} that cannot be nodes, or no edges.")
    weights = np.ones(len(ids))
    if weight is not None:
        weights = parse_numbers(table.name, [[cell] for cell in table.column(weight)], table.lines)[:, 0]
    findings.handle(f"{table.name} read as an edge list with a column of subjects", f"{len(rows_of)} subjects")
    sources = {subject: f"{table.name}, subject {subject}" for subject in rows_of}
    lists = [
        EdgeList(
            sources[subject], ends[rows], weights[rows], [table.lines[row] for row in rows], True, weight is not None
        )
        for subject, rows in rows_of.items()
    ]
    findings.subjects |= {source: subject for subject, source in sources.items()}
    kept = findings.exclude(options.exclude, list(rows_of))
    excluded = {*rows_of} - {list(rows_of)[i] for i in kept}
    graphs, names, is_directed = build_graphs([lists[i] for i in kept], replace(options, kind="edges"), findings)
    subjects = [subject for subject in rows_of if subject not in excluded]
    columns = {}
    for column in columns_of(options):
        if column in table.columns:
            cells = table.column(column)
            values = {subject: {cells[row] for row in rows_of[subject]} for subject in subjects}
            if other := next((subject for subject, several in values.items() if len(several) > 1), None):
                raise InputError(f"{table.name} has several values of {column!r} for subject {other}; keep one.")
            columns[column] = _as_array(table.name, [values[subject].pop() for subject in subjects])
    cohort = find_cohort(table.name, len(graphs), columns, options, findings, limit, ids=subjects)
    for subject in excluded:  # a row of the table of participants may have been noted as one without a matrix
        findings.exclusions[subject] = "excluded on request"
    return {
        "matrices": graphs,
        "sources": [sources[subject] for subject in subjects],
        "node_names": [names] * len(graphs),
        "is_directed": is_directed,
        **cohort,
    }
