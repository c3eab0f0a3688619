"""Whole runs: the same records wherever they are computed, failures contained, no leakage, interruption survived."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from benchmark_toys import (
    CountsThreads,
    Hangs,
    Hungry,
    Logistic,
    NotANumber,
    Prior,
    Raises,
    Spy,
    Suicidal,
    make_samples,
    make_study,
    toy_method,
    toy_source,
)
from threadpoolctl import threadpool_info, threadpool_limits

from isocapsnet._validation import InputError
from isocapsnet.evaluation import (
    Execution,
    InProcessExecutor,
    Limits,
    Outcome,
    Plan,
    Protocol,
    ResultsTable,
    Step,
    Store,
    dask_executor,
    local_executor,
    run,
    tabulate,
)
from isocapsnet.evaluation.artifacts import write_artifacts
from isocapsnet.evaluation.engine.worker import KEPT_MEMORY, Worker


def _run(
    plan: Plan, folder: Path, executor: AbstractContextManager[Executor] | None = None, **options: Any
) -> ResultsTable:
    """Run a plan (in this process by default) and return its table, which another process would read alike."""
    execution = Execution(plan, folder)
    with executor or nullcontext(InProcessExecutor()) as where:
        execution.run(where, **options)
    table = execution.table()
    assert repr(Execution(plan, folder).table()) == repr(table)
    return table


def _contents(folder: Path) -> dict[str, Any]:
    """Key to record, without what may differ between two runs: times and memory."""
    records = {}
    for record in Store(folder).records():
        del record["seconds"], record["peak_memory"]
        records[record["key"]] = record
    return records


def _small_plan(**changes: Any) -> Plan:
    methods = (toy_method("linear", Logistic, space={"C": [0.01, 1.0]}), toy_method("constant", Prior))
    return replace(Plan(toy_source(effect=3.0), methods, repeats=2, permutations=2, audits=1), **changes)


def test_the_store_is_the_same_from_one_process_two_processes_a_pool_and_dask(tmp_path: Path) -> None:
    plan = _small_plan()
    executors: dict[str, AbstractContextManager[Executor]] = {
        "here": nullcontext(InProcessExecutor()),
        "one": local_executor(1),
        "two": local_executor(2),
        "pool": ProcessPoolExecutor(1),
        "dask": dask_executor(n_workers=2),
    }
    for name, executor in executors.items():
        _run(plan, tmp_path / name, executor)
    expected = _contents(tmp_path / "here")
    assert len(expected) == len(plan.tasks(tmp_path)) == 2 * 2 * 3 * 4
    for name in executors:
        assert _contents(tmp_path / name) == expected, name


@pytest.mark.skipif(os.name != "posix", reason="needs flock")
def test_a_file_system_without_locks_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.EBADF, "no locks here")  # as of an NFS

    _run(_small_plan(), tmp_path / "with locks")
    monkeypatch.setattr("isocapsnet._files.fcntl.flock", refuse)
    with pytest.warns(UserWarning, match="cannot be locked") as caught:
        _run(_small_plan(), tmp_path / "without")
    assert sum("locked" in str(warning.message) for warning in caught) == 1
    assert _contents(tmp_path / "without") == _contents(tmp_path / "with locks")


def test_failures_of_every_kind_leave_the_others_alone_and_reach_the_table(tmp_path: Path) -> None:
    bad = {"raises": Raises, "hangs": Hangs, "nan": NotANumber, "hungry": Hungry, "suicidal": Suicidal}
    methods = (*(toy_method(name, cls) for name, cls in bad.items()), toy_method("linear", Logistic))
    plan = Plan(toy_source(effect=3.0), methods, Protocol(n_folds=2), repeats=1)
    table = _run(plan, tmp_path, local_executor(2), limits=Limits(seconds=5.0, memory=500_000_000))
    rows = {row.method: row for row in table.rows}
    assert rows["linear"].failed == 0
    assert rows["linear"].metrics["roc_auc"].mean > 0.7
    reasons = {
        "raises": "RuntimeError: this method always fails",
        "hangs": "Timeout: over 5 s",
        "nan": "ValueError: predict_proba returned NaN or infinite values for 15 of 15 graphs.",
        "hungry": "MemoryLimit: ",
        "suicidal": "ProcessDied: the process was killed by SIGKILL while running the job",
    }
    for name, reason in reasons.items():
        assert rows[name].failed == rows[name].jobs == 2
        assert rows[name].verdict.startswith(f"2 of 2 jobs failed: {reason}"), rows[name].verdict
    assert len(list(Store(tmp_path).errors())) == 2 * len(bad)


def test_a_failed_job_is_tried_again_and_finished_ones_are_not(tmp_path: Path) -> None:
    plan = Plan(toy_source(), (toy_method("flaky", Raises), toy_method("constant", Prior)), repeats=1)
    _run(plan, tmp_path)
    mended = replace(plan, methods=(toy_method("flaky", Prior), toy_method("constant", Prior)))
    outcomes: list[Outcome] = []
    table = _run(mended, tmp_path, on_outcome=outcomes.append)
    assert [outcome.job.method for outcome in outcomes] == ["flaky"] * 3
    assert [row.failed for row in table.rows] == [0, 0]
    assert list(Store(tmp_path).errors()) == []


def test_no_test_graph_or_label_reaches_estimator_or_transformer_before_prediction(tmp_path: Path) -> None:
    log = tmp_path / "log"
    study = make_samples(n_graphs=24, n_sites=2, n_unlabelled=4)
    method = toy_method("spy", Spy, parameters={"log": str(log)}, space={"strength": [1, 2]}, use_unlabeled=True)
    step = Step("spy", "benchmark_toys:SpyTransformer", {"log": str(log)}, columns=("age",))
    source = toy_source(n_graphs=24, n_sites=2, n_unlabelled=4)
    protocol = Protocol(n_folds=2, search="exhaustive")
    plan = Plan(source, (method,), protocol, repeats=1, preparation=(step,))
    for task, split in zip(plan.tasks(tmp_path), plan.protocol.splits(study, 0), strict=True):
        log.write_text("")
        with local_executor(1) as executor:
            run([task], Store(tmp_path), executor)
        calls = [json.loads(line) for line in log.read_text().splitlines()]
        train, test = set((100 + split.train).tolist()), set((100 + split.test).tolist())
        truth = {100 + i: int(label) for i, label in enumerate(study.labels)}
        fits = [call for call in calls if call["call"] == "fit"]
        # 3 inner folds of (transformer + 3 candidates), then the final fit of both
        assert len(fits) == 3 * (1 + 3) + 2
        for call in fits:
            assert set(call["graphs"]) <= train
            assert call["labels"] == [truth[graph] for graph in call["graphs"]]
        for call in (call for call in fits if call["who"] == "transformer"):
            assert call["ages"] == [graph - 100 for graph in call["graphs"]]
            assert call["sites"] == study.sites[np.array(call["graphs"], dtype=int) - 100].tolist()
        for call in (call for call in fits if call["who"] == "estimator"):
            assert call["unlabelled"] == (100 + study.unlabelled).tolist()
        # Settings are ranked by ROC AUC; the fit whose probabilities are stored alone is calibrated.
        assert [call["calibrate"] for call in fits if call["who"] == "estimator"] == [False] * 9 + [True]
        seen = [index for index, call in enumerate(calls) if set(call["graphs"]) & test]
        assert [(calls[i]["who"], calls[i]["call"]) for i in seen] == [
            ("transformer", "transform"),
            ("estimator", "predict"),
        ]
        assert seen == [len(calls) - 2, len(calls) - 1]


def test_tuning_keeps_defaults_unless_a_setting_is_better_inside_the_training_fold(tmp_path: Path) -> None:
    sighted = toy_method("linear", Logistic, space={"blind": [True, False]})
    blind = replace(sighted, parameters={"blind": True})
    plan = Plan(toy_source(n_graphs=90, effect=3.0), (sighted, blind), repeats=1)
    for protocol, gain in (("nested", {"blind": False}), ("paper", {})):
        _run(replace(plan, protocol=Protocol(protocol)), tmp_path / protocol)
        records = list(Store(tmp_path / protocol).records())
        assert [r["settings"] for r in records if not r["job"]["parameters"]] == [{}] * 3
        assert [r["settings"] for r in records if r["job"]["parameters"]] == [gain] * 3


@pytest.mark.parametrize("executor", [InProcessExecutor(), None])
def test_every_job_has_one_thread(tmp_path: Path, executor: Executor | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "2")
    with threadpool_limits(limits=2):
        before = threadpool_info(), dict(os.environ)
        assert max(pool["num_threads"] for pool in before[0]) == 2
        plan = Plan(toy_source(), (toy_method("threads", CountsThreads),), repeats=1)
        _run(plan, tmp_path, local_executor(1) if executor is None else nullcontext(executor))
        assert (threadpool_info(), dict(os.environ)) == before  # of the program that runs the jobs
    assert {record["probabilities"][0][1] for record in Store(tmp_path).records()} == {1.0}


@pytest.fixture
def unset_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of the C library; Dask makes some."""
    for name in os.environ:
        if name == "GLIBC_TUNABLES" or name.startswith("MALLOC_"):
            monkeypatch.delenv(name)


