"""Comparison of the templates of several fits, up to the order of their nodes, by the isomorphic distance."""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from isocapsnet.explanation.cards import Agreement
from isocapsnet.explanation.fits import Templates
from isocapsnet.explanation.stability import judge_agreement, mean_over_pairs
from isocapsnet.functional import isomorphic_match, permutation_at, permutation_number, spectral_permutations

# Sets of shuffled templates for the null distribution.
_DRAWS = 199
# Larger templates have too many permutations to try all of them in every draw.
_EXACT_SIZE = 6


def align_templates(
    reference: NDArray[np.float32], matrices: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pair templates ``(n_templates, k, k)`` with those of the reference so that the total distance is smallest.

    Returns the index of the template for each one of the reference ``(n_templates,)``, and permutations
    ``(n_templates, k)``: ``matrices[order][i][p][:, p]`` with ``p = permutations[i]`` has the reference's node order.
    """
    distances, _, permutations = compare_shapes(reference, matrices)
    rows, order = linear_sum_assignment(distances)
    return order, permutations[rows, order]


def view_as(reference: NDArray[np.float32], templates: Templates) -> Templates:
    """The templates in the order and with the node numbers of the reference ``(n_templates, k, k)``."""
    order, permutations = align_templates(reference, templates.matrices)
    orientation = templates.orientation[:, order].astype(np.int64)
    for index, permutation in enumerate(permutations):
        numbers = orientation[:, index].copy()
        orders = permutation_at(torch.from_numpy(numbers.clip(min=0)), len(permutation))
        renamed = permutation_number(torch.from_numpy(np.argsort(permutation))[orders]).numpy()
        orientation[:, index] = np.where(numbers < 0, -1, renamed)
    windows = ("window_separation", "window_effect", "window_influence")
    classes = ("class_scores", "orientation_share")
    return replace(
        templates,
        matrices=np.stack([templates.matrices[i][np.ix_(p, p)] for i, p in zip(order, permutations, strict=True)]),
        template_evidence=templates.template_evidence[:, :, order],
        region_evidence=templates.region_evidence[:, :, order],
        orientation=orientation,
        **{name: getattr(templates, name)[order] for name in windows},
        **{name: getattr(templates, name)[:, order] for name in classes},
    )


def agreement_of_shapes(
    fits: NDArray[np.float32], seed: int, reference: NDArray[np.float32] | None = None
) -> list[Agreement]:
    """How similar each template is in different fits ``(n_fits, n_templates, k, k)``, up to the order of its nodes.

    The mean cosine between aligned templates over pairs of fits. The null distribution is the largest of these means
    over the templates after their entries were shuffled; the assignment to the reference (the first fit by default) is
    repeated.
    """
    rng = np.random.default_rng(seed)
    flat = fits.reshape(*fits.shape[:2], -1)
    draws = (rng.permuted(flat, axis=2).reshape(fits.shape) for _ in range(_DRAWS))
    null = np.array([_similarity(draw, reference).max() for draw in draws])
    return [judge_agreement(value, null) for value in _similarity(fits, reference)]


def _similarity(fits: NDArray[np.float32], reference: NDArray[np.float32] | None) -> NDArray[np.float64]:
    """Mean cosine over pairs of fits ``(n_templates,)``, templates assigned to those of the reference."""
    n_fits, n_templates, k, _ = fits.shape
    stacks = fits if reference is None else np.concatenate([reference[None], fits])
    flat = stacks.reshape(-1, k, k)
    distances, cosines, _ = compare_shapes(flat, flat)  # one call for all pairs: the time goes into calls
    starts = np.arange(len(flat) - n_fits * n_templates, len(flat), n_templates)
    blocks = (distances[:n_templates, start : start + n_templates] for start in starts)
    same = starts + np.stack([linear_sum_assignment(block)[1] for block in blocks], axis=1)  # (n_templates, n_fits)
    return mean_over_pairs(cosines[same[:, :, None], same[:, None, :]])


def compare_shapes(
    targets: NDArray[np.float32], matrices: NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Compare matrices K ``(m, k, k)`` with targets T ``(n, k, k)`` in the order of nodes that fits best.

    Returns the distances min over P of ‖P K Pᵀ - T‖ ``(n, m)``, the cosines of T and P K Pᵀ ``(n, m)``, and the winners
    ``(n, m, k)``: ``K[p][:, p]`` has the target's node order. Large templates are matched by their eigenvectors.
    """
    graphs, templates = (
        torch.from_numpy(np.ascontiguousarray(stack, dtype=np.float32)) for stack in (targets, matrices)
    )
    match = (isomorphic_match if targets.shape[-1] <= _EXACT_SIZE else spectral_permutations)(graphs, templates)
    winners = permutation_at(match.permutation[:, :, 0, 0], targets.shape[-1])
    distances = match.distance[:, :, 0, 0].double().numpy()
    first, second = (np.square(stack, dtype=np.float64).sum(axis=(1, 2)) for stack in (targets, matrices))
    lengths = np.sqrt(first[:, None] * second)
    products = (first[:, None] + second - distances**2) / 2
    cosines = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    return distances, cosines, winners.numpy()
