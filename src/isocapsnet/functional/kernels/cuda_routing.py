"""Routing with a weight matrix per window on a GPU, fused, in Triton: votes are made where they are used, never stored.

As on the CPU, the vote of a window is û = (value - γ) · Σ selected rows of W + γ · Σ all rows of W. A program passes
window by window over a block of graphs, which find each other's rows of W in the nearest cache. What follows between
two iterations is small, so it is one kernel: launches would otherwise take longer than the work.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from isocapsnet.functional.kernels import MAX_KERNEL_SIZE
from isocapsnet.functional.kernels._cuda_votes import attend_kernel, scatter_kernel, squash_kernel, unsquash_kernel
from isocapsnet.functional.kernels._launch import launch
from isocapsnet.functional.permutations import permutation_table

# Entries of the class capsules of one graph, and of a block of graphs; more would not stay in registers.
_MAX_ENTRIES = 256
_BLOCK_ENTRIES = 1024
# A matrix product takes no fewer graphs.
_MIN_PRODUCT = 16
# Programs that share the windows. Their sums are added up in order: the same result on every run.
_PROGRAMS = 1024
# Entries that a program adds up at a time.
_SUM_ENTRIES = 2048


class Windows(NamedTuple):
    """Primary capsules and weights as the kernels read them; windows of all templates in a row.

    Attributes
    ----------
    value : Tensor (n_graphs, n_windows)
    permutation : Tensor (n_graphs, n_windows), int64
    weight : Tensor (n_classes, n_windows, k², capsule_size)
    row_sum : Tensor (n_classes, n_windows, capsule_size)
        The sum of all rows of W.
    padding : float
    kernel_size : int
    """

    value: Tensor
    permutation: Tensor
    weight: Tensor
    row_sum: Tensor
    padding: float
    kernel_size: int

    @classmethod
    def of(cls, value: Tensor, permutation: Tensor, padding: float, kernel_size: int, weight: Tensor) -> "Windows":
        """From capsules ``(n_graphs, n_templates, n, n)`` and weights ``(n_classes, n_templates, n², k², size)``."""
        weight = weight.flatten(1, 2).contiguous()
        value, permutation = value.flatten(1).contiguous(), permutation.flatten(1).contiguous()
        return cls(value, permutation, weight, weight.sum(dim=2), padding, kernel_size)

    def capsules(self) -> tuple[Tensor, Tensor, Tensor]:
        """Values and permutations ``(n_graphs, n_windows)`` and weights again, as they came."""
        return self.value.detach().clone(), self.permutation, self.weight

    def tensors(self) -> tuple[Tensor, ...]:
        """What every kernel that makes votes begins with."""
        columns = _packed_columns(self.kernel_size, self.value.device)
        return self.value, self.permutation, columns, self.weight, self.row_sum

    def layout(self) -> "_Layout":
        """How the work is shared among programs."""
        n_classes, _, _, size = self.weight.shape
        return _lay_out(*self.value.shape, self.kernel_size, self.padding, n_classes, size)


class _Layout(NamedTuple):
    """How the work is shared among programs.

    Attributes
    ----------
    n_blocks : int
        Blocks of graphs.
    n_parts, per_part : int
        Parts of a sum over windows, and windows in each.
    constants : tuple
        What the kernels that make votes are compiled for: K, PADDING, N_CLASSES, SIZE, CLASSES, ENTRIES, GRAPHS. The
        lengths of a block, the last three, are powers of 2.
    """

    n_blocks: int
    n_parts: int
    per_part: int
    constants: tuple[Any, ...]


@lru_cache(maxsize=64)
def _lay_out(n_graphs: int, n_windows: int, kernel_size: int, padding: float, n_classes: int, size: int) -> _Layout:
    classes, entries = _power_of_2(n_classes), _power_of_2(size)
    graphs = min(_power_of_2(n_graphs), _BLOCK_ENTRIES // (classes * entries))
    n_blocks = triton.cdiv(n_graphs, graphs)
    per_part = triton.cdiv(n_windows, max(1, _PROGRAMS // max(1, n_blocks)))
    constants = (kernel_size, padding, n_classes, size, classes, entries, graphs)
    return _Layout(n_blocks, triton.cdiv(n_windows, per_part), per_part, constants)


@lru_cache(maxsize=32)
def _packed_columns(kernel_size: int, device: torch.device) -> Tensor:
    """The column that each permutation selects in row a, in the a-th half byte: int32 ``(k!,)``."""
    return (permutation_table(kernel_size) << (4 * torch.arange(kernel_size))).sum(dim=1).to(device, torch.int32)


def _power_of_2(length: int) -> int:
    """The next one; Triton's own function takes microseconds."""
    return 1 << (length - 1).bit_length()


