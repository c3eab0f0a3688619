"""The nested benchmark itself: what tuning, fitting, predicting, explaining and the rest take, method by method.

    python benchmarks/nested.py --output docs/performance/nested.json --folds-only 1
    python benchmarks/nested.py study.npz --methods wl,linear --jobs 2

Jobs are those of ``isocapsnet benchmark`` with the nested protocol (5 x 3 folds) and no preparation, each on one
thread. With ``--folds-only N`` only the first N of the 15 folds of each method run, and the page scales the figures up.
Times are processor seconds, so that they hold on a machine with other work: those of a whole job, shared out among its
parts by the clock. Overhead is a job without tuning, fitting, predicting and explaining: artifacts, checks, the record.
The stored figures of an earlier release stand in ``nested-previous.json``; ``--source`` measures another checkout.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import fields
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import psutil

ROOT = Path(__file__).parents[1]
METHODS = "constant,linear,wl,freq,autoencoder,gcn,isonn,gin,diffpool,dgcnn,cnn,sdbn,fastisonn,isocapsnet,capsnet"
PARTS = ("tune", "fit", "predict", "explain", "overhead")
#: Seconds of the explanations of this process; the jobs find it through the import path of :func:`explain_timed`.
EXPLAINED: list[float] = []


def explain_timed(*arguments: Any) -> None:
    """What a benchmark calls to explain a fold, with a clock."""
    from isocapsnet.explanation import write_explanation

    began = time.perf_counter()
    write_explanation(*arguments)
    EXPLAINED.append(time.perf_counter() - began)


def run_one(content: dict[str, Any], folder: str) -> dict[str, Any]:
    """One job in this process: seconds of its parts, the number of its inner fits and the ROC AUC of its test fold."""
    from sklearn.metrics import roc_auc_score

    import nested
    from isocapsnet._threads import one_thread
    from isocapsnet.evaluation.jobs import Task, run_job
    from isocapsnet.evaluation.store import Store

    task = Task.from_json(content)
    task.load()
    nested.EXPLAINED.clear()
    with one_thread(), returning_memory():
        began, processor = time.perf_counter(), time.process_time()
        record = Store(folder).save(task.job, run_job(task))
        clock, used = time.perf_counter() - began, time.process_time() - processor
    seconds = {**record["seconds"], "explain": sum(nested.EXPLAINED)}
    seconds["overhead"] = clock - sum(seconds.values())
    parts = {name: seconds[name] * used / clock for name in PARTS}
    return {
        "method": task.job.method,
        "fold": 3 * task.job.repeat + task.job.fold,
        **parts,
        "roc_auc": float(roc_auc_score(record["labels"], np.array(record["probabilities"])[:, 1])),
        "inner_fits": count_inner_fits(task),
        "peak_memory": record["peak_memory"],
    }


def returning_memory() -> AbstractContextManager[None]:
    """What the processes of a benchmark do with freed memory between stages; earlier versions kept it."""
    try:
        from isocapsnet._stages import watching
        from isocapsnet.evaluation.engine.child import ReturningMemory
    except ImportError:
        return nullcontext()
    return watching(ReturningMemory(lambda stage: None))


def count_inner_fits(task: Any) -> int | None:
    """The inner fits of a job, by its stored scores; None if this version stores none."""
    path = getattr(task, "inner_scores", None)
    return len(json.loads(Path(path).read_text())["scores"]) if path and Path(path).exists() else None


@contextmanager
def watch_memory() -> Iterator[dict[str, float]]:
    """The most that this process and its children hold together, in MB, looked at once a second.

    ``shared_once`` counts memory that several processes share once (PSS); ``anonymous`` is without pages of files.
    """
    peaks, stop = {"shared_once": 0.0, "anonymous": 0.0}, threading.Event()
    own = psutil.Process()

    def look() -> None:
        while not stop.wait(1.0):
            found = dict.fromkeys(peaks, 0.0)
            for process in [own, *own.children(recursive=True)]:
                with suppress(psutil.Error, OSError):
                    maps = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
                    sizes = {line.split(":")[0]: int(line.split()[1]) for line in maps if line.endswith(" kB")}
                    found["shared_once"] += sizes["Pss"] * 1024 / 1e6
                    found["anonymous"] += sizes["Pss_Anon"] * 1024 / 1e6
            for name, size in found.items():
                peaks[name] = max(peaks[name], size)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield peaks
    finally:
        stop.set()
        watcher.join()


def make_plan(data: str, methods: str, protocol: Any, folder: Path | None = None) -> Any:
    """A nested benchmark, with a copy of the data in ``folder`` if other processes are to read it."""
    from isocapsnet import load_graphs
    from isocapsnet._methods import list_methods
    from isocapsnet._planning import publish
    from isocapsnet.evaluation.plan import Plan
    from isocapsnet.evaluation.samples import DataSource, Samples

    samples = Samples(load_graphs(data), None, False)
    source = DataSource("", samples.digest) if folder is None else publish(samples, folder)
    source.keep(samples)
    return Plan(source, list_methods(methods.split(",")), protocol, repeats=5, explain="nested:explain_timed")


def measure(options: argparse.Namespace) -> None:
    """Sums over folds of every method, written after each job: an interrupted run leaves those that were finished."""
    from isocapsnet.evaluation.protocol import Protocol

    sums: dict[str, dict[str, Any]] = defaultdict(lambda: defaultdict(float))
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as name, watch_memory() as peaks:
        has_choice = any(field.name == "search" for field in fields(Protocol))  # not in earlier versions
        protocol = Protocol(**({"search": options.search} if has_choice else {}))
        tasks = make_plan(options.data, options.methods, protocol, Path(name)).tasks(Path(name))
        n_folds = len({(task.job.repeat, task.job.fold) for task in tasks})
        chosen = [task for task in tasks if task.job.repeat * 3 + task.job.fold < (options.folds_only or n_folds)]
        # The dear methods first, so that no process is left with one of them at the end.
        chosen.sort(key=lambda task: -METHODS.split(",").index(task.job.method) if task.job.method in METHODS else 0)
        about = {
            "data": Path(options.data).stem,
            "release": options.release,
            "search": options.search,
            "n_folds": n_folds,
            "torch": version("torch"),
            "cores": os.cpu_count(),
            "jobs": options.jobs,
        }
        with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
            for future in as_completed([pool.submit(run_one, task.to_json(), name) for task in chosen]):
                answer = future.result()
                row = sums[answer["method"]]
                row["folds"] += 1
                row["inner_fits"] += answer["inner_fits"] or 0
                row["peak_memory"] = max(row["peak_memory"], answer["peak_memory"])
                row.setdefault("roc_auc", {})[str(answer["fold"])] = answer["roc_auc"]
                for part in PARTS:
                    row[part] += answer[part]
                print(json.dumps(answer), flush=True)
                about.update(wall_seconds=time.perf_counter() - began, peak_mb=peaks)
                if options.output is not None:
                    write(options.output, about, sums)


def write(path: Path, about: dict[str, Any], sums: dict[str, dict[str, Any]]) -> None:
    """The figures as JSON; methods that were not run keep theirs."""
    earlier = json.loads(path.read_text())["methods"] if path.exists() else {}
    found = {**earlier, **sums}
    order = sorted(found, key=lambda method: METHODS.index(method) if method in METHODS else len(METHODS))
    path.write_text(json.dumps({**about, "methods": {method: found[method] for method in order}}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", default="abide-nyu", help="a file or the name of a dataset (abide-nyu)")
    parser.add_argument(
        "--methods", default=METHODS, help="names separated by commas (the fifteen of the paper's table)"
    )
    parser.add_argument("--search", default="halving", help="halving or exhaustive")
    parser.add_argument("--folds-only", type=int, metavar="N", help="the first N of the 15 folds of each method")
    parser.add_argument("--jobs", type=int, default=1, help="jobs at the same time (1)")
    parser.add_argument("--release", default="this version", help="what the page calls the version that is measured")
    parser.add_argument("--source", type=Path, help="the src folder of another checkout, to measure that one")
    parser.add_argument(
        "--output", type=Path, help="where the figures go, as JSON; methods that are not run keep theirs"
    )
    options = parser.parse_args()
    here = str(Path(__file__).parent)
    paths = [str(options.source or ROOT / "src"), here, os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)  # of the processes that run jobs
    sys.path[:0] = paths[:2]
    from isocapsnet.evaluation.engine import worker

    # As in the processes of the benchmark; earlier versions had no such settings.
    os.environ.update({**getattr(worker, "KEPT_MEMORY", {}), **os.environ})
    measure(options)


if __name__ == "__main__":
    main()
