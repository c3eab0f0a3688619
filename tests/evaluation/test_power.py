"""What a study is said to show before it is run, against simulation."""

from dataclasses import replace

import numpy as np
import pytest

from isocapsnet.evaluation import inference, power
from isocapsnet.evaluation.areas import FoldArea, auc_variance, relative_variance
from isocapsnet.evaluation.plan import MethodSpec, Plan
from isocapsnet.evaluation.power import Design
from isocapsnet.evaluation.samples import DataSource
from isocapsnet.evaluation.statistics import LEVEL, holm

DESIGN = Design([[15, 10]] * 6, [50] * 6, [1] * 6)


def test_the_variance_of_a_design_is_that_of_its_folds() -> None:
    variance = auc_variance(0.5, [15, 10]) * (1 / 6 + 1 / 2)
    assert DESIGN.variance() == pytest.approx(variance)
    assert DESIGN.variance(0.8) == pytest.approx(variance * relative_variance(0.8, 25))
    labels, rng = np.repeat([0, 1], [15, 10]), np.random.default_rng(0)
    folds = [FoldArea.of(labels, rng.random(25), 50) for _ in range(6)]
    assert inference.variance_factors([1] * 6, [0.5] * 6) @ [fold.null_variance for fold in folds] == pytest.approx(
        variance
    )
    uneven = Design([[15, 10], [5, 0], [4, 3]], [50, 60, 70], [25, 5, 7])
    w = np.array([25, 7]) / 32
    expected = np.array([auc_variance(0.5, [15, 10]), auc_variance(0.5, [4, 3])]) @ (w**2 + w * [25 / 50, 7 / 70])
    assert uneven.variance() == pytest.approx(expected)


def test_the_detectable_area_is_called_above_chance_in_80_percent_of_studies() -> None:
    """Simulated: the mean area is normal around its expectation, with the variance that the design has there."""
    area = power.detectable_area(DESIGN)
    means = np.random.default_rng(0).normal(area, np.sqrt(DESIGN.variance(area)), 20_000)
    z = (means - 0.5) / np.sqrt(DESIGN.variance())
    assert np.mean(z > 1.6449) == pytest.approx(0.8, abs=0.01)


def test_the_detectable_difference_is_found_in_80_percent_of_studies() -> None:
    gap = power.detectable_difference(DESIGN)
    assert power.power_of_difference(DESIGN, gap) == pytest.approx(0.8, abs=1e-6)
    # Two areas of this variance that correlate by one half differ with the variance of one.
    differences = np.random.default_rng(0).normal(gap, np.sqrt(DESIGN.variance()), 20_000)
    assert np.mean(np.abs(differences) / np.sqrt(DESIGN.variance()) > 1.96) == pytest.approx(0.8, abs=0.01)


def test_equal_methods_are_called_equivalent_as_often_as_promised() -> None:
    large = DESIGN.scaled(100)
    error = np.sqrt(large.variance())
    differences = np.random.default_rng(0).normal(0, error, 20_000)
    share = np.mean(np.abs(differences) + 1.6449 * error < 0.03)
    assert 0.2 < share < 0.99
    assert power.power_of_equivalence(large) == pytest.approx(share, abs=0.01)
    assert power.power_of_equivalence(DESIGN) == 0


@pytest.mark.parametrize(
    "function",
    [
        lambda design: power.power_above_chance(design, 0.65),
        lambda design: power.power_of_difference(design, 0.05),
        power.power_of_equivalence,
    ],
)
def test_the_needed_subjects_give_80_percent_power(function) -> None:
    needed = power.needed_subjects(DESIGN, function)
    factor = needed / DESIGN.n_subjects
    assert function(DESIGN.scaled(factor)) == pytest.approx(0.8, abs=0.005)
    assert function(DESIGN.scaled(0.9 * factor)) < 0.8


def test_more_methods_need_larger_effects_and_more_subjects() -> None:
    few, many = (power.describe_power(DESIGN, n) for n in (2, 16))
    for name in ("above_chance", "between_methods", "needed_above_chance", "needed_between_methods"):
        assert few[name] < many[name], name


def test_folds_of_one_class_show_nothing_and_tiny_ones_not_even_a_perfect_score() -> None:
    one_class = power.describe_power(replace(DESIGN, counts=[[25, 0]] * 6), 3)
    assert np.isnan([value for name, value in one_class.items() if name not in ("n_scores", "equivalence")]).all()
    assert power.detectable_area(Design([[1, 2]], [6], [1])) == 1
    sentence = power.describe_needed(power.describe_power(DESIGN, 3))
    assert sentence is not None and "0.65" in sentence
    assert power.describe_needed(one_class) is None


@pytest.mark.parametrize(("n_methods", "permutations", "is_enough"), [
    (1, 18, False), (1, 19, True), (3, 58, False), (3, 59, True), (3, 0, True),
])  # fmt: skip
def test_too_few_permutations_are_said_before_the_run(n_methods: int, permutations: int, is_enough: bool) -> None:
    names = [*(f"m{i}" for i in range(n_methods)), "constant"]
    methods = tuple(MethodSpec(name, "sklearn.dummy:DummyClassifier") for name in names)
    sentence = Plan(DataSource("", ""), methods, permutations=permutations).too_few_permutations()
    assert (sentence is None) == is_enough
    if sentence is not None:
        assert f"{20 * n_methods - 1} permutations" in sentence
        # The smallest p-value of as many draws, adjusted by Holm for all methods.
        assert holm([1 / (permutations + 1)] * n_methods)[0] > LEVEL >= holm([1 / (20 * n_methods)] * n_methods)[0]
