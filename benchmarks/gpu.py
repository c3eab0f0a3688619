"""The match, routing and training on a GPU: are they right, how long do they take, how near to the roofline are they?

``python benchmarks/gpu.py --output gpu.json`` needs torch, Triton and a CUDA device, nothing else. The
whole nested run is measured where a dataset is given: ``--nested abide-nyu``.
"""

import argparse
import itertools
import json
import math
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import torch
import triton

from isocapsnet.functional import PermutationCapsules, isomorphic_match, route
from isocapsnet.functional.capsule import dynamic_routing
from isocapsnet.functional.kernels import cuda, eager
from isocapsnet.functional.routing import attend_to_votes, permutation_votes
from isocapsnet.models._optimizer import Adam
from isocapsnet.models._recording import Recorded, recording_stream
from isocapsnet.nn import CapsuleLoss, IsoCapsNet, IsomorphicLayer
from literal import literal_match

N_GRAPHS, N_NODES = 64, 90
# Milliseconds for forward and backward of 64 graphs of 90 nodes, one template; and of 400 nodes, 8 templates, k = 4.
BARS = {4: 0.3, 5: 0.5, 6: 1.5, 7: 8.0, 8: 100.0}
BAR_LARGE = 25.0
BAR_MEMORY_MB = 200
# H200: 132 multiprocessors, 128 float32 operations per clock each, 1.98 GHz.
PEAK_OPERATIONS = 132 * 128 * 1.98e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gpu.json"))
    parser.add_argument("--checks", type=int, default=40, help="random cases per template size")
    parser.add_argument("--only", nargs="*", help="sections; the others stay as they are in the output")
    parser.add_argument("--nested", metavar="DATASET", help="also measure the nested protocol on this dataset")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    sections: dict[str, Callable[[], Any]] = {
        "routing": lambda: [measure_routing(**size) for size in ROUTING],
        "sizes": lambda: [measure(k) | {"bar": BARS.get(k)} for k in range(1, 9)],
        "large": lambda: measure(4, n_nodes=400, n_templates=8) | {"bar": BAR_LARGE},
        "scaling": lambda: [measure(4, **change) for change in SCALING],
        "training": measure_training,
        "routing_correctness": check_routing,
        "graph_correctness": check_graphed,
        "correctness": lambda: [check(k, arguments.checks if k < 8 else 3) for k in range(1, 9)],
    }
    if arguments.nested:
        sections["nested"] = lambda: [measure_nested(arguments.nested, jobs) for jobs in (1, 4, 8)]
    result = json.loads(arguments.output.read_text()) if arguments.output.exists() else {}
    versions = {"torch": torch.__version__, "triton": triton.__version__, "python": platform.python_version()}
    result |= {"device": torch.cuda.get_device_name(), "versions": versions}
    for name in arguments.only or sections:
        result[name] = sections[name]()
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")
        print(name, "measured", flush=True)
    report(result)


SCALING: list[dict[str, int]] = [
    *({"n_graphs": b} for b in (16, 64, 256)),
    *({"n_nodes": v} for v in (50, 90, 200, 400)),
    *({"n_templates": c} for c in (1, 2, 4, 8)),
]

ROUTING: list[dict[str, int]] = [
    {"n_nodes": 90, "n_templates": 4},
    {"n_nodes": 200, "n_templates": 1},
    {"n_nodes": 400, "n_templates": 1},
    {"n_nodes": 20, "n_templates": 1},
    {"n_nodes": 20, "n_templates": 1, "n_graphs": 8},
]


