"""Damaged, edited and foreign files in a results folder: set aside, named, computed again; never a wrong number."""

import json
import os
import shutil
import stat
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmark_toys import Logistic, Prior, make_samples, toy_method, toy_record, toy_source
from click.testing import CliRunner, Result
from damage import FEW, KINDS

from isocapsnet._reporting import read_content
from isocapsnet._results_folders import DataCopies, collect
from isocapsnet.cli import main
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.synthetic import make_planted_graphs
from isocapsnet.evaluation import InProcessExecutor, Job, Plan, Protocol, Store, run
from isocapsnet.evaluation import records as records_module
from isocapsnet.evaluation.jobs import describe_fold
from isocapsnet.evaluation.records import seal
from isocapsnet.evaluation.store import BATCH_SIZE, batch_key
from isocapsnet.report import answer, prose


def _call(*arguments: Any) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result


def _benchmark(study: Path, out: Path, *options: Any) -> Result:
    fixed = ("--methods", "linear,constant", "--repeats", 2, "--candidates", 1, "--no-save-models", "--jobs", 0)
    return _call("benchmark", study, *fixed, "--out", out, *options)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    planted = make_planted_graphs(40, 6, signal_to_noise=2.0, random_state=0)
    labels = np.array(["control", "case"])[planted.labels]
    path = tmp_path_factory.mktemp("study") / "study.npz"
    BrainGraphs(planted.graphs, labels, name="study").save(path)
    return path


