"""A run in a file: options saved, read again, overridden and refused."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

import isocapsnet as ic
from isocapsnet import _benchmarking
from isocapsnet._run_files import format_config
from isocapsnet.cli import main
from isocapsnet.cli.benchmark import benchmark, sweep
from isocapsnet.cli.models import fit
from isocapsnet.cli.report import report
from isocapsnet.evaluation.plan import Plan

#: A value of every option, on the command line, that is not its default.
GIVEN: dict[str, Any] = {
    "methods": "isocapsnet[kernel_size=3],svm,linear", "permutations": "3", "audit": "node-order",
    "use-unlabeled": True, "save-models": True, "method": "gin[preset=paper]", "param": "n_layers=1,2",
    "protocol": "leave-site-out", "repeats": "2", "folds": "4", "candidates": "5", "test": "resampled-t",
    "explain": False, "connectivity": "tangent", "transform": "fisher-z,density[density=0.1]", "harmonize": True,
    "confounds": "age,sex", "choose-transform": "fisher-z,scale", "group": "person", "jobs": "3",
    "scheduler": "tcp://head:8786", "cluster": "local:2", "timeout": "60.5", "memory-limit": "4GB", "device": "cpu",
    "retry-failed": False, "search": "exhaustive", "learning-curve": "0.25,0.5", "where": "Modality=fMRI",
    "array": "adjacency", "subjects": "ids", "skip-refused": True, "triangle": "lower", "max-missing": "0.25",
    "title": "A study", "positive-class": "patient", "dry-run": True, "target": 'dia"gnosis\\', "site": "centre",
    "covariates": "age,IQ", "select": "task-rest,run-1", "exclude": "sub-1,sub-2", "kind": "series", "atlas": "aal90",
    "n-nodes": "90", "index-base": "1", "directed": False, "read-limit": "2GB", "decoder": False, "precision": "half",
    "seed": "7",
}  # fmt: skip


def _call(*arguments: Any) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def _capture(command: click.Command, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The options that a command is called with; it does nothing else."""
    seen: list[dict[str, Any]] = []
    inner = command.callback.__wrapped__  # type: ignore[union-attr]
    run = command.callback
    assert run is not None and run.__closure__ is not None
    [cell] = [cell for cell in run.__closure__ if cell.cell_contents is inner]
    monkeypatch.setattr(cell, "cell_contents", lambda **options: seen.append(options))
    return seen


def _arguments(command: click.Command, folder: Path) -> list[str]:
    """A command line with a value of every option."""
    (folder / "table.csv").write_text("subject\n")
    (folder / "results").mkdir(exist_ok=True)
    paths = {
        "out": folder / "out",
        "participants": folder / "table.csv",
        "like": folder / "results",
        "regions": folder / "table.csv",
    }
    paths |= {"figures": folder / "figures"}
    arguments = [str(folder / "results")]
    for param in command.params:
        name = str(param.name).replace("_", "-")
        if not isinstance(param, click.Option) or name in ("config", "save-config"):
            continue
        value = {**GIVEN, **{key: str(path) for key, path in paths.items()}}[name]
        if isinstance(value, bool):
            arguments.append(param.opts[0] if value else param.secondary_opts[0])
        else:
            arguments += [param.opts[0], value]
    return arguments


@pytest.mark.parametrize("command", [benchmark, sweep, fit, report], ids=lambda command: command.name)
def test_every_option_survives_a_file(command: click.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = _capture(command, monkeypatch)
    arguments = _arguments(command, tmp_path)
    file = tmp_path / "run.toml"
    first = _call(command.name, *arguments, "--save-config", file)
    assert first.exit_code == 0, first.output
    dry = ["--dry-run"] if "dry_run" in seen[0] else []  # whether something is run is not part of the run
    again = _call(command.name, "--config", file, *dry)
    assert again.exit_code == 0, again.output
    assert seen[1] == seen[0]
    content = tomllib.loads(file.read_text())
    assert {key.replace("-", "_") for key in content} == seen[0].keys() - {"dry_run"}


def test_a_saved_run_has_the_same_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Plan] = []
    make_plan = _benchmarking.make_plan

    def keep(*arguments: Any, **keywords: Any) -> Plan:
        plans.append(make_plan(*arguments, **keywords))
        return plans[-1]

    monkeypatch.setattr(_benchmarking, "make_plan", keep)
    monkeypatch.setattr(_benchmarking, "estimate_time", lambda *arguments: None)
    planted = ic.make_planted_graphs(40, 8, n_sites=2, random_state=0)
    ic.BrainGraphs(planted.graphs, planted.labels, sites=planted.sites.astype(str)).save(tmp_path / "study.npz")
    arguments = [
        tmp_path / "study.npz", "--methods", "isocapsnet[kernel_size=3],svm[C=0.1],linear", "--repeats", 2,
        "--folds", 4, "--candidates", 3, "--permutations", 2, "--audit", "node-order", "--transform", "scale,signs",
        "--harmonize", "--choose-transform", "density[density=0.2]", "--no-explain", "--out", tmp_path / "out",
    ]  # fmt: skip
    file = tmp_path / "run.toml"
    assert _call("benchmark", *arguments, "--dry-run", "--save-config", file).exit_code == 0
    assert _call("benchmark", "--config", file, "--dry-run").exit_code == 0
    assert _call("benchmark", "--config", file, "--dry-run", "--repeats", 1, "--methods", "linear").exit_code == 0
    first, again, changed = ([task.job.key for task in plan.tasks(tmp_path)] for plan in plans)
    assert again == first and plans[1] == plans[0]
    assert set(changed) < set(first) and len(changed) == 4 * (1 + 1 + 2)
    assert replace(plans[0], repeats=1).protocol == plans[2].protocol


