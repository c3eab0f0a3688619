"""How often verdicts are wrong, and how often they find what is there: simulations behind ``docs/calibration.md``.

Every figure is a share of simulated datasets whose truth is known. The tests are those of the library, called as a
benchmark calls them (``isocapsnet.evaluation.procedures.TESTS``), on the folds that its protocol makes. Run one part or
all of them. A part that is interrupted continues where it stopped, and more ``--datasets`` add to those of a method::

    python benchmarks/calibration.py ridge                      # all cells; minutes
    python benchmarks/calibration.py linear --datasets 500      # six cells of 30-node graphs; hours
    python benchmarks/calibration.py gin isocapsnet --datasets 100
    python benchmarks/calibration.py page                       # docs/calibration.md from docs/calibration/*.json
"""

import argparse
import ast
import inspect
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration_page import write_page
from calibration_ridge import CELLS, N_EFFECT, N_NULL, Cell, simulate_ridge
from isocapsnet import InputError
from isocapsnet._files import write_whole
from isocapsnet.evaluation import areas, inference, resampled
from isocapsnet.evaluation.areas import FoldArea
from isocapsnet.evaluation.naming import digest_of, seed_from
from isocapsnet.evaluation.procedures import TESTS
from isocapsnet.models import MODELS

FOLDER = Path(__file__).parents[1] / "docs" / "calibration"
#: The cells of the methods that are slow to fit: like HIV-DTI and ABIDE-NYU, and others.
NAMED = {
    "small": Cell(40, 0.5, 2, "1 x 3"),
    "like HIV-DTI": Cell(76, 0.26, 2, "1 x 3"),
    "like ABIDE-NYU": Cell(182, 0.43, 2, "1 x 3"),
    "repeated": Cell(60, 0.4, 2, "5 x 3"),
    "ten folds": Cell(60, 0.5, 2, "1 x 10"),
    "three classes": Cell(90, 0.33, 3, "1 x 3"),
}
#: Method to its parameters. Networks train for few epochs, and without calibration, which does not change ranks.
METHODS: dict[str, dict[str, Any]] = {
    "linear": {},
    "gin": {"max_epochs": 5, "calibrate": False, "device": "cpu"},
    "isocapsnet": {"max_epochs": 3, "calibrate": False, "device": "cpu"},
}
#: Another method without tuning, which is as good as any where there is nothing to find.
OTHER = {"C": 0.01}
_N_NODES, _N_FACTORS = 30, 5


def draw_graphs(cell: Cell, dataset: int) -> NDArray[np.float64]:
    """Symmetric graphs of noise and shared factors ``(n_subjects, 30, 30)``, which tell nothing about the labels."""
    rng = np.random.default_rng(seed_from("calibration graphs", cell.name, dataset))
    factors = 0.5 * np.einsum(
        "sf,fij->sij", rng.normal(size=(cell.n_subjects, _N_FACTORS)), rng.normal(size=(_N_FACTORS, _N_NODES, _N_NODES))
    )
    graphs = rng.normal(size=(cell.n_subjects, _N_NODES, _N_NODES)) + factors
    return (graphs + graphs.swapaxes(1, 2)) / 2


def null_p_values(cell: Cell, name: str, dataset: int) -> dict[str, dict[str, float]]:
    """p-values of one null dataset by test: above chance, different from another method, equivalent to it."""
    graphs, labels = draw_graphs(cell, dataset), cell.labels
    folds: list[list[FoldArea]] = [[], []]
    for index, (train, test) in enumerate(cell.splits()):
        for own, model, parameters in ((folds[0], MODELS[name], METHODS[name]), (folds[1], MODELS["linear"], OTHER)):
            seed = seed_from("calibration fit", name, cell.name, dataset, index)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a network that learned nothing says so
                fitted = model(**parameters, random_state=seed).fit(graphs[train], labels[train])
            own.append(FoldArea.of(labels[test], fitted.predict_proba(graphs[test]), len(train)))
    result = {}
    for test_name, test in TESTS.items():
        difference, (_, low, high) = test.difference(*folds), test.area_interval(folds[0])
        result[test_name] = {
            "above_chance": test.above_chance(folds[0]),
            "different": difference.p_value,
            "equivalent": difference.p_equivalent,
            "uncovered": float(not low <= 0.5 <= high),
        }
    return result


