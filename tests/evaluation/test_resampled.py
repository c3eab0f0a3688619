"""The corrected resampled t-test against formulas, tables and simulation."""

import numpy as np
import pytest
from scipy import stats

from isocapsnet.evaluation import resampled


def test_corrected_interval_is_the_formula_of_nadeau_and_bengio() -> None:
    scores = np.array([0.6, 0.7, 0.65, 0.55, 0.72, 0.61])
    half = stats.t.ppf(0.975, 5) * np.sqrt((1 / 6 + 0.5) * scores.var(ddof=1))
    interval = resampled.corrected_interval(scores, 0.5)
    assert interval == pytest.approx((scores.mean(), scores.mean() - half, scores.mean() + half))
    uncorrected = stats.t.interval(0.95, 5, scores.mean(), stats.sem(scores))
    assert resampled.corrected_interval(scores, 0.0)[1:] == pytest.approx(uncorrected)


def test_intervals_stay_within_what_the_metric_can_be() -> None:
    assert resampled.corrected_interval([0.9, 1.0, 0.6], 0.5).high == 1
    assert resampled.corrected_interval([0.9, 1.0, 0.6], 0.5, bounds=(-1.0, 1.0)).low < 0.5
    assert resampled.corrected_interval([0.1, -0.9, 0.6], 0.5, bounds=(-1.0, 1.0)).low == -1
    one = resampled.corrected_interval([0.7], 0.5)
    assert one.mean == 0.7
    assert np.isnan([one.low, one.high]).all()
    assert resampled.corrected_interval([0.6, np.nan, 0.8], 0.5).mean == pytest.approx(0.7)


def test_without_correction_the_test_is_scipys() -> None:
    differences = np.array([0.1, 0.05, -0.02, 0.08])
    for alternative in ("two-sided", "greater"):
        expected = stats.ttest_1samp(differences, 0, alternative=alternative).pvalue
        assert resampled.corrected_t_test(differences, 0.0, alternative) == pytest.approx(expected)
        assert resampled.corrected_t_test(differences, 0.5, alternative) > expected


def test_without_variance_the_test_says_the_obvious() -> None:
    assert resampled.corrected_t_test([0.0, 0.0, 0.0], 0.5) == 1
    assert resampled.corrected_t_test([0.5, 0.5, 0.5], 0.5) < 1e-6
    assert resampled.corrected_t_test([-0.5, -0.5, -0.5], 0.5, "greater") > 1 - 1e-6
    assert resampled.corrected_t_test([0.5], 0.5) == 1


def test_a_variance_below_the_least_is_not_believed() -> None:
    alike, least = [0.10, 0.11, 0.10], 0.01
    t = np.mean(alike) / np.sqrt(least * (1 / 3 + 0.5))
    found = resampled.corrected_t_test(alike, 0.5, "greater", least_variance=least)
    assert found == pytest.approx(stats.t.sf(t, 2))
    assert resampled.corrected_t_test(alike, 0.5, "greater", least_variance=1e-9) < found
    half = stats.t.ppf(0.975, 2) * np.sqrt(least * (1 / 3 + 0.5))
    interval = resampled.corrected_interval(alike, 0.5, bounds=(-1.0, 1.0), least_variance=least)
    assert interval.high - interval.mean == pytest.approx(half)


@pytest.mark.parametrize("alternative", ["greater", "two-sided"])
def test_the_detectable_difference_is_found_with_the_promised_power(alternative) -> None:
    """Simulated: fold scores with the variance of an uninformative AUC and the correlation the correction assumes."""
    rng = np.random.default_rng(0)
    n_scores, ratio, runs = 15, 0.5, 4000
    difference = resampled.detectable_difference([15, 10], n_scores, ratio, alternative=alternative)
    variance = 26 / (12 * 15 * 10)
    # Var(mean) = (1/J + ratio) s^2 where s^2 is the variance between folds: a shared part of ratio * s^2.
    shared = rng.normal(0, np.sqrt(ratio * variance), (runs, 1))
    scores = difference + shared + rng.normal(0, np.sqrt(variance), (runs, n_scores))
    found = [resampled.corrected_t_test(row, ratio, alternative) <= 0.05 for row in scores]
    assert np.mean(found) == pytest.approx(0.8, abs=0.03)


def test_more_subjects_show_smaller_differences_and_one_fold_shows_none() -> None:
    sizes = [resampled.detectable_difference([n, n], 15, 0.5) for n in (5, 20, 80)]
    assert sizes == sorted(sizes, reverse=True)
    assert np.isnan(resampled.detectable_difference([10, 10], 1, 0.5))
