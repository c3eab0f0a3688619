"""Votes of primary capsules for class capsules, and routing, in the fastest form for each kind of capsules.

A vote Wᵀm of a :class:`~isocapsnet.functional.capsule.PermutationCapsules` is a sum of k rows of W instead of a product
over k² entries. Fused kernels compute votes when they are needed and never store them. The kernel of a GPU includes the
loop of :func:`~isocapsnet.functional.capsule.dynamic_routing`.
"""

import math
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding_bag

from isocapsnet._validation import InputError
from isocapsnet.functional.capsule import PermutationCapsules, ProjectedCapsules, dynamic_routing, leaky_softmax
from isocapsnet.functional.dense_routing import DenseRouting, ProjectedRouting
from isocapsnet.functional.kernels import import_kernel, note_use, pick_fused, pick_routing, run_fused, taking_gradients
from isocapsnet.functional.kernels.fallback import plain_gradients
from isocapsnet.functional.permutations import permutation_table, selected_entries

# Up to this size, sums of weights are read from a table of k! permutations.
_LOOKUP_SIZE = 7


#: Primary capsules in any form.
Capsules = PermutationCapsules | ProjectedCapsules | Tensor


def route(
    capsules: Capsules,
    weight: Tensor,
    iterations: int,
    scale: float,
    over: str = "classes",
) -> Tensor:
    """Dynamic routing from primary to class capsules, in the fastest form for these capsules.

    Parameters
    ----------
    capsules : PermutationCapsules, ProjectedCapsules or Tensor (n_graphs, n_templates, n, n, primary_size)
    weight : Tensor (n_classes, n_templates, n_windows, primary_size, capsule_size)
        ``n_windows`` is n², or 1 when the weights are shared over positions.
    iterations, scale
        As in :func:`dynamic_routing`.
    over : {"classes", "classes without leak", "windows"}
        As in :func:`attend_to_votes`.

    Returns
    -------
    Tensor (n_graphs, n_classes, capsule_size)
    """
    _check_shapes(capsules, weight)
    note_use(weight)
    plain = partial(_route_plainly, iterations=iterations, scale=scale, over=over)
    if isinstance(capsules, PermutationCapsules) and weight.shape[2] > 1 and over == "classes":
        kernel = pick_routing(weight)
        if kernel is not None:
            arguments = *capsules, weight, iterations, scale, kernel, torch.is_grad_enabled()
            fused = partial(_FusedRouting.apply, *arguments)
            return run_fused(weight.device, fused, partial(plain, capsules, weight))
    if not isinstance(capsules, PermutationCapsules) and weight.shape[2] > 1 and over != "windows":
        kernel = pick_fused("cpu_dense_routing", weight)
        if kernel is not None and kernel.fits(weight):
            settings = weight, iterations, scale, over == "classes", kernel
            if isinstance(capsules, Tensor):
                fused = partial(DenseRouting.apply, capsules, *settings, plain)
            else:
                plain_parts = partial(_route_parts, plain, capsules.permutation)
                fused = partial(
                    ProjectedRouting.apply, *capsules, *settings, import_kernel("cpu_projection"), plain_parts
                )
            return run_fused(weight.device, fused, partial(plain, capsules, weight))
    return plain(capsules, weight)


def bytes_of_couplings(weight: Tensor, iterations: int, n_graphs: int, over: str = "classes") -> int:
    """Bytes that :func:`route` needs for couplings and their gradients, which it does not keep if they are large."""
    fused = weight.shape[2] > 1 and over == "classes" and weight.device.type == "cpu"
    kernel = pick_routing(weight) if fused else None
    return 0 if kernel is None else kernel.bytes_of_couplings(weight, iterations, n_graphs)


def _route_parts(
    plain: Callable[[Capsules, Tensor], Tensor], permutation: Tensor, value: Tensor, table: Tensor, weight: Tensor
) -> Tensor:
    """Plain routing of projected capsules, as a function of what has a gradient."""
    return plain(ProjectedCapsules(value, permutation, table), weight)


