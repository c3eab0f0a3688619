"""The progress of a run, with rich: live in a terminal or a notebook, in plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape as escape_markup
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from isocapsnet._format import seconds
from isocapsnet._safe_text import printable
from isocapsnet.evaluation.engine.runner import Outcome

_PLAIN_LINES = 20
_PLAIN_WIDTH = 120
_LISTED_FAILURES = 5


def escape(text: object) -> str:
    """Text from data without control characters and without rich's markup."""
    return escape_markup(printable(text))


def make_console(*, quiet: bool = False) -> Console:
    """The terminal or the notebook; elsewhere, lines wide enough for the tables."""
    console = Console(quiet=quiet)
    return console if _is_live(console) else Console(width=_PLAIN_WIDTH, quiet=quiet)


def _is_live(console: Console) -> bool:
    return console.is_terminal or console.is_jupyter


@contextmanager
def show_progress(console: Console, total: int) -> Iterator[Callable[[Outcome], None]]:
    """Yield a function to call with each outcome; it shows the jobs done, failures and the time left."""
    n_done = n_failed = 0
    started = time.monotonic()
    is_live = _is_live(console) and not console.quiet
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        disable=not is_live,
    )
    with bar:
        task = bar.add_task("jobs", total=total, failed="")

        def show(outcome: Outcome) -> None:
            nonlocal n_done, n_failed
            n_done += 1
            if outcome.error is not None:
                n_failed += 1
                if n_failed <= _LISTED_FAILURES:
                    console.print(f"{escape(outcome.job.label)} failed: {escape(outcome.error)}", style="yellow")
            failed = f"{n_failed} failed" if n_failed else ""
            bar.update(task, advance=1, failed=failed)
            if not is_live and (n_done == total or n_done % max(1, total // _PLAIN_LINES) == 0):
                left = (time.monotonic() - started) / n_done * (total - n_done)
                console.print(f"{n_done}/{total} jobs{failed and ', ' + failed}, about {seconds(left)} left")

        yield show
