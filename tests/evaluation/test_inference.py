"""Tests and intervals over folds, against their formulas and their theorems."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from isocapsnet.evaluation import inference
from isocapsnet.evaluation.areas import FoldArea
from isocapsnet.evaluation.statistics import Interval


def _folds(
    seed: int, shift: float = 0.0, *, n_folds: int = 3, sizes: tuple[int, ...] = (14, 9), digits: int = 6
) -> list[FoldArea]:
    """Folds with ``sizes`` test subjects of each class, whose scores lie ``shift`` standard deviations apart."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    scores = [rng.normal(size=(len(labels), len(sizes))) + shift * np.eye(len(sizes))[labels] for _ in range(n_folds)]
    return [FoldArea.of(labels, np.round(each, digits), 2 * len(labels)) for each in scores]


def test_equal_folds_are_tested_with_the_known_variance_and_the_factor_of_nadeau_and_bengio() -> None:
    folds = _folds(0, 0.5)
    mean = np.mean([fold.area for fold in folds])
    z = (mean - 0.5) / np.sqrt(24 / (12 * 14 * 9) * (1 / 3 + 1 / 2))
    assert inference.above_chance(folds) == pytest.approx(stats.norm.sf(z))


def test_unequal_folds_enter_with_their_weights() -> None:
    """Var = Σ v (w² + w n_test / n_train)."""
    folds = [replace(_folds(i, sizes=(n, n))[0], weight=2 * n, n_train=100) for i, n in enumerate((3, 10, 40))]
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
    others = _folds(1, 0.6)
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
    folds = _folds(seed, shift, sizes=(14, 9, 8)[:n_classes], digits=digits)
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
    mean, low, high = inference.area_interval(_folds(0, 50.0, sizes=sizes))
    assert mean == high == 1
    assert 0 <= low < 0.99


def test_more_subjects_narrow_the_interval() -> None:
    widths = [np.diff(inference.area_interval(_folds(0, 1.0, sizes=(n, n)))[1:])[0] for n in (10, 40, 160)]
    assert widths == sorted(widths, reverse=True)


