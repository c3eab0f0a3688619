"""Intervals and tests over the scores of cross-validation folds.

Scores of cross-validation folds are not independent: they share training subjects. Every interval and test over
folds here widens the variance as Nadeau and Bengio (2003) derived, from 1/J to 1/J + n_test/n_train for J folds.
Folds of one dataset are also more alike than folds of new data would be, and small folds can agree by chance. The
variance of a ROC AUC is therefore taken to be at least what its number of test subjects implies (:func:`auc_variance`).
Without this lower bound, 20 of 200 datasets without any effect were called above chance at the 5 % level.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

CHANCE = 0.5
#: The significance level of every test.
LEVEL = 0.05
#: The power that a study should have to find a difference.
POWER = 0.8

Alternative = Literal["two-sided", "greater"]


class Interval(NamedTuple):
    """A mean and its confidence interval; the bounds are NaN for a single fold."""

    mean: float
    low: float
    high: float


def auc_variance(area: float, class_counts: Sequence[int]) -> float:
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


def weighted_mean(scores: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Mean of the scores (n_scores,) that are defined, with weights (n_scores,) or without; NaN where none is."""
    values, shares = _defined(scores, weights)
    return float(np.average(values, weights=shares)) if len(values) else float("nan")


def mean_variance(variances: ArrayLike, weights: ArrayLike | None = None) -> float:
    """The variance of one of J scores with which their plain mean would vary as their weighted mean does.

    J Σ w² v for variances v (n_scores,) and weights w that sum to 1: the mean of v where all weights are equal. 0
    where no variance is defined.
    """
    values, shares = _defined(variances, weights)
    return float(len(values) * (values @ shares**2) / shares.sum() ** 2) if len(values) else 0.0


def corrected_interval(
    scores: ArrayLike,
    test_over_train: float,
    *,
    weights: ArrayLike | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
    least_variance: float = 0.0,
) -> Interval:
    """Mean over folds with the 95 % Nadeau-Bengio interval, cut at ``bounds``, the range of the metric.

    ``scores`` (n_scores,) holds one value per fold and repeat; NaN (undefined in a fold) is left out. With ``weights``
    (n_scores,) the mean is weighted, and the variance of a score is taken to fall with its weight, as it does with the
    number of subjects of a fold. The variance of one score is taken to be at least ``least_variance``.
    """
    values, shares = _defined(scores, weights)
    if not len(values):
        return Interval(*[float("nan")] * 3)
    mean, error = _mean_and_error(values, shares, test_over_train, least_variance)
    half = float(stats.t.ppf(1 - LEVEL / 2, max(len(values) - 1, 1)) * error)
    return Interval(mean, float(np.maximum(mean - half, bounds[0])), float(np.minimum(mean + half, bounds[1])))


def corrected_t_test(
    differences: ArrayLike,
    test_over_train: float,
    alternative: Alternative = "two-sided",
    *,
    weights: ArrayLike | None = None,
    least_variance: float = 0.0,
) -> float:
    """p-value of the corrected resampled t-test that the mean of ``differences`` (n_scores,) is 0.

    ``weights`` and ``least_variance`` are those of :func:`corrected_interval`. The p-value is 1 if all differences are
    0, and for fewer than two folds.
    """
    values, shares = _defined(differences, weights)
    if len(values) < 2 or not np.any(values):
        return 1.0
    mean, error = _mean_and_error(values, shares, test_over_train, least_variance)
    with np.errstate(divide="ignore"):
        t = np.divide(mean, error)
    tail = stats.t.sf(t if alternative == "greater" else abs(t), len(values) - 1)
    return float(tail if alternative == "greater" else min(1.0, 2 * tail))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment for a family of tests."""
    order = np.argsort(p_values)
    steps = np.asarray(p_values, dtype=float)[order] * np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if len(order) else steps
    return [float(value) for value in adjusted]


def permutation_p_value(observed: float, null: ArrayLike) -> float:
    """(1 + number of null scores that reach ``observed``) / (1 + n_permutations)."""
    draws = np.asarray(null, dtype=float)
    return float((1 + np.sum(draws >= observed - 1e-12)) / (1 + len(draws)))


def wilson_interval(correct: int, total: int) -> Interval:
    """A single accuracy, ``correct`` of ``total``, with Wilson's 95 % score interval."""
    interval = stats.binomtest(correct, total).proportion_ci(1 - LEVEL, method="wilson")
    return Interval(correct / total, float(interval.low), float(interval.high))


def detectable_difference(
    class_counts: Sequence[int], n_scores: int, test_over_train: float, *, alternative: Alternative = "greater"
) -> float:
    """The smallest ROC AUC difference that a test over ``n_scores`` folds would find with 80 % power.

    ``class_counts`` are those of one test fold. Fold scores are taken to vary as the AUC of an uninformative
    score does. The same serves for the difference of two methods whose fold scores correlate by one half
    ("two-sided"). NaN for one fold or one class; a difference above 0.5 cannot occur.
    """
    variance = auc_variance(CHANCE, class_counts)
    if n_scores < 2 or np.isnan(variance):
        return float("nan")
    error, freedom = np.sqrt(variance * (1 / n_scores + test_over_train)), n_scores - 1
    critical = stats.t.isf(LEVEL if alternative == "greater" else LEVEL / 2, freedom)
    shift = optimize.brentq(lambda shift: stats.nct.sf(critical, freedom, shift) - POWER, 0.0, critical + 50.0)
    return float(shift * error)


def _defined(values: ArrayLike, weights: ArrayLike | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The values that are numbers, and the weight of each."""
    array = np.asarray(values, dtype=np.float64)
    shares = np.ones_like(array) if weights is None else np.asarray(weights, dtype=np.float64)
    return array[~np.isnan(array)], shares[~np.isnan(array)]


def _mean_and_error(
    values: NDArray[np.float64], weights: NDArray[np.float64], test_over_train: float, least_variance: float
) -> tuple[float, float]:
    """Mean of fold scores and its standard error with the Nadeau-Bengio variance; NaN for that of a single fold.

    Were the variance of a score inversely proportional to its weight, J Σ w (x - mean)² / (J - 1) over weights that
    sum to 1 would be J times an unbiased estimate of the variance of the weighted mean, with J - 1 degrees of freedom.
    """
    mean, n_scores = float(np.average(values, weights=weights)), len(values)
    if n_scores < 2:
        return mean, float("nan")
    variance = np.average((values - mean) ** 2, weights=weights) * n_scores / (n_scores - 1)
    return mean, float(np.sqrt(max(variance, least_variance) * (1 / n_scores + test_over_train)))
