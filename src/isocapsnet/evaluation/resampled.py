"""The corrected resampled t-test: the variance of a score is estimated from how much it differs between folds.

Scores of cross-validation folds are not independent: they share training subjects. Every interval and test over
folds here widens the variance as Nadeau and Bengio (2003) derived, from 1/J to 1/J + n_test/n_train for J folds.
Folds of one dataset are also more alike than folds of new data would be, and small folds can agree by chance. The
variance of a ROC AUC is therefore taken to be at least what its number of test subjects implies (:func:`auc_variance`).
Without this lower bound, 20 of 200 datasets without any effect were called above chance at the 5 % level.

Other papers use this test. It has little power with few folds; :mod:`isocapsnet.evaluation.inference` is the default.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

from isocapsnet.evaluation.areas import FoldArea, auc_variance
from isocapsnet.evaluation.differences import Difference
from isocapsnet.evaluation.power import Design
from isocapsnet.evaluation.statistics import CHANCE, LEVEL, POWER, Interval, weighted_mean

Alternative = Literal["two-sided", "greater"]


def above_chance(folds: Sequence[FoldArea]) -> float:
    """One-sided p-value that the expected ROC AUC is 0.5; see :func:`isocapsnet.evaluation.inference.above_chance`."""
    differences, weights = [fold.area - CHANCE for fold in folds], [fold.weight for fold in folds]
    least = _area_variance(folds, CHANCE)
    return corrected_t_test(differences, _ratio(folds), "greater", weights=weights, least_variance=least)


def area_interval(folds: Sequence[FoldArea]) -> Interval:
    """Mean ROC AUC with its 95 % interval; the point 0.5 where this is the area of every fold."""
    areas, weights = [fold.area for fold in folds], [fold.weight for fold in folds]
    # A constant prediction has this area in every fold by definition.
    least = 0.0 if set(areas) == {CHANCE} else _area_variance(folds, weighted_mean(areas, weights))
    return corrected_interval(areas, _ratio(folds), weights=weights, least_variance=least)


def mean_interval(
    scores: ArrayLike, variances: ArrayLike, folds: Sequence[FoldArea], bounds: tuple[float, float] = (0.0, 1.0)
) -> Interval:
    """Mean of ``scores`` (n_folds,) with its 95 % interval; ``variances`` are not used."""
    return corrected_interval(scores, _ratio(folds), weights=[fold.weight for fold in folds], bounds=bounds)


def difference(first: Sequence[FoldArea], second: Sequence[FoldArea]) -> Difference:
    """Difference in ROC AUC of two methods over the same folds, without a test of equivalence."""
    differences = [a.area - b.area for a, b in zip(first, second, strict=True)]
    weights, ratio = [fold.weight for fold in first], _ratio(first)
    interval = corrected_interval(differences, ratio, weights=weights, bounds=(-1.0, 1.0))
    return Difference(interval, corrected_t_test(differences, ratio, weights=weights), float("nan"))


def _ratio(folds: Sequence[FoldArea]) -> float:
    return float(np.mean([fold.n_test / fold.n_train for fold in folds])) if folds else float("nan")


def _area_variance(folds: Sequence[FoldArea], area: float) -> float:
    """The variance of the ROC AUC of one fold that the test folds imply, if its expectation is ``area``."""
    variances = [auc_variance(area, fold.counts) for fold in folds]
    return mean_variance(variances, [fold.weight for fold in folds])


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


def describe_power(design: Design, n_methods: int) -> dict[str, float]:
    """The smallest ROC AUC above chance, and difference of two methods, that one test finds with 80 % power.

    The adjustment for several methods is left out.
    """
    n_scores = len(design.counts)
    sizes = zip(design.counts, design.n_train, strict=True)
    ratio = float(np.mean([sum(counts) / n_train for counts, n_train in sizes]))
    typical = np.median(design.counts, axis=0).astype(int).tolist()
    return {
        "n_scores": n_scores,
        "above_chance": CHANCE + detectable_difference(typical, n_scores, ratio),
        "between_methods": detectable_difference(typical, n_scores, ratio, alternative="two-sided"),
    }


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
