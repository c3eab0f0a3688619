"""Metrics against scikit-learn; adjustment, permutation and Wilson interval against known answers."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from isocapsnet.evaluation import statistics
from isocapsnet.evaluation.metrics import METRICS, jackknife_variance, roc_auc, score, score_variances


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


def _predictions(rng: np.random.Generator, n_classes: int, n_test: int) -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(n_test) % n_classes
    probabilities = rng.dirichlet(np.ones(n_classes), n_test) + rng.random((n_test, 1)) * np.eye(n_classes)[labels]
    return labels, probabilities / probabilities.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_squared_contributions_add_up_to_what_leaving_out_each_subject_gives(n_classes: int) -> None:
    """The infinitesimal jackknife is the limit of the jackknife: alike for many subjects, and equal for a mean."""
    labels, probabilities = _predictions(np.random.default_rng(0), n_classes, 600)
    variances = score_variances(labels, probabilities)
    assert variances.keys() == METRICS.keys() - {"roc_auc"}
    for name, variance in variances.items():
        expected = jackknife_variance(METRICS[name].function, labels, probabilities)
        assert variance == pytest.approx(expected, rel=1e-9 if name == "brier" else 0.03), name


def test_the_variance_of_a_metric_is_that_over_new_test_subjects() -> None:
    rng = np.random.default_rng(0)
    draws = [_predictions(rng, 2, 200) for _ in range(1500)]
    scores = [score(*draw) for draw in draws]
    variances = [score_variances(*draw) for draw in draws[:200]]
    for name in METRICS.keys() - {"roc_auc"}:
        expected = np.var([s[name] for s in scores])
        assert np.mean([v[name] for v in variances]) == pytest.approx(expected, rel=0.12), name


def test_a_perfect_score_and_a_class_of_one_subject_have_a_variance() -> None:
    perfect = score_variances([0, 1, 1, 1], np.eye(2)[[0, 1, 1, 1]])
    assert all(perfect[name] > 0 for name in ("accuracy", "balanced_accuracy", "weighted_f1", "macro_f1", "mcc"))
    assert perfect["brier"] == 0
    one_class = score_variances([1, 1, 1], np.tile([0.4, 0.6], (3, 1)))
    assert np.isfinite(list(one_class.values())).all()


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
