"""The difference of two methods, against its formula and its theorems."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_folds import make_folds
from numpy.typing import NDArray
from scipy import optimize, stats

from isocapsnet.evaluation import differences, inference
from isocapsnet.evaluation.areas import FoldArea


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
    interval, p_value, p_equivalent = differences.difference(a, b)
    assert np.allclose(interval, (mean, mean - half, mean + half))
    assert p_value == pytest.approx(2 * stats.t.sf(abs(mean) / error, freedom))
    assert p_equivalent == pytest.approx(stats.t.sf((0.03 - abs(mean)) / error, freedom))


def _cross_validated(
    scores: NDArray[np.float64], labels: NDArray[np.int64], folds: NDArray[np.int64]
) -> list[FoldArea]:
    """Test folds of scores (n_repeats, n_subjects, ...), where subject i is tested in the fold folds[r, i]."""
    result = []
    for own, fold_of in zip(scores, folds, strict=True):
        for fold in np.unique(fold_of):
            test = np.flatnonzero(fold_of == fold)
            result.append(FoldArea.of(labels[test], own[test], len(labels) - len(test), subjects=test))
    return result


def _slow_variance(
    scores: NDArray[np.float64], labels: NDArray[np.int64], folds: NDArray[np.int64], *, averaged: bool
) -> float:
    """From pairs of subjects, one by one; ``averaged`` over repeats, or the mean of what each repeat has by itself."""
    n_classes, n_repeats, size = int(labels.max()) + 1, len(folds), len(labels) // (int(labels.max()) + 1)
    n_columns = n_classes if n_classes > 2 else 1
    pairs: dict[tuple[int, int, int], float] = {}
    for repeat, fold in np.ndindex(n_repeats, int(folds.max()) + 1):
        test = np.flatnonzero(folds[repeat] == fold)
        for column in [1] if n_classes == 2 else range(n_classes):
            inside, outside = test[labels[test] == column], test[labels[test] != column]
            weight = 1 / (len(inside) * len(outside) * n_columns * (folds.max() + 1))
            for i, j in itertools.product(inside, outside):
                first, second = (float(own[repeat, i, column] > own[repeat, j, column]) for own in scores)
                key = (repeat, min(i, j), max(i, j))
                pairs[key] = pairs.get(key, 0.0) + weight * (first - second)
    kinds = {key: tuple(sorted(labels[list(key[1:])])) for key in pairs}
    for kind in set(kinds.values()):  # less the expectation, which is the same for all pairs of two classes
        mean = np.mean([pairs[key] for key, own in kinds.items() if own == kind])
        pairs |= {key: pairs[key] - mean for key, own in kinds.items() if own == kind}
    added: dict[tuple[int, int, int], float] = {}
    for (repeat, *key), value in pairs.items():
        name = (0 if averaged else repeat, key[0], key[1])
        added[name] = added.get(name, 0.0) + value / n_repeats
    rows = np.zeros((n_repeats, len(labels)))
    for (repeat, i, j), value in added.items():
        rows[repeat, [i, j]] += value
    variance = np.sum(rows**2) * size / (size - 1) - sum(value**2 for value in added.values())
    return float(variance if averaged else variance * n_repeats)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_variance_over_repeats_is_the_largest_one_for_the_contributions_of_pairs_of_subjects(
    n_classes: int,
) -> None:
    rng = np.random.default_rng(n_classes)
    labels, n_folds, n_repeats = np.tile(np.arange(n_classes), 9), 3, 4
    folds = np.array([np.repeat(rng.permutation(9) % n_folds, n_classes) for _ in range(n_repeats)])
    scores = rng.normal(size=(2, n_repeats, len(labels), n_classes)) + np.eye(n_classes)[labels]
    apart = np.mean(folds[:, :, None] != folds[:, None], axis=0)
    shared = float(np.sum(apart**2) / np.sum(apart))
    factor = 1 + n_folds / (n_folds - 1)  # Nadeau and Bengio (2003) for one repeat
    averaged, single = (factor * _slow_variance(scores, labels, folds, averaged=which) for which in (True, False))
    a, b = (_cross_validated(own, labels, folds) for own in scores)
    gaps, of_subjects = [x.area - y.area for x, y in zip(a, b, strict=True)], single * n_folds / factor
    of_fits = max(0.0, np.var(gaps, ddof=1) - of_subjects) / len(gaps)
    expected = differences.largest_variance(averaged, single, n_repeats, shared) + of_fits
    assert differences._paired_variance(list(zip(a, b, strict=True)))[0] == pytest.approx(expected)


def test_the_variance_of_fits_is_that_of_weighted_differences_beyond_their_subjects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten fits of which some failed, with weights; the degrees of freedom are those of Satterthwaite (1946)."""
    rng = np.random.default_rng(0)
    weights = rng.uniform(1, 3, size=10)
    shifts = np.where(np.arange(10) % 3, 0.0, 3.0)
    a = [replace(make_folds(i, 1.0, n_folds=1)[0], weight=float(w)) for i, w in enumerate(weights)]
    b = [
        replace(make_folds(99 + i, s, n_folds=1)[0], weight=float(w))
        for i, (s, w) in enumerate(zip(shifts, weights, strict=True))
    ]
    pairs, shares = list(zip(a, b, strict=True)), weights / weights.sum()
    total, freedom = differences._paired_variance(pairs)
    with monkeypatch.context() as patch:
        patch.setattr(differences, "_FEWEST_FITS", 99)
        of_subjects, own = differences._paired_variance(pairs)
    test_over_train = [fold.n_test / fold.n_train for fold in a]
    of_one = of_subjects / (shares**2 + shares * test_over_train).sum()
    gaps = np.array([x.area - y.area for x, y in pairs])
    mean = np.average(gaps, weights=weights)
    of_fits = 10 / 9 * np.sum(shares**2 * (gaps - mean) ** 2) - np.sum(shares**2) * of_one
    assert of_fits > of_subjects / 4
    assert total == pytest.approx(of_subjects + of_fits)
    assert freedom == pytest.approx(total**2 / (of_subjects**2 / own + of_fits**2 / 9))
    assert differences.difference(a, b).interval.mean == pytest.approx(mean)


