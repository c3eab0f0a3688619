"""Whether more threads ever cost time: every method at default settings, and with one thread for everything.

For each method two processes take turns, so that whatever else the machine does falls on both: one without any setting
in its environment, one with ``OMP_NUM_THREADS=1`` and its like. A figure is the median over the rounds of the ratio of
their times; the bar is 1.1. ``--busy`` keeps so many cores busy meanwhile::

    python benchmarks/threads.py                   # on quiet cores
    python benchmarks/threads.py --busy 1 --busy 2 # beside one and two busy processes
    python benchmarks/threads.py --data abide_aal116_nyu.npz --methods isocapsnet --epochs 2
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from isocapsnet.evaluation.engine.worker import ONE_THREAD

BAR = 1.1
_USES = ("fit", "predict", "explain")
# What is shorter is repeated until it has taken so long.
_LEAST_SECONDS = 0.5


def work(data: str, method: str, epochs: int, wanted: list[str]) -> None:
    """A process that takes turns: for each line it reads it writes the seconds that each use took."""
    from isocapsnet.explanation.attribution import attribute_edges, is_network
    from isocapsnet.models import MODELS
    from probabilities import open_data

    warnings.simplefilter("ignore")
    graphs, labels = open_data(data)
    parameters = {"max_epochs": epochs, "tolerance": 0.0, "random_state": 0}
    model = MODELS[method]()
    model.set_params(**{name: value for name, value in parameters.items() if name in model.get_params()})
    uses: dict[str, Callable[[], Any]] = {
        "fit": lambda: model.fit(graphs, labels),
        "predict": lambda: model.predict(graphs),
        "explain": lambda: attribute_edges(model, graphs),
    }
    repeats = {}
    for name, use in uses.items():
        if name in wanted and (name != "explain" or is_network(model)):
            use()  # compiles, and loads what is loaded once
            repeats[name] = max(1, round(_LEAST_SECONDS / seconds_of(use, 1)))
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps({name: seconds_of(uses[name], n) for name, n in repeats.items()}), flush=True)


def seconds_of(use: Callable[[], Any], repeats: int) -> float:
    """Of one call, on average over so many."""
    start = time.perf_counter()
    for _ in range(repeats):
        use()
    return (time.perf_counter() - start) / repeats


class Worker:
    """A process that runs :func:`work`."""

    def __init__(self, arguments: list[str], one_thread: bool) -> None:
        inherited = {name: value for name, value in os.environ.items() if name not in ONE_THREAD}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=inherited | (ONE_THREAD if one_thread else {}),
        )
        self._read()

    def take_turn(self) -> dict[str, float]:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        seconds: dict[str, float] = json.loads(self._read())
        return seconds

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def _read(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("a worker died; its own message is above")
        return line


def _spin(parent: int) -> None:
    while os.getppid() == parent:  # a killed parent stops nobody
        for _ in range(100_000):
            pass


@contextmanager
def busy_cores(n: int) -> Iterator[None]:
    """Keep ``n`` processes busy inside."""
    context = multiprocessing.get_context("spawn")
    spinning = [context.Process(target=_spin, args=(os.getpid(),), daemon=True) for _ in range(n)]
    for process in spinning:
        process.start()
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.join()


def ratios(workers: dict[bool, Worker], rounds: int) -> dict[str, dict[str, float]]:
    """Use to median seconds with one thread and by default, and their median ratio."""
    turns: dict[bool, list[dict[str, float]]] = {True: [], False: []}
    for number in range(rounds):
        for one_thread in (True, False) if number % 2 else (False, True):
            turns[one_thread].append(workers[one_thread].take_turn())
    found = {}
    for use in turns[True][0]:
        one, default = (np.array([turn[use] for turn in turns[switch]]) for switch in (True, False))
        found[use] = {"one": np.median(one), "default": np.median(default), "ratio": np.median(default / one)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="planted")
    parser.add_argument("--methods", default=None, help="separated by commas; all that learn, unless told")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--busy", type=int, action="append", help="busy processes; may be given more than once")
    parser.add_argument("--uses", default=",".join(_USES), help="separated by commas: %(default)s")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        data, method, epochs, uses = options.worker
        work(data, method, int(epochs), uses.split(","))
        return
    from isocapsnet.models import MODELS

    methods = options.methods.split(",") if options.methods else [name for name in MODELS if name != "constant"]
    uses = options.uses.split(",")
    print("| method | busy processes | " + " | ".join(f"{use}: one thread, default, ratio" for use in uses) + " |")
    print("|" + "---|" * (2 + len(uses)))
    worst: dict[str, Any] = {"ratio": 0.0}
    for method in methods:
        arguments = [options.data, method, str(options.epochs), options.uses]
        workers = {one_thread: Worker(arguments, one_thread) for one_thread in (True, False)}
        for n in options.busy or [0]:
            with busy_cores(n):
                found = ratios(workers, options.rounds)
            cells = [f"{f['one']:.3f} s, {f['default']:.3f} s, {f['ratio']:.2f}" for f in found.values()]
            print(
                "| " + " | ".join([f"`{method}`", str(n), *cells, *["-"] * (len(uses) - len(cells))]) + " |",
                flush=True,
            )
            for use, figures in found.items():
                worst = max(worst, {**figures, "what": f"{method}, {use}, {n} busy"}, key=lambda row: row["ratio"])
        for worker in workers.values():
            worker.end()
    print(f"\nThe largest ratio is {worst['ratio']:.2f} ({worst['what']}); the bar is {BAR}.")


if __name__ == "__main__":
    main()