def _check_shapes(capsules: Capsules, weight: Tensor) -> None:
    """Raise InputError if the weights are of other capsules: kernels would read past the end of the smaller tensor."""
    if isinstance(capsules, Tensor):
        _, n_templates, *windows, size = capsules.shape
    else:
        (_, n_templates, *windows), k = capsules.value.shape, capsules.kernel_size
        size = k**2
        if isinstance(capsules, ProjectedCapsules):
            size = capsules.table.shape[1]
            if capsules.table.dim() != 2 or k**2 != len(capsules.table):
                raise InputError(f"table has the shape {tuple(capsules.table.shape)}, not (k², primary_size).")
        if capsules.permutation.shape != capsules.value.shape:
            raise InputError(
                f"permutation has the shape {tuple(capsules.permutation.shape)}, value {tuple(capsules.value.shape)}."
            )
    n_windows = math.prod(windows)
    if weight.dim() != 5 or weight.shape[2] not in (1, n_windows) or weight.shape[1::2] != (n_templates, size):
        raise InputError(
            f"weight has the shape {tuple(weight.shape)}, but the capsules need "
            f"(n_classes, {n_templates}, {n_windows} or 1, {size}, capsule_size)."
        )


def _route_plainly(capsules: Capsules, weight: Tensor, iterations: int, scale: float, over: str) -> Tensor:
    """:func:`route` in plain torch."""
    if isinstance(capsules, ProjectedCapsules):
        capsules = capsules.expand()
    if isinstance(capsules, Tensor):
        attend = partial(attend_to_votes, dense_votes(capsules, weight), over=over)
    elif weight.shape[2] == 1 and over == "classes":
        attend = partial(attend_to_shared, capsules, weight)
    elif weight.is_cuda:
        # The gradient of gathered rows needs atomic additions, which are slow and in no fixed order on a GPU.
        attend = partial(attend_to_votes, dense_votes(capsules.expand(), weight), over=over)
    else:
        attend = partial(attend_to_votes, permutation_votes(capsules, weight), over=over)
    n_graphs = len(capsules) if isinstance(capsules, Tensor) else len(capsules.value)
    context = weight.new_zeros(n_graphs, weight.shape[0], weight.shape[-1])
    return dynamic_routing(attend, context, iterations, scale)


class _FusedRouting(torch.autograd.Function):
    """All iterations of routing with weights per window. Votes are recomputed when they are needed, not stored."""

    @staticmethod
    def forward(
        ctx: Any,
        value: Tensor,
        permutation: Tensor,
        padding: float,
        kernel_size: int,
        weight: Tensor,
        iterations: int,
        scale: float,
        kernel: ModuleType,
        keep: bool,
    ) -> Tensor:
        windows = kernel.Windows.of(value, permutation, padding, kernel_size, weight)
        # The estimate of a fit's memory counts what is saved; for couplings it asks bytes_of_couplings instead.
        capsules, contexts, sums, *ctx.couplings = kernel.iterate(windows, iterations, scale, keep)
        *tensors, _, _ = windows
        ctx.save_for_backward(contexts, sums, *tensors)
        ctx.arguments = padding, kernel_size, iterations, scale, kernel, value.shape, weight.shape
        return capsules

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_capsules: Tensor) -> tuple[Tensor | None, ...]:
        contexts, sums, *tensors = ctx.saved_tensors
        padding, kernel_size, iterations, scale, kernel, shape, weight_shape = ctx.arguments
        windows = kernel.Windows(*tensors, padding, kernel_size)

        def plain() -> tuple[Tensor, ...]:
            value, permutation, weight = windows.capsules()

            def route_plainly(value: Tensor, weight: Tensor) -> Tensor:
                capsules = PermutationCapsules(value, permutation.view(shape), padding, kernel_size)
                return _route_plainly(capsules, weight, iterations, scale, "classes")

            return plain_gradients(route_plainly, (value.view(shape), weight.view(weight_shape)), grad_capsules)

        fused = partial(kernel.backward, windows, contexts, sums, *ctx.couplings, grad_capsules, scale)
        with nullcontext() if ctx.needs_input_grad[4] else taking_gradients({}):
            grad_value, grad_weight = run_fused(grad_capsules.device, fused, plain)
        grad_weight = None if grad_weight is None else grad_weight.view(weight_shape)  # it was taken
        return grad_value.view(shape), None, None, None, grad_weight, *(None,) * 4


_COUPLINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "classes": partial(leaky_softmax, dim=1),
    "classes without leak": partial(torch.softmax, dim=1),
    "windows": partial(torch.softmax, dim=2),
}