def test_names_and_texts_may_be_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = _capture(benchmark, monkeypatch)
    file = tmp_path / "run.toml"
    file.write_text(
        'methods = ["linear", "svm[C=0.1]"]\nconfounds = ["age"]\nexclude = [12, 13]\nmemory_limit = "4GB"\n'
        "explain = false\ntimeout = 3\n"
    )
    assert _call("benchmark", "--config", file, "--explain").exit_code == 0
    [options] = seen
    assert options["methods"] == "linear,svm[C=0.1]" and options["confounds"] == ("age",)
    assert options["exclude"] == ("12", "13") and options["memory_limit"] == 4 * 10**9
    assert options["explain"] is True and options["timeout"] == 3.0


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        ("repeat = 3", ["repeat", "'repeats'"]),
        ("memory-limits = 3", ["memory-limits", "'memory-limit'"]),
        ("save-config = 'x'", ["save-config"]),
        ("repeats = 'many'", ["--repeats", "many"]),
        ("repeats = 0", ["--repeats"]),
        ("repeats = true", ["repeats", "True"]),
        ("harmonize = 'yes'", ["harmonize", "true or false"]),
        ("[methods]\na = 1", ["methods", "table"]),
        ("repeats = \nfolds = 3", ["TOML", "line 1"]),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(content: str, facts: list[str], tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(content)
    result = _call("benchmark", "--config", file)
    assert result.exit_code == 2
    assert all(fact in result.output for fact in facts), result.output


@given(st.dictionaries(st.from_regex(r"[a-z]+(_[a-z]+)*", fullmatch=True), st.text(st.characters(codec="utf-8"))))
def test_any_text_survives_toml(options: dict[str, str]) -> None:
    left_out = {"dry_run", "config", "save_config", "command", "progress"}
    content = tomllib.loads(format_config("benchmark", options))
    assert {key.replace("-", "_"): value for key, value in content.items()} == {
        name: value for name, value in options.items() if name not in left_out
    }


def test_the_results_folder_and_the_report_have_the_file_of_the_run(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    planted = ic.make_planted_graphs(24, 6, random_state=0)
    ic.BrainGraphs(planted.graphs, planted.labels, name="small").save(tmp_path / "study.npz")
    out = tmp_path / "out"
    options = ("--methods", "linear,constant", "--repeats", 1, "--jobs", 0, "--out", out)
    assert _call("benchmark", tmp_path / "study.npz", *options).exit_code == 0
    content = tomllib.loads((out / "run.toml").read_text())
    assert content["methods"] == "linear,constant" and content["repeats"] == 1 and content["out"] == str(out)
    again = _call("benchmark", "--config", out / "run.toml")
    assert again.exit_code == 0 and "6 jobs: 6 done" in again.output
    assert _call("report", out).exit_code == 0
    page = (out / "report.html").read_text()
    assert "run.toml" in page and 'data-copies="run-file"' in page and "retry-failed = true" in page
    # From Python, with an estimator that a file cannot hold.
    from sklearn.dummy import DummyClassifier

    from isocapsnet.datasets.graphs import BrainGraphs

    ic.benchmark(BrainGraphs.load(tmp_path / "study.npz"), [DummyClassifier()], out=out, repeats=1, jobs=0)
    text = (out / "run.toml").read_text()
    assert {"data", "methods"}.isdisjoint(tomllib.loads(text)) and "objects" in text


def test_a_sweep_keeps_its_own_options(tmp_path: Path) -> None:
    planted = ic.make_planted_graphs(24, 6, random_state=0)
    ic.BrainGraphs(planted.graphs, planted.labels, name="small").save(tmp_path / "study.npz")
    options: dict[str, Any] = {"repeats": 1, "candidates": 1, "jobs": 0, "progress": False, "out": tmp_path / "out"}
    ic.sweep(str(tmp_path / "study.npz"), "svm", {"C": [0.1, 1.0]}, **options)
    content = tomllib.loads((tmp_path / "out" / "run.toml").read_text())
    assert content["method"] == "svm" and content["param"] == "C=0.1,1.0" and content["repeats"] == 1
    result = _call("sweep", "--config", tmp_path / "out" / "run.toml", "--dry-run")
    assert result.exit_code == 0 and "6 jobs: 6 done" in result.output, result.output
    assert json.loads((tmp_path / "out" / "results.json").read_text())["sweep"]["parameter"] == "C"
