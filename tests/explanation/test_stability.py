"""P-values that keep their word under any dependence, and templates compared up to the order of their nodes."""

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocapsnet.explanation.alignment import agreement_of_shapes, align_templates
from isocapsnet.explanation.stability import agreement_of_regions, combine_p_values, permutation_p_values

LEVEL, RUNS = 0.05, 20_000


def test_p_values_of_noise_are_uniform() -> None:
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1], [12, 8])
    p_values = permutation_p_values(rng.normal(size=(20, 1, 2000)), codes, 2, seed=0)
    for level in (0.01, 0.05, 0.2, 0.5):
        assert np.mean(p_values <= level) == pytest.approx(level, abs=4 * np.sqrt(level / 2000))


def test_evidence_that_separates_has_the_smallest_p_value_and_none_has_the_largest() -> None:
    codes = np.repeat([0, 1], 10)
    evidence = np.stack([codes.astype(float), np.ones(20), -codes.astype(float)], axis=1)[:, None]
    assert permutation_p_values(evidence, codes, 2, seed=0).tolist() == pytest.approx([1 / 10_000, 1, 1], abs=2e-4)


def _independent(rng: np.random.Generator, m: int) -> np.ndarray:
    return rng.random((m, RUNS))


def _identical(rng: np.random.Generator, m: int) -> np.ndarray:
    return np.repeat(rng.random((1, RUNS)), m, axis=0)


def _adversarial(rng: np.random.Generator, m: int) -> np.ndarray:
    """Uniform p-values that are small in as many fits as are needed, as often as uniform ones can be."""
    needed = m - m // 10
    bound = LEVEL * needed / m
    chosen = np.argsort(rng.random((m, RUNS)), axis=0) < needed
    together = rng.random(RUNS) < LEVEL
    return np.where(chosen & together, bound * rng.random((m, RUNS)), bound + (1 - bound) * rng.random((m, RUNS)))


@pytest.mark.parametrize("dependence", [_independent, _identical, _adversarial])
@pytest.mark.parametrize("m", [3, 6, 12])
def test_the_combined_p_value_is_valid_however_fits_depend_on_each_other(
    dependence: Callable[[np.random.Generator, int], np.ndarray], m: int
) -> None:
    p_values = dependence(np.random.default_rng(m), m)
    assert np.all(np.abs((p_values <= 0.3).mean(axis=1) - 0.3) < 0.015), "the construction must have uniform margins"
    error = 4 * np.sqrt(LEVEL / RUNS)
    rejected = np.mean(combine_p_values(p_values) <= LEVEL)
    assert rejected <= LEVEL + error
    if dependence is _adversarial:
        assert rejected >= LEVEL - error, "the rule is sharp: nothing smaller would be valid"


def test_all_of_a_few_and_nine_of_ten_of_many_fits_are_needed() -> None:
    assert combine_p_values(np.array([0.001, 0.002, 0.003])) == pytest.approx(0.003)
    assert combine_p_values(np.array([0.001, 0.001, 0.9])) == pytest.approx(0.9)
    assert combine_p_values(np.array([0.001] * 9 + [0.9])) == pytest.approx(0.001 * 10 / 9)
    assert combine_p_values(np.array([0.001] * 8 + [0.9] * 2)) == 1
    assert combine_p_values(np.array([0.001] * 14 + [0.9])) == pytest.approx(0.001 * 15 / 14)


@given(st.integers(0, 10_000), st.integers(2, 4))
def test_alignment_undoes_any_order_and_any_permutation(seed: int, kernel_size: int) -> None:
    _check_alignment(seed, kernel_size)


def test_large_templates_are_aligned_by_their_eigenvectors() -> None:
    _check_alignment(seed=0, kernel_size=7, symmetric=True)


def _check_alignment(seed: int, kernel_size: int, *, symmetric: bool = False) -> None:
    rng = np.random.default_rng(seed)
    reference = rng.normal(size=(3, kernel_size, kernel_size)).astype(np.float32)
    if symmetric:
        reference += reference.swapaxes(1, 2)
    order = rng.permutation(3)
    turned = [matrix[np.ix_(p, p)] for matrix in reference[order] for p in [rng.permutation(kernel_size)]]
    indices, permutations = align_templates(reference, np.stack(turned))
    for index, p, target in zip(indices, permutations, reference, strict=True):
        assert np.array_equal(turned[index][np.ix_(p, p)], target)


def test_turned_copies_have_one_shape_and_random_templates_have_none() -> None:
    rng = np.random.default_rng(0)
    template = rng.normal(size=(4, 4)).astype(np.float32)
    turned = np.stack([template[np.ix_(p, p)] for p in list(permutations(range(4)))[3:20:4]])[:, None]
    [same] = agreement_of_shapes(turned, seed=0)
    assert same.value == pytest.approx(1, abs=1e-5)
    assert same.p_value <= LEVEL
    smallest = [
        min(found.p_value for found in agreement_of_shapes(rng.normal(size=(4, 2, 4, 4)).astype(np.float32), seed=seed))
        for seed in range(12)
    ]
    assert np.mean(np.array(smallest) <= LEVEL) <= 0.1, "over both templates together"
    assert 0.3 < np.mean(smallest) < 0.7


def test_peaks_at_one_place_agree_and_peaks_at_random_places_do_not() -> None:
    rng = np.random.default_rng(0)
    bump = np.exp(-(np.arange(-10, 10) ** 2) / 4)
    together = np.stack([bump + 0.1 * rng.normal(size=20) for _ in range(4)])
    assert agreement_of_regions(together, seed=0).p_value <= 0.01
    assert agreement_of_regions(together, seed=0).value > 0.9
    scattered = [
        agreement_of_regions(np.stack([np.roll(row, rng.integers(20)) for row in together]), seed=seed).p_value
        for seed in range(60)
    ]
    assert np.mean(np.array(scattered) <= LEVEL) <= 0.15


def test_maps_without_any_peak_do_not_agree() -> None:
    flat = agreement_of_regions(np.ones((3, 8)), seed=0)
    assert (flat.value, flat.p_value) == (0, 1)
