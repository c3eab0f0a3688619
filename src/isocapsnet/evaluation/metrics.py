"""The metrics of the benchmark. A new metric is one entry of :data:`METRICS`; tables and files include it."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

#: Takes labels (n_graphs,), indices of the columns of the class probabilities (n_graphs, n_classes), and those.
Score = Callable[[NDArray[np.int64], NDArray[np.float64]], float]
#: Takes numbers of graphs (..., n_classes, n_classes), true classes in rows and predicted ones in columns.
CountScore = Callable[[NDArray[np.float64]], NDArray[np.float64]]

# Added to each cell of a confusion matrix for its variance, so that a perfect score has one.
_PSEUDO_COUNT = 0.5


class Metric(NamedTuple):
    """A score of predicted probabilities, its name in text, and the range of its values.

    ``variance`` takes what ``function`` takes: the variance of the score that the test subjects imply, the sum of their
    squared contributions. By default each subject is left out in turn (``jackknife_variance``).
    """

    label: str
    function: Score
    low: float = 0.0
    high: float = 1.0
    variance: Score | None = None


def roc_auc(labels: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float:
    """ROC AUC; for more than two classes the mean over one-vs-rest. NaN if no class has both sides.

    ``labels`` (n_graphs,) are indices of the columns of ``probabilities`` (n_graphs, n_classes).
    """
    columns = [1] if probabilities.shape[1] == 2 else range(probabilities.shape[1])
    areas = []
    for column in columns:
        positive = labels == column
        if 0 < positive.sum() < len(labels):
            ranks = stats.rankdata(probabilities[:, column])
            wins = ranks[positive].sum() - positive.sum() * (positive.sum() + 1) / 2
            areas.append(wins / (positive.sum() * (~positive).sum()))
    return float(np.mean(areas)) if areas else float("nan")


def jackknife_variance(function: Score, labels: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float:
    """(n - 1) / n Σ_i (score without subject i - mean of these)², without subjects whose loss leaves no score."""
    others = (np.delete(np.arange(len(labels)), i) for i in range(len(labels) if len(labels) > 1 else 0))
    values = np.array([function(labels[rest], probabilities[rest]) for rest in others])
    values = values[~np.isnan(values)]
    return float((len(values) - 1) * values.var()) if len(values) else 0.0


def count_variance(function: CountScore, counts: NDArray[np.float64]) -> float:
    """Σ_i (∂ score / ∂ number of subjects in the cell of i)² over subjects, the infinitesimal jackknife.

    ``counts`` (n_classes, n_classes) is a confusion matrix. Half a subject is added to each cell of a class that has
    subjects.
    """
    n_subjects = counts.sum()
    counts = counts + _PSEUDO_COUNT * (counts.sum(axis=1, keepdims=True) > 0)
    step = 1e-4
    used = np.argwhere(counts > 0)
    steps = np.zeros((len(used), *counts.shape))
    steps[np.arange(len(used)), used[:, 0], used[:, 1]] = step
    slopes = (function(counts + steps) - function(counts - steps)) / (2 * step)
    # The added subjects are no evidence.
    return float(counts[used[:, 0], used[:, 1]] @ slopes**2 * counts.sum() / n_subjects)


def _accuracy(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    return _trace(counts) / counts.sum(axis=(-2, -1))


def _balanced_accuracy(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the classes that have graphs of the share that is predicted right."""
    sizes = counts.sum(axis=-1)
    return _share(_diagonal(counts), sizes).sum(axis=-1) / (sizes > 0).sum(axis=-1)


