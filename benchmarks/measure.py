"""Measure one thing in a process of its own and print one line of JSON.

``python benchmarks/measure.py match '{"kernel": "fused", "kernel_size": 4}'``

Time is the best of several repeats. Memory is what the process held at its peak beyond what it held before the
first repeat, as the operating system counts it: torch allocates outside of Python's sight.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from isocapsnet import functional
from isocapsnet.functional.kernels import eager

STATUS, CLEAR_PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=MEASURES)
    parser.add_argument("settings", type=json.loads, nargs="?", default={})
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    print(json.dumps(MEASURES[arguments.what](**arguments.settings)))


def memory(key: str) -> float:
    """A line of this process's status in MB: VmRSS, RssAnon, or VmHWM, the peak."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) / 1024


def best_of(repeats: int, run: Callable[[], Any], warm_up: Callable[[], Any]) -> dict[str, float]:
    """Seconds and MB of ``run``, after ``warm_up`` has compiled what it needs."""
    warm_up()
    CLEAR_PEAK.write_text("5")  # the peak begins anew
    before = memory("VmRSS")
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return {"seconds": min(seconds), "extra_mb": max(0.0, memory("VmHWM") - before)}


def measure_match(
    kernel: str,
    kernel_size: int = 4,
    n_graphs: int = 64,
    n_nodes: int = 90,
    n_templates: int = 1,
    repeats: int = 5,
) -> dict[str, float]:
    """Forward and backward of the isomorphic match, to the templates."""
    from literal import literal_match

    templates = torch.randn(n_templates, kernel_size, kernel_size, requires_grad=True)
    graphs = torch.randn(n_graphs, n_nodes, n_nodes)

    def run(graphs: torch.Tensor = graphs) -> None:
        templates.grad = None
        match = literal_match if kernel == "literal" else functional.isomorphic_match
        match(graphs, templates).distance.sum().backward()

    with mock.patch("isocapsnet.functional.isomorphic.pick_kernel", **_fixed(eager if kernel == "eager" else None)):
        return best_of(repeats, run, lambda: run(graphs[:1, : kernel_size + 1, : kernel_size + 1]))


def measure_routing(
    kernel: str,
    kernel_size: int = 4,
    n_graphs: int = 64,
    n_nodes: int = 90,
    n_classes: int = 2,
    capsule_size: int = 16,
    repeats: int = 5,
) -> dict[str, float]:
    """Forward and backward of three iterations of routing with a weight matrix per window."""
    from literal import literal_route, stored_votes_route

    n = n_nodes - kernel_size + 1
    n_permutations = len(functional.permutation_table(kernel_size))
    value = torch.randn(n_graphs, 1, n, n, requires_grad=True)
    permutation = torch.randint(n_permutations, value.shape)
    weight = (0.01 * torch.randn(n_classes, 1, n * n, kernel_size**2, capsule_size)).requires_grad_()
    route = {"literal": literal_route, "eager": stored_votes_route, "fused": functional.route}[kernel]

    def run(size: int = n) -> None:
        value.grad = weight.grad = None
        capsules = functional.PermutationCapsules(
            value[..., :size, :size], permutation[..., :size, :size], -0.1, kernel_size
        )
        route(capsules, weight[:, :, : size * size], 3, 0.01).square().sum().backward()

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
    """The fastest epoch of a fit, validation included, and the whole process's peak.

    Methods that are not trained in epochs are measured by their fit.
    """
    import numpy as np

    from isocapsnet.models import MODELS
    from literal import literal_match, literal_route

    rng = np.random.default_rng(0)
    n_graphs = n_training + n_validation
    X = rng.normal(size=(n_graphs, n_nodes, n_nodes)).astype(np.float32)
    X = (X + X.transpose(0, 2, 1)) / 2
    settings = {"max_epochs": epochs, "patience": None, "validation_fraction": n_validation / n_graphs}
    settings |= {"random_state": 0, **(parameters or {})}
    known = MODELS[method]().get_params()
    model = MODELS[method](**{name: value for name, value in settings.items() if name in known})
    literal = kernel == "literal"
    with (
        mock.patch("isocapsnet.nn.isomorphic.isomorphic_match", literal_match)
        if literal
        else mock.patch("isocapsnet.nn.isomorphic.isomorphic_match", functional.isomorphic_match),
        mock.patch.object(functional, "route", literal_route if literal else functional.route),
    ):
        start = time.perf_counter()
        model.fit(X, np.arange(n_graphs) % 2)
        fit_seconds = time.perf_counter() - start
    history = getattr(model, "history_", [])
    seconds = min((row["dur"] for row in history), default=fit_seconds)
    return {"seconds": seconds, "fit_seconds": fit_seconds, "peak_mb": memory("VmHWM")}


def _fixed(kernel: Any) -> dict[str, Any]:
    """Arguments of a patch that always picks ``kernel``, or picks as ever."""
    from isocapsnet.functional.kernels import pick_kernel

    return {"side_effect": pick_kernel} if kernel is None else {"return_value": kernel}


MEASURES: dict[str, Callable[..., dict[str, float]]] = {
    "match": measure_match,
    "routing": measure_routing,
    "epoch": measure_epoch,
}

if __name__ == "__main__":
    main()
