"""A results folder as the content of a report: what is there, and a note for what is not."""

import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from isocapsnet._validation import InputError
from isocapsnet.benchmark.jobs import Job, method_label
from isocapsnet.benchmark.output import results_json
from isocapsnet.benchmark.results import group_records, tabulate
from isocapsnet.benchmark.store import Store
from isocapsnet.cli._explanations import add_explanations
from isocapsnet.datasets.catalog import CATALOG
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.passport import format_passport
from isocapsnet.report.content import Content, Fit, Method, Sweep
from isocapsnet.report.gallery import as_row
from isocapsnet.report.prose import class_title, listing

Record = Mapping[str, Any]

#: What is used of ``results.json``, with the type it must have.
_SAVED_PARTS = {
    "passport": dict, "command": str, "versions": dict, "protocol": dict, "preparation": list, "detectable": dict,
    "data": dict,
}  # fmt: skip
_SWEEP_VALUES = 3
_SWEEP_METRICS = ("roc_auc", "accuracy", "weighted_f1")


def read_results(folder: Path, *, created: str = "") -> Content:
    """Everything the folder holds of one study; a note says what is missing or damaged.

    Of a folder with records of several studies, the one that ``results.json`` is about is read, or else the one with
    the most records.
    """
    notes: list[str] = []
    saved = _read_saved(folder, notes)
    records, errors = _read_group(folder, saved, notes)
    data = _read_data(folder, saved, [*records, *errors][0]["job"]["dataset"], notes)
    results = results_json(tabulate(records, errors), _context(folder, saved, data, [*records, *errors]))
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
            class_title(str(name)) for name in (records[0]["classes"] if records else passport.get("classes", ()))
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
    return Sweep(
        method=name,
        parameter=parameter,
        values=[method.parameters[parameter] for method in members],
        metrics={
            metric: np.array([as_row(method.row["metrics"][metric]) for method in members]) for metric in _SWEEP_METRICS
        },
        seconds=np.array([method.row["seconds"] for method in members], dtype=float),
        constant_accuracy=float(np.mean([np.mean(fit.labels == most_frequent) for fit in members[0].fits])),
    )


def _read_saved(folder: Path, notes: list[str]) -> dict[str, Any]:
    """The content of ``results.json``; empty where there is none that can be read."""
    path = folder / "results.json"
    saved = _read_json(path)
    if isinstance(saved, dict) and isinstance(saved.get("passport"), dict):
        return {name: saved[name] for name, kind in _SAVED_PARTS.items() if isinstance(saved.get(name), kind)}
    state = "damaged" if path.exists() else "missing, as it is before a run has ended"
    notes.append(f"results.json is {state}: the records here may be part of a run, and its command is not known.")
    return {}


def _read_group(folder: Path, saved: Mapping[str, Any], notes: list[str]) -> tuple[list[Record], list[Record]]:
    """Records and errors of one study."""
    store = Store(folder)
    found, failed = list(store.records()), list(store.errors())
    complete = {record["key"]: record for record in found if _is_record(record)}
    incomplete = [error for error in failed if not (_is_of_its_job(error) and isinstance(error.get("reason"), str))]
    paths = [path for kind in ("records", "errors") for path in folder.glob(f"{kind}/??/*")]
    contents = [_read_json(path) for path in paths]
    unreadable = [content for content in contents if not (isinstance(content, dict) and "key" in content)]
    records = group_records(complete.values())
    errors = group_records(error for error in failed if error not in incomplete and error["key"] not in complete)
    if not records and not errors:
        raise InputError(f"There are no results in {folder}; run `isocapsnet benchmark --out {folder}` first.")
    n_damaged = len(unreadable) + len(found) - len(complete) + len(incomplete)
    if n_damaged:
        notes.append(
            f"{n_damaged} files of the folder are damaged, incomplete or of another version and were passed over."
        )
    groups = sorted(
        dict.fromkeys([*records, *errors]), key=lambda group: (_matches(group, saved), len(records.get(group, ())))
    )
    if len(groups) > 1:
        notes.append(
            f"The folder holds {len(groups)} studies (other data, splits or preparation); this report is about one of "
            "them. `isocapsnet compare` shows all."
        )
    return list(records.get(groups[-1], ())), list(errors.get(groups[-1], ()))


