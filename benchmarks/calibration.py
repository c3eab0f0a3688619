"""How often verdicts are wrong, and how often they find what is there: simulations behind ``docs/calibration.md``.

Every figure is a share of simulated datasets whose truth is known. The tests are those of the library, called as a
benchmark calls them (``isocapsnet.evaluation.procedures.TESTS``), on the folds that its protocol makes. Run one part or
all of them. Results are saved every few seconds, so a part can be stopped at any time; it continues where it stopped::

    python benchmarks/calibration.py ridge --jobs 16            # all cells
    python benchmarks/calibration.py gin isocapsnet --jobs 16   # six cells of 30-node graphs
    python benchmarks/calibration.py linear --jobs 16
    python benchmarks/calibration.py gin --cells repeated --datasets 500
    python benchmarks/calibration.py page                       # docs/calibration.md from docs/calibration/*.json
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product, takewhile
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from calibration_methods import FIXED, METHODS, N_DATASETS, NAMED, identify, rank_test_subjects
from calibration_page import write_page
from calibration_ridge import AREAS, CELLS, N_EFFECT, N_NULL, simulate_ridge, tests_digest
from isocapsnet import InputError
from isocapsnet._files import write_whole

FOLDER = Path(__file__).parents[1] / "docs" / "calibration"
_SECONDS_BETWEEN_SAVES = 5

#: A part of the simulations to its results so far.
Content = dict[str, Any]
#: The part of the content that the result is added to, and the function and arguments that compute it.
Task = tuple[Content, Callable[..., Content], tuple[Any, ...]]


def read(name: str) -> Content:
    path = FOLDER / f"{name}.json"
    content: Content = json.loads(path.read_text()) if path.exists() else {}
    return content


def save(name: str, content: Content) -> None:
    FOLDER.mkdir(exist_ok=True)
    write_whole(FOLDER / f"{name}.json", json.dumps(content, indent=0).encode())


def ridge_tasks(content: Content, n_null: int, n_effect: int) -> Iterator[Task]:
    """The cells and areas that are missing, of earlier tests, or of fewer datasets."""
    tests = tests_digest()
    for cell in CELLS:
        entry = content.setdefault(cell.name, vars(cell) | {"figures": {}})
        try:
            splits = cell.splits()
        except InputError as reason:
            content[cell.name] = vars(cell) | {"refused": str(reason)}
            continue
        entry["smallest"] = int(min(np.bincount(cell.labels[test]).min() for _, test in splits))
        for area in AREAS:
            figures, n_datasets = entry["figures"].get(str(area)), n_null if area == 0.5 else n_effect
            if figures is None or figures["tests"] != tests or figures["n"] < n_datasets:
                yield entry["figures"], simulate_ridge, (cell, area, n_datasets)


def method_tasks(content: Content, name: str, n_datasets: int, titles: Sequence[str]) -> Iterator[Task]:
    """The datasets that are missing or of another version of the method, ten of each named cell in turn."""
    cells = {title: NAMED[title] for title in titles}
    for title, cell in cells.items():
        if [content.get(title, {}).get(key) for key in ("name", "method")] != [cell.name, identify(name)]:
            content[title] = {"name": cell.name, "method": identify(name), "ranks": {}}
    for first, (title, cell) in product(range(0, n_datasets, 10), cells.items()):
        ranks = content[title]["ranks"]
        for dataset in range(first, min(first + 10, n_datasets)):
            if str(dataset) not in ranks:
                yield ranks, rank_test_subjects, (name, cell, dataset)


def run(name: str, content: Content, tasks: Sequence[Task], n_jobs: int, end: float) -> None:
    """Do the tasks in ``n_jobs`` processes, and begin none after the time ``end``."""
    begun = takewhile(lambda _: time.monotonic() < end, enumerate(tasks))
    calls = (delayed(_call)(index, function, *arguments) for index, (_, function, arguments) in begun)
    workers = Parallel(n_jobs, return_as="generator_unordered", pre_dispatch="n_jobs", batch_size=1)
    saved = time.monotonic()
    try:
        for n_done, (index, result) in enumerate(workers(calls), start=1):
            tasks[index][0].update(result)
            if time.monotonic() > saved + _SECONDS_BETWEEN_SAVES:
                save(name, content)
                print(f"{name}: {n_done} of {len(tasks)}", flush=True)
                saved = time.monotonic()
    finally:
        save(name, content)


def _call(index: int, function: Callable[..., Content], *arguments: Any) -> tuple[int, Content]:
    return index, function(*arguments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=["ridge", *METHODS, "page"])
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--datasets", type=int, help=f"null datasets per cell (ridge: {N_NULL}, linear: 500, else 100)")
    parser.add_argument("--cells", choices=NAMED, nargs="+", default=list(NAMED), help="cells of methods (all)")
    parser.add_argument("--effects", type=int, default=N_EFFECT, help="datasets with an effect per cell, for ridge")
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin nothing new after this time")
    arguments = parser.parse_args()
    end = time.monotonic() + 60 * arguments.minutes
    parts = [part for part in arguments.parts if part != "page"]
    if compared := [part for part in parts if part in METHODS and part != FIXED]:
        parts.insert(parts.index(compared[0]), FIXED)
    for part in parts:
        content = read(part)
        if part == "ridge":
            tasks = ridge_tasks(content, arguments.datasets or N_NULL, arguments.effects)
        else:
            needed = max(N_DATASETS[name] for name in (compared if part == FIXED and compared else [part]))
            tasks = method_tasks(content, part, arguments.datasets or needed, arguments.cells)
        run(part, content, list(tasks), arguments.jobs, end)
    write_page(FOLDER, tests_digest())


if __name__ == "__main__":
    main()
