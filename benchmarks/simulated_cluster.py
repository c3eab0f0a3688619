"""A cluster in simulated time, on which the real runner schedules jobs and stores records."""

import heapq
import itertools
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.evaluation import DataSource, Execution, MethodSpec, Plan, Protocol, Store
from isocapsnet.evaluation.jobs import Job, Task, describe_fold
from isocapsnet.evaluation.samples import Samples

#: Workers that die per hour and their hours away, jobs that fail, spread of job lengths.
DEATHS, AWAY, FAILING, SPREAD = 1 / 200, 0.1, 0.01, 0.25
_REPEATS = 5
_ATTEMPTS = 4  # Dask gives a job up when it was on three workers that died
_STARTS = 20  # of the command, after which jobs that were always given up are counted


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
        return {"record": make_record(task)}


def make_study(n_graphs: int = 60) -> BrainGraphs:
    """A dataset whose content does not matter."""
    graphs = np.random.default_rng(0).normal(size=(n_graphs, 4, 4)).astype(np.float32)
    return BrainGraphs(graphs + graphs.swapaxes(1, 2), np.arange(n_graphs) % 2)


def make_plan(study: BrainGraphs, methods: list[str], permutations: int) -> Plan:
    samples = Samples(study, None, False)
    source = DataSource("", samples.digest)
    source.keep(samples)
    space = {"strength": list(range(8))}
    specs = tuple(MethodSpec(name, "sklearn.dummy:DummyClassifier", space=space) for name in methods)
    return Plan(source, specs, repeats=_REPEATS, permutations=permutations)


def make_record(task: Task) -> dict[str, Any]:
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
    plan = make_plan(make_study(), list(hours), permutations)

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