@lru_cache(maxsize=32)
def _as_tensor(number: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A number that Triton would otherwise round to float32."""
    return torch.tensor(number, dtype=dtype, device=device)


def fits(weight: Tensor) -> bool:
    """Whether the kernels take these weights ``(n_classes, ..., k², capsule_size)``."""
    entries = _power_of_2(weight.shape[0]) * _power_of_2(weight.shape[-1])
    is_small = entries <= _MAX_ENTRIES and weight.shape[-2] <= MAX_KERNEL_SIZE**2
    return is_small and weight.dtype in (torch.float32, torch.float64)


def iterate(windows: Windows, iterations: int, scale: float, keep: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """All iterations of :func:`~isocapsnet.functional.capsule.dynamic_routing`; nothing more is kept on request.

    Returns
    -------
    capsules : Tensor (n_graphs, n_classes, capsule_size)
    contexts : Tensor (iterations + 1, n_graphs, n_classes, capsule_size)
        The context of each iteration, and that of one more; the first, zero, is not written.
    sums : Tensor (iterations, n_graphs, n_classes, capsule_size)
        Σ α û of each iteration.
    """
    parts = _make_parts(windows)
    capsules = parts.new_empty(parts.shape[1:])
    contexts = parts.new_empty(iterations + 1, *capsules.shape)
    sums = parts.new_empty(iterations, *capsules.shape)
    context = None
    for total, following in zip(sums.unbind(), contexts.unbind()[1:], strict=True):
        _attend(windows, context, None, parts)
        _add_up(squash_kernel, parts, scale, context, total, capsules, following)
        context = following
    return capsules, contexts, sums


def backward(
    windows: Windows, contexts: Tensor, sums: Tensor, grad_capsules: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """Gradients for the capsules' values ``(n_graphs, n_windows)`` and the weights, from that for the class capsules.

    ``contexts`` and ``sums`` as :func:`iterate` returns them.
    """
    return scatter(windows, contexts, differentiate(windows, contexts, sums, grad_capsules, scale))


def differentiate(windows: Windows, contexts: Tensor, sums: Tensor, grad_capsules: Tensor, scale: float) -> Tensor:
    """The gradient for the Σ α û of each iteration, from that for the capsules; shapes as in :func:`iterate`."""
    parts = _make_parts(windows)
    grads = torch.empty_like(sums)
    grad_context = parts.new_empty(parts.shape[1:])
    totals, targets = sums.unbind(), grads.unbind()
    # The last capsules are the result; the others are part of every later context.
    _add_up(unsquash_kernel, grad_capsules.contiguous()[None], scale, None, totals[-1], targets[-1], grad_context)
    grad_later = None
    for r in range(len(totals) - 1, 0, -1):
        _attend(windows, contexts[r], targets[r], parts)
        _add_up(unsquash_kernel, parts, scale, grad_later, totals[r - 1], targets[r - 1], grad_context)
        grad_later = grad_context
    return grads


def _make_parts(windows: Windows) -> Tensor:
    """Room for the parts of a sum over windows: ``(n_parts, n_graphs, n_classes, capsule_size)``."""
    n_classes, _, _, size = windows.weight.shape
    return windows.weight.new_empty(windows.layout().n_parts, windows.value.shape[0], n_classes, size)


def _attend(windows: Windows, context: Tensor | None, grad: Tensor | None, parts: Tensor) -> None:
    """Σ α û over windows, in parts, with α the leaky softmax of û·context over classes; without a context, of zeros.

    With ``grad``, the gradient for that sum, Σ (∂loss/∂logit) û instead: the gradient for the context.
    """
    layout = windows.layout()
    launch(
        attend_kernel,
        (layout.n_blocks, layout.n_parts, 1),
        (*windows.tensors(), context, grad, parts),
        (*windows.value.shape, layout.per_part, *layout.constants),
    )


def _add_up(kernel: Any, parts: Tensor, scale: float, *others: Tensor | None) -> None:
    """Launch a kernel that adds the parts up, one program per capsule, and goes on from there."""
    n_parts, n_graphs, n_classes, size = parts.shape
    entries = _power_of_2(size)
    launch(
        kernel,
        (n_graphs * n_classes, 1, 1),
        (parts, *others, _as_tensor(scale, parts.dtype, parts.device)),
        (n_parts, n_graphs * n_classes * size, size, entries, _SUM_ENTRIES // entries),
    )


def scatter(windows: Windows, contexts: Tensor, grads: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients for the capsules' values and the weights, of all iterations of routing at once.

    Parameters
    ----------
    windows : Windows
    contexts : Tensor (n_iterations or more, n_graphs, n_classes, capsule_size)
        The context of each iteration; the first is not read.
    grads : Tensor (n_iterations, n_graphs, n_classes, capsule_size)
        The gradient for the Σ α û of each.

    Returns
    -------
    grad_value : Tensor (n_graphs, n_windows)
    grad_weight : Tensor (n_classes, n_windows, k², capsule_size)
    """
    grad_value, grad_weight = torch.empty_like(windows.value), torch.empty_like(windows.weight)
    n_graphs, n_windows = windows.value.shape
    *constants, graphs = windows.layout().constants
    launch(
        scatter_kernel,
        (n_windows, 1, 1),
        (*windows.tensors(), contexts, grads, grad_value, grad_weight),
        (
            n_graphs,
            n_windows,
            grads.shape[0],
            *constants,
            max(_MIN_PRODUCT, graphs),
            _power_of_2(windows.kernel_size**2),
        ),
    )
    return grad_value, grad_weight
