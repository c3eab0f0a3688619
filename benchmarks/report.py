"""Write ``docs/performance.md`` and its figures from the benchmarks' JSON: ``python benchmarks/report.py``."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt

from isocapsnet import MODELS
from report_runs import NO_NESTED, large_page, nested_page

DOCS = Path(__file__).parents[1] / "docs"
FIGURES = DOCS / "performance"
ROUTING_KERNELS = ("literal", "contracted", "eager", "fused")
COLORS = {"literal": "#b2442f", "eager": "#8a8a8a", "fused": "#2b6ca3"}

HEAD = """# Performance

This page shows how fast the isomorphic layer, routing and training are, and how this was measured. It is written by
`python benchmarks/report.py` from the JSON files in `docs/performance/`; do not edit it.

Four implementations of the same equations are compared:

- **literal**: Eq. 1 as it is written. Windows are made by unfold, `windows[:, None] - P @ K @ Pᵀ` is computed for all
  k! permutations, then the norm and the minimum; gradients are those of autograd. Routing computes a product û = Wᵀm
  for every graph, class and window.
- **contracted**: the same, but one `einsum` computes the products of all graphs and classes at a window. This is the
  first step one would take to make routing faster in torch.
- **eager**: the library in plain torch. Correlations are computed in chunks, and gradients only through the winner.
- **fused**: the kernels of the library, Numba on the CPU and Triton on CUDA devices. They are the default where they
  are installed.

