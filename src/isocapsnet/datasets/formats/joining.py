"""Graphs and the table of their subjects: which row belongs to which graph, and what the row says."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from numpy.typing import NDArray

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError
from isocapsnet.datasets.fields import check_sites, is_missing, is_usual_confound
from isocapsnet.datasets.findings import Findings
from isocapsnet.datasets.formats.participants import Participants, clean_identifiers
from isocapsnet.datasets.formats.tables import choose_rows, has_names, open_table
from isocapsnet.datasets.formats.text import Table
from isocapsnet.datasets.formats.titles import check_people, choose_unique, is_identifier
from isocapsnet.datasets.identifiers import read_list
from isocapsnet.datasets.isolation import ReadLimit
from isocapsnet.datasets.reading import ReadOptions, as_names

_LABELS = ("labels", "label", "y", "Y", "target", "diagnosis")
_SUBJECTS = ("subjects", "subject", "subject_ids", "subject_id", "ids", "participant_id", "sub_name")
_SITES = ("sites", "site")


def open_participants(
    names: Sequence[str], table: Path | pd.DataFrame | None, options: ReadOptions, findings: Findings, limit: ReadLimit
) -> Participants | None:
    """The table of the subjects that ``names`` (of files, or identifiers) are about, with the rows that are wanted."""
    if table is None:
        if options.where:
            raise InputError("where= chooses rows of a table of subjects, and there is none; pass participants=.")
        return None
    column = options.subjects if isinstance(options.subjects, str) else None
    participants = Participants(table, names, limit, id_column=column, where=options.where, used=columns_of(options))
    for condition in options.where:
        n_kept, n_left_out = len(participants.table.lines), participants.n_left_out
        findings.handle(f"rows of {participants.name} where {condition}", f"{n_kept} of {n_kept + n_left_out} rows")
    findings.targets = participants.list_targets()
    findings.unused = [
        column
        for column in participants.table.columns
        if is_usual_confound(column) and column not in columns_of(options)
    ]
    findings.identifiers.clear()  # the spelling of the table is used, not that of the files
    findings.identify(participants.ids, participants.table.column(participants.id_column))
    findings.spell_alike(participants.ids)
    participants.merge_rows([column for column in columns_of(options) if column[:1] != "@"], findings)
    with findings.noting():
        participants.check_people(columns_of(options), options.exclude, findings)
    return participants


def columns_of(options: ReadOptions) -> list[str]:
    """The columns that options name."""
    return [column for column in (options.target, options.site, *(options.covariates or ())) if column]


def note_rows_alone(participants: Participants, rows: Sequence[int | None], findings: Findings) -> None:
    """Note subjects of the table who have no matrix; ``rows`` are those of the matrices."""
    matched = {participants.ids[row] for row in rows if row is not None}
    for subject in participants.ids:
        if subject and subject not in matched:
            findings.exclusions[subject] = f"no matrix for this row of {participants.name}"


def leave_out_others(
    participants: Participants, subjects: Sequence[str], rows: Sequence[int | None], findings: Findings
) -> None:
    """Exclude subjects without a row that fulfils the conditions, if there are any; ``rows`` are those of subjects."""
    conditions = " and ".join(participants.where)
    for subject, row in zip(subjects, rows, strict=True):
        if conditions and row is None:
            findings.exclusions[subject] = f"no row of {participants.name} where {conditions}"


def note_graphs_alone(participants: Participants, rows: Mapping[str, int | None], findings: Findings) -> None:
    """Note matrices without a row in the table; ``rows`` is the row of each."""
    for source, row in rows.items():
        if row is None and source not in findings.exclusions:
            findings.handle(f"matrix without a row in {participants.name} kept as unlabelled", source)


def describe(
    participants: Participants, rows: Sequence[int | None], options: ReadOptions, findings: Findings
) -> dict[str, Any]:
    """Labels, sites and covariates that the table has for these rows."""
    about: dict[str, Any] = {}
    with findings.noting():
        if options.target is not None and options.target[:1] != "@":
            about["labels"] = participants.values(options.target, rows)
            for word, count in participants.missing_words(options.target, rows).items():
                findings.handle(f"{word!r} in column {options.target!r} taken for a missing label", f"{count} subjects")
        if options.site is not None and options.site[:1] != "@":
            about["sites"] = _clean_sites(participants.values(options.site, rows), findings)
        if options.covariates:
            about["covariates"] = participants.covariates(options.covariates, rows)
    return about


def _clean_sites(values: Sequence[Any], findings: Findings) -> list[str]:
    """Sites as texts. A missing site is called unknown, on record; two spellings of a site are refused."""
    sites = ["unknown" if is_missing(value) else _spell(value) for value in values]
    if n_missing := sum(map(is_missing, values)):
        findings.handle("missing site called 'unknown'", f"{n_missing} subjects")
    check_sites(sites)
    return sites


def find_cohort(
    where: str,
    n_graphs: int,
    arrays: Mapping[str, NDArray[Any]],
    options: ReadOptions,
    findings: Findings,
    limit: ReadLimit,
    *,
    ids: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Who ``n_graphs`` graphs are, from arrays of one value per graph and from the table of participants.

    Returns subjects, labels, sites and covariates, as keywords of :func:`assemble`. ``ids`` are the identifiers that
    the graphs have in their file, if it has any.
    """
    columns = {key: values for key, values in arrays.items() if values.shape == (n_graphs,)}
    for key in (*_LABELS, *_SUBJECTS, *_SITES):
        if key in arrays and key not in columns:
            shape = arrays[key].shape
            number = len(arrays[key]) if len(shape) == 1 else f"an array of shape {shape} called"
            raise InputError(f"{where} has {n_graphs} graphs but {number} {key}.")
    subjects_key = None if ids is not None else _find_key(where, columns, options)
    id_column = None
    if subjects_key is not None:
        ids = [_spell(value) for value in columns[subjects_key].tolist()]
        if options.subjects is not None:
            findings.handle(f"subjects from the array {subjects_key}", f"{n_graphs} subjects")
    elif ids is None and options.participants is not None and options.subjects is None:
        options = _with_ids_in_order(where, n_graphs, options, limit)
    if ids is None and options.subjects is not None:
        ids, id_column = _read_ids(where, n_graphs, columns, options, findings, limit)
    if ids is not None:
        check_people(where, columns, ids, (*columns_of(options), options.subjects))
    participants, rows = None, []
    elsewhere = options
    if options.participants is not None:
        assert ids is not None
        elsewhere = replace(options, **_split_columns(where, columns, options, limit), subjects=id_column)
        participants = open_participants(ids, options.participants, elsewhere, findings, limit)
        assert participants is not None
        rows = [participants.find(one) for one in ids]
        counts = Counter(row for row in rows if row is not None)
        if twice := [row for row, count in counts.items() if count > 1]:
            raise InputError(f"{where} has several graphs of subject {participants.ids[twice[0]]}; keep one.")
        findings.spell_alike(ids)
        note_rows_alone(participants, rows, findings)
        leave_out_others(participants, ids, rows, findings)
        note_graphs_alone(participants, dict(zip(ids, rows, strict=True)), findings)
    elif options.where:
        raise InputError("where= chooses rows of a table of subjects, and there is none; pass participants=.")
    in_table = {} if participants is None else describe(participants, rows, elsewhere, findings)
    labels_key = None if "labels" in in_table else choose(where, columns, options.target, _LABELS, options)
    sites_key = None if "sites" in in_table else choose(where, columns, options.site, _SITES, options)
    about: dict[str, Any] = {
        "subjects": [str(number) for number in range(1, n_graphs + 1)] if ids is None else list(ids),
        "labels": columns[labels_key].tolist() if labels_key else None,
        "sites": _clean_sites(columns[sites_key].tolist(), findings) if sites_key else None,
        "covariates": None,
    }
    if options.covariates is None:
        used = (labels_key, subjects_key, sites_key, "node_names")
        others = {key: values for key, values in columns.items() if key not in used}
        about["covariates"] = pd.DataFrame(others) if others else None
    elif "covariates" not in in_table:
        chosen = [str(choose(where, columns, key, (), options)) for key in options.covariates]
        about["covariates"] = pd.DataFrame({key: columns[key] for key in chosen})
    return about | in_table


