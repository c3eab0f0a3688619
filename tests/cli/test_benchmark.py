"""The commands benchmark, compare, sweep, fit, predict and transform, as a user calls them."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from isocapsnet._methods import list_methods, list_steps, split_names, split_values
from isocapsnet.cli import _display, main
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.synthetic import make_planted_graphs
from isocapsnet.evaluation import METRICS, Store


def _call(*arguments: Any) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def _succeed(*arguments: Any) -> str:
    result = _call(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


def _refused(*arguments: Any) -> str:
    result = _call(*arguments)
    assert result.exit_code == 2, result.output
    return result.output


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 graphs of 8 nodes at two sites, with height and person, four of them unlabelled."""
    planted = make_planted_graphs(60, 8, signal_to_noise=3.0, n_sites=2, random_state=0)
    labels = [None if number < 4 else ("control", "case")[label] for number, label in enumerate(planted.labels)]
    path = tmp_path_factory.mktemp("study") / "study.npz"
    BrainGraphs(
        planted.graphs,
        labels,
        sites=planted.sites.astype(str),
        covariates=pd.DataFrame(
            {
                "height": np.linspace(20, 60, 60),
                "person": [f"p{i // 2}" for i in range(60)],
                "family_or_gap": [""] * 6 + [f"f{i}" for i in range(54)],
            }
        ),
        name="study",
    ).save(path)
    return path


def test_a_run_ends_with_a_table_and_a_results_folder_and_goes_on_where_it_stopped(study: Path, tmp_path: Path) -> None:
    command = ("benchmark", study, "--methods", "linear,constant", "--repeats", 2, "--jobs", 0, "--out", tmp_path)
    output = _succeed(*command)
    assert "12 jobs: 0 done, 0 failed before, 12 to run" in output
    assert "80 % power" in output
    assert "vs chance" in output
    assert "12/12 jobs" in output
    frame = pd.read_csv(tmp_path / "results.csv")
    intervals = [name + suffix for name in METRICS for suffix in ("", "_low", "_high")]
    assert list(frame) == ["method", "jobs", "failed", *intervals, "seconds", "verdict"]
    assert frame.method.tolist() == ["linear", "constant"]
    assert frame.jobs.tolist() == [6, 6]
    assert frame.verdict[0] == "above chance"
    content = json.loads((tmp_path / "results.json").read_text())
    assert content["passport"]["name"] == "study"
    assert content["command"].startswith("isocapsnet")
    assert {"python", "numpy", "torch", "isocapsnet"} <= content["versions"].keys()
    assert content["methods"][0]["metrics"]["roc_auc"]["mean"] == pytest.approx(frame.roc_auc[0])
    keys = {fold["key"] for method in content["methods"] for fold in method["folds"]}
    assert keys == {record["key"] for record in Store(tmp_path).records()}
    again = _succeed(*command)
    assert "12 jobs: 12 done, 0 failed before, 0 to run" in again
    more = _succeed(*command[:5], 3, *command[6:])
    assert "18 jobs: 12 done, 0 failed before, 6 to run, about" in more
    dry = _succeed(*command[:5], 9, *command[6:], "--dry-run")
    assert "54 jobs: 18 done, 0 failed before, 36 to run, about" in dry
    assert len(list(Store(tmp_path).records())) == 18


