"""Jobs say where they are while they run, from this process and from workers."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_toys import Prior, toy_method, toy_source

from isocapsnet._stages import Watcher, end_epoch, enter_stage, watching
from isocapsnet._validation import InputError
from isocapsnet.evaluation import Execution, InProcessExecutor, Plan, Protocol
from isocapsnet.evaluation.engine import stages
from isocapsnet.evaluation.engine.executors import local_executor
from isocapsnet.evaluation.engine.stages import Stage, StageReporter
from isocapsnet.evaluation.jobs import Job


class Epochs(Prior):
    """Says that it trains for some epochs."""

    def __init__(self, n_epochs: int = 3) -> None:
        self.n_epochs = n_epochs

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Epochs":
        history: list[dict[str, Any]] = []
        for epoch in range(self.n_epochs):
            history.append({"epoch": epoch + 1, "dur": 0.0})
            end_epoch(history, self.n_epochs, may_stop=False)
        return super().fit(X, y)  # type: ignore[return-value]


def _plan() -> Plan:
    method = toy_method("epochs", Epochs, space={"n_epochs": [3, 4]})
    return Plan(toy_source(), (method,), Protocol(n_candidates=3), repeats=1)


def _run(folder: Path, jobs: int) -> list[tuple[int, Stage]]:
    seen: list[tuple[int, Stage]] = []

    def on_stage(job: Job, stage: Stage) -> None:
        seen.append((job.fold, stage))

    execution = Execution(_plan(), folder)
    if jobs:
        with local_executor(jobs) as executor:
            execution.run(executor, on_stage=on_stage)
    else:
        execution.run(InProcessExecutor(), on_stage=on_stage)
    assert [row.failed for row in execution.table().rows] == [0]
    return seen


def test_every_stage_and_epoch_of_a_job_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "_INTERVAL", 0.0)
    seen = [stage for fold, stage in _run(tmp_path, 0) if fold == 0]
    fits = [stage for stage in seen if stage.name == "search" and not stage.max_epochs]
    assert fits == [Stage("search", number, fits[0].total) for number in range(1, len(fits) + 1)]
    assert 2 < len(fits) <= fits[0].total
    assert [stage.epoch for stage in seen if stage.name == "fit"] == [0, 1, 2, 3]
    assert list(dict.fromkeys(stage.name for stage in seen)) == ["search", "fit", "predict", "explain"]


def test_workers_report_each_new_stage(tmp_path: Path) -> None:
    seen = _run(tmp_path, 2)
    for fold in range(3):
        assert list(dict.fromkeys(s.name for f, s in seen if f == fold)) == ["search", "fit", "predict", "explain"]


def test_a_display_that_fails_fails_no_job(tmp_path: Path) -> None:
    def on_stage(job: Job, stage: Stage) -> None:
        raise OSError("the terminal is gone")

    execution = Execution(_plan(), tmp_path)
    execution.run(InProcessExecutor(), on_stage=on_stage)
    assert [(row.jobs, row.failed) for row in execution.table().rows] == [(3, 0)]


def test_epochs_are_reported_a_few_times_per_second_and_new_stages_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now, sent = [100.0], list[tuple[float, Stage]]()
    monkeypatch.setattr(stages.time, "monotonic", lambda: now[0])
    with watching(StageReporter(lambda stage: sent.append((now[0], stage)))):
        for stage in ("fit", "predict"):
            enter_stage(stage)
            history: list[dict[str, Any]] = []
            for _ in range(1000):
                now[0] += 0.001
                history.append({})
                assert not end_epoch(history, 1000, may_stop=True)
    assert [stage.name for at, stage in sent if not stage.epoch] == ["fit", "predict"]
    assert 8 <= len(sent) <= 12


def test_nothing_is_reported_outside_and_in_other_threads() -> None:
    seen: list[str] = []

    class Listener(Watcher):
        def on_stage(self, stage: str, number: int, total: int) -> None:
            seen.append(stage)

    with watching(Listener()):
        enter_stage("inside")
        other = threading.Thread(target=enter_stage, args=("elsewhere",))
        other.start()
        other.join()
    enter_stage("outside")
    assert seen == ["inside"]


def test_a_stage_is_a_sentence_part_and_survives_json() -> None:
    assert str(Stage("search", 3, 24, 12, 100)) == "search 3/24, epoch 12/100"
    assert str(Stage("fit", epoch=2, max_epochs=30)) == "fit, epoch 2/30"
    assert str(Stage("predict")) == "predict"
    assert Stage.from_json(list(Stage("fit", 0, 0, 2, 30))) == Stage("fit", epoch=2, max_epochs=30)
    for wrong in ([], ["fit"], [1, 2, 3, 4, 5], "stage"):
        with pytest.raises(InputError):
            Stage.from_json(wrong)