def check(k: int, n_cases: int) -> dict[str, Any]:
    """Compare with the eager kernel in float64 on random, binary, sparse and constant graphs."""
    generator = torch.Generator("cuda").manual_seed(k)
    worst = worst_gradient = 0.0
    n_windows = n_clear = n_wrong = 0
    for case in range(n_cases):
        v, c, stride = k + case % 7 * (2 if k < 7 else 1), 1 + case % 3, 1 + case % 2
        graphs = torch.randn(2, v, v, generator=generator, device="cuda")
        graphs = [graphs, (graphs > 0).float(), graphs.round(), torch.full_like(graphs, 0.3)][case % 4]
        templates = torch.randn(c, k, k, generator=generator, device="cuda")
        found = isomorphic_match(graphs, leaf := templates.clone().requires_grad_(), stride)
        upstream = torch.randn(found.distance.shape, generator=generator, device="cuda")
        (gradient,) = torch.autograd.grad(found.distance, leaf, upstream)
        doubles = graphs.double(), templates.double()
        distance, permutation = eager.search(*doubles, stride)
        sizes = eager.windows_of(doubles[0], k, stride).flatten(-2).norm(dim=-1)[:, None]
        lengths = doubles[1].flatten(1).norm(dim=1)[:, None, None]
        worst = max(worst, ((found.distance - distance).abs() / (sizes + lengths)).max().item())
        clear = second_best_gap(*doubles, stride) > 1e-4
        n_windows, n_clear = n_windows + clear.numel(), n_clear + int(clear.sum())
        n_wrong += int((found.permutation != permutation)[clear].sum())
        _, expected = eager.backward(
            upstream.double(), found.distance.detach().double(), found.permutation, *doubles, stride, False, True
        )
        assert expected is not None
        worst_gradient = max(worst_gradient, ((gradient - expected).norm() / expected.norm().clamp_min(1e-9)).item())
    return {
        "kernel_size": k, "cases": n_cases, "windows": n_windows, "clear_winners": n_clear, "wrong_winners": n_wrong,
        "worst_distance_error": worst, "worst_gradient_error": worst_gradient,
    }  # fmt: skip


def second_best_gap(graphs: torch.Tensor, templates: torch.Tensor, stride: int) -> torch.Tensor:
    """(Best - second best correlation) / (‖K‖ ‖A‖) of every window: ``(n_graphs, n_templates, n, n)``."""
    windows = eager.windows_of(graphs, templates.shape[-1], stride).flatten(-2)
    candidates = eager.permuted_templates(templates).flatten(2)
    if candidates.shape[1] == 1:
        return windows.new_ones(len(graphs), len(templates), *windows.shape[1:3])
    gaps = []
    for i, candidate in enumerate(candidates):
        top = (windows @ candidate.T).topk(2, dim=-1).values
        sizes = windows.norm(dim=-1) * templates[i].norm()
        gaps.append((top[..., 0] - top[..., 1]) / sizes.clamp_min(1e-300))
    return torch.stack(gaps, dim=1)


def measure(k: int, n_graphs: int = N_GRAPHS, n_nodes: int = N_NODES, n_templates: int = 1) -> dict[str, Any]:
    """Milliseconds and MB of forward and backward: fused, eager, and literal where it fits.

    The gradient that comes from above is given; in *summed*, autograd makes it, from a sum over all distances.
    """
    graphs = torch.randn(n_graphs, n_nodes, n_nodes, device="cuda")
    layer = IsomorphicLayer(n_templates, k).cuda()
    templates = layer.templates
    upstream = torch.randn(n_graphs, n_templates, n_nodes - k + 1, n_nodes - k + 1, device="cuda")
    n_windows = n_graphs * (n_nodes - k + 1) ** 2
    literal_gb = n_windows * math.factorial(k) * k * k * 4 / 1e9

    def run(match: Callable[..., Any] = isomorphic_match) -> None:
        torch.autograd.grad(match(graphs, templates).distance, templates, upstream)

    def run_on_one_thread() -> None:
        with torch.autograd.set_multithreading_enabled(False):
            run()

    def run_summed() -> None:
        templates.grad = None
        isomorphic_match(graphs, templates).distance.sum().backward()

    def run_graphed() -> None:
        torch.autograd.grad(layer(graphs).distance, templates, upstream)

    def run_eager() -> None:
        with mock.patch("isocapsnet.functional.isomorphic.pick_kernel", return_value=eager):
            run()

    default = (n_graphs, n_nodes, n_templates) == (N_GRAPHS, N_NODES, 1)
    runs = {"fused": run, "replayed": captured(run)}
    if default:
        torch.cuda.make_graphed_callables(layer, (graphs,))
        runs |= {"graphed": run_graphed, "one_thread": run_on_one_thread, "summed": run_summed}
    kernels = timed_in_turns(runs, turns=30 if k < 7 else 3)
    if default and k < 8:
        kernels["eager"] = timed(run_eager, repeats=5)
    if default and literal_gb < 30:
        kernels["literal"] = timed(lambda: run(literal_match), repeats=5)
    seconds = kernels["replayed"]["milliseconds"] / 1e3
    executed = n_windows * n_templates * operations(k)
    literal = n_windows * n_templates * math.factorial(k) * k * k
    return {
        "kernel_size": k, "n_graphs": n_graphs, "n_nodes": n_nodes, "n_templates": n_templates, **kernels,
        "roofline_fraction": executed / seconds / PEAK_OPERATIONS,
        "literal_roofline_fraction": literal / seconds / PEAK_OPERATIONS,
    }  # fmt: skip


