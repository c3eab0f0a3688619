"""A results folder as the content of a report, with notes about what is missing."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from isocapsnet._validation import InputError
from isocapsnet.cli._study import DataCopies
from isocapsnet.datasets.catalog import CATALOG
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.passport import format_passport
from isocapsnet.evaluation.artifacts import read_history, read_templates, read_warnings
from isocapsnet.evaluation.collection import collect
from isocapsnet.evaluation.files import DamagedError
from isocapsnet.evaluation.jobs import method_label
from isocapsnet.evaluation.output import read_context
from isocapsnet.evaluation.results import MethodResult, Table, group_of, tabulate
from isocapsnet.explanation.fits import FitExplanation
from isocapsnet.explanation.storage import EXPLANATION_FILE, read_explanation
from isocapsnet.explanation.summary import Explanation, summarize
from isocapsnet.report.content import Content, Fit, ReportedMethod, Sweep
from isocapsnet.report.prose import class_title, listing

Record = Mapping[str, Any]


def read_content(folder: Path, *, created: str = "") -> Content:
    """Read one study of a results folder.

    If the folder holds several studies, the one of ``results.json`` is read, else the one with the most records.
    """
    notes: list[str] = []
    context, problem = read_context(folder)
    if problem is not None:
        notes.append(f"results.json {problem}. The records may be part of a run, and the command is not known.")
    copies = DataCopies(folder)
    records, errors = _read_study(folder, context, copies, notes)
    first = [*records, *errors][0]
    copy = copies.find(first["job"]["dataset"])
    notes += copies.problems
    if copy is None and not copies.problems:
        notes.append("The folder has no copy of the data, so subjects and regions have numbers instead of names.")
    if not _is_about(context, group_of(first)):
        context = {}
    table = tabulate(records, errors)
    return make_content(
        folder, table, records, errors, context, data=None if copy is None else copy[0], notes=notes, created=created
    )


def make_content(
    folder: Path,
    table: Table,
    records: Sequence[Record],
    errors: Sequence[Record],
    context: Mapping[str, Any],
    *,
    data: BrainGraphs | None = None,
    notes: Sequence[str] = (),
    created: str = "",
) -> Content:
    """The content of a report from records and errors of one study, their table, and the artifacts in ``folder``.

    ``context`` is that of ``results.json``; what it lacks is taken from the records.
    """
    notes = list(notes)
    record_of = {record["key"]: record for record in records}
    subjects = () if data is None else data.subjects.tolist()
    methods = [
        _read_method(folder, row, record_of, errors, subjects, notes)
        for row in sorted(table.rows, key=lambda row: -np.nan_to_num(row.metrics["roc_auc"].mean))
    ]
    unexplained = [m.label for m in methods if m.explanation is None and any(f.templates is not None for f in m.fits)]
    if unexplained:
        notes.append(
            f"The folder has no explanation of {listing(unexplained)}, so there are no evidence cards. Run the "
            "benchmark with explanations in a new folder to get them."
        )
    items = [*records, *errors]
    job = items[0]["job"]
    passport = context.get("passport", {"name": folder.resolve().name, "digest": job["dataset"]})
    passport = passport if data is None else data.passport
    counts = passport.get("classes") or {}
    protocol = {**job["protocol"], "repeats": 1 + max(item["job"]["repeat"] for item in items)}
    atlas = None if data is None else data.atlas
    if data is not None and (atlas is None or atlas.coordinates is None):
        notes.append("The nodes have no coordinates, so nothing is drawn on the brain; choose an atlas with atlas=.")
    return Content(
        table=table,
        methods=methods,
        classes=[class_title(str(name)) for name in (records[0]["classes"] if records else counts)],
        passport=passport,
        passport_lines=_passport_lines(passport),
        protocol=context.get("protocol", protocol),
        preparation=[step["name"] for step in job["preparation"]],
        detectable=context.get("detectable"),
        command=context.get("command"),
        sweep=_read_sweep(context.get("sweep"), methods),
        node_names=() if atlas is None else atlas.node_names,
        coordinates=None if atlas is None else atlas.coordinates,
        notes=notes,
        created=created,
    )


def _read_study(
    folder: Path, context: Mapping[str, Any], copies: DataCopies, notes: list[str]
) -> tuple[list[Record], list[Record]]:
    """Records and errors of one study."""
    collection = collect([folder], copies.check)
    notes += collection.notes
    if not collection.groups:
        raise InputError(f"There are no results in {folder}; run `isocapsnet benchmark --out {folder}` first.")
    groups = sorted(
        collection.groups, key=lambda group: (_is_about(context, group), len(collection.records.get(group, ())))
    )
    if len(groups) > 1:
        notes.append(
            f"The folder holds {len(groups)} studies (different data, splits or preparation), and this report is about "
            "one of them. `isocapsnet compare` shows all."
        )
    return collection.records.get(groups[-1], []), collection.errors.get(groups[-1], [])


def _is_about(context: Mapping[str, Any], group: str) -> bool:
    """Whether ``results.json`` is about a group of records."""
    dataset, protocol, preparation = json.loads(group)
    digest = (context.get("data") or context.get("passport") or {}).get("digest")
    same_protocol = (context.get("protocol") or {}).get("name") == protocol["name"]
    return bool(dataset == digest and same_protocol and context.get("preparation", []) == preparation)


def _passport_lines(passport: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The passport as lines, with source and licence for datasets of the catalog."""
    try:
        lines = format_passport(passport)
    except (LookupError, TypeError, ValueError, AttributeError):  # from another version, or edited by hand
        lines = [(name, str(value)) for name, value in passport.items() if isinstance(value, str | int) and value]
    entry = CATALOG.get(str(passport.get("name")))
    if entry is not None:
        lines += [("title", entry.title), ("source", entry.citation), ("licence", entry.licence)]
    return lines


