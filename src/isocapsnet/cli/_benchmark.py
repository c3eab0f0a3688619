"""What ``isocapsnet benchmark``, ``compare`` and ``sweep`` do."""

import json
import shlex
import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table as RichTable

from isocapsnet._safe_text import spreadsheet_safe
from isocapsnet._validation import InputError
from isocapsnet.cli._display import audit_table, escape, make_console, results_table
from isocapsnet.cli._execution import carry_out, check_execution, describe_power, describe_sites
from isocapsnet.cli._methods import (
    keep_suitable,
    list_methods,
    list_steps,
    make_method,
    parse_value,
    split_one_name,
    split_values,
)
from isocapsnet.cli._study import DataCopies, publish_study, refuse_missing
from isocapsnet.cli.data import READING, open_graphs
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.evaluation.artifacts import read_templates
from isocapsnet.evaluation.collection import collect, merge
from isocapsnet.evaluation.files import DamagedError, write_whole
from isocapsnet.evaluation.jobs import Method
from isocapsnet.evaluation.output import read_context, write_results
from isocapsnet.evaluation.plan import Plan
from isocapsnet.evaluation.protocol import Protocol
from isocapsnet.evaluation.results import Table, tabulate
from isocapsnet.evaluation.statistics import CHANCE
from isocapsnet.evaluation.store import Store

_EMBEDDED = "planted"
_AUDITS = 1


def run_benchmark(data: str | None, options: dict[str, Any]) -> None:
    """Compare methods on DATA (a file, a folder or a dataset's name), without leakage."""
    console = make_console()
    methods = list_methods(options["methods"], device=options["device"], use_unlabeled=options["use_unlabeled"])
    plan, passport = _make_plan(data, methods, options, console)
    _say_power(plan, console)
    table = carry_out(plan, options, console)
    if table is None:
        return
    write_results(options["out"], table, _context(plan, passport) | {"versions": table.versions})
    _show_results(table, f"{passport['name']}: {_describe(plan)}", console)
    if options["audit"]:
        console.print(audit_table(table))
    console.print(f"Results: {escape(str(options['out']))}/results.csv, results.json, records/, artifacts/")
    if all(row.failed == row.jobs for row in table.rows):
        sys.exit(1)


def compare_folders(folders: tuple[Path, ...], out: Path | None) -> None:
    """Put the results of several runs (or machines) into one table per dataset and protocol."""
    console = make_console()
    copies = DataCopies(*folders)
    collection = collect(folders, copies.check)
    for note in [*collection.notes, *copies.problems]:
        console.print(escape(note), soft_wrap=True)
    if not collection.groups:
        raise InputError(f"There are no records in {', '.join(map(str, folders))}; run `isocapsnet benchmark` first.")
    known = _passports(folders)
    tables: list[tuple[Table, dict[str, Any]]] = []
    for group in collection.groups:
        dataset, protocol, preparation = json.loads(group)
        table = tabulate(collection.records.get(group, []), collection.errors.get(group, []))
        passport = known.get(dataset, {"name": dataset, "digest": dataset})
        steps = "".join(f", {step['name']}" for step in preparation)
        _show_results(table, f"{passport['name']}: {protocol['name']}{steps}", console)
        context = {"passport": passport, "protocol": protocol, "preparation": preparation, "data": {"digest": dataset}}
        tables.append((table, context))
    if out is not None:
        if len(tables) > 1:
            raise InputError("--out merges runs on one dataset under one protocol; these folders hold several.")
        for note in merge(collection, folders, out):
            console.print(escape(note), soft_wrap=True)
        [(table, context)] = tables
        if (found := copies.find(context["data"]["digest"])) is not None:
            data, column = found
            source = publish_study(data, out, group=column, use_series=data.adjacency is None)
            context["data"]["file"] = f"data/{Path(source.arguments['path']).name}"
        write_results(out, table, context | {"command": _command(), "versions": table.versions})
        console.print(f"Merged: {escape(str(out))}")


def _show_results(table: Table, title: str, console: Console) -> None:
    console.print(results_table(table, escape(title), console.width))
    if table.sites is not None:
        console.print(escape(table.sites.sentence), soft_wrap=True)


