"""Tests and intervals over test folds, from the variance that their test subjects imply.

A score is averaged over J folds with weights w_j that sum to 1. Folds share training subjects, so their scores are
correlated. With v_j for the variance of fold j due to its test subjects, the variance of the mean is taken to be

    V = Σ_j v_j (w_j² + w_j n_test_j / n_train_j),

which for folds of one size is the correction of Nadeau and Bengio (2003), v (1/J + n_test / n_train). Tests and
intervals differ in v_j:

- above chance: the exact variance over all assignments of labels to test subjects (:func:`above_chance`);
- interval of a ROC AUC: the same variance, changed by what Hanley and McNeil's formula says for another area;
- difference of two methods: DeLong's variance of the paired difference; over several repeats, another variance of the
  mean (:func:`isocapsnet.evaluation.differences.difference`);
- interval of another metric: the sum of squared contributions of the test subjects (:func:`mean_interval`).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

from isocapsnet.evaluation.areas import FoldArea, draw_null_areas, relative_variance
from isocapsnet.evaluation.statistics import CHANCE, LEVEL, Interval, permutation_p_value, weighted_mean

#: Random assignments of labels, if there is a single test fold.
_N_DRAWS = 9999


def variance_factors(weights: ArrayLike, test_over_train: ArrayLike) -> NDArray[np.float64]:
    """w_j² + w_j n_test_j / n_train_j (n_folds,), by which the variance of each fold enters that of the mean."""
    shares = np.asarray(weights, dtype=np.float64)
    shares = shares / shares.sum()
    factors: NDArray[np.float64] = shares**2 + shares * np.asarray(test_over_train)
    return factors


def above_chance(folds: Sequence[FoldArea]) -> float:
    """One-sided p-value that the expected ROC AUC is 0.5.

    z = (mean area - 0.5) / sqrt(V), where v_j is the variance of the area of fold j over all assignments of the labels
    to its test subjects. It is known exactly, with ties, for any number of classes. 1 if no fold has an area, or all
    scores are constant.

    The mean over folds is nearly normal. The area of a single fold with few subjects or many ties is not; its p-value
    is at least that of a permutation test, which assigns the labels at random to the test subjects.
    """
    scored = _scored(folds)
    if not scored:
        return 1.0
    variance = _factors(scored) @ [fold.null_variance for fold in scored]
    excess = _mean(scored, [fold.area for fold in scored]) - CHANCE
    if variance <= 0:
        return 1.0
    p_value = float(stats.norm.sf(excess / np.sqrt(variance)))
    if len(scored) > 1 or scored[0].ranks is None:
        return p_value
    return max(p_value, permutation_p_value(scored[0].area, draw_null_areas(scored[0], _N_DRAWS)))


def area_interval(folds: Sequence[FoldArea]) -> Interval:
    """Mean ROC AUC with its 95 % score interval.

    The interval holds every area θ with (mean - θ)² <= 1.96² V(θ), where v_j(θ) is the exact variance of fold j at 0.5
    times :func:`relative_variance`. It excludes 0.5 where the two-sided z-test does, stays inside [0, 1], and has
    a positive width also at 1. For constant scores it is the point 0.5.
    """
    scored = _scored(folds)
    if not scored:
        return Interval(*[float("nan")] * 3)
    mean = _mean(scored, [fold.area for fold in scored])
    null = _factors(scored) * [fold.null_variance for fold in scored]
    if not null.any():
        return Interval(mean, mean, mean)
    sizes = np.array([fold.n_test for fold in scored])
    quantile = stats.norm.isf(LEVEL / 2)

    def excess(area: float) -> float:
        return float((mean - area) ** 2 - quantile**2 * (null @ relative_variance(area, sizes)))

    nearest = 1e-9
    low = optimize.brentq(excess, 0.0, mean - nearest) if mean > nearest else 0.0
    high = optimize.brentq(excess, mean + nearest, 1.0) if mean < 1 - nearest else 1.0
    return Interval(mean, float(low), float(high))


def mean_interval(
    scores: ArrayLike, variances: ArrayLike, folds: Sequence[FoldArea], bounds: tuple[float, float] = (0.0, 1.0)
) -> Interval:
    """Mean of ``scores`` (n_folds,) with its 95 % interval, mean ± 1.96 sqrt(V), cut at ``bounds``.

    ``variances`` (n_folds,) are those of each score due to the test subjects. NaN (undefined in a fold) is left out.
    """
    values, spread = np.asarray(scores, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    defined = ~np.isnan(values)
    if not defined.any():
        return Interval(*[float("nan")] * 3)
    scored = [fold for fold, is_defined in zip(folds, defined, strict=True) if is_defined]
    mean = _mean(scored, values[defined])
    half = stats.norm.isf(LEVEL / 2) * np.sqrt(_factors(scored) @ spread[defined])
    return Interval(mean, float(np.maximum(mean - half, bounds[0])), float(np.minimum(mean + half, bounds[1])))


def _factors(folds: Sequence[FoldArea]) -> NDArray[np.float64]:
    return variance_factors([fold.weight for fold in folds], [fold.n_test / fold.n_train for fold in folds])


def _mean(folds: Sequence[FoldArea], values: ArrayLike) -> float:
    return weighted_mean(values, [fold.weight for fold in folds])


def _scored(folds: Sequence[FoldArea]) -> list[FoldArea]:
    return [fold for fold in folds if not np.isnan(fold.area)]