@given(share=st.floats(0, 1.5), shared=st.floats(0.1, 1), repeats=st.integers(2, 20))
@settings(max_examples=200, deadline=None)
def test_the_largest_variance_is_the_solution_of_its_linear_program(share: float, shared: float, repeats: int) -> None:
    """Largest A + 2 m B + E / R with A + B + E = S and A + m B + E / R = S̄, if any A, B and E of at least 0 agree."""
    single, averaged = 1.0, share
    best = optimize.linprog(
        [-1, -2 * shared, -1 / repeats],
        A_eq=[[1, 1, 1], [1, shared, 1 / repeats]],
        b_eq=[single, averaged],
        bounds=[(0, None)] * 3,
    )
    found = differences.largest_variance(2 * averaged, 2 * single, repeats, shared)
    assert averaged * (1 - 1e-9) <= found <= 2 * averaged * (1 + 1e-9)
    if best.success and shared < 1 - 1e-6 and abs(shared - 1 / repeats) > 1e-6:
        assert found == pytest.approx(-best.fun, abs=1e-6)


def test_scores_that_are_linear_in_training_labels_have_the_variance_of_the_bound() -> None:
    """The area of a fold as a sum over pairs of a test and a training subject, with nothing to find."""
    rng = np.random.default_rng(0)
    n_subjects, n_folds, n_repeats = 60, 3, 5
    folds = np.array([rng.permutation(n_subjects) % n_folds for _ in range(n_repeats)])
    trains = (folds[:, :, None] != folds[:, None]).astype(float)  # (n_repeats, test subject, training subject)
    shared = float(np.sum(trains.mean(axis=0) ** 2) / trains.mean(axis=0).sum())
    kernel = rng.normal(size=(2000, n_subjects, n_subjects))
    kernel = np.triu(kernel, 1) + np.triu(kernel, 1).swapaxes(1, 2)
    added = np.einsum("dil,ril->dri", kernel, trains) / n_subjects
    mean, single = added.mean(axis=1), np.mean(np.sum(added**2, axis=2))
    averaged = np.mean(np.sum(mean**2, axis=1))
    assert averaged / single == pytest.approx(shared, rel=0.02)
    bound = differences.largest_variance(2 * averaged, 2 * single, n_repeats, shared)
    assert np.var(mean.sum(axis=1)) == pytest.approx(bound, rel=0.1)