@pytest.mark.usefixtures("unset_memory")
def test_the_memory_of_jobs_is_kept_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Worker._environment()["GLIBC_TUNABLES"] == KEPT_MEMORY["GLIBC_TUNABLES"]
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.check=0")
    assert Worker._environment()["GLIBC_TUNABLES"] == "glibc.malloc.check=0"
    monkeypatch.delenv("GLIBC_TUNABLES")
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")
    assert "GLIBC_TUNABLES" not in Worker._environment()


@pytest.mark.skipif(sys.platform != "linux", reason="memory is kept by settings of glibc")
@pytest.mark.usefixtures("unset_memory")
def test_memory_that_a_job_has_freed_is_given_back_before_the_next_one() -> None:
    """The memory of a job is measured and limited by itself."""
    code = """
import numpy as np, psutil
from isocapsnet.evaluation.engine.child import _return_memory
blocks = [np.ones(2**20) for _ in range(50)]  # 8 MiB each
del blocks
before = psutil.Process().memory_info().rss
_return_memory()
print(before - psutil.Process().memory_info().rss)
"""
    answer = subprocess.run(
        [sys.executable, "-c", code], env=Worker._environment(), check=True, capture_output=True, text=True
    )
    assert int(answer.stdout) > 300e6


@pytest.mark.skipif(sys.platform != "linux", reason="memory is kept by settings of glibc")
@pytest.mark.usefixtures("unset_memory")
def test_a_search_holds_one_fitted_model_and_no_memory_of_earlier_fits(tmp_path: Path) -> None:
    code = """
import sys
sys.path[:0] = sys.argv[1:]
from pathlib import Path
import numpy as np
import psutil
from benchmark_toys import Logistic, toy_method, toy_source
from isocapsnet._stages import watching
from isocapsnet.evaluation import Plan, Protocol
from isocapsnet.evaluation.engine.child import ReturningMemory
from isocapsnet.evaluation.jobs import run_job

held = []

class Large(Logistic):
    def fit(self, X, y):
        held.append(psutil.Process().memory_info().rss)
        self.weights_ = [np.ones(2**20) for _ in range(25)]  # 8 MiB each
        return super().fit(X, y)

method = toy_method("large", Large, parameters={}, space={"C": [0.1, 1.0, 10.0]})
plan = Plan(toy_source(), (method,), Protocol(n_candidates=3, search="exhaustive"), repeats=1)
with watching(ReturningMemory(lambda stage: None)):
    run_job(plan.tasks(Path.cwd())[0])
print(len(held), max(held) - held[0])
"""
    answer = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parents[1])],
        env=Worker._environment(), cwd=tmp_path, check=True, capture_output=True, text=True,
    )  # fmt: skip
    n_fits, more = map(int, answer.stdout.split())
    assert n_fits > 6 and more < 100e6