def run_sweep(data: str | None, method: str, param: str, options: dict[str, Any]) -> None:
    """Vary one parameter of a method: accuracy, F1, seconds and the learned template for each value."""
    console = make_console()
    name, equals, values = param.partition("=")
    if not equals or not values:
        raise InputError(f"--param {param} cannot be read; write NAME=VALUE,VALUE,...")
    base, settings = split_one_name(method)
    methods = tuple(
        make_method(base, {**settings, name: parse_value(value)}, device=options["device"])
        for value in split_values(values)
    )
    plan, passport = _make_plan(data, methods, {**options, "save_models": False}, console)
    table = carry_out(plan, options, console)
    if table is None:
        return
    swept = {method.label: method.parameters[name] for method in methods}
    sweep = {"method": base, "parameter": name, "methods": swept}
    write_results(options["out"], table, _context(plan, passport) | {"versions": table.versions, "sweep": sweep})
    frame = _sweep_frame(table, plan, name, Store(options["out"]))
    write_whole(options["out"] / "sweep.csv", spreadsheet_safe(frame).to_csv(index=False).encode())
    console.print(_sweep_table(frame, title=escape(f"{passport['name']}: {method}, {_describe(plan)}")))
    console.print(f"Results: {escape(str(options['out']))}/sweep.csv, results.csv, results.json")


def _make_plan(
    source: str | None, methods: tuple[Method, ...], options: dict[str, Any], console: Console
) -> tuple[Plan, dict[str, Any]]:
    """The plan that the options describe, and the data's passport."""
    check_execution(options)
    data = _open(source or _EMBEDDED, options)
    console.print(escape(repr(data)), highlight=False)
    methods = keep_suitable(methods, int((data.class_counts > 0).sum()), named=options.get("methods") != "all")
    use_series = data.time_series is not None and (data.adjacency is None or options["connectivity"] is not None)
    steps = list_steps(
        connectivity=options["connectivity"],
        transforms=options["transform"],
        harmonize=options["harmonize"],
        confounds=options["confounds"],
        has_series=use_series,
    )
    _refuse_idle_options(data, options)
    if options["harmonize"] and data.sites is None:
        raise InputError("--harmonize needs sites; name their column with --site.")
    if data.sites is not None and (options["harmonize"] or options["protocol"] == "leave-site-out"):
        refuse_missing("of sites", data.sites, data)
    known = [] if data.covariates is None else list(data.covariates.columns)
    for column in options["confounds"]:
        if column not in known:
            raise InputError(
                f"There is no covariate {column!r} to regress out; the data have {', '.join(known) or 'none'}."
            )
    repeats = options["repeats"] or (1 if options["protocol"] != "nested" else 2 if source is None else 5)
    folder = options["out"]
    if options["dry_run"]:  # leaves nothing behind
        folder = Path(click.get_current_context().with_resource(TemporaryDirectory()))
    plan = Plan(
        source=publish_study(data, folder, group=options["group"], use_series=use_series),
        methods=methods,
        protocol=Protocol(
            options["protocol"],
            options["folds"] or Protocol.n_folds,
            n_candidates=options["candidates"] or Protocol.n_candidates,
        ),
        repeats=repeats,
        preparation=steps,
        permutations=options.get("permutations", 0),
        audits=_AUDITS if options.get("audit") else 0,
        save_model="isocapsnet:save_model" if options["save_models"] else None,
        explain="isocapsnet.explanation:write_explanation" if options.get("explain") else None,
    )
    return plan, data.passport


def _refuse_idle_options(data: BrainGraphs, options: dict[str, Any]) -> None:
    """Refuse options that would be ignored."""
    protocol = options["protocol"]
    if options["folds"] and (protocol == "leave-site-out" or (protocol == "paper" and data.folds)):
        whose = "sites" if protocol == "leave-site-out" else "own folds"
        raise InputError(f"--folds does not apply: {protocol} uses the dataset's {whose}; leave it out.")
    if (options["candidates"] or 1) > 1 and protocol == "paper":
        raise InputError("--candidates does not apply: paper keeps each method's defaults; use the protocol nested.")
    if options.get("use_unlabeled") and data.is_labelled.all():
        raise InputError("--use-unlabeled does not apply: every graph has a label; leave it out.")


def _open(source: str, options: dict[str, Any]) -> BrainGraphs:
    """The data, with the columns that the analysis needs."""
    reading = {name: options[name] for name in READING}
    # A file brings all its columns, and naming some would change its digest; of a folder's table they must be named.
    if reading["covariates"] or Path(source).is_dir():
        needed = [*(reading["covariates"] or ()), *options["confounds"], *filter(None, [options["group"]])]
        reading["covariates"] = tuple(dict.fromkeys(needed)) or None
    return open_graphs(source, **reading)