@pytest.fixture(scope="module")
def pristine(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results folder of an undisturbed run."""
    folder = tmp_path_factory.mktemp("pristine") / "out"
    assert _benchmark(study, folder).exit_code == 0
    return folder


def _numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """A table without times, in the order of its methods."""
    return frame.drop(columns="seconds").sort_values("method").reset_index(drop=True)


def _first_record(folder: Path) -> Path:
    """The record of linear's first fold."""
    for path in sorted(folder.glob("records/??/*")):
        job = json.loads(path.read_bytes())["job"]
        if (job["method"], job["repeat"], job["fold"]) == ("linear", 0, 0):
            return path
    raise AssertionError


def _state(path: Path) -> Any:
    """What stands at a path, without following links."""
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return path.readlink()
    if stat.S_ISDIR(mode):
        return sorted(child.name for child in path.iterdir())
    return path.read_bytes() if stat.S_ISREG(mode) and path.stat().st_size < 1 << 30 else stat.S_IFMT(mode)


def _outcome(kind: str, study: Path, pristine: Path, folder: Path, *, with_data: bool = True) -> str:
    """Damage one record, compare, read for a report, resume: "recovered", or what went wrong."""
    shutil.copytree(pristine, folder)
    path = _first_record(folder)
    whole = {record["key"]: record for record in Store(pristine).records()}
    KINDS[kind](path)
    damaged = _state(path)
    if not with_data:
        shutil.rmtree(folder / "data")

    compared = _call("compare", folder)
    if compared.exit_code != 0 or path.name not in compared.output:
        return f"compare: exit {compared.exit_code}"
    found = collect([folder], DataCopies(folder).check)
    kept = {record["key"]: record for items in found.records.values() for record in items}
    if any(whole[key] != record for key, record in kept.items()) or len(kept) not in (10, 11):
        return f"wrong: compare uses a changed record, or {len(kept)} of 11"
    content = read_content(folder)
    if {key for method in content.methods for key in method.row.keys.values()} != kept.keys():
        return "wrong: report has other folds than compare"
    if (folder / "rejected").exists() or _state(path) != damaged:
        return "compare or report changed the folder"

    resumed = _benchmark(study, folder)
    if resumed.exit_code != 0 or path.name not in resumed.output:
        return f"lost: the run does not resume ({resumed.output[-300:]})"
    again = {record["key"]: record for record in Store(folder).records()}
    for record in [*again.values(), *whole.values()]:
        record |= {"seconds": None, "peak_memory": None}
    if again != whole:
        return f"lost: {len(whole.keys() - again.keys())} records"
    frames = [pd.read_csv(out / "results.csv") for out in (pristine, folder)]
    if not _numbers(frames[0]).equals(_numbers(frames[1])):
        return "wrong: results.csv"
    if _state(folder / "rejected" / "records" / path.name) != damaged:
        return "lost: what was set aside is not what was there"
    return "recovered"


@pytest.mark.parametrize("kind", FEW)
def test_a_damaged_record_is_named_set_aside_and_computed_again(
    kind: str, study: Path, pristine: Path, tmp_path: Path
) -> None:
    assert _outcome(kind, study, pristine, tmp_path / "out") == "recovered"


@pytest.mark.slow
@pytest.mark.parametrize("with_data", [True, False], ids=["with the data", "without the data"])
def test_sixty_and_more_kinds_of_damage_lose_nothing_and_change_no_number(
    study: Path, pristine: Path, tmp_path: Path, with_data: bool
) -> None:
    outcomes = {
        kind: _outcome(kind, study, pristine, tmp_path / str(number), with_data=with_data)
        for number, kind in enumerate(KINDS)
    }
    print("\n" + "\n".join(f"{kind:<32} {outcome}" for kind, outcome in outcomes.items()))
    print(Counter(outcomes.values()))
    assert len(outcomes) >= 60
    assert set(outcomes.values()) == {"recovered"}


def test_what_is_set_aside_is_numbered_and_never_overwritten(study: Path, pristine: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(pristine, tmp_path / "out"))
    path = _first_record(folder)
    for number in range(3):
        path.write_text(f"damage {number}")
        assert _benchmark(study, folder).exit_code == 0
    names = [path.name, f"{path.name}.2", f"{path.name}.3"]
    assert [(folder / "rejected" / "records" / name).read_text() for name in names] == [
        "damage 0",
        "damage 1",
        "damage 2",
    ]


def test_many_damaged_files_are_a_few_sentences(study: Path, pristine: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(pristine, tmp_path / "out"))
    for path in folder.glob("records/??/*"):
        path.write_text("")
    assert _call("compare", folder).exit_code == 2
    output = _benchmark(study, folder).output
    assert output.count("is empty") == 5
    assert "7 more files" in output


def test_a_dry_run_names_damage_and_moves_nothing(study: Path, pristine: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(pristine, tmp_path / "out"))
    path = _first_record(folder)
    path.write_text("")
    output = _benchmark(study, folder, "--dry-run").output
    assert path.name in output
    assert "11 done" in output
    assert path.exists() and not (folder / "rejected").exists()


def test_files_that_belong_to_no_job_are_passed_over(study: Path, pristine: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(pristine, tmp_path / "out"))
    for kind in ("records", "errors"):
        (folder / kind / "zz").mkdir(parents=True)
        (folder / kind / "zz" / "notes.txt").write_text("mine")
        Path(os.fsdecode(bytes(folder / kind / "zz") + b"/\x1b[31m\xff")).write_text("red")
    compared = _call("compare", folder)
    assert compared.exit_code == 0
    assert compared.output.count("notes.txt") == 2
    assert "\x1b" not in compared.output and "?[31m?" in compared.output
    assert _benchmark(study, folder).exit_code == 0
    assert (folder / "records" / "zz" / "notes.txt").read_text() == "mine"


def test_the_schema_of_a_job_is_that_of_the_class() -> None:
    assert list(records_module._JOB) == [field.name for field in fields(Job)]


def test_a_record_of_other_splits_is_computed_again(tmp_path: Path) -> None:
    """As another version of the splitter would have left it: whole, but of other folds."""
    plan = Plan(toy_source(), (toy_method("constant", Prior),), repeats=1)
    store, [first, *_] = Store(tmp_path), plan.tasks(tmp_path)
    record = toy_record(first.job)
    record["test"] = record["test"][::-1]
    record["labels"] = record["labels"][::-1]
    store.save(first.job, record)
    with pytest.warns(UserWarning, match=first.job.key):
        run(plan.tasks(tmp_path), store, InProcessExecutor())
    expected = describe_fold(make_samples(), first.job)
    loaded = Store(tmp_path).load(first.job)
    assert loaded is not None and loaded["test"] == expected["test"]


def test_what_a_job_returns_is_checked_before_it_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(toy_source(), (toy_method("constant", Prior),), repeats=1)
    monkeypatch.setattr(
        "isocapsnet.evaluation.engine.child.run_job",
        lambda task: {**toy_record(task.job), "probabilities": [[2.0, -1.0]]},
    )
    outcomes: list[Any] = []
    run(plan.tasks(tmp_path), Store(tmp_path), InProcessExecutor(), on_outcome=outcomes.append)
    assert all("InvalidRecord" in outcome.error and "probabilities" in outcome.error for outcome in outcomes)
    assert list(Store(tmp_path).records()) == []


# -- batches ------------------------------------------------------------------------------------------------------


def _batch(folder: Path) -> tuple[list[Job], Path]:
    """The jobs of a whole batch that was stored, and its file."""
    plan = Plan(toy_source(), (toy_method("constant", Prior),), Protocol(n_folds=2), repeats=1, permutations=BATCH_SIZE)
    jobs = [task.job for task in plan.tasks(folder) if task.job.permutation and task.job.fold == 0]
    store = Store(folder)
    for job in jobs:
        store.save(job, toy_record(job, job.permutation / 1000))
    [path] = folder.glob("records/??/*")
    return jobs, path


@pytest.mark.parametrize("change", [{"labels": None}, {"n_train": 0}, {"key": "0"}, None])
def test_one_bad_record_of_a_batch_does_not_lose_the_others(tmp_path: Path, change: dict[str, Any] | None) -> None:
    jobs, path = _batch(tmp_path)
    content = json.loads(path.read_bytes())
    bad = content["batch"][5]
    del bad["sha256"]
    content["batch"][5] = None if change is None else seal(bad | change)
    path.write_text(json.dumps(content))
    damaged = path.read_bytes()

    store = Store(tmp_path)
    assert len(list(store.records())) == BATCH_SIZE - 1
    assert len(store.describe_rejected()) == 1
    store = Store(tmp_path)
    assert [job.permutation for job in jobs if store.load(job) is None] == [6]
    with pytest.warns(UserWarning, match=path.name):
        store.set_aside_rejected()
    assert (tmp_path / "rejected" / "records" / path.name).read_bytes() == damaged
    store.save(jobs[5], toy_record(jobs[5], 0.006))
    fresh = Store(tmp_path)
    assert [fresh.load(job)["probabilities"][0][0] for job in jobs] == [job.permutation / 1000 for job in jobs]
    assert fresh.rejected == {}


def test_a_crash_while_a_batch_is_mended_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, path = _batch(tmp_path)
    content = json.loads(path.read_bytes())
    content["batch"][5] = {}
    path.write_text(json.dumps(content))
    store = Store(tmp_path)
    assert store.load(jobs[5]) is None
    monkeypatch.setattr(Store, "_write_batch", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        store.set_aside_rejected()
    assert len(list(Store(tmp_path).records())) == BATCH_SIZE - 1


def test_a_whole_batch_that_cannot_be_read_is_computed_again(tmp_path: Path) -> None:
    jobs, path = _batch(tmp_path)
    path.write_text('{"key": 3, "batch": 3}')
    store = Store(tmp_path)
    assert all(store.load(job) is None for job in jobs)
    with pytest.warns(UserWarning, match=path.name):
        store.set_aside_rejected()
    assert not path.exists()
    for job in jobs:
        store.save(job, toy_record(job))
    assert len(list(Store(tmp_path).records())) == BATCH_SIZE


def test_a_record_in_the_batch_of_another_hundred_is_not_used(tmp_path: Path) -> None:
    jobs, path = _batch(tmp_path)
    other = path.with_name(f"{batch_key(jobs[0]).replace('a', 'b')}.json")
    shutil.copyfile(path, other)
    path.unlink()
    assert list(Store(tmp_path).records()) == []


# -- errors, artifacts, results.json ------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["", "[]", '{"key": "x"}', '{"reason": ["deep"]}', "[" * 10_000])
def test_a_damaged_error_file_is_set_aside_and_the_job_tried_again(
    study: Path, pristine: Path, tmp_path: Path, damage: str
) -> None:
    folder = Path(shutil.copytree(pristine, tmp_path / "out"))
    path = _first_record(folder)
    path.unlink()
    error = folder / "errors" / path.name[:2] / path.name
    error.parent.mkdir(parents=True)
    error.write_text(damage)
    assert _call("compare", folder).exit_code == 0
    resumed = _benchmark(study, folder, "--no-retry-failed")
    assert resumed.exit_code == 0, resumed.output
    assert not error.exists()
    assert (folder / "rejected" / "errors" / path.name).read_text() == damage
    assert len(list(Store(folder).records())) == 12


ARTIFACTS: dict[str, tuple[str, Any]] = {
    "history cut": ("history.json", lambda path: path.write_bytes(path.read_bytes()[:10])),
    "templates cut": ("templates.npz", lambda path: path.write_bytes(path.read_bytes()[:100])),
    "templates flipped": ("templates.npz", lambda path: _flip_byte(path, -150)),
    "templates empty": ("templates.npz", lambda path: path.write_bytes(b"")),
    "a folder": ("templates.npz", lambda path: (path.unlink(), path.mkdir())),
    "a link": (
        "templates.npz",
        lambda path: (path.rename(path.parents[3] / "t"), path.symlink_to(path.parents[3] / "t")),
    ),
}


def _flip_byte(path: Path, index: int) -> None:
    content = bytearray(path.read_bytes())
    content[index] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("kind", ARTIFACTS)
def test_damaged_artifacts_are_set_aside_and_written_again(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    plan = Plan(toy_source(), (toy_method("linear", Logistic),), repeats=1)
    run(plan.tasks(folder), Store(folder), InProcessExecutor())
    job = plan.tasks(folder)[0].job
    name, damage = ARTIFACTS[kind]
    path = folder / "artifacts" / job.key / name
    whole = path.read_bytes()
    damage(path)
    damaged = _state(path)
    outcomes: list[Any] = []
    with pytest.warns(UserWarning, match=name):
        run(plan.tasks(folder), Store(folder), InProcessExecutor(), on_outcome=outcomes.append)
    assert [outcome.job.key for outcome in outcomes] == [job.key]
    assert path.read_bytes() == whole
    assert _state(folder / "rejected" / "artifacts" / job.key / name) == damaged


CONTEXTS: dict[str, Any] = {
    "protocol of a list": {"protocol": [3]},
    "folds of text": {"protocol": {"name": "nested", "n_folds": "many"}},
    "power of text": {"detectable": {"n_scores": "x", "above_chance": "y", "between_methods": []}},
    "a step without a name": {"preparation": [{}]},
    "versions of lists": {"versions": {"numpy": [1]}},
    "a billion nodes": {"passport": {"name": "n", "digest": "d", "n_nodes": 10**9}},
    "passport of text": {"passport": "study"},
    "counts of text": {"passport": {"name": "n", "digest": "d", "classes": {"a": "b"}}},
    "command of a list": {"command": ["rm"]},
    "data of text": {"data": "here"},
}


@pytest.mark.parametrize("kind", CONTEXTS)
@pytest.mark.parametrize("with_data", [True, False])
def test_an_edited_results_json_is_noted_and_the_records_speak(
    kind: str, with_data: bool, pristine: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(pristine, tmp_path / "out"))
    path = folder / "results.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | CONTEXTS[kind]))
    if not with_data:
        shutil.rmtree(folder / "data")
    content = read_content(folder)
    assert any("results.json is damaged" in note for note in content.notes)
    assert [len(method.fits) for method in content.methods] == [6, 6]
    assert all(map(str, (prose.question(content), answer.answer(content), prose.methods_text(content))))
    assert _call("compare", folder).exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", CONTEXTS)
def test_an_edited_results_json_still_gives_a_page(kind: str, pristine: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(pristine, tmp_path / "out", ignore=shutil.ignore_patterns("data")))
    path = folder / "results.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | CONTEXTS[kind]))
    result = _call("report", folder, "--out", tmp_path / "report.html")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("damage", [b"", b"\xff", b"[" * 10**6, b"NaN", None])
def test_a_results_json_that_is_none_is_noted(damage: bytes | None, pristine: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(pristine, tmp_path / "out"))
    path = folder / "results.json"
    path.unlink()
    path.mkdir() if damage is None else path.write_bytes(damage)
    assert any("results.json is damaged" in note for note in read_content(folder).notes)
    assert _call("compare", folder).exit_code == 0