def test_artifacts_stand_beside_the_records_and_models_of_the_first_repeat_only(tmp_path: Path) -> None:
    plan = _small_plan(repeats=2, save_model="benchmark_toys:write_model")
    _run(plan, tmp_path)
    with_model = 0
    for task in plan.tasks(tmp_path):
        folder = Store(tmp_path).artifacts(task.job)
        if task.job.permutation or task.job.audit is not None:
            assert not folder.exists()
            continue
        assert (folder / "model.safetensors").exists() == (task.job.repeat == 0)
        with_model += task.job.repeat == 0
        if task.job.method == "linear":
            assert json.loads((folder / "history.json").read_text()) == [{"epoch": 1, "train_loss": 0.5}]
            assert np.array_equal(np.load(folder / "templates.npz")["templates"], np.eye(3)[None])
    assert with_model == 6
    assert not list((tmp_path / "partial").iterdir())


def test_two_runs_may_finish_the_same_job_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "artifacts" / "key"
    fitted = Logistic().fit(make_study().X, make_study().labels)
    write_artifacts(folder, fitted, [], None)
    remove = shutil.rmtree
    # As if the other run put its artifacts there right after ours had made room.
    monkeypatch.setattr(shutil, "rmtree", lambda path, **options: None if path == folder else remove(path, **options))
    write_artifacts(folder, fitted, [], None)
    assert (folder / "history.json").exists()
    assert not list((tmp_path / "partial").iterdir())


