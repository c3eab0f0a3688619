"""Tests and intervals over test folds, from the variance that their test subjects imply.

A score is averaged over J folds with weights w_j that sum to 1. Folds share training subjects, so their scores are
correlated. With v_j for the variance of fold j due to its test subjects, the variance of the mean is taken to be

    V = Σ_j v_j (w_j² + w_j n_test_j / n_train_j),

which for folds of one size is the correction of Nadeau and Bengio (2003), v (1/J + n_test / n_train). Tests and
intervals differ in v_j:

- above chance: the exact variance over all assignments of labels to test subjects (:func:`above_chance`);
- interval of a ROC AUC: the same variance, changed by what Hanley and McNeil's formula says for another area;
- difference of two methods: DeLong's variance of the paired difference, less what it has too much in small folds
  (:func:`difference`);
- interval of another metric: the sum of squared contributions of the test subjects (:func:`mean_interval`).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

from isocapsnet.evaluation.areas import FoldArea, draw_null_areas, pair_shares, relative_variance
from isocapsnet.evaluation.statistics import CHANCE, LEVEL, Interval, permutation_p_value, weighted_mean

#: Two methods whose ROC AUC differs by less than this are called equivalent.
MARGIN = 0.03
#: Random assignments of labels, if there is a single test fold.
_N_DRAWS = 9999
#: If a test fold has more subjects, what DeLong's variance has too much is not computed exactly. It is below a
#: thousandth if scores do not separate the classes.
_MOST_PAIRED = 1000


class Difference(NamedTuple):
    """The difference of two methods: its interval, and p-values of "they are equal" and "they differ by MARGIN"."""

    interval: Interval
    p_value: float
    p_equivalent: float


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


def difference(first: Sequence[FoldArea], second: Sequence[FoldArea], margin: float = MARGIN) -> Difference:
    """Difference in ROC AUC of two methods over the same folds.

    The area is a mean over pairs of test subjects of different classes. The variance of such a mean is the sum of the
    products of all pairs that share a subject (Hoeffding, 1948). With c_il for what the pair of subjects i and l adds
    to the difference, less its expectation, this is v_j = Σ_i (Σ_l c_il)² - Σ_il c_il². The first sum is the variance
    of DeLong, DeLong and Clarke-Pearson (1988), Σ_k S_k / n_jk over classes k, where S_k is the variance of the
    subjects' differences of placements. The second one is the small-sample excess of the first, which counts each pair
    twice. Both are averaged over folds, so that folds with a single subject of a class can be used. v_j is at least
    half of the first sum, which it cannot be below for two classes.

    S_k is at least 1 / (4 C² n_k), as if the placement of one of the n_k subjects of the class differed by half of its
    range in one of the C scored columns (one for two classes): otherwise methods that are both perfect would differ by
    0 for sure.

    If people have several graphs, placements are averaged over the graphs of a person, and people are what is counted.

    Since S_k is estimated, quantiles are those of Student's t with the degrees of freedom of Welch and Satterthwaite,
    at most one less than the number of subjects without that of folds: in each fold, placements of the classes have
    means that depend on each other.
    "They are equal" is tested two-sided. "They differ by ``margin`` or more" is tested by two one-sided tests, of which
    the larger p-value is returned (Schuirmann, 1987).
    """
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if not np.isnan(a.area - b.area)]
    if not pairs:
        return Difference(Interval(*[float("nan")] * 3), 1.0, 1.0)
    mean = _mean([a for a, _ in pairs], [a.area - b.area for a, b in pairs])
    variance, freedom = _paired_variance(pairs)
    error = float(np.sqrt(variance))
    half = float(stats.t.isf(LEVEL / 2, freedom)) * error
    p_value, p_equivalent = stats.t.sf([abs(mean) / error, (margin - abs(mean)) / error], freedom)
    interval = Interval(mean, max(mean - half, -1.0), min(mean + half, 1.0))
    return Difference(interval, float(2 * p_value), float(p_equivalent))


def _paired_variance(pairs: Sequence[tuple[FoldArea, FoldArea]]) -> tuple[float, float]:
    """The variance V of the mean difference in area, and its degrees of freedom."""
    pairs = [(_per_person(a), _per_person(b)) for a, b in pairs]
    classes, labels = np.unique(np.concatenate([a.labels for a, _ in pairs]), return_inverse=True)
    differences = np.concatenate([a.placements - b.placements for a, b in pairs])
    centred = differences - (np.bincount(labels, differences) / np.bincount(labels))[labels]
    shape = len(pairs), len(classes)
    groups = np.repeat(np.arange(shape[0]), [a.n_test for a, _ in pairs]) * shape[1] + labels
    counts = np.bincount(groups, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
    squares = np.bincount(groups, centred**2, shape[0] * shape[1]).reshape(shape)
    factors = _factors([a for a, _ in pairs])
    weights = np.divide(factors[:, None], counts**2, out=np.zeros_like(counts), where=counts > 0)
    # Each repeat of the cross-validation tests all subjects once.
    repeats = max(1.0, len(labels) / float(np.mean([a.n_test + a.n_train for a, _ in pairs])))
    n_subjects, total = counts.sum(axis=0) / repeats, (counts * weights).sum(axis=0)
    n_columns = len(classes) if len(classes) > 2 else 1
    least = total / (4 * n_columns**2 * n_subjects)
    around_mean = (squares * weights).sum(axis=0)
    parts = np.maximum(around_mean * n_subjects / np.maximum(n_subjects - 1, 1), least)
    freedom = np.maximum(total**2 / (counts * weights**2).sum(axis=0) / repeats - 1, 1)
    variance = parts.sum() - min(_excess(pairs, classes, factors, parts), parts.sum() / 2)
    most = max(1.0, (len(labels) - len(pairs)) / repeats - 1)
    return float(variance), float(min(most, parts.sum() ** 2 / np.sum(parts**2 / freedom)))


def _excess(
    pairs: Sequence[tuple[FoldArea, FoldArea]],
    classes: NDArray[np.integer[Any]],
    factors: NDArray[np.float64],
    parts: NDArray[np.float64],
) -> float:
    """By how much ``parts``, DeLong's variance of the mean difference, is too large: Σ c_il², weighted by fold."""
    largest = max(a.n_test for a, _ in pairs)
    if largest > _MOST_PAIRED or any(fold.ranks is None for pair in pairs for fold in pair):
        return float(parts.sum() / (largest + 2))  # what it is if scores do not separate the classes
    counts, sums, squares = np.zeros((3, len(pairs), len(classes), len(classes)))
    for fold, (a, b) in enumerate(pairs):
        members = (a.labels[:, None] == classes).astype(np.float64)
        shares = pair_shares(a) - pair_shares(b)
        counts[fold] = np.outer(members.sum(axis=0), members.sum(axis=0))
        sums[fold], squares[fold] = members.T @ shares @ members, members.T @ shares**2 @ members
    expected = (sums * counts).sum(axis=0) / np.maximum(counts.sum(axis=0), 1)
    squares += (expected**2 - 2 * expected * sums) / np.maximum(counts, 1) * (counts > 0)
    return float(factors @ np.triu(squares, 1).sum(axis=(1, 2)))


def _per_person(fold: FoldArea) -> FoldArea:
    """A fold whose test subjects are people instead of graphs, with the mean placement of each."""
    if fold.persons is None:
        return fold
    keys = np.stack([fold.persons, fold.labels.astype(np.int64)])
    _, first, inverse = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    sizes = np.bincount(inverse.ravel())
    return replace(
        fold,
        labels=fold.labels[first],
        placements=np.bincount(inverse.ravel(), fold.placements) / sizes,
        persons=None,
        ranks=None,
        n_train=max(1, round(fold.n_train / sizes.mean())),
    )


def _factors(folds: Sequence[FoldArea]) -> NDArray[np.float64]:
    return variance_factors([fold.weight for fold in folds], [fold.n_test / fold.n_train for fold in folds])


def _mean(folds: Sequence[FoldArea], values: ArrayLike) -> float:
    return weighted_mean(values, [fold.weight for fold in folds])


def _scored(folds: Sequence[FoldArea]) -> list[FoldArea]:
    return [fold for fold in folds if not np.isnan(fold.area)]
