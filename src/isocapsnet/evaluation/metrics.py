"""The metrics of the benchmark. A new metric is one entry of :data:`METRICS`; tables and files include it."""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from sklearn import metrics

#: Takes labels (n_graphs,), indices of the columns of the class probabilities (n_graphs, n_classes), and those.
Score = Callable[[NDArray[np.int64], NDArray[np.float64]], float]


class Metric(NamedTuple):
    """A score of predicted probabilities, its name in text, and the range of its values."""

    label: str
    function: Score
    low: float = 0.0
    high: float = 1.0


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


def _of_predictions(metric: Callable[..., float], **options: object) -> Score:
    """A metric of the most probable classes."""
    return lambda labels, probabilities: float(metric(labels, probabilities.argmax(axis=1), **options))


def _brier(labels: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float:
    """Mean squared error of the probabilities, halved for two classes as is the custom."""
    truth = np.eye(probabilities.shape[1])[labels]
    total = ((probabilities - truth) ** 2).sum(axis=1).mean()
    return float(total / 2 if probabilities.shape[1] == 2 else total)


METRICS: dict[str, Metric] = {
    "accuracy": Metric("accuracy", _of_predictions(metrics.accuracy_score)),
    "balanced_accuracy": Metric("balanced accuracy", _of_predictions(metrics.balanced_accuracy_score)),
    "weighted_f1": Metric("weighted F1", _of_predictions(metrics.f1_score, average="weighted", zero_division=0)),
    "macro_f1": Metric("macro F1", _of_predictions(metrics.f1_score, average="macro", zero_division=0)),
    "roc_auc": Metric("ROC AUC", roc_auc),
    "mcc": Metric("MCC", _of_predictions(metrics.matthews_corrcoef), low=-1.0),
    "brier": Metric("Brier score", _brier, high=np.inf),
}


def score(labels: ArrayLike, probabilities: ArrayLike) -> dict[str, float]:
    """Every metric for test labels ``(n_graphs,)`` and class probabilities ``(n_graphs, n_classes)``."""
    truth, predicted = np.asarray(labels, dtype=np.int64), np.asarray(probabilities, dtype=np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class may be absent from a test fold; each metric has a rule for that
        return {name: metric.function(truth, predicted) for name, metric in METRICS.items()}
