"""Tests over the methods of a table: against chance, against each other, against shuffled nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from isocapsnet.evaluation import statistics
from isocapsnet.evaluation.areas import FoldArea, expected_null_variance
from isocapsnet.evaluation.differences import MARGIN, Difference
from isocapsnet.evaluation.evidence import Evidence, FoldIndex
from isocapsnet.evaluation.procedures import Procedure
from isocapsnet.evaluation.statistics import CHANCE, LEVEL, Interval

#: The method that verdicts compare with.
REFERENCE = "linear"
#: The method that always gives the same answer. Comparisons with the reference do not count it.
CONSTANT = "constant"


@dataclass(frozen=True)
class Audit:
    """ROC AUC with shuffled nodes minus ROC AUC with nodes as given, over the same folds."""

    difference: Interval
    p_value: float
    verdict: str


@dataclass(frozen=True)
class Comparison:
    """``first`` minus ``second`` in ROC AUC over the same folds.

    ``p_adjusted`` is of "they are equal" and ``p_equivalent`` of "they differ by MARGIN or more", both adjusted by Holm
    over all pairs. ``p_equivalent`` is NaN if the procedure has no such test.
    """

    first: str
    second: str
    difference: Interval
    p_value: float
    p_adjusted: float
    p_equivalent: float = float("nan")


def chance_p_values(methods: Sequence[Evidence], procedure: Procedure) -> dict[str, float]:
    """Label to Holm-adjusted p-value: by permutation where there are any, else by ``procedure``."""
    p_values: dict[str, float] = {}
    for method in methods:
        areas = method.areas
        weights = [fold.weight for fold in areas.values()]
        complete = _complete_draws(method)
        observed = statistics.weighted_mean([fold.area for fold in areas.values()], weights)
        if complete and not np.isnan(observed):
            null = [statistics.weighted_mean(draw, weights) for draw in complete]
            p_values[method.label] = statistics.permutation_p_value(observed, null)
        elif areas:
            p_values[method.label] = procedure.above_chance(list(areas.values()))
    # Constant answers have p = 1 and are not part of the family of tests.
    varies = {m.label for m in methods if any(fold.null_variance > 0 for fold in m.areas.values())}
    tested = [label for label in p_values if label in varies]
    return p_values | dict(zip(tested, statistics.holm([p_values[label] for label in tested]), strict=True))


def _complete_draws(method: Evidence) -> list[list[float]]:
    """Areas of the folds of each permutation of which all folds are finished."""
    return [[draw[i] for i in method.areas] for draw in method.null.values() if draw.keys() == method.areas.keys()]


def find_untestable(methods: Sequence[Evidence], procedure: Procedure) -> set[str]:
    """Labels of the methods that would not be called above chance even with a ROC AUC of 1 in every fold."""
    p_values = {}
    for method in methods:
        folds = list(method.areas.values())
        if {fold.area for fold in folds} == {CHANCE}:
            continue
        if draws := _complete_draws(method):
            p_values[method.label] = 1 / (1 + len(draws))
        elif len(folds) >= procedure.min_folds:
            perfect = [replace(f, area=1.0, null_variance=expected_null_variance(f.counts)) for f in folds]
            p_values[method.label] = procedure.above_chance(perfect)
    adjusted = statistics.holm(list(p_values.values()))
    return {label for label, p_value in zip(p_values, adjusted, strict=True) if p_value > LEVEL}


#: The folds of two methods, or of one method in two ways.
Pair = tuple[Mapping[FoldIndex, FoldArea], Mapping[FoldIndex, FoldArea]]


def _compare(pairs: Sequence[Pair], procedure: Procedure) -> list[tuple[Difference, float, float]]:
    """Difference over the folds that both have, with its two p-values adjusted by Holm over the pairs."""
    differences = []
    for first, second in pairs:
        common = sorted(first.keys() & second.keys())
        differences.append(procedure.difference([first[i] for i in common], [second[i] for i in common]))
    p_values = statistics.holm([difference.p_value for difference in differences])
    p_equivalent = statistics.holm([difference.p_equivalent for difference in differences])
    return list(zip(differences, p_values, p_equivalent, strict=True))


def compare_all(methods: Sequence[Evidence], procedure: Procedure) -> list[Comparison]:
    pairs = list(combinations([method for method in methods if method.folds], 2))
    tests = _compare([(first.areas, second.areas) for first, second in pairs], procedure)
    return [
        Comparison(first.label, second.label, difference.interval, difference.p_value, p_adjusted, p_equivalent)
        for (first, second), (difference, p_adjusted, p_equivalent) in zip(pairs, tests, strict=True)
    ]


def compare_with_reference(methods: Sequence[Evidence], procedure: Procedure, name: str = REFERENCE) -> dict[str, str]:
    """Label to a comparison with the reference in words, Holm-adjusted over these comparisons.

    The constant answer is compared by itself, so that it does not make the others' p-values larger.
    """
    reference = next((method for method in methods if method.label == name and method.folds), None)
    if reference is None:
        return {}
    others = [method for method in methods if method is not reference and method.folds]
    relations: dict[str, str] = {}
    for is_constant in (False, True):
        family = [method for method in others if (method.label == CONSTANT) is is_constant]
        tests = _compare([(method.areas, reference.areas) for method in family], procedure)
        relations |= {method.label: _relation(name, *test) for method, test in zip(family, tests, strict=True)}
    return relations


def _relation(name: str, difference: Difference, p_value: float, p_equivalent: float) -> str:
    is_equivalent = p_equivalent <= LEVEL
    if p_value <= LEVEL:
        relation = "better than" if difference.interval.mean > 0 else "worse than"
        return f"{relation} {name}" + (f" by less than {MARGIN}" if is_equivalent else "")
    return f"equivalent to {name} (±{MARGIN})" if is_equivalent else f"not distinguishable from {name}"


def compare_audits(methods: Sequence[Evidence], procedure: Procedure) -> dict[str, Audit]:
    audited = {method.label: method for method in methods if method.audits}
    tests = _compare([(method.audited_areas, method.areas) for method in audited.values()], procedure)
    words = {True: "depends on the node order", False: "no dependence on the node order found"}
    return {
        label: Audit(difference.interval, p_value, words[p_value <= LEVEL])
        for label, (difference, p_value, _) in zip(audited, tests, strict=True)
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
