"""What runner and store cost per job beyond fit and predict: ``python benchmarks/overhead.py``.

A method that does nothing is run many times. What a job takes from start to record on disk, less what its record
says was spent on tuning, fitting and predicting, is overhead. The bar is 5 ms. Low and high are the 10 % and 90 %
quantiles. On a machine that does other work at the same time these include waiting; ``cpu_ms``, the processor time of
a whole job with its fit of nothing, does not.
"""

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.evaluation import (
    DataSource,
    InProcessExecutor,
    MethodSpec,
    Outcome,
    Plan,
    Store,
    local_executor,
    run,
)

BAR_MILLISECONDS = 5.0


def make_study(n_graphs: int, n_nodes: int) -> BrainGraphs:
    """Noise; workers call this by its import path."""
    rng = np.random.default_rng(0)
    return BrainGraphs(rng.normal(size=(n_graphs, n_nodes, n_nodes)).astype(np.float32), np.arange(n_graphs) % 2)


def measure(executor: AbstractContextManager[Executor], n_jobs: int, n_nodes: int) -> NDArray[np.float64]:
    """Milliseconds of overhead of each job that one worker, already started, runs after another."""
    arguments = {"n_graphs": 180, "n_nodes": n_nodes}
    source = DataSource("overhead:make_study", make_study(**arguments).digest(), arguments)
    method = MethodSpec("nothing", "sklearn.dummy:DummyClassifier", parameters={"strategy": "prior"})
    ends: list[float] = []
    busy: list[float] = []

    def note(outcome: Outcome) -> None:
        assert outcome.record is not None, outcome.error
        ends.append(time.perf_counter())
        busy.append(sum(outcome.record["seconds"].values()))

    with tempfile.TemporaryDirectory() as folder, executor as where:
        tasks = Plan(source, (method,), repeats=-(-n_jobs // 3)).tasks(Path(folder))
        run(tasks, Store(folder), where, on_outcome=note)
    return 1000 * (np.diff(ends) - busy[1:])


def measure_cpu(executor: Callable[[], AbstractContextManager[Executor]], n_jobs: int, n_nodes: int) -> float:
    """Milliseconds of processor time per job of runner and worker together, fit and predict of nothing included.

    The difference between a run of twice as many jobs and one of ``n_jobs``, so that starting up does not count.
    """
    spent = []
    for size in (n_jobs, 2 * n_jobs):
        before = _processor_seconds()
        measure(executor(), size, n_nodes)
        spent.append(_processor_seconds() - before)
    return 1000 * (spent[1] - spent[0]) / n_jobs


def _processor_seconds() -> float:
    """Of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    """Print one line per place to run and size of graph."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=600, help="jobs to average over")
    options = parser.parse_args()
    places = {
        "in this process": lambda: nullcontext(InProcessExecutor()),
        "one child process": lambda: local_executor(1),
    }
    for n_nodes in (30, 90):
        for name, executor in places.items():
            overhead = measure(executor(), options.jobs, n_nodes)
            quantiles = dict(
                zip(("low", "median", "high"), np.quantile(overhead, [0.1, 0.5, 0.9]).round(2), strict=True)
            )
            line = {"where": name, "n_nodes": n_nodes, "bar_ms": BAR_MILLISECONDS, "mean_ms": round(overhead.mean(), 2)}
            cpu = measure_cpu(executor, options.jobs, n_nodes)
            print(json.dumps(line | quantiles | {"cpu_ms": round(cpu, 2)}), flush=True)


if __name__ == "__main__":
    main()