def test_a_dry_run_leaves_nothing_behind(study: Path, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    assert "6 jobs" in _succeed(
        "benchmark", study, "--methods", "linear,constant", "--repeats", 1, "--dry-run", "--out", folder
    )
    assert not folder.exists()


def test_records_hold_test_subjects_of_the_data_by_index_and_no_unlabelled_one(study: Path, tmp_path: Path) -> None:
    _succeed("benchmark", study, "--methods", "constant", "--repeats", 1, "--jobs", 0, "--out", tmp_path)
    data = BrainGraphs.load(study)
    tested = []
    for record in Store(tmp_path).records():
        assert record["classes"] == list(data.label_names)
        assert record["labels"] == data.labels[record["test"]].tolist()
        tested += record["test"]
    assert sorted(tested) == list(range(4, 60))


def test_the_in_fold_pipeline_is_built_from_options(study: Path, tmp_path: Path) -> None:
    options = ("--harmonize", "--confounds", "height", "--transform", "scale[per_edge=True],signs", "--group", "person")
    output = _succeed(
        "benchmark", study, "--methods", "linear", "--repeats", 1, "--jobs", 1, "--out", tmp_path, *options
    )
    assert "harmonize, confounds, scale, signs" in output
    content = json.loads((tmp_path / "results.json").read_text())
    assert [(step["name"], step["columns"]) for step in content["preparation"]] == [
        ("harmonize", []),
        ("confounds", ["height"]),
        ("scale", []),
        ("signs", []),
    ]
    assert content["methods"][0]["failed"] == 0
    persons = BrainGraphs.load(study).covariates["person"].to_numpy()
    for record in Store(tmp_path).records():
        others = np.setdiff1d(np.arange(4, 60), record["test"])
        assert not set(persons[record["test"]]) & set(persons[others])


def test_time_series_become_correlations_unless_told_otherwise(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    series = [rng.normal(size=(30 + i % 3, 5)) for i in range(24)]
    BrainGraphs(time_series=series, labels=[i % 2 for i in range(24)], name="series").save(tmp_path / "series.npz")
    for kind in ((), ("--connectivity", "tangent")):
        _succeed(
            "benchmark", tmp_path / "series.npz", "--methods", "linear", "--repeats", 1, "--jobs", 0, *kind,
            "--out", tmp_path / "out", "--audit", "node-order",
        )  # fmt: skip
        content = json.loads((tmp_path / "out" / "results.json").read_text())
        expected = kind[1] if kind else "correlation"
        assert content["preparation"][0]["parameters"] == {"kind": expected}
        assert content["methods"][0]["failed"] == 0
        assert content["methods"][0]["audit"]["verdict"] == "no dependence on the node order found"
    features = _call("fit", tmp_path / "series.npz", "--method", "linear", "--out", tmp_path / "model")
    assert features.exit_code == 0, features.output


def test_a_failing_method_is_in_the_table_with_its_reason_and_can_be_left_alone(study: Path, tmp_path: Path) -> None:
    methods = "constant,isocapsnet[kernel_size=9]"
    command = ("benchmark", study, "--methods", methods, "--repeats", 1, "--jobs", 0, "--out", tmp_path)
    output = " ".join(_succeed(*command).split())
    assert "3 of 3 jobs failed: InputError" in output
    frame = pd.read_csv(tmp_path / "results.csv").set_index("method")
    assert frame.failed.to_dict() == {"constant": 0, "isocapsnet[kernel_size=9]": 3}
    assert "kernel_size" in frame.verdict["isocapsnet[kernel_size=9]"]
    assert "3 failed before, 3 to run" in _succeed(*command, "--dry-run")
    assert "3 failed before (not run again), 0 to run" in _succeed(*command, "--no-retry-failed")


def test_compare_merges_runs_of_two_machines(study: Path, tmp_path: Path) -> None:
    for name in ("linear", "constant"):
        _succeed("benchmark", study, "--methods", name, "--repeats", 1, "--jobs", 0, "--out", tmp_path / name)
    output = _succeed("compare", tmp_path / "linear", tmp_path / "constant", "--out", tmp_path / "both")
    assert "study: nested" in output
    frame = pd.read_csv(tmp_path / "both" / "results.csv").set_index("method")
    assert set(frame.index) == {"linear", "constant"}
    assert len(list(Store(tmp_path / "both").records())) == 6
    assert "constant" in _succeed("compare", tmp_path / "both")
    _succeed("compare", tmp_path / "both", tmp_path / "linear", "--out", tmp_path / "both")
    (tmp_path / "linear" / "results.json").write_text("{")
    assert "nested" in _succeed("compare", tmp_path / "linear")
    (tmp_path / "empty").mkdir()
    assert "no records" in _refused("compare", tmp_path / "empty")


def test_compare_copies_no_file_that_a_link_points_to(study: Path, tmp_path: Path) -> None:
    options = ("--methods", "linear", "--repeats", 1, "--jobs", 0, "--save-models")
    _succeed("benchmark", study, *options, "--out", tmp_path / "run")
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "password").write_text("hunter2")
    first, second, *_ = sorted((tmp_path / "run" / "artifacts").iterdir())
    (first / "notes.txt").symlink_to(secret / "password")
    shutil.rmtree(second)
    second.symlink_to(secret)
    record = sorted((tmp_path / "run" / "records").glob("??/*"))[0]
    record.rename(tmp_path / "record")
    record.symlink_to(tmp_path / "record")
    (tmp_path / "run" / "more").symlink_to(secret)
    output = _succeed("compare", tmp_path / "run", "--out", tmp_path / "merged")
    for path in (first, second, record):
        assert path.name in output
    merged = list((tmp_path / "merged").rglob("*"))
    assert not any(path.is_symlink() or path.name == "password" for path in merged)
    assert not any(b"hunter2" in path.read_bytes() for path in merged if path.is_file())
    assert len(list(Store(tmp_path / "merged").records())) == 2


def test_compare_keeps_what_the_merged_folder_holds_and_sets_aside_what_it_cannot_use(
    study: Path, tmp_path: Path
) -> None:
    for name in ("linear", "constant"):
        options = ("--methods", name, "--repeats", 1, "--jobs", 0, "--save-models")
        _succeed("benchmark", study, *options, "--out", tmp_path / name)
    _succeed("compare", tmp_path / "linear", "--out", tmp_path / "merged")
    kept, bad = sorted((tmp_path / "merged" / "records").glob("??/*"))[:2]
    before = kept.stat().st_mtime_ns
    bad.write_text("damage")
    source = tmp_path / "linear" / bad.relative_to(tmp_path / "merged")
    _succeed("compare", tmp_path / "linear", tmp_path / "constant", "--out", tmp_path / "merged")
    assert kept.stat().st_mtime_ns == before
    assert (tmp_path / "merged" / "rejected" / "records" / bad.name).read_text() == "damage"
    assert json.loads(bad.read_text()) == json.loads(source.read_text())
    assert len(list(Store(tmp_path / "merged").records())) == 6
    assert [path.name for path in (tmp_path / "merged" / "data").iterdir()] == [
        path.name for path in (tmp_path / "linear" / "data").iterdir()
    ]
    keys = {path.name for name in ("linear", "constant") for path in (tmp_path / name / "artifacts").iterdir()}
    assert {path.name for path in (tmp_path / "merged" / "artifacts").iterdir()} == keys


def test_sweep_gives_a_row_with_the_learned_template_per_value(study: Path, tmp_path: Path) -> None:
    _succeed(
        "sweep", study, "--method", "isocapsnet[max_epochs=2]", "--param", "kernel_size=3,4", "--protocol", "paper",
        "--jobs", 0, "--out", tmp_path,
    )  # fmt: skip
    frame = pd.read_csv(tmp_path / "sweep.csv")
    assert frame.kernel_size.tolist() == [3, 4]
    assert [np.shape(json.loads(template)) for template in frame.template] == [(3, 3), (4, 4)]
    assert frame[["accuracy", "weighted_f1", "seconds"]].notna().all(axis=None)
    assert "write NAME=VALUE" in _refused("sweep", study, "--param", "kernel_size", "--out", tmp_path)


def test_fit_predict_and_transform_hand_a_model_from_one_to_the_next(study: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.safetensors"
    _succeed("fit", study, "--method", "isocapsnet[kernel_size=3,max_epochs=2]", "--use-unlabeled", "--out", model)
    _succeed("predict", model, study, "--out", tmp_path / "predictions.csv")
    frame = pd.read_csv(tmp_path / "predictions.csv")
    assert list(frame) == ["subject", "prediction", "p_case", "p_control"]
    assert len(frame) == 60
    assert np.allclose(frame.p_case + frame.p_control, 1)
    assert ((frame.p_case > 0.5) == (frame.prediction == "case")).all()
    _succeed("transform", model, study, "--out", tmp_path / "features.csv")
    features = pd.read_csv(tmp_path / "features.csv")
    assert features.subject.tolist() == frame.subject.tolist()
    assert features.shape[0] == 60
    assert features.shape[1] > 2
    _succeed("fit", study, "--method", "constant", "--out", model)
    assert "learns no representation" in _refused("transform", model, study, "--out", tmp_path / "x.csv")
    assert "--use-unlabeled" in _refused("fit", study, "--method", "constant", "--use-unlabeled", "--out", model)


def test_unlabelled_graphs_are_for_the_methods_that_can_use_them_and_the_table_says_so(
    study: Path, tmp_path: Path
) -> None:
    methods = "isocapsnet[kernel_size=3,max_epochs=2],constant"
    output = _succeed(
        "benchmark",
        study,
        "--methods",
        methods,
        "--use-unlabeled",
        "--protocol",
        "paper",
        "--jobs",
        0,
        "--out",
        tmp_path,
    )
    assert "+ unlabelled graphs took part in training" in " ".join(output.split())
    content = json.loads((tmp_path / "results.json").read_text())
    assert [method["use_unlabeled"] for method in content["methods"]] == [True, False]
    assert [method["failed"] for method in content["methods"]] == [0, 0]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--methods", "lasso"), "'lasso'; choose from isocapsnet"),
        (("--methods", "linear[depth=3]"), "linear has no parameter 'depth'; it has C"),
        (("--methods", "linear,linear"), "linear is given twice"),
        (("--methods", "linear["), "cannot be read; write NAME"),
        (("--transform", "magic"), "There is no transform 'magic'"),
        (("--connectivity", "precision"), "--connectivity precision does not apply"),
        (
            ("--confounds", "income"),
            "'income' to regress out; the data have height, person, family_or_gap",
        ),
        (("--group", "family"), "no covariate 'family'"),
        (("--protocol", "bootstrap"), "nested"),
        (("--protocol", "leave-site-out", "--repeats", "3"), "--repeats 3: the dataset's sites"),
        (("--folds", "100"), "fewer than the 100 folds"),
        (("--cluster", "slurm:4"), "write local:N"),
        (("--timeout", "5", "--jobs", "0"), "worker processes"),
        (("--memory-limit", "much"), "write 500MB or 4GB"),
        (
            ("--protocol", "leave-site-out", "--folds", "5"),
            "--folds 5 does not apply: leave-site-out uses the dataset's sites",
        ),
        (
            ("--protocol", "paper", "--candidates", "4"),
            "--candidates 4 does not apply: paper",
        ),
        (("--jobs", "2", "--cluster", "local:2"), "--jobs and --cluster exclude each other"),
        (("--scheduler", "tcp://x:1", "--cluster", "local:2"), "--scheduler and --cluster exclude each other"),
        (("--group", "family_or_gap"), "(first: 5); fill the gaps"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_sentence(
    study: Path, tmp_path: Path, options: Any, sentence: str
) -> None:
    output = " ".join(_refused("benchmark", study, "--methods", "linear", "--out", tmp_path, *options).split())
    assert sentence in output
    assert "Traceback" not in output


def test_data_that_an_option_needs_are_asked_for(study: Path, tmp_path: Path) -> None:
    data = BrainGraphs.load(study)
    labelled = data.subset(data.is_labelled)
    labelled.save(tmp_path / "labelled.npz")
    labelled.replace(labels=None, label_names=None).save(tmp_path / "unlabelled.npz")
    labelled.replace(sites=["", *labelled.sites[1:]]).save(tmp_path / "gap.npz")
    out = ("--methods", "constant", "--out", tmp_path / "out")
    assert "--use-unlabeled" in _refused("benchmark", tmp_path / "labelled.npz", "--use-unlabeled", *out)
    assert "classes with --target" in _refused("benchmark", tmp_path / "unlabelled.npz", *out)
    assert "no value in the column of sites" in _refused(
        "benchmark", tmp_path / "gap.npz", "--protocol", "leave-site-out", *out
    )
    model = ("--method", "isocapsnet", "--out", tmp_path / "model")
    assert "Every graph" in _refused("fit", tmp_path / "labelled.npz", "--use-unlabeled", *model)
    assert "with --target" in _refused("fit", tmp_path / "unlabelled.npz", *model)


def test_one_method_is_one_method_and_a_file_has_a_folder(study: Path, tmp_path: Path) -> None:
    model, lost = tmp_path / "model", tmp_path / "nowhere" / "file"
    assert "names 2 methods" in _refused("fit", study, "--method", "linear,constant", "--out", model)
    assert "no method 'all'" in _refused("fit", study, "--method", "all", "--out", model)
    assert "names 2 methods" in _refused("sweep", study, "--method", "linear,gcn", "--param", "C=1", "--out", tmp_path)
    assert "--seed" in _refused("fit", study, "--method", "linear", "--seed", -1, "--out", model)
    assert "There is no folder" in _refused("fit", study, "--method", "linear", "--out", lost)
    _succeed("fit", study, "--method", "constant", "--out", model)
    assert "There is no folder" in _refused("predict", model, study, "--out", lost)
    assert "There is no folder" in _refused("transform", model, study, "--out", lost)


def test_a_folder_that_cannot_be_written_and_a_full_disk_are_said_in_a_sentence(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    command = ("benchmark", study, "--methods", "constant", "--repeats", 1, "--jobs", 0, "--no-save-models", "--out")
    assert "cannot be read or written: Not a directory." in _refused(*command, tmp_path / "file" / "out")

    write, written = Path.write_bytes, []

    def fill(path: Path, content: bytes) -> int:
        written.append(path)
        if len(written) > 3:  # run.toml and two records
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", fill)
        output = _refused(*command, tmp_path / "out")
    [line] = [line for line in output.splitlines() if "No space left on device" in line]
    assert written[-1].name[1:65] in line
    assert "3 jobs: 2 done, 0 failed before, 1 to run" in _succeed(*command, tmp_path / "out")
    assert list((tmp_path / "out" / "partial").iterdir()) == []


def test_a_narrow_terminal_shows_whole_numbers_and_whole_verdicts(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _succeed("benchmark", study, "--methods", "linear,constant", "--repeats", 1, "--jobs", 0, "--out", tmp_path)
    monkeypatch.setattr(_display, "make_console", lambda: Console(width=80))
    output = _succeed("compare", tmp_path)
    assert max(map(len, output.splitlines())) <= 80
    assert "…" not in output
    assert "constant: not distinguishable from chance" in output


def test_a_run_that_can_show_nothing_says_so_beforehand(tmp_path: Path) -> None:
    planted = make_planted_graphs(6, 6, random_state=0)
    BrainGraphs(planted.graphs, [0, 1] * 3, name="six").save(tmp_path / "six.npz")
    output = _succeed(
        "benchmark", tmp_path / "six.npz", "--methods", "constant", "--repeats", 1, "--jobs", 0, "--out", tmp_path
    )
    assert "perfect ROC AUC" in output
    assert "and a difference" not in output
    assert "80 % power needs about" in output


def test_unknown_data_are_refused(tmp_path: Path) -> None:
    assert "no-such-data" in _refused("benchmark", "no-such-data", "--methods", "constant", "--out", tmp_path)


def test_methods_and_transforms_are_read_as_written() -> None:
    assert split_names("a, b[x=1,sizes=(64, 32),mode=log],c-d[y=None]") == [
        ("a", {}),
        ("b", {"x": 1, "sizes": (64, 32), "mode": "log"}),
        ("c-d", {"y": None}),
    ]
    assert split_values("1,(64,32),log") == ["1", "(64,32)", "log"]
    [tuned] = list_methods("isocapsnet[kernel_size=3]", device="cpu")
    assert tuned.label == "isocapsnet[kernel_size=3]"
    assert tuned.runtime == {"device": "cpu"}
    assert "kernel_size" not in tuned.space
    assert tuned.space
    placed = list_steps(
        connectivity="tangent", transform="log,harmonize", harmonize=True, confounds=["age"], has_series=False
    )
    assert [step.name for step in placed] == ["tangent", "confounds", "log", "harmonize"]


def test_help_of_every_command_is_quick_to_import_and_shows_examples() -> None:
    for command in ("benchmark", "compare", "sweep", "fit", "predict", "transform"):
        assert "Example" in _succeed(command, "--help")
    code = (
        "import sys, isocapsnet.cli.benchmark, isocapsnet.cli.models;"
        "print([name for name in ('torch', 'sklearn', 'scipy', 'pandas', 'numba') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_ctrl_c_says_how_to_go_on(study: Path, tmp_path: Path) -> None:
    start = [sys.executable, "-c", "from isocapsnet.cli import main; main()"]
    options = ["--methods", "constant,isocapsnet", "--repeats", "5", "--jobs", "1", "--out", str(tmp_path)]
    command = [*start, "benchmark", str(study), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ)
    assert process.stdout is not None
    for line in process.stdout:
        if "/30 jobs" in line:
            break
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "run the same command again" in rest
    assert "Traceback" not in rest
    assert list(Store(tmp_path).records())
