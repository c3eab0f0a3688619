"""Halving beside exhaustive search on a dataset: inner scores of all candidates, and test scores of what each chooses.

    python benchmarks/searches.py abide-nyu --output searches.jsonl --methods wl,gcn --jobs 2
    python benchmarks/searches.py abide-nyu --output searches.jsonl --table

Folds, candidates and seeds are those of ``isocapsnet benchmark`` with the nested protocol (5 x 3 folds). In every
training fold each candidate is fitted in each inner fold. Both searches then choose from these scores, and their
choices and the defaults are fitted to the whole training fold and tested. Every fit is one line of the output; the same
command continues a run that was interrupted. Nothing is chosen by test scores. ``halving.py --scores`` reads the file.
"""

import argparse
import json
import time
import warnings
from collections import defaultdict
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from halving import rerun
from isocapsnet.evaluation.estimation import build_estimator, list_candidates, predict_probabilities
from isocapsnet.evaluation.metrics import roc_auc
from isocapsnet.evaluation.protocol import Protocol, inner_folds
from isocapsnet.evaluation.search import SEARCHES
from nested import METHODS, make_plan


class Fit(NamedTuple):
    """One fit: of a candidate in an inner fold, or in the whole training fold (``inner`` is None)."""

    method: str
    repeat: int
    fold: int
    inner: int | None
    row: int


@lru_cache(maxsize=1)
def open_plan(data: str, methods: str) -> tuple[Any, dict[tuple[str, int, int], Any]]:
    """The samples, and the tasks by method, repeat and fold."""
    plan = make_plan(data, methods, Protocol())
    tasks = plan.tasks(Path("unused"))
    return plan.source.load(), {(task.job.method, task.job.repeat, task.job.fold): task for task in tasks}


def lay_out(samples: Any, task: Any) -> tuple[Any, NDArray[Any], list[dict[str, Any]], list[Any]]:
    """Split, training labels, candidates and inner folds of a task; one candidate and no folds without a search."""
    job = task.job
    protocol = Protocol.from_json(job.protocol)
    split = protocol.splits(samples, job.repeat)[job.fold]
    labels = samples.labels[split.train]
    if not job.space:
        return split, labels, [{}], []
    defaults = build_estimator(task.factory, job.parameters, 0).get_params()
    candidates = list_candidates(job.space, defaults, protocol.n_candidates, job.seed("candidates"))
    return split, labels, candidates, inner_folds(labels, None, protocol.inner_folds, job.seed("inner folds"))


def run_fit(fit: Fit, data: str, methods: str, device: str) -> dict[str, Any]:
    """One line of the output."""
    samples, tasks = open_plan(data, methods)
    task = tasks[fit.method, fit.repeat, fit.fold]
    split, labels, candidates, folds = lay_out(samples, task)
    inside, held_out = np.arange(len(split.train)), split.test
    if fit.inner is not None:
        inside, outside = folds[fit.inner]
        held_out = split.train[outside]
    # As in a benchmark, probabilities are calibrated only in the last fit.
    wanted = {"device": device, **({} if fit.inner is None else {"calibrate": False})}
    settings = {**task.job.parameters, **candidates[fit.row]}
    has = build_estimator(task.factory, settings, 0).get_params()
    settings |= {name: value for name, value in wanted.items() if name in has}
    line: dict[str, Any] = {**fit._asdict(), "settings": candidates[fit.row], "n_candidates": len(candidates)}
    began, processor = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            estimator = build_estimator(task.factory, settings, task.job.seed("fit"))
            estimator.fit(samples.X[split.train[inside]], labels[inside])
            truth = np.searchsorted(samples.classes, samples.labels[held_out])
            line["auc"] = roc_auc(truth, predict_probabilities(estimator, samples.X[held_out], samples.classes))
        except ValueError as error:
            line["error"] = str(error)[:300]
    return {**line, "seconds": time.perf_counter() - began, "cpu": time.process_time() - processor}


