"""Measure one thing in a process of its own and print one line of JSON.

``python benchmarks/measure.py match '{"kernel": "fused", "kernel_size": 4}'``

Time is the best of several repeats, by the clock and, for a machine that has other work, of all threads' processor
time. Memory is what the process held at its peak beyond what it held before the
first repeat, as the operating system counts it: torch allocates outside of Python's sight.
"""

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from isocapsnet import functional
from isocapsnet.functional.kernels import eager
from literal import contracted_route, literal_match, literal_route

STATUS, CLEAR_PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs")

PLAIN_DECODER = {"isocapsnet.nn.capsule.wide_linear": torch.nn.functional.linear}
LITERAL_MATCH = PLAIN_DECODER | {
    "isocapsnet.functional.isomorphic_match": literal_match,
    "isocapsnet.nn.isomorphic.isomorphic_match": literal_match,
}
# What stands in for what, so that the same code runs the literal equations, plain torch, or the fused kernels.
KERNELS: dict[str, dict[str, Any]] = {
    "fused": {},
    "eager": PLAIN_DECODER
    | {
        "isocapsnet.functional.isomorphic.pick_kernel": lambda graphs, templates: eager,
        "isocapsnet.functional.routing.pick_routing": lambda weight: None,
    },
    "literal": LITERAL_MATCH | {"isocapsnet.functional.route": literal_route},
    "contracted": LITERAL_MATCH | {"isocapsnet.functional.route": contracted_route},
}


@contextmanager
def using(kernel: str) -> Iterator[None]:
    """Everything inside runs with this kernel."""
    with ExitStack() as stack:
        for target, stand_in in KERNELS[kernel].items():
            stack.enter_context(mock.patch(target, stand_in))
        yield