def attend_to_votes(votes: Tensor, context: Tensor, over: str = "classes") -> Tensor:
    """Σ α û for votes ``(n_graphs, n_classes, n_capsules, capsule_size)`` in memory.

    ``context`` ``(n_graphs, n_classes, capsule_size)`` is the sum of the class capsules so far.
    ``over="classes"`` is the leaky softmax of the paper, ``over="classes without leak"`` the softmax of Sabour et al.,
    ``over="windows"`` the softmax of the published program.
    """
    logits = torch.einsum("bymd,byd->bym", votes, context)
    coupling = _COUPLINGS[over](logits)
    return torch.einsum("bym,bymd->byd", coupling, votes)


def dense_votes(capsules: Tensor, weight: Tensor) -> Tensor:
    """û = W_jᵀ m, computed directly.

    Parameters
    ----------
    capsules : Tensor (n_graphs, n_templates, n, n, primary_size)
    weight : Tensor (n_classes, n_templates, n_windows, primary_size, capsule_size)
        ``n_windows`` is n², or 1 when the weights are shared over positions.

    Returns
    -------
    Tensor (n_graphs, n_classes, n_templates * n², capsule_size)
    """
    windows = capsules.flatten(2, 3)
    if weight.shape[2] == 1:
        votes = torch.einsum("bcnp,ycpd->bycnd", windows, weight[:, :, 0])
    else:
        votes = torch.einsum("bcnp,ycnpd->bycnd", windows, weight)
    return votes.flatten(2, 3)


def permutation_votes(capsules: PermutationCapsules, weight: Tensor) -> Tensor:
    """û = (value - γ)·Σ selected rows of W + γ·Σ all rows of W, for weights per window.

    Parameters
    ----------
    capsules : PermutationCapsules
    weight : Tensor (n_classes, n_templates, n_windows, k², capsule_size)

    Returns
    -------
    Tensor (n_graphs, n_classes, n_templates * n_windows, capsule_size)
    """
    k = capsules.kernel_size
    weight = weight.flatten(1, 2)  # (Y, M, k², d)
    entries = selected_entries(capsules.permutation.flatten(1), k)
    rows = torch.arange(weight.shape[1], device=weight.device)[:, None] * k * k + entries  # (B, M, k)
    selected = torch.stack(
        [embedding_bag(rows.flatten(0, 1), w.flatten(0, 1), mode="sum").view(*rows.shape[:2], -1) for w in weight],
        dim=1,
    )
    excess = (capsules.value - capsules.padding).flatten(1)[:, None, :, None]
    return excess * selected + capsules.padding * weight.sum(dim=2)


def attend_to_shared(capsules: PermutationCapsules, weight: Tensor, context: Tensor) -> Tensor:
    """Σ α û with weights shared over positions, without a tensor of windows × capsule_size.

    The logit of a window is its value times a sum over the entries that its permutation selects. The sums are read from
    a table of k! permutations or, for large k, computed from the k² entries. The vectors are summed in the same way.

    Parameters
    ----------
    capsules : PermutationCapsules
    weight : Tensor (n_classes, n_templates, 1, k², capsule_size)
    context : Tensor (n_graphs, n_classes, capsule_size)
    """
    weight = weight[:, :, 0]
    n_classes, k = len(weight), capsules.kernel_size
    excess = (capsules.value - capsules.padding).flatten(2)[:, None]  # (B, 1, c, N)
    total = weight.sum(dim=2)  # (Y, c, d)
    if k <= _LOOKUP_SIZE:
        every = torch.arange(len(permutation_table(k)), device=weight.device)
        table = weight[:, :, selected_entries(every, k)].sum(dim=3)  # (Y, c, k!, d)
        index = capsules.permutation.flatten(2)[..., None]  # (B, c, N, 1)
    else:
        table, index = weight, selected_entries(capsules.permutation.flatten(2), k)  # (Y, c, k², d), (B, c, N, k)
    n_parts = index.shape[-1]
    index = index.flatten(2)[:, None].expand(-1, n_classes, -1, -1)  # (B, Y, c, N · parts)
    lookup = torch.einsum("ycpd,byd->bycp", table, context).gather(3, index).unflatten(3, (-1, n_parts)).sum(dim=4)
    logits = excess * lookup + capsules.padding * torch.einsum("ycd,byd->byc", total, context)[..., None]
    coupling = leaky_softmax(logits, dim=1)
    share = (coupling * excess)[..., None].expand(*coupling.shape, n_parts).flatten(3)
    mass = coupling.new_zeros(*coupling.shape[:3], table.shape[2]).scatter_add(3, index, share)
    return torch.einsum("bycp,ycpd->byd", mass, table) + capsules.padding * torch.einsum(
        "byc,ycd->byd", coupling.sum(dim=3), total
    )