def test_the_variance_of_a_difference_is_the_sum_of_products_of_pairs_that_share_a_subject() -> None:
    """Slow reference, written from the definition of the variance of a U-statistic (Hoeffding, 1948)."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], [12, 8])
    scores = rng.normal(size=(2, 20)) + labels
    kernel = np.array([[[float(p > n) for n in s[:12]] for p in s[12:]] for s in scores])
    mean = kernel[0].mean() - kernel[1].mean()
    centred = (kernel[0] - kernel[1] - mean) / (8 * 12)
    cells = list(np.ndindex(8, 12))
    shared = [sum(centred[c] * centred[d] for c in cells for d in cells if c[axis] == d[axis]) for axis in (0, 1)]
    parts = np.array(shared) * [8 / 7, 12 / 11]  # deviations from a mean that is estimated
    same = sum(centred[c] ** 2 for c in cells)  # such a pair shares both subjects, and was counted twice
    error = np.sqrt((parts.sum() - same) * (1 + 0.5))
    freedom = parts.sum() ** 2 / (parts**2 @ [1 / 7, 1 / 11])  # Welch and Satterthwaite
    half = stats.t.isf(0.025, freedom) * error
    a, b = ([FoldArea.of(labels, s, 40)] for s in scores)
    interval, p_value, p_equivalent = inference.difference(a, b)
    assert np.allclose(interval, (mean, mean - half, mean + half))
    assert p_value == pytest.approx(2 * stats.t.sf(abs(mean) / error, freedom))
    assert p_equivalent == pytest.approx(stats.t.sf((0.03 - abs(mean)) / error, freedom))


@pytest.mark.parametrize(
    "sizes", [[(2, 2)] * 6, [(1, 3)] * 6, [(2, 2, 2)] * 6, [(30, 30), (10, 10), (2, 2), (2, 2)]], ids=str
)
def test_the_variance_of_a_difference_is_that_over_new_subjects_of_independent_folds(
    sizes: list[tuple[int, ...]],
) -> None:
    """DeLong's own estimate is too large by a third if folds have two subjects of each of two classes.

    Were the placements of subjects in small folds taken to vary as those in large ones, it would be too small.
    """

    def folds(seed: int) -> list[FoldArea]:
        parts = [_folds(seed + 1000 * i, 0.5, n_folds=1, sizes=each)[0] for i, each in enumerate(sizes)]
        return [replace(fold, n_train=10**9) for fold in parts]  # so large that nothing is shared

    pairs = [(folds(seed), folds(seed + 10_000)) for seed in range(400)]
    gaps = [np.mean([a.area - b.area for a, b in zip(*pair, strict=True)]) for pair in pairs]
    variances = [inference._paired_variance(list(zip(*pair, strict=True)))[0] for pair in pairs]
    assert np.mean(variances) == pytest.approx(np.var(gaps), rel=0.15)  # two standard errors of the variance


@given(seed=st.integers(0, 10_000), n_classes=st.integers(2, 3))
@settings(max_examples=30, deadline=None)
def test_a_difference_changes_its_sign_with_the_order(seed: int, n_classes: int) -> None:
    a, b = (_folds(seed + i, 0.5, sizes=(14, 9, 8)[:n_classes]) for i in range(2))
    forth, back = inference.difference(a, b), inference.difference(b, a)
    assert forth.interval == pytest.approx((-back.interval.mean, -back.interval.high, -back.interval.low))
    assert forth[1:] == pytest.approx(back[1:])


@given(seed=st.integers(0, 10_000), margin=st.floats(0.02, 0.5))
@settings(max_examples=40, deadline=None)
def test_methods_are_equivalent_where_the_90_percent_interval_lies_inside_the_margin(seed: int, margin: float) -> None:
    """Schuirmann (1987)."""
    a, b = _folds(seed, 1.0), _folds(seed + 1, 1.0)
    interval, _, p_equivalent = inference.difference(a, b, margin)
    mean, (variance, freedom) = interval.mean, inference._paired_variance(list(zip(a, b, strict=True)))
    half = stats.t.isf(0.05, freedom) * np.sqrt(variance)
    assert (p_equivalent <= 0.05) == (mean - half >= -margin and mean + half <= margin)


def test_two_perfect_methods_of_few_subjects_are_not_shown_to_be_equivalent() -> None:
    """A perfect score on few test subjects is no certainty: neither that methods are alike nor that they differ."""
    few, many = (_folds(0, 50.0, sizes=(n, n)) for n in (5, 60))
    assert inference.difference(few, _folds(1, 50.0, sizes=(5, 5))).p_equivalent > 0.05
    assert inference.difference(many, _folds(1, 50.0, sizes=(60, 60))).p_equivalent < 0.05
    labels = np.array([0, 0, 1])
    perfect, constant = FoldArea.of(labels, labels, 6), FoldArea.of(labels, np.zeros(3), 6)
    assert inference.difference([perfect] * 2, [constant] * 2).p_value > 0.05


def test_equal_predictions_do_not_differ_and_folds_without_an_area_are_left_out() -> None:
    folds = _folds(0, 0.5)
    same = inference.difference(folds, folds)
    assert same.interval.mean == 0
    assert same.p_value == 1
    single = FoldArea.of(np.ones(5, int), np.arange(5.0), 40)
    other = _folds(1)
    assert inference.difference([*folds, single], [*other, single]) == inference.difference(folds, other)
    nothing = inference.difference([single], [single])
    assert np.isnan(nothing.interval.mean)
    assert nothing[1:] == (1, 1)


def test_the_interval_of_a_mean_is_its_formula_and_stays_inside_the_bounds() -> None:
    folds = _folds(0)
    scores, variances = np.array([0.6, 0.7, 0.8]), np.array([0.01, 0.02, 0.03])
    half = stats.norm.isf(0.025) * np.sqrt(np.mean(variances) * (1 / 3 + 0.5))
    assert inference.mean_interval(scores, variances, folds) == pytest.approx((0.7, 0.7 - half, 0.7 + half))
    assert inference.mean_interval(scores, variances, folds, (0.65, 0.75)) == Interval(pytest.approx(0.7), 0.65, 0.75)
    assert np.isnan(inference.mean_interval([np.nan] * 3, variances, folds).mean)
    two = inference.mean_interval([0.6, np.nan, 0.8], variances, folds)
    assert two == inference.mean_interval([0.6, 0.8], [0.01, 0.03], [folds[0], folds[2]])


def test_graphs_of_one_person_do_not_add_certainty_to_a_difference() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 15)
    scores = rng.normal(size=(2, 30)) + labels
    twice = {"n_train": 120, "persons": np.tile(np.arange(30), 2)}
    once = inference.difference(*([FoldArea.of(labels, s, 60)] for s in scores))
    copied = inference.difference(*([FoldArea.of(np.tile(labels, 2), np.tile(s, 2), **twice)] for s in scores))
    assert copied.p_value == pytest.approx(once.p_value, rel=0.1)


@pytest.mark.parametrize("sizes", [(12, 12), (20, 10, 5), (9, 9, 9)])
def test_the_least_variance_is_that_of_one_subject_off_by_half_of_its_range_in_one_column(
    sizes: tuple[int, ...],
) -> None:
    """Two perfect methods."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    folds = [FoldArea.of(labels, np.eye(len(sizes))[labels], 2 * len(labels)) for _ in range(3)]
    counts = np.array(sizes)
    n_columns = len(sizes) if len(sizes) > 2 else 1
    least = np.sum((1 / (2 * n_columns)) ** 2 / (3 * counts) / counts)
    variance, _ = inference._paired_variance(list(zip(folds, folds, strict=True)))
    assert variance == pytest.approx(least * (1 / 3 + 1 / 2))


def test_repeated_graphs_of_people_are_no_evidence() -> None:
    """Ten graphs of each of six people, whose scores say nothing: at most 5 % may be called anything."""
    above, different = 0, 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        pair = []
        for _ in range(2):
            folds = []
            for _ in range(3):
                labels, persons = np.repeat([0, 1], 30), np.repeat(np.arange(6), 10)
                scores = rng.normal(size=6)[persons] + 0.1 * rng.normal(size=60)
                folds.append(FoldArea.of(labels, scores, 120, persons=persons))
            pair.append(folds)
        above += inference.above_chance(pair[0]) < 0.05
        different += inference.difference(*pair).p_value < 0.05
    assert above <= 18 and different <= 18  # 5 % of 200 and three standard deviations
