"""The process that runs jobs: one JSON task per line in, one JSON answer per line out.

:mod:`isocapsnet.evaluation.engine.worker` starts it. It ends with its parent: Linux kills it, and on every system a
thread waits for the pipe from the parent to close.
"""

import ctypes
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from isocapsnet._files import full_disk
from isocapsnet._stages import Watcher, watching
from isocapsnet.evaluation.engine.stages import StageReporter
from isocapsnet.evaluation.failures import describe_failure
from isocapsnet.evaluation.jobs import Task, run_job
from isocapsnet.evaluation.timing import time_job

_PR_SET_PDEATHSIG = 1


def attempt(
    content: dict[str, Any],
    on_start: Callable[[], None] = lambda: None,
    caught: type[BaseException] | tuple[type[BaseException], ...] = (Exception, SystemExit),
    watcher: Watcher | None = None,
) -> dict[str, Any]:
    """``{"record": ...}``, ``{"error": ...}`` or, if the disk is full, ``{"full": file}``.

    ``on_start`` is called when data and method are loaded, and ``watcher`` is told the stages of the job. The
    exceptions ``caught`` become the error of the job; a child process catches all exceptions.
    """
    try:
        task = Task.from_json(content)
        task.load()
        on_start()
        with watching(watcher or Watcher()):
            return {"record": run_job(task) if task.trial_seconds is None else time_job(task, task.trial_seconds)}
    except caught as error:
        full = full_disk(error)
        if full is not None:
            return {"full": str(full.filename or "a temporary file")}
        return {"error": describe_failure(error)}


def main() -> None:
    """Answer tasks until the parent is gone."""
    _die_with_parent()
    # The output of a method must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    tasks: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read_tasks, args=(tasks,), daemon=True).start()

    def answer(content: dict[str, Any]) -> None:
        try:
            text = json.dumps(content)
        except (TypeError, ValueError, RecursionError) as error:  # content that is not JSON
            text = json.dumps({"error": describe_failure(error)})
        answers.write(text + "\n")
        answers.flush()

    def start() -> None:
        answer({"started": True})

    while True:
        reporter = ReturningMemory(lambda stage: answer({"stage": list(stage)}))
        answer(attempt(json.loads(tasks.get()), start, BaseException, reporter))
        _return_memory()


class ReturningMemory(StageReporter):
    """Also gives back what a stage has freed before the next one, so that a job holds no more than its largest fit."""

    def on_stage(self, stage: str, number: int, total: int) -> None:
        _return_memory()
        super().on_stage(stage, number, total)


def _return_memory() -> None:
    """Give freed memory back to the system: that of a job is measured and limited by itself."""
    if sys.platform == "linux":
        with suppress(AttributeError):  # there are C libraries without this function
            ctypes.CDLL(None).malloc_trim(0)


def _read_tasks(tasks: "queue.SimpleQueue[str]") -> None:
    for line in sys.stdin:
        tasks.put(line)
    os._exit(0)


def _die_with_parent() -> None:
    """Ask Linux to kill this process with its parent, even inside a long call that holds the interpreter."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
