"""The time of a job, from trials of networks whose epochs have a known duration."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from benchmark_toys import Logistic, Prior, Raises, toy_method, toy_source
from hypothesis import given
from hypothesis import strategies as st
from numba.core.event import trigger_event

from isocapsnet._stages import end_epoch
from isocapsnet.evaluation import InProcessExecutor, Plan, Protocol, timing
from isocapsnet.evaluation.engine.executors import local_executor
from isocapsnet.evaluation.engine.runner import submit
from isocapsnet.evaluation.estimation import Fitter
from isocapsnet.evaluation.jobs import Task
from isocapsnet.evaluation.timing import (
    STAGES,
    USUAL_SHARE,
    _extrapolate,
    _spread,
    _Training,
    _Trial,
    time_job,
)

#: Seconds that a training says its epochs have taken.
EPOCH = 50.0


class Network(Logistic):
    """Says that it trains ``n_trainings`` times; each ends after ``stops_after`` epochs, if that is not 0."""

    max_epochs = 100

    def __init__(
        self,
        C: float = 1.0,
        n_trainings: int = 1,
        stops_after: int = 0,
        seconds: float = EPOCH,
        per_graph: float = 0.0,
        random_state: Any = None,
    ) -> None:
        super().__init__(C, random_state=random_state)
        self.n_trainings, self.stops_after, self.seconds, self.per_graph = n_trainings, stops_after, seconds, per_graph

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Network":
        super().fit(X, y)
        for _ in range(self.n_trainings):
            history: list[dict[str, Any]] = []
            for epoch in range(1, (self.stops_after or self.max_epochs) + 1):
                history.append({"epoch": epoch, "dur": self.seconds + self.per_graph * len(X)})
                if end_epoch(history, self.max_epochs, may_stop=self.stops_after > 0):
                    break
        return self


def _task(
    tmp_path: Path, *, n_graphs: int = 30, candidates: int = 1, search: str = "halving", **parameters: Any
) -> Task:
    method = toy_method("network", Network, parameters=parameters, space={"C": [0.1, 1.0, 10.0]})
    protocol = Protocol(n_candidates=candidates, search=search)
    return Plan(toy_source(n_graphs=n_graphs), (method,), protocol, repeats=1).tasks(tmp_path)[0]


def _estimate(task: Task, seconds: float = 1e6) -> dict[str, float]:
    answer = time_job(task, seconds)
    assert set(answer["seconds"]) == set(STAGES)
    return answer["seconds"]


@pytest.mark.parametrize("n_trainings", [1, 3])
def test_epochs_that_are_left_out_are_as_long_as_those_before(n_trainings: int, tmp_path: Path) -> None:
    seconds = _estimate(_task(tmp_path, n_trainings=n_trainings))
    # The first two epochs of each training take no real time.
    assert seconds["fit"] == pytest.approx(n_trainings * (Network.max_epochs - 2) * EPOCH, rel=0.01)
    assert seconds["search"] < 10


@pytest.mark.parametrize("search", ["exhaustive", "halving"])
def test_a_search_that_was_cut_needs_the_usual_number_of_fits(search: str, tmp_path: Path) -> None:
    usual = {"exhaustive": 9, "halving": (3 + 2 * 7) / 3}[search]
    assert _estimate(_task(tmp_path, candidates=4, search=search))["search"] == pytest.approx(usual * 98 * EPOCH, 0.01)
    by_size = _task(tmp_path, candidates=4, search=search, seconds=0.0, per_graph=EPOCH)
    whole, cut = _estimate(by_size), _estimate(by_size, seconds=1e-6)
    assert cut["search"] == pytest.approx(whole["search"], rel=0.1)


def test_a_search_has_fits_even_if_the_graphs_of_a_trial_are_of_too_few_people(tmp_path: Path) -> None:
    method = toy_method("network", Network, parameters={"seconds": 0.0, "per_graph": EPOCH}, space={"C": [0.1, 1, 10]})
    source = toy_source(n_graphs=300, graphs_per_subject=10)
    task = Plan(source, (method,), Protocol(n_candidates=4), repeats=1).tasks(tmp_path)[0]
    seconds = _estimate(task, seconds=1e-6)
    assert seconds["search"] == pytest.approx((3 + 2 * 7) / 3 * seconds["fit"], rel=0.01)


def test_a_trial_of_all_graphs_is_the_last(tmp_path: Path) -> None:
    assert time_job(_task(tmp_path, n_graphs=30), 1e-6)["n_train"] == 20


def test_a_search_of_all_graphs_fits_and_epochs_counts_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    completed: list[float] = []
    monkeypatch.setattr(_Trial, "complete_search", lambda trial, n_fits: completed.append(n_fits))
    method = toy_method("logistic", Logistic, parameters={}, space={"C": [0.1, 1.0, 10.0]})
    task = Plan(toy_source(n_graphs=300), (method,), Protocol(n_candidates=4), repeats=1).tasks(tmp_path)[0]
    time_job(task, 1e6)
    assert completed == [17 / 3]  # of the first trial, which has few graphs
    completed.clear()
    time_job(task, 1e-6)
    assert completed and set(completed) == {17 / 3}


class Compiled(Logistic):
    """The first epoch with each value of ``C`` takes long, as if a kernel was compiled, and only the first time."""

    compiled: ClassVar[set[float]] = set()

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Compiled":
        super().fit(X, y)
        history: list[dict[str, Any]] = []
        for epoch in range(1, 4):
            began = time.perf_counter()
            if self.C not in self.compiled:
                self.compiled.add(self.C)
                time.sleep(0.3)
            history.append({"epoch": epoch, "dur": time.perf_counter() - began})
            if end_epoch(history, 3, may_stop=False):
                break
        return self


def test_kernels_that_a_trial_compiled_are_not_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_COMPILING", 0.2)
    method = toy_method("compiled", Compiled, parameters={}, space={"C": [0.1, 1.0, 10.0]})
    task = Plan(toy_source(), (method,), Protocol(n_candidates=3), repeats=1).tasks(tmp_path)[0]
    assert _estimate(task)["search"] < 0.3
    assert len(Compiled.compiled) == 3


class Compiles(Logistic):
    """Compiles in every fit, before the training."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Compiles":
        with trigger_event("numba:compile"):
            time.sleep(0.3)
        return super().fit(X, y)


