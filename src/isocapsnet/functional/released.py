"""The equations of the authors' published program where it differs from the paper, for reproduction.

They are used by :class:`isocapsnet.nn.ReleasedIsoCapsNet`.

Rounding decides which permutation wins, and the winners decide what is learned. So two programs that are equal in exact
arithmetic learn different weights after two or three steps. The functions for training therefore have the operations of
the program, forward and backward, in its order, in the plainest form that torch has for a batch of graphs. Large
tensors are computed in parts, by which no sum changes.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from isocapsnet._validation import check_number
from isocapsnet.functional.capsule import PermutationCapsules
from isocapsnet.functional.isomorphic import IsomorphicMatch, check_exact_size, check_match_input, match_by
from isocapsnet.functional.kernels.eager import backward, by_graph, permuted_templates, windows_of
from isocapsnet.functional.permutations import permutation_matrices, permutation_table

# Entries of A - PKPᵀ that are computed at a time: 4 MB of float32 fit in the cache.
_CHUNK_VALUES = 1_000_000
# Entries of a gradient that are computed at a time before they are summed.
_SUMMED_VALUES = 16_000_000
# torch sums groups of this many columns alike, so that a sum over rows does not depend on the number of groups.
_COLUMN_GROUP = 64


def released_match(graphs: Tensor, templates: Tensor) -> IsomorphicMatch:
    """The match of :func:`~isocapsnet.functional.isomorphic_match`, with the winners of the published program.

    The first permutation with the smallest ‖A - PKPᵀ‖_F² in float32 wins. As in the program, the norm over the k²
    entries is torch's, and its square is compared. For large counts, rounding decides between permutations whose
    distances are nearly equal.

    Parameters
    ----------
    graphs : Tensor (n_graphs, n_nodes, n_nodes)
    templates : Tensor (n_templates, k, k)

    Returns
    -------
    IsomorphicMatch
    """
    check_match_input(graphs, templates, 1)
    check_exact_size(templates.shape[-1], "the paper's own model with matching='spectral'")
    return match_by(_search, backward, graphs, templates)


def _search(graphs: Tensor, templates: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Distance and winning permutation, both ``(n_graphs, n_templates, n, n)``."""
    n_templates, k, _ = templates.shape
    windows = windows_of(graphs, k, stride)
    flat = windows.reshape(-1, 1, k, k)
    # The program computes (P K) Pᵀ as two products. The result is bitwise equal: each entry is an entry of K.
    candidates = permuted_templates(templates)  # (c, k!, k, k)
    distance = graphs.new_empty(n_templates, len(flat))
    permutation = torch.empty(n_templates, len(flat), dtype=torch.int64, device=graphs.device)
    step = max(1, _CHUNK_VALUES // candidates[0].numel()) if n_templates else 1
    for start in range(0, len(flat), step):
        here = slice(start, start + step)
        for i in range(n_templates):
            # Each norm uses the entries of one difference, so chunks do not change it.
            lengths = torch.linalg.vector_norm(flat[here] - candidates[i], dim=(-2, -1))
            winner = (-lengths.square()).argmax(dim=1)
            permutation[i, here] = winner
            distance[i, here] = lengths.gather(1, winner[:, None])[:, 0]
    return by_graph(distance, windows), by_graph(permutation, windows)


def released_primary_capsules(distance: Tensor, permutation: Tensor, kernel_size: int) -> PermutationCapsules:
    """squash(vec(P)·d²), with zeros replaced by -1.

    ``distance`` d and ``permutation`` are those of :func:`released_match`, k is ``kernel_size``. On the k selected
    entries squash gives d²·‖m‖/(1 + ‖m‖²) with ‖m‖ = d²√k.
    """
    squared = distance.square()
    value = squared * (squared * kernel_size**0.5) / (1 + kernel_size * squared.square())
    return PermutationCapsules(torch.where(value == 0, -1.0, value), permutation, -1.0, kernel_size)


# -- training --------------------------------------------------------------------------------------------------


def released_distances(graphs: Tensor, template: Tensor) -> tuple[Tensor, Tensor]:
    """min over P of ‖A - PKPᵀ‖² of every window, and the winning permutation, both ``(n_graphs, n_windows)``.

    ``graphs`` are ``(n_graphs, n_nodes, n_nodes)``. As in the program, the gradient of the template
    is a sum over windows for each permutation, then over permutations.
    """
    k = template.shape[-1]
    windows = windows_of(graphs, k, 1).flatten(1, 2)  # (B, N, k, k)
    with torch.no_grad():
        winners = released_match(graphs, template[None]).permutation.flatten(1)
    every = permutation_matrices(torch.arange(len(permutation_table(k)), device=graphs.device), k).to(graphs.dtype)
    permuted = torch.matmul(torch.matmul(every, template), every.transpose(1, 2))
    lengths = torch.linalg.vector_norm(windows - _Chosen.apply(permuted, winners), dim=(-2, -1))
    return lengths**2, winners


class _Chosen(torch.autograd.Function):
    """``permuted[winners]``, with the gradient of ``A[:, None] - permuted``: a sum over all windows."""

    @staticmethod
    def forward(ctx: Any, permuted: Tensor, winners: Tensor) -> Tensor:
        ctx.save_for_backward(winners)
        ctx.shape = permuted.shape
        return permuted[winners]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (winners,) = ctx.saved_tensors
        n_entries = grad.shape[-2:].numel()
        winners, rows = winners.flatten(), grad.reshape(-1, n_entries)
        total = rows.new_zeros(ctx.shape[0] * n_entries)
        groups = max(1, _SUMMED_VALUES // (len(rows) * _COLUMN_GROUP))
        for columns in _parts(len(total), groups * _COLUMN_GROUP):
            first, last = columns.start // n_entries, (columns.stop - 1) // n_entries + 1
            here = ((winners >= first) & (winners < last)).nonzero()[:, 0]
            if len(here):
                sparse = rows.new_zeros(len(rows), last - first, n_entries)
                sparse[here, winners[here] - first] = rows[here]
                offset = first * n_entries
                total[columns] = sparse.flatten(1)[:, columns.start - offset : columns.stop - offset].sum(dim=0)
        return total.view(ctx.shape), None


def released_route(squared: Tensor, permutation: Tensor, weight: Tensor, iterations: int) -> Tensor:
    """Class capsules ``(n_graphs, n_classes, capsule_size)`` of the program.

    The capsule of a window is squash(vec(P)·d²) with zeros replaced by -1. Couplings are normalised over windows.

    Parameters
    ----------
    squared, permutation : Tensor (n_graphs, n_windows)
        The output of :func:`released_distances`.
    weight : Tensor (n_classes, n_windows, k², capsule_size)
    iterations : int
        At least 1.
    """
    check_number("iterations", iterations, low=1, integer=True)
    k = round(weight.shape[2] ** 0.5)
    poses = permutation_matrices(permutation, k).flatten(-2).to(squared.dtype)
    primary = _squash(poses * squared[..., None])
    # A window that equals the template is NaN in the program; it gets a capsule of -1 here, as an entry of zero does.
    primary = torch.where((primary == 0) | (squared == 0)[..., None], -1.0, primary)
    votes = _Votes.apply(primary, weight)  # (Y, B, N, 1, d)
    logits = torch.zeros_like(votes)
    for iteration in range(iterations):
        capsules = _squash((logits.softmax(dim=2) * votes).sum(dim=2, keepdim=True))
        if iteration < iterations - 1:
            logits = logits + (votes * capsules).sum(dim=-1, keepdim=True)
    return capsules[:, :, 0, 0].transpose(0, 1)


def _squash(x: Tensor) -> Tensor:
    squared = (x**2).sum(dim=-1, keepdim=True)
    return squared / (1 + squared) * x / torch.sqrt(squared)


class _Votes(torch.autograd.Function):
    """``primary[None, :, :, None] @ weight[:, None]`` without a copy of the weights for each graph."""

    @staticmethod
    def forward(ctx: Any, primary: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(primary, weight)
        n_classes, n_windows, _, size = weight.shape
        weights = weight.flatten(0, 1)  # one product for each class and window
        votes = primary.new_empty(n_classes, len(primary), n_windows, 1, size)
        for i, capsules in enumerate(primary):
            repeated = capsules.repeat(n_classes, 1)[:, None]
            votes[:, i] = torch.bmm(repeated, weights).view(n_classes, n_windows, 1, size)
        return votes

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        primary, weight = ctx.saved_tensors
        grad_primary, grad_weight = torch.empty_like(primary), torch.empty_like(weight)
        weights = weight.flatten(0, 1).transpose(1, 2)
        for i in range(len(primary)):
            products = torch.bmm(grad[:, i].flatten(0, 1), weights)
            grad_primary[i] = products.view(len(weight), *primary.shape[1:]).sum(dim=0)
        # The sum over graphs is torch's, in its order, for some windows at a time.
        groups = max(1, _SUMMED_VALUES // (len(primary) * weight[:, 0].numel() * _COLUMN_GROUP))
        for part in _parts(weight.shape[1], groups * _COLUMN_GROUP):
            grad_weight[:, part] = (primary[None, :, part, :, None] * grad[:, :, part]).sum(dim=1)
        return grad_primary, grad_weight


def _parts(length: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]
