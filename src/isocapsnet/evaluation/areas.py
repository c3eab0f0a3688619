"""The ROC AUC of one test fold: its exact variance under the null hypothesis, and what each subject adds to it.

Everything is computed from midranks, so ties are exact. ``labels`` (n_test,) are columns of ``probabilities`` (n_test,
n_classes). Beyond two classes the area is the mean over one-vs-rest, as :func:`isocapsnet.evaluation.metrics.roc_auc`
has it; a class without test subjects is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from isocapsnet.evaluation.metrics import roc_auc
from isocapsnet.evaluation.statistics import CHANCE

#: Labels that are drawn at a time.
_MOST_DRAWN = 2_000_000


@dataclass(frozen=True, slots=True)
class FoldArea:
    """The ROC AUC of a test fold with what is needed to test it. NaN where the fold holds a single class."""

    area: float
    #: Variance of ``area`` over all assignments of the labels to the test subjects.
    null_variance: float
    #: Classes of the test subjects (n_test,), as columns of the probabilities.
    labels: NDArray[np.integer[Any]]
    #: What each test subject adds to the area (n_test,): :func:`placements`.
    placements: NDArray[np.float64]
    n_train: int
    #: The weight of the fold in means.
    weight: float = 1.0
    #: The person of each test graph (n_test,) as a number, if people have several; ``null_variance`` includes this.
    persons: NDArray[np.int64] | None = None
    #: The number of each test graph (n_test,) in the dataset, which identifies a subject across repeats.
    subjects: NDArray[np.int64] | None = None
    #: Ranks of the test subjects in each column of the probabilities (n_test, n_classes).
    ranks: NDArray[np.float32] | None = None

    @classmethod
    def of(
        cls,
        labels: ArrayLike,
        probabilities: ArrayLike,
        n_train: int,
        weight: float = 1.0,
        persons: NDArray[np.int64] | None = None,
        subjects: ArrayLike | None = None,
    ) -> Self:
        """From classes (n_test,) and probabilities (n_test, n_classes), or scores (n_test,) of the class 1."""
        truth, scores = np.asarray(labels, dtype=np.int64), np.asarray(probabilities, dtype=np.float64)
        scores = np.stack([-scores, scores], axis=1) if scores.ndim == 1 else scores
        values = placements(truth, scores)
        return cls(
            roc_auc(truth, scores),
            null_variance(truth, scores) * design_effect(values, truth, persons),
            truth.astype(np.min_scalar_type(scores.shape[1])),
            values,
            n_train,
            weight,
            persons,
            None if subjects is None else np.asarray(subjects, dtype=np.int64),
            stats.rankdata(scores, axis=0).astype(np.float32),
        )

    @property
    def n_test(self) -> int:
        return len(self.labels)

    @property
    def counts(self) -> list[int]:
        """Test subjects of each class."""
        return np.bincount(self.labels).tolist()


def null_variance(labels: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float:
    """Variance of the ROC AUC over all assignments of ``labels`` to the subjects, given their scores.

    The area is Σ_i a(i, label of i) with a(i, c) = rank of i in column c / (C n_c (n - n_c)), a linear statistic of a
    random permutation. Hoeffding (1951): its variance is Σ_c n_c Σ_i d(i, c)² / (n - 1), where d is a, centred over
    subjects and over labels. Without ties and for two classes this is (n1 + n0 + 1) / (12 n1 n0); for constant scores
    it is 0. NaN for a single class.
    """
    n_test, n_classes = probabilities.shape
    counts = np.bincount(labels, minlength=n_classes)
    columns = _scored_columns(counts, n_test)
    if not columns:
        return float("nan")
    d = np.zeros((n_test, n_classes))
    for column in columns:
        ranks = stats.rankdata(probabilities[:, column])
        d[:, column] = (ranks - (n_test + 1) / 2) / (counts[column] * (n_test - counts[column]))
    d -= (d @ counts / n_test)[:, None]
    return float(counts @ (d**2).sum(axis=0) / (n_test - 1) / len(columns) ** 2)


def draw_null_areas(fold: FoldArea, n_draws: int) -> NDArray[np.float64]:
    """ROC AUC (n_draws,) of random assignments of the labels to the test subjects; the same draws in every run."""
    assert fold.ranks is not None
    counts = np.bincount(fold.labels, minlength=fold.ranks.shape[1])
    columns = _scored_columns(counts, fold.n_test)
    weights = np.zeros(fold.ranks.shape)
    for column in columns:
        n_positive, n_negative = counts[column], fold.n_test - counts[column]
        weights[:, column] = (fold.ranks[:, column] - (n_positive + 1) / 2) / (n_positive * n_negative * len(columns))
    rng, own, areas = np.random.default_rng(0), np.arange(fold.n_test), np.empty(n_draws)
    rows = max(1, _MOST_DRAWN // fold.n_test)
    for start in range(0, n_draws, rows):
        some = areas[start : start + rows]
        draws = rng.permuted(np.tile(fold.labels, (len(some), 1)), axis=1)
        some[:] = weights[own, draws].sum(axis=1)
    return areas


def placements(labels: NDArray[np.int64], probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """What each subject adds to the ROC AUC (n_test,), the placements of DeLong, DeLong and Clarke-Pearson (1988).

    For two classes: the share of the other class that a subject is ranked correctly against, with ties as one half.
    Beyond, a subject of class k is a positive of the column k, and one of n - n_c negatives of every other column c:
    the sum of its placements, each by its weight in the mean area. The variance of the area is Σ_k S_k / n_k, where
    S_k is the variance of placements in class k. NaN for a single class.
    """
    n_test, n_classes = probabilities.shape
    counts = np.bincount(labels, minlength=n_classes)
    columns = _scored_columns(counts, n_test)
    if not columns:
        return np.full(n_test, np.nan)
    total = np.zeros(n_test)
    for column in columns:
        positive = labels == column
        n_positive, n_negative = counts[column], n_test - counts[column]
        ranks = stats.rankdata(probabilities[:, column])
        inside = np.empty(n_test)
        inside[positive] = stats.rankdata(probabilities[positive, column])
        inside[~positive] = stats.rankdata(probabilities[~positive, column])
        wins = ranks - inside  # over subjects of the other side
        share = counts[labels[~positive]] / n_negative
        total[positive] += wins[positive] / n_negative
        total[~positive] += (1 - wins[~positive] / n_positive) * share
    return total / len(columns)


def pair_shares(fold: FoldArea) -> NDArray[np.float64]:
    """What each pair of test subjects adds to the ROC AUC (n_test, n_test): symmetric, and 0 for two of one class.

    The sum over pairs is the area. The sum of a row, times the size of the class, is the placement of the subject.
    """
    assert fold.ranks is not None
    counts = np.bincount(fold.labels, minlength=fold.ranks.shape[1])
    columns = _scored_columns(counts, fold.n_test)
    shares = np.zeros((fold.n_test, fold.n_test))
    for column in columns:
        positive, ranks = fold.labels == column, fold.ranks[:, column]
        wins = (1 + np.sign(ranks[positive][:, None] - ranks[~positive])) / 2
        shares[np.ix_(positive, ~positive)] += wins / (wins.size * len(columns))
    return shares + shares.T


def design_effect(
    values: NDArray[np.float64], labels: NDArray[np.integer[Any]], persons: NDArray[np.int64] | None
) -> float:
    """The factor by which graphs of one person widen the variance of a sum over classes of means of ``values``.

    Σ over persons of (Σ over their graphs of h)² / Σ over graphs of h², where h is the value (n_test,), centred in its
    class and divided by the size of the class (Obuchowski, 1997). At least 1, and 1 if each graph is of a person of its
    own (None). With fewer than three persons of a class it cannot be estimated, so the graphs of a person count as
    one.
    """
    if persons is None:
        return 1.0
    if min(len(np.unique(persons[labels == label])) for label in np.unique(labels)) < 3:
        sizes = np.bincount(persons)
        return max(1.0, float(np.sum(sizes**2) / np.sum(sizes)))
    counts = np.maximum(np.bincount(labels), 1)
    centred = (values - (np.bincount(labels, values) / counts)[labels]) / counts[labels]
    total = float(np.sum(centred**2))
    return max(1.0, float(np.sum(np.bincount(persons, centred) ** 2)) / total) if total > 0 else 1.0


def relative_variance(area: float, n_test: ArrayLike) -> NDArray[np.float64]:
    """Variance of a ROC AUC whose expectation is ``area``, divided by its variance at 0.5.

    Hanley and McNeil (1982), averaged over which class is called positive (Newcombe, 2006), so that the number of
    subjects ``n_test`` (n_folds,) is all that it depends on. 1 at 0.5, and 0 at 0 and 1.
    """
    half = np.asarray(n_test) / 2 - 1
    two_pairs = area / (2 - area) + 2 * area**2 / (1 + area) - 2 * area**2
    relative: NDArray[np.float64] = (area * (1 - area) + half * two_pairs) / (1 / 4 + half / 6)
    return relative


def auc_variance(area: float, class_counts: Sequence[float]) -> float:
    """Variance of one test fold's ROC AUC when its expectation is ``area`` (Hanley and McNeil, 1982).

    ``class_counts`` are those of the fold; a fold of one class has no AUC and gives NaN. At 0.5 this is Mann and
    Whitney's (n1 + n0 + 1) / (12 n1 n0). Beyond two classes it bounds the variance of the mean over one-vs-rest.
    """
    total = sum(class_counts)
    counts = [count for count in class_counts if 0 < count < total]
    if not counts:
        return float("nan")
    above, below = area / (2 - area) - area**2, 2 * area**2 / (1 + area) - area**2
    deviations = [
        np.sqrt((area * (1 - area) + (n - 1) * above + (total - n - 1) * below) / (n * (total - n)))
        for n in (counts[1:] if len(counts) == 2 else counts)
    ]
    return float(np.mean(deviations) ** 2)


def expected_null_variance(class_counts: Sequence[float]) -> float:
    """Variance at 0.5 of one test fold's ROC AUC before scores are known; NaN for a fold of one class.

    Beyond two classes the areas of the C classes vary nearly as if independent, given that probabilities sum to 1: the
    variance of their mean is about 1 / (C - 1) of that of one.
    """
    n_classes = sum(count > 0 for count in class_counts)
    return auc_variance(CHANCE, class_counts) / max(n_classes - 1, 1)


def _scored_columns(counts: NDArray[np.int64], n_test: int) -> list[int]:
    """The columns whose class has subjects on both sides; of two classes the second alone."""
    columns = [1] if len(counts) == 2 else range(len(counts))
    return [column for column in columns if 0 < counts[column] < n_test]