All times are of the forward and the backward pass to the templates. Memory is the peak beyond the inputs.
"""


def main() -> None:
    cpu, gpu = (json.loads((FIGURES / f"{name}.json").read_text()) for name in ("cpu", "gpu"))
    draw_sizes(cpu, gpu)
    draw_scaling(cpu["scaling"])
    others = [json.loads(path.read_text()) for path in sorted(FIGURES.glob("gpu-*.json"))]
    pages = [*cpu_page(cpu), *run_pages(), *gpu_page(gpu, others)]
    (DOCS / "performance.md").write_text("\n".join([HEAD, *pages, WHY]))


def run_pages() -> list[str]:
    """The sections about whole runs, as far as there are figures."""
    names = ("nested", "nested-previous", "nested-memory", "scaling")
    paths = [FIGURES / f"{name}.json" for name in names]
    nested, previous, memory, large = (json.loads(path.read_text()) if path.exists() else None for path in paths)
    pages = [NO_NESTED] if nested is None else nested_page(nested, previous, memory, table)
    return [*pages, *([] if large is None else large_page(large, table))]


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def megabytes(mb: float) -> str:
    return f"{mb / 1024:.1f} GB" if mb >= 1024 else f"{mb:.0f} MB"


def cell(row: dict[str, Any], kernel: str, key: str = "seconds") -> str:
    if kernel not in row:
        return "-"
    return duration(row[kernel][key]) if key == "seconds" else megabytes(row[kernel][key])


def ratio(row: dict[str, Any], kernel: str) -> str:
    return f"{row[kernel]['seconds'] / row['fused']['seconds']:.0f}x" if kernel in row else "-"


def cpu_page(result: dict[str, Any]) -> list[str]:
    machine = result["machine"]
    return [
        "## CPU\n",
        f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads, torch {machine['torch']}, numba "
        f"{machine['numba']}. Command: `make bench`, which runs `python benchmarks/cpu.py` and this report. Every "
        "number is the best of several rounds. In each round the kernels take turns, each in its own process; slow "
        "kernels have fewer repetitions.\n",
        "### The match: 64 graphs of 90 nodes, one template\n",
        '`python benchmarks/measure.py match \'{"kernel": "fused", "kernel_size": 4}\'` measures one of them.\n',
        table(
            [
                "k",
                "fused vs literal",
                "fused vs eager",
                "fused",
                "eager",
                "literal",
                "memory fused",
                "eager",
                "literal",
            ],
            (
                [
                    str(row["kernel_size"]),
                    ratio(row, "literal"),
                    ratio(row, "eager"),
                    *(cell(row, kernel) for kernel in ("fused", "eager", "literal")),
                    *(cell(row, kernel, "extra_mb") for kernel in ("fused", "eager", "literal")),
                ]
                for row in result["match"]
            ),
        ),
        "![Time of the match over template sizes](performance/sizes.svg)\n",
        "### Routing: 64 graphs of 90 nodes, k = 4, 2 classes, 3 iterations, a weight matrix per window\n",
        '`python benchmarks/measure.py routing \'{"kernel": "fused"}\'`\n',
        table(
            ["", *ROUTING_KERNELS],
            [
                ["time", *(cell(result["routing"], kernel) for kernel in ROUTING_KERNELS)],
                ["memory", *(cell(result["routing"], kernel, "extra_mb") for kernel in ROUTING_KERNELS)],
                ["fused is faster by", *(ratio(result["routing"], kernel) for kernel in ROUTING_KERNELS)],
            ],
        ),
        *epoch_page(result["epoch"]),
        "### Cost against size\n",
        "`python benchmarks/cpu.py --only scaling`. Time is linear in the number of windows and of templates, and "
        "memory does not depend on k!.\n",
        "![Time and memory of the fused match over graphs, nodes and templates](performance/scaling.svg)\n",
        "### The methods\n",
        "One epoch over 50 training and 26 validation graphs of 90 nodes with the default settings of the method. For "
        "methods without epochs, the whole fit. The last column is the peak memory of the process. "
        f"`python benchmarks/cpu.py --only methods`{unmeasured(result['methods'])}\n",
        table(
            ["method", "time", "whole process"],
            ([row["method"], duration(row["seconds"]), megabytes(row["peak_mb"])] for row in result["methods"]),
        ),
        *fits_page(result.get("fits", [])),
        *streaming_page(result["streaming"]),
    ]


def unmeasured(rows: list[dict[str, Any]]) -> str:
    """A sentence about the methods that have no row."""
    missing = [f"`{name}`" for name in MODELS if name not in {row["method"] for row in rows}]
    return f" measures all methods. There are no figures of {', '.join(missing)} in this file." if missing else ""


def epoch_page(rows: list[dict[str, Any]]) -> list[str]:
    kernels = ("fused", "eager", "contracted", "literal")
    *first, last = (duration(row["no decoder"]["seconds"]) for row in rows)
    without = f"{', '.join(first)} and {last}" if first else last
    return [
        "### One epoch of Iso-CapsNet: 50 training and 26 validation graphs of 90 nodes\n",
        '`python benchmarks/measure.py epoch \'{"kernel": "fused", "parameters": {"n_templates": 4}}\'`. Times '
        "include optimiser, decoder and validation; the peak is that of the whole process. The default is four "
        "templates.\n",
        table(
            ["templates", "k", "vs literal", "vs contracted", *kernels, "peak fused", "contracted", "literal"],
            (
                [
                    str(row["n_templates"]),
                    str(row["kernel_size"]),
                    ratio(row, "literal"),
                    ratio(row, "contracted"),
                    *(cell(row, kernel) for kernel in kernels),
                    *(cell(row, kernel, "peak_mb") for kernel in ("fused", "contracted", "literal")),
                ]
                for row in rows
            ),
        ),
        f"{compare_with_literal(rows)} Most of the remaining time is not the match. It is routing, which passes over "
        "the weights of every window six times, and the decoder. Without "
        f"reconstruction the fused epochs take {without}.\n",
    ]


def compare_with_literal(rows: list[dict[str, Any]]) -> str:
    """How much faster than the literal one a fused epoch is."""
    measured = {(row["n_templates"], row["kernel_size"]): row for row in rows if "literal" in row}
    times = [
        f"{row['literal']['seconds'] / row['fused']['seconds']:.0f} times with {n_templates} "
        f"template{'s' * (n_templates > 1)} of {k} nodes"
        for (n_templates, k), row in measured.items()
    ]
    return f"The fused epoch is faster than the literal one: {', '.join(times)}."


def fits_page(rows: list[dict[str, Any]]) -> list[str]:
    """Whole fits to real graphs, and those of an earlier version in the same run."""
    if not rows:
        return []
    return [
        "### Fits to real graphs\n",
        "CPU seconds of one fit to 121 graphs of 116 nodes (a training fold of `abide-nyu`) with default settings, on "
        "one thread and without calibration, and the ROC AUC in the test fold; `isocapsnet` is the paper's network "
        "(`windows=contiguous`). *Before* is the version before the kernels and the search were made faster, measured "
        "in turn with the present one. `python benchmarks/cpu.py --only fits --source ../before/src`\n",
        table(
            ["method", "faster by", "now", "before", "ROC AUC", "before"],
            (
                [
                    f"`{row['method']}`",
                    f"{row['before']['cpu_seconds'] / row['now']['cpu_seconds']:.1f}x" if "before" in row else "-",
                    f"{row['now']['cpu_seconds']:.1f} s",
                    f"{row['before']['cpu_seconds']:.1f} s" if "before" in row else "-",
                    f"{row['now']['roc_auc']:.3f}",
                    f"{row['before']['roc_auc']:.3f}" if "before" in row else "-",
                ]
                for row in rows
            ),
        ),
    ]


def streaming_page(row: dict[str, Any]) -> list[str]:
    return [
        "### More graphs than memory\n",
        "Iso-CapsNet with default settings is fitted for one epoch to a memory-mapped file of 10,000 graphs of 200 "
        "nodes, a tenth of them for validation. Anonymous memory (RssAnon) is the memory of the process without pages "
        "of files; interpreter and libraries are included. `python benchmarks/cpu.py --only streaming`\n",
        table(
            ["", ""],
            [
                ["the file", megabytes(row["data_mb"])],
                ["parameters, gradients and optimiser state", megabytes(row["state_mb"])],
                ["other anonymous memory, peak", megabytes(row["extra_mb"])],
                ["part of it before the fit", megabytes(row["before_mb"])],
                ["the epoch", duration(row["seconds"])],
                ["the fit: checks, scaling, epoch, validation, calibration", duration(row["fit_seconds"])],
            ],
        ),
    ]


def milliseconds(row: dict[str, Any], kernel: str) -> str:
    """A time of the GPU, bold where it is above the aim of the row (``bar``)."""
    if kernel not in row:
        return "-"
    time = f"{row[kernel]['milliseconds']:.3g} ms"
    return f"**{time}**" if row.get("bar") is not None and row[kernel]["milliseconds"] > row["bar"] else time


def gpu_page(result: dict[str, Any], others: list[dict[str, Any]]) -> list[str]:
    versions = result["versions"]
    return [
        "## GPU\n",
        f"{result['device']}, torch {versions['torch']}, triton {versions['triton']}. Command: "
        "`python benchmarks/gpu.py --output docs/performance/gpu.json`.\n",
        *gpu_match(result),
        *(line for other in others for line in gpu_elsewhere(other)),
        *gpu_routing(result),
        *gpu_training(result),
    ]


GPU_COLUMNS = [
    ("fused", "from Python"),
    ("one_thread", "on one thread"),
    ("graphed", "captured"),
    ("summed", "summed"),
    ("replayed", "device"),
]


def gpu_times(row: dict[str, Any]) -> list[str]:
    aim = "-" if row["bar"] is None else f"{row['bar']:g} ms"
    return [str(row["kernel_size"]), aim, *(milliseconds(row, name) for name, _ in GPU_COLUMNS)]


def gpu_elsewhere(result: dict[str, Any]) -> list[str]:
    return [
        f"The same GPU ({result['device']}) in a faster host (`docs/performance/gpu-faster-host.json`), where the "
        f"training step below took {milliseconds(result['training'], 'fused')} from Python:\n",
        table(["k", "aim", *(words for _, words in GPU_COLUMNS)], map(gpu_times, result["sizes"])),
    ]


def gpu_match(result: dict[str, Any]) -> list[str]:
    sizes, large = result["sizes"], result["large"]
    slowest = max(row["fused"]["milliseconds"] / row["fused"]["quickest_turn"] for row in sizes)
    checked, clear, wrong = (
        sum(row[key] for row in result["correctness"]) for key in ("windows", "clear_winners", "wrong_winners")
    )
    worst = max(row["worst_distance_error"] for row in result["correctness"])
    captured = result["graph_correctness"]
    return [
        "### The match: 64 graphs of 90 nodes, one template\n",
        "For small templates the launch takes longer than the computation, so the time depends on how the kernel is "
        "launched and on what is counted:\n",
        "- *device*: the same work replayed as a CUDA graph.\n"
        "- *from Python*: forward, and backward from a given gradient of the distances, with the default settings of "
        "torch.\n"
        "- *on one thread*: the same under `torch.autograd.set_multithreading_enabled(False)`. By default autograd "
        "computes gradients on a GPU in another thread and waits for it.\n"
        "- *captured*: the layer that `torch.cuda.make_graphed_callables` returns; autograd and copies remain.\n"
        "- *summed*: `distance.sum().backward()`, which also launches the sum and its gradient.\n",
        "Times are medians over rounds of ten calls, measured by CUDA events; the device was idle before each call. "
        f"The host varies: the median round took up to {slowest:.1f} times as long as the fastest. *Aim* "
        "is the time that we set as the goal; fused times above it are bold.\n",
        table(
            ["k", "aim", *(words for _, words in GPU_COLUMNS), "eager", "literal"],
            (
                [*gpu_times(row), *(milliseconds(row | {"bar": None}, name) for name in ("eager", "literal"))]
                for row in sizes
            ),
        ),
        "The next table compares the time on the device with the peak of plain float32 arithmetic (132 multiprocessors "
        "× 128 operations × 1.98 GHz). *Operations done* are those that the kernel performs. *Literal operations* are "
        "the k!·k² multiply-adds per window that the literal implementation would need.\n",
        table(
            ["k", "operations done", "literal operations", "memory fused", "literal"],
            (
                [
                    str(row["kernel_size"]),
                    f"{row['roofline_fraction']:.0%}",
                    f"{row['literal_roofline_fraction']:.0%}",
                    cell(row, "fused", "extra_mb"),
                    cell(row, "literal", "extra_mb"),
                ]
                for row in sizes
            ),
        ),
        f"64 graphs of 400 nodes, k = 4, 8 templates (10 million windows): {milliseconds(large, 'fused')} from Python "
        f"(the aim was {large['bar']:g} ms), {megabytes(large['fused']['extra_mb'])}, most of it the result.\n",
        f"The kernel was checked on the device (`--checks 24`, on the machine with the faster host, below) against the "
        f"eager kernel in float64, on {checked:,} windows of weighted, binary, rounded and constant graphs. Of the "
        f"{clear:,} windows whose best and second best correlation differ by more than 1e-4 ‖K‖ ‖A‖, {wrong} had a "
        f"wrong winner. The largest error of a distance was {worst:.0e} (‖K‖ + ‖A‖). The results of a captured layer "
        f"differed in {captured['different']} of {captured['cases']} cases.\n",
    ]


def gpu_routing(result: dict[str, Any]) -> list[str]:
    checked = result["routing_correctness"]
    return [
        "### Routing: k = 4, 2 classes of 16 entries, 3 iterations, a weight matrix per window\n",
        "*Stored* is routing in plain torch with capsules and votes in memory. Memory includes the gradients.\n",
        table(
            ["graphs, nodes, templates", "device", "from Python", "stored", "memory fused", "stored"],
            (
                [
                    f"{row['n_graphs']}, {row['n_nodes']}, {row['n_templates']}",
                    *(milliseconds(row, kernel) for kernel in ("replayed", "fused", "stored")),
                    cell(row, "fused", "extra_mb"),
                    cell(row, "stored", "extra_mb"),
                ]
                for row in result["routing"]
            ),
        ),
        f"Capsules and gradients were compared with those of stored votes in float64, in {checked['cases']} cases of "
        f"k = 1 to 5. The largest relative error was {checked['worst_error']['float32']:.0e} in float32 and "
        f"{checked['worst_error']['float64']:.0e} in float64. In {checked['differs_on_second_run']} cases a second run "
        "gave different bits.\n",
    ]


def gpu_training(result: dict[str, Any]) -> list[str]:
    row = result["training"]
    text = [
        "### One training step of Iso-CapsNet: 64 graphs of 90 nodes, 4 templates, k = 4\n",
        "Match, routing, residual, decoder, loss, gradients and fused AdamW: "
        f"{milliseconds(row, 'fused')} from Python, {milliseconds(row, 'one_thread')} on one thread, "
        f"{milliseconds(row, 'replayed')} on the device. The rest is the time that the host needs to launch the many "
        "small operations around match and routing.\n",
    ]
    if "recorded" in row:
        text.append(
            f"A fit records the second step of each batch size as a CUDA graph and replays it: "
            f"{milliseconds(row, 'recorded')} from Python. The results have the same bits "
            "(`tests/models/test_recording.py`).\n"
        )
    if "nested" in result:
        rows = [[str(run["jobs"]), f"{run['seconds']:.0f} s", f"{run['roc_auc']:.3f}"] for run in result["nested"]]
        text += [
            "### The nested protocol on ABIDE-NYU: 182 graphs of 116 nodes\n",
            "5 x 3 folds, exhaustive search over 2 candidates in 3 inner folds: 105 fits of the paper's network "
            "(`isocapsnet[windows=contiguous,calibrate=False]`), with the start of the processes. Half of a "
            "single fit is the drawing of the initial weights on the host, so several processes "
            "share the GPU well: `python benchmarks/gpu.py --only nested --nested abide-nyu`\n",
            table(["`--jobs`", "time", "ROC AUC"], rows),
        ]
    return text


WHY = """## Why it is fast

