"""Results as the content of a report, with notes about what is missing."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from isocapsnet._explaining import choose_networks
from isocapsnet._files import DamagedError
from isocapsnet._results import Results
from isocapsnet._results_folders import open_results
from isocapsnet._run_files import RUN_FILE
from isocapsnet._validation import InputError
from isocapsnet.datasets.catalog import CATALOG
from isocapsnet.datasets.fields import is_usual_confound
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.passport import count_handled, format_passport
from isocapsnet.evaluation.artifacts import read_history, read_templates, read_warnings
from isocapsnet.explanation.fits import FitExplanation
from isocapsnet.explanation.storage import EXPLANATION_FILE, read_explanation
from isocapsnet.explanation.summary import Explanation, summarize
from isocapsnet.report.content import Content, Fit, ReportedMethod, Subjects, Sweep
from isocapsnet.report.prose import class_title, listing

Record = Mapping[str, Any]
# Longer files were not written by a run.
_LARGEST_CONFIG = 100_000
_REASONS = 5


def read_content(folder: Path, *, created: str = "") -> Content:
    """The content of a report about a results folder."""
    return make_content(open_results(folder), created=created)


def make_content(
    results: Results, *, created: str = "", title: str | None = None, positive_class: str | None = None
) -> Content:
    """The content of a report from results and the artifacts in their folder.

    ``positive_class`` is the name of one of two classes, by default the last one.
    """
    if len(results.folders) != 1:
        raise InputError("A report needs one results folder; merge the folders first with compare(..., out=...).")
    [folder] = results.folders
    table, context, data = results.summary, results.context, results.data
    notes = [*results.notes, *results.left_out]
    subjects = () if data is None else data.identifiers.tolist()
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
    names = [str(name) for name in (first or passport).get("classes") or ()]
    atlas = None if data is None else data.atlas
    if data is not None and (atlas is None or atlas.coordinates is None):
        notes.append(
            "The nodes have no coordinates, so nothing is drawn on the brain. If they are those of an atlas, name the "
            "atlas when the data are read."
        )
    return Content(
        table=table,
        methods=methods,
        classes=[class_title(name) for name in names],
        passport=passport,
        passport_lines=_passport_lines(passport),
        protocol=context["protocol"],
        preparation=[step["name"] for step in context["preparation"]],
        detectable=context.get("detectable"),
        command=context.get("command"),
        config=_read_config(folder / RUN_FILE),
        sweep=_read_sweep(context.get("sweep"), methods),
        node_names=() if atlas is None else atlas.node_names,
        coordinates=None if atlas is None else atlas.coordinates,
        notes=notes,
        confounds=context.get("confounds") or "",
        created=created,
        title=title or "",
        positive=_find_class(positive_class, names),
        subjects=None if data is None else _describe_subjects(data, names, results),
    )


def _find_class(name: str | None, names: Sequence[str]) -> int:
    """The index of the positive class."""
    if name is None:
        return len(names) - 1
    if len(names) != 2:
        raise InputError(f"positive_class={name!r} needs two classes; the results have {len(names)}.")
    if name not in names:
        raise InputError(f"positive_class={name!r} is not a class of the results; choose from {', '.join(names)}.")
    return names.index(name)


def _describe_subjects(data: BrainGraphs, names: Sequence[str], results: Results) -> Subjects:
    """The subjects with their age, sex, head motion and what controls were given."""
    code_of = {name: code for code, name in enumerate(names)}
    codes = [code_of.get(name, -1) for name in data.label_names]
    given = {column for row in results.summary.rows for column in row.covariates}
    columns = [] if data.covariates is None else [str(column) for column in data.covariates.columns]
    shown = [column for column in columns if column in given or is_usual_confound(column)]
    return Subjects(
        names=data.identifiers.tolist(),
        labels=np.array([*codes, -1])[data.labels],
        sites=None if data.sites is None else data.sites.tolist(),
        covariates=pd.DataFrame() if data.covariates is None else data.covariates[shown].reset_index(drop=True),
    )


def _read_config(path: Path) -> str:
    """The configuration of the run; empty if there is none that can be read."""
    with suppress(OSError, ValueError):
        return path.read_text(encoding="utf-8") if path.is_file() and path.stat().st_size < _LARGEST_CONFIG else ""
    return ""


def _passport_lines(passport: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The passport as lines, with source and licence for datasets of the catalog.

    Exclusions and corrections are counted; the passport in ``results.json`` names them.
    """
    try:
        reasons = Counter(passport["exclusions"].values())
        listed = [f"{reason} ({count})" for reason, count in reasons.most_common(_REASONS)]
        listed += [f"{len(reasons) - _REASONS} other reasons"] if len(reasons) > _REASONS else []
        excluded = "; ".join(listed) if len(reasons) > 1 else "".join(reasons)
        counted = {
            "exclusions": {f"{reasons.total()} subjects": excluded} if reasons else {},
            "handled": count_handled(passport["handled"]),
        }
        lines = format_passport({**passport, **counted})
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
        test=np.asarray(record["test"], dtype=np.int64),
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
    names = [class_title(str(name)) for name in records[0]["classes"]]
    partition, of_nodes = networks if fits[0].n_nodes == len(networks[1] or ()) else ("", None)
    return summarize(fits, tests, subjects=subjects, class_names=names, networks=of_nodes, partition=partition)


def _explains(fit: FitExplanation, record: Record) -> bool:
    """Whether an explanation is about test graphs of the record, with their classes."""
    labels, positions = np.asarray(record["labels"]), fit.positions
    is_possible = len(fit.classes) == len(record["classes"]) and positions.max() < len(labels)
    return bool(is_possible and np.array_equal(labels[positions], fit.codes))
