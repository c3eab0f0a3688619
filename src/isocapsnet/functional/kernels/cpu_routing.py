"""Routing with a weight matrix per window, fused: votes are made where they are used and never stored.

The vote of a window is û = excess · Σ selected rows of W + γ · Σ all rows of W. A tile of windows, one per lane of a
vector, stays in the nearest caches while the graphs of the batch pass by. What goes to memory is one sum per graph and
class, and in the backward pass the couplings of some graphs at a time.
"""

import ctypes
import math
import mmap
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from isocapsnet.functional.capsule import dynamic_routing, squash
from isocapsnet.functional.kernels import _simd as simd
from isocapsnet.functional.kernels._cpu_votes import attend_chunks, attend_evenly, pack_tiles, scatter_tiles
from isocapsnet.functional.kernels._threads import parallel_ranges
from isocapsnet.functional.kernels.eager import compact_dtype
from isocapsnet.functional.permutations import permutation_table

# Tiles are summed in this many chunks, added up in order: the result does not depend on the number of threads.
_CHUNKS = 32
# Couplings of so many bytes are kept at a time in the backward pass, of at least this many graphs.
_KEPT_BYTES, _LEAST_GRAPHS = 64 * 1024**2, 8
# glibc returns blocks of this size to the operating system when they are freed.
_NEVER_KEPT = 32 * 1024**2


