"""Separation, effect size and their null distribution, against loops from the definitions."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocapsnet.explanation.contrasts import contrast_weights, effect_size, margins, separation, shuffled_separations


def test_two_classes_have_one_margin_and_three_have_one_each() -> None:
    scores = np.array([[0.2, 0.9], [0.5, 0.1]])
    assert np.allclose(margins(scores), [[0.7], [-0.4]])
    three = np.array([[0.0, 0.3, 0.9]])
    assert np.allclose(margins(three), [[0.0 - 0.6, 0.3 - 0.45, 0.9 - 0.15]])


@given(st.integers(2, 4), st.integers(0, 10_000))
def test_separation_is_the_mean_in_the_class_minus_the_mean_in_the_rest(n_classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=9)])
    targets = [1] if n_classes == 2 else range(n_classes)
    evidence = rng.normal(size=(len(codes), len(targets), 3))
    expected = np.mean(
        [evidence[codes == j, i].mean(axis=0) - evidence[codes != j, i].mean(axis=0) for i, j in enumerate(targets)],
        axis=0,
    )
    assert np.allclose(separation(evidence, codes, n_classes), expected)


def test_a_class_that_is_not_there_separates_nothing() -> None:
    evidence = np.random.default_rng(0).normal(size=(5, 1, 2))
    assert np.array_equal(separation(evidence, np.ones(5, dtype=int), 2), [0, 0])
    assert np.array_equal(effect_size(evidence, np.ones(5, dtype=int), 2), [0, 0])


def test_cohens_d_of_a_known_example() -> None:
    evidence = np.array([0.0, 2.0, 4.0, 6.0])[:, None, None]
    assert effect_size(evidence, np.array([0, 0, 1, 1]), 2) == pytest.approx([4 / np.sqrt(2)])
    assert effect_size(np.ones((4, 1, 1)), np.array([0, 0, 1, 1]), 2) == [0]


def test_shuffling_draws_every_assignment_of_the_labels_and_no_other() -> None:
    codes = np.array([0, 0, 0, 1, 1, 1])
    values = 2.0 ** np.arange(6)  # every choice of three graphs has its own mean
    every = {separation(values[:, None], np.isin(np.arange(6), chosen).astype(int), 2) for chosen in _threes()}
    draws = shuffled_separations(values[:, None, None] * np.ones(2), codes, 2, 400, seed=0)
    assert np.array_equal(draws[:, 0], draws[:, 1])
    assert {round(float(value), 6) for value in draws[:, 0]} == {round(float(value), 6) for value in every}


def _threes() -> list[list[int]]:
    return [list(chosen) for chosen in combinations(range(6), 3)]


def test_weights_sum_to_zero_so_that_what_all_graphs_share_separates_nothing() -> None:
    weights = contrast_weights(np.array([0, 1, 2, 2, 0, 1, 1]), 3)
    assert np.allclose(weights.sum(axis=0), 0)