def operations(k: int) -> int:
    """Float32 operations of the search per window and template: those that the tree and the scan write out."""
    prefix = max(k, 4) - 4
    leaves = prefix**2 + 16 * (1 + 2 * prefix) + 2 * 36 + 4 * (1 + 18 + 6 * 6)
    return max(1, math.factorial(k) // 24) * (leaves + 4 * 24)


def draw_routing(
    n_graphs: int, n_nodes: int, n_templates: int, k: int, n_classes: int, size: int, dtype: torch.dtype
) -> tuple[PermutationCapsules, torch.Tensor]:
    """Capsules of random windows, and a weight matrix for each of them."""
    n = n_nodes - k + 1
    value = torch.randn(n_graphs, n_templates, n, n, dtype=dtype, device="cuda", requires_grad=True)
    permutation = torch.randint(math.factorial(k), value.shape, device="cuda")
    weight = torch.randn(n_classes, n_templates, n * n, k * k, size, dtype=dtype, device="cuda")
    return PermutationCapsules(value, permutation, -0.1, k), (0.3 * weight).requires_grad_()


def check_routing() -> dict[str, Any]:
    """Compare capsules and gradients with routing over stored votes in float64, and a second run with the first."""
    worst = {"float32": 0.0, "float64": 0.0}
    sizes = list(itertools.product(range(1, 6), [(1, 1, 5), (7, 3, 16), (33, 2, 5), (70, 2, 16)]))
    n_different = 0
    for case, (k, (n_graphs, n_classes, size)) in enumerate(sizes):
        name, iterations = list(worst)[case % 3 == 0], 1 + (case + k) % 3
        capsules, weight = draw_routing(
            n_graphs, k + 1 + case % 4, 1 + case % 2, k, n_classes, size, getattr(torch, name)
        )
        upstream = torch.randn(n_graphs, n_classes, size, dtype=torch.float64, device="cuda")
        mine, again = (route_and_differentiate(capsules, weight, iterations, upstream) for _ in range(2))
        n_different += not all(map(torch.equal, mine, again))
        double = capsules._replace(value=capsules.value.detach().double().requires_grad_())
        expected = route_and_differentiate(
            double, weight.detach().double().requires_grad_(), iterations, upstream, stored=True
        )
        errors = [((m - e).norm() / e.norm()).item() for m, e in zip(mine, expected, strict=True)]
        worst[name] = max(worst[name], *errors)
    return {"cases": len(sizes), "worst_error": worst, "differs_on_second_run": n_different}


def route_and_differentiate(
    capsules: PermutationCapsules, weight: torch.Tensor, iterations: int, upstream: torch.Tensor, stored: bool = False
) -> tuple[torch.Tensor, ...]:
    """The class capsules and the gradients for values and weights; ``stored``: over votes held in memory."""
    if stored:
        attend = partial(attend_to_votes, permutation_votes(capsules, weight))
        found = dynamic_routing(attend, torch.zeros_like(upstream), iterations, 0.3)
    else:
        found = route(capsules, weight, iterations, 0.3)
    return found, *torch.autograd.grad(found, (capsules.value, weight), upstream.to(weight.dtype))


def measure_routing(n_nodes: int, n_templates: int, n_graphs: int = N_GRAPHS) -> dict[str, Any]:
    """Milliseconds and MB of three iterations and their gradients: fused, and over stored votes."""
    capsules, weight = draw_routing(n_graphs, n_nodes, n_templates, 4, 2, 16, torch.float32)
    scale = capsules.value[0].numel() ** -0.5
    upstream = torch.randn(n_graphs, 2, 16, device="cuda")

    def run() -> None:
        torch.autograd.grad(route(capsules, weight, 3, scale), (capsules.value, weight), upstream)

    kernels = timed_in_turns({"fused": run, "replayed": captured(run)})
    with mock.patch("isocapsnet.functional.capsule.pick_routing", return_value=None):
        kernels["stored"] = timed(run, repeats=10)
    return {"n_graphs": n_graphs, "n_nodes": n_nodes, "n_templates": n_templates, **kernels}


def check_graphed() -> dict[str, int]:
    """Whether the layer under ``torch.cuda.make_graphed_callables`` gives the same bits, for fresh graphs."""
    sizes, n_different = (3, 4, 5), 0
    for k in sizes:
        layer = IsomorphicLayer(2, k).cuda()
        graphs, upstream = torch.randn(8, 20, 20, device="cuda"), torch.randn(8, 2, 21 - k, 21 - k, device="cuda")
        plain = match_and_differentiate(layer, graphs, upstream)
        torch.cuda.make_graphed_callables(layer, (torch.randn_like(graphs),))
        n_different += not all(map(torch.equal, match_and_differentiate(layer, graphs, upstream), plain))
    return {"cases": len(sizes), "different": n_different}


def match_and_differentiate(
    layer: IsomorphicLayer, graphs: torch.Tensor, upstream: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Distances, permutations and the gradient for the templates, none of them with a history."""
    distance, permutation = layer(graphs)
    return distance.detach(), permutation, *torch.autograd.grad(distance, layer.templates, upstream)


def measure_training() -> dict[str, Any]:
    """Milliseconds of one step of Iso-CapsNet at its defaults with four templates.

    From Python, on one thread, recorded as in a fit, and replayed alone.
    """
    model, loss = IsoCapsNet(N_NODES, 2, n_templates=4).cuda(), CapsuleLoss()
    graphs, targets = torch.randn(N_GRAPHS, N_NODES, N_NODES, device="cuda"), torch.arange(N_GRAPHS, device="cuda") % 2
    optimizer = Adam(model.parameters(), 3e-4, 5e-4)

    def step(graphs: torch.Tensor = graphs, targets: torch.Tensor = targets) -> tuple[torch.Tensor, Any]:
        optimizer.zero_grad()
        value = loss(model(graphs), targets)
        value.backward()
        optimizer.step()
        return value.detach(), None

    def step_on_one_thread() -> None:
        with torch.autograd.set_multithreading_enabled(False):
            step()

    recorded = Recorded(step)

    def step_as_recorded() -> None:
        with torch.autograd.set_multithreading_enabled(False), recording_stream(graphs.device):
            recorded(graphs, targets)

    step()
    runs = {"fused": step, "one_thread": step_on_one_thread, "replayed": captured(step), "recorded": step_as_recorded}
    return timed_in_turns(runs)


def measure_nested(dataset: str, jobs: int) -> dict[str, Any]:
    """Seconds of the nested protocol, 5 x 3 folds, 2 candidates in 3 inner folds: 105 fits of the paper's network."""
    import isocapsnet as ic

    with TemporaryDirectory() as folder:
        start = time.perf_counter()
        results = ic.benchmark(
            dataset,
            methods="isocapsnet[windows=contiguous,calibrate=False]",
            protocol="nested",
            repeats=5,
            folds=3,
            search="exhaustive",
            jobs=jobs,
            out=folder,
            explain=False,
            save_models=False,
            progress=False,
        )
        seconds = time.perf_counter() - start
    row = results.table.iloc[0]
    return {"jobs": jobs, "seconds": seconds, "roc_auc": float(row["roc_auc"]), "failed": int(row["failed"])}


def captured(run: Callable[[], None]) -> Callable[[], None]:
    """The same work as one CUDA graph: what it takes without Python."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def timed_in_turns(runs: dict[str, Callable[[], None]], turns: int = 10) -> dict[str, dict[str, float]]:
    """:func:`timed` for each, ten calls a turn: the host is faster at one moment and slower at another."""
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in runs}
    for _ in range(turns):
        for name, run in runs.items():
            rows[name].append(timed(run, repeats=10))
    return {
        name: {
            "milliseconds": statistics.median(row["milliseconds"] for row in found),
            "quickest_turn": min(row["milliseconds"] for row in found),
            "extra_mb": max(row["extra_mb"] for row in found),
        }
        for name, found in rows.items()
    }


def timed(run: Callable[[], None], repeats: int) -> dict[str, float]:
    """Median milliseconds between CUDA events, and the allocator's peak beyond what was held before."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    times = []
    for _ in range(repeats):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop))
    return {
        "milliseconds": statistics.median(times),
        "extra_mb": (torch.cuda.max_memory_allocated() - before) / 1024**2,
    }