class Windows(NamedTuple):
    """Primary capsules and weights as the kernels read them; windows of all templates in a row, in tiles.

    Attributes
    ----------
    excess : Tensor (n_tiles, n_graphs, lanes)
        By how much the capsule's value exceeds the padding γ; zero after the last window.
    permutation : Tensor (n_tiles, n_graphs, lanes), as small integers
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
        simd.forget_stale_code()
        values, numbers = value.detach().flatten(1).contiguous(), permutation.flatten(1).contiguous()
        lanes = simd.VECTOR_BYTES // values.element_size()
        excess = values.new_empty(-(-values.shape[1] // lanes), len(values), lanes)
        packed = torch.empty(excess.shape, dtype=compact_dtype(kernel_size))
        arrays = values.numpy(), numbers.numpy(), values.numpy().dtype.type(padding), excess.numpy(), packed.numpy()
        parallel_ranges(lambda start, stop: pack_tiles(*arrays, start, stop), len(excess))
        return cls(excess, packed, weight.detach().flatten(1, 2).contiguous(), padding, kernel_size)

    def capsules(self) -> tuple[Tensor, Tensor, Tensor]:
        """Values and permutations ``(n_graphs, n_windows)`` and weights again, as they came."""
        n_windows = self.weight.shape[1]
        excess, numbers = (x.transpose(0, 1).flatten(1)[:, :n_windows] for x in (self.excess, self.permutation))
        return excess + self.padding, numbers.long(), self.weight

    def arrays(self) -> tuple[Any, ...]:
        """What every kernel begins with; tuples tell the compiler by their lengths k and vectors per capsule."""
        return (
            self.excess.flatten().numpy(),
            self.permutation.numpy(),
            self.weight.flatten().numpy(),
            self.weight.numpy().dtype.type(self.padding),
            _selected_rows(self.kernel_size),
            ((None,) * self.kernel_size, (None,) * (self.weight[0, 0, 0].nbytes // simd.VECTOR_BYTES)),
            *self.weight.shape[:2],
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


class Couplings(NamedTuple):
    """What the backward pass keeps of some graphs, from ``first_graph`` on.

    Attributes
    ----------
    factors : Tensor (n_tiles, n_graphs, n_classes, 2 · (iterations - 1), lanes)
        α and the gradient for the logits, for every iteration but the first.
    first_graph : int
    """

    factors: Tensor
    first_graph: int


def backward(
    windows: Windows, contexts: Tensor, sums: Tensor, grad_capsules: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """Gradients for the capsules' values ``(n_graphs, n_windows)`` and the weights, from that for the class capsules.

    ``contexts`` and ``sums`` as :func:`iterate` returns them. The couplings are kept for some graphs at a time.
    """
    n_tiles, n_graphs, lanes = windows.excess.shape
    n_classes, n_windows, _, _ = windows.weight.shape
    per_graph = n_tiles, n_classes, 2 * (len(sums) - 1), lanes
    most = max(_LEAST_GRAPHS, _KEPT_BYTES // max(1, math.prod(per_graph) * windows.excess.element_size()))
    n_parts = -(-n_graphs // most)
    grad_value, grad_weight = windows.excess.new_empty(n_graphs, n_windows), _zeros_like(windows.weight)
    for part in range(n_parts):
        own = slice(n_graphs * part // n_parts, n_graphs * (part + 1) // n_parts)
        factors = windows.excess.new_empty(n_tiles, own.stop - own.start, *per_graph[1:])
        couplings = Couplings(factors, own.start)
        grads = _differentiate(windows, contexts[:, own], sums[:, own], grad_capsules[own], scale, couplings)
        _scatter(windows, contexts[:, own], grads, couplings, grad_value, grad_weight)
    return grad_value, grad_weight


def _differentiate(
    windows: Windows, contexts: Tensor, sums: Tensor, grad_capsules: Tensor, scale: float, couplings: Couplings
) -> Tensor:
    """The gradient for the Σ α û of each iteration, from that for the capsules; fills the couplings."""
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
            grad_context += attend(windows, contexts[r], grads[r], couplings, 2 * (r - 1))
    return grads


def attend(
    windows: Windows,
    context: Tensor | None,
    grad: Tensor | None = None,
    couplings: Couplings | None = None,
    place: int = 0,
) -> Tensor:
    """Σ α û over windows, with α the leaky softmax of û·context over classes; or the gradient for the context.

    Parameters
    ----------
    windows : Windows
    context : Tensor (n_graphs, n_classes, capsule_size), optional
        Without one, all logits are zero.
    grad : Tensor (n_graphs, n_classes, capsule_size), optional
        Gradient of a loss for Σ α û. With it, the result is the gradient for the context, Σ (∂loss/∂logit) û.
    couplings : Couplings, optional
        With ``grad``: α and ∂loss/∂logit are written to entries ``place`` and ``place + 1`` of it.

    Returns
    -------
    Tensor (n_graphs, n_classes, capsule_size)
    """
    n_classes, _, _, size = windows.weight.shape
    n_graphs = windows.excess.shape[1] if context is None else len(context)
    sums = windows.weight.new_empty(_CHUNKS, n_graphs, n_classes, size)
    totals, arrays = sums.flatten(1).numpy(), windows.arrays()
    if context is None:
        parallel_ranges(lambda start, stop: attend_evenly(*arrays, totals, start, stop), _CHUNKS)
        return sums.sum(dim=0)
    nothing = sums.new_empty(0)
    factors, first_graph = (nothing[None], 0) if couplings is None else couplings
    arguments = (
        *arrays,
        first_graph,
        n_graphs,
        context.flatten().numpy(),
        (nothing if grad is None else grad).flatten().numpy(),
        factors.flatten().numpy(),
        place,
        factors.shape[-2],
        totals,
    )
    parallel_ranges(lambda start, stop: attend_chunks(*arguments, start, stop), _CHUNKS)
    return sums.sum(dim=0)


def _scatter(
    windows: Windows, contexts: Tensor, grads: Tensor, couplings: Couplings, grad_value: Tensor, grad_weight: Tensor
) -> None:
    """Write the gradients for the values of some graphs, and add theirs for the weights, of all iterations at once.

    The gradient for a vote is Σ α · grad + slope · context over iterations; in the first, the context is zero.
    """
    pairs = [grads[:1], *(x[r : r + 1] for r in range(1, len(grads)) for x in (grads, contexts))]
    vectors = torch.cat(pairs).permute(1, 2, 0, 3).contiguous()
    arguments = (
        *windows.arrays(),
        couplings.first_graph,
        len(vectors),
        vectors.flatten().numpy(),
        couplings.factors.flatten().numpy(),
        (None,) * len(pairs),
        grad_value.numpy(),
        grad_weight.flatten().numpy(),
    )
    parallel_ranges(lambda start, stop: scatter_tiles(*arguments, start, stop), len(windows.excess))


def _zeros_like(weight: Tensor) -> Tensor:
    """Room for the gradients, on large pages.

    It is larger than what the C library keeps for the next batch, so the operating system clears it anew for each,
    and that takes four times as long on small pages.
    """
    target = torch.zeros_like(weight)
    if target.nbytes >= _NEVER_KEPT and hasattr(mmap, "MADV_HUGEPAGE"):
        start = -(-target.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        length = target.data_ptr() + target.nbytes - start
        # This is only advice; the result is the same without it.
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), mmap.MADV_HUGEPAGE)
    return target