def _say_power(plan: Plan, console: Console) -> None:
    if (sites := describe_sites(plan)) is not None:
        console.print(escape(sites.sentence), soft_wrap=True)
    power = describe_power(plan)
    if np.isnan(power["above_chance"]):
        return
    if power["above_chance"] > 1:
        words = "not even a perfect ROC AUC would be told from chance with 80 % power"
    else:
        words = f"80 % power begins at a ROC AUC of about {power['above_chance']:.2f} against chance"
        if power["between_methods"] <= 1 - CHANCE:
            words += f", and at a difference of {power['between_methods']:.2f} between two methods"
    console.print(f"With {power['n_scores']} test folds, {words}.")


def _describe(plan: Plan) -> str:
    """``nested, 5 x 3 folds, tuned over 8 settings``."""
    protocol = plan.protocol
    folds = len(protocol.splits(plan.source.load(), repeat=0))
    words = [protocol.name, f"{plan.repeats} x {folds} folds"]
    words += [step.name for step in plan.preparation]
    words += [f"up to {protocol.n_candidates} settings tried inside each fold"] if protocol.is_tuned else []
    words += [f"{plan.permutations} permutations"] if plan.permutations else []
    return ", ".join(words)


def _context(plan: Plan, passport: dict[str, Any]) -> dict[str, Any]:
    """What results.json says beside the numbers."""
    protocol = plan.protocol
    return {
        "passport": passport,
        "command": _command(),
        "protocol": {
            "name": protocol.name,
            "n_folds": protocol.n_folds,
            "repeats": plan.repeats,
            "inner_folds": protocol.inner_folds if protocol.is_tuned else 0,
            "n_candidates": protocol.n_candidates if protocol.is_tuned else 1,
            "permutations": plan.permutations,
        },
        "preparation": [step.identity() for step in plan.preparation],
        "search_spaces": {method.label: method.space for method in plan.methods if protocol.is_tuned},
        "data": {"digest": plan.source.digest, "file": f"data/{Path(plan.source.arguments['path']).name}"},
        "detectable": describe_power(plan),
    }


def _command() -> str:
    return shlex.join(["isocapsnet", *sys.argv[1:]])


def _passports(folders: tuple[Path, ...]) -> dict[str, dict[str, Any]]:
    """Digest to passport, from the folders' results.json; where there is none the digest stands for the name."""
    contexts = [read_context(folder)[0] for folder in folders]
    return {c["data"]["digest"]: c["passport"] for c in contexts if "digest" in c.get("data", {}) and "passport" in c}


def _sweep_frame(table: Table, plan: Plan, parameter: str, store: Store) -> pd.DataFrame:
    """One row per value: the value, accuracy, weighted F1 and ROC AUC, seconds, template of the first fold."""
    rows = []
    by_label = {row.method: row for row in table.rows}
    for method in plan.methods:
        row = by_label[method.label]
        template = _first_template(store.folder / "artifacts" / row.keys[0, 0]) if (0, 0) in row.keys else None
        rows.append(
            {
                parameter: method.parameters[parameter],
                "accuracy": row.metrics["accuracy"].mean,
                "weighted_f1": row.metrics["weighted_f1"].mean,
                "roc_auc": row.metrics["roc_auc"].mean,
                "seconds": row.seconds,
                "template": json.dumps(template),
                "verdict": row.verdict,
            }
        )
    return pd.DataFrame(rows)


def _first_template(artifacts: Path) -> list[list[float]] | None:
    try:
        templates = read_templates(artifacts)
    except DamagedError as error:
        warnings.warn(f"{artifacts}: templates.npz {error}; the table shows no template for it.", stacklevel=2)
        return None
    return None if templates is None else templates[0].astype(float).round(4).tolist()


def _sweep_table(frame: pd.DataFrame, title: str) -> RichTable:
    shown = RichTable(title=title, title_justify="left", show_lines=True)
    for name in frame:
        shown.add_column(str(name), overflow="fold", no_wrap=name == "template")
    for _, row in frame.iterrows():
        template = json.loads(row["template"])
        lines = [] if template is None else [" ".join(f"{value:5.2f}" for value in line) for line in template]
        cells = [f"{value:.3f}" if isinstance(value, float) else escape(str(value)) for value in row]
        cells[list(frame).index("template")] = "\n".join(lines) or "-"
        shown.add_row(*cells)
    return shown
