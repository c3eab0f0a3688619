"""Methods of the library on the simulated graphs of :mod:`calibration`, in which there is nothing to find.

What is stored of a dataset is the ranks of the test subjects. Tests depend on scores through these alone, so a change
of the tests needs no fits.
"""

import base64
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from calibration_ridge import Cell, measure
from isocapsnet.evaluation.areas import FoldArea
from isocapsnet.evaluation.naming import seed_from
from isocapsnet.models import MODELS

#: The cells of the methods that are slow to fit: like HIV-DTI and ABIDE-NYU, and others.
NAMED = {
    "small": Cell(40, 0.5, 2, "1 x 3"),
    "like HIV-DTI": Cell(76, 0.26, 2, "1 x 3"),
    "like ABIDE-NYU": Cell(182, 0.43, 2, "1 x 3"),
    "repeated": Cell(60, 0.4, 2, "5 x 3"),
    "ten folds": Cell(60, 0.5, 2, "1 x 10"),
    "three classes": Cell(90, 0.33, 3, "1 x 3"),
}
#: Without tuning; as good as any method if there is nothing to find, so it is what the others are compared with.
FIXED = "linear-fixed"
#: A name to the method and its parameters. Networks train for few epochs, and without calibration, which does not
#: change ranks. Without it Iso-CapsNet is the network of the paper, so this row says nothing about the motif form.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    FIXED: ("linear", {"C": 0.01}),
    "linear": ("linear", {}),
    "gin": ("gin", {"max_epochs": 5, "calibrate": False, "device": "cpu"}),
    "isocapsnet": ("isocapsnet", {"max_epochs": 3, "calibrate": False, "device": "cpu"}),
}
#: Datasets per cell.
N_DATASETS = {FIXED: 500, "linear": 500, "gin": 100, "isocapsnet": 100}
_N_NODES, _N_FACTORS = 30, 5


def identify(name: str) -> list[Any]:
    """The method with its version and parameters; results of another one are computed again."""
    method, parameters = METHODS[name]
    return [method, MODELS[method].version, parameters]


def draw_graphs(cell: Cell, dataset: int) -> NDArray[np.float64]:
    """Symmetric graphs of noise and shared factors ``(n_subjects, 30, 30)``, which tell nothing about the labels."""
    rng = np.random.default_rng(seed_from("calibration graphs", cell.name, dataset))
    factors = 0.5 * np.einsum(
        "sf,fij->sij", rng.normal(size=(cell.n_subjects, _N_FACTORS)), rng.normal(size=(_N_FACTORS, _N_NODES, _N_NODES))
    )
    graphs = rng.normal(size=(cell.n_subjects, _N_NODES, _N_NODES)) + factors
    return (graphs + graphs.swapaxes(1, 2)) / 2


def rank_test_subjects(name: str, cell: Cell, dataset: int) -> dict[str, str]:
    """The number of a dataset to the ranks of the test subjects of all folds, by a method fitted to other folds."""
    (method, parameters), graphs, labels = METHODS[name], draw_graphs(cell, dataset), cell.labels
    ranks = []
    for index, (train, test) in enumerate(cell.splits()):
        seed = seed_from("calibration fit", name, cell.name, dataset, index)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a network that learned nothing says so
            model = MODELS[method](**parameters, random_state=seed).fit(graphs[train], labels[train])
        scores = model.predict_proba(graphs[test])
        ranks.append(stats.rankdata(scores[:, 1:] if cell.n_classes == 2 else scores, axis=0))
    return {str(dataset): encode(np.concatenate(ranks))}


def encode(ranks: NDArray[np.float64]) -> str:
    """Midranks of up to 127 subjects as text; doubled, they are integers."""
    return base64.b64encode((2 * ranks).astype(np.uint8).tobytes()).decode()


def decode(text: str, cell: Cell) -> list[FoldArea]:
    """The test folds of one dataset."""
    n_columns = 1 if cell.n_classes == 2 else cell.n_classes
    ranks = np.frombuffer(base64.b64decode(text), dtype=np.uint8).reshape(-1, n_columns) / 2
    splits, labels = cell.splits(), cell.labels
    ends = np.cumsum([len(test) for _, test in splits])[:-1]
    return [
        FoldArea.of(labels[test], own[:, 0] if n_columns == 1 else own, len(train), subjects=test)
        for (train, test), own in zip(splits, np.split(ranks, ends), strict=True)
    ]


def measure_method(cells: Mapping[str, Any], fixed: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What each test says about the datasets of each cell, and about those of all of them together."""
    first: dict[str, list[list[FoldArea]]] = {}
    second: dict[str, list[list[FoldArea]]] = {}
    for title, cell in NAMED.items():
        own, other = (content.get(title, {}).get("ranks", {}) for content in (cells, fixed))
        if common := [number for number in own if number in other]:
            name = f"{title}: {cell.name}"
            first[name], second[name] = ([decode(ranks[n], cell) for n in common] for ranks in (own, other))
    for by_cell in (first, second) if len(first) > 1 else ():
        by_cell["all together"] = [folds for datasets in list(by_cell.values()) for folds in datasets]
    return {name: measure(first[name], second[name], 0.5) for name in first}