def test_the_time_to_compile_kernels_does_not_count(tmp_path: Path) -> None:
    method = toy_method("compiles", Compiles, parameters={}, space={"C": [0.1, 1.0]})
    seconds = _estimate(Plan(toy_source(), (method,), Protocol(n_candidates=2), repeats=1).tasks(tmp_path)[0])
    assert seconds["search"] < 0.3 and seconds["fit"] < 0.3


def test_a_training_with_early_stopping_is_watched_to_its_end(tmp_path: Path) -> None:
    task = _task(tmp_path, stops_after=20, seconds=0.01, n_trainings=2)
    answer = time_job(task, 60.0)
    assert not answer["is_assumed"]
    assert answer["seconds"]["fit"] < 0.5  # no epoch was left out, and none takes real time


def test_other_trainings_need_the_share_of_epochs_of_those_that_were_watched(tmp_path: Path) -> None:
    # One training of 20 epochs fits into half of the time, and the second is cut after two.
    task = _task(tmp_path, stops_after=20, n_trainings=2)
    answer = time_job(task, 2 * 20.5 * EPOCH)
    assert not answer["is_assumed"]
    assert answer["seconds"]["fit"] == pytest.approx(18 * EPOCH, rel=0.05)


def test_the_usual_share_of_epochs_is_assumed_if_no_end_was_seen(tmp_path: Path) -> None:
    answer = time_job(_task(tmp_path, stops_after=90), 5.0)
    assert answer["is_assumed"]
    assert answer["seconds"]["fit"] == pytest.approx((USUAL_SHARE * 100 - 2) * EPOCH, rel=0.05)


def test_fewer_graphs_are_tried_if_there_is_no_time_for_all(tmp_path: Path) -> None:
    task = _task(tmp_path, n_graphs=300, seconds=0.0, per_graph=0.5)
    every, few = time_job(task, 1e6), time_job(task, 1e-6)
    assert every["n_train"] == 200 and few["n_train"] == 12
    assert few["seconds"]["fit"] == pytest.approx(every["seconds"]["fit"], rel=0.1)


class Quicker(Logistic):
    """Its epochs are shorter the more graphs there are."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Quicker":
        super().fit(X, y)
        end_epoch([{"epoch": 1, "dur": 100.0}, *[{"epoch": 2, "dur": 1e4 / len(X)}] * 3], 100, may_stop=False)
        return self


def test_the_first_trial_counts_if_fewer_graphs_take_longer(tmp_path: Path) -> None:
    method = toy_method("quicker", Quicker, parameters={})
    task = Plan(toy_source(n_graphs=300), (method,), Protocol(), repeats=1).tasks(tmp_path)[0]
    answer = time_job(task, 1e-6)
    assert answer["n_train"] == 24
    assert answer["seconds"]["fit"] == pytest.approx(96 * 1e4 / 24 * 200 / 24, rel=0.01)


class BySetting(Logistic):
    """Its epochs last as many seconds as there are graphs, and ten times as long if ``C`` is 10."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> "BySetting":
        super().fit(X, y)
        history: list[dict[str, Any]] = []
        for epoch in range(1, 101):
            history.append({"epoch": epoch, "dur": len(X) * (10.0 if self.C == 10 else 1.0)})
            if end_epoch(history, 100, may_stop=False):
                break
        return self


