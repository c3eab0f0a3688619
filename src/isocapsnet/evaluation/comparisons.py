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
            p_values[method.label] = _t_test_against_chance(method, list(areas.values()), ratio)
    # A constant predictor (p = 1) is not part of the family of tests.
    tested = [label for label, p_value in p_values.items() if p_value < 1]
    return p_values | dict(zip(tested, statistics.holm([p_values[label] for label in tested]), strict=True))


def find_too_few_folds(methods: Sequence[Evidence], ratio: float) -> set[str]:
    """Labels of the methods that the t-test would not call above chance even with a ROC AUC of 1 in every fold."""
    p_values = {
        method.label: _t_test_against_chance(method, [1.0] * len(method.folds), ratio)
        for method in methods
        if len(method.folds) > 1 and not method.null and set(method.areas().values()) != {CHANCE}
    }
    adjusted = statistics.holm(list(p_values.values()))
    return {label for label, p_value in zip(p_values, adjusted, strict=True) if p_value > LEVEL}


def _t_test_against_chance(method: Evidence, areas: Sequence[float], ratio: float) -> float:
    differences, least = np.array(areas) - CHANCE, method.area_variance(CHANCE)
    return statistics.corrected_t_test(differences, ratio, "greater", weights=method.weights(), least_variance=least)


#: The ROC AUC of each fold of two methods (or of one, in two ways), and the method that has the weights of the folds.
Pair = tuple[Mapping[FoldIndex, float], Mapping[FoldIndex, float], Evidence]


def _compare(pairs: Sequence[Pair], ratio: float) -> list[tuple[Interval, float, float]]:
    """Mean difference over the folds that both have, two-sided p-value, and that adjusted by Holm over the pairs."""
    intervals, p_values = [], []
    for first, second, method in pairs:
        common = sorted(first.keys() & second.keys())
        differences, weights = [first[index] - second[index] for index in common], method.weights(common)
        intervals.append(statistics.corrected_interval(differences, ratio, weights=weights, bounds=(-1.0, 1.0)))
        p_values.append(statistics.corrected_t_test(differences, ratio, weights=weights))
    return list(zip(intervals, p_values, statistics.holm(p_values), strict=True))


def compare_all(methods: Sequence[Evidence], ratio: float) -> list[Comparison]:
    pairs = list(combinations([method for method in methods if method.folds], 2))
    tests = _compare([(first.areas(), second.areas(), first) for first, second in pairs], ratio)
    return [Comparison(first.label, second.label, *test) for (first, second), test in zip(pairs, tests, strict=True)]


def compare_with_reference(methods: Sequence[Evidence], ratio: float, name: str = REFERENCE) -> dict[str, str]:
    """Label to a comparison with the reference in words, Holm-adjusted over these comparisons."""
    reference = next((method for method in methods if method.label == name and method.folds), None)
    others = [method for method in methods if method is not reference and method.folds]
    if reference is None:
        return {}
    tests = _compare([(method.areas(), reference.areas(), method) for method in others], ratio)
    words = {}
    for method, (difference, _, p_value) in zip(others, tests, strict=True):
        relation = "better than" if difference.mean > 0 else "worse than"
        words[method.label] = f"{relation if p_value <= LEVEL else 'not distinguishable from'} {name}"
    return words


def test_audits(methods: Sequence[Evidence], ratio: float) -> dict[str, Audit]:
    audited = {method.label: method for method in methods if method.audits}
    pairs = []
    for method in audited.values():
        areas = method.areas()
        indices = {index for _, index in method.audits if index in areas}
        shuffled = {i: float(np.mean([a for (_, index), a in method.audits.items() if index == i])) for i in indices}
        pairs.append((shuffled, areas, method))
    words = {True: "depends on the node order", False: "no dependence on the node order found"}
    tests = zip(audited, _compare(pairs, ratio), strict=True)
    return {label: Audit(difference, p_value, words[p_value <= LEVEL]) for label, (difference, _, p_value) in tests}


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
