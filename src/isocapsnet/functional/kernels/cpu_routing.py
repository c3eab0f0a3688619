"""Routing with a weight matrix per window, fused: votes are made where they are used and never stored.

The vote of a window is û = excess · Σ selected rows of W + γ · Σ all rows of W. A window's rows of W stay in the
nearest cache while the graphs of the batch pass by, a vector of graphs at a time. What goes to memory is one sum per
graph and class.
"""

import ctypes
import mmap
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from isocapsnet.functional.capsule import dynamic_routing, squash
from isocapsnet.functional.kernels import _simd as simd
from isocapsnet.functional.kernels._cpu_votes import attend_chunks, scatter_windows
from isocapsnet.functional.kernels._threads import parallel_ranges
from isocapsnet.functional.kernels.eager import compact_dtype
from isocapsnet.functional.permutations import permutation_table

# Windows are summed in this many chunks, added up in order: the result does not depend on the number of threads.
_CHUNKS = 32
# glibc returns blocks of this size to the operating system when they are freed.
_NEVER_KEPT = 32 * 1024**2


class Windows(NamedTuple):
    """Primary capsules and weights as the kernels read them; windows of all templates in a row.

    Attributes
    ----------
    excess : Tensor (n_windows, n_graphs)
        By how much the capsule's value exceeds the padding γ.
    permutation : Tensor (n_windows, n_graphs), as small integers
    weight : Tensor (n_classes, n_windows, k², capsule_size)
    padding : float
    kernel_size : int
    """

    excess: Tensor
    permutation: Tensor
    weight: Tensor
    padding: float
    kernel_size: int

    @classmethod
    def of(cls, value: Tensor, permutation: Tensor, padding: float, kernel_size: int, weight: Tensor) -> "Windows":
        """From capsules ``(n_graphs, n_templates, n, n)`` and weights ``(n_classes, n_templates, n², k², size)``."""
        values, rows = value.detach().flatten(1).T, permutation.flatten(1).T
        return cls(
            torch.sub(values, padding, out=values.new_empty(values.shape)),
            torch.empty(rows.shape, dtype=compact_dtype(kernel_size)).copy_(rows),
            weight.detach().flatten(1, 2).contiguous(),
            padding,
            kernel_size,
        )

    def capsules(self) -> tuple[Tensor, Tensor, Tensor]:
        """Values and permutations ``(n_graphs, n_windows)`` and weights again, as they came."""
        return (self.excess + self.padding).T.contiguous(), self.permutation.T.long(), self.weight

    def arrays(self) -> tuple[Any, Any, Any, Any, Any, Any]:
        """What every kernel begins with; tuples tell the compiler by their lengths k and vectors per capsule."""
        simd.forget_stale_code()
        return (
            self.excess.numpy(),
            self.permutation.numpy(),
            self.weight.flatten().numpy(),
            self.weight.numpy().dtype.type(self.padding),
            _selected_rows(self.kernel_size),
            ((None,) * self.kernel_size, (None,) * (self.weight[0, 0, 0].nbytes // simd.VECTOR_BYTES)),
        )


@lru_cache(maxsize=8)
def _selected_rows(kernel_size: int) -> np.ndarray:
    """The rows of W that each permutation selects: uint8 ``(k!, k)``."""
    return (np.arange(kernel_size) * kernel_size + permutation_table(kernel_size).numpy()).astype(np.uint8)


def fits(weight: Tensor) -> bool:
    """Whether the kernels take these weights: a capsule must fill whole vectors."""
    size = weight.shape[-1] * weight.element_size()
    return weight.dtype in (torch.float32, torch.float64) and size % simd.VECTOR_BYTES == 0


def iterate(windows: Windows, iterations: int, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """The capsules, and the context and Σ α û of each iteration ``(iterations, n_graphs, n_classes, capsule_size)``."""
    contexts: list[Tensor] = []
    sums: list[Tensor] = []

    def attend_next(context: Tensor) -> Tensor:
        sums.append(attend(windows, context if contexts else None))
        contexts.append(context)
        return sums[-1]

    n_classes, _, _, size = windows.weight.shape
    zeros = windows.weight.new_zeros(windows.excess.shape[1], n_classes, size)
    capsules = dynamic_routing(attend_next, zeros, iterations, scale)
    return capsules, torch.stack(contexts), torch.stack(sums)


def differentiate(windows: Windows, contexts: Tensor, sums: Tensor, grad_capsules: Tensor, scale: float) -> Tensor:
    """The gradient for the Σ α û of each iteration, from that for the capsules."""
    grads = torch.empty_like(sums)
    grad_context = torch.zeros_like(grad_capsules)
    for r in reversed(range(len(sums))):
        # The last capsules are the result; the others are part of every later context.
        grad = grad_capsules if r == len(sums) - 1 else grad_context
        with torch.enable_grad():
            total = sums[r].detach().requires_grad_()
            agreement = (squash(scale * total) * grad).sum()  # a number: torch imports sympy to differentiate a tensor
        (grads[r],) = torch.autograd.grad(agreement, total)
        if r > 0:
            grad_context += attend(windows, contexts[r], grads[r])
    return grads


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
    n_graphs = windows.excess.shape[1]
    n_classes, _, _, size = windows.weight.shape
    sums = windows.weight.new_empty(_CHUNKS, n_graphs, n_classes, size)
    none = sums.new_empty(0, n_classes, size)
    arguments = (
        *windows.arrays(),
        n_classes,
        _padded(none if context is None else context),
        _padded(none if grad is None else grad),
        sums.flatten(1).numpy(),
    )
    parallel_ranges(lambda start, stop: attend_chunks(*arguments, start, stop), _CHUNKS)
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
    grad_value, grad_weight = torch.empty_like(windows.excess), _empty_like(windows.weight)
    arguments = (
        *windows.arrays(),
        len(windows.weight),
        np.concatenate([_padded(context) for context in contexts]),
        np.concatenate([_padded(grad) for grad in grads]),
        len(contexts),
        grad_value.numpy(),
        grad_weight.flatten().numpy(),
    )
    parallel_ranges(lambda start, stop: scatter_windows(*arguments, start, stop), len(grad_value))
    return grad_value, grad_weight


def _empty_like(weight: Tensor) -> Tensor:
    """Room for the gradients, on large pages.

    It is larger than what the C library keeps for the next batch, so the operating system clears it anew for each,
    and that takes four times as long on small pages.
    """
    target = torch.empty_like(weight)
    if target.nbytes >= _NEVER_KEPT and hasattr(mmap, "MADV_HUGEPAGE"):
        start = -(-target.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        length = target.data_ptr() + target.nbytes - start
        # This is only advice; the result is the same without it.
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), mmap.MADV_HUGEPAGE)
    return target


def _padded(tensor: Tensor) -> np.ndarray:
    """Flat, with zeros for as many more graphs as fill the last vector of graphs."""
    lanes = simd.VECTOR_BYTES // tensor.element_size()
    return torch.nn.functional.pad(tensor, [0, 0, 0, 0, 0, -len(tensor) % lanes]).flatten().numpy()