def choose(
    where: str, columns: Mapping[str, Any], asked: str | None, usual: Sequence[str], options: ReadOptions
) -> str | None:
    """The array that was asked for, else the first with one of the usual names."""
    if asked is not None and asked not in columns:
        names = list_some(columns) or "none"
        how = "" if options.participants is not None else "; if a table beside it has it, pass participants="
        raise InputError(f"{where} has no array {asked!r} of one value per graph; it has {names}{how}.")
    there = [name for name in usual if name in columns]
    for name in there[1:] if asked is None and there and there[0] != usual[0] else ():
        if columns[name].tolist() != columns[there[0]].tolist():
            how = "target=" if usual is _LABELS else "site="
            raise InputError(f"{where} has {there[0]!r} and {name!r}, which differ; choose one with {how}.")
    return asked or next(iter(there), None)


def _find_key(where: str, columns: Mapping[str, NDArray[Any]], options: ReadOptions) -> str | None:
    """The array of identifiers: the one that was asked for, one with a usual name, or one whose title says so."""
    asked = options.subjects
    if asked is not None:
        return asked if isinstance(asked, str) and asked in columns else None
    if usual := next((name for name in _SUBJECTS if name in columns), None):
        return usual
    used = (*columns_of(options), *_LABELS, *_SITES)
    others = {key: [*map(_spell, columns[key].tolist())] for key in columns if key not in used}
    return choose_unique(where, others, "pass subjects=, an identifier for each graph such as sub-01_ses-1")


