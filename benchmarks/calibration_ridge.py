"""Simulated datasets of :mod:`calibration` on which ridge regression is evaluated, many of them at once.

Features are Gaussian with shared factors. Two equally good methods are ridge regressions on two overlapping blocks of
features that have the same distribution. A worse method is one of them with noise added to its scores, as much as
lowers its mean ROC AUC by the difference that is asked for. The noise of a subject is new in each repeat, as if a
network had another random start, or lasts, as if the method could not see what another one sees.
"""

import ast
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from isocapsnet.evaluation import areas, differences, inference, resampled
from isocapsnet.evaluation.areas import FoldArea
from isocapsnet.evaluation.differences import MARGIN
from isocapsnet.evaluation.naming import digest_of, seed_from
from isocapsnet.evaluation.procedures import DEFAULT_TEST, TESTS
from isocapsnet.evaluation.protocol import stratified_folds

LEVEL = 0.05
#: Repeats and folds.
SCHEMES = {"1 x 3": (1, 3), "5 x 3": (5, 3), "1 x 10": (1, 10)}
SIZES = (40, 80, 160, 400)
#: The share of the smallest class, by the number of classes; the other classes are of one size.
BALANCES = {2: (0.5, 0.35, 0.2), 3: (0.33, 0.25, 0.2)}
#: ROC AUC that the effect is chosen for (in 1 x 3 folds).
AREAS = (0.5, 0.65, 0.8, 0.95)
#: A difference that a test should find.
DIFFERENCE = 0.1
#: By how much lasting noise makes two equally good methods worse, from the largest area.
LASTING = 0.15
#: Datasets per cell without and with an effect.
N_NULL, N_EFFECT = 1000, 300
#: Features of both methods, and of each alone; shared factors.
_SHARED, _OWN, _N_FACTORS = 100, 100, 5
_BATCH = 50