def judge(row: dict[str, Any]) -> str:
    """Whether the time from Python is below the bar: under torch's defaults, and on one thread."""
    if row["bar"] is None:
        return "no bar"
    names = {"fused": "from Python", "one_thread": "on one thread"}
    verdicts = (
        f"{words} {'met' if row[name]['milliseconds'] <= row['bar'] else 'MISSED'}"
        for name, words in names.items()
        if name in row
    )
    return f"bar {row['bar']} ms {', '.join(verdicts)}"


def report(result: dict[str, Any]) -> None:
    """Bars first, then everything else."""
    if "training" in result:
        print("training step:", {name: round(time["milliseconds"], 3) for name, time in result["training"].items()})
    print("nested:", result.get("nested"))
    if not {"sizes", "large", "correctness", "routing", "scaling"} <= result.keys():
        return
    for row in result["sizes"]:
        k, fused = row["kernel_size"], row["fused"]
        verdict = f"{judge(row)}, {'under' if fused['extra_mb'] <= BAR_MEMORY_MB else 'OVER'} {BAR_MEMORY_MB} MB"
        names = ("replayed", "graphed", "one_thread", "summed", "eager", "literal")
        others = {name: round(row[name]["milliseconds"], 3) for name in names if name in row}
        print(
            f"k={k}: {fused['milliseconds']:.3f} ms (quickest turn {fused['quickest_turn']:.3f}), "
            f"{fused['extra_mb']:.0f} MB; {verdict}; roofline {row['roofline_fraction']:.2f} "
            f"(literal {row['literal_roofline_fraction']:.2f}); {others}"
        )
    large = result["large"]
    print(f"V=400, k=4, c=8: {large['fused']['milliseconds']:.2f} ms, {judge(large)}")
    for row in result["correctness"]:
        print(row)
    print(result["routing_correctness"], "graphed:", result["graph_correctness"])
    for row in result["routing"]:
        print({key: value if isinstance(value, int) else round(value["milliseconds"], 3) for key, value in row.items()})
        print("   MB", {key: round(row[key]["extra_mb"]) for key in ("fused", "stored")})
    for row in result["scaling"]:
        print({key: row[key] for key in ("n_graphs", "n_nodes", "n_templates")}, row["replayed"])


if __name__ == "__main__":
    assert cuda is not None
    main()