def test_a_permuted_study_loses_its_signal_and_the_data_keep_it(tmp_path: Path) -> None:
    methods = (toy_method("linear", Logistic), toy_method("constant", Prior))
    plan = Plan(toy_source(n_graphs=60, effect=4.0), methods, repeats=1, permutations=30)
    rows = {row.method: row for row in _run(plan, tmp_path).rows}
    assert rows["linear"].p_chance == 1 / 31
    assert rows["linear"].verdict == "above chance"
    assert rows["constant"].verdict.startswith("not distinguishable from chance")


def test_changed_data_are_refused_and_not_mixed_with_old_records(tmp_path: Path) -> None:
    source = replace(toy_source(), digest="the digest at planning time")
    with pytest.raises(InputError, match="the data changed"):
        Plan(source, (toy_method("constant", Prior),)).tasks(tmp_path)


def test_limits_without_a_process_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="need worker processes"):
        _run(_small_plan(), tmp_path, limits=Limits(seconds=1))


# -- interruption -------------------------------------------------------------------------------------------------

_SCRIPT = """
import sys
from pathlib import Path
from benchmark_toys import Logistic, Prior, toy_method, toy_source
from isocapsnet.evaluation import Plan, Store, local_executor, run
folder = Path(sys.argv[1])
methods = (toy_method("linear", Logistic, parameters={"sleep": float(sys.argv[2])}), toy_method("constant", Prior))
plan = Plan(toy_source(effect=3.0), methods, repeats=10)
with local_executor(2) as executor:
    run(plan.tasks(folder), Store(folder), executor, on_outcome=lambda o: print(o.job.key, flush=True))
"""


def _start(folder: Path, sleep: float) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", _SCRIPT, str(folder), str(sleep)], stdout=subprocess.PIPE, text=True)


