"""Is it the same in every fit, and more than chance?

A template *separates* in a fit when its evidence on the graphs that the fit did not see is higher for the true classes
than with these graphs' labels shuffled. Given the fit, that p-value is exact. Fits of a cross-validation depend on one
another, so their p-values are combined by a rule that is valid under any dependence (Rüger 1978): where the null
hypothesis holds, m/k times the k-th smallest of m p-values is a p-value again; k is the smallest majority.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from isocapsnet.explain.cards import Agreement
from isocapsnet.explain.contrasts import separation, shuffled_separations
from isocapsnet.functional import isomorphic_match, permutation_table

#: Level of every test.
LEVEL = 0.05
#: Shufflings behind every p-value.
N_DRAWS = 999
# Sets of shuffled templates behind the null distribution of their likeness.
_SHAPE_DRAWS = 199


def permutation_p_values(
    evidence: NDArray[np.floating], codes: NDArray[np.int64], n_classes: int, seed: int
) -> NDArray[np.float64]:
    """That evidence separates the classes by chance, one-sided, by shuffling the labels.

    Parameters
    ----------
    evidence : array (n_graphs, n_contrasts, n_templates)
    codes : array (n_graphs,)

    Returns
    -------
    array (n_templates,)
    """
    observed = separation(evidence, codes, n_classes)
    null = shuffled_separations(evidence, codes, n_classes, N_DRAWS, seed)
    # Equal up to rounding counts as equal: a template without evidence must not win by the order of a sum.
    ties = 1e-9 * np.abs(null).max(axis=0)
    return np.asarray((1 + (null >= observed - ties).sum(axis=0)) / (1 + N_DRAWS))


def combine_p_values(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """One p-value from those of m dependent fits ``(m, ...)``: small when the majority is small."""
    m = len(p_values)
    majority = m // 2 + 1
    return np.minimum(1, m / majority * np.sort(p_values, axis=0)[majority - 1])


def holm(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Adjusted for the number of templates ``(n_templates,)`` (Holm 1979)."""
    order = np.argsort(p_values)
    steps = np.arange(len(p_values), 0, -1) * p_values[order]
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(steps))
    return adjusted


def agreement_of_places(maps: NDArray[np.float64], seed: int) -> Agreement:
    """How alike fits are in where a template separates the classes.

    The mean correlation between two fits' separation by region, against the same with each map moved to a random place
    (around the end to the start), which keeps how smooth it is.

    Parameters
    ----------
    maps : array (n_fits, n_nodes)
    """
    n_fits, n_nodes = maps.shape
    shifts = np.random.default_rng(seed).integers(n_nodes, size=(N_DRAWS, n_fits, 1))
    moved = maps[np.arange(n_fits)[:, None], (np.arange(n_nodes) + shifts) % n_nodes]
    return _judge(_mean_correlation(maps), _mean_correlation(moved))


def _mean_correlation(maps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean correlation over pairs of fits, ``(..., n_fits, n_nodes)`` to ``(...)``; 0 with a map that is constant."""
    centred = maps - maps.mean(axis=-1, keepdims=True)
    length = np.linalg.norm(centred, axis=-1, keepdims=True)
    unit = np.divide(centred, length, out=np.zeros_like(centred), where=length > 0)
    return _mean_over_pairs(unit @ unit.swapaxes(-1, -2))


def _mean_over_pairs(similarity: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean off-diagonal entry ``(..., n_fits, n_fits)`` to ``(...)``."""
    n_fits = similarity.shape[-1]
    return np.asarray(similarity[..., ~np.eye(n_fits, dtype=bool)].mean(axis=-1))


def _judge(observed: NDArray[np.float64], null: NDArray[np.float64]) -> Agreement:
    p_value = (1 + (null >= observed - 1e-9).sum()) / (1 + len(null))  # equal up to rounding is equal
    return Agreement(float(observed), float(np.quantile(null, 1 - LEVEL)), float(p_value))


# -- templates up to permutation ------------------------------------------------------------------------------


class Alignment(NamedTuple):
    """Templates of one fit, seen as those of another.

    Attributes
    ----------
    order : array (n_templates,)
        Which template takes each place.
    permutations : array (n_templates, k)
        ``matrices[order][i][p][:, p]`` with ``p = permutations[i]`` is template i in the reference's node order.
    """

    order: NDArray[np.int64]
    permutations: NDArray[np.int64]


def align_templates(reference: NDArray[np.float32], matrices: NDArray[np.float32]) -> Alignment:
    """Pair templates ``(n_templates, k, k)`` with the reference's, at the least total isomorphic distance."""
    distance, permutation = _isomorphic_distances(reference, matrices)
    places, order = linear_sum_assignment(distance)
    table = permutation_table(reference.shape[-1]).numpy()
    return Alignment(order, table[permutation[places, order]])


def agreement_of_shapes(
    fits: NDArray[np.float32], seed: int, reference: NDArray[np.float32] | None = None
) -> list[Agreement]:
    """How alike fits are in each template, up to the order of its nodes.

    The mean over pairs of fits of the cosine between best-aligned templates, against the same with the entries of every
    template shuffled, the assignment to the reference included.

    Parameters
    ----------
    fits : array (n_fits, n_templates, k, k)
        As learned.
    reference : array (n_templates, k, k), optional
        Templates that give the places; the first fit's by default.

    Returns
    -------
    list of Agreement (n_templates)
    """
    rng = np.random.default_rng(seed)
    flat = fits.reshape(*fits.shape[:2], -1)
    draws = (rng.permuted(flat, axis=2).reshape(fits.shape) for _ in range(_SHAPE_DRAWS))
    null = np.stack([_shape_similarity(draw, reference) for draw in draws], axis=1)
    return [_judge(*pair) for pair in zip(_shape_similarity(fits, reference), null, strict=True)]


def _shape_similarity(fits: NDArray[np.float32], reference: NDArray[np.float32] | None) -> NDArray[np.float64]:
    """Mean cosine over pairs of fits ``(n_templates,)``, templates assigned to those of the reference."""
    target = fits[0] if reference is None else reference
    orders = np.stack([align_templates(target, matrices).order for matrices in fits])
    similarity = []
    for order in orders.T:
        same = fits[np.arange(len(fits)), order]
        squares = (same.astype(np.float64) ** 2).sum(axis=(1, 2))
        distance, _ = _isomorphic_distances(same, same)
        product = (squares[:, None] + squares - distance**2) / 2
        lengths = np.sqrt(squares[:, None] * squares)
        similarity.append(np.divide(product, lengths, out=np.zeros_like(product), where=lengths > 0))
    return _mean_over_pairs(np.stack(similarity))


def _isomorphic_distances(
    targets: NDArray[np.float32], matrices: NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """min over P of ‖P K Pᵀ - T‖ and the winner ``(n, m)``, for targets T ``(n, k, k)``, matrices K ``(m, k, k)``."""
    match = isomorphic_match(
        torch.from_numpy(np.ascontiguousarray(targets, dtype=np.float32)),
        torch.from_numpy(np.ascontiguousarray(matrices, dtype=np.float32)),
    )
    return match.distance[:, :, 0, 0].double().numpy(), match.permutation[:, :, 0, 0].numpy()
