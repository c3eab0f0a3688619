"""Results as the content of a report, with notes about what is missing."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from isocapsnet._explaining import choose_networks
from isocapsnet._files import DamagedError
from isocapsnet._results import Results
from isocapsnet._results_folders import open_results
from isocapsnet._validation import InputError
from isocapsnet.datasets.catalog import CATALOG
from isocapsnet.datasets.passport import format_passport
from isocapsnet.evaluation.artifacts import read_history, read_templates, read_warnings
from isocapsnet.explanation.fits import FitExplanation
from isocapsnet.explanation.storage import EXPLANATION_FILE, read_explanation
from isocapsnet.explanation.summary import Explanation, summarize
from isocapsnet.report.content import Content, Fit, ReportedMethod, Sweep
from isocapsnet.report.prose import class_title, listing

Record = Mapping[str, Any]


def read_content(folder: Path, *, created: str = "") -> Content:
    """The content of a report about a results folder."""
    return make_content(open_results(folder), created=created)


def make_content(results: Results, *, created: str = "") -> Content:
    """The content of a report from results and the artifacts in their folder."""
    if len(results.folders) != 1:
        raise InputError("A report needs one results folder; merge the folders first with compare(..., out=...).")
    [folder] = results.folders
    table, context, data = results.summary, results.context, results.data
    notes = list(results.notes)
    subjects = () if data is None else data.subjects.tolist()
    networks = choose_networks(None if data is None else data.atlas, None)
    methods = []
    for row in results.best_first:
        records = [results.records[key] for key in row.keys.values()]
        fits = [_read_fit(folder / "artifacts" / record["key"], record, notes) for record in records]
        methods.append(
            ReportedMethod(row, fits, _read_explanation(folder, row.method, records, subjects, networks, notes))
        )
    unexplained = [m.label for m in methods if m.explanation is None and any(f.templates is not None for f in m.fits)]
    if unexplained:
        notes.append(
            f"The folder has no explanation of {listing(unexplained)}, so there are no evidence cards. Run the "
            "benchmark with explanations in a new folder to get them."
        )
    passport = context["passport"]
    first = next(iter(results.records.values()), None)
    atlas = None if data is None else data.atlas
    if data is not None and (atlas is None or atlas.coordinates is None):
        notes.append("The nodes have no coordinates, so nothing is drawn on the brain; choose an atlas with atlas=.")
    return Content(
        table=table,
        methods=methods,
        classes=[class_title(str(name)) for name in (first or passport).get("classes") or ()],
        passport=passport,
        passport_lines=_passport_lines(passport),
        protocol=context["protocol"],
        preparation=[step["name"] for step in context["preparation"]],
        detectable=context.get("detectable"),
        command=context.get("command"),
        sweep=_read_sweep(context.get("sweep"), methods),
        node_names=() if atlas is None else atlas.node_names,
        coordinates=None if atlas is None else atlas.coordinates,
        notes=notes,
        confounds=context.get("confounds") or "",
        created=created,
    )


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
        labels=np.asarray(record["labels"], dtype=np.int64),
        probabilities=np.asarray(record["probabilities"], dtype=np.float64),
        settings=record["settings"],
        seconds=record["seconds"],
        peak_memory=record["peak_memory"],
        **parts,
    )


def _read_explanation(
    folder: Path, label: str, records: Sequence[Record], subjects: Sequence[str],
    networks: tuple[str, Sequence[str] | None], notes: list[str],
) -> Explanation | None:  # fmt: skip
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
    if not fits:
        return None
    partition, of_nodes = networks if fits[0].n_nodes == len(networks[1] or ()) else ("", None)
    return summarize(fits, tests, subjects=subjects, networks=of_nodes, partition=partition)


def _explains(fit: FitExplanation, record: Record) -> bool:
    """Whether an explanation is about test graphs of the record, with their classes."""
    labels, positions = np.asarray(record["labels"]), fit.positions
    is_possible = len(fit.classes) == len(record["classes"]) and positions.max() < len(labels)
    return bool(is_possible and np.array_equal(labels[positions], fit.codes))
