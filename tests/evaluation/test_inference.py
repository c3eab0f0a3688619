"""Tests and intervals over folds, against their formulas and their theorems."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_folds import make_folds
from scipy import stats

from isocapsnet.evaluation import inference
from isocapsnet.evaluation.areas import FoldArea
from isocapsnet.evaluation.statistics import Interval


def test_equal_folds_are_tested_with_the_known_variance_and_the_factor_of_nadeau_and_bengio() -> None:
    folds = make_folds(0, 0.5)
    mean = np.mean([fold.area for fold in folds])
    z = (mean - 0.5) / np.sqrt(24 / (12 * 14 * 9) * (1 / 3 + 1 / 2))
    assert inference.above_chance(folds) == pytest.approx(stats.norm.sf(z))


def test_unequal_folds_enter_with_their_weights() -> None:
    """Var = Σ v (w² + w n_test / n_train)."""
    folds = [replace(make_folds(i, sizes=(n, n))[0], weight=2 * n, n_train=100) for i, n in enumerate((3, 10, 40))]
    weights = np.array([6, 20, 80]) / 106
    variances = np.array([(2 * n + 1) / (12 * n * n) for n in (3, 10, 40)])
    error = np.sqrt(np.sum(variances * (weights**2 + weights * np.array([6, 20, 80]) / 100)))
    z = (weights @ [fold.area for fold in folds] - 0.5) / error
    assert inference.above_chance(folds) == pytest.approx(stats.norm.sf(z))


def test_constant_scores_and_folds_of_one_class_are_never_above_chance() -> None:
    labels = np.repeat([0, 1], 10)
    constant = [FoldArea.of(labels, np.full(20, 0.7), 40)] * 3
    assert inference.above_chance(constant) == 1
    assert inference.area_interval(constant) == (0.5, 0.5, 0.5)
    single = FoldArea.of(np.ones(5, int), np.arange(5.0), 40)
    assert inference.above_chance([single]) == inference.above_chance([]) == 1
    assert np.isnan(inference.area_interval([single])).all()
    others = make_folds(1, 0.6)
    assert inference.above_chance([*others, single]) == inference.above_chance(others)


@pytest.mark.parametrize("sizes", [(4, 4), (10, 2), (2, 2, 3)])
@pytest.mark.parametrize("values", [[0, 1], [0] * 3 + [1], [0] * 5 + [1, 2], list(range(20))])
def test_over_all_assignments_of_labels_the_p_value_of_a_single_fold_is_below_a_level_at_most_so_often(
    sizes: tuple[int, ...], values: list[int]
) -> None:
    """The normal distribution alone calls 17 % of null folds above chance if one of 12 scores is high."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    column = np.resize(sorted(values)[::-1], len(labels))
    scores = np.stack([(class_ + 1) * column % 7 for class_ in range(len(sizes))], axis=1) if len(sizes) > 2 else column
    rng, p_of_area = np.random.default_rng(0), dict[float, float]()
    p_values = []
    for _ in range(1000):
        fold = FoldArea.of(rng.permutation(labels), scores, n_train=1000)
        if fold.area not in p_of_area:
            p_of_area[fold.area] = inference.above_chance([fold])
        p_values.append(p_of_area[fold.area])
    for level in (0.05, 0.01):
        assert stats.binomtest(int(np.sum(np.array(p_values) <= level)), 1000, level, "greater").pvalue > 0.001


@given(seed=st.integers(0, 10_000), shift=st.floats(-2, 2), n_classes=st.integers(2, 3), digits=st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_the_interval_excludes_chance_where_the_two_sided_test_does(
    seed: int, shift: float, n_classes: int, digits: int
) -> None:
    """Duality: the interval holds the areas that are not rejected."""
    folds = make_folds(seed, shift, sizes=(14, 9, 8)[:n_classes], digits=digits)
    mean, low, high = inference.area_interval(folds)
    p_value = inference.above_chance(folds)
    assert (low > 0.5) == (p_value < 0.025)
    assert (high < 0.5) == (p_value > 0.975)
    assert 0 <= low <= mean <= high <= 1


@given(seed=st.integers(0, 10_000), shift=st.floats(-3, 3))
@settings(max_examples=40, deadline=None)
def test_the_interval_is_the_same_for_the_other_class_and_mirrored_for_negated_scores(seed: int, shift: float) -> None:
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1], [14, 9])
    scores = [rng.normal(size=23) + shift * labels for _ in range(3)]
    mean, low, high = inference.area_interval([FoldArea.of(labels, each, 46) for each in scores])
    other = inference.area_interval([FoldArea.of(1 - labels, -each, 46) for each in scores])
    negated = inference.area_interval([FoldArea.of(labels, -each, 46) for each in scores])
    assert np.allclose(other, (mean, low, high))
    assert np.allclose(negated, (1 - mean, 1 - high, 1 - low))


@pytest.mark.parametrize("sizes", [(1, 1), (10, 3), (40, 40), (5, 5, 5)])
def test_an_area_of_1_has_an_interval_of_positive_width(sizes: tuple[int, ...]) -> None:
    mean, low, high = inference.area_interval(make_folds(0, 50.0, sizes=sizes))
    assert mean == high == 1
    assert 0 <= low < 0.99


def test_more_subjects_narrow_the_interval() -> None:
    widths = [np.diff(inference.area_interval(make_folds(0, 1.0, sizes=(n, n)))[1:])[0] for n in (10, 40, 160)]
    assert widths == sorted(widths, reverse=True)


def test_the_interval_of_a_mean_is_its_formula_and_stays_inside_the_bounds() -> None:
    folds = make_folds(0)
    scores, variances = np.array([0.6, 0.7, 0.8]), np.array([0.01, 0.02, 0.03])
    half = stats.norm.isf(0.025) * np.sqrt(np.mean(variances) * (1 / 3 + 0.5))
    assert inference.mean_interval(scores, variances, folds) == pytest.approx((0.7, 0.7 - half, 0.7 + half))
    assert inference.mean_interval(scores, variances, folds, (0.65, 0.75)) == Interval(pytest.approx(0.7), 0.65, 0.75)
    assert np.isnan(inference.mean_interval([np.nan] * 3, variances, folds).mean)
    two = inference.mean_interval([0.6, np.nan, 0.8], variances, folds)
    assert two == inference.mean_interval([0.6, 0.8], [0.01, 0.03], [folds[0], folds[2]])
