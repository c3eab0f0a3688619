"""What 40,000 subjects of 400 nodes would need: unit costs measured here, and the real scheduler in simulated time.

    python benchmarks/scaling.py --output docs/performance/scaling.json    # both parts
    python benchmarks/scaling.py --only cluster --workers 2000 --permutations 20

*Unit costs* are processor seconds of an epoch and peak memory of a fit, measured at 200 nodes and scaled to 400 by the
square of the nodes. *Cluster* runs a plan of all methods through ``Execution`` and
``run_tasks``, with files on disk, on an executor whose workers are simulated: job lengths come from the unit costs,
some jobs fail, and workers die and come back.
"""

import argparse
import heapq
import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from isocapsnet._threads import one_thread
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.evaluation import DataSource, Execution, MethodSpec, Plan, Protocol, Store
from isocapsnet.evaluation.engine.memory import peak_memory, reset_peak_memory
from isocapsnet.evaluation.jobs import Job, Task, describe_fold
from isocapsnet.models import MODELS

HERE = Path(__file__).parent
N_SUBJECTS, N_NODES, N_REPEATS = 40_000, 400, 5
#: Methods whose time and memory grow with graphs, nodes and epochs alone; the others have no epochs.
METHODS = (
    "autoencoder", "gcn", "gin", "diffpool", "dgcnn", "cnn", "sdbn", "isonn", "fastisonn", "isocapsnet", "capsnet",
)  # fmt: skip
SIZES, N_GRAPHS = (100, 200), 64
#: Assumptions about a cluster: workers that die per hour and their hours away, jobs that fail, spread of job lengths.
DEATHS, AWAY, FAILING, SPREAD = 1 / 200, 0.1, 0.01, 0.25
_ATTEMPTS = 4  # Dask gives a job up when it was on three workers that died
_STARTS = 20  # of the command, after which jobs that were always given up are counted
#: Hours up to which the jobs of a method are run on one core with permutations.
SHORT = 48


# -- unit costs ---------------------------------------------------------------------------------------------------


def measure_method(method: str) -> dict[str, float]:
    """Processor seconds per graph and epoch, and gigabytes of a fit beyond its graphs, at 400 nodes.

    Windows, edges and weights grow with the square of the nodes, so the figures of the larger size are scaled by it.
    The power between the two sizes is a check.
    """
    small, large = (_measure_in_a_process(method, n_nodes) for n_nodes in SIZES)
    square = (N_NODES / SIZES[1]) ** 2
    per_square = (large["gigabytes"] - small["gigabytes"]) / (SIZES[1] ** 2 - SIZES[0] ** 2)
    return {
        **{f"seconds_{n_nodes}": row["seconds"] for n_nodes, row in zip(SIZES, (small, large), strict=True)},
        "power": np.log(large["seconds"] / small["seconds"]) / np.log(SIZES[1] / SIZES[0]),
        "seconds": large["seconds"] * square,
        "gigabytes": large["gigabytes"] + per_square * (N_NODES**2 - SIZES[1] ** 2),
    }