def test_repeats_with_equal_predictions_add_no_certainty_to_a_difference() -> None:
    rng = np.random.default_rng(0)
    labels, folds = np.tile([0, 1], 18), np.repeat(np.arange(3), 12)[None]
    once, several = (
        differences.difference(
            *(_cross_validated(np.tile(own, (times, 1)), labels, np.tile(folds, (times, 1))) for own in scores)
        )
        for scores in [rng.normal(size=(2, 36)) + labels]
        for times in (1, 5)
    )
    assert several.p_value >= once.p_value * (1 - 1e-9)
    assert np.allclose(several.interval, once.interval, atol=0.01)


def _repeated(seed: int, *, n_repeats: int = 3, n_subjects: int = 48, n_folds: int = 3) -> tuple[Any, Any, Any]:
    """Scores (2, n_repeats, n_subjects) of two methods that are about as good, labels and folds (n_repeats, ...)."""
    rng = np.random.default_rng(seed)
    labels = np.tile([0, 1], n_subjects // 2)
    folds = np.array([np.repeat(rng.permutation(n_subjects // 2) % n_folds, 2) for _ in range(n_repeats)])
    return rng.normal(size=(2, n_repeats, n_subjects)) + labels, labels, folds


def test_one_subject_that_is_tested_twice_is_no_repeat() -> None:
    """One person scanned at two sites, or one finished fold of a second repeat, leave the variance about as it is."""
    (first, second), labels, folds = _repeated(0, n_repeats=1)
    a, b = (_cross_validated(own, labels, folds) for own in (first, second))
    plain = differences._paired_variance(list(zip(a, b, strict=True)))[0]
    for method in (a, b):
        numbers = method[1].subjects
        assert numbers is not None and method[0].subjects is not None
        method[1] = replace(method[1], subjects=np.where(numbers == numbers[0], method[0].subjects[0], numbers))
    assert differences._paired_variance(list(zip(a, b, strict=True)))[0] == pytest.approx(plain, rel=0.1)


def test_a_fold_that_is_missing_from_two_repeats_adds_little_variance() -> None:
    """A failed job does not turn two repeats into one."""
    ratios = []
    for seed in range(20):
        scores, labels, folds = _repeated(seed, n_repeats=2, n_subjects=120)
        pairs = list(zip(*(_cross_validated(own[:1].repeat(2, axis=0), labels, folds) for own in scores), strict=True))
        ratios.append(differences._paired_variance(pairs[:-1])[0] / differences._paired_variance(pairs)[0])
    assert 0.9 < np.mean(ratios) < 1.3


def test_people_with_one_graph_each_are_subjects() -> None:
    """Also where a fold lacks a class. Without ranks, the excess of the variance is approximated."""
    scores, _, folds = _repeated(0)
    labels = np.concatenate([np.tile([0, 1], 22), [2, 2, 2, 2]])
    folds[:, -4:] %= 2  # the last fold has nobody of class 2
    scores = np.stack([scores, -scores, scores**2], axis=-1)
    a, b = (_cross_validated(own, labels, folds) for own in scores)
    people = [[replace(fold, persons=fold.subjects, subjects=None) for fold in method] for method in (a, b)]
    numbers = differences._number_subjects([(differences._per_person(fold),) * 2 for fold in people[0]])
    assert numbers.max() + 1 == len(labels)
    expected = differences._paired_variance(list(zip(a, b, strict=True)))[0]
    assert differences._paired_variance(list(zip(*people, strict=True)))[0] == pytest.approx(expected, rel=0.2)


def test_the_approximate_excess_of_large_folds_is_close_to_the_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, labels, folds = _repeated(1, n_subjects=300)
    pairs = list(zip(*(_cross_validated(own, labels, folds) for own in scores), strict=True))
    exact = differences._paired_variance(pairs)[0]
    with monkeypatch.context() as patch:
        patch.setattr(differences, "_MOST_PAIRED", 50)
        approximate = differences._paired_variance(pairs)[0]
        patch.setattr(differences, "_excess", lambda *_: 0.0)
        without = differences._paired_variance(pairs)[0]
    assert exact < without and exact == pytest.approx(approximate, rel=0.03)
    assert approximate < without


def test_folds_enter_with_their_weights() -> None:
    """A fold that is counted twice as much adds as two folds would, whose differences are equal."""
    (first, second), labels, folds = _repeated(2, n_repeats=1)
    a, b = (_cross_validated(own, labels, folds) for own in (first, second))
    alone = [differences._paired_variance([pair])[0] for pair in zip(a, b, strict=True)]
    heavy = [[replace(fold, weight=1e6 if i == 1 else 1.0) for i, fold in enumerate(method)] for method in (a, b)]
    found = differences._paired_variance(list(zip(*heavy, strict=True)))[0]
    assert found == pytest.approx(alone[1], rel=0.3)
    assert abs(found - alone[1]) < min(abs(found - own) for own in (alone[0], alone[2]))


def test_the_methods_may_be_given_in_any_order_if_one_lacks_the_numbers_of_subjects() -> None:
    scores, labels, folds = _repeated(3)
    a, b = (_cross_validated(own, labels, folds) for own in scores)
    unnamed = [replace(fold, subjects=None) for fold in b]
    forth, back = differences.difference(a, unnamed), differences.difference(unnamed, a)
    assert forth.p_value == pytest.approx(back.p_value) == pytest.approx(differences.difference(a, b).p_value)


@pytest.mark.parametrize(("n_repeats", "n_folds", "n_subjects"), [(5, 3, 300), (1, 10, 1000)])
def test_fits_that_fail_as_a_whole_are_counted(n_repeats: int, n_folds: int, n_subjects: int) -> None:
    """Two methods of the same mean ROC AUC, of which one fails in half of its fits: test subjects alone show less."""
    n_different, rng = 0, np.random.default_rng(0)
    for seed in range(60):
        _, labels, folds = _repeated(seed, n_repeats=n_repeats, n_subjects=n_subjects, n_folds=n_folds)
        shift = np.where(rng.integers(2, size=(n_repeats, n_folds)), 1.19, 0.0)  # ROC AUC 0.8 or 0.5, 0.65 on average
        good = rng.normal(size=(n_repeats, n_subjects)) + 0.545 * labels
        failing = rng.normal(size=(n_repeats, n_subjects)) + np.take_along_axis(shift, folds, axis=1) * labels
        a, b = (_cross_validated(own, labels, folds) for own in (good, failing))
        n_different += differences.difference(a, b).p_value <= 0.05
    assert n_different <= 8  # 5 % of 60 and three standard deviations; 19 and 9 without the variance of fits


def test_what_differs_between_repeats_by_chance_is_averaged_out() -> None:
    """A method that adds new noise in each repeat: with many repeats, the variance is that of the part that stays."""
    rng = np.random.default_rng(0)
    labels, n_repeats = np.tile([0, 1], 30), 40
    folds = np.array([np.repeat(rng.permutation(30) % 3, 2) for _ in range(n_repeats)])
    scores = np.tile(rng.normal(size=60) + labels, (n_repeats, 1))
    noisy = scores + 2 * rng.normal(size=scores.shape)
    one, many = (
        differences._paired_variance(
            [*zip(*(_cross_validated(own[:n], labels, folds[:n]) for own in (scores, noisy)), strict=True)]
        )[0]
        for n in (1, n_repeats)
    )
    assert many < one / 2


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
        parts = [make_folds(seed + 1000 * i, 0.5, n_folds=1, sizes=each)[0] for i, each in enumerate(sizes)]
        return [replace(fold, n_train=10**9) for fold in parts]  # so large that nothing is shared

    pairs = [(folds(seed), folds(seed + 10_000)) for seed in range(400)]
    gaps = [np.mean([a.area - b.area for a, b in zip(*pair, strict=True)]) for pair in pairs]
    variances = [differences._paired_variance(list(zip(*pair, strict=True)))[0] for pair in pairs]
    assert np.mean(variances) == pytest.approx(np.var(gaps), rel=0.15)  # two standard errors of the variance


@given(seed=st.integers(0, 10_000), n_classes=st.integers(2, 3))
@settings(max_examples=30, deadline=None)
def test_a_difference_changes_its_sign_with_the_order(seed: int, n_classes: int) -> None:
    a, b = (make_folds(seed + i, 0.5, sizes=(14, 9, 8)[:n_classes]) for i in range(2))
    forth, back = differences.difference(a, b), differences.difference(b, a)
    assert forth.interval == pytest.approx((-back.interval.mean, -back.interval.high, -back.interval.low))
    assert forth[1:] == pytest.approx(back[1:])


@given(seed=st.integers(0, 10_000), margin=st.floats(0.02, 0.5))
@settings(max_examples=40, deadline=None)
def test_methods_are_equivalent_where_the_90_percent_interval_lies_inside_the_margin(seed: int, margin: float) -> None:
    """Schuirmann (1987)."""
    a, b = make_folds(seed, 1.0), make_folds(seed + 1, 1.0)
    interval, _, p_equivalent = differences.difference(a, b, margin)
    mean, (variance, freedom) = interval.mean, differences._paired_variance(list(zip(a, b, strict=True)))
    half = stats.t.isf(0.05, freedom) * np.sqrt(variance)
    assert (p_equivalent <= 0.05) == (mean - half >= -margin and mean + half <= margin)


def test_two_perfect_methods_of_few_subjects_are_not_shown_to_be_equivalent() -> None:
    """A perfect score on few test subjects is no certainty: neither that methods are alike nor that they differ."""
    few, many = (make_folds(0, 50.0, sizes=(n, n)) for n in (5, 60))
    assert differences.difference(few, make_folds(1, 50.0, sizes=(5, 5))).p_equivalent > 0.05
    assert differences.difference(many, make_folds(1, 50.0, sizes=(60, 60))).p_equivalent < 0.05
    labels = np.array([0, 0, 1])
    perfect, constant = FoldArea.of(labels, labels, 6), FoldArea.of(labels, np.zeros(3), 6)
    assert differences.difference([perfect] * 2, [constant] * 2).p_value > 0.05


def test_equal_predictions_do_not_differ_and_folds_without_an_area_are_left_out() -> None:
    folds = make_folds(0, 0.5)
    same = differences.difference(folds, folds)
    assert same.interval.mean == 0
    assert same.p_value == 1
    single = FoldArea.of(np.ones(5, int), np.arange(5.0), 40)
    other = make_folds(1)
    assert differences.difference([*folds, single], [*other, single]) == differences.difference(folds, other)
    nothing = differences.difference([single], [single])
    assert np.isnan(nothing.interval.mean)
    assert nothing[1:] == (1, 1)


def test_graphs_of_one_person_do_not_add_certainty_to_a_difference() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 15)
    scores = rng.normal(size=(2, 30)) + labels
    twice = {"n_train": 120, "persons": np.tile(np.arange(30), 2)}
    once = differences.difference(*([FoldArea.of(labels, s, 60)] for s in scores))
    copied = differences.difference(*([FoldArea.of(np.tile(labels, 2), np.tile(s, 2), **twice)] for s in scores))
    assert copied.p_value == pytest.approx(once.p_value, rel=0.1)
    variances = [
        differences._paired_variance([pair])[0]
        for pair in (
            [FoldArea.of(labels, s, 60) for s in scores],
            [FoldArea.of(np.tile(labels, 2), np.tile(s, 2), **twice) for s in scores],
        )
    ]
    assert variances[1] == pytest.approx(variances[0], rel=0.1)  # without ranks, the excess is approximated


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
    variance, _ = differences._paired_variance(list(zip(folds, folds, strict=True)))
    assert variance == pytest.approx(least * (1 / 3 + 1 / 2))


def test_repeated_graphs_of_people_are_no_evidence() -> None:
    """Ten graphs of each of six people, whose scores say nothing: at most 5 % may be called anything."""
    above, different = 0, 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        pair = []
        for _ in range(2):
            folds = []
            for fold in range(3):
                labels, persons = np.repeat([0, 1], 30), np.repeat(np.arange(6), 10)
                scores = rng.normal(size=6)[persons] + 0.1 * rng.normal(size=60)
                folds.append(FoldArea.of(labels, scores, 120, persons=persons + 6 * fold))
            pair.append(folds)
        above += inference.above_chance(pair[0]) < 0.05
        different += differences.difference(*pair).p_value < 0.05
    assert above <= 18 and different <= 18  # 5 % of 200 and three standard deviations