def test_a_search_of_few_graphs_does_not_choose_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fitter, "search", lambda *args, **kwargs: {"C": 10.0})
    method = toy_method("by-setting", BySetting, parameters={}, space={"C": [1.0, 10.0]})
    task = Plan(toy_source(n_graphs=300), (method,), Protocol(n_candidates=2), repeats=1).tasks(tmp_path)[0]
    answer = time_job(task, 1e-6)
    assert answer["n_train"] < 200
    assert answer["seconds"]["fit"] == pytest.approx(98 * 200, rel=0.01)
    answer = time_job(task, 1e6)
    assert answer["n_train"] == 200
    assert answer["seconds"]["fit"] == pytest.approx(980 * 200, rel=0.01)


def test_an_epoch_that_other_work_made_longer_does_not_count() -> None:
    training = _Training([{"dur": 1.0}, {"dur": 9.0}, {"dur": 1.1}, {"dur": 1.2}], 100, may_stop=False)
    assert training.epoch_seconds == 1.1
    training = _Training([{"dur": 1.0}, {"dur": 9.0}], 100, may_stop=False)
    assert training.epoch_seconds == 1.0


@given(
    power=st.floats(1.0, 2.0),
    fixed=st.none() | st.floats(0.0, 1.0),
    core=st.floats(0.1, 1.0),
    factor=st.floats(1e-3, 1e3),
    small=st.integers(10, 100),
    growth=st.integers(2, 4),
    n_all=st.integers(400, 10_000),
)
def test_a_power_law_or_a_line_is_continued_whatever_share_of_a_core_the_trials_got(
    power: float, fixed: float | None, core: float, factor: float, small: int, growth: int, n_all: int
) -> None:
    def law(n: int, core: float = 1.0) -> _Trial:
        trial = _Trial(0.0)
        trial.core, slow = core, factor * (n**power if fixed is None else fixed * small + n) / core
        trial.seconds = {"search": 5 * slow, "fit": slow, "predict": 1.0, "explain": 2.0}
        return trial

    sizes, trials = [small, growth * small], [law(small, core), law(growth * small)]
    assert _extrapolate(sizes, trials, n_all) == pytest.approx(law(n_all).seconds)
    trials[-1].has_epochs = True
    shown = _extrapolate(sizes, trials, n_all)["fit"] / law(sizes[-1]).seconds["fit"]
    in_proportion, observed = n_all / sizes[-1], law(n_all).seconds["fit"] / law(sizes[-1]).seconds["fit"]
    assert shown == pytest.approx(np.sqrt(in_proportion * min(in_proportion, observed)))
    assert _extrapolate([n_all], [law(n_all)], n_all) == law(n_all).seconds


@given(counts=st.lists(st.integers(1, 40), min_size=2, max_size=4), data=st.data())
def test_the_first_graphs_have_the_classes_in_proportion(counts: list[int], data: st.DataObject) -> None:
    labels = np.repeat(np.arange(len(counts)), counts)
    order = _spread(labels)
    assert sorted(order) == list(range(len(labels)))
    size = data.draw(st.integers(1, len(labels)))
    taken = np.bincount(labels[order[:size]], minlength=len(counts))
    assert np.abs(taken - size * np.array(counts) / sum(counts)).max() <= len(counts)


def test_a_trial_in_a_worker_is_that_of_this_process_and_stores_nothing(tmp_path: Path) -> None:
    trial = replace(_task(tmp_path / "run", candidates=2), trial_seconds=1e6)
    here = submit(InProcessExecutor(), trial).result()["record"]
    with local_executor(1) as executor:
        there = submit(executor, trial).result()["record"]
    assert here["seconds"]["search"] == pytest.approx(there["seconds"]["search"], rel=0.01)
    assert here["elapsed"] > 0 and not (tmp_path / "run").exists()


def test_a_method_that_fails_has_an_error_instead_of_a_time(tmp_path: Path) -> None:
    plan = Plan(toy_source(), (toy_method("bad", Raises), toy_method("prior", Prior)), repeats=1)
    answers = [submit(InProcessExecutor(), replace(task, trial_seconds=1.0)).result() for task in plan.tasks(tmp_path)]
    assert "always fails" in answers[0]["error"]["reason"] and "record" in answers[1]
