"""Estimates of ``isocapsnet benchmark --dry-run`` beside the truth, for every method.

    python benchmarks/timing.py planted-motif --json docs/performance/timing-planted-motif.json
    python benchmarks/timing.py abide-nyu --candidates 2 --json docs/performance/timing-abide-nyu.json
    python benchmarks/timing.py --page docs/benchmark.md     # the tables of all these files into the page
    python benchmarks/timing.py --epochs                     # how many of its epochs Iso-CapsNet needs

The estimate is that of a dry run with all methods. The truth is the time of one job of each method, the first fold of
the first repeat, from its first stage until its record is stored, explanation included. All jobs of a method are alike,
so a run takes as many times longer as it has jobs. The load of a shared machine changes between both, so both are
compared in CPU seconds: the estimate times the share of a core that the trials got, and the CPU time of the worker.
Each pair is printed and stored when it is known, the shortest first, so a run may be cut off.
"""

import argparse
import json
import os
import tempfile
import time
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import isocapsnet as ic
from isocapsnet._format import seconds
from isocapsnet._planning import Options, make_plan
from isocapsnet.evaluation.engine.execution import Execution
from isocapsnet.evaluation.engine.executors import count_cores
from isocapsnet.evaluation.engine.runner import Outcome
from isocapsnet.evaluation.engine.stages import Stage
from isocapsnet.evaluation.engine.worker import own_worker
from isocapsnet.evaluation.jobs import Job

BEGIN, END = "<!-- timing: begin -->\n", "<!-- timing: end -->\n"
FILES = Path(__file__).parents[1] / "docs" / "performance"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?")
    parser.add_argument("--methods", default="all")
    parser.add_argument("--protocol", default="nested")
    parser.add_argument("--candidates", type=int)
    parser.add_argument("--jobs", type=int, default=count_cores())
    parser.add_argument("--json", type=Path, help="Store the times here.")
    parser.add_argument("--page", type=Path, help="Write the tables of all stored times into this page.")
    parser.add_argument("--epochs", action="store_true", help="Count the epochs until Iso-CapsNet stops early.")
    options = parser.parse_args()
    if options.data is not None:
        measure(options)
    if options.epochs:
        count_epochs()
    if options.page is not None:
        text = options.page.read_text()
        before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
        tables = [_tabulate(json.loads(path.read_text())) for path in sorted(FILES.glob("timing-*.json"))]
        options.page.write_text(before + "\n".join(tables) + after)


def measure(options: argparse.Namespace) -> None:
    """Time every method on a dataset: the trials, then one job each."""
    graphs = ic.load_graphs(options.data)
    methods = options.methods if options.methods == "all" else options.methods.split(",")
    shared = {"protocol": options.protocol, "candidates": options.candidates, "jobs": options.jobs, "repeats": 1}
    given = " ".join(f"--{name} {value}" for name, value in vars(options).items() if value and name in shared)
    content: dict[str, Any] = {
        "command": f"python benchmarks/timing.py {options.data} --methods {options.methods} {given}",
        "data": repr(graphs).removeprefix("BrainGraphs(").removesuffix(")"),
        "load": os.getloadavg()[0],
        "cores": count_cores(),
        "torch": version("torch"),
        "methods": {},
    }

    def store() -> None:
        if options.json is not None:
            options.json.write_text(json.dumps(content, indent=1) + "\n")

    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        dry = ic.benchmark(graphs, methods, out=Path(folder, "dry"), dry_run=True, progress=False, **shared)
        content["trials"] = time.monotonic() - began
        print(f"{content['data']}: all trials took {seconds(content['trials'])}", flush=True)
        estimates = dry.context["estimated_time"]["methods"]
        expected = {label: sum((entry["stages"] or {}).values()) for label, entry in estimates.items()}
        starts: dict[str, tuple[float, psutil.Process, float]] = {}

        def on_stage(job: Job, stage: Stage) -> None:  # in the thread of the worker
            if job.label not in starts:
                process = psutil.Process(own_worker()._child.pid)  # type: ignore[union-attr]
                starts[job.label] = time.monotonic(), process, sum(process.cpu_times()[:2])

        def on_outcome(outcome: Outcome) -> None:
            label = outcome.job.label
            began, process, computed = starts[label]
            content["methods"][label] = {
                "estimate": expected[label],
                "truth": time.monotonic() - began,
                "estimated_cpu": expected[label] * estimates[label]["core"],
                "cpu": sum(process.cpu_times()[:2]) - computed,
                "basis": estimates[label]["basis"],
                "estimated_stages": estimates[label]["stages"],
                "stages": None if outcome.record is None else outcome.record["seconds"],
                "error": outcome.error,
            }
            print(_row(label, content["methods"][label]), flush=True)
            store()

        settings = _make_options(shared, Path(folder, "run"))
        execution = Execution(make_plan(graphs, methods, settings), Path(folder, "run"))
        first = [task for task in execution.waiting if task.job.fold == 0]
        execution.waiting = sorted(first, key=lambda task: expected[task.job.label])
        with settings.executor() as executor:
            execution.run(executor, on_outcome=on_outcome, on_stage=on_stage)


def count_epochs() -> None:
    """Fit Iso-CapsNet to as many graphs as an inner fit of a search has, and print after how many epochs it stops."""
    for name in ("planted-motif", "hiv-dti", "peking-1", "abide-nyu"):
        graphs = ic.load_graphs(name)
        used = np.flatnonzero(graphs.is_labelled)
        part = used[np.random.default_rng(0).permutation(len(used))[: len(used) * 4 // 9]]
        model = ic.MODELS["isocapsnet"](random_state=0, calibrate=False)
        model.fit(np.asarray(graphs.adjacency)[part], graphs.labels[part])
        print(f"{name}: {len(model.history_)} of {model.max_epochs} epochs with {len(part)} graphs", flush=True)


def _make_options(shared: dict[str, Any], folder: Path) -> Options:
    """The options of the run that the dry run is about."""
    defaults = {name: entry.default for name, entry in signature(ic.benchmark).parameters.items()}
    given = {**defaults, **shared, "out": folder}
    return Options(**{name: given[name] for name in Options.__dataclass_fields__})


def _row(label: str, times: dict[str, Any]) -> str:
    cells = [seconds(times[name]) for name in ("estimate", "truth", "estimated_cpu", "cpu")]
    ratio = f"{times['estimated_cpu'] / times['cpu']:.2f}" if times["error"] is None else times["error"]
    return f"| {label} | {' | '.join([*cells, ratio, times['basis']])} |"


def _tabulate(content: dict[str, Any]) -> str:
    """The times of one dataset as Markdown."""
    methods = content["methods"]
    ratios = [times["estimated_cpu"] / times["cpu"] for times in methods.values() if times["cpu"] > 1]
    within = sum(0.5 <= ratio <= 2 for ratio in ratios)
    return "\n".join(
        [
            f"{content['data']}, {content['cores']} cores with a load of {content['load']:.1f} before the run, torch "
            f"{content['torch']}: all trials took {seconds(content['trials'])}. Of {len(ratios)} methods whose job "
            f"takes more than a CPU second, {within} are within a factor of two.",
            "",
            "```bash",
            content["command"],
            "```",
            "",
            "| method | estimate | truth | estimate, CPU | truth, CPU | ratio of CPU | estimated from |",
            "|---|---|---|---|---|---|---|",
            *(_row(label, times) for label, times in sorted(methods.items(), key=lambda item: item[1]["truth"])),
            "",
        ]
    )


if __name__ == "__main__":
    main()
