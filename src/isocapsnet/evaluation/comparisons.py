"""Tests over the methods of a table: against chance, against each other, against shuffled nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from isocapsnet.evaluation import statistics
from isocapsnet.evaluation.evidence import Evidence, FoldIndex
from isocapsnet.evaluation.statistics import CHANCE, LEVEL, Interval

#: The method that verdicts compare with.
REFERENCE = "linear"
_UNDEFINED = Interval(*[float("nan")] * 3)


@dataclass(frozen=True)
class Audit:
    """ROC AUC with shuffled nodes minus ROC AUC with nodes as given, over the same folds."""

    difference: Interval
    p_value: float
    verdict: str


@dataclass(frozen=True)
class Comparison:
    """``first`` minus ``second`` in ROC AUC over the same folds; ``p_adjusted`` by Holm over all pairs."""

    first: str
    second: str
    difference: Interval
    p_value: float
    p_adjusted: float


def test_against_chance(methods: Sequence[Evidence], ratio: float) -> dict[str, float]:
    """Label to Holm-adjusted p-value: by permutation where there are any, else by corrected t-test."""
    p_values: dict[str, float] = {}
    for method in methods:
        areas, weights = method.areas(), method.weights()
        complete = [[draw[index] for index in areas] for draw in method.null.values() if draw.keys() == areas.keys()]
        observed = statistics.weighted_mean(list(areas.values()), weights)
        if complete and not np.isnan(observed):
            null = [statistics.weighted_mean(draw, weights) for draw in complete]
            p_values[method.label] = statistics.permutation_p_value(observed, null)
        elif areas:
            p_values[method.label] = statistics.corrected_t_test(
                np.array(list(areas.values())) - CHANCE,
                ratio,
                "greater",
                weights=weights,
                least_variance=method.area_variance(CHANCE),
            )
    # A constant predictor (p = 1) is not part of the family of tests.
    tested = [label for label, p_value in p_values.items() if p_value < 1]
    return p_values | dict(zip(tested, statistics.holm([p_values[label] for label in tested]), strict=True))


def find_too_few_folds(methods: Sequence[Evidence], ratio: float) -> set[str]:
    """Labels of the methods that the t-test would not call above chance even with a ROC AUC of 1 in every fold."""
    p_values = {
        method.label: statistics.corrected_t_test(
            np.full(len(method.folds), 1 - CHANCE),
            ratio,
            "greater",
            weights=method.weights(),
            least_variance=method.area_variance(CHANCE),
        )
        for method in methods
        if len(method.folds) > 1 and not method.null and set(method.areas().values()) != {CHANCE}
    }
    adjusted = statistics.holm(list(p_values.values()))
    return {label for label, p_value in zip(p_values, adjusted, strict=True) if p_value > LEVEL}


def _compare(
    first: Mapping[FoldIndex, float], second: Mapping[FoldIndex, float], method: Evidence, ratio: float
) -> tuple[Interval, float]:
    """Mean difference over the folds of both, weighted as in ``method``, with its interval and two-sided p-value."""
    common = sorted(first.keys() & second.keys())
    differences, weights = [first[index] - second[index] for index in common], method.weights(common)
    if not common:
        return _UNDEFINED, 1.0
    interval = statistics.corrected_interval(differences, ratio, weights=weights, bounds=(-1.0, 1.0))
    return interval, statistics.corrected_t_test(differences, ratio, weights=weights)


def compare_all(methods: Sequence[Evidence], ratio: float) -> list[Comparison]:
    pairs = list(combinations([method for method in methods if method.folds], 2))
    tests = [_compare(first.areas(), second.areas(), first, ratio) for first, second in pairs]
    adjusted = statistics.holm([p_value for _, p_value in tests])
    return [
        Comparison(first.label, second.label, difference, p_value, p_adjusted)
        for (first, second), (difference, p_value), p_adjusted in zip(pairs, tests, adjusted, strict=True)
    ]


def compare_with_reference(methods: Sequence[Evidence], ratio: float) -> dict[str, str]:
    """Label to a comparison with the reference in words, Holm-adjusted over these comparisons."""
    reference = next((method for method in methods if method.label == REFERENCE and method.folds), None)
    others = [method for method in methods if method is not reference and method.folds]
    if reference is None:
        return {}
    tests = [_compare(method.areas(), reference.areas(), method, ratio) for method in others]
    adjusted = statistics.holm([p_value for _, p_value in tests])
    words = {}
    for method, (difference, _), p_value in zip(others, tests, adjusted, strict=True):
        relation = "better than" if difference.mean > 0 else "worse than"
        words[method.label] = f"{relation if p_value <= LEVEL else 'not distinguishable from'} {REFERENCE}"
    return words


def test_audits(methods: Sequence[Evidence], ratio: float) -> dict[str, Audit]:
    audited = [method for method in methods if method.audits]
    tests = []
    for method in audited:
        areas = method.areas()
        indices = {index for _, index in method.audits if index in areas}
        shuffled = {i: float(np.mean([a for (_, index), a in method.audits.items() if index == i])) for i in indices}
        tests.append(_compare(shuffled, areas, method, ratio))
    adjusted = statistics.holm([p_value for _, p_value in tests])
    return {
        method.label: Audit(
            difference,
            p_value,
            "depends on the node order" if p_value <= LEVEL else "no dependence on the node order found",
        )
        for method, (difference, _), p_value in zip(audited, tests, adjusted, strict=True)
    }


def find_best(methods: Sequence[Evidence], comparisons: Sequence[Comparison]) -> str | None:
    """The method that is significantly better than every other one; None if there is none."""
    for method in methods:
        wins = [
            c.p_adjusted <= LEVEL and (c.difference.mean > 0) == (c.first == method.label)
            for c in comparisons
            if method.label in (c.first, c.second)
        ]
        if wins and all(wins):
            return method.label
    return None
