"""The benchmark suite of ``make bench``: literal, eager and fused side by side in one run, ratios first.

``python benchmarks/cpu.py --output docs/performance/cpu.json``

Every figure is taken in a process of its own (see ``measure.py``), the kernels in turn, so that whatever else the
machine does meets them alike; the best round counts.
"""

import argparse
import json
import math
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# The shape that the bars are stated for: 64 graphs of 90 nodes, one template, forward and backward.
BARS = {4: 100, 5: 150}  # times faster than the literal evaluation
MEMORY_RATIO_BAR = 20
SECONDS_BAR_K7, MEMORY_BAR_K7 = 4.0, 200.0
# Epochs by templates and k: times faster than the literal evaluation, and the memory that this one needs.
EPOCH_BARS, EPOCH_MEMORY_BAR = {(4, 4): 40, (1, 4): 40, (1, 5): 200}, 1024.0
EPOCH_GRAPHS = 50, 26  # for training and validation
LITERAL_EPOCH_GB = {(4, 4): 11.0, (1, 4): 3.5, (1, 5): 16.0}
# CPU seconds of a default fit on one thread, and what the same fit of another checkout is called.
FIT_BARS = {"isocapsnet": 18, "capsnet": 9, "fastisonn": 4, "sdbn": 6, "cnn": 5}
FITTED, BEFORE = {"isocapsnet": {"windows": "contiguous"}}, "before"
STREAMING_BAR = 600.0  # MB of anonymous memory beyond parameters, gradients and optimiser state
# The literal evaluation holds the differences, their gradient and a copy.
LITERAL_COPIES = 3.2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=HERE.parent / "docs" / "performance" / "cpu.json")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--literal-graphs", type=int, metavar="N",
        help="measure literal epochs on N and N / 2 graphs instead of 76, and extrapolate their time linearly",
    )  # fmt: skip
    parser.add_argument("--only", nargs="*", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument(
        "--source", type=Path, metavar="SRC", help="the src folder of another checkout, whose fits are measured beside"
    )
    arguments = parser.parse_args()
    if arguments.literal_graphs is not None and not 8 <= arguments.literal_graphs <= sum(EPOCH_GRAPHS):
        parser.error(f"--literal-graphs must be from 8 to {sum(EPOCH_GRAPHS)}")
    measure = Measure(arguments.threads, arguments.rounds, arguments.literal_graphs, arguments.source)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    result = json.loads(arguments.output.read_text()) if arguments.output.exists() else {}
    for name in arguments.only:
        result[name] = SECTIONS[name](measure)
        result["machine"] = describe_machine(arguments.threads)
        arguments.output.write_text(json.dumps(result, indent=1) + "\n")


class Measure:
    """Runs ``measure.py`` and keeps the best of several rounds."""

    def __init__(
        self, threads: int, rounds: int, literal_graphs: int | None = None, source: Path | None = None
    ) -> None:
        self.threads, self.rounds, self.literal_graphs, self.source = threads, rounds, literal_graphs, source

    def __call__(self, what: str, **settings: Any) -> dict[str, float]:
        return self.compare(what, {"": settings})[""]

    def compare(self, what: str, variants: dict[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
        """The best round of each variant; in each round they take turns."""
        best: dict[str, dict[str, float]] = {}
        for _ in range(self.rounds):
            for name, settings in variants.items():
                found = self._run(what, settings, self.source if name == BEFORE else None)
                if name not in best or found["seconds"] < best[name]["seconds"]:
                    best[name] = found
        return best

    def _run(self, what: str, settings: dict[str, Any], source: Path | None = None) -> dict[str, float]:
        command = [sys.executable, str(HERE / "measure.py"), what, json.dumps(settings), f"--threads={self.threads}"]
        environment = os.environ if source is None else {**os.environ, "PYTHONPATH": str(source.resolve())}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
        return json.loads(done.stdout)


def describe_machine(threads: int) -> dict[str, Any]:
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    packages = {name: version(name) for name in ("torch", "numba", "numpy")}
    return {"cpu": model, "cores": os.cpu_count(), "threads": threads, "python": platform.python_version(), **packages}


def available_gb() -> float:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) / 1024**2


def measure_match(measure: Measure) -> list[dict[str, Any]]:
    """Forward and backward of the match for every template size."""
    rows = []
    for k in range(1, 9):
        kernels = ["literal"] * (k <= 5) + ["eager"] * (k <= 7) + ["fused"]
        needed = LITERAL_COPIES * 64 * (90 - k + 1) ** 2 * math.factorial(k) * k * k * 4 / 1024**3
        if "literal" in kernels and needed > available_gb():
            print(f"k={k}: the literal evaluation needs {needed:.1f} GB, {available_gb():.1f} GB are free: left out")
            kernels.remove("literal")
        repeats = {"literal": 1, "eager": 2, "fused": 10 if k < 7 else 1}
        found = measure.compare(
            "match", {name: {"kernel": name, "kernel_size": k, "repeats": repeats[name]} for name in kernels}
        )
        rows.append({"kernel_size": k, **found})
        print_match(rows[-1])
    return rows


def print_match(row: dict[str, Any]) -> None:
    k, fused = row["kernel_size"], row["fused"]
    text = f"k={k}: "
    for name in ("literal", "eager"):
        if name in row:
            text += f"{row[name]['seconds'] / fused['seconds']:.0f}x faster than {name}, "
    text += f"{fused['seconds'] * 1e3:.1f} ms, {fused['extra_mb']:.0f} MB extra"
    if k in BARS and "literal" in row:
        faster = row["literal"]["seconds"] / fused["seconds"]
        leaner = row["literal"]["extra_mb"] / max(fused["extra_mb"], 1.0)
        text += f" (bars: {BARS[k]}x {verdict(faster >= BARS[k])}, 1/{MEMORY_RATIO_BAR} of the memory "
        text += f"{verdict(leaner >= MEMORY_RATIO_BAR)}: 1/{leaner:.0f})"
    if k == 7:
        text += f" (bars: {SECONDS_BAR_K7:g} s {verdict(fused['seconds'] < SECONDS_BAR_K7)}, {MEMORY_BAR_K7:g} MB "
        text += f"{verdict(fused['extra_mb'] < MEMORY_BAR_K7)})"
    print(text, flush=True)


def verdict(met: bool) -> str:
    return "met" if met else "MISSED"


def measure_routing(measure: Measure) -> dict[str, Any]:
    """Routing with weights per window."""
    repeats = {"literal": 1, "contracted": 1, "eager": 2, "fused": 5}
    row = measure.compare("routing", {name: {"kernel": name, "repeats": n} for name, n in repeats.items()})
    for name in ("literal", "contracted", "eager"):
        print(f"routing: {row[name]['seconds'] / row['fused']['seconds']:.1f}x faster than {name}", flush=True)
    return row


def measure_epoch(measure: Measure) -> list[dict[str, Any]]:
    """An epoch of Iso-CapsNet over 50 training and 26 validation graphs: at the defaults, and with one template."""
    return [measure_epoch_of(measure, *sizes) for sizes in EPOCH_BARS]


def measure_epoch_of(measure: Measure, n_templates: int, kernel_size: int) -> dict[str, Any]:
    parameters = {"n_templates": n_templates, "kernel_size": kernel_size}
    epochs = {"literal": 2, "contracted": 2, "eager": 3, "fused": 4}
    if kernel_size > 4:
        del epochs["contracted"]  # its match is the literal one, which takes most of the time
    settings: dict[str, dict[str, Any]] = {
        name: {"kernel": name, "parameters": parameters, "epochs": n} for name, n in epochs.items()
    }
    settings["no decoder"] = {"kernel": "fused", "parameters": parameters | {"reconstruction_weight": 0.0}}
    share = 1.0
    if measure.literal_graphs is not None:
        del settings["literal"]
        settings.pop("contracted", None)
        for name, n_graphs in (("literal half", measure.literal_graphs // 2), ("literal", measure.literal_graphs)):
            share = n_graphs / sum(EPOCH_GRAPHS)
            n_training = round(share * EPOCH_GRAPHS[0])
            graphs = {"n_training": n_training, "n_validation": n_graphs - n_training}
            settings[name] = {"kernel": "literal", "parameters": parameters, "epochs": 2, **graphs}
    needed = share * LITERAL_EPOCH_GB[n_templates, kernel_size]
    if available_gb() < needed:
        print(f"the literal epoch needs {needed} GB: left out")
        settings = {name: value for name, value in settings.items() if not name.startswith(("literal", "contracted"))}
    row: dict[str, Any] = dict(measure.compare("epoch", settings))
    if "literal half" in row:
        row["literal"] = extrapolate(row.pop("literal half"), row["literal"], measure.literal_graphs)
    text = f"epoch, k={kernel_size}, {n_templates} templates: {row['fused']['seconds'] * 1e3:.0f} ms"
    peak = row["fused"]["peak_mb"]
    for name in ("literal", "contracted"):
        if name in row:
            text += f", {row[name]['seconds'] / row['fused']['seconds']:.0f}x faster than {name}"
    if "literal" in row:
        faster, bar = row["literal"]["seconds"] / row["fused"]["seconds"], EPOCH_BARS[n_templates, kernel_size]
        if "extrapolated_from" in row["literal"]:
            text += " extrapolated from {} and {} graphs".format(*row["literal"]["extrapolated_from"])
        text += f" (bars: {bar}x {verdict(faster >= bar)}, {EPOCH_MEMORY_BAR:g} MB "
        text += f"{verdict(peak < EPOCH_MEMORY_BAR)})"
    print(f"{text}, process {peak:.0f} MB", flush=True)
    return {"n_templates": n_templates, "kernel_size": kernel_size, **row}


def extrapolate(half: dict[str, float], whole: dict[str, float], n_graphs: int) -> dict[str, Any]:
    """The seconds of an epoch over all graphs, on the line through those over half of ``n_graphs`` and ``n_graphs``."""
    n_half = n_graphs // 2
    per_graph = (whole["seconds"] - half["seconds"]) / (n_graphs - n_half)
    seconds = whole["seconds"] + per_graph * (sum(EPOCH_GRAPHS) - n_graphs)
    return {"seconds": seconds, "peak_mb": whole["peak_mb"], "extrapolated_from": [n_half, n_graphs]}


def measure_scaling(measure: Measure) -> dict[str, list[dict[str, Any]]]:
    """Time and memory of the fused match over graphs, nodes and templates."""
    sweeps = {
        "n_graphs": [16, 32, 64, 128, 256],
        "n_nodes": [45, 64, 90, 128, 181, 256],
        "n_templates": [1, 2, 4, 8],
    }
    result: dict[str, list[dict[str, Any]]] = {}
    for name, values in sweeps.items():
        found = measure.compare("match", {str(value): {name: value, "repeats": 20} for value in values})
        result[name] = [{"value": value, **found[str(value)]} for value in values]
        print(f"{name}: " + ", ".join(f"{row['value']}: {row['seconds'] * 1e3:.1f} ms" for row in result[name]))
    return result


def measure_methods(measure: Measure) -> list[dict[str, Any]]:
    """An epoch, or the fit where there are no epochs, of every method at its defaults."""
    from isocapsnet.models import MODELS

    rows = []
    for method in MODELS:
        rows.append({"method": method, **measure("epoch", method=method)})
        print(f"{method}: {rows[-1]['seconds']:.3f} s, process {rows[-1]['peak_mb']:.0f} MB", flush=True)
    return rows


def measure_fits(measure: Measure) -> list[dict[str, Any]]:
    """Default fits of the dear methods to 121 real graphs of 116 nodes, on one thread, beside another checkout."""
    if "ISOCAPSNET_DATA" not in os.environ:
        print("fits: left out, because ISOCAPSNET_DATA does not say where abide-nyu is")
        return []
    rows = []
    single = Measure(1, measure.rounds, source=measure.source)
    for method, bar in FIT_BARS.items():
        settings = {"method": method, "parameters": FITTED.get(method, {})}
        found = single.compare("fit", dict.fromkeys((BEFORE, "now")[measure.source is None :], settings))
        rows.append({"method": method, "bar": bar, **found})
        used = found["now"]["cpu_seconds"]
        times = f", {found[BEFORE]['cpu_seconds'] / used:.1f}x faster than before" if BEFORE in found else ""
        print(f"fit of {method}: {used:.1f} CPU s (bar {bar} s {verdict(used <= bar)}){times}", flush=True)
    return rows


def measure_streaming(measure: Measure) -> dict[str, Any]:
    """A fit of one epoch to 10,000 memory-mapped graphs of 200 nodes, once: it takes minutes."""
    row = Measure(measure.threads, rounds=1)("streaming")
    print(
        f"streaming: {row['extra_mb']:.0f} MB beyond the model's {row['state_mb']:.0f} MB, {row['data_mb']:.0f} MB of "
        f"graphs (bar {STREAMING_BAR:g} MB {verdict(row['extra_mb'] < STREAMING_BAR)}), epoch {row['seconds']:.0f} s",
        flush=True,
    )
    return row


SECTIONS = {
    "match": measure_match,
    "routing": measure_routing,
    "epoch": measure_epoch,
    "scaling": measure_scaling,
    "methods": measure_methods,
    "fits": measure_fits,
    "streaming": measure_streaming,
}

if __name__ == "__main__":
    main()
