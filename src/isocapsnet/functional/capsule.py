"""Capsules: Sections 4.2 to 4.5 of the paper, based on Sabour, Frosst & Hinton (2017).

A primary capsule that represents a permutation has only two distinct values: one at the k entries that the permutation
selects, and the padding γ at the other k² - k. :class:`PermutationCapsules` stores it in this form, and
:class:`ProjectedCapsules` its image under a linear map.

Routing is :func:`dynamic_routing`. Its logits are β = û·(c⁽¹⁾ + … + c⁽ʳ⁾), so the state between iterations is one
vector per class, the *context*, and an iteration is one call of ``attend(context)``. The functions that compute it are
in :mod:`~isocapsnet.functional.routing`.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding_bag, one_hot

from isocapsnet._validation import check_number
from isocapsnet.functional.permutations import permutation_matrices, selected_entries

# Margins of Eq. 10 for the class of the graph and for the other classes, and the weight of the other classes.
UPPER_MARGIN, LOWER_MARGIN, ABSENT_WEIGHT = 0.9, 0.1, 0.5


class PermutationCapsules(NamedTuple):
    """Primary capsules in compact form.

    Attributes
    ----------
    value : Tensor (n_graphs, n_templates, n, n)
        The entry at each of the k positions selected by the permutation.
    permutation : Tensor (n_graphs, n_templates, n, n), int64
        Its row in ``permutation_table(kernel_size)``.
    padding : float
        γ, the entry at all other positions.
    kernel_size : int
    """

    value: Tensor
    permutation: Tensor
    padding: float
    kernel_size: int

    def expand(self) -> Tensor:
        """The capsules with all their entries: ``(n_graphs, n_templates, n, n, k²)``."""
        selected = permutation_matrices(self.permutation, self.kernel_size).flatten(-2)
        return torch.where(selected, self.value[..., None], self.padding)


class ProjectedCapsules(NamedTuple):
    """Primary capsules g(vec P)/‖g(vec P)‖ · F with a linear map g, in compact form.

    Attributes
    ----------
    value : Tensor (n_graphs, n_templates, n, n)
        F.
    permutation : Tensor (n_graphs, n_templates, n, n), int64
        Its row in ``permutation_table(kernel_size)``.
    table : Tensor (k², primary_size)
        The transposed matrix of g: the image of a permutation is the sum of the rows that it selects.
    """

    value: Tensor
    permutation: Tensor
    table: Tensor

    @property
    def kernel_size(self) -> int:
        """k."""
        return math.isqrt(len(self.table))

    def expand(self) -> Tensor:
        """The capsules with all their entries: ``(n_graphs, n_templates, n, n, primary_size)``."""
        entries = selected_entries(self.permutation, self.kernel_size)
        images = embedding_bag(entries.flatten(0, -2), self.table, mode="sum").view(
            *self.value.shape, self.table.shape[1]
        )
        return dense_primary_capsules(self.value, images, None)


@lru_cache(maxsize=16)
def block_table(kernel_size: int) -> Tensor:
    """A linear map for :class:`ProjectedCapsules`: sums of the entries of P in each of 4 x 4 blocks, ``(k², 16)``.

    Of a large permutation, they say roughly where in the window the nodes of the template are. With fewer than four
    nodes, there are as many blocks as entries.
    """
    n_blocks = min(4, kernel_size)
    with torch.inference_mode(False):  # also used in training, whoever asks first
        block = torch.arange(kernel_size, device="cpu") * n_blocks // kernel_size
        return one_hot((n_blocks * block[:, None] + block).flatten(), n_blocks**2).float()


def safe_norm(x: Tensor, dim: int = -1, keepdim: bool = False) -> Tensor:
    """Euclidean length of ``x`` over ``dim``, whose gradient at zero is zero and not NaN; ``keepdim`` as in torch."""
    squared = x.square().sum(dim=dim, keepdim=keepdim)
    zero = squared == 0  # not `> 0`: NaN must remain NaN, or divergence would be hidden
    return torch.where(zero, 0.0, torch.where(zero, 1.0, squared).sqrt())


def squash(x: Tensor, dim: int = -1) -> Tensor:
    """‖x‖²/(1 + ‖x‖²) · x/‖x‖ (Eq. 6) over ``dim``: keeps the direction and makes the length less than 1."""
    length = safe_norm(x, dim=dim, keepdim=True)
    return x * (length / (1 + length.square()))


def leaky_softmax(logits: Tensor, dim: int) -> Tensor:
    """Softmax of ``logits`` over ``dim`` with one more, 0, which takes the weight of capsules that fit no class."""
    top = logits.amax(dim=dim, keepdim=True).clamp_min(0).detach()
    exponential = (logits - top).exp()
    return exponential / (exponential.sum(dim=dim, keepdim=True) + (-top).exp())


# -- primary capsules -----------------------------------------------------------------------------------------


def primary_capsules(scores: Tensor, permutation: Tensor, kernel_size: int, gamma: float) -> PermutationCapsules:
    """vec(P)/‖vec(P)‖ · F (Eq. 4, g the identity), zeros padded with γ; ‖vec P‖ = √k.

    Parameters
    ----------
    scores : Tensor (n_graphs, n_templates, n, n)
        F of Eq. 1. It may be negative; the sign is kept.
    permutation : Tensor (n_graphs, n_templates, n, n), int64
    kernel_size : int
    gamma : float
    """
    return PermutationCapsules(scores / kernel_size**0.5, permutation, gamma, kernel_size)


def dense_primary_capsules(scores: Tensor, poses: Tensor, gamma: float | None) -> Tensor:
    """g(p)/‖g(p)‖ · F (Eq. 4) for any pose vectors.

    Parameters
    ----------
    scores : Tensor (n_graphs, n_templates, n, n)
    poses : Tensor (n_graphs, n_templates, n, n, primary_size)
        vec(P) of a spectral match, or its image under a linear map g.
    gamma : float or None
        Entries that are exactly zero in the pose become γ. With ``None`` they remain zero, as for a linear g, whose
        image has no structural zeros.

    Returns
    -------
    Tensor (n_graphs, n_templates, n, n, primary_size)
    """
    lengths = safe_norm(poses, keepdim=True)
    capsules = poses / torch.where(lengths == 0, 1.0, lengths) * scores[..., None]
    return capsules if gamma is None else torch.where(poses == 0, gamma, capsules)


# -- routing ----------------------------------------------------------------------------------------


def dynamic_routing(attend: Callable[[Tensor], Tensor], context: Tensor, iterations: int, scale: float) -> Tensor:
    """Routing by agreement (Eq. 6 and 7).

    Parameters
    ----------
    attend : callable
        From the context ``(n_graphs, n_classes, capsule_size)`` to Σ α û of the same shape, where
        α = normalise(û·context).
    context : Tensor (n_graphs, n_classes, capsule_size)
        Zeros: β starts at 0.
    iterations : int
        At least 1.
    scale : float
        Factor of the sum before squash. With 1/√(number of windows), thousands of votes do not saturate it.

    Returns
    -------
    Tensor (n_graphs, n_classes, capsule_size)
        The class capsules c_j. Gradients flow through all iterations.
    """
    check_number("iterations", iterations, low=1, integer=True)
    capsules = squash(scale * attend(context))
    for _ in range(iterations - 1):
        context = context + capsules  # β_j += c_jᵀ û, held as the sum of the c_j
        capsules = squash(scale * attend(context))
    return capsules


def trace_routing(
    attend: Callable[[Tensor, int], Tensor], context: Tensor, iterations: int, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """:func:`dynamic_routing` with what :func:`reverse_routing` needs.

    ``attend(context, iteration)`` as there. Returns the capsules, and the contexts and Σ α û of all iterations
    ``(iterations, n_graphs, n_classes, capsule_size)``.
    """
    contexts: list[Tensor] = []
    sums: list[Tensor] = []

    def attend_next(context: Tensor) -> Tensor:
        sums.append(attend(context, len(sums)))
        contexts.append(context)
        return sums[-1]

    capsules = dynamic_routing(attend_next, context, iterations, scale)
    return capsules, torch.stack(contexts), torch.stack(sums)


def reverse_routing(
    attend_back: Callable[[Tensor, int], Tensor], sums: Tensor, grad_capsules: Tensor, scale: float
) -> Tensor:
    """The gradients for the ``sums`` of :func:`trace_routing`, in their shape, from that for the capsules.

    ``attend_back(grad, iteration)`` is the gradient for the context of an iteration, from that for its sum.
    """
    grads, grad_context = torch.empty_like(sums), torch.zeros_like(grad_capsules)
    for r in reversed(range(len(sums))):
        # The last capsules are the result; the others are part of every later context.
        grad = grad_capsules if r == len(sums) - 1 else grad_context
        with torch.enable_grad():
            total = sums[r].detach().requires_grad_()
            agreement = (squash(scale * total) * grad).sum()  # torch imports sympy to differentiate a tensor
        (grads[r],) = torch.autograd.grad(agreement, total)
        if r > 0:
            grad_context += attend_back(grads[r], r)
    return grads


# -- reconstruction -------------------------------------------------------------------------------------------


def symmetric_matrices(entries: Tensor, n_nodes: int) -> Tensor:
    """Matrices ``(n_graphs, n_nodes, n_nodes)`` from the rows of their upper triangles, with the diagonal.

    Parameters
    ----------
    entries : Tensor (n_graphs, n_nodes (n_nodes + 1) / 2)
    n_nodes : int
    """
    return _SymmetricMatrices.apply(entries, n_nodes)


class _SymmetricMatrices(torch.autograd.Function):
    """Reads both ways: torch's own gradient of an indexed tensor adds to it, in no fixed order on a GPU."""

    @staticmethod
    def forward(ctx: Any, entries: Tensor, n_nodes: int) -> Tensor:
        ctx.n_nodes = n_nodes
        entry, _, _ = _triangle(n_nodes, entries.device)
        return entries.index_select(1, entry).view(-1, n_nodes, n_nodes)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        _, upper, lower = _triangle(ctx.n_nodes, grad.device)
        grad = grad.flatten(1)
        mirrored = grad.index_select(1, lower)
        mirrored[:, upper == lower] = 0
        return mirrored.add_(grad.index_select(1, upper)), None


