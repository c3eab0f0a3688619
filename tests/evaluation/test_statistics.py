"""Metrics against scikit-learn, intervals and tests against formulas, tables and simulation."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from isocapsnet.evaluation import statistics
from isocapsnet.evaluation.metrics import METRICS, roc_auc, score


@given(seed=st.integers(0, 10_000), n_classes=st.integers(2, 4), rounded=st.booleans())
@settings(max_examples=60, deadline=None)
def test_metrics_equal_scikit_learn_on_the_stored_probabilities(seed: int, n_classes: int, rounded: bool) -> None:
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, 20)])
    probabilities = rng.dirichlet(np.ones(n_classes), len(labels))
    if rounded and n_classes == 2:  # ties
        probabilities = np.round(probabilities, 1)
    found = score(labels, probabilities)
    answers = probabilities.argmax(axis=1)
    area = (
        metrics.roc_auc_score(labels, probabilities[:, 1])
        if n_classes == 2
        else metrics.roc_auc_score(labels, probabilities, multi_class="ovr")
    )
    expected = {
        "accuracy": metrics.accuracy_score(labels, answers),
        "balanced_accuracy": metrics.balanced_accuracy_score(labels, answers),
        "weighted_f1": metrics.f1_score(labels, answers, average="weighted"),
        "macro_f1": metrics.f1_score(labels, answers, average="macro"),
        "roc_auc": area,
        "mcc": metrics.matthews_corrcoef(labels, answers),
        "brier": metrics.brier_score_loss(labels, probabilities[:, 1] if n_classes == 2 else probabilities),
    }
    assert found.keys() == expected.keys() == METRICS.keys()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-12), name


def test_roc_auc_counts_pairs() -> None:
    """Known answer: of 2 x 2 pairs, three are in the right order and one is tied."""
    probabilities = np.array([0.1, 0.6, 0.6, 0.9])
    assert roc_auc(np.array([0, 0, 1, 1]), np.c_[1 - probabilities, probabilities]) == 3.5 / 4


def test_a_test_fold_of_one_class_has_no_roc_auc_and_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = score([1, 1, 1], np.tile([0.4, 0.6], (3, 1)))
    assert np.isnan(found["roc_auc"])
    assert found["accuracy"] == 1


def test_the_null_variance_of_an_area_is_that_of_all_ways_to_deal_out_the_labels() -> None:
    scores = np.array([0.1, 0.2, 0.3, 0.5, 0.6, 0.8, 0.9])
    areas = []
    for positive in itertools.combinations(range(7), 3):
        labels = np.isin(np.arange(7), positive).astype(int)
        areas.append(roc_auc(labels, np.c_[1 - scores, scores]))
    assert statistics.auc_variance(0.5, [4, 3]) == pytest.approx(np.var(areas)) == pytest.approx(8 / (12 * 12))


def test_the_variance_of_an_area_is_that_of_exponential_scores() -> None:
    """Hanley and McNeil's formula is exact for them: P(Exp(rate) > Exp(1)) = 1 / (1 + rate)."""
    rng = np.random.default_rng(0)
    negative, positive = rng.exponential(1, (20_000, 15)), rng.exponential(4, (20_000, 8))
    areas = (positive[:, :, None] > negative[:, None, :]).mean(axis=(1, 2))
    assert areas.mean() == pytest.approx(0.8, abs=0.003)
    assert statistics.auc_variance(0.8, [15, 8]) == pytest.approx(areas.var(), rel=0.03)


def test_the_variance_of_an_area_beyond_two_classes_and_below() -> None:
    assert statistics.auc_variance(0.5, [10, 10, 10]) == pytest.approx(31 / (12 * 10 * 20))
    assert np.isnan(statistics.auc_variance(0.5, [10, 0]))


def test_corrected_interval_is_the_formula_of_nadeau_and_bengio() -> None:
    scores = np.array([0.6, 0.7, 0.65, 0.55, 0.72, 0.61])
    half = stats.t.ppf(0.975, 5) * np.sqrt((1 / 6 + 0.5) * scores.var(ddof=1))
    interval = statistics.corrected_interval(scores, 0.5)
    assert interval == pytest.approx((scores.mean(), scores.mean() - half, scores.mean() + half))
    uncorrected = stats.t.interval(0.95, 5, scores.mean(), stats.sem(scores))
    assert statistics.corrected_interval(scores, 0.0)[1:] == pytest.approx(uncorrected)


