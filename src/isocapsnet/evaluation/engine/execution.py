"""Carry out a plan: what its results folder holds, what remains to run, and the table of both."""

import warnings
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path

import numpy as np

from isocapsnet._files import can_lock
from isocapsnet.evaluation.engine.runner import Outcome, load_finished, run_tasks
from isocapsnet.evaluation.engine.stages import OnStage
from isocapsnet.evaluation.engine.worker import Limits
from isocapsnet.evaluation.evidence import Summary, summarise
from isocapsnet.evaluation.plan import Plan
from isocapsnet.evaluation.records import Record
from isocapsnet.evaluation.results import ResultsTable, tabulate_summaries
from isocapsnet.evaluation.store import Store


class Execution:
    """A plan and the records of it in a results folder. Each record is read once."""

    def __init__(self, plan: Plan, folder: Path, *, retry_failed: bool = True) -> None:
        self.store = Store(folder)
        self._test, self._persons = plan.test, plan.source.load().persons
        #: All tasks of the plan.
        self.tasks = plan.tasks(folder)
        self._summaries: dict[str, Summary] = {}
        for task in self.tasks:
            if (record := load_finished(task, self.store)) is not None:
                self._summaries[task.job.key] = summarise(record, self._persons)
        remaining = [task for task in self.tasks if task.job.key not in self._summaries]
        errors = {task.job.key: self.store.load_error(task.job) for task in remaining}
        self._errors: dict[str, Record] = {key: error for key, error in errors.items() if error is not None}
        #: The tasks that :meth:`run` runs.
        self.waiting = [task for task in remaining if retry_failed or task.job.key not in self._errors]
        #: Tasks that were finished, and that failed, in an earlier run.
        self.n_done, self.n_failed = len(self._summaries), len(self._errors)

    def estimate_seconds(self) -> tuple[float, int]:
        """Seconds of computing left, by the finished jobs of each method; and the number of tasks of other methods."""
        seconds = self.mean_seconds()
        estimates = [seconds[task.job.label] for task in self.waiting if task.job.label in seconds]
        return float(np.sum(estimates)), len(self.waiting) - len(estimates)

    def mean_seconds(self) -> dict[str, float]:
        """The mean duration of the finished jobs of each method."""
        seconds: dict[str, list[float]] = defaultdict(list)
        for summary in self._summaries.values():
            seconds[summary.method.label].append(summary.seconds)
        return {label: float(np.mean(several)) for label, several in seconds.items()}

    def run(
        self,
        executor: Executor,
        *,
        limits: Limits = Limits(),  # noqa: B008 - immutable
        on_outcome: Callable[[Outcome], None] = lambda outcome: None,
        on_stage: OnStage | None = None,
    ) -> None:
        """Run the waiting tasks; see ``runner.run_tasks``."""
        if any(task.inner_scores for task in self.waiting) and not can_lock(self.store.folder):
            warnings.warn(
                f"Files in {self.store.folder} cannot be locked: this system or its file system has no locks. "
                "Several runs that write to this folder at the same time may lose inner scores and repeat them.",
                stacklevel=2,
            )
        self.store.remove_leftovers()
        self.store.set_aside_rejected()

        def keep(outcome: Outcome) -> None:
            self._errors.pop(outcome.job.key, None)
            if outcome.record is not None:
                self._summaries[outcome.job.key] = summarise(outcome.record, self._persons)
            else:
                self._errors[outcome.job.key] = {"job": outcome.job.to_json(), "reason": outcome.error}
            on_outcome(outcome)

        run_tasks(self.waiting, self.store, executor, limits=limits, on_outcome=keep, on_stage=on_stage)

    def table(self) -> ResultsTable:
        """The table of all records and errors, in the order of the plan."""
        keys = [task.job.key for task in self.tasks]
        return tabulate_summaries(
            (self._summaries[key] for key in keys if key in self._summaries),
            [self._errors[key] for key in keys if key in self._errors],
            self._test,
        )
