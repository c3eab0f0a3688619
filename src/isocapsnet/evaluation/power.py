"""What a study can show before it is run: power, detectable effects, and the number of subjects that would be needed.

The formulas are those of :mod:`isocapsnet.evaluation.inference`, with the variance of a ROC AUC without ties. How much
repeats differ, which :mod:`isocapsnet.evaluation.differences` uses, is not known before the run, so the factor of
Nadeau and Bengio over all folds is used for differences as well.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import optimize, stats

from isocapsnet.evaluation.areas import expected_null_variance, relative_variance
from isocapsnet.evaluation.differences import MARGIN
from isocapsnet.evaluation.inference import variance_factors
from isocapsnet.evaluation.statistics import CHANCE, LEVEL, POWER

#: Two methods are taken to have areas that correlate by this.
CORRELATION = 0.5
#: The effects for which the number of subjects is given: a ROC AUC, and a difference of two.
AREA, DIFFERENCE = 0.65, 0.05
_MOST_SUBJECTS = 1e7


@dataclass(frozen=True)
class Design:
    """The test folds of a study.

    Attributes
    ----------
    counts : sequence of sequences (n_folds, n_classes)
        Test subjects of each class in each fold of each repeat.
    n_train : sequence (n_folds,)
        Training subjects.
    weights : sequence (n_folds,)
        Weights of the folds in means.
    level : float
        The level of one test. Holm's method tests at least at the level of the family over the number of its tests.
    """

    counts: Sequence[Sequence[float]]
    n_train: Sequence[float]
    weights: Sequence[float]
    level: float = LEVEL

    @property
    def n_subjects(self) -> float:
        """Subjects of one fold, in test and training together; the largest."""
        return max(float(np.sum(counts)) + n_train for counts, n_train in zip(self.counts, self.n_train, strict=True))

    def variance(self, area: float = CHANCE) -> float:
        """Variance of the mean ROC AUC if its expectation is ``area``; NaN if no fold has two classes."""
        null = np.array([expected_null_variance(counts) for counts in self.counts])
        is_scored = ~np.isnan(null)
        if not is_scored.any():
            return float("nan")
        n_test, n_train = np.sum(self.counts, axis=1)[is_scored], np.asarray(self.n_train)[is_scored]
        variances = null[is_scored] * relative_variance(area, n_test)
        return float(variances @ variance_factors(np.asarray(self.weights)[is_scored], n_test / n_train))

    def repeated(self, times: int) -> "Design":
        """The same folds ``times`` times."""
        return replace(
            self, counts=[*self.counts] * times, n_train=[*self.n_train] * times, weights=[*self.weights] * times
        )

    def scaled(self, factor: float) -> "Design":
        """The same folds with ``factor`` times as many subjects."""
        counts = [[factor * count for count in fold] for fold in self.counts]
        return replace(self, counts=counts, n_train=[factor * n for n in self.n_train])


def power_above_chance(design: Design, area: float) -> float:
    """Probability that a method whose expected ROC AUC is ``area`` is called above chance."""
    critical = CHANCE + stats.norm.isf(design.level) * np.sqrt(design.variance())
    return float(stats.norm.sf((critical - area) / np.sqrt(design.variance(area))))


def power_of_difference(design: Design, difference: float) -> float:
    """Probability that two methods near chance are called different if their expected ROC AUC is."""
    shift, critical = abs(difference) / _error(design), stats.norm.isf(design.level / 2)
    return float(stats.norm.sf(critical - shift) + stats.norm.cdf(-critical - shift))


def power_of_equivalence(design: Design, margin: float = MARGIN) -> float:
    """Probability that two methods with the same expected ROC AUC are called equivalent within ``margin``."""
    return max(0.0, float(2 * stats.norm.cdf(margin / _error(design) - stats.norm.isf(design.level)) - 1))


def detectable_area(design: Design) -> float:
    """The smallest expected ROC AUC that is called above chance with 80 % power; 1 if no smaller one is.

    NaN if no fold has two classes.
    """
    if np.isnan(design.variance()):
        return float("nan")
    if power_above_chance(design, 1 - 1e-9) < POWER:
        return 1.0
    return float(optimize.brentq(lambda area: power_above_chance(design, area) - POWER, CHANCE, 1 - 1e-9))


def detectable_difference(design: Design) -> float:
    """The smallest difference between two methods near chance that is found with 80 % power; it may exceed 0.5."""
    return float((stats.norm.isf(design.level / 2) + stats.norm.ppf(POWER)) * _error(design))


def needed_subjects(design: Design, power: Callable[[Design], float]) -> float:
    """The number of subjects, in the same classes and folds, for which ``power(design)`` is 80 %; NaN without one."""
    largest = _MOST_SUBJECTS / design.n_subjects

    def missing(log_factor: float) -> float:
        return power(design.scaled(np.exp(log_factor))) - POWER

    low, high = np.log(4 / design.n_subjects), np.log(largest)
    if np.isnan(design.variance()) or missing(high) < 0:
        return float("nan")
    factor = np.exp(optimize.brentq(missing, low, high)) if missing(low) < 0 else np.exp(low)
    return float(np.ceil(factor * design.n_subjects))


def describe_power(design: Design, n_methods: int) -> dict[str, float]:
    """Detectable effects, power of equivalence and needed subjects, for tests of ``n_methods`` adjusted by Holm.

    The family against chance has a test for each method, and that against the reference one for each other method.
    """
    chance = replace(design, level=LEVEL / max(n_methods, 1))
    pairs = replace(design, level=LEVEL / max(n_methods - 1, 1))
    return {
        "n_scores": len(design.counts),
        "above_chance": detectable_area(chance),
        "between_methods": detectable_difference(pairs),
        "equivalence": power_of_equivalence(pairs),
        "needed_above_chance": needed_subjects(chance, lambda d: power_above_chance(d, AREA)),
        "needed_between_methods": needed_subjects(pairs, lambda d: power_of_difference(d, DIFFERENCE)),
        "needed_equivalence": needed_subjects(pairs, power_of_equivalence),
    }


def sentences_about_power(power: Mapping[str, Any]) -> list[str]:
    """What the run can show with 80 % power, and how many subjects other effects would need."""
    if np.isnan(power["above_chance"]):
        return []
    if power["above_chance"] >= 1:
        words = "even a perfect ROC AUC would not be distinguished from chance with 80 % power"
    else:
        words = f"a ROC AUC of about {power['above_chance']:.2f} is distinguished from chance with 80 % power"
        if power["between_methods"] <= 1 - CHANCE:
            words += f", and a difference of {power['between_methods']:.2f} between two methods"
    equivalence = power.get("equivalence", 0.0)
    if equivalence >= 0.01:
        words += f"; two equal methods are shown to differ by less than {MARGIN} with {equivalence:.0%} power"
    return [f"With {power['n_scores']} test folds, {words}.", *filter(None, [describe_needed(power)])]


def describe_needed(detectable: Mapping[str, float | None]) -> str | None:
    """How many subjects would be needed, in a sentence; None if it is not known."""
    effects = {
        "needed_above_chance": f"to distinguish a ROC AUC of {AREA} from chance",
        "needed_between_methods": f"to find a difference of {DIFFERENCE} between two methods",
        "needed_equivalence": f"to show that two equal methods differ by less than {MARGIN}",
    }
    numbers = {name: detectable.get(name) for name in effects}
    words = [f"{n:,.0f} subjects {effects[name]}" for name, n in numbers.items() if n is not None and n == n]
    return f"80 % power needs about {'; '.join(words)}." if words else None


def _error(design: Design) -> float:
    """Standard error of the difference of two methods near chance whose areas correlate by :data:`CORRELATION`."""
    return float(np.sqrt(2 * (1 - CORRELATION) * design.variance()))
