"""What 40,000 subjects of 400 nodes would need: unit costs measured here, and the real scheduler in simulated time.

    python benchmarks/scaling.py --output docs/performance/scaling.json    # both parts
    python benchmarks/scaling.py --only cluster --workers 2000 --permutations 20

*Unit costs* are processor seconds of an epoch and peak memory of a fit, measured at 200 nodes and scaled to 400 by the
square of the nodes. *Cluster* runs a plan of all methods through ``Execution`` and
``run_tasks``, with files on disk, on an executor whose workers are simulated: job lengths come from the unit costs,
some jobs fail, and workers die and come back.
"""

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from isocapsnet._threads import one_thread
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.evaluation import Protocol, Store
from isocapsnet.evaluation.engine.memory import peak_memory, reset_peak_memory
from isocapsnet.models import MODELS
from simulated_cluster import make_plan, make_record, simulate

HERE = Path(__file__).parent
N_SUBJECTS, N_NODES = 40_000, 400
#: Methods whose time and memory grow with graphs, nodes and epochs alone; the others have no epochs.
METHODS = (
    "autoencoder", "gcn", "gin", "diffpool", "dgcnn", "cnn", "sdbn", "isonn", "fastisonn", "isocapsnet", "capsnet",
)  # fmt: skip
SIZES, N_GRAPHS = (100, 200), 64
#: Hours up to which the jobs of a method are run on one core with permutations.
SHORT = 48


# -- unit costs ---------------------------------------------------------------------------------------------------


def measure_method(method: str) -> dict[str, float]:
    """Processor seconds per graph and epoch, and gigabytes of a fit beyond its graphs, at 400 nodes.

    Windows, edges and weights grow with the square of the nodes, so the figures of the larger size are scaled by it.
    The power between the two sizes is a check.
    """
    small, large = (_measure_in_a_process(method, n_nodes) for n_nodes in SIZES)
    square = (N_NODES / SIZES[1]) ** 2
    per_square = (large["gigabytes"] - small["gigabytes"]) / (SIZES[1] ** 2 - SIZES[0] ** 2)
    return {
        **{f"seconds_{n_nodes}": row["seconds"] for n_nodes, row in zip(SIZES, (small, large), strict=True)},
        "power": np.log(large["seconds"] / small["seconds"]) / np.log(SIZES[1] / SIZES[0]),
        "seconds": large["seconds"] * square,
        "gigabytes": large["gigabytes"] + per_square * (N_NODES**2 - SIZES[1] ** 2),
    }