def memory(key: str) -> float:
    """A line of this process's status in MB: VmRSS, what it holds, or VmHWM, the peak."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) / 1024


def best_of(repeats: int, run: Callable[[], Any], warm_up: Callable[[], Any]) -> dict[str, float]:
    """Seconds and MB of ``run``, after ``warm_up`` has compiled what it needs."""
    warm_up()
    CLEAR_PEAK.write_text("5")  # the peak begins anew
    before = memory("VmRSS")
    seconds, cpu_seconds = [], []
    for _ in range(repeats):
        start, cpu_start = time.perf_counter(), time.process_time()
        run()
        seconds.append(time.perf_counter() - start)
        cpu_seconds.append(time.process_time() - cpu_start)
    return {
        "seconds": min(seconds),
        "cpu_seconds": min(cpu_seconds),
        "extra_mb": max(0.0, memory("VmHWM") - before),
    }


def measure_match(
    kernel: str = "fused",
    kernel_size: int = 4,
    n_graphs: int = 64,
    n_nodes: int = 90,
    n_templates: int = 1,
    repeats: int = 5,
) -> dict[str, float]:
    """Forward and backward of the isomorphic match, to the templates."""
    graphs = torch.randn(n_graphs, n_nodes, n_nodes)
    templates = torch.randn(n_templates, kernel_size, kernel_size, requires_grad=True)

    def run(graphs: torch.Tensor = graphs) -> None:
        templates.grad = None
        functional.isomorphic_match(graphs, templates).distance.sum().backward()

    with using(kernel):
        return best_of(repeats, run, lambda: run(graphs[:1, : kernel_size + 1, : kernel_size + 1]))


def measure_routing(
    kernel: str = "fused",
    kernel_size: int = 4,
    n_graphs: int = 64,
    n_nodes: int = 90,
    n_classes: int = 2,
    capsule_size: int = 16,
    repeats: int = 5,
) -> dict[str, float]:
    """Forward and backward of three iterations of routing with a weight matrix per window."""
    n = n_nodes - kernel_size + 1
    value = torch.randn(n_graphs, 1, n, n, requires_grad=True)
    permutation = torch.randint(len(functional.permutation_table(kernel_size)), value.shape)
    weight = (0.01 * torch.randn(n_classes, 1, n * n, kernel_size**2, capsule_size)).requires_grad_()

    def run(n: int = n) -> None:
        value.grad = weight.grad = None
        capsules = functional.PermutationCapsules(value[..., :n, :n], permutation[..., :n, :n], -0.1, kernel_size)
        functional.route(capsules, weight[:, :, : n * n], 3, 0.01).square().sum().backward()

    with using(kernel):
        return best_of(repeats, run, lambda: run(2))


def measure_epoch(
    kernel: str = "fused",
    method: str = "isocapsnet",
    parameters: dict[str, Any] | None = None,
    n_training: int = 50,
    n_validation: int = 26,
    n_nodes: int = 90,
    epochs: int = 4,
) -> dict[str, float]:
    """The fastest epoch of a fit, validation included, and the peak of the whole process, without pages of files too.

    A method that is not trained in epochs is measured by its fit.
    """
    from isocapsnet.models import MODELS

    n_graphs = n_training + n_validation
    X = np.random.default_rng(0).normal(size=(n_graphs, n_nodes, n_nodes)).astype(np.float32)
    X = (X + X.transpose(0, 2, 1)) / 2
    settings = {"max_epochs": epochs, "validation_fraction": n_validation / n_graphs, "patience": None}
    settings |= {"random_state": 0, **(parameters or {})}
    model = MODELS[method]()
    model.set_params(**{name: value for name, value in settings.items() if name in model.get_params()})
    with using(kernel), watching_anonymous_memory(interval=0.05) as anonymous:
        start, cpu_start = time.perf_counter(), time.process_time()
        model.fit(X, np.arange(n_graphs) % 2)
        fit_seconds, fit_cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    history = getattr(model, "history_", [])
    return {
        "seconds": min((row["dur"] for row in history), default=fit_seconds),
        "fit_seconds": fit_seconds,
        "fit_cpu_seconds": fit_cpu_seconds,
        "epochs": len(history),
        "peak_mb": memory("VmHWM"),
        "anonymous_mb": anonymous[0],
    }


def measure_fit(
    method: str = "isocapsnet", parameters: dict[str, Any] | None = None, data: str = "abide-nyu"
) -> dict[str, float]:
    """A fit to the first of three stratified training folds, without calibration, and its ROC AUC in the test fold.

    A first fit of two epochs compiles the kernels.
    """
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import StratifiedKFold

    from isocapsnet import load_graphs
    from isocapsnet.models import MODELS

    graphs = load_graphs(data)
    X, y = np.asarray(graphs.adjacency), np.asarray(graphs.labels)
    train, test = next(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))
    settings = {"calibrate": False, "random_state": 0, **(parameters or {})}
    MODELS[method](**settings, max_epochs=2).fit(X[train], y[train])
    model = MODELS[method](**settings)
    start, cpu_start = time.perf_counter(), time.process_time()
    model.fit(X[train], y[train])
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    auc = float(roc_auc_score(y[test] == model.classes_[1], model.predict_proba(X[test])[:, 1]))
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "epochs": len(model.history_), "roc_auc": auc}


@contextmanager
def watching_anonymous_memory(interval: float = 0.005) -> Iterator[list[float]]:
    """The largest RssAnon in MB, in a list of one: what the process holds that is no file's page in memory."""
    peak, done = [memory("RssAnon")], threading.Event()

    def watch() -> None:
        while not done.wait(interval):
            peak[0] = max(peak[0], memory("RssAnon"))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def measure_streaming(
    method: str = "isocapsnet",
    parameters: dict[str, Any] | None = None,
    n_graphs: int = 10_000,
    n_nodes: int = 200,
) -> dict[str, float]:
    """A fit of one epoch, validation included, to a memory-mapped file, and the peak of anonymous memory.

    ``extra_mb`` is what is left of the peak of the whole process when parameters, gradients and the two moments of
    Adam are taken off; interpreter and libraries are in it.
    """
    from isocapsnet.models import MODELS

    with tempfile.TemporaryDirectory() as folder:
        path, shape = Path(folder) / "graphs.npy", (n_graphs, n_nodes, n_nodes)
        X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
        rng = np.random.default_rng(0)
        for start in range(0, n_graphs, 100):
            chunk = rng.standard_normal(X[start : start + 100].shape, dtype=np.float32)
            X[start : start + 100] = (chunk + chunk.transpose(0, 2, 1)) / 2
        X = np.load(path, mmap_mode="r")
        settings = {"max_epochs": 1, "validation_fraction": 0.1, "random_state": 0, **(parameters or {})}
        model, before = MODELS[method](**settings), memory("RssAnon")
        with watching_anonymous_memory() as peak:
            start_time = time.perf_counter()
            model.fit(X, np.arange(n_graphs) % 2)
            fit_seconds = time.perf_counter() - start_time
    state = 4 * sum(parameter.nbytes for parameter in model.module_.parameters()) / 1024**2
    return {
        "seconds": model.history_[0]["dur"],
        "fit_seconds": fit_seconds,
        "data_mb": 4 * np.prod(shape) / 1024**2,
        "state_mb": state,
        "before_mb": before,
        "peak_mb": peak[0],
        "extra_mb": peak[0] - state,
    }


MEASURES: dict[str, Callable[..., dict[str, float]]] = {
    "match": measure_match,
    "routing": measure_routing,
    "epoch": measure_epoch,
    "fit": measure_fit,
    "streaming": measure_streaming,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=MEASURES)
    parser.add_argument("settings", type=json.loads, nargs="?", default={})
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    print(json.dumps(MEASURES[arguments.what](**arguments.settings)))


if __name__ == "__main__":
    main()
