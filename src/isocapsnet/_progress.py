"""The progress of a run, with rich: live in a terminal or a notebook, in plain lines elsewhere."""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape as escape_markup
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from isocapsnet._format import seconds
from isocapsnet._safe_text import printable
from isocapsnet._stages import watching
from isocapsnet.evaluation.engine.runner import Outcome
from isocapsnet.evaluation.engine.stages import Stage, StageReporter
from isocapsnet.evaluation.jobs import Job

_PLAIN_LINES = 20
_PLAIN_WIDTH = 120
_LISTED_FAILURES = 5
# Lines about running jobs; more would not fit into a terminal.
_MOST_LINES = 8
# A job that takes longer than expected still needs this share of its time.
_LEAST_LEFT = 0.05
# The fit after a search has more graphs than those of the search and may be calibrated: it is taken to be as long as so
# many of them, until a job of the method has finished.
_LAST_FIT = 3
# rich stops the clock of a line whose bar is full.
_NEARLY_ALL = 0.999


def escape(text: object) -> str:
    """Text from data without control characters and without rich's markup."""
    return escape_markup(printable(text))


def make_console(*, quiet: bool = False, stderr: bool = False) -> Console:
    """The terminal or the notebook; elsewhere, lines wide enough for the tables."""
    console = Console(quiet=quiet, stderr=stderr)
    return console if _is_live(console) else Console(width=_PLAIN_WIDTH, quiet=quiet, stderr=stderr)


def _is_live(console: Console) -> bool:
    return console.is_terminal or console.is_jupyter


@contextmanager
def _show_bars(console: Console) -> Iterator[Progress]:
    """Lines with a description, a bar, a text and the time since they began; nothing outside a terminal or notebook."""
    bars = Progress(
        TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=2)),
        BarColumn(),
        TextColumn("{task.fields[text]}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=2)),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=console.quiet or not _is_live(console),
    )
    with nullcontext() if bars.disable else bars:  # bars that show nothing would still end with an empty line
        yield bars


class Remaining:
    """The time that is left of a run, from the durations of finished jobs of each method.

    Parameters
    ----------
    labels : iterable of str
        The methods of all jobs of the run.
    known : mapping of str to float
        The mean duration of the jobs of a method in earlier runs.
    n_slots : int
        Jobs that run at the same time.
    """

    def __init__(self, labels: Iterable[str], known: Mapping[str, float], n_slots: int) -> None:
        self._waiting, self._known, self._n_slots = Counter(labels), dict(known), n_slots
        self._durations: defaultdict[str, list[float]] = defaultdict(list)
        # Label, beginning and the share that is done, if it is known, of each running job.
        self._running: dict[str, tuple[str, float, float | None]] = {}

    def update(self, job: Job, stage: Stage, now: float) -> None:
        """A job is in this stage."""
        _, began, share = self._running.get(job.key, (job.label, now, None))
        if stage.total:
            within = stage.epoch / stage.max_epochs if stage.max_epochs else 0.0
            share = (stage.number - 1 + within) / (stage.total + _LAST_FIT)
        self._running[job.key] = job.label, began, share

    def finish(self, job: Job, duration: float | None, now: float) -> None:
        """A job has ended after ``duration`` seconds; None if it failed. If its beginning was seen, that counts."""
        self._waiting[job.label] -= 1
        _, began, _ = self._running.pop(job.key, (job.label, None, None))
        if duration is not None:
            self._durations[job.label].append(duration if began is None else max(duration, now - began))

    def expect(self, label: str, now: float) -> float | None:
        """The duration of a job: the mean of finished ones, or what a running one has needed for its part so far."""
        if self._durations[label]:
            return float(np.mean(self._durations[label]))
        if label in self._known:
            return self._known[label]
        parts = [(now - began, share) for name, began, share in self._running.values() if name == label]
        guesses = [elapsed / share for elapsed, share in parts if share]
        return max(guesses, default=None)

    def seconds(self, now: float) -> tuple[float, list[str]]:
        """Seconds until the run ends, and the methods whose duration is not known yet, which are not in it."""
        left: list[float] = []
        running = Counter(label for label, _, _ in self._running.values())
        expected = {label: self.expect(label, now) for label, count in self._waiting.items() if count > 0}
        for label, began, _ in self._running.values():
            if (total := expected.get(label)) is not None:
                left.append(max(total - (now - began), _LEAST_LEFT * total))
        longest = max(left, default=0.0)
        for label, total in expected.items():
            left += [total or 0.0] * max(0, self._waiting[label] - running[label])
        return max(longest, sum(left) / self._n_slots), [label for label, total in expected.items() if total is None]

    def share(self, job: str, now: float) -> float:
        """How much of a running job is done."""
        label, began, share = self._running[job]
        if share is None and (expected := self.expect(label, now)):
            share = (now - began) / expected
        return min(share or 0.0, 1 - _LEAST_LEFT)

    @property
    def running(self) -> Sequence[str]:
        """The keys of running jobs."""
        return list(self._running)

    def describe(self, now: float) -> str:
        """``about 40 s left``; ``over 40 s left`` while the duration of some jobs is not known; empty at the end."""
        left, unknown = self.seconds(now)
        if not self._waiting.total():
            return ""
        if not unknown:
            return f"about {seconds(max(1.0, left))} left"
        return f"over {seconds(left)} left" if left >= 1 else ""


