"""Routing with a weight matrix per window on a GPU, fused, in Triton: votes are made where they are used, never stored.

As on the CPU, the vote of a window is û = (value - γ) · Σ selected rows of W + γ · Σ all rows of W. A program passes
window by window over a block of graphs, which find each other's rows of W in the nearest cache.
"""

# Triton compiles a subset of Python without types.
# mypy: disallow-untyped-defs=False

from functools import lru_cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from isocapsnet.functional.kernels.eager import permutation_table

# The columns of a permutation are packed into an int32: k half bytes.
_MAX_KERNEL_SIZE = 8
# Entries of the class capsules of one graph, and of a block of graphs; more would not stay in registers.
_MAX_ENTRIES = 256
_BLOCK_ENTRIES = 1024
# A matrix product takes no fewer graphs.
_MIN_PRODUCT = 16
# Programs that share the windows. Their sums are added up in order: the same result on every run.
_PROGRAMS = 1024


class Windows(NamedTuple):
    """Primary capsules and weights as the kernels read them; windows of all templates in a row.

    Attributes
    ----------
    value : Tensor (n_graphs, n_windows)
    permutation : Tensor (n_graphs, n_windows), int64
    weight : Tensor (n_classes, n_windows, k², capsule_size)
    base : Tensor (n_classes, n_windows, capsule_size)
        γ times the sum of all rows of W.
    padding : float
    kernel_size : int
    """

    value: Tensor
    permutation: Tensor
    weight: Tensor
    base: Tensor
    padding: float
    kernel_size: int

    @classmethod
    def of(cls, value: Tensor, permutation: Tensor, padding: float, kernel_size: int, weight: Tensor) -> "Windows":
        """From capsules ``(n_graphs, n_templates, n, n)`` and weights ``(n_classes, n_templates, n², k², size)``."""
        weight = weight.detach().flatten(1, 2).contiguous()
        base = padding * weight.sum(dim=2)
        value, permutation = value.detach().flatten(1).contiguous(), permutation.flatten(1).contiguous()
        return cls(value, permutation, weight, base, padding, kernel_size)

    def arguments(self) -> tuple[Any, ...]:
        """What every kernel begins with."""
        columns = _packed_columns(self.kernel_size, self.value.device)
        return (self.value, self.permutation, columns, self.weight, self.base, *self.value.shape)

    def constants(self, min_graphs: int = 1) -> dict[str, Any]:
        """What every kernel is compiled for; the lengths of a block are powers of 2."""
        n_classes, _, _, size = self.weight.shape
        classes, entries = triton.next_power_of_2(n_classes), triton.next_power_of_2(size)
        graphs = min(triton.next_power_of_2(len(self.value)), _BLOCK_ENTRIES // (classes * entries))
        return {
            "K": self.kernel_size, "PADDING": self.padding, "N_CLASSES": n_classes, "SIZE": size,
            "GRAPHS": max(min_graphs, graphs), "CLASSES": classes, "ENTRIES": entries,
        }  # fmt: skip


@lru_cache(maxsize=32)
def _packed_columns(kernel_size: int, device: torch.device) -> Tensor:
    """The column that each permutation selects in row a, in the a-th half byte: int32 ``(k!,)``."""
    return (permutation_table(kernel_size) << (4 * torch.arange(kernel_size))).sum(dim=1).to(device, torch.int32)


def fits(weight: Tensor) -> bool:
    """Whether the kernels take these weights ``(n_classes, ..., k², capsule_size)``."""
    entries = triton.next_power_of_2(weight.shape[0]) * triton.next_power_of_2(weight.shape[-1])
    small = entries <= _MAX_ENTRIES and weight.shape[-2] <= _MAX_KERNEL_SIZE**2
    return small and weight.dtype in (torch.float32, torch.float64)


def attend(windows: Windows, context: Tensor | None, grad: Tensor | None = None) -> Tensor:
    """Σ α û over windows, with α the leaky softmax of û·context over classes; or the gradient for the context.

    Parameters
    ----------
    windows : Windows
    context : Tensor (n_graphs, n_classes, capsule_size), optional
        Without one, all logits are zero.
    grad : Tensor (n_graphs, n_classes, capsule_size), optional
        Gradient of a loss for Σ α û. With it, the result is the gradient for the context, Σ (∂loss/∂logit) û.

    Returns
    -------
    Tensor (n_graphs, n_classes, capsule_size)
    """
    n_graphs, n_windows = windows.value.shape
    n_classes, _, _, size = windows.weight.shape
    constants = windows.constants()
    n_blocks = triton.cdiv(n_graphs, constants["GRAPHS"])
    per_part = triton.cdiv(n_windows, max(1, _PROGRAMS // n_blocks))
    n_parts = triton.cdiv(n_windows, per_part)
    sums = windows.weight.new_empty(n_parts, n_graphs, n_classes, size)
    with torch.cuda.device_of(sums):
        _attend_kernel[(n_blocks, n_parts)](
            *windows.arguments(),
            None if context is None else context.contiguous(),
            None if grad is None else grad.contiguous(),
            sums,
            per_part,
            **constants,
        )
    return sums.sum(dim=0)


def scatter(windows: Windows, contexts: Tensor, grads: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients for the capsules' values and the weights, of all iterations of routing at once.

    Parameters
    ----------
    windows : Windows
    contexts, grads : Tensor (n_iterations, n_graphs, n_classes, capsule_size)
        The context of each iteration, zero in the first, and the gradient for its Σ α û.

    Returns
    -------
    grad_value : Tensor (n_windows, n_graphs)
    grad_weight : Tensor (n_classes, n_windows, k², capsule_size)
    """
    grad_value, grad_weight = torch.empty_like(windows.value), torch.empty_like(windows.weight)
    with torch.cuda.device_of(grad_value):
        _scatter_kernel[(grad_value.shape[1],)](
            *windows.arguments(),
            contexts.contiguous(),
            grads.contiguous(),
            grad_value,
            grad_weight,
            len(contexts),
            ROWS=triton.next_power_of_2(windows.kernel_size**2),
            **windows.constants(_MIN_PRODUCT),
        )
    return grad_value.T, grad_weight


@triton.jit
def _attend_kernel(
    values,
    permutations,
    columns,
    weight,
    base,
    n_graphs,
    n_windows,
    context,
    grad,
    sums,
    per_part,
    K: tl.constexpr,
    PADDING: tl.constexpr,
    N_CLASSES: tl.constexpr,
    SIZE: tl.constexpr,
    GRAPHS: tl.constexpr,
    CLASSES: tl.constexpr,
    ENTRIES: tl.constexpr,
):
    """One part of the sum over windows for one block of graphs; :func:`attend` says of what."""
    graph = tl.program_id(0) * GRAPHS + tl.arange(0, GRAPHS)
    y, entry, real = _axes(N_CLASSES, SIZE, CLASSES, ENTRIES)
    there = real & (graph < n_graphs)[:, None, None]
    place = (graph[:, None, None] * N_CLASSES + y) * SIZE + entry
    if context is not None:
        towards = tl.load(context + place, mask=there, other=0.0)
    if grad is not None:
        slope = tl.load(grad + place, mask=there, other=0.0)
    total = tl.zeros([GRAPHS, CLASSES, ENTRIES], dtype=weight.dtype.element_ty)
    first = tl.program_id(1) * per_part
    for window in range(first, tl.minimum(first + per_part, n_windows)):
        value, selection = _load_capsules(values, permutations, columns, graph, window, n_graphs, n_windows)
        number = y.to(tl.int64) * n_windows + window
        selected = _sum_selected(weight + number * (K * K * SIZE) + entry, real, selection, K, SIZE)
        everywhere = tl.load(base + number * SIZE + entry, mask=real, other=0.0)
        votes = (value - PADDING)[:, None, None] * selected + everywhere
        if context is None:
            total += votes / (N_CLASSES + 1)
        else:
            factor = _couple(votes, towards, y < N_CLASSES)
            if grad is not None:
                factor = _differentiate(votes, slope, factor)
            total += factor * votes
    part = tl.program_id(1).to(tl.int64) * n_graphs * N_CLASSES * SIZE
    tl.store(sums + part + place, total, mask=there)


@triton.jit
def _scatter_kernel(
    values,
    permutations,
    columns,
    weight,
    base,
    n_graphs,
    n_windows,
    contexts,
    grads,
    grad_value,
    grad_weight,
    n_iterations,
    ROWS: tl.constexpr,
    K: tl.constexpr,
    PADDING: tl.constexpr,
    N_CLASSES: tl.constexpr,
    SIZE: tl.constexpr,
    GRAPHS: tl.constexpr,
    CLASSES: tl.constexpr,
    ENTRIES: tl.constexpr,
):
    """The gradients of one window; :func:`scatter` says which."""
    window = tl.program_id(0)
    y, entry, real = _axes(N_CLASSES, SIZE, CLASSES, ENTRIES)
    number = y.to(tl.int64) * n_windows + window
    corner = number * (K * K * SIZE) + entry
    everywhere = tl.load(base + number * SIZE + entry, mask=real, other=0.0)
    row = tl.arange(0, ROWS)
    total = tl.zeros([ROWS, CLASSES * ENTRIES], dtype=weight.dtype.element_ty)
    size = n_graphs * N_CLASSES * SIZE
    for start in range(0, n_graphs, GRAPHS):
        graph = start + tl.arange(0, GRAPHS)
        there = real & (graph < n_graphs)[:, None, None]
        place = (graph[:, None, None] * N_CLASSES + y) * SIZE + entry
        value, selection = _load_capsules(values, permutations, columns, graph, window, n_graphs, n_windows)
        selected = _sum_selected(weight + corner, real, selection, K, SIZE)
        votes = (value - PADDING)[:, None, None] * selected + everywhere
        grad_votes = tl.load(grads + place, mask=there, other=0.0) / (N_CLASSES + 1)
        for r in range(1, n_iterations):
            towards = tl.load(contexts + r * size + place, mask=there, other=0.0)
            slope = tl.load(grads + r * size + place, mask=there, other=0.0)
            coupling = _couple(votes, towards, y < N_CLASSES)
            grad_votes += coupling * slope + _differentiate(votes, slope, coupling) * towards
        own = tl.sum(tl.sum(selected * grad_votes, axis=2), axis=1)
        tl.store(grad_value + graph.to(tl.int64) * n_windows + window, own, mask=graph < n_graphs)
        # Adding to selected rows would need an order among graphs; a product with the whole capsules has one.
        column = (selection[None, :] >> (row // K * 4)[:, None]) & 15
        capsules = tl.where(column == (row % K)[:, None], value[None, :], PADDING)
        flat = tl.reshape(grad_votes, [GRAPHS, CLASSES * ENTRIES])
        total = tl.dot(capsules, flat, total, input_precision="ieee", out_dtype=total.dtype)
    by_class = tl.reshape(total, [ROWS, CLASSES, ENTRIES])
    tl.store(grad_weight + corner + (row * SIZE)[:, None, None], by_class, mask=real & (row < K * K)[:, None, None])


@triton.jit
def _axes(N_CLASSES: tl.constexpr, SIZE: tl.constexpr, CLASSES: tl.constexpr, ENTRIES: tl.constexpr):
    """Class and entry along the last two of three axes, and which of the two there are."""
    y = tl.arange(0, CLASSES)[None, :, None]
    entry = tl.arange(0, ENTRIES)[None, None, :]
    return y, entry, (y < N_CLASSES) & (entry < SIZE)


@triton.jit
def _load_capsules(values, permutations, columns, graph, window, n_graphs, n_windows):
    """The value of each graph's capsule, and the columns that it selects, packed."""
    place = graph.to(tl.int64) * n_windows + window
    inside = graph < n_graphs
    permutation = tl.load(permutations + place, mask=inside, other=0)
    return tl.load(values + place, mask=inside, other=0.0), tl.load(columns + permutation)


@triton.jit
def _sum_selected(corner, real, selection, K: tl.constexpr, SIZE: tl.constexpr):
    """The sum of the rows of W that each graph selects: ``(GRAPHS, CLASSES, ENTRIES)``."""
    total = tl.load(corner + ((selection & 15) * SIZE)[:, None, None], mask=real, other=0.0)
    for a in tl.static_range(1, K):
        row = a * K + ((selection >> (4 * a)) & 15)
        total += tl.load(corner + (row * SIZE)[:, None, None], mask=real, other=0.0)
    return total


@triton.jit
def _couple(votes, context, real):
    """α, the leaky softmax of û·context over classes: ``(GRAPHS, CLASSES, 1)``."""
    logits = tl.where(real, tl.sum(votes * context, axis=2, keep_dims=True), float("-inf"))
    top = tl.maximum(tl.max(logits, axis=1, keep_dims=True), 0.0)
    shares = tl.exp(logits - top)
    return shares / (tl.sum(shares, axis=1, keep_dims=True) + tl.exp(-top))


@triton.jit
def _differentiate(votes, grad, coupling):
    """The gradient for the logits, α_y (û_y·grad_y - Σ α û·grad): ``(GRAPHS, CLASSES, 1)``."""
    gain = tl.sum(votes * grad, axis=2, keep_dims=True)
    return coupling * (gain - tl.sum(coupling * gain, axis=1, keep_dims=True))