‖PKPᵀ - A‖² = ‖K‖² + ‖A‖² - 2⟨PKPᵀ, A⟩, so the search needs only the largest correlation ⟨PKPᵀ, A⟩. Permutations with
the same first nodes share most of its terms. A walk through the tree of prefixes needs six to eight operations per
permutation on the CPU and about twenty on the GPU, instead of k². Each lane of a vector or thread of a warp has one
window, and only the winner is written to memory. The distance is then computed from the difference PKPᵀ - A of the
winner, so there is no cancellation. Gradients are computed through the winner only.

Routing does not store votes, which are graphs × classes × windows × capsule size numbers. On a CPU, sixteen windows
are processed at a time, one in every lane of a vector, for one graph of the batch after another. For templates of up to
four nodes, the sums of the weights that each of the k! permutations selects are computed once for all graphs of the
batch. The couplings of the forward pass are kept for the backward pass if they need at most 128 MB; otherwise they are
computed again. The weights of the next windows are fetched in the meantime. Gradients and couplings use the memory of
the last step again: the operating system would otherwise clear hundreds of MB in every step.

The decoder of undirected graphs has one unit for both entries of an edge. The reconstruction error is that of the whole
matrix.

On a GPU the host is the limit at small sizes. Up to k = 5 the match is one launch forward and two backward, and routing
has thirteen in all. The compiled code is found in one look-up, because Triton's own look-up takes longer than most of
the kernels.

