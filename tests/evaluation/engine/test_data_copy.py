"""The copy of the data that workers read is held against what the jobs were planned for, by every process."""

import os
import shutil
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmark_toys import FlipsAByte, Prior, flip_byte, toy_method
from click.testing import CliRunner, Result

from isocapsnet._planning import publish
from isocapsnet._reporting import read_content
from isocapsnet._results_folders import DataCopies
from isocapsnet._validation import InputError
from isocapsnet.cli import main
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.evaluation import InProcessExecutor, Limits, Plan, Samples, Store, local_executor, run
from isocapsnet.evaluation.engine.worker import Worker


def make_data(seed: int = 0, n_graphs: int = 40) -> BrainGraphs:
    """More than a megabyte, so that the array is mapped and not read with a checksum."""
    noise = np.random.default_rng(seed).normal(size=(n_graphs, 90, 90)).astype(np.float32)
    labels = np.array(["control", "case"])[np.arange(n_graphs) % 2]
    noise[labels == "case", 3, 4] += 1
    covariates = pd.DataFrame({"person": [f"p{i // 2}" for i in range(n_graphs)]})
    return BrainGraphs(noise + noise.swapaxes(1, 2), labels, covariates=covariates, name="study")


def make_plan(folder: Path, cls: type = Prior, **options: Any) -> tuple[Plan, Path]:
    source = publish(Samples(make_data()), folder)
    return Plan(source, (toy_method("constant", cls, **options),), repeats=1), Path(source.file or "")


def call(*arguments: Any) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.mark.parametrize("where", ["here", "worker"])
def test_data_that_change_between_planning_and_running_are_refused(where: str, tmp_path: Path) -> None:
    plan, path = make_plan(tmp_path)
    tasks = plan.tasks(tmp_path)
    flip_byte(path)
    executor: AbstractContextManager[Any] = nullcontext(InProcessExecutor()) if where == "here" else local_executor(1)
    with executor as chosen, pytest.raises(InputError, match=path.name):
        run(tasks, Store(tmp_path), chosen)
    assert list(Store(tmp_path).records()) == []


def test_a_job_fails_with_a_sentence_where_the_planner_did_not_see_the_change(tmp_path: Path) -> None:
    plan, path = make_plan(tmp_path)
    tasks = plan.tasks(tmp_path)
    status = path.stat()
    flip_byte(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with local_executor(1) as executor:
        run(tasks, Store(tmp_path), executor)
    assert list(Store(tmp_path).records()) == []
    reasons = {error["reason"] for error in Store(tmp_path).errors()}
    assert len(reasons) == 1
    assert path.name in reasons.pop()


def test_a_worker_that_has_read_the_data_notices_a_change(tmp_path: Path) -> None:
    plan, path = make_plan(tmp_path)
    first, second, _ = (task.to_json() for task in plan.tasks(tmp_path))
    worker = Worker()
    assert "record" in worker.run(first, Limits())
    flip_byte(path)
    answer = worker.run(second, Limits())
    worker.close()
    assert path.name in answer["error"]["reason"]


def test_a_change_while_a_method_is_fitted_is_noticed(tmp_path: Path) -> None:
    _, path = make_plan(tmp_path)
    plan, _ = make_plan(tmp_path, FlipsAByte, parameters={"path": str(path)})
    worker = Worker()
    answer = worker.run(plan.tasks(tmp_path)[0].to_json(), Limits())
    worker.close()
    assert path.name in answer["error"]["reason"]


def test_a_resume_writes_a_damaged_copy_anew_and_ends_with_the_same_numbers(tmp_path: Path) -> None:
    make_data().save(tmp_path / "study.npz")
    command = ("benchmark", tmp_path / "study.npz", "--methods", "linear,constant", "--candidates", 1, "--jobs", 0)
    whole, resumed = (tmp_path / name for name in ("whole", "resumed"))
    assert call(*command, "--repeats", 2, "--out", whole).exit_code == 0
    assert call(*command, "--repeats", 1, "--out", resumed).exit_code == 0
    [copy] = (resumed / "data").iterdir()
    before = copy.read_bytes()
    for damage in (flip_byte, lambda path: path.write_bytes(before[:5000]), lambda path: path.write_bytes(b"")):
        damage(copy)
        result = call(*command, "--repeats", 2, "--out", resumed)
        assert result.exit_code == 0, result.output
        assert copy.name in result.output
        assert copy.read_bytes() == before
    frames = [pd.read_csv(out / "results.csv").drop(columns="seconds") for out in (whole, resumed)]
    assert frames[0].equals(frames[1])


@pytest.mark.parametrize("kind", ["other data", "a folder", "a link"])
def test_a_file_with_the_right_name_is_not_trusted(kind: str, tmp_path: Path) -> None:
    folder, data = tmp_path / "out", make_data()
    path = folder / "data" / f"{data.digest().removeprefix('sha256:')[:16]}.npz"
    path.parent.mkdir(parents=True)
    elsewhere = tmp_path / "other.npz"
    make_data(seed=1).save(elsewhere)
    if kind == "other data":
        shutil.copyfile(elsewhere, path)
    elif kind == "a folder":
        path.mkdir()
    else:
        path.symlink_to(elsewhere)
    with pytest.warns(UserWarning, match=path.name):
        source = publish(Samples(data), folder)
    assert source.load().data is data  # not read back
    assert BrainGraphs.load(path).digest() == data.digest()
    assert not path.is_symlink()
    assert BrainGraphs.load(elsewhere).digest() == make_data(seed=1).digest()


def test_an_intact_copy_is_kept(tmp_path: Path) -> None:
    plan, path = make_plan(tmp_path)
    before = path.stat()
    make_plan(tmp_path)
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert plan.source.load() is plan.source.load()


def test_a_report_takes_names_from_no_other_data(tmp_path: Path) -> None:
    plan, path = make_plan(tmp_path)
    run(plan.tasks(tmp_path), Store(tmp_path), InProcessExecutor())
    path.unlink()
    other = make_data(seed=1)
    other.save(path)
    content = read_content(tmp_path)
    assert content.name != "study"
    assert any("no copy of the data" in note for note in content.notes)


def test_copies_are_found_by_the_digest_of_what_they_hold_with_its_groups(tmp_path: Path) -> None:
    plan, _ = make_plan(tmp_path)
    data = make_data()
    copies = DataCopies(tmp_path)
    by_person = Samples(data, "person")
    whole, grouped, nothing = map(copies.find, (data.digest(), by_person.digest, "x"))
    assert whole is not None and whole.group is None
    assert grouped is not None and grouped.groups is not None
    assert grouped.groups.tolist() == by_person.subjects.tolist()
    assert nothing is None
    task = plan.tasks(tmp_path)[0]
    run([task], Store(tmp_path), InProcessExecutor())
    [record] = Store(tmp_path).records()
    copies.check(record)
    with pytest.raises(ValueError, match="labels"):
        copies.check(record | {"labels": [1 - label for label in record["labels"]]})
    with pytest.raises(ValueError, match="classes"):
        copies.check(record | {"classes": ["a", "b"]})