def _f1_of_classes(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """2 TP / (2 TP + FP + FN) of each class (..., n_classes); 0 for a class that is neither true nor predicted."""
    return _share(2 * _diagonal(counts), counts.sum(axis=-1) + counts.sum(axis=-2))


def _weighted_f1(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    return (_f1_of_classes(counts) * counts.sum(axis=-1)).sum(axis=-1) / counts.sum(axis=(-2, -1))


def _macro_f1(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    occurs = counts.sum(axis=-1) + counts.sum(axis=-2) > 0
    return _f1_of_classes(counts).sum(axis=-1) / occurs.sum(axis=-1)


def _mcc(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Matthews correlation for any number of classes (Gorodkin, 2004); 0 where one class alone is true or predicted."""
    true, predicted, total = counts.sum(axis=-1), counts.sum(axis=-2), counts.sum(axis=(-2, -1))
    spread = (total**2 - (true**2).sum(axis=-1)) * (total**2 - (predicted**2).sum(axis=-1))
    return _share(_trace(counts) * total - (true * predicted).sum(axis=-1), np.sqrt(spread))


def _diagonal(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.diagonal(counts, axis1=-2, axis2=-1)


def _trace(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    return _diagonal(counts).sum(axis=-1)


def _share(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """``part / whole``, 0 where ``whole`` is 0."""
    return np.divide(part, whole, out=np.zeros(np.shape(part)), where=whole > 0)


def _of_predictions(label: str, function: CountScore, low: float = 0.0) -> Metric:
    """A metric of the most probable classes, by the classes that occur."""

    def count(labels: NDArray[np.int64], probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        n_classes = probabilities.shape[1]
        cells = labels * n_classes + probabilities.argmax(axis=1)
        counts = np.bincount(cells, minlength=n_classes**2).reshape(n_classes, n_classes).astype(np.float64)
        occurs = counts.any(axis=0) | counts.any(axis=1)
        return counts[np.ix_(occurs, occurs)]

    return Metric(
        label,
        lambda labels, probabilities: float(function(count(labels, probabilities))),
        low,
        variance=lambda labels, probabilities: count_variance(function, count(labels, probabilities)),
    )


def _squared_errors(labels: NDArray[np.int64], probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Squared error of the probabilities of each graph (n_graphs,), halved for two classes as is the custom."""
    truth = np.eye(probabilities.shape[1])[labels]
    total: NDArray[np.float64] = ((probabilities - truth) ** 2).sum(axis=1)
    return total / 2 if probabilities.shape[1] == 2 else total


def _brier(labels: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float:
    return float(_squared_errors(labels, probabilities).mean())


def _brier_variance(labels: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float:
    return float(_squared_errors(labels, probabilities).var() / max(len(labels) - 1, 1))


METRICS: dict[str, Metric] = {
    "accuracy": _of_predictions("accuracy", _accuracy),
    "balanced_accuracy": _of_predictions("balanced accuracy", _balanced_accuracy),
    "weighted_f1": _of_predictions("weighted F1", _weighted_f1),
    "macro_f1": _of_predictions("macro F1", _macro_f1),
    "roc_auc": Metric("ROC AUC", roc_auc),
    "mcc": _of_predictions("MCC", _mcc, low=-1.0),
    "brier": Metric("Brier score", _brier, high=np.inf, variance=_brier_variance),
}


def score(labels: ArrayLike, probabilities: ArrayLike) -> dict[str, float]:
    """Every metric for test labels ``(n_graphs,)`` and class probabilities ``(n_graphs, n_classes)``."""
    truth, predicted = np.asarray(labels, dtype=np.int64), np.asarray(probabilities, dtype=np.float64)
    return {name: metric.function(truth, predicted) for name, metric in METRICS.items()}


def score_variances(labels: ArrayLike, probabilities: ArrayLike) -> dict[str, float]:
    """The variance of every metric but ROC AUC that the test subjects imply; that of ROC AUC is in ``areas``."""
    truth, predicted = np.asarray(labels, dtype=np.int64), np.asarray(probabilities, dtype=np.float64)
    return {
        name: jackknife_variance(metric.function, truth, predicted)
        if metric.variance is None
        else metric.variance(truth, predicted)
        for name, metric in METRICS.items()
        if name != "roc_auc"
    }