def _descendants(pid: int) -> list[int]:
    listing = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0]) for line in listing.splitlines() if int(line.split()[1]) == pid]


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _kill_and_resume(folder: Path, n_kills: int) -> None:
    """Kill a run of 60 jobs at random moments, resume it each time, and compare it with an undisturbed one."""
    rng = np.random.default_rng(0)
    computed: list[str] = []
    for _ in range(n_kills):
        before = {record["key"] for record in Store(folder).records()}
        process = _start(folder, sleep=0.05)
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(rng.uniform(0, 0.08))
        children = _descendants(process.pid)
        process.kill()
        told = [line.strip() for line in [first, *process.stdout] if line.strip()]
        process.wait()
        on_disk = {record["key"] for record in Store(folder).records()}
        assert set(told) <= on_disk, "a job was reported before it was on disk"
        assert not set(told) & before, "a finished job was computed again"
        computed += sorted(on_disk - before)
        deadline = time.monotonic() + 5
        while any(map(_is_running, children)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not any(map(_is_running, children)), "a child outlived its killed parent"
    final = _start(folder, sleep=0.05)
    out, _ = final.communicate()
    assert final.returncode == 0
    assert not set(out.split()) & set(computed)
    assert len(_contents(folder)) == 60
    assert len(list(folder.glob("records/??/*"))) == 60


@pytest.mark.parametrize("n_kills", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_random_moments_a_run_resumes_and_ends_as_if_undisturbed(tmp_path: Path, n_kills: int) -> None:
    _kill_and_resume(tmp_path / "killed", n_kills)
    undisturbed = _start(tmp_path / "whole", sleep=0.05)
    undisturbed.communicate()
    assert _contents(tmp_path / "killed") == _contents(tmp_path / "whole")
    tables = [tabulate(Store(tmp_path / name).records()) for name in ("killed", "whole")]
    rows = [[replace(row, seconds=0.0) for row in table.rows] for table in tables]
    assert rows[0] == rows[1]


def test_ctrl_c_stops_cleanly_and_leaves_no_process(tmp_path: Path) -> None:
    process = _start(tmp_path, sleep=30)
    assert process.stdout is not None
    process.stdout.readline()  # a constant job has finished, so both children run
    children = _descendants(process.pid)
    assert children
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode != 0
    assert not any(map(_is_running, children))
    assert len(_contents(tmp_path)) >= 1


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_a_child_deep_in_a_call_dies_with_its_killed_parent(tmp_path: Path) -> None:
    code = _SCRIPT.replace("Logistic", "HoldsTheInterpreter").replace('parameters={"sleep": float(sys.argv[2])}', "")
    begun = tmp_path / "begun"
    environment = {**os.environ, "HOLDS_THE_INTERPRETER": str(begun)}
    command = [sys.executable, "-c", code, str(tmp_path / "run"), "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    deadline = time.monotonic() + 60
    while not begun.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    children = _descendants(process.pid)
    process.kill()
    process.wait()
    assert children
    _, alive = psutil.wait_procs([psutil.Process(pid) for pid in children if psutil.pid_exists(pid)], timeout=10)
    assert not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]


def test_a_child_ends_when_the_pipe_from_its_parent_closes(tmp_path: Path) -> None:
    plan = Plan(toy_source(), (toy_method("hangs", Hangs),), repeats=1)
    task = json.dumps(plan.tasks(tmp_path)[0].to_json())
    code = "from isocapsnet.evaluation.engine import child; child._die_with_parent = lambda: None; child.main()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(task + "\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline()) == {"started": True}
    process.stdin.close()
    assert process.wait(timeout=10) == 0


def test_a_run_survives_the_death_of_a_dask_worker(tmp_path: Path) -> None:
    plan = Plan(
        toy_source(),
        (toy_method("slow", Logistic, parameters={"sleep": 0.1}), toy_method("constant", Prior)),
        repeats=4,
    )
    killed = []

    def kill_one_worker(outcome: Outcome) -> None:
        if not killed:
            from distributed import get_client

            pid = next(iter(get_client().run(os.getpid).values()))
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    table = _run(plan, tmp_path, dask_executor(n_workers=2), on_outcome=kill_one_worker)
    assert killed
    assert [row.failed for row in table.rows] == [0, 0]
    assert len(_contents(tmp_path)) == 24
