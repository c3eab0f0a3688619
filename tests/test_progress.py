"""The time left of a run, and the time of a run before it starts."""

import heapq
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import isocapsnet as ic
from isocapsnet._progress import Remaining, RunProgress, _show_bars, show_stages
from isocapsnet._stages import enter_stage
from isocapsnet._timing import schedule
from isocapsnet.evaluation.engine.runner import Outcome
from isocapsnet.evaluation.engine.stages import Stage


@dataclass(frozen=True)
class FakeJob:
    label: str
    key: str
    repeat: int = 0
    fold: int = 0
    permutation: int = 0
    audit: int | None = None


durations = st.lists(st.floats(0.0, 100.0), min_size=1, max_size=30)


@given(durations, st.integers(1, 8))
def test_a_schedule_ends_between_its_bounds_and_as_a_simulation_says(jobs: list[float], n_slots: int) -> None:
    end = schedule(jobs, n_slots)
    least = max(max(jobs), sum(jobs) / n_slots)
    assert least - 1e-9 <= end <= sum(jobs) / n_slots + max(jobs) + 1e-9
    events, waiting, now = list[float](), list(jobs), 0.0
    while waiting or events:
        while waiting and len(events) < n_slots:
            heapq.heappush(events, now + waiting.pop(0))
        now = heapq.heappop(events)
    assert end == pytest.approx(now)


@given(st.lists(st.floats(0.1, 100.0), min_size=1, max_size=5), st.integers(1, 10), st.integers(1, 4))
def test_the_time_left_is_that_of_jobs_of_known_duration(means: list[float], n_jobs: int, n_slots: int) -> None:
    known = {f"method {number}": mean for number, mean in enumerate(means)}
    remaining = Remaining([label for label in known for _ in range(n_jobs)], known, n_slots)
    left, unknown = remaining.seconds(0.0)
    assert left == pytest.approx(n_jobs * sum(means) / n_slots) and not unknown


def test_the_time_left_falls_while_a_job_runs_and_is_about_what_follows() -> None:
    remaining = Remaining(["a", "a", "b"], {"a": 10.0, "b": 30.0}, 1)
    job = FakeJob("a", "1")
    remaining.update(job, Stage("fit"), 0.0)  # type: ignore[arg-type]
    assert remaining.seconds(4.0)[0] == pytest.approx(6 + 10 + 30)
    assert remaining.share("1", 4.0) == pytest.approx(0.4)
    assert remaining.seconds(50.0)[0] == pytest.approx(0.5 + 10 + 30)  # later than expected: nearly done
    remaining.finish(job, 20.0, 50.0)  # type: ignore[arg-type]
    # What was seen in this run counts, from the beginning of the job until its end.
    assert remaining.seconds(50.0)[0] == pytest.approx(50 + 30)


def test_methods_without_a_known_duration_are_named_and_a_search_tells_it() -> None:
    remaining = Remaining(["a", "a", "b"], {"b": 30.0}, 2)
    assert remaining.seconds(0.0) == (15.0, ["a"]) and remaining.describe(0.0) == "over 15 s left"
    for number, now in ((1, 0.0), (4, 30.0)):  # a search of three fits in 30 s, of 12 and a last one
        remaining.update(FakeJob("a", "1"), Stage("search", number, 12), now)  # type: ignore[arg-type]
    left, unknown = remaining.seconds(30.0)
    assert not unknown and left == pytest.approx((120 + 150 + 30) / 2)
    before = remaining.share("1", 30.0)
    remaining.update(FakeJob("a", "1"), Stage("fit"), 31.0)  # type: ignore[arg-type]
    assert remaining.share("1", 31.0) >= before  # the bar does not run backwards