def test_intervals_stay_within_what_the_metric_can_be() -> None:
    assert statistics.corrected_interval([0.9, 1.0, 0.6], 0.5).high == 1
    assert statistics.corrected_interval([0.9, 1.0, 0.6], 0.5, bounds=(-1.0, 1.0)).low < 0.5
    assert statistics.corrected_interval([0.1, -0.9, 0.6], 0.5, bounds=(-1.0, 1.0)).low == -1
    one = statistics.corrected_interval([0.7], 0.5)
    assert one.mean == 0.7
    assert np.isnan([one.low, one.high]).all()
    assert statistics.corrected_interval([0.6, np.nan, 0.8], 0.5).mean == pytest.approx(0.7)


def test_without_correction_the_test_is_scipys() -> None:
    differences = np.array([0.1, 0.05, -0.02, 0.08])
    for alternative in ("two-sided", "greater"):
        expected = stats.ttest_1samp(differences, 0, alternative=alternative).pvalue
        assert statistics.corrected_t_test(differences, 0.0, alternative) == pytest.approx(expected)
        assert statistics.corrected_t_test(differences, 0.5, alternative) > expected


def test_without_variance_the_test_says_the_obvious() -> None:
    assert statistics.corrected_t_test([0.0, 0.0, 0.0], 0.5) == 1
    assert statistics.corrected_t_test([0.5, 0.5, 0.5], 0.5) < 1e-6
    assert statistics.corrected_t_test([-0.5, -0.5, -0.5], 0.5, "greater") > 1 - 1e-6
    assert statistics.corrected_t_test([0.5], 0.5) == 1


def test_a_variance_below_the_least_is_not_believed() -> None:
    alike, least = [0.10, 0.11, 0.10], 0.01
    t = np.mean(alike) / np.sqrt(least * (1 / 3 + 0.5))
    found = statistics.corrected_t_test(alike, 0.5, "greater", least_variance=least)
    assert found == pytest.approx(stats.t.sf(t, 2))
    assert statistics.corrected_t_test(alike, 0.5, "greater", least_variance=1e-9) < found
    half = stats.t.ppf(0.975, 2) * np.sqrt(least * (1 / 3 + 0.5))
    interval = statistics.corrected_interval(alike, 0.5, bounds=(-1.0, 1.0), least_variance=least)
    assert interval.high - interval.mean == pytest.approx(half)


def test_holm_known_answer() -> None:
    assert statistics.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert statistics.holm([0.6, 0.9]) == [1.0, 1.0]
    assert statistics.holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_lies_between_the_raw_and_the_bonferroni_value_and_keeps_the_order(p_values: list[float]) -> None:
    adjusted = statistics.holm(p_values)
    for raw, value in zip(p_values, adjusted, strict=True):
        assert raw <= value + 1e-12
        assert value <= min(1, raw * len(p_values)) + 1e-12
    for (p, a), (q, b) in itertools.combinations(zip(p_values, adjusted, strict=True), 2):
        assert (a <= b + 1e-12) if p < q else (b <= a + 1e-12)


def test_permutation_p_value_counts_the_observation_and_ties() -> None:
    assert statistics.permutation_p_value(0.8, [0.5, 0.6, 0.8, 0.9]) == 3 / 5
    assert statistics.permutation_p_value(0.95, [0.5] * 99) == 0.01


def test_wilson_known_answer() -> None:
    """Newcombe (1998), Table I, case 81 of 263: 0.2553 to 0.3662."""
    interval = statistics.wilson_interval(81, 263)
    assert (round(interval.low, 4), round(interval.high, 4)) == (0.2553, 0.3662)


@pytest.mark.parametrize("alternative", ["greater", "two-sided"])
def test_the_detectable_difference_is_found_with_the_promised_power(alternative) -> None:
    """Simulated: fold scores with the variance of an uninformative AUC and the correlation the correction assumes."""
    rng = np.random.default_rng(0)
    n_scores, ratio, runs = 15, 0.5, 4000
    difference = statistics.detectable_difference([15, 10], n_scores, ratio, alternative=alternative)
    variance = 26 / (12 * 15 * 10)
    # Var(mean) = (1/J + ratio) s^2 where s^2 is the variance between folds: a shared part of ratio * s^2.
    shared = rng.normal(0, np.sqrt(ratio * variance), (runs, 1))
    scores = difference + shared + rng.normal(0, np.sqrt(variance), (runs, n_scores))
    found = [statistics.corrected_t_test(row, ratio, alternative) <= 0.05 for row in scores]
    assert np.mean(found) == pytest.approx(0.8, abs=0.03)


def test_more_subjects_show_smaller_differences_and_one_fold_shows_none() -> None:
    sizes = [statistics.detectable_difference([n, n], 15, 0.5) for n in (5, 20, 80)]
    assert sizes == sorted(sizes, reverse=True)
    assert np.isnan(statistics.detectable_difference([10, 10], 1, 0.5))