@dataclass(frozen=True)
class Cell:
    """A kind of dataset and its folds."""

    n_subjects: int
    balance: float
    n_classes: int
    scheme: str

    @property
    def name(self) -> str:
        return f"{self.n_subjects} subjects, {self.n_classes} classes, smallest {self.balance:g}, {self.scheme}"

    @property
    def labels(self) -> NDArray[np.int64]:
        smallest = round(self.balance * self.n_subjects)
        others = np.arange(self.n_subjects - smallest) % (self.n_classes - 1)
        return np.concatenate([others, np.full(smallest, self.n_classes - 1)])

    def splits(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Training and test subjects, as the protocol makes them; refused where it refuses."""
        repeats, n_folds = SCHEMES[self.scheme]
        seeds = [seed_from("calibration folds", self.name, repeat) for repeat in range(repeats)]
        return [split for seed in seeds for split in stratified_folds(self.labels, None, n_folds, seed)]


CELLS = [
    Cell(n, balance, n_classes, scheme)
    for n, n_classes in product(SIZES, BALANCES)
    for balance, scheme in product(BALANCES[n_classes], SCHEMES)
]


def draw_features(cell: Cell, strength: float, n_datasets: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Features ``(n_datasets, n_subjects, n_features)``: those of the first method alone, shared, of the second alone.

    The effect and the loadings of the factors are the same in all datasets and, so that both methods are equally good,
    in both parts that a method has alone.
    """
    fixed = np.random.default_rng(seed_from("calibration effect", cell.n_classes))
    means, loadings = (fixed.normal(size=(rows, _OWN + _SHARED)) for rows in (cell.n_classes, _N_FACTORS))
    means, loadings = (np.hstack([part, part[:, :_OWN]]) for part in (means, loadings))
    shape = (n_datasets, cell.n_subjects)
    noise = rng.normal(size=(*shape, means.shape[1]))
    noise += 0.5 * rng.normal(size=(*shape, _N_FACTORS)) @ loadings
    return noise + strength * means[cell.labels]


def ridge_scores(
    features: NDArray[np.float64], labels: NDArray[np.int64], splits: Sequence[tuple[NDArray[Any], NDArray[Any]]]
) -> list[NDArray[np.float64]]:
    """Scores ``(n_datasets, n_test, n_classes)`` of each test fold by a ridge regression fitted to the other subjects.

    With G = (X Xᵀ + λ I)⁻¹ of all subjects, the residuals of a fold T that did not train are G_TT⁻¹ (G y)_T.
    """
    targets = np.eye(labels.max() + 1)[labels]
    targets = (targets - targets.mean(axis=0))[None]
    kernel = features @ features.swapaxes(1, 2)
    kernel[:, np.arange(len(labels)), np.arange(len(labels))] += features.shape[2]
    inverse = np.linalg.inv(kernel)
    dual = inverse @ targets
    return [targets[:, test] - np.linalg.solve(inverse[:, test[:, None], test], dual[:, test]) for _, test in splits]


def fold_areas(
    labels: NDArray[np.int64], scores: NDArray[np.float64], n_train: int, subjects: NDArray[np.int64] | None = None
) -> list[FoldArea]:
    """``FoldArea.of`` of many datasets at once: scores ``(n_datasets, n_test, n_classes)`` without ties."""
    n_test, n_classes = scores.shape[1:]
    counts = np.bincount(labels, minlength=n_classes)
    columns = [1] if n_classes == 2 else range(n_classes)
    a, placements = np.zeros_like(scores), np.zeros(scores.shape[:2])
    areas, all_ranks = np.zeros(len(scores)), np.zeros(scores.shape, dtype=np.float32)
    for column in columns:
        positive = labels == column
        n_positive, n_negative = counts[column], n_test - counts[column]
        ranks = _rank(scores[:, :, column])
        all_ranks[:, :, column] = ranks
        inside = np.empty_like(ranks)
        inside[:, positive], inside[:, ~positive] = (_rank(scores[:, side, column]) for side in (positive, ~positive))
        wins = ranks - inside
        areas += wins[:, positive].sum(axis=1) / (n_positive * n_negative * len(columns))
        placements[:, positive] += wins[:, positive] / n_negative
        placements[:, ~positive] += (1 - wins[:, ~positive] / n_positive) * counts[labels[~positive]] / n_negative
        a[:, :, column] = ranks / (n_positive * n_negative)
    d = a - a.mean(axis=1, keepdims=True)
    d -= (d @ counts / n_test)[:, :, None]
    variances = (d**2).sum(axis=1) @ counts / ((n_test - 1) * len(columns) ** 2)
    small = labels.astype(np.min_scalar_type(n_classes))
    parts = zip(areas.tolist(), variances.tolist(), placements / len(columns), all_ranks, strict=True)
    return [
        FoldArea(area, variance, small, own, n_train, subjects=subjects, ranks=ranks)
        for area, variance, own, ranks in parts
    ]


def _rank(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    return scores.argsort(axis=1).argsort(axis=1) + 1.0


Folds = list[list[FoldArea]]


def ridge_folds(cell: Cell, strength: float, n_datasets: int, scenario: str) -> tuple[Folds, Folds, list[Any]]:
    """For each dataset the test folds of two equally good methods, and the scores of the second by fold."""
    labels, splits = cell.labels, cell.splits()
    parts: list[list[list[NDArray[np.float64]]]] = [[[] for _ in splits] for _ in range(2)]
    for batch in range(0, n_datasets, _BATCH):
        rng = np.random.default_rng(seed_from("calibration", cell.name, scenario, batch))
        features = draw_features(cell, strength, min(_BATCH, n_datasets - batch), rng)
        for own, block in zip(parts, (features[:, :, :-_OWN], features[:, :, _OWN:]), strict=True):
            for fold, scores in zip(own, ridge_scores(block, labels, splits), strict=True):
                fold.append(scores)
    first, second = ([np.concatenate(fold) for fold in own] for own in parts)
    return by_dataset(cell, first), by_dataset(cell, second), second


def by_dataset(cell: Cell, scores: Sequence[NDArray[np.float64]]) -> Folds:
    """The test folds of each dataset, from the scores of each fold."""
    labels, splits = cell.labels, cell.splits()
    folds = [fold_areas(labels[test], own, len(train), test) for (train, test), own in zip(splits, scores, strict=True)]
    return [list(folds_of_one) for folds_of_one in zip(*folds, strict=True)]


def mean_area(folds: Folds) -> float:
    return float(np.mean([np.mean([fold.area for fold in dataset]) for dataset in folds]))


@lru_cache
def find_strength(n_subjects: int, balance: float, n_classes: int, area: float) -> float:
    """The strength of the effect with which ridge has about this ROC AUC in 1 x 3 folds."""
    if area == 0.5:
        return 0.0
    cell = Cell(n_subjects, balance, n_classes, "1 x 3")
    n_pilots = max(12, 2000 // n_subjects)

    def missing(strength: float) -> float:
        return mean_area(ridge_folds(cell, strength, n_pilots, "pilot")[0]) - area

    return float(optimize.brentq(missing, 0.0, 2.0, xtol=0.002))


def worsen(
    cell: Cell, first: Folds, scores: Sequence[NDArray[np.float64]], by: float, lasting: str = "", failing: bool = False
) -> Folds:
    """The second method with as much noise in its scores as makes its mean ROC AUC lower by ``by``.

    With a name in ``lasting``, the noise of a subject is the same in all repeats, and another one for another name.
    With ``failing``, half of the fits have noise and the others have none.
    """
    if not lasting:
        rng = np.random.default_rng(seed_from("calibration noise", cell.name, by, *["failing"] * failing))
        noise = [rng.normal(size=own.shape) for own in scores]
        noise = [extra * rng.integers(2, size=(len(extra), 1, 1)) for extra in noise] if failing else noise
    else:
        rng = np.random.default_rng(seed_from("calibration lasting noise", cell.name, lasting))
        by_subject = rng.normal(size=(len(scores[0]), cell.n_subjects, cell.n_classes))
        noise = [by_subject[:, test] for _, test in cell.splits()]
    noise = [extra * own.std(axis=1, keepdims=True) for extra, own in zip(noise, scores, strict=True)]
    labels, target = [cell.labels[test] for _, test in cell.splits()], mean_area(first) - by

    def excess(amount: float) -> float:
        parts = zip(labels, scores, noise, strict=True)
        return float(np.mean([_areas(truth, own + amount * extra) for truth, own, extra in parts]) - target)

    most = 20.0  # with few datasets, not even this may be enough, or nothing too much
    if excess(0.0) <= 0 or excess(most) >= 0:
        amount = 0.0 if excess(0.0) <= 0 else most
    else:
        amount = optimize.brentq(excess, 0.0, most, xtol=1e-3)
    return by_dataset(cell, [own + amount * extra for own, extra in zip(scores, noise, strict=True)])


def _areas(labels: NDArray[np.int64], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The ROC AUC of each dataset (n_datasets,), the mean over one-vs-rest beyond two classes."""
    n_classes, areas = scores.shape[2], []
    for column in [1] if n_classes == 2 else range(n_classes):
        positive = labels == column
        wins = _rank(scores[:, :, column])[:, positive].sum(axis=1) - positive.sum() * (positive.sum() + 1) / 2
        areas.append(wins / (positive.sum() * (~positive).sum()))
    return np.mean(areas, axis=0)


def measure(first: Folds, second: Folds | None = None, truth: float | None = None) -> dict[str, Any]:
    """What each test says about the datasets: numbers of them, by test."""
    result: dict[str, Any] = {"n": len(first), "area": mean_area(first)}
    if len({len(folds) for folds in first}) == 1:
        areas = np.array([[fold.area for fold in folds] for folds in first])
        result["variance"], result["fold_variance"] = areas.mean(axis=1).var(), areas.var(axis=0).mean()
    for name, test in TESTS.items():
        own: dict[str, Any] = {"above_chance": sum(test.above_chance(folds) <= LEVEL for folds in first)}
        if truth is not None:
            bounds = [test.area_interval(folds)[1:] for folds in first]
            own["covered"] = sum(low <= truth <= high for low, high in bounds)
            own["width"] = float(np.mean([high - low for low, high in bounds]))
            own["points"] = sum(not high > low for low, high in bounds)
        if second is not None:
            own |= compare(first, second, name)
        result[name] = own
    return result


def compare(first: Folds, second: Folds, name: str) -> dict[str, int]:
    """In how many datasets a test calls two methods different or equivalent."""
    tests = [TESTS[name].difference(a, b) for a, b in zip(first, second, strict=True)]
    return {
        "different": sum(test.p_value <= LEVEL for test in tests),
        "equivalent": sum(test.p_equivalent <= LEVEL for test in tests),
    }


def count_alike(first: Folds, second: Folds) -> int:
    """In how many datasets two methods are shown to differ by less than ``DIFFERENCE``."""
    pairs = zip(first, second, strict=True)
    return sum(differences.difference(a, b, DIFFERENCE).p_equivalent <= LEVEL for a, b in pairs)


def tests_digest() -> str:
    """Changes with the code of the tests, but not with its text, so that figures of earlier ones are computed again."""
    trees = [ast.parse(inspect.getsource(module)) for module in (areas, inference, differences, resampled)]
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return digest_of([_as_lists(tree) for tree in trees])[:12]


def _as_lists(node: Any) -> Any:
    """A syntax tree without what is empty, because versions of Python differ in that."""
    if isinstance(node, list):
        return [_as_lists(item) for item in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    parts = [[name, _as_lists(value)] for name, value in ast.iter_fields(node) if value not in (None, [])]
    return [type(node).__name__, parts]


def simulate_ridge(cell: Cell, area: float, n_datasets: int) -> dict[str, Any]:
    """The figures of datasets whose effect is chosen for a ROC AUC; at 0.8 also those of a worse method, by name."""
    strength = find_strength(cell.n_subjects, cell.balance, cell.n_classes, area)
    first, second, scores = ridge_folds(cell, strength, n_datasets, f"area {area}")
    truth = 0.5 if area == 0.5 else mean_area(first)
    result = {str(area): measure(first, second if area in (0.5, 0.8) else None, truth) | {"strength": strength}}
    if area == 0.8:
        result[str(area)][DEFAULT_TEST]["alike"] = count_alike(first, second)
        for what, by in (("margin", MARGIN), ("difference", DIFFERENCE)):
            worse = worsen(cell, first, scores, by)
            by_test: dict[str, Any] = {name: compare(first, worse, name) for name in TESTS}
            result[what] = {"n": n_datasets, "difference": mean_area(first) - mean_area(worse)} | by_test
            result[what][DEFAULT_TEST]["alike"] = count_alike(first, worse)
    if area == AREAS[-1]:
        one, other, worse = (
            worsen(cell, first, scores, by, name)
            for name, by in (("one", LASTING), ("other", LASTING), ("worse", LASTING + DIFFERENCE))
        )
        steady, failing = (worsen(cell, first, scores, LASTING, failing=fails) for fails in (False, True))
        scenarios = {"lasting": (one, other), "lasting difference": (one, worse), "failing": (steady, failing)}
        for what, (better, second) in scenarios.items():
            by_test = {name: compare(better, second, name) for name in TESTS}
            result[what] = {"n": n_datasets, "difference": mean_area(better) - mean_area(second)} | by_test
    return {name: figures | {"tests": tests_digest()} for name, figures in result.items()}