# -- the command ------------------------------------------------------------------------------------------------


def read(name: str) -> dict[str, Any]:
    path = FOLDER / f"{name}.json"
    content: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return content


def save(name: str, content: dict[str, Any]) -> None:
    FOLDER.mkdir(exist_ok=True)
    write_whole(FOLDER / f"{name}.json", json.dumps(content, indent=0).encode())


def tests_digest() -> str:
    """Changes with the code of the tests, but not with its text, so that figures of earlier ones are computed again."""
    trees = [ast.parse(inspect.getsource(module)) for module in (areas, inference, resampled)]
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return digest_of([ast.dump(tree) for tree in trees])[:12]


def run_ridge(n_null: int, n_effect: int, keep: bool) -> Iterator[str]:
    """Compute the cells that are missing or (unless ``keep``) of earlier tests; what was done, one by one."""
    content, tests = read("ridge"), tests_digest()
    for cell in CELLS:
        if cell.name in content and (keep or content[cell.name].get("tests") == tests):
            continue
        start = time.perf_counter()
        try:
            cell.splits()
        except InputError as reason:
            content[cell.name] = vars(cell) | {"tests": tests, "refused": str(reason)}
        else:
            divisor = 4 * (cell.n_classes - 1) if cell.n_subjects >= 400 else 1  # these take longest
            figures = simulate_ridge(cell, n_null // divisor, n_effect // divisor)
            smallest = min(np.bincount(cell.labels[test]).min() for _, test in cell.splits())
            content[cell.name] = vars(cell) | {"tests": tests, "smallest": int(smallest), "figures": figures}
            content[cell.name]["seconds"] = time.perf_counter() - start
        save("ridge", content)
        yield f"{cell.name}: {time.perf_counter() - start:.0f} s"


def run_method(name: str, n_datasets: int, seconds: float) -> Iterator[str]:
    """Add datasets to every named cell until it has ``n_datasets``, in rounds of ten, for at most ``seconds``."""
    end = time.perf_counter() + seconds
    content = read(name)
    for reached in range(10, n_datasets + 10, 10):
        for title, cell in NAMED.items():
            entry = content.setdefault(title, {"name": cell.name, "seconds": 0.0, "datasets": []})
            for dataset in range(len(entry["datasets"]), min(reached, n_datasets)):
                start = time.perf_counter()
                entry["datasets"].append(null_p_values(cell, name, dataset))
                entry["seconds"] += time.perf_counter() - start
                save(name, content)
                if time.perf_counter() > end:
                    return
        yield f"{name}: {min(reached, n_datasets)} datasets in each cell"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=["ridge", *METHODS, "page"])
    parser.add_argument("--datasets", type=int, help=f"null datasets per cell (ridge: {N_NULL}, linear: 500, else 100)")
    parser.add_argument("--effects", type=int, default=N_EFFECT, help="datasets with an effect per cell, for ridge")
    parser.add_argument("--keep", action="store_true", help="keep the figures of earlier versions of the tests")
    parser.add_argument("--minutes", type=float, default=np.inf, help="stop a method after this time")
    arguments = parser.parse_args()
    for part in arguments.parts:
        steps: Iterator[str] = iter(())
        if part == "ridge":
            steps = run_ridge(arguments.datasets or N_NULL, arguments.effects, arguments.keep)
        elif part in METHODS:
            n_datasets = arguments.datasets or (500 if part == "linear" else 100)
            steps = run_method(part, n_datasets, 60 * arguments.minutes)
        for step in steps:
            print(step, flush=True)
    write_page(FOLDER, tests_digest())


if __name__ == "__main__":
    main()