def _read_sweep(sweep: Mapping[str, Any] | None, methods: Sequence[ReportedMethod]) -> Sweep | None:
    """The sweep of ``results.json`` with the methods of its values; None without finished methods."""
    if sweep is None or None in sweep.values():
        return None
    finished = {method.label: method for method in methods if method.fits}
    values = {label: value for label, value in sweep["methods"].items() if label in finished}
    if not values:
        return None
    return Sweep(sweep["method"], sweep["parameter"], list(values.values()), [finished[label] for label in values])


def _read_method(
    folder: Path,
    row: MethodResult,
    record_of: Mapping[str, Record],
    errors: Sequence[Record],
    subjects: Sequence[str],
    notes: list[str],
) -> ReportedMethod:
    """A row of the table with its fits and its explanation."""
    records = [record_of[key] for key in row.keys.values()]
    jobs = [item["job"] for item in records or [*record_of.values(), *errors]]
    job = next(job for job in jobs if records or _is_of(job, row.method))
    return ReportedMethod(
        row=row,
        name=job["method"],
        parameters=job["parameters"],
        space=job["space"],
        fits=[_read_fit(folder / "artifacts" / record["key"], record, notes) for record in records],
        explanation=_read_explanation(folder, row.method, records, subjects, notes),
    )


def _is_of(job: Mapping[str, Any], label: str) -> bool:
    """Whether a job belongs to the row with this label, which may end with a remark (the version, for example)."""
    name = method_label(job["method"], job["parameters"])
    return label == name or label.startswith(f"{name} (")


def _read_fit(artifacts: Path, record: Record, notes: list[str]) -> Fit:
    """A record with the artifacts beside it, without those that are damaged."""
    parts: dict[str, Any] = {}
    for name, read in (("history", read_history), ("templates", read_templates), ("warnings", read_warnings)):
        try:
            parts[name] = read(artifacts)
        except DamagedError as error:
            notes.append(f"The {name} in artifacts/{record['key']} cannot be used: the file {error}.")
    return Fit(
        repeat=record["job"]["repeat"],
        fold=record["job"]["fold"],
        labels=np.asarray(record["labels"], dtype=np.int64),
        probabilities=np.asarray(record["probabilities"], dtype=np.float64),
        settings=record["settings"],
        seconds=record["seconds"],
        peak_memory=record["peak_memory"],
        **parts,
    )


def _read_explanation(
    folder: Path, label: str, records: Sequence[Record], subjects: Sequence[str], notes: list[str]
) -> Explanation | None:
    """The explanation of a method from those of its fits, without those that cannot be used."""
    fits: list[FitExplanation] = []
    tests: list[list[int]] = []
    for record in records:
        artifacts = folder / "artifacts" / record["key"]
        if not (artifacts / EXPLANATION_FILE).exists():
            continue
        try:
            fit = read_explanation(artifacts)
        except InputError as error:
            notes.append(f"{label}: {error}")
            continue
        if len(fit.classes) < len(record["classes"]):
            notes.append(f"{label}: a fit without training graphs of every class is not explained.")
        elif not _explains(fit, record) or (fits and fit.n_nodes != fits[0].n_nodes):
            notes.append(f"{label}: {artifacts / EXPLANATION_FILE} explains other graphs than those of its record.")
        else:
            fits.append(fit)
            tests.append(record["test"])
    return summarize(fits, tests, subjects=subjects) if fits else None


def _explains(fit: FitExplanation, record: Record) -> bool:
    """Whether an explanation is about test graphs of the record, with their classes."""
    labels, positions = np.asarray(record["labels"]), fit.positions
    is_possible = len(fit.classes) == len(record["classes"]) and positions.max() < len(labels)
    return bool(is_possible and np.array_equal(labels[positions], fit.codes))
