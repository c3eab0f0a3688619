"""Carry a plan out: count, run with progress, tabulate."""

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from isocapsnet._validation import InputError
from isocapsnet.benchmark.executors import InProcessExecutor, count_cores, dask_executor, local_executor
from isocapsnet.benchmark.jobs import Task
from isocapsnet.benchmark.plan import Plan
from isocapsnet.benchmark.results import Table, tabulate
from isocapsnet.benchmark.runner import run, split_finished
from isocapsnet.benchmark.statistics import detectable_difference
from isocapsnet.benchmark.store import Store
from isocapsnet.benchmark.worker import Limits
from isocapsnet.cli._display import format_seconds, show_progress


def carry_out(plan: Plan, options: Mapping[str, Any], console: Console) -> Table | None:
    """Run what remains of the plan and return its table; None after a dry run.

    Ctrl-C stops the run with a sentence and exit code 130; the next run goes on from there.
    """
    folder: Path = options["out"]
    store = Store(folder)
    store.remove_leftovers()
    tasks = plan.tasks(folder)
    remaining, records = split_finished(tasks, store)
    untried = [task for task in remaining if store.load_error(task.job) is None]
    wanted = remaining if options["retry_failed"] else untried
    failed = len(remaining) - len(untried)
    console.print(
        f"{len(tasks)} jobs: {len(records)} done, {failed} failed before"
        f"{'' if options['retry_failed'] or not failed else ' (left alone)'}, {len(wanted)} to run"
        f"{_estimate(wanted, records, options)}"
    )
    if options["dry_run"]:
        return None
    try:
        with _executor(options) as executor, show_progress(console, len(wanted)) as tell:
            limits = Limits(options["timeout"], options["memory_limit"])
            run(wanted, store, executor, limits=limits, on_outcome=tell)
    except KeyboardInterrupt:
        console.print("Stopped; what is finished is kept. Run the same command again to go on.")
        sys.exit(130)
    remaining, records = split_finished(tasks, store)
    return tabulate(records, [error for task in remaining if (error := store.load_error(task.job))])


def describe_power(plan: Plan) -> dict[str, float]:
    """The smallest ROC AUC above chance, and difference of two methods, that the plan would show at 80 % power."""
    study = plan.source.load()
    splits = plan.protocol.splits(study, repeat=0)
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
        kind, _, number = options["cluster"].partition(":")
        if kind != "local" or not number.isdigit() or int(number) < 1:
            raise InputError(
                f"--cluster {options['cluster']} cannot be read; write local:N with the number of workers."
            )
        return dask_executor(n_workers=int(number))
    if options["jobs"] == 0:
        return nullcontext(InProcessExecutor())
    return local_executor(options["jobs"] or count_cores())


def _estimate(wanted: Sequence[Task], records: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> str:
    """The time left, from the finished jobs of each method."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for record in records:
        seconds[record["job"]["method"]].append(sum(record["seconds"].values()))
    known = [np.mean(seconds[task.job.method]) for task in wanted if task.job.method in seconds]
    if not wanted or not known:
        return ""
    slots = options["jobs"] or count_cores()
    left = float(np.sum(known)) / slots
    unknown = len(wanted) - len(known)
    return f", about {format_seconds(left)} left" + (f" and {unknown} jobs of unknown length" if unknown else "")
