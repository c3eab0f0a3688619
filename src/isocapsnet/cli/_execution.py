"""Carry a plan out: count, run with progress, tabulate."""

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from isocapsnet._validation import InputError
from isocapsnet.cli._display import format_seconds, show_progress
from isocapsnet.evaluation.engine.executors import InProcessExecutor, count_cores, dask_executor, local_executor
from isocapsnet.evaluation.engine.runner import load_record, run, split_finished
from isocapsnet.evaluation.engine.worker import Limits
from isocapsnet.evaluation.jobs import Task, method_label
from isocapsnet.evaluation.plan import Plan
from isocapsnet.evaluation.results import Table, tabulate
from isocapsnet.evaluation.sites import Sites
from isocapsnet.evaluation.statistics import detectable_difference
from isocapsnet.evaluation.store import Store


def carry_out(plan: Plan, options: Mapping[str, Any], console: Console) -> Table | None:
    """Run what remains of the plan and return its table; None after a dry run.

    Ctrl-C stops the run with a sentence and exit code 130; the next run goes on from there.
    """
    folder: Path = options["out"]
    store = Store(folder)
    tasks = plan.tasks(folder)
    remaining, records = split_finished(tasks, store)
    untried = [task for task in remaining if store.load_error(task.job) is None]
    wanted = remaining if options["retry_failed"] else untried
    failed = len(remaining) - len(untried)
    console.print(
        f"{len(tasks)} jobs: {len(tasks) - len(remaining)} done, {failed} failed before"
        f"{'' if options['retry_failed'] or not failed else ' (left alone)'}, {len(wanted)} to run"
        f"{_estimate(wanted, records, options)}"
    )
    if options["dry_run"]:
        for sentence in store.describe_rejected():
            console.print(escape(f"{sentence} The job runs again."), soft_wrap=True)
        return None
    store.remove_leftovers()
    if not wanted:
        return _tabulate_stored(tasks, store, console)
    try:
        with _executor(options) as executor, show_progress(console, len(wanted)) as tell:
            limits = Limits(options["timeout"], options["memory_limit"])
            run(wanted, store, executor, limits=limits, on_outcome=tell)
    except KeyboardInterrupt:
        console.print("Stopped; what is finished is kept. Run the same command again to go on.")
        sys.exit(130)
    return _tabulate_stored(tasks, store, console)


def _tabulate_stored(tasks: Sequence[Task], store: Store, console: Console) -> Table:
    """The table of what is on disk, and a sentence where something that should be there is not."""
    missing = [task for task in tasks if load_record(task, store) is None]
    errors = [error for task in missing if (error := store.load_error(task.job)) is not None]
    table = tabulate(filter(None, (load_record(task, store) for task in tasks)), errors)
    for sentence in store.describe_rejected():
        console.print(escape(sentence), soft_wrap=True)
    if len(missing) > len(errors):
        n_lost = len(missing) - len(errors)
        console.print(f"{n_lost} of {len(tasks)} jobs have no result on disk; run the same command again.")
    return table


def describe_sites(plan: Plan) -> Sites | None:
    """Which sites the plan tests, where folds are sites."""
    splits = plan.protocol.splits(plan.source.load(), repeat=0)
    return Sites.of({"tested": s.sites, "too_small": s.too_small} for s in splits if s.sites)


def describe_power(plan: Plan) -> dict[str, float]:
    """The smallest ROC AUC above chance, and difference of two methods, that the plan would show at 80 % power."""
    study = plan.source.load()
    splits = plan.protocol.splits(study, repeat=0)
    # A fold of one class has no ROC AUC.
    splits = [split for split in splits if len(np.unique(study.labels[split.test])) > 1] or splits
    n_scores = len(splits) * plan.repeats
    ratio = float(np.mean([len(split.test) / len(split.train) for split in splits]))
    counts = [[int(np.sum(study.labels[split.test] == label)) for label in study.classes] for split in splits]
    typical = np.median(counts, axis=0).astype(int).tolist()
    return {
        "n_scores": n_scores,
        "above_chance": 0.5 + detectable_difference(typical, n_scores, ratio),
        "between_methods": detectable_difference(typical, n_scores, ratio, alternative="two-sided"),
    }


def _executor(options: Mapping[str, Any]) -> AbstractContextManager[Executor]:
    if options["scheduler"] is not None:
        return dask_executor(address=options["scheduler"])
    if options["cluster"] is not None:
        return dask_executor(n_workers=_cluster_size(options["cluster"]))
    if options["jobs"] == 0:
        return nullcontext(InProcessExecutor())
    return local_executor(options["jobs"] or count_cores())


def check_execution(options: Mapping[str, Any]) -> None:
    """Refuse places to run that cannot be read or exclude each other, before any work is done."""
    given = [f"--{name}" for name in ("jobs", "scheduler", "cluster") if options[name] is not None]
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)} exclude each other; keep one of them.")
    if options["cluster"] is not None:
        _cluster_size(options["cluster"])


def _cluster_size(text: str) -> int:
    """N of ``local:N``."""
    kind, _, number = text.partition(":")
    if kind != "local" or not number.isdecimal() or int(number) < 1:
        raise InputError(f"--cluster {text} cannot be read; write local:N with the number of workers.")
    return int(number)


def _estimate(wanted: Sequence[Task], records: Iterable[Mapping[str, Any]], options: Mapping[str, Any]) -> str:
    """The time left, from the finished jobs of each method with its parameters."""
    if not wanted:
        return ""
    seconds: dict[str, list[float]] = defaultdict(list)
    for record in records:
        label = method_label(record["job"]["method"], record["job"]["parameters"])
        seconds[label].append(sum(record["seconds"].values()))
    known = [np.mean(seconds[task.job.label]) for task in wanted if task.job.label in seconds]
    if not known:
        return ""
    slots = _count_slots(options)
    left = float(np.sum(known)) / min(slots or 1, len(wanted))
    unknown = len(wanted) - len(known)
    text = f", about {format_seconds(left)}" + (" left" if slots else " of computing, shared by the workers")
    return text + (f" and {unknown} jobs of unknown length" if unknown else "")


def _count_slots(options: Mapping[str, Any]) -> int | None:
    """Jobs that run at once; None on somebody else's cluster."""
    if options["scheduler"] is not None:
        return None
    if options["cluster"] is not None:
        return _cluster_size(options["cluster"])
    return count_cores() if options["jobs"] is None else max(1, options["jobs"])
