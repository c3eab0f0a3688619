"""A results folder as the content of a report: what is there, and a note for what is not."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from isocapsnet._data_copies import DataCopies
from isocapsnet._files import DamagedError
from isocapsnet._validation import InputError
from isocapsnet.cli._explanations import add_explanations
from isocapsnet.datasets.catalog import CATALOG
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.passport import format_passport
from isocapsnet.evaluation.artifacts import read_history, read_templates, read_warnings
from isocapsnet.evaluation.collection import collect
from isocapsnet.evaluation.jobs import method_label
from isocapsnet.evaluation.output import read_context, results_json
from isocapsnet.evaluation.results import group_of, tabulate
from isocapsnet.evaluation.statistics import weighted_mean
from isocapsnet.report.content import Content, Fit, Method, Sweep
from isocapsnet.report.gallery import as_row
from isocapsnet.report.prose import class_title, listing

Record = Mapping[str, Any]

_SWEEP_VALUES = 3
_SWEEP_METRICS = ("roc_auc", "accuracy", "weighted_f1")


def read_results(folder: Path, *, created: str = "") -> Content:
    """Everything the folder holds of one study; a note says what is missing or damaged.

    Of a folder with records of several studies, the one that ``results.json`` is about is read, or else the one with
    the most records.
    """
    notes: list[str] = []
    saved, problem = read_context(folder)
    if problem is not None:
        notes.append(f"results.json {problem}; the records here may be part of a run, and its command is not known.")
    copies = DataCopies(folder)
    records, errors = _read_group(folder, saved, copies, notes)
    data = _find_data(copies, [*records, *errors][0]["job"]["dataset"], notes)
    table = tabulate(records, errors)
    results = results_json(table, _context(folder, saved, data, [*records, *errors]) | {"versions": table.versions})
    by_key = {record["key"]: record for record in records}
    subjects = () if data is None else data.subjects.tolist()
    methods = [
        add_explanations(_read_method(folder, row, by_key, errors, notes), folder, by_key, subjects, notes)
        for row in sorted(results["methods"], key=lambda row: -(row["metrics"]["roc_auc"]["mean"] or 0.0))
    ]
    silent = [m.label for m in methods if m.attribution is None and any(fit.templates is not None for fit in m.fits)]
    if silent:
        notes.append(
            f"The folder holds no explanation of {listing(silent)}, so there is no evidence card; a run with --explain "
            "in a new folder writes them."
        )
    passport = results["passport"]
    atlas = None if data is None else data.atlas
    if data is not None and (atlas is None or atlas.coordinates is None):
        notes.append("The nodes have no coordinates, so nothing is drawn on the brain; name an atlas with --atlas.")
    return Content(
        results=results,
        passport=_passport_lines(passport),
        classes=[
            class_title(str(name)) for name in (records[0]["classes"] if records else passport.get("classes") or ())
        ],
        methods=methods,
        node_names=() if atlas is None else atlas.node_names,
        coordinates=None if atlas is None else atlas.coordinates,
        sweep=find_sweep(methods),
        notes=notes,
        created=created,
    )


def find_sweep(methods: Sequence[Method]) -> Sweep | None:
    """The method that is there with the most values of one numeric parameter, all others equal; None below three."""
    families: dict[tuple[str, str, str], list[Method]] = {}
    for method in methods:
        for parameter, value in method.parameters.items():
            if isinstance(value, int | float) and method.fits:
                rest = {name: other for name, other in method.parameters.items() if name != parameter}
                families.setdefault((method.name, parameter, repr(sorted(rest.items()))), []).append(method)
    if not families:
        return None
    (name, parameter, _), members = max(families.items(), key=lambda item: len(item[1]))
    if len(members) < _SWEEP_VALUES:
        return None
    members = sorted(members, key=lambda method: method.parameters[parameter])
    most_frequent = np.bincount(members[0].labels).argmax()
    constant = [np.mean(fit.labels == most_frequent) for fit in members[0].fits]
    return Sweep(
        method=name,
        parameter=parameter,
        values=[method.parameters[parameter] for method in members],
        metrics={
            metric: np.array([as_row(method.row["metrics"][metric]) for method in members]) for metric in _SWEEP_METRICS
        },
        seconds=np.array([method.row["seconds"] for method in members], dtype=float),
        constant_accuracy=weighted_mean(constant, [fold["weight"] for fold in members[0].row["folds"]]),
    )


def _read_group(
    folder: Path, saved: Mapping[str, Any], copies: DataCopies, notes: list[str]
) -> tuple[list[Record], list[Record]]:
    """Records and errors of one study."""
    found = collect([folder], copies.check)
    notes += found.notes
    if not found.groups:
        raise InputError(f"There are no results in {folder}; run `isocapsnet benchmark --out {folder}` first.")
    groups = sorted(found.groups, key=lambda group: (_matches(group, saved), len(found.records.get(group, ()))))
    if len(groups) > 1:
        notes.append(
            f"The folder holds {len(groups)} studies (other data, splits or preparation); this report is about one of "
            "them. `isocapsnet compare` shows all."
        )
    return found.records.get(groups[-1], []), found.errors.get(groups[-1], [])


def _matches(group: str, saved: Mapping[str, Any]) -> bool:
    """Whether a group of records is what ``results.json`` is about."""
    dataset, protocol, preparation = json.loads(group)
    digest = (saved.get("data") or saved.get("passport") or {}).get("digest")
    same_protocol = (saved.get("protocol") or {}).get("name") == protocol["name"]
    return bool(dataset == digest and same_protocol and saved.get("preparation", []) == preparation)


def _find_data(copies: DataCopies, digest: str, notes: list[str]) -> BrainGraphs | None:
    """The run's copy of the data with this digest; None, with a note, where it is not there."""
    found = copies.find_data(digest)
    notes += copies.problems
    if found is not None:
        return found
    if not copies.problems:
        notes.append("The folder holds no copy of the data, so subjects and regions have numbers instead of names.")
    return None


