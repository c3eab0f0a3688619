"""Live progress of a run, and its tables: with rich in a terminal, in plain lines elsewhere."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich import box
from rich.console import Console, Group
from rich.markup import escape as escape_markup
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table as RichTable

from isocapsnet._safe_text import printable
from isocapsnet.evaluation.engine.runner import Outcome
from isocapsnet.evaluation.results import MethodResult, Table
from isocapsnet.evaluation.statistics import Interval

_PLAIN_LINES = 20
_PLAIN_WIDTH = 120
_VERDICTS_FIT = 100
_LISTED_FAILURES = 5


def escape(text: object) -> str:
    """Text that comes from data, for rich: neither its control characters nor its brackets reach the terminal."""
    return escape_markup(printable(text))


def make_console() -> Console:
    """The terminal, or lines wide enough for the tables where there is none."""
    console = Console()
    return console if console.is_terminal else Console(width=_PLAIN_WIDTH)


@contextmanager
def show_progress(console: Console, total: int) -> Iterator[Callable[[Outcome], None]]:
    """Yield what to call with each outcome; jobs done, failures and the time left are shown until the end."""
    failures: list[str] = []
    done = 0
    started = time.monotonic()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("jobs", total=total, failed="")

        def tell(outcome: Outcome) -> None:
            nonlocal done
            done += 1
            if outcome.error is not None:
                failures.append(outcome.error)
                if len(failures) <= _LISTED_FAILURES:
                    console.print(f"{escape(outcome.job.label)} failed: {escape(outcome.error)}", style="yellow")
            failed = f"{len(failures)} failed" if failures else ""
            bar.update(task, advance=1, failed=failed)
            if not console.is_terminal and (done == total or done % max(1, total // _PLAIN_LINES) == 0):
                left = (time.monotonic() - started) / done * (total - done)
                console.print(f"{done}/{total} jobs{failed and ', ' + failed}, about {format_seconds(left)} left")

        yield tell


def results_table(table: Table, title: str, width: int) -> Group:
    """The comparison for the terminal, best ROC AUC first; where it is narrow, verdicts follow the numbers."""
    narrow = width < _VERDICTS_FIT
    shown = RichTable(
        title=title,
        title_justify="left",
        box=box.SIMPLE,
        padding=(0, 1),
    )
    shown.add_column("method", overflow="fold")
    for name in ("ROC AUC", "accuracy", "F1 (w.)", "s/job", "vs chance"):
        shown.add_column(name, justify="right", no_wrap=True)
    if not narrow:
        shown.add_column("verdict")
    rows = sorted(table.rows, key=_area, reverse=True)
    for row in rows:
        shown.add_row(
            escape(row.method) + (" *" if row.is_best else "") + (" +" if row.use_unlabeled else ""),
            _interval(row.metrics["roc_auc"]),
            _number(row.metrics["accuracy"].mean),
            _number(row.metrics["weighted_f1"].mean),
            _number(row.seconds, digits=2),
            "-" if math.isnan(row.p_chance) else format_p(row.p_chance),
            *([] if narrow else [escape(row.verdict)]),
            style="bold" if row.is_best else None,
        )
    verdicts = [f"{escape(row.method)}: {escape(row.verdict)}" for row in rows] if narrow else []
    return Group(shown, *verdicts, *([""] if narrow else []), f"[dim italic]{_caption(table)}[/]")


def audit_table(table: Table) -> RichTable:
    """How much each method depends on the order of the nodes."""
    shown = RichTable(title="Node-order audit: ROC AUC with shuffled nodes minus as given", title_justify="left")
    for name in ("method", "difference", "p", "verdict"):
        shown.add_column(name)
    for row in table.rows:
        if row.audit is not None:
            shown.add_row(
                escape(row.method), _interval(row.audit.difference), format_p(row.audit.p_value), row.audit.verdict
            )
    return shown


def format_seconds(seconds: float) -> str:
    """``12 s``, ``3 min``, ``2.5 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def format_p(p_value: float) -> str:
    """A p-value with as many digits as it deserves."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def _caption(table: Table) -> str:
    notes = ["95 % intervals and tests over folds, corrected for shared training subjects (Nadeau-Bengio, Holm)."]
    if any(row.is_best for row in table.rows):
        notes.append("* better than every other method.")
    if any(row.use_unlabeled for row in table.rows):
        notes.append("+ unlabelled graphs took part in training.")
    return " ".join(notes)


def _area(row: MethodResult) -> float:
    area = row.metrics["roc_auc"].mean
    return -1.0 if math.isnan(area) else area


def _interval(interval: Interval) -> str:
    if math.isnan(interval.low):
        return _number(interval.mean)
    return f"{interval.mean:.3f} \\[{interval.low:.3f}, {interval.high:.3f}]"


def _number(value: float, digits: int = 3) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"
