"""The time that a benchmark will take: from its finished jobs, and from trials of the methods that have none."""

import heapq
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from isocapsnet._format import seconds
from isocapsnet._planning import Options, publish
from isocapsnet._progress import escape, show_count
from isocapsnet.evaluation.engine.execution import Execution
from isocapsnet.evaluation.engine.executors import InProcessExecutor, count_cores, local_executor
from isocapsnet.evaluation.engine.runner import submit
from isocapsnet.evaluation.engine.worker import Limits
from isocapsnet.evaluation.jobs import Task
from isocapsnet.evaluation.plan import Plan
from isocapsnet.evaluation.timing import STAGES, USUAL_SHARE

#: Seconds of all trials together, and of those of one method.
_ALL_SECONDS, _LEAST_SECONDS, _MOST_SECONDS = 45.0, 3.0, 25.0
# A trial that takes this long is stopped: one epoch or one fit of the method takes longer than a trial may.
_LIMIT_SECONDS = 120.0
# With less of a core in its trials than this, a method would be faster on an idle machine.
_BUSY = 0.6


@dataclass(frozen=True)
class MethodTime:
    """What is known about the time of a method before it runs.

    Attributes
    ----------
    method : str
    n_jobs : int
        Jobs that have to run.
    stages : dict or None
        Seconds of a job: ``search``, ``fit``, ``predict`` and ``explain``, or ``job`` from finished jobs; None if they
        are not known.
    basis : str
        Where the seconds come from.
    core : float
        The share of a core that trials got.
    """

    method: str
    n_jobs: int
    stages: Mapping[str, float] | None
    basis: str
    core: float = 1.0

    def of_job(self, task: Task) -> float:
        """The seconds of a job; only those on the data as given are explained."""
        stages = self.stages or {}
        return sum(stages.values()) - (0.0 if task.artifacts else stages.get("explain", 0.0))