class Lines:
    """The output: scores ``(n_candidates, n_folds)`` and test scores by candidate of every method and outer fold."""

    def __init__(self, path: Path) -> None:
        self.path, self.done = path, set[Fit]()
        self.tables: dict[tuple[str, int, int], dict[tuple[int, int], dict[str, Any]]] = defaultdict(dict)
        self.tested: dict[tuple[str, int, int], dict[int, float]] = defaultdict(dict)
        for line in path.read_text().splitlines() if path.exists() else []:
            self._note(json.loads(line))

    def add(self, line: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        self._note(line)

    def _note(self, line: dict[str, Any]) -> None:
        where = line["method"], line["repeat"], line["fold"]
        self.done.add(Fit(*where, line["inner"], line["row"]))
        if line["inner"] is None:
            self.tested[where][line["row"]] = line.get("auc", np.nan)
        else:
            self.tables[where][line["row"], line["inner"]] = line

    def choices(self, where: tuple[str, int, int], n_candidates: int, n_folds: int) -> dict[str, tuple[int, float]]:
        """The row that each search chooses and the share of seconds it needs; empty while the table is not whole."""
        table = self.tables[where]
        if not n_folds:
            return dict.fromkeys((*SEARCHES, "defaults"), (0, 0.0))
        cells = [[table.get((row, fold), {}) for fold in range(n_folds)] for row in range(n_candidates)]
        if not all(cell for row in cells for cell in row):
            return {}
        scores = np.array([[cell.get("auc", np.nan) for cell in row] for row in cells])
        seconds = np.array([[cell["cpu"] for cell in row] for row in cells])
        found: dict[str, tuple[int, float]] = {"defaults": (0, 0.0)}
        for name, search in SEARCHES.items():
            row, tried = rerun(scores, [40] * n_folds, search)
            found[name] = row, float(seconds[~np.isnan(tried)].sum() / seconds.sum())
        return found


def run(options: argparse.Namespace) -> None:
    """All fits that are not in the output, repeat by repeat; a choice is tested when its table is whole."""
    samples, tasks = open_plan(options.data, options.methods)
    lines = Lines(options.output)
    shapes, waiting = {}, list[Fit]()
    for where, task in sorted(tasks.items(), key=lambda item: item[0][1]):
        _, _, candidates, folds = lay_out(samples, task)
        shapes[where] = len(candidates), len(folds)
        waiting += [Fit(*where, inner, row) for inner in range(len(folds)) for row in range(len(candidates))]
    asked = {fit for fit in waiting if fit in lines.done}
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        fixed = options.data, options.methods, options.device
        running = {pool.submit(run_fit, fit, *fixed) for fit in waiting if fit not in asked}
        whole = list(shapes)
        while running or whole:
            for where in [where for where in whole if lines.choices(where, *shapes[where])]:
                whole.remove(where)
                rows = {row for row, _ in lines.choices(where, *shapes[where]).values()}
                chosen = {Fit(*where, None, row) for row in rows} - lines.done
                running |= {pool.submit(run_fit, fit, *fixed) for fit in chosen}
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                lines.add(future.result())


def tabulate(options: argparse.Namespace) -> None:
    """Test scores of both searches: difference with its paired 95 % interval, and the share of inner seconds."""
    samples, tasks = open_plan(options.data, options.methods)
    lines = Lines(options.output)
    print("| method | folds | exhaustive | halving | difference (95 % interval) | defaults - exhaustive | time |")
    print("|---|---|---|---|---|---|---|")
    means = []
    for method in options.methods.split(","):
        rows = []
        for where in sorted(where for where in tasks if where[0] == method):
            _, _, candidates, folds = lay_out(samples, tasks[where])
            choices, tested = lines.choices(where, len(candidates), len(folds)), lines.tested[where]
            if choices and all(row in tested for row, _ in choices.values()):
                areas = [tested[choices[name][0]] for name in ("exhaustive", "halving", "defaults")]
                rows.append([*areas, choices["halving"][1]])
        if not rows:
            continue
        exhaustive, halving, defaults, share = np.array(rows).T
        difference = halving - exhaustive
        # Folds share training subjects: the correction of Nadeau and Bengio, with half as many test subjects.
        error = np.sqrt(difference.var(ddof=1) * (1 / len(rows) + 0.5)) if len(rows) > 1 else np.nan
        half = stats.t.ppf(0.975, len(rows) - 1) * error
        means.append(difference.mean())
        print(
            f"| `{method}` | {len(rows)} | {exhaustive.mean():.3f} | {halving.mean():.3f} | {difference.mean():+.4f} "
            f"(±{half:.3f}) | {(defaults - exhaustive).mean():+.4f} | {share.mean():.0%} |"
        )
    print(f"\nMean difference over methods: {np.mean(means):+.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="a file, or the name of a dataset")
    parser.add_argument("--output", type=Path, required=True, help="one JSON line per fit")
    parser.add_argument("--methods", default=METHODS, help="names separated by commas")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--table", action="store_true", help="print the table of what is in the output")
    options = parser.parse_args()
    (tabulate if options.table else run)(options)


if __name__ == "__main__":
    main()