def _spell(value: Any) -> str:
    """An identifier as text; MATLAB keeps 50952 as 50952.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def _read_ids(
    where: str, n_graphs: int, columns: Mapping[str, Any], options: ReadOptions, findings: Findings, limit: ReadLimit
) -> tuple[list[str], str | None]:
    """The identifiers that ``subjects=`` gives: a sequence, a file with a list, or a column of the table of subjects.

    The column is returned too.
    """
    asked, column = options.subjects, None
    assert asked is not None
    if not isinstance(asked, str | Path):
        ids, what = as_names(asked), "subjects="
    elif Path(asked).is_file():
        ids, what = tuple(read_list(asked)), Path(asked).name
    elif options.participants is not None:
        table, column = _rows_in_order(n_graphs, options, limit), str(asked)
        ids, what = tuple(clean_identifiers(table.column(column))), f"column {asked!r} of {table.name}"
        findings.identify(ids, table.column(column))
    else:
        names = f"it has {list_some(columns) or 'none'}, and there is no such file"
        raise InputError(f"{where} has no array {asked!r} of one value per graph; {names}.")
    if len(ids) != n_graphs:
        raise InputError(f"{what} has {len(ids)} subjects, but {where} has {n_graphs} graphs.")
    findings.handle(f"subjects of the graphs, in their order, from {what}", f"{n_graphs} subjects")
    return list(ids), column


def _rows_in_order(n_graphs: int, options: ReadOptions, limit: ReadLimit) -> Table:
    """The table of subjects, or its rows that fulfil ``where`` unless the table has one row per graph."""
    assert options.participants is not None
    table = open_table(options.participants, limit)
    return table if len(table.lines) == n_graphs else table.take(choose_rows(table, options.where))


def _with_ids_in_order(where: str, n_graphs: int, options: ReadOptions, limit: ReadLimit) -> ReadOptions:
    """The options with the column of identifiers of graphs that have none.

    Rows of a data frame, which was passed beside the graphs, are in their order. A file is refused, because that is not
    known.
    """
    source = options.participants
    assert source is not None
    table = _rows_in_order(n_graphs, options, limit)
    if isinstance(source, Path):
        column = next(filter(is_identifier, table.columns), next(iter(table.columns)))
        how = "pass subjects=, a list of them in the order of the graphs"
        if len(table.lines) == n_graphs:
            how = f'if the rows of {table.name} are in the order of the graphs, pass subjects="{column}"'
        raise InputError(f"{where} does not say which subjects its {n_graphs} graphs are; {how}.")
    if len(table.lines) != n_graphs:
        raise InputError(f"{table.name} has {len(table.lines)} rows for {n_graphs} graphs.")
    if not has_names(source.index) and (source.index.has_duplicates or not source.index.is_monotonic_increasing):
        problem, how = "is not in order", "call sort_index() or reset_index() first"
        if source.index.has_duplicates:  # sort_index() would mix the parts of a concat()
            problem, how = "has numbers twice", "bring them into that order and call reset_index(drop=True)"
        raise InputError(
            f"The index of {table.name} {problem}, so its rows may not be in the order of the graphs; {how}."
        )
    if has_names(source.index):
        return replace(options, subjects=next(iter(table.columns)))
    others = {column: cells for column, cells in table.columns.items() if column not in columns_of(options)}
    how = "add a column participant_id with an identifier for each graph, such as sub-01_ses-1"
    if (title := choose_unique(table.name, others, how)) is not None:
        return replace(options, subjects=title)
    if len(source) != n_graphs or "graph number" in table.columns:
        raise InputError(f"{table.name} has no column of identifiers; name it with subjects=.")
    return replace(
        options, participants=source.assign(**{"graph number": range(1, n_graphs + 1)}), subjects="graph number"
    )


def _split_columns(where: str, columns: Mapping[str, Any], options: ReadOptions, limit: ReadLimit) -> dict[str, Any]:
    """The columns that the table of subjects must have, because the arrays do not have them."""
    assert options.participants is not None
    table = open_table(options.participants, limit)
    if twice := [column for column in columns_of(options) if column in columns and column in table.columns]:
        raise InputError(f"{where} and {table.name} both have {twice[0]!r}; rename one of them.")
    covariates = options.covariates
    if covariates is not None and all(column in columns for column in covariates):
        covariates = None
    return {
        "target": None if options.target in columns else options.target,
        "site": None if options.site in columns else options.site,
        "covariates": covariates,
    }