def _measure_in_a_process(method: str, n_nodes: int) -> dict[str, float]:
    done = subprocess.run([sys.executable, __file__, "--unit", method, str(n_nodes)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{method} at {n_nodes} nodes failed:\n{done.stderr}")
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def measure_unit(method: str, n_nodes: int) -> dict[str, float]:
    """In this process: the difference between fits of three epochs and of one, per graph and epoch; peak memory."""
    X = np.random.default_rng(0).normal(size=(N_GRAPHS, n_nodes, n_nodes)).astype(np.float32)
    X = (X + X.transpose(0, 2, 1)) / 2
    settings = {"validation_fraction": 0.0, "patience": None, "calibrate": False, "windows": "contiguous"}
    settings |= {"random_state": 0, "tolerance": 0.0}
    model = MODELS[method]()
    model.set_params(**{name: value for name, value in settings.items() if name in model.get_params()})
    used = []
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")
        for epochs in (1, 1, 3):  # the first compiles
            gc.collect()
            reset_peak_memory()
            began = time.process_time()
            clone(model).set_params(max_epochs=epochs).fit(X, np.arange(N_GRAPHS) % 2)
            used.append(time.process_time() - began)
    return {"seconds": (used[2] - used[1]) / 2 / N_GRAPHS, "gigabytes": peak_memory() / 1024**3 - X.nbytes / 1024**3}


def gpu_seconds() -> float:
    """Seconds per graph and epoch of Iso-CapsNet on an H200 at 400 nodes, by the figures of ``gpu.json``.

    Match and routing were measured at 400 nodes; the rest of a training step at 90 nodes grows with their square.
    """
    gpu = json.loads((HERE.parent / "docs" / "performance" / "gpu.json").read_text())
    routing = {row["n_nodes"]: row for row in gpu["routing"] if (row["n_graphs"], row["n_templates"]) != (8, 1)}
    match = next(row for row in gpu["sizes"] if row["kernel_size"] == 4)
    at_90 = 4 * match["replayed"]["milliseconds"] + routing[90]["replayed"]["milliseconds"]
    rest = (gpu["training"]["replayed"]["milliseconds"] - at_90) * (N_NODES / 90) ** 2
    step = gpu["large"]["fused"]["milliseconds"] / 2 + 4 * routing[N_NODES]["replayed"]["milliseconds"] + rest
    return step / 1000 / 64


def job_hours(method: str, seconds: float, n_subjects: int = N_SUBJECTS) -> float:
    """One job of a nested benchmark: its inner fits on two thirds of the training subjects, and the last fit."""
    protocol, model = Protocol(), MODELS[method]()
    n_train = n_subjects * (protocol.n_folds - 1) / protocol.n_folds
    n_grid = int(np.prod([len(values) for values in model.search_space().values()]))
    inner = protocol.count_inner_fits(min(n_grid, protocol.n_candidates))
    share = (protocol.inner_folds - 1) / protocol.inner_folds
    return float((1 + inner * share) * n_train * model.get_params()["max_epochs"] * seconds / 3600)


def measure_units() -> dict[str, Any]:
    rows = {}
    for method in METHODS:
        rows[method] = measure_method(method)
        rows[method]["hours"] = job_hours(method, rows[method]["seconds"])
        print(method, json.dumps(rows[method]), flush=True)
    gpu = gpu_seconds()
    return {"methods": rows, "gpu": {"seconds": gpu, "hours": job_hours("isocapsnet", gpu)}, "runner": measure_runner()}


def measure_runner() -> dict[str, float]:
    """What the runner does for a job whose test fold has 13,333 subjects: processor seconds, and bytes on disk."""
    n = N_SUBJECTS
    graphs = np.broadcast_to(np.eye(2, dtype=np.float32), (n, 2, 2)) * (1 + np.arange(n)[:, None, None] / n)
    study = BrainGraphs(graphs.astype(np.float32), np.arange(n) % 2)
    [task, *_] = make_plan(study, ["one"], 0).tasks(Path())
    record = make_record(task)
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        Store(folder).save(task.job, record)
        seconds = time.process_time() - began
        [file] = Path(folder).glob("records/??/*")
        return {"seconds": seconds, "bytes": file.stat().st_size}


def simulate_all(units: dict[str, Any], n_workers: int, permutations: int) -> list[dict[str, Any]]:
    """All methods on CPU workers, without and with permutations; Iso-CapsNet alone on GPUs."""
    hours = {method: row["hours"] for method, row in units["methods"].items()}
    short = {method: length for method, length in hours.items() if length < SHORT}
    on_gpu = {"isocapsnet": units["gpu"]["hours"]}
    rows = []
    for what, lengths, workers, number, keeps in [
        ("all methods", hours, 64, 0, True),
        ("all methods", hours, n_workers, 0, True),
        ("all methods", hours, n_workers, 0, False),
        (f"the {len(short)} methods below {SHORT} h", short, n_workers, permutations, True),
        ("isocapsnet on GPUs", on_gpu, 8, 0, True),
        ("isocapsnet on GPUs", on_gpu, 64, permutations, True),
    ]:
        rows.append({"what": what, **simulate(lengths, workers, number, keeps_scores=keeps)})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("units", "cluster"), help="one part; the other stays as it is in the output")
    parser.add_argument("--workers", type=int, default=2000, help="workers of the simulated cluster (2000)")
    parser.add_argument("--permutations", type=int, default=20, help="permutations of the simulated benchmark")
    parser.add_argument("--output", type=Path, default=HERE.parent / "docs" / "performance" / "scaling.json")
    parser.add_argument("--unit", nargs=2, metavar=("METHOD", "NODES"), help="measure one method in this process")
    options = parser.parse_args()
    if options.unit is not None:
        print(json.dumps(measure_unit(options.unit[0], int(options.unit[1]))))
        return
    result = json.loads(options.output.read_text()) if options.output.exists() else {}
    if options.only != "cluster":
        result["units"] = measure_units()
    if options.only != "units":
        result["cluster"] = simulate_all(result["units"], options.workers, options.permutations)
    options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
