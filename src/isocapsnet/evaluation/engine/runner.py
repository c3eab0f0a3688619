"""Run jobs on any ``concurrent.futures.Executor`` and put each result into the store as it comes."""

import errno
import os
import queue
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from isocapsnet._files import DamagedError
from isocapsnet._threads import one_thread
from isocapsnet._validation import InputError
from isocapsnet.evaluation.engine.child import attempt
from isocapsnet.evaluation.engine.executors import InProcessExecutor
from isocapsnet.evaluation.engine.memory import can_watch_memory
from isocapsnet.evaluation.engine.worker import Limits, run_in_child
from isocapsnet.evaluation.failures import describe_failure
from isocapsnet.evaluation.jobs import Job, Task, describe_fold
from isocapsnet.evaluation.store import Store


@dataclass(frozen=True)
class Outcome:
    """A job that ended: ``error`` is None, or why it failed."""

    job: Job
    seconds: float
    error: str | None = None


def run(
    tasks: Iterable[Task],
    store: Store,
    executor: Executor,
    *,
    limits: Limits | None = None,
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
) -> None:
    """Run the tasks whose jobs the store does not hold yet.

    Records and artifacts that cannot be used are set aside with a warning first. Results are stored in the order they
    come in, each before ``on_outcome`` hears of it. On Ctrl-C, or any other exception, jobs that have not started are
    cancelled and it is raised; what is stored stays. So it is when the disk is full (OSError).
    """
    limits = limits or Limits()
    in_process = isinstance(executor, InProcessExecutor)
    if in_process and limits != Limits():
        raise InputError(
            "Limits on time and memory need worker processes, which a job in this process does not have; run at least "
            "one worker, or set no limits."
        )
    if limits.memory is not None and not can_watch_memory():
        raise InputError("A memory limit needs Linux, where the memory of a process can be watched.")
    how = _run_here if in_process else run_in_child
    finished: queue.SimpleQueue[Future[dict[str, Any]]] = queue.SimpleQueue()
    waiting: dict[Future[dict[str, Any]], Task] = {}
    remaining, _ = split_finished(tasks, store)
    store.set_aside_rejected()
    try:
        for task in remaining:
            future = executor.submit(how, task.to_json(), limits)
            waiting[future] = task
            future.add_done_callback(finished.put)
            while not finished.empty():
                _settle(finished.get(), waiting, store, on_outcome)
        while waiting:
            _settle(finished.get(), waiting, store, on_outcome)
    finally:
        for future in waiting:
            future.cancel()


def split_finished(tasks: Iterable[Task], store: Store) -> tuple[list[Task], Iterator[dict[str, Any]]]:
    """The tasks that remain, and the records of those that the store holds, read one by one when asked for.

    A task remains, too, when what its job left beside the record is damaged.
    """
    remaining: list[Task] = []
    finished: list[Task] = []
    for task in tasks:
        whole = task.artifacts is None or store.has_whole_artifacts(task.job)
        (finished if load_record(task, store) is not None and whole else remaining).append(task)
    return remaining, filter(None, (load_record(task, store) for task in finished))


def load_record(task: Task, store: Store) -> dict[str, Any] | None:
    """The record of a task, held against the fold that the task is about; None where there is none."""
    return store.load(task.job, describe_fold(task.source.load(), task.job))


def _run_here(task: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """Run a task in this very process: for debugging, without limits."""
    with suppress(Exception):  # attempt reports what cannot be loaded
        Task.from_json(task).load()  # libraries are limited once they are there
    with one_thread():
        return attempt(task)


def _settle(
    future: "Future[dict[str, Any]]",
    waiting: "dict[Future[dict[str, Any]], Task]",
    store: Store,
    on_outcome: Callable[[Outcome], None],
) -> None:
    """Store what a future brought, record or error, and tell."""
    job = waiting.pop(future).job
    if future.cancelled():
        raise InputError("The cluster went away and took its jobs along; run the same command again to go on.")
    failure = future.exception()
    answer: dict[str, Any] = future.result() if failure is None else {"error": describe_failure(failure)}
    if "full" in answer:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), answer["full"])
    error = answer.get("error")
    if error is None:
        try:
            store.save(job, answer["record"])
        except (DamagedError, InputError) as invalid:
            error = {"reason": f"InvalidRecord: what the job returned {invalid}", "traceback": ""}
    if error is not None:
        store.save_error(job, error)
    seconds = sum(answer["record"]["seconds"].values()) if error is None else 0.0
    on_outcome(Outcome(job, seconds, None if error is None else error["reason"]))
