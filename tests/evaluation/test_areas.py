"""Variances of the ROC AUC of a test fold, against all assignments of labels, DeLong's definition and simulation."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from isocapsnet.evaluation import areas
from isocapsnet.evaluation.areas import (
    FoldArea,
    auc_variance,
    draw_null_areas,
    null_variance,
    pair_shares,
    placements,
    relative_variance,
)
from isocapsnet.evaluation.metrics import roc_auc


def _fold(seed: int, n_classes: int, n_test: int, digits: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Labels and probabilities; few ``digits`` make ties."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n_test - n_classes)])
    return labels, np.round(rng.dirichlet(np.ones(n_classes), n_test), digits)


@given(seed=st.integers(0, 10_000), n_classes=st.integers(2, 3), digits=st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_the_null_variance_is_that_over_all_assignments_of_the_labels(seed: int, n_classes: int, digits: int) -> None:
    """Hoeffding (1951), with ties and beyond two classes."""
    labels, probabilities = _fold(seed, n_classes, 6, digits)
    areas = [roc_auc(np.array(order), probabilities) for order in itertools.permutations(labels)]
    assert np.mean(areas) == pytest.approx(0.5)
    assert null_variance(labels, probabilities) == pytest.approx(np.var(areas), abs=1e-12)


@given(seed=st.integers(0, 10_000), n_classes=st.integers(2, 3), digits=st.integers(0, 3))
@settings(max_examples=20, deadline=None)
def test_drawn_null_areas_are_areas_of_assigned_labels(seed: int, n_classes: int, digits: int) -> None:
    labels, probabilities = _fold(seed, n_classes, 5, digits)
    drawn = draw_null_areas(FoldArea.of(labels, probabilities, 20), 2000)
    areas, times = np.unique(
        np.round([roc_auc(np.array(order), probabilities) for order in itertools.permutations(labels)], 6),
        return_counts=True,
    )
    assert set(np.round(drawn, 6)) <= set(areas)
    shares = [np.mean(np.round(drawn, 6) == area) for area in areas]
    assert shares == pytest.approx(times / times.sum(), abs=0.05)


def test_null_areas_do_not_depend_on_how_many_are_drawn_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    fold = FoldArea.of(*_fold(0, 3, 50, 2), 100)
    together = draw_null_areas(fold, 300)
    monkeypatch.setattr(areas, "_MOST_DRAWN", 333)
    assert np.array_equal(draw_null_areas(fold, 300), together)


def test_the_null_variance_without_ties_is_that_of_mann_and_whitney() -> None:
    labels, scores = np.repeat([0, 1], [30, 11]), np.random.default_rng(0).random(41)
    fold = FoldArea.of(labels, scores, 80)
    assert fold.null_variance == pytest.approx(42 / (12 * 30 * 11)) == pytest.approx(auc_variance(0.5, fold.counts))


@given(seed=st.integers(0, 10_000), digits=st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_placements_of_two_classes_are_those_of_delong(seed: int, digits: int) -> None:
    """Slow reference: the mean over the other class of 1, 1/2 or 0 for a pair in the right order, tied, or not."""
    labels, probabilities = _fold(seed, 2, 12, digits)
    scores = probabilities[:, 1]
    for subject, value in enumerate(placements(labels, probabilities)):
        sign = 1 if labels[subject] else -1
        others = scores[labels != labels[subject]]
        expected = np.mean([(np.sign(sign * (scores[subject] - other)) + 1) / 2 for other in others])
        assert value == pytest.approx(expected)


@given(seed=st.integers(0, 10_000), n_classes=st.integers(2, 4), digits=st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_placements_average_to_the_area(seed: int, n_classes: int, digits: int) -> None:
    """Each pair of a positive and a negative counts once from either side."""
    labels, probabilities = _fold(seed, n_classes, 15, digits)
    by_class = [placements(labels, probabilities)[labels == label].mean() for label in range(n_classes)]
    # For C > 2 the means of the classes add up to the areas counted as positives and as negatives.
    total = np.mean(by_class) if n_classes == 2 else np.sum(by_class) / 2
    assert total == pytest.approx(roc_auc(labels, probabilities))


@given(seed=st.integers(0, 10_000), n_classes=st.integers(2, 4), digits=st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_the_shares_of_pairs_add_up_to_the_area_and_those_of_a_subject_to_its_placement(
    seed: int, n_classes: int, digits: int
) -> None:
    fold = FoldArea.of(*_fold(seed, n_classes, 15, digits), 30)
    shares = pair_shares(fold)
    assert shares.sum() / 2 == pytest.approx(fold.area)
    assert shares.sum(axis=1) * np.array(fold.counts)[fold.labels] == pytest.approx(fold.placements)
    assert not shares[fold.labels[:, None] == fold.labels].any()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_variance_of_placements_is_that_of_the_area_over_new_subjects(n_classes: int) -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(n_classes), [50, 30, 40][:n_classes])
    areas, variances = [], []
    for _ in range(2000):
        scores = rng.normal(size=(len(labels), n_classes)) + 0.8 * np.eye(n_classes)[labels]
        areas.append(roc_auc(labels, scores))
        values = placements(labels, scores)
        variances.append(sum(values[labels == k].var(ddof=1) / np.sum(labels == k) for k in range(n_classes)))
    assert np.mean(variances) == pytest.approx(np.var(areas), rel=0.1)


def test_constant_scores_have_no_variance_and_one_class_has_no_area() -> None:
    constant = FoldArea.of([0, 1, 1, 0], np.full(4, 0.3), 8)
    assert (constant.area, constant.null_variance) == (0.5, 0)
    assert FoldArea.of([0, 1, 2, 0], np.full((4, 3), 1 / 3), 8).null_variance == 0
    single = FoldArea.of([1, 1, 1], np.array([0.1, 0.2, 0.3]), 8)
    assert np.isnan([single.area, single.null_variance, *single.placements]).all()


def test_a_class_without_test_subjects_is_left_out() -> None:
    rng = np.random.default_rng(0)
    labels, probabilities = np.array([0, 2, 2, 0, 0, 2]), rng.dirichlet(np.ones(3), 6)
    areas = [roc_auc(np.array(order), probabilities) for order in itertools.permutations(labels)]
    assert null_variance(labels, probabilities) == pytest.approx(np.var(areas))


@given(area=st.floats(0, 1), n_test=st.integers(2, 500))
def test_the_relative_variance_is_symmetric_and_largest_at_chance(area: float, n_test: int) -> None:
    assert relative_variance(0.5, n_test) == pytest.approx(1)
    assert relative_variance(area, n_test) == pytest.approx(relative_variance(1 - area, n_test), abs=1e-9)
    assert -1e-12 <= relative_variance(area, n_test) <= 1 + 1e-12


def test_the_relative_variance_of_equal_classes_is_that_of_hanley_and_mcneil() -> None:
    expected = auc_variance(0.8, [20, 20]) / auc_variance(0.5, [20, 20])
    assert relative_variance(0.8, 40) == pytest.approx(expected)


def test_the_variance_of_an_area_is_that_of_exponential_scores() -> None:
    """Hanley and McNeil's formula is exact for them: P(Exp(rate) > Exp(1)) = 1 / (1 + rate)."""
    rng = np.random.default_rng(0)
    negative, positive = rng.exponential(1, (20_000, 15)), rng.exponential(4, (20_000, 8))
    areas = (positive[:, :, None] > negative[:, None, :]).mean(axis=(1, 2))
    assert areas.mean() == pytest.approx(0.8, abs=0.003)
    assert auc_variance(0.8, [15, 8]) == pytest.approx(areas.var(), rel=0.03)


def test_the_variance_of_an_area_beyond_two_classes_and_below() -> None:
    assert auc_variance(0.5, [10, 10, 10]) == pytest.approx(31 / (12 * 10 * 20))
    assert np.isnan(auc_variance(0.5, [10, 0]))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_copies_of_a_graph_count_once(n_classes: int) -> None:
    """Each person twice, with the same score: the variance is that of the persons, not of twice as many."""
    labels, scores = _fold(0, n_classes, 30, 6)
    once, persons = FoldArea.of(labels, scores, 60), np.tile(np.arange(30), 2)
    twice = FoldArea.of(np.tile(labels, 2), np.tile(scores, (2, 1)), 120, persons=persons)
    assert twice.area == pytest.approx(once.area)
    assert twice.null_variance == pytest.approx(once.null_variance, rel=0.05)
    assert FoldArea.of(labels, scores, 60, persons=np.arange(30)).null_variance == pytest.approx(once.null_variance)