class RunProgress:
    """Shows the jobs that are done and that run, failures and the time left.

    Parameters
    ----------
    console : Console
    remaining : Remaining
    total : int
        Number of jobs.
    """

    def __init__(self, console: Console, remaining: Remaining, total: int, bars: Progress) -> None:
        self.console, self.remaining, self.total, self._bars = console, remaining, total, bars
        self._n_done = self._n_failed = 0
        self._jobs = bars.add_task("jobs", total=total, text=f"0/{total} jobs, loading data and methods")
        self._lines: dict[str, TaskID] = {}
        self._lock = threading.Lock()  # stages come from the threads of the workers

    def on_stage(self, job: Job, stage: Stage) -> None:
        """Show the stage of a running job."""
        with self._lock:
            self.remaining.update(job, stage, time.monotonic())
            if self._bars.disable:
                return
            if job.key not in self._lines:
                name = f"  {job.label}, repeat {job.repeat + 1}, fold {job.fold + 1}"
                name += f", permutation {job.permutation}" if job.permutation else ""
                name += ", other node order" if job.audit is not None else ""
                visible = sum(1 for line in self._bars.tasks if line.visible) <= _MOST_LINES
                self._lines[job.key] = self._bars.add_task(escape(name), total=1, text="", visible=visible)
            self._bars.update(self._lines[job.key], completed=_fill(stage), text=str(stage))
            self._show_jobs()

    def on_outcome(self, outcome: Outcome) -> None:
        """Count a finished job."""
        with self._lock:
            self._n_done += 1
            record = outcome.record
            duration = None if record is None else float(sum(record["seconds"].values()))
            self.remaining.finish(outcome.job, duration, time.monotonic())
            if (line := self._lines.pop(outcome.job.key, None)) is not None:
                self._bars.remove_task(line)
            if outcome.error is not None:
                self._n_failed += 1
                if self._n_failed <= _LISTED_FAILURES:
                    reason = f"{escape(outcome.job.label)} failed: {escape(outcome.error)}"
                    self.console.print(reason, style="yellow")
            self._show_jobs()
            if self._bars.disable and (
                self._n_done == self.total or self._n_done % max(1, self.total // _PLAIN_LINES) == 0
            ):
                self.console.print(self._describe())

    def _show_jobs(self) -> None:
        now = time.monotonic()
        done = self._n_done + sum(self.remaining.share(job, now) for job in self.remaining.running)
        self._bars.update(self._jobs, completed=done, text=self._describe())

    def _describe(self) -> str:
        """``3/18 jobs, 1 failed, about 40 s left``."""
        failed = f"{self._n_failed} failed" if self._n_failed else ""
        left = self.remaining.describe(time.monotonic())
        return ", ".join(filter(None, [f"{self._n_done}/{self.total} jobs", failed, left]))


@contextmanager
def show_progress(
    console: Console, labels: Sequence[str], known: Mapping[str, float], n_slots: int
) -> Iterator[RunProgress]:
    """Show the progress of jobs of the methods ``labels``; the other parameters are those of :class:`Remaining`."""
    with _show_bars(console) as bars:
        yield RunProgress(console, Remaining(labels, known, n_slots), len(labels), bars)


@contextmanager
def show_count(console: Console, text: str, total: int) -> Iterator[Any]:
    """Yield a function to call after each of ``total`` steps, with a text about the next."""
    with _show_bars(console) as bars:
        line = bars.add_task(text, total=total, text="")
        yield lambda n_done, now: bars.update(line, completed=n_done, text=escape(now))


@contextmanager
def show_stages(text: str, *, quiet: bool = False) -> Iterator[None]:
    """Show the stages and epochs of what is computed inside the block, on stderr, in a terminal or notebook only."""
    with _show_bars(make_console(quiet=quiet, stderr=True)) as bars:
        if bars.disable:
            yield
            return
        line = bars.add_task(escape(text), total=1, text="")

        def show(stage: Stage) -> None:
            bars.update(line, completed=_fill(stage), text=escape(str(stage)))

        with watching(StageReporter(show)):
            yield


def _fill(stage: Stage) -> float:
    """How much of the bar of a stage is filled: by its epochs, else by the fits of its search. Never all of it."""
    if stage.max_epochs:
        return min(stage.epoch / stage.max_epochs, _NEARLY_ALL)
    return (stage.number - 1) / stage.total if stage.total else 0.0