def _context(
    folder: Path, saved: Mapping[str, Any], data: BrainGraphs | None, items: Sequence[Record]
) -> dict[str, Any]:
    """What ``results.json`` says beside the numbers, where that is about these records; else what can be known."""
    job = items[0]["job"]
    context = {name: saved[name] for name in ("passport", "command", "protocol", "detectable") if name in saved}
    if not _matches(group_of(items[0]), saved):
        context = {}
    if data is not None:
        context["passport"] = data.passport
    context.setdefault("passport", {"name": folder.resolve().name, "digest": job["dataset"]})
    context.setdefault("protocol", {**job["protocol"], "repeats": 1 + max(item["job"]["repeat"] for item in items)})
    context["preparation"] = list(job["preparation"])
    return context


def _passport_lines(passport: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The passport as lines, with source and licence where the dataset is of the catalog."""
    try:
        lines = format_passport(passport)
    except (LookupError, TypeError, ValueError, AttributeError):  # of another version, or of another hand
        lines = [(name, str(value)) for name, value in passport.items() if isinstance(value, str | int) and value]
    entry = CATALOG.get(str(passport.get("name")))
    if entry is not None:
        lines += [("what", entry.title), ("source", entry.citation), ("licence", entry.licence)]
    return lines


def _read_method(
    folder: Path, row: Mapping[str, Any], records: Mapping[str, Record], errors: Sequence[Record], notes: list[str]
) -> Method:
    """One row of the table with its fits."""
    found = [records[fold["key"]] for fold in row["folds"]]
    job = (found or [item for item in [*records.values(), *errors] if _is_of(item["job"], row["method"])])[0]["job"]
    return Method(
        row=row,
        name=job["method"],
        parameters=job["parameters"],
        space=job["space"],
        fits=[_read_fit(folder / "artifacts" / record["key"], record, notes) for record in found],
    )


def _is_of(job: Mapping[str, Any], label: str) -> bool:
    """Whether a job is of the row with this label, which may have a remark (another version, say) at its end."""
    name = method_label(job["method"], job["parameters"])
    return label == name or label.startswith(f"{name} (")


def _read_fit(artifacts: Path, record: Record, notes: list[str]) -> Fit:
    """A record with the artifacts beside it; a damaged artifact is left out with a note."""
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
