"""What all tests share: levels, intervals, weighted means, adjustment for several tests, permutations."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

CHANCE = 0.5
#: The significance level of every test.
LEVEL = 0.05
#: The power that a study should have to find a difference.
POWER = 0.8


class Interval(NamedTuple):
    """A mean and its 95 % confidence interval; the bounds are NaN where there is none."""

    mean: float
    low: float
    high: float


def weighted_mean(scores: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Mean of the scores (n_scores,) that are defined, with weights (n_scores,) or without; NaN where none is."""
    values = np.asarray(scores, dtype=np.float64)
    defined = ~np.isnan(values)
    shares = np.ones_like(values) if weights is None else np.asarray(weights, dtype=np.float64)
    return float(np.average(values[defined], weights=shares[defined])) if defined.any() else float("nan")


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
