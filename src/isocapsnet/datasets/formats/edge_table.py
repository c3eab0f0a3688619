"""One edge list with a column of subjects."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError
from isocapsnet.datasets.findings import Findings
from isocapsnet.datasets.formats.edge_graphs import build_graphs
from isocapsnet.datasets.formats.joining import columns_of, find_cohort
from isocapsnet.datasets.formats.matrices import EdgeList, is_end, parse_ends
from isocapsnet.datasets.formats.participants import clean_identifiers, is_identifier
from isocapsnet.datasets.formats.text import Table, is_counting, is_number, is_value, parse_numbers
from isocapsnet.datasets.isolation import ReadLimit
from isocapsnet.datasets.reading import ReadOptions

_WEIGHT = re.compile(r"weights?|values?|r|z|strength|correlation|connectivity|edge", re.IGNORECASE)


def find_edge_columns(titles: Sequence[str]) -> tuple[str, str, str, str | None] | None:
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


def _check_unused(table: Table, edges: tuple[str, str, str, str | None], options: ReadOptions) -> None:
    """Refuse a column that could hold weights or sessions, which would be ignored."""
    ids = table.column(edges[0])
    for title in (t for t in table.columns if t not in {*edges, *columns_of(options)}):
        cells = table.columns[title]
        if is_counting(cells) and title in ("", "column 1"):
            continue
        if len({*zip(ids, cells, strict=True)}) > len({*ids}):
            raise InputError(
                f"{table.name} has the column {title!r}, whose values differ between the edges of a subject; call it "
                "weight, or remove it."
            )


def read_edge_table(
    table: Table, edges: tuple[str, str, str, str | None], options: ReadOptions, findings: Findings, limit: ReadLimit
) -> dict[str, Any]:
    """The graphs of an edge list of all subjects, as keywords of :func:`assemble`."""
    _check_unused(table, edges, options)
    id_column, first, second, weight = edges
    ids = clean_identifiers(table.column(id_column))
    findings.identify(ids, table.column(id_column))
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
    sources = {subject: f"{table.name}, subject {findings.name_of(subject)}" for subject in rows_of}
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
                what = f"{column!r} for subject {findings.name_of(other)}"
                raise InputError(f"{table.name} has several values of {what}; keep one.")
            columns[column] = as_array(table.name, [values[subject].pop() for subject in subjects])
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


def as_array(where: str, cells: Sequence[str]) -> NDArray[Any]:
    """A column as numbers where all values that are there are numbers, else as texts."""
    if all(map(is_number, cells)) and any(map(is_value, cells)):
        return parse_numbers(where, [[cell] for cell in cells], [0] * len(cells))[:, 0]
    return np.array(cells, dtype=np.str_)