@dataclass(frozen=True)
class RunTime:
    """The time of a run: ``seconds`` of computing by method, and until the end if jobs run at the same time.

    ``wall`` is None if the number of workers is not known; it includes the time until a worker begins.
    """

    methods: Sequence[MethodTime]
    seconds: Mapping[str, float]
    wall: float | None

    def to_json(self) -> dict[str, Any]:
        """For ``results.context``."""
        methods = {entry.method: {"seconds": self.seconds.get(entry.method), **vars(entry)} for entry in self.methods}
        return {"methods": methods, "seconds": sum(self.seconds.values()), "wall": self.wall}

    def table(self) -> Table:
        """One line per method."""
        table = Table(title="Estimated time", title_justify="left", box=box.SIMPLE, padding=(0, 1))
        table.add_column("method", overflow="fold")
        for name in ("jobs", "per job", *STAGES, "in all"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("from")
        for method in self.methods:
            stages = method.stages or {}
            per_job = sum(stages.values()) if method.stages is not None else None
            cells = [seconds(value) for value in (per_job, *(stages.get(name) for name in STAGES))]
            total = seconds(self.seconds.get(method.method))
            table.add_row(escape(method.method), str(method.n_jobs), *cells, total, escape(method.basis))
        return table

    def sentences(self, n_slots: int | None) -> list[str]:
        """The time in all, and what it does not include."""
        computing = seconds(sum(self.seconds.values()))
        if self.wall is None:
            words = f"About {computing} of computing, shared by the workers."
        else:
            several = f" with {n_slots} workers ({computing} of computing)" if (n_slots or 1) > 1 else ""
            words = f"About {seconds(self.wall)} in all{several}."
        unknown = [method.method for method in self.methods if method.stages is None]
        sentences = [words, *([f"This leaves out {', '.join(unknown)}, whose time is not known."] if unknown else [])]
        core = min((method.core for method in self.methods), default=1.0)
        if core < _BUSY:
            sentences.append(
                f"This machine is busy: a trial got {core:.0%} of a core. The estimate assumes that this stays so."
            )
        return sentences


def choose_jobs(options: Options, plan: Plan) -> Options:
    """The options with a number of worker processes, if neither this nor a cluster is given."""
    if (options.jobs, options.scheduler, options.cluster) != (None, None, None):
        return options
    from isocapsnet.models import MODELS
    from isocapsnet.models._device import fits_at_once

    has_device = [spec for spec in plan.methods if "device" in spec.runtime or hasattr(MODELS.get(spec.name), "device")]
    on_gpu = [fits_at_once(spec.runtime.get("device", "auto")) for spec in has_device]
    return replace(options, jobs=min([count_cores(), *filter(None, on_gpu)]))


def describe_jobs(execution: Execution, options: Options) -> str:
    """``12 jobs: 6 done, 0 failed before, 6 to run, about 40 s left``."""
    failed = f"{execution.n_failed} failed before"
    failed += "" if options.retry_failed or not execution.n_failed else " (not run again)"
    n_waiting = len(execution.waiting)
    counts = f"{len(execution.tasks)} jobs: {execution.n_done} done, {failed}, {n_waiting} to run"
    left, n_unknown = execution.estimate_seconds()
    if n_waiting == n_unknown:
        return counts
    slots = options.count_slots()
    estimate = f", about {seconds(left / min(slots or 1, n_waiting))}"
    estimate += " left" if slots else " of computing, shared by the workers"
    return counts + estimate + (f", and {n_unknown} jobs of unknown duration" if n_unknown else "")


def estimate_time(execution: Execution, plan: Plan, options: Options, console: Console) -> RunTime | None:
    """The time that the waiting jobs of a run will take; None if nothing has to run.

    Trials run as the jobs would: in worker processes, several at the same time, on a copy of the data in a temporary
    folder. With ``jobs=0``, they run in this process. Those for a cluster run on this machine.
    """
    n_jobs = Counter(task.job.label for task in execution.waiting)
    if not n_jobs:
        return None
    first = {task.job.label: task for task in reversed(execution.waiting)}
    finished = execution.mean_seconds()
    trials = [first[label] for label in n_jobs if label not in finished]
    answers, startup = _run_trials(trials[::-1], plan, options, console)
    methods = []
    for label, count in n_jobs.items():
        if label in finished:
            methods.append(MethodTime(label, count, {"job": finished[label]}, "finished jobs"))
        else:
            methods.append(_read_answer(label, count, answers[label], plan))
    times = {method.method: method for method in methods}
    waiting = [(task.job.label, times[task.job.label].of_job(task)) for task in execution.waiting]
    totals = {
        method.method: sum(duration for label, duration in waiting if label == method.method)
        for method in methods
        if method.stages is not None
    }
    n_slots = options.count_slots()
    wall = None if n_slots is None else startup + schedule([duration for _, duration in waiting], n_slots)
    return RunTime(methods, totals, wall)


def schedule(durations: Sequence[float], n_slots: int) -> float:
    """When the last job ends if each begins, in this order, as soon as one of ``n_slots`` is free."""
    ends = [0.0] * n_slots
    for duration in durations:
        heapq.heapreplace(ends, ends[0] + duration)
    return max(ends)


def _run_trials(
    tasks: Sequence[Task], plan: Plan, options: Options, console: Console
) -> tuple[dict[str, dict[str, Any]], float]:
    """The answer about one task of each method, and the longest time until a process has begun with one."""
    answers: dict[str, dict[str, Any]] = {}
    if not tasks:
        return answers, 0.0
    startup, samples = 0.0, plan.source.load()
    n_slots = 1 if options.jobs == 0 else min(options.count_slots() or 1, len(tasks))
    with ExitStack() as stack:
        executor: Executor = InProcessExecutor()
        limits, source = Limits(), plan.source
        if options.jobs != 0:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="isocapsnet-"))
            source, limits = publish(samples, Path(folder)), Limits(seconds=_LIMIT_SECONDS)
            executor = stack.enter_context(local_executor(n_slots))
        stack.callback(plan.source.keep, samples)
        show: Callable[[int, str], None] = stack.enter_context(show_count(console, "Timing the methods", len(tasks)))
        waiting, running = list(tasks), dict[Future[dict[str, Any]], tuple[Task, float]]()
        deadline = time.monotonic() + _ALL_SECONDS
        while waiting or running:
            while waiting and len(running) < n_slots:
                share = (deadline - time.monotonic()) * n_slots / len(waiting)
                trial = float(np.clip(share, _LEAST_SECONDS, _MOST_SECONDS))
                task = waiting.pop(0)
                task = replace(task, source=source, trial_seconds=task.trial_seconds or trial)
                show(len(answers), task.job.label)
                began = time.monotonic()
                running[submit(executor, task, limits)] = task, began
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                task, began = running.pop(future)
                answer = answers[task.job.label] = future.result()
                if "record" in answer:
                    startup = max(startup, time.monotonic() - began - answer["record"]["elapsed"])
                    if answer["record"]["is_assumed"] and task.trial_seconds != _MOST_SECONDS:
                        waiting.append(replace(task, trial_seconds=_MOST_SECONDS))  # the end may be seen with more time
                show(len(answers), ", ".join(other.job.label for other, _ in running.values()))
    return answers, startup


def _read_answer(label: str, n_jobs: int, answer: Mapping[str, Any], plan: Plan) -> MethodTime:
    if "record" not in answer:
        reason = answer.get("error", {}).get("reason", "the disk is full")
        return MethodTime(label, n_jobs, None, f"not known: {reason}"[:80])
    record = answer["record"]
    basis = ["a trial"]
    if record["n_train"] < len(plan.folds[0].train):
        basis.append(f"{record['n_train']} training graphs")
    if record["is_assumed"]:
        basis.append(f"{USUAL_SHARE:.0%} of epochs assumed")
    return MethodTime(label, n_jobs, record["seconds"], ", ".join(basis), record["core"])
