"""Estimates of ``isocapsnet benchmark --dry-run`` beside the truth, for every method.

    python benchmarks/timing.py planted-motif --methods all --jobs 2
    ISOCAPSNET_DATA=... python benchmarks/timing.py abide-nyu --methods all --jobs 2 --json timing.json

The estimate is that of a dry run with all methods. The truth is the time of one job of each method, the first fold of
the first repeat, from its first stage until its record is stored, explanation included. All jobs of a method are alike,
so the run takes as many times longer as it has jobs. Each pair is printed when it is known, so a run can be cut off.
"""

import argparse
import json
import sys
import tempfile
import time
from inspect import signature
from pathlib import Path
from typing import Any

import isocapsnet as ic
from isocapsnet._format import seconds
from isocapsnet._planning import Options, make_plan
from isocapsnet.evaluation.engine.execution import Execution
from isocapsnet.evaluation.engine.runner import Outcome
from isocapsnet.evaluation.engine.stages import Stage
from isocapsnet.evaluation.jobs import Job


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--methods", default="all")
    parser.add_argument("--protocol", default="nested")
    parser.add_argument("--candidates", type=int)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    graphs = ic.load_graphs(options.data)
    methods = options.methods if options.methods == "all" else options.methods.split(",")
    shared = {"protocol": options.protocol, "candidates": options.candidates, "repeats": 1, "jobs": options.jobs}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        dry = ic.benchmark(graphs, methods, out=Path(folder, "dry"), dry_run=True, progress=False, **shared)
        print(f"{graphs!r}: all trials took {seconds(time.monotonic() - began)}", flush=True)
        estimates = dry.context["estimated_time"]["methods"]
        times = _run_first_fold(graphs, methods, Path(folder, "run"), shared, estimates)
    if options.json is not None:
        options.json.write_text(json.dumps({"data": options.data, **shared, "methods": times}, indent=1))


def _run_first_fold(
    graphs: ic.BrainGraphs, methods: Any, folder: Path, shared: dict[str, Any], estimates: dict[str, Any]
) -> dict[str, Any]:
    """Run one job of each method, the shortest first, and print its time beside the estimate."""
    defaults = {name: entry.default for name, entry in signature(ic.benchmark).parameters.items()}
    given = {**defaults, **shared, "out": folder}
    settings = Options(**{name: given[name] for name in Options.__dataclass_fields__})
    execution = Execution(make_plan(graphs, methods, settings), folder)
    first = [task for task in execution.waiting if task.job.fold == 0]
    expected = {label: sum((entry["stages"] or {}).values()) for label, entry in estimates.items()}
    execution.waiting = sorted(first, key=lambda task: expected[task.job.label])
    starts: dict[str, float] = {}
    times: dict[str, Any] = {}
    print("| method | estimate | truth | estimate / truth | from |\n|---|---|---|---|---|")

    def on_stage(job: Job, stage: Stage) -> None:
        starts.setdefault(job.label, time.monotonic())

    def on_outcome(outcome: Outcome) -> None:
        label = outcome.job.label
        truth, basis = time.monotonic() - starts[label], estimates[label]["basis"]
        stages = None if outcome.record is None else outcome.record["seconds"]
        times[label] = {"estimate": expected[label], "truth": truth, "basis": basis, "error": outcome.error}
        times[label] |= {"estimated_stages": estimates[label]["stages"], "stages": stages}
        ratio = f"{expected[label] / truth:.2f}" if outcome.error is None else outcome.error
        print(f"| {label} | {seconds(expected[label])} | {seconds(truth)} | {ratio} | {basis} |", flush=True)

    with settings.executor() as executor:
        execution.run(executor, on_outcome=on_outcome, on_stage=on_stage)
    return times


if __name__ == "__main__":
    sys.exit(main())