@lru_cache(maxsize=8)
def _triangle(n_nodes: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """The entry of the triangle for each of the matrix, and the two entries of the matrix for each of the triangle."""
    row, column = torch.triu_indices(n_nodes, n_nodes)
    entry = torch.empty(n_nodes, n_nodes, dtype=torch.int64)
    entry[row, column] = entry[column, row] = torch.arange(len(row))
    tensors = entry.flatten(), row * n_nodes + column, column * n_nodes + row
    return tensors[0].to(device), tensors[1].to(device), tensors[2].to(device)


# -- losses ---------------------------------------------------------------------------------------------------


def margin_loss(lengths: Tensor, targets: Tensor, class_weight: Tensor | None = None) -> Tensor:
    """Margin loss of each graph (Eq. 10): Σ_j t_j max(0, 0.9-‖v_j‖)² + 0.5 (1-t_j) max(0, ‖v_j‖-0.1)².

    Parameters
    ----------
    lengths : Tensor (n_graphs, n_classes)
    targets : Tensor (n_graphs,), int64
        Class indices; -1 for unlabelled graphs, whose loss is 0.
    class_weight : Tensor (n_classes,), optional
        Weights of the graphs of each class.

    Returns
    -------
    Tensor (n_graphs,)
    """
    labelled = targets >= 0
    present = one_hot(targets.clamp_min(0), lengths.shape[1]).to(lengths.dtype)
    too_short = (UPPER_MARGIN - lengths).clamp_min(0).square()
    too_long = (lengths - LOWER_MARGIN).clamp_min(0).square()
    loss = (present * too_short + ABSENT_WEIGHT * (1 - present) * too_long).sum(dim=1)
    if class_weight is not None:
        loss = loss * class_weight[targets.clamp_min(0)]
    return torch.where(labelled, loss, 0.0)


def reconstruction_loss(graphs: Tensor, reconstruction: Tensor, squared: bool = False) -> Tensor:
    """‖A - Â‖_F of each graph (Eq. 12) ``(n_graphs,)``, A in ``graphs`` and Â in ``reconstruction``.

    ``squared=True`` returns its square, as in the published program.
    """
    difference = (graphs - reconstruction).flatten(1)
    return difference.square().sum(dim=1) if squared else safe_norm(difference)