def test_a_run_outside_a_terminal_prints_lines_and_the_first_failures(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(width=100)
    jobs: list[Any] = [FakeJob("a", str(number)) for number in range(40)]
    with _show_bars(console) as bars:
        shown = RunProgress(console, Remaining((job.label for job in jobs), {}, 1), len(jobs), bars)
        for job in jobs:
            shown.on_stage(job, Stage("fit"))
            failure = {"reason": f"reason {job.key}"} if int(job.key) < 10 else None
            record = None if failure else {"seconds": {"fit": 1.0}}
            shown.on_outcome(Outcome(job, record, failure))  # type: ignore[arg-type]
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "reason" in line] == [f"a failed: reason {number}" for number in range(5)]
    counts = [line for line in lines if "/40 jobs" in line]
    assert len(counts) == 20 and counts[-1] == "40/40 jobs, 10 failed"
    assert "about" in counts[-2]


def test_a_terminal_shows_method_fold_stage_and_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(width=140, force_terminal=True, stderr=True)
    job: Any = FakeJob("isocapsnet", "1", repeat=1, fold=2)
    with _show_bars(console) as bars:
        shown = RunProgress(console, Remaining(["isocapsnet"], {}, 1), 1, bars)
        shown.on_stage(job, Stage("search", 3, 24, 12, 100))
        bars.refresh()
        [_, line] = bars.tasks
        assert line.description.strip() == "isocapsnet, repeat 2, fold 3" and line.percentage == pytest.approx(12)
        shown.on_stage(job, Stage("fit", 0, 0, 100, 100))
        assert not line.finished  # its clock runs until the job has ended
        shown.on_outcome(Outcome(job, {"seconds": {"fit": 1.0}}))  # type: ignore[arg-type]
        assert len(bars.tasks) == 1
    printed = capsys.readouterr()
    assert "search 3/24, epoch 12/100" in printed.err and not printed.out


def test_stages_are_shown_in_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with show_stages("Fitting"):
        enter_stage("search", 1, 8)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes stderr for a terminal
    with show_stages("Fitting"):
        enter_stage("search", 2, 8)
    printed = capsys.readouterr()
    assert "Fitting" in printed.err and "search 2/8" in printed.err and not printed.out
    with show_stages("Fitting", quiet=True):
        enter_stage("search", 3, 8)
    assert capsys.readouterr() == ("", "")


def test_a_dry_run_has_the_time_of_each_method_and_of_finished_jobs(tmp_path: Path) -> None:
    planted = ic.make_planted_graphs(30, 6, random_state=0)
    study = ic.BrainGraphs(planted.graphs, planted.labels, name="small")
    options: dict[str, Any] = {"out": tmp_path, "jobs": 0, "candidates": 2, "progress": False}
    ic.benchmark(study, ["constant"], repeats=1, **options)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    dry = ic.benchmark(study, ["constant", "svm"], repeats=2, dry_run=True, **options)
    times = dry.context["estimated_time"]
    assert times["methods"]["constant"]["basis"] == "finished jobs"
    assert set(times["methods"]["svm"]["stages"]) == {"search", "fit", "predict", "explain"}
    expected = 6 * sum(times["methods"]["svm"]["stages"].values())
    assert times["methods"]["svm"]["seconds"] == pytest.approx(expected)
    assert times["seconds"] == pytest.approx(sum(method["seconds"] for method in times["methods"].values()))
    assert times["wall"] >= times["seconds"]
    assert sorted(path.name for path in tmp_path.rglob("*")) == before
    done = ic.benchmark(study, ["constant"], repeats=1, dry_run=True, **options)
    assert "estimated_time" not in done.context


@pytest.mark.slow
@pytest.mark.parametrize("method", ["linear", "svm", "gcn", "cnn", "isocapsnet"])
def test_an_estimate_is_within_a_factor_of_two(method: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"out": tmp_path, "jobs": 1, "repeats": 1, "candidates": 2, "progress": False}
    dry = ic.benchmark(None, [method], dry_run=True, **options)
    results = ic.benchmark(None, [method], explain=False, **options)
    stages = dry.context["estimated_time"]["methods"][method]["stages"]
    estimate = sum(seconds for name, seconds in stages.items() if name != "explain")
    truth = float(np.mean([sum(record["seconds"].values()) for record in results.records.values()]))
    assert 0.5 < (estimate + 0.1) / (truth + 0.1) < 2