def _measure_in_a_process(method: str, n_nodes: int) -> dict[str, float]:
    done = subprocess.run([sys.executable, __file__, "--unit", method, str(n_nodes)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{method} at {n_nodes} nodes failed:\n{done.stderr}")
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def measure_unit(method: str, n_nodes: int) -> dict[str, float]:
    """In this process: the difference between fits of three epochs and of one, per graph and epoch; peak memory."""
    X = np.random.default_rng(0).normal(size=(N_GRAPHS, n_nodes, n_nodes)).astype(np.float32)
    X = (X + X.transpose(0, 2, 1)) / 2
    settings = {"validation_fraction": 0.0, "patience": None, "calibrate": False, "windows": "contiguous"}
    settings |= {"random_state": 0, "tolerance": 0.0}
    model = MODELS[method]()
    model.set_params(**{name: value for name, value in settings.items() if name in model.get_params()})
    used = []
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")
        for epochs in (1, 1, 3):  # the first compiles
            reset_peak_memory()
            began = time.process_time()
            clone(model).set_params(max_epochs=epochs).fit(X, np.arange(N_GRAPHS) % 2)
            used.append(time.process_time() - began)
    return {"seconds": (used[2] - used[1]) / 2 / N_GRAPHS, "gigabytes": peak_memory() / 1024**3 - X.nbytes / 1024**3}


def gpu_seconds() -> float:
    """Seconds per graph and epoch of Iso-CapsNet on an H200 at 400 nodes, by the figures of ``gpu.json``.

    Match and routing were measured at 400 nodes; the rest of a training step at 90 nodes grows with their square.
    """
    gpu = json.loads((HERE.parent / "docs" / "performance" / "gpu.json").read_text())
    routing = {row["n_nodes"]: row for row in gpu["routing"] if (row["n_graphs"], row["n_templates"]) != (8, 1)}
    match = next(row for row in gpu["sizes"] if row["kernel_size"] == 4)
    at_90 = 4 * match["replayed"]["milliseconds"] + routing[90]["replayed"]["milliseconds"]
    rest = (gpu["training"]["replayed"]["milliseconds"] - at_90) * (N_NODES / 90) ** 2
    step = gpu["large"]["fused"]["milliseconds"] / 2 + 4 * routing[N_NODES]["replayed"]["milliseconds"] + rest
    return step / 1000 / 64


def job_hours(method: str, seconds: float, n_subjects: int = N_SUBJECTS) -> float:
    """One job of a nested benchmark: its inner fits on two thirds of the training subjects, and the last fit."""
    protocol, model = Protocol(), MODELS[method]()
    n_train = n_subjects * (protocol.n_folds - 1) / protocol.n_folds
    n_grid = int(np.prod([len(values) for values in model.search_space().values()]))
    inner = protocol.count_inner_fits(min(n_grid, protocol.n_candidates))
    share = (protocol.inner_folds - 1) / protocol.inner_folds
    return float((1 + inner * share) * n_train * model.get_params()["max_epochs"] * seconds / 3600)


def measure_units() -> dict[str, Any]:
    rows = {}
    for method in METHODS:
        rows[method] = measure_method(method)
        rows[method]["hours"] = job_hours(method, rows[method]["seconds"])
        print(method, json.dumps(rows[method]), flush=True)
    gpu = gpu_seconds()
    return {"methods": rows, "gpu": {"seconds": gpu, "hours": job_hours("isocapsnet", gpu)}, "runner": measure_runner()}


def measure_runner() -> dict[str, float]:
    """What the runner does for a job whose test fold has 13,333 subjects: processor seconds, and bytes on disk."""
    n = N_SUBJECTS
    graphs = np.broadcast_to(np.eye(2, dtype=np.float32), (n, 2, 2)) * (1 + np.arange(n)[:, None, None] / n)
    study = BrainGraphs(graphs.astype(np.float32), np.arange(n) % 2)
    [task, *_] = _make_plan(study, ["one"], 0).tasks(Path())
    record = _make_record(task)
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        Store(folder).save(task.job, record)
        seconds = time.process_time() - began
        [file] = Path(folder).glob("records/??/*")
        return {"seconds": seconds, "bytes": file.stat().st_size}


# -- the cluster --------------------------------------------------------------------------------------------------


class SimulatedCluster(Executor):
    """Workers in simulated time behind the interface that the runner uses; jobs start when all are submitted.

    ``kept`` are the hours of work whose inner scores are on disk, by the key of the job; None if there are none.

    Attributes
    ----------
    hours, busy, lost : float
        Until the last job ended; of all workers on jobs; of these on work that a death made void.
    """

    def __init__(
        self, n_workers: int, n_tasks: int, length: Callable[[Job], float], kept: dict[str, float] | None, seed: int
    ) -> None:
        self._n_tasks, self._n_workers, self._length = n_tasks, n_workers, length
        self._kept, self._keeps_scores = {} if kept is None else kept, kept is not None
        self._rng = np.random.default_rng(seed)
        self._queue: deque[tuple[Future[Any], Task, int]] = deque()
        self._thread = threading.Thread(target=self._simulate, daemon=True)
        self.hours = self.busy = self.lost = 0.0
        self.deaths = self.failed = self.given_up = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        task = Task.from_json(args[0])
        self._queue.append((future, task, 1))
        if len(self._queue) == self._n_tasks:
            self._thread.start()
        return future

    def _simulate(self) -> None:
        number = itertools.count()
        events: list[tuple[float, int, Callable[[float], None]]] = []
        n_left, n_idle = self._n_tasks, self._n_workers

        def after(time: float, do: Callable[[float], None]) -> None:
            heapq.heappush(events, (time, next(number), do))

        def come_back(now: float) -> None:
            nonlocal n_idle
            n_idle += 1

        def end(future: "Future[Any]", answer: dict[str, Any], now: float) -> None:
            nonlocal n_left
            self.hours, n_left = now, n_left - 1
            future.set_result(answer)
            come_back(now)

        def die(future: "Future[Any]", task: Task, attempt: int, now: float) -> None:
            nonlocal n_left
            if attempt < _ATTEMPTS:
                self._queue.appendleft((future, task, attempt + 1))
            else:
                self.given_up, self.hours, n_left = self.given_up + 1, now, n_left - 1
                future.set_result({"error": {"reason": "KilledWorker", "traceback": ""}})
            after(now + AWAY, come_back)

        now = 0.0
        while n_left:
            while n_idle and self._queue:
                future, task, attempt = self._queue.popleft()
                n_idle -= 1
                left = self._length(task.job) - self._kept.get(task.job.key, 0.0)
                until_death = self._rng.exponential(1 / DEATHS)
                self.busy += min(left, until_death)
                if left <= until_death:
                    after(now + left, partial(end, future, self._answer(task)))
                    continue
                self.deaths += 1
                self.lost += until_death - self._keep(task.job, until_death)
                after(now + until_death, partial(die, future, task, attempt))
            now, _, do = heapq.heappop(events)
            do(now)

    def _keep(self, job: Job, hours: float) -> float:
        """Keep the hours whose inner fits are stored, all but those of the fit that was running; how many these are."""
        fits = 1 + Protocol.from_json(job.protocol).count_inner_fits(8)
        one = self._length(job) / fits
        kept = hours // one * one if self._keeps_scores and not job.permutation else 0.0
        self._kept[job.key] = self._kept.get(job.key, 0.0) + kept
        return kept

    def _answer(self, task: Task) -> dict[str, Any]:
        if self._rng.random() < FAILING:
            self.failed += 1
            return {"error": {"reason": "RuntimeError: simulated", "traceback": ""}}
        return {"record": _make_record(task)}


def make_study(n_graphs: int = 60) -> BrainGraphs:
    """A dataset whose content does not matter."""
    graphs = np.random.default_rng(0).normal(size=(n_graphs, 4, 4)).astype(np.float32)
    return BrainGraphs(graphs + graphs.swapaxes(1, 2), np.arange(n_graphs) % 2)


def _make_plan(study: BrainGraphs, methods: list[str], permutations: int) -> Plan:
    from isocapsnet.evaluation.samples import Samples

    samples = Samples(study, None, False)
    source = DataSource("", samples.digest)
    source.keep(samples)
    space = {"strength": list(range(8))}
    specs = tuple(MethodSpec(name, "sklearn.dummy:DummyClassifier", space=space) for name in methods)
    return Plan(source, specs, repeats=N_REPEATS, permutations=permutations)


def _make_record(task: Task) -> dict[str, Any]:
    fold = describe_fold(task.source.load(), task.job)
    return {
        "key": task.job.key,
        "job": task.job.to_json(),
        **fold,
        "probabilities": [[0.123456789012, 0.876543210988]] * len(fold["test"]),
        "settings": {},
        "seconds": {"tune": 1.0, "fit": 1.0, "predict": 1.0},
        "peak_memory": 1,
        "versions": {},
    }


def simulate(
    hours: dict[str, float], n_workers: int, permutations: int, *, keeps_scores: bool = True
) -> dict[str, Any]:
    """A benchmark of methods with these job lengths; then the same command again until nothing has failed."""
    plan = _make_plan(make_study(), list(hours), permutations)

    def length(job: Job) -> float:
        rng = np.random.default_rng(int(job.key[:8], 16))
        return hours[job.method] * float(np.exp(SPREAD * rng.normal()))

    totals = dict.fromkeys(("hours", "busy", "lost", "deaths", "failed", "given_up"), 0.0)
    began, runs = time.process_time(), 0
    kept: dict[str, float] | None = {} if keeps_scores else None
    with tempfile.TemporaryDirectory() as folder:
        n_jobs = len(plan.tasks(Path(folder)))
        while (execution := Execution(_without_artifacts(plan), Path(folder))).waiting and runs < _STARTS:
            cluster = SimulatedCluster(n_workers, len(execution.waiting), length, kept, seed=runs)
            execution.run(cluster)
            totals = {name: value + getattr(cluster, name) for name, value in totals.items()}
            runs += 1
        n_records = sum(1 for _ in Store(folder).records())
        n_files = sum(1 for _ in Path(folder).glob("records/??/*"))
    ideal = sum(length(task.job) for task in plan.tasks(Path())) / n_workers
    runner = (time.process_time() - began) / n_jobs
    row = {"n_workers": n_workers, "permutations": permutations, "keeps_scores": keeps_scores, "jobs": n_jobs}
    row["unfinished"] = n_jobs - n_records
    return {**row, "runs": runs, "files": n_files, "ideal_hours": ideal, "runner_seconds": runner, **totals}


def _without_artifacts(plan: Plan) -> Plan:
    """The plan with tasks that leave no files but records."""

    class Bare(Plan):
        def _task(self, *arguments: Any) -> Task:
            task = super()._task(*arguments)
            return Task(**{**vars(task), "artifacts": None})

    return Bare(**{name: getattr(plan, name) for name in Plan.__dataclass_fields__})


def simulate_all(units: dict[str, Any], n_workers: int, permutations: int) -> list[dict[str, Any]]:
    """All methods on CPU workers, without and with permutations; Iso-CapsNet alone on GPUs."""
    hours = {method: row["hours"] for method, row in units["methods"].items()}
    short = {method: length for method, length in hours.items() if length < SHORT}
    on_gpu = {"isocapsnet": units["gpu"]["hours"]}
    rows = []
    for what, lengths, workers, number, keeps in [
        ("all methods", hours, 64, 0, True),
        ("all methods", hours, n_workers, 0, True),
        ("all methods", hours, n_workers, 0, False),
        (f"the {len(short)} methods below {SHORT} h", short, n_workers, permutations, True),
        ("isocapsnet on GPUs", on_gpu, 8, 0, True),
        ("isocapsnet on GPUs", on_gpu, 64, permutations, True),
    ]:
        rows.append({"what": what, **simulate(lengths, workers, number, keeps_scores=keeps)})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("units", "cluster"), help="one part; the other stays as it is in the output")
    parser.add_argument("--workers", type=int, default=2000, help="workers of the simulated cluster (2000)")
    parser.add_argument("--permutations", type=int, default=20, help="permutations of the simulated benchmark")
    parser.add_argument("--output", type=Path, default=HERE.parent / "docs" / "performance" / "scaling.json")
    parser.add_argument("--unit", nargs=2, metavar=("METHOD", "NODES"), help="measure one method in this process")
    options = parser.parse_args()
    if options.unit is not None:
        print(json.dumps(measure_unit(options.unit[0], int(options.unit[1]))))
        return
    result = json.loads(options.output.read_text()) if options.output.exists() else {}
    if options.only != "cluster":
        result["units"] = measure_units()
    if options.only != "units":
        result["cluster"] = simulate_all(result["units"], options.workers, options.permutations)
    options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
