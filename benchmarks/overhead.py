"""What runner and store cost per job beyond fit and predict: ``python benchmarks/overhead.py``.

A method that does nothing is run many times. What a job takes from start to record on disk, less what its record
says was spent on tuning, fitting and predicting, is overhead. The bar is 5 ms.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np

from isocapsnet.benchmark import DataSource, InProcessExecutor, Method, Outcome, Plan, Store, Study, local_executor, run

BAR_MILLISECONDS = 5.0


def make_study(n_graphs: int, n_nodes: int) -> Study:
    """Noise; workers call this by its import path."""
    rng = np.random.default_rng(0)
    return Study(
        X=rng.normal(size=(n_graphs, n_nodes, n_nodes)).astype(np.float32),
        labels=np.arange(n_graphs) % 2,
        digest=f"noise-{n_graphs}-{n_nodes}",
    )


def measure(executor: AbstractContextManager[Executor], n_slots: int, n_jobs: int, n_nodes: int) -> float:
    """Milliseconds of overhead per job, with the workers already started."""
    arguments = {"n_graphs": 180, "n_nodes": n_nodes}
    source = DataSource("overhead:make_study", make_study(**arguments).digest, arguments)
    method = Method("nothing", "sklearn.dummy:DummyClassifier", parameters={"strategy": "prior"})
    busy = 0.0

    def add(outcome: Outcome) -> None:
        nonlocal busy
        assert outcome.error is None, outcome.error
        busy += outcome.seconds

    with tempfile.TemporaryDirectory() as folder, executor as where:
        store = Store(folder)
        warm_up = Plan(source, (method,), repeats=4 * n_slots).tasks(Path(folder))
        run(warm_up, store, where)
        tasks = Plan(source, (method,), repeats=n_jobs // 3 + 4 * n_slots).tasks(Path(folder))[len(warm_up) :]
        started = time.perf_counter()
        run(tasks, store, where, on_outcome=add)
        elapsed = time.perf_counter() - started
    return 1000 * (elapsed * n_slots - busy) / len(tasks)


def main() -> Iterator[dict[str, object]]:
    """Yield one line per place to run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=600, help="jobs to average over")
    options = parser.parse_args()
    for n_nodes in (30, 90):
        for name, executor, n_slots in (
            ("in this process", nullcontext(InProcessExecutor()), 1),
            ("one child process", local_executor(1), 1),
            ("two child processes", local_executor(2), 2),
        ):
            overhead = measure(executor, n_slots, options.jobs, n_nodes)
            yield {
                "where": name,
                "n_nodes": n_nodes,
                "overhead_ms": round(overhead, 2),
                "bar_ms": BAR_MILLISECONDS,
                "holds": overhead < BAR_MILLISECONDS,
            }


if __name__ == "__main__":
    for line in main():
        print(json.dumps(line), flush=True)
