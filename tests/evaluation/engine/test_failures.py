"""What a job did is what its error says: no guess, nothing too long, nothing that cannot be written."""

import json
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_toys import (
    Exits,
    FillsTheDisk,
    Interrupts,
    Logistic,
    Prior,
    Raises,
    RaisesAtLength,
    RaisesHalfACharacter,
    RaisesUnspeakable,
    Suicidal,
    toy_method,
    toy_source,
)

from isocapsnet.evaluation import InProcessExecutor, Limits, Plan, Store, local_executor, run
from isocapsnet.evaluation.engine.worker import Worker
from isocapsnet.evaluation.failures import cut, describe_failure
from isocapsnet.evaluation.records import check_error, seal

METHODS = {
    "interrupts": (Interrupts, "KeyboardInterrupt: from inside the method"),
    "exits": (Exits, "ProcessDied: the process ended with exit code 7"),
    "unspeakable": (RaisesUnspeakable, "UnspeakableError: (it has no message: asking for it raised RuntimeError)"),
    "long": (RaisesAtLength, "ValueError: long long"),
    "half a character": (RaisesHalfACharacter, "ValueError: ?"),
    "killed": (Suicidal, "ProcessDied: the process was killed by SIGKILL"),
    "raises": (Raises, "RuntimeError: this method always fails"),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What one worker answered to each method in turn, and to an honest one at the end."""
    folder, worker = tmp_path_factory.mktemp("failures"), Worker()
    methods = tuple(toy_method(name, cls) for name, (cls, _) in METHODS.items())
    plan = Plan(toy_source(), (*methods, toy_method("honest", Prior)), repeats=1)
    tasks = {task.job.method: task for task in plan.tasks(folder)}
    found = {name: worker.run(task.to_json(), Limits()) for name, task in tasks.items()}
    worker.close()
    return found


@pytest.mark.parametrize("name", METHODS)
def test_an_error_says_what_happened(name: str, answers: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    error = answers[name]["error"]
    assert error["reason"].startswith(METHODS[name][1])
    assert len(json.dumps(error)) < 100_000
    plan = Plan(toy_source(), (toy_method(name, METHODS[name][0]),), repeats=1)
    job = plan.tasks(tmp_path)[0].job
    Store(tmp_path).save_error(job, error)
    loaded = Store(tmp_path).load_error(job)
    assert loaded is not None and loaded["reason"] == error["reason"]


def test_the_traceback_names_the_line_that_failed(answers: dict[str, dict[str, Any]]) -> None:
    for name in ("interrupts", "unspeakable", "long", "raises"):
        assert "benchmark_toys.py" in answers[name]["error"]["traceback"], name


def test_a_worker_goes_on_after_all_of_them(answers: dict[str, dict[str, Any]]) -> None:
    assert "record" in answers["honest"]


def test_an_interrupt_of_whoever_runs_jobs_in_this_process_stops_the_run(tmp_path: Path) -> None:
    plan = Plan(toy_source(), (toy_method("interrupts", Interrupts),), repeats=1)
    with pytest.raises(KeyboardInterrupt):
        run(plan.tasks(tmp_path), Store(tmp_path), InProcessExecutor())


def test_exceptions_that_resist_are_described() -> None:
    class ResistsError(Exception):
        @property
        def __traceback__(self) -> Any:
            raise MemoryError

        def __str__(self) -> str:
            raise SystemExit

    found = describe_failure(ResistsError())
    assert found["reason"].startswith("ResistsError: (it has no message")
    job = Plan(toy_source(), (toy_method("constant", Prior),), repeats=1).tasks(Path())[0].job
    check_error(json.loads(json.dumps(seal({"key": job.key, "job": job.to_json(), **found}))))
    assert describe_failure(ValueError())["reason"] == "ValueError"
    assert cut("a" * 100, 10) == "aaaaa [... 90 characters ...] aaaaa"


@pytest.mark.parametrize("where", ["here", "worker"])
def test_a_full_disk_stops_the_run_with_the_file_and_is_no_error_of_the_method(where: str, tmp_path: Path) -> None:
    plan = Plan(toy_source(), (toy_method("constant", Prior), toy_method("fills", FillsTheDisk)), repeats=1)
    with pytest.raises(OSError, match="/scratch/best-epoch") as raised:
        if where == "here":
            run(plan.tasks(tmp_path), Store(tmp_path), InProcessExecutor())
        else:
            with local_executor(1) as executor:
                run(plan.tasks(tmp_path), Store(tmp_path), executor)
    assert raised.value.strerror == "No space left on device"
    assert list(Store(tmp_path).errors()) == []
    assert threading.active_count() < 20


@pytest.mark.parametrize("part", ["history", "templates", "explanation", "model"])
def test_a_disk_that_is_full_while_artifacts_are_written_stops_the_run(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*((np, "savez", fail) if part == "templates" else (Path, "write_bytes", fail)))
    hooks = {
        "explanation": {"explain": "benchmark_toys:explain"},
        "model": {"save_model": "benchmark_toys:write_model"},
    }
    method = toy_method("linear", Prior if part in hooks else Logistic)
    plan = Plan(toy_source(), (method,), repeats=1, **hooks.get(part, {}))
    task = plan.tasks(tmp_path)[0]
    with pytest.raises(OSError, match=task.job.key) as raised:
        run([task], Store(tmp_path), InProcessExecutor())
    assert raised.value.errno == 28
    assert not list((tmp_path / "partial").iterdir())
    monkeypatch.undo()
    run([task], Store(tmp_path), InProcessExecutor())
    assert len(list(Store(tmp_path).records())) == 1


def test_a_failing_explanation_is_a_warning_beside_the_record(tmp_path: Path) -> None:
    plan = Plan(
        toy_source(), (toy_method("constant", Prior),), repeats=1, explain="benchmark_toys:UnspeakableError.__str__"
    )
    task = plan.tasks(tmp_path)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run([task], Store(tmp_path), InProcessExecutor())
    [message] = json.loads((Store(tmp_path).artifacts(task.job) / "warnings.json").read_text())
    assert "no explanation" in message and "TypeError" in message
