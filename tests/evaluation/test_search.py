"""The searches inside a training fold: their rules, what halving costs, and scores that outlive an interruption."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from benchmark_toys import Counted, flip_byte, toy_method, toy_source
from numpy.typing import NDArray

from isocapsnet._files import DamagedError, read_json
from isocapsnet.evaluation import InProcessExecutor, Plan, Protocol, Store, run
from isocapsnet.evaluation.inner_scores import InnerScores, check_scores
from isocapsnet.evaluation.records import check_record, seal
from isocapsnet.evaluation.search import SEARCHES, SHARE, count_fits, race

SIZES = [40, 41, 40]


def _race(scores: NDArray[np.float64], search: str = "halving") -> tuple[int | None, NDArray[np.float64]]:
    sizes = SIZES[: scores.shape[1]]
    return race(SEARCHES[search], len(scores), sizes, lambda fold, rows: scores[rows, fold])


def _halving_by_the_book(scores: NDArray[np.float64]) -> tuple[int, int]:
    """Choice and number of fits, from the paragraph in docs/benchmark.md."""
    alive, n_fits = [*range(len(scores))], 0
    for fold in range(scores.shape[1]):
        if alive == [0]:
            break
        n_fits += len(alive)
        margin = 0.25 / np.sqrt(3 * sum(SIZES[: fold + 1]))
        means = {row: np.mean(scores[row, : fold + 1]) for row in alive}
        if fold + 1 < scores.shape[1]:
            rivals = sorted((row for row in alive[1:] if means[row] > means[0] - margin), key=lambda row: -means[row])
            alive = [0, *rivals[: max(int(np.ceil(len(alive) / 2)) - 1, 1)]]
    best = max(alive, key=lambda row: means[row])
    return (best if means[best] > means[0] + margin else 0), n_fits


@pytest.mark.parametrize("n_candidates", [2, 3, 6, 8])
def test_halving_is_what_its_paragraph_says(n_candidates: int) -> None:
    rng = np.random.default_rng(n_candidates)
    choices = set()
    for _ in range(200):
        scores = rng.normal(0.7, 0.03, (n_candidates, 3))
        chosen, tried = _race(scores)
        assert (chosen, np.sum(~np.isnan(tried))) == _halving_by_the_book(scores)
        choices.add(chosen)
    assert len(choices) == n_candidates


@pytest.mark.parametrize("search", SEARCHES)
def test_the_defaults_stay_in_the_race_and_win_ties(search: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        _, tried = _race(rng.normal(0.7, 0.05, (8, 3)), search)
        n_folds = (~np.isnan(tried)).any(axis=0).sum()
        assert not np.isnan(tried[0, :n_folds]).any()
    chosen, _ = _race(np.full((8, 3), 0.7), search)
    assert chosen == 0


def test_exhaustive_search_takes_the_best_mean_and_tries_everything() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        scores = rng.normal(0.7, 0.05, (8, 3))
        chosen, tried = _race(scores, "exhaustive")
        assert chosen == scores.mean(axis=1).argmax()
        assert np.array_equal(tried, scores)


def test_halving_leaves_the_defaults_for_a_lead_only() -> None:
    lead = SHARE / np.sqrt(3 * sum(SIZES))
    scores = np.full((2, 3), 0.7)
    for gain, chosen in ((0.9 * lead, 0), (1.1 * lead, 1)):
        scores[1] = 0.7 + gain
        assert _race(scores)[0] == chosen
        assert _race(scores, "exhaustive")[0] == 1


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("failing", [0, 3])
def test_a_candidate_that_fails_in_a_fold_is_never_chosen(search: str, failing: int) -> None:
    scores = np.full((4, 3), 0.6)
    scores[failing], scores[1] = 0.9, 0.8
    scores[failing, 0] = np.nan
    assert _race(scores, search)[0] == 1
    assert _race(np.full((4, 3), np.nan), search)[0] is None


def test_fits_are_counted_before_a_search() -> None:
    assert [count_fits("halving", n, 3) for n in (1, 2, 6, 8)] == [0, 6, 11, 14]
    assert [count_fits("halving", n, 3, fewest=True) for n in (1, 2, 6, 8)] == [0, 2, 6, 8]
    assert count_fits("exhaustive", 8, 3, fewest=True) == 24
    assert count_fits("exhaustive", 8, 3) == Protocol(search="exhaustive").count_inner_fits(8) == 24
    assert Protocol().count_inner_fits(8) == 14
    assert Protocol("paper").count_inner_fits(8) == 0


@pytest.fixture
def simulation(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import halving

    return halving


def test_the_choice_of_halving_is_as_good_as_that_of_exhaustive_search_up_to_noise(simulation: ModuleType) -> None:
    """Less than 0.01 ROC AUC is lost in the worst cell and 0.002 on average; the error of an inner score is 0.08."""
    results = {cell: simulation.simulate(cell, 150) for cell in simulation.GRID}
    differences = [result.difference for result in results.values()]
    assert min(differences) > -0.01
    assert np.mean(differences) > -0.002
    better = [result.difference for cell, result in results.items() if cell.default_is_better]
    assert np.mean(better) > 0
    assert max(result.fits for cell, result in results.items() if cell.n_candidates == 8) <= 14 / 24


# -- scores that are kept -----------------------------------------------------------------------------------------


GRID = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0]


def _plan(log: Path, search: str = "halving", grid: list[float] = GRID, **parameters: Any) -> Plan:
    parameters = {"log": str(log), **parameters}
    method = toy_method("counted", Counted, parameters=parameters, space={"C": grid})
    protocol = Protocol(n_folds=2, n_candidates=9, search=search)
    return Plan(toy_source(n_graphs=60, effect=1.0), (method,), protocol, repeats=1)


def _run(plan: Plan, folder: Path, number: int = 0) -> dict[str, Any]:
    """The record of one fold."""
    task = plan.tasks(folder)[number]
    run([task], Store(folder), InProcessExecutor())
    record = Store(folder).load(task.job)
    return {} if record is None else record


def _fits(log: Path) -> list[dict[str, Any]]:
    lines = log.read_text().splitlines()
    log.unlink()
    return [json.loads(line) for line in lines]


def _same(record: dict[str, Any]) -> dict[str, Any]:
    return {name: record[name] for name in ("settings", "probabilities", "test")}


def test_a_search_that_failed_half_way_continues_where_it_stopped(tmp_path: Path) -> None:
    log = tmp_path / "log"
    whole = _run(_plan(log, stop_at=99), tmp_path / "whole")
    n_fits = len(_fits(log))
    assert _run(_plan(log, stop_at=6), tmp_path / "cut") == {}
    assert _same(_run(_plan(log, stop_at=6), tmp_path / "cut")) == _same(whole)
    fits = _fits(log)
    assert len(fits) == n_fits + 1  # the fit that failed, again
    assert (
        len({(fit["C"], fit["n_graphs"]) for fit in fits[:5]} & {(fit["C"], fit["n_graphs"]) for fit in fits[6:8]}) == 0
    )


def test_a_search_that_was_killed_continues_where_it_stopped(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = (
        "import sys; from pathlib import Path; from isocapsnet.evaluation import inner_scores\n"
        "from test_search import _plan, _run\n"
        "inner_scores._SECONDS_BETWEEN_FILES = 0\n"
        "print(_run(_plan(Path(sys.argv[1]), stop_at=6, killed=True), Path(sys.argv[2]))['settings'])"
    )
    command = [sys.executable, "-c", code, str(log), str(tmp_path / "out")]
    first, second = (subprocess.run(command, capture_output=True, text=True, env=os.environ) for _ in range(2))
    assert first.returncode == -9, first.stderr
    assert second.returncode == 0, second.stderr
    n_fits = len(_fits(log))
    whole = _run(_plan(log, stop_at=99), tmp_path / "whole")
    assert n_fits == len(_fits(log)) + 1
    assert second.stdout.strip() == str(whole["settings"])


def test_two_searches_at_once_in_one_folder_choose_the_same(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from isocapsnet.evaluation import inner_scores\n"
        "from test_search import _plan, _run\n"
        "inner_scores._SECONDS_BETWEEN_FILES = 0\n"
        "print(_run(_plan(Path(sys.argv[1])), Path(sys.argv[2]))['settings'])"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "log"), str(tmp_path / "out")]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [process.communicate()[0].strip() for process in both]
    assert answers == [str(_run(_plan(tmp_path / "log"), tmp_path / "alone")["settings"])] * 2
    [file] = (tmp_path / "out" / "inner").glob("??/*.json")
    assert check_scores(read_json(file))["key"] == file.stem
    assert not (tmp_path / "out" / "rejected").exists()


def test_scores_of_two_runs_at_once_are_both_kept(tmp_path: Path) -> None:
    """Each process opens the file before any of them has written to it."""
    path = tmp_path / "inner" / "ab" / "abc.json"
    code = (
        "import sys; from pathlib import Path; from isocapsnet.evaluation.inner_scores import InnerScores\n"
        "scores = InnerScores(Path(sys.argv[1]))\n"
        "print('open', flush=True); sys.stdin.readline()\n"
        "scores.add({'C': float(sys.argv[2])}, 'fold', 0.5, 1.0); scores.write()"
    )
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), str(C)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for C in (1, 2)
    ]
    assert [process.stdout.readline().strip() for process in both] == ["open", "open"]
    for process in both:
        process.communicate("\n")
        assert process.returncode == 0
    kept = check_scores(read_json(path))["scores"]
    assert sorted(score["settings"] for score in kept) == ['{"C":1.0}', '{"C":2.0}']


def test_scores_written_by_many_threads_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "inner" / "ab" / "abc.json"

    def write(number: int) -> None:
        for i in range(10):
            scores = InnerScores(path)
            scores.add({"C": 10 * number + i}, "fold", 0.5, 1.0)
            scores.write()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert len(check_scores(read_json(path))["scores"]) == 80


def test_another_search_and_more_candidates_reuse_scores(tmp_path: Path) -> None:
    log, folder = tmp_path / "log", tmp_path / "out"
    few = _run(_plan(log, grid=GRID[3:]), folder)
    n_few = len(_fits(log)) - 1
    assert few["seconds"]["tune"] > 0
    _run(_plan(log, grid=GRID), folder)
    assert len([fit for fit in _fits(log)[:-1] if fit["C"] in GRID[3:]]) < n_few
    everything = _run(_plan(log, "exhaustive"), folder)
    assert 0 < len(_fits(log)) - 1 < 24 - n_few
    assert _same(everything) == _same(_run(_plan(log, "exhaustive"), tmp_path / "alone"))
    assert len(_fits(log)) == 25
    [file] = (folder / "inner").glob("??/*.json")
    assert len(read_json(file)["scores"]) == 24
    # The same search again has nothing to fit but the last model, and its record says what the search took.
    again = _plan(log, "exhaustive")
    for path in (*folder.glob("records/??/*"), *folder.glob("artifacts/*/*")):
        path.unlink()
    record = _run(again, folder)
    assert len(_fits(log)) == 1 and _same(record) == _same(everything)
    assert record["seconds"]["tune"] > sum(item["seconds"] for item in read_json(file)["scores"])


def test_scores_of_another_fold_version_or_method_are_not_used(tmp_path: Path) -> None:
    log, folder = tmp_path / "log", tmp_path / "out"
    plan = _plan(log, "exhaustive")
    [method] = plan.methods
    others = [
        replace(plan, methods=(replace(method, version=2),)),
        replace(plan, methods=(replace(method, name="other"),)),
        replace(plan, source=toy_source(n_graphs=60, effect=2.0)),
        replace(plan, protocol=replace(plan.protocol, inner_folds=2)),
    ]
    _run(plan, folder)
    assert len(_fits(log)) == 25
    for other in others:
        _run(other, folder)
        assert len(_fits(log)) == 1 + 8 * other.protocol.inner_folds
    _run(plan, folder, number=1)
    assert len(_fits(log)) == 25


@pytest.mark.parametrize("damage", ["flip", "empty", "digit", "link"])
def test_damaged_scores_are_set_aside_and_computed_again(damage: str, tmp_path: Path) -> None:
    log, folder = tmp_path / "log", tmp_path / "out"
    assert _run(_plan(log, stop_at=6), folder) == {}
    [file] = (folder / "inner").glob("??/*.json")
    text = file.read_text()
    if damage == "flip":
        flip_byte(file)
    elif damage == "link":
        file.unlink()
        file.symlink_to(log)
    else:
        file.write_text("" if damage == "empty" else text.replace('"score":0', '"score":1', 1))
    with pytest.warns(UserWarning, match=file.name):
        record = _run(_plan(log, stop_at=6), folder)
    assert _same(record) == _same(_run(_plan(log, stop_at=99), tmp_path / "whole"))
    assert [path.name for path in (folder / "rejected" / "inner").iterdir()] == [file.name]
    assert check_scores(read_json(file))["key"] == file.stem


@pytest.mark.parametrize(
    "change", [{"score": 1.5}, {"score": "0.5"}, {"seconds": -1.0}, {"settings": {}}, {"extra": 1}, {"fold": None}]
)
def test_sealed_scores_with_impossible_content_are_refused(change: dict[str, Any]) -> None:
    item = {"settings": "{}", "fold": "0", "score": 0.5, "seconds": 1.0}
    assert check_scores(seal({"key": "k", "scores": [item]})) == {"key": "k", "scores": [item]}
    with pytest.raises(DamagedError):
        check_scores(seal({"key": "k", "scores": [item | change]}))


def test_permutations_keep_no_files_of_their_searches(tmp_path: Path) -> None:
    tasks = replace(_plan(tmp_path / "log"), permutations=2).tasks(tmp_path)
    assert {bool(task.job.permutation) for task in tasks if task.inner_scores is None} == {True}
    assert all(task.inner_scores is not None for task in tasks if not task.job.permutation)


# -- records of versions without a choice of searches -------------------------------------------------------------


def test_records_of_versions_without_halving_are_those_of_an_exhaustive_search(tmp_path: Path) -> None:
    former = {"name": "nested", "n_folds": 2, "inner_folds": 3, "n_candidates": 9}
    assert Protocol.from_json(former).search == "exhaustive"
    exhaustive = _run(_plan(tmp_path / "log", "exhaustive"), tmp_path / "a")
    assert exhaustive["job"]["protocol"] == former
    halving = _run(_plan(tmp_path / "log"), tmp_path / "b")
    assert halving["job"]["protocol"] == {**former, "search": "halving"}
    assert check_record(seal(halving)) == halving
    job = {**exhaustive["job"], "protocol": {**former, "search": "exhaustive"}}  # two texts of one protocol
    with pytest.raises(DamagedError):
        check_record(seal({**exhaustive, "job": job}))
