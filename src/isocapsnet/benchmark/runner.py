"""Run jobs on any ``concurrent.futures.Executor`` and put each result into the store as it comes."""

import queue
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from isocapsnet._threads import one_thread
from isocapsnet._validation import InputError
from isocapsnet.benchmark.child import attempt
from isocapsnet.benchmark.executors import InProcessExecutor
from isocapsnet.benchmark.jobs import Job, Task
from isocapsnet.benchmark.memory import can_watch_memory
from isocapsnet.benchmark.store import Store
from isocapsnet.benchmark.worker import Limits, run_in_child


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

    Results are stored in the order they come in, each before ``on_outcome`` hears of it. On Ctrl-C, or any other
    exception, jobs that have not started are cancelled and it is raised; what is stored stays.
    """
    limits = limits or Limits()
    in_process = isinstance(executor, InProcessExecutor)
    if in_process and limits != Limits():
        raise InputError("Limits on time and memory need worker processes; use --jobs 1 or more.")
    if limits.memory is not None and not can_watch_memory():
        raise InputError("A memory limit needs Linux, where the memory of a process can be watched.")
    how = _run_here if in_process else run_in_child
    finished: queue.SimpleQueue[Future[dict[str, Any]]] = queue.SimpleQueue()
    waiting: dict[Future[dict[str, Any]], Task] = {}
    try:
        for task in split_finished(tasks, store)[0]:
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
    """The tasks that remain, and the records of those that the store holds, read one by one when asked for."""
    remaining: list[Task] = []
    finished: list[Task] = []
    for task in tasks:
        (remaining if store.load(task.job) is None else finished).append(task)
    return remaining, filter(None, (store.load(task.job) for task in finished))


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
    answer: dict[str, Any] = future.result() if failure is None else {"error": _describe(failure)}
    if "record" in answer:
        store.save(job, answer["record"])
        on_outcome(Outcome(job, sum(answer["record"]["seconds"].values())))
    else:
        store.save_error(job, answer["error"])
        on_outcome(Outcome(job, 0.0, answer["error"]["reason"]))


def _describe(failure: BaseException) -> dict[str, str]:
    """The error record of a job that its executor gave up on (a Dask worker that died again and again, say)."""
    return {"reason": f"{type(failure).__name__}: {failure}", "traceback": ""}
