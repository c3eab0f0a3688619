"""Run jobs on any ``concurrent.futures.Executor`` and store each result as it comes in."""

import errno
import os
import queue
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from isocapsnet._files import DamagedError
from isocapsnet._threads import one_thread
from isocapsnet._validation import InputError
from isocapsnet.evaluation.engine.child import attempt
from isocapsnet.evaluation.engine.executors import InProcessExecutor
from isocapsnet.evaluation.engine.stages import OnStage, Stage, StageReporter
from isocapsnet.evaluation.engine.worker import Limits, run_in_child
from isocapsnet.evaluation.failures import describe_failure
from isocapsnet.evaluation.jobs import Job, Task, describe_fold
from isocapsnet.evaluation.records import Record
from isocapsnet.evaluation.store import Store


@dataclass(frozen=True)
class Outcome:
    """A finished job: its record, or its error (``reason`` and ``traceback``)."""

    job: Job
    record: Record | None = None
    failure: Mapping[str, str] | None = None

    @property
    def error(self) -> str | None:
        """Why the job failed."""
        return None if self.failure is None else self.failure["reason"]


def run(tasks: Iterable[Task], store: Store, executor: Executor, **options: Any) -> None:
    """Run the tasks that have no usable record and artifacts in the store.

    ``executor`` runs them, with the ``options`` of ``run_tasks``. Records and artifacts that cannot be used are set
    aside with a warning first.
    """
    remaining = [task for task in tasks if load_finished(task, store) is None]
    store.set_aside_rejected()
    run_tasks(remaining, store, executor, **options)


def run_tasks(
    tasks: Iterable[Task],
    store: Store,
    executor: Executor,
    *,
    limits: Limits = Limits(),  # noqa: B008 - immutable
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
    on_stage: OnStage | None = None,
) -> None:
    """Run tasks and store each result as it comes in, before ``on_outcome`` is called.

    ``on_stage`` is called with the stages of jobs that run in this process or in its own processes, from any thread.
    On Ctrl-C, a full disk (OSError) or any other exception, jobs that have not started are cancelled and the exception
    is raised; stored results stay.
    """
    is_here = isinstance(executor, InProcessExecutor)
    if is_here and limits != Limits():
        raise InputError("Limits on time and memory need worker processes; use jobs=1 or more, or set no limits.")
    finished: queue.SimpleQueue[Future[dict[str, Any]]] = queue.SimpleQueue()
    waiting: dict[Future[dict[str, Any]], Task] = {}
    try:
        for task in tasks:
            future = submit(executor, task, limits, on_stage)
            waiting[future] = task
            future.add_done_callback(finished.put)
            while not finished.empty():
                _settle(finished.get(), waiting, store, on_outcome)
        while waiting:
            _settle(finished.get(), waiting, store, on_outcome)
    finally:
        for future in waiting:
            future.cancel()


def submit(
    executor: Executor,
    task: Task,
    limits: Limits = Limits(),  # noqa: B008 - immutable
    on_stage: OnStage | None = None,
) -> "Future[dict[str, Any]]":
    """Hand a task to an executor; the future has the answer of :func:`~isocapsnet.evaluation.engine.child.attempt`.

    The stages of jobs on other machines are not reported.
    """
    run = _run_here if isinstance(executor, InProcessExecutor) else run_in_child
    if on_stage is None or not isinstance(executor, InProcessExecutor | ThreadPoolExecutor):
        return executor.submit(run, task.to_json(), limits)
    report = on_stage

    def on_content(content: list[Any]) -> None:
        with suppress(Exception):  # a display that fails must not fail the job
            report(task.job, Stage.from_json(content))

    return executor.submit(run, task.to_json(), limits, on_content)


def load_finished(task: Task, store: Store) -> Record | None:
    """The record of a task whose fold is that of the data; None if it, or its artifacts, must be computed."""
    record = store.load(task.job, describe_fold(task.source.load(), task.job))
    if record is not None and (task.artifacts is None or store.has_whole_artifacts(task.job)):
        return record
    if task.inner_scores is not None:
        store.check_inner_scores(task.job)
    return None


def _run_here(
    task: dict[str, Any], limits: Limits, on_stage: Callable[[list[Any]], None] = lambda stage: None
) -> dict[str, Any]:
    """Run a task in this process, without limits."""
    with suppress(Exception):  # attempt reports errors of loading
        Task.from_json(task).load()  # the threads of libraries can be limited once they are loaded
    with one_thread():
        return attempt(task, watcher=StageReporter(lambda stage: on_stage(list(stage))))


def _settle(
    future: "Future[dict[str, Any]]",
    waiting: "dict[Future[dict[str, Any]], Task]",
    store: Store,
    on_outcome: Callable[[Outcome], None],
) -> None:
    """Store the record or error of a future and call ``on_outcome``."""
    job = waiting.pop(future).job
    if future.cancelled():
        raise InputError("The cluster was closed and its jobs were cancelled; run the benchmark again to continue.")
    failure = future.exception()
    answer: dict[str, Any] = future.result() if failure is None else {"error": describe_failure(failure)}
    if "full" in answer:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), answer["full"])
    record, error = None, answer.get("error")
    if error is None:
        try:
            record = store.save(job, answer["record"])
        except (DamagedError, InputError) as invalid:
            error = {"reason": f"InvalidRecord: what the job returned {invalid}", "traceback": ""}
    if error is not None:
        store.save_error(job, error)
    on_outcome(Outcome(job, record, error))