def _is_record(item: Record) -> bool:
    """Whether a record holds the predictions of its job, one row of probabilities per test graph."""
    try:
        labels, test = (np.asarray(item[name], dtype=np.int64) for name in ("labels", "test"))
        probabilities = np.asarray(item["probabilities"], dtype=np.float64)
        n_classes, seconds = len(item["classes"]), sum(item["seconds"].values())
        return bool(
            _is_of_its_job(item)
            and len(labels) > 0
            and labels.shape == test.shape
            and probabilities.shape == (len(labels), n_classes)
            and np.isin(labels, range(n_classes)).all()
            and np.isfinite([probabilities.sum(), seconds]).all()
            and item["n_train"] > 0
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return False


def _is_of_its_job(item: Record) -> bool:
    """Whether a record or error has the key of its job; another version may have known other jobs."""
    try:
        job = Job(**item["job"])
        return bool(job.key == item["key"] and job.to_json().keys() == item["job"].keys())
    except (KeyError, TypeError, ValueError):
        return False


def _matches(group: str, saved: Mapping[str, Any]) -> bool:
    """Whether a group of records is what ``results.json`` is about."""
    dataset, protocol, preparation = json.loads(group)
    digest = (saved.get("data") or saved.get("passport") or {}).get("digest")
    same_protocol = (saved.get("protocol") or {}).get("name") == protocol["name"]
    return bool(dataset == digest and same_protocol and saved.get("preparation", []) == preparation)


def _read_data(folder: Path, saved: Mapping[str, Any], digest: str, notes: list[str]) -> BrainGraphs | None:
    """The run's copy of the data with this digest; None, with a note, where it is not there."""
    named = Path(str((saved.get("data") or {}).get("file", ""))).name
    names = (named, f"{digest.removeprefix('sha256:')[:16]}.npz")
    files = sorted(folder.glob("data/*.npz"))
    path = next((file for file in files if file.name in names), files[0] if len(files) == 1 else None)
    if path is None:
        notes.append("The folder holds no copy of the data, so subjects and regions have numbers instead of names.")
        return None
    try:
        data = BrainGraphs.load(path)
        data.digest()
    except (InputError, OSError) as error:
        notes.append(f"The folder's copy of the data cannot be used: {error}")
        return None
    return data


def _context(
    folder: Path, saved: Mapping[str, Any], data: BrainGraphs | None, items: Sequence[Record]
) -> dict[str, Any]:
    """What ``results.json`` says beside the numbers; as much of it as can be known where it is missing."""
    names = ("passport", "command", "versions", "protocol", "preparation", "detectable")
    context = {name: saved[name] for name in names if name in saved}
    job = items[0]["job"]
    if "passport" not in context:
        context["passport"] = (
            {"name": folder.resolve().name, "digest": job["dataset"]} if data is None else data.passport
        )
    context.setdefault("protocol", {**job["protocol"], "repeats": 1 + max(item["job"]["repeat"] for item in items)})
    context.setdefault("preparation", list(job["preparation"]))
    context.setdefault("versions", next((item["versions"] for item in items if "versions" in item), {}))
    return context


def _passport_lines(passport: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The passport as lines, with source and licence where the dataset is of the catalog."""
    try:
        lines = format_passport(passport)
    except (KeyError, TypeError):
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
    job = next(item["job"] for item in [*found, *errors] if item in found or _is_of(item["job"], row["method"]))
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
    history, warnings = (_read_json(artifacts / name) for name in ("history.json", "warnings.json"))
    templates = None
    try:
        with np.load(artifacts / "templates.npz", allow_pickle=False) as archive:
            templates = archive["templates"]
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error) as error:
        notes.append(f"artifacts/{record['key'][:12]}.../templates.npz cannot be read ({error}).")
    return Fit(
        repeat=record["job"]["repeat"],
        fold=record["job"]["fold"],
        labels=np.asarray(record["labels"], dtype=np.int64),
        probabilities=np.asarray(record["probabilities"], dtype=np.float64),
        settings=record.get("settings") or {},
        seconds=record["seconds"],
        peak_memory=record.get("peak_memory"),
        history=[epoch for epoch in history if isinstance(epoch, dict)] if isinstance(history, list) else (),
        templates=templates,
        warnings=[str(message) for message in warnings] if isinstance(warnings, list) else (),
    )


def _read_json(path: Path) -> Any:
    """The JSON in a file; None where there is none."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None