Results do not depend on the number of threads. The CPU kernels use up to `torch.get_num_threads()` threads if a call
takes two milliseconds or more and if several threads were faster in recent calls; beside a busy core they use one. So
does the optimizer of large networks. All other steps of a fit, a prediction or an explanation are short and run on one
thread, whatever the value of `OMP_NUM_THREADS`; `python benchmarks/threads.py` compares the time with that of one
thread. The first use of a template size on a machine compiles the kernel for some seconds; the compiled code is cached.
"""


def draw_sizes(cpu: dict[str, Any], gpu: dict[str, Any]) -> None:
    """Milliseconds over k, on the CPU and on the GPU."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True, layout="constrained")
    series = {
        name: (
            [(row["kernel_size"], row[name]["seconds"] * 1e3) for row in cpu["match"] if name in row],
            [
                (row["kernel_size"], row["replayed" if name == "fused" else name]["milliseconds"])
                for row in gpu["sizes"]
                if name in row
            ],
        )
        for name in COLORS
    }
    for name, both in series.items():
        for axis, points in zip(axes, both, strict=True):
            axis.plot(*zip(*points, strict=True), "o-", color=COLORS[name], label=name, markersize=4)
    for axis, title in zip(axes, ("CPU", gpu["device"].removeprefix("NVIDIA ")), strict=True):
        axis.set(title=title, xlabel="template size k", yscale="log")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("forward and backward, ms")
    axes[0].legend(frameon=False)
    save(figure, "sizes")


def draw_scaling(scaling: dict[str, list[dict[str, Any]]]) -> None:
    """Time over graphs, windows and templates, with the line through the origin and the largest."""
    labels = {"n_graphs": "graphs", "n_nodes": "windows per graph", "n_templates": "templates"}
    figure, axes = plt.subplots(1, 3, figsize=(9, 2.8), layout="constrained")
    for axis, (name, rows) in zip(axes, scaling.items(), strict=True):
        x = [(row["value"] - 3) ** 2 if name == "n_nodes" else row["value"] for row in rows]
        y = [row["seconds"] * 1e3 for row in rows]
        axis.plot([0, x[-1]], [0, y[-1]], color="#cccccc", zorder=0)
        axis.plot(x, y, "o", color=COLORS["fused"], markersize=4)
        axis.set(xlabel=labels[name], xlim=(0, None), ylim=(0, None))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("forward and backward, ms")
    save(figure, "scaling")


def save(figure: Any, name: str) -> None:
    # No date and fixed identifiers: the same data gives the same file.
    matplotlib.rcParams["svg.hashsalt"] = name
    figure.savefig(FIGURES / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
