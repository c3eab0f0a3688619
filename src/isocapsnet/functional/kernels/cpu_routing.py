"""Routing with a weight matrix per window, fused: votes are made where they are used and never stored.

The vote of a window is û = excess · Σ selected rows of W + γ · Σ all rows of W. A window's rows of W stay in the
nearest cache while the graphs of the batch pass by, a vector of graphs at a time. What goes to memory is one sum per
graph and class.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import njit
from torch import Tensor

from isocapsnet.functional.kernels import _simd as simd
from isocapsnet.functional.kernels._threads import parallel_ranges
from isocapsnet.functional.kernels.eager import permutation_table

# Windows are summed in this many chunks, added up in order: the result does not depend on the number of threads.
_CHUNKS = 32


class Windows(NamedTuple):
    """Primary capsules and weights as the kernels read them; windows of all templates in a row.

    Attributes
    ----------
    excess : Tensor (n_windows, n_graphs)
        By how much the capsule's value exceeds the padding γ.
    permutation : Tensor (n_windows, n_graphs), int32
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
        return cls(
            (value.detach() - padding).flatten(1).T.contiguous(),
            permutation.flatten(1).T.to(torch.int32).contiguous(),
            weight.detach().flatten(1, 2).contiguous(),
            padding,
            kernel_size,
        )

    def arrays(self) -> tuple[Any, Any, Any, Any, Any, Any]:
        """What every kernel begins with."""
        return (
            self.excess.numpy(),
            self.permutation.numpy(),
            _selected_rows(self.kernel_size),
            self.weight.numpy(),
            self.weight.numpy().dtype.type(self.padding),
            (None,) * (self.weight[0, 0, 0].nbytes // simd.VECTOR_BYTES),
        )


@lru_cache(maxsize=8)
def _selected_rows(kernel_size: int) -> np.ndarray:
    """The rows of W that each permutation selects: uint8 ``(k!, k)``."""
    return (np.arange(kernel_size) * kernel_size + permutation_table(kernel_size).numpy()).astype(np.uint8)


def fits(weight: Tensor) -> bool:
    """Whether the kernels take these weights: a capsule must fill whole vectors."""
    size = weight.shape[-1] * weight.element_size()
    return weight.dtype in (torch.float32, torch.float64) and size % simd.VECTOR_BYTES == 0


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
    n_classes, _, _, size = windows.weight.shape
    sums = windows.weight.new_empty(_CHUNKS, windows.excess.shape[1], n_classes, size)
    arguments = (*windows.arrays(), _flat(context, sums), _flat(grad, sums), sums.flatten(1).numpy())
    parallel_ranges(lambda start, stop: _attend_chunks(*arguments, start, stop), _CHUNKS)
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
    grad_value, grad_weight = torch.empty_like(windows.excess), torch.empty_like(windows.weight)
    arguments = (
        *windows.arrays(),
        contexts.contiguous().flatten(1).numpy(),
        grads.contiguous().flatten(1).numpy(),
        grad_value.numpy(),
        grad_weight.numpy(),
    )
    parallel_ranges(lambda start, stop: _scatter_windows(*arguments, start, stop), len(grad_value))
    return grad_value, grad_weight


def _flat(tensor: Tensor | None, like: Tensor) -> np.ndarray:
    return (like.new_empty(0) if tensor is None else tensor.contiguous().flatten()).numpy()


@njit(cache=True, nogil=True)
def _attend_chunks(
    excess: Any,
    permutation: Any,
    rows: Any,
    weight: Any,
    padding: float,
    split: Any,
    context: Any,
    grad: Any,
    sums: Any,
    start: int,
    stop: int,
) -> None:
    """Sum the chunks ``start`` to ``stop`` of windows; :func:`attend` says what."""
    n_windows, n_graphs = excess.shape
    n_classes = len(weight)
    lanes, parts = simd.lanes(weight), len(split)
    base = simd.empty(n_classes * parts, weight)
    selected = simd.empty(n_classes * lanes * parts, weight)
    products = simd.empty(lanes, weight)
    coupling, slope = simd.empty(n_classes, weight), simd.empty(n_classes, weight)
    products[:] = 0
    for chunk in range(start, stop):
        total = sums[chunk]
        total[:] = 0
        for window in range(n_windows * chunk // len(sums), n_windows * (chunk + 1) // len(sums)):
            above = excess[window]
            _sum_rows(weight, window, padding, parts, base)
            for first in range(0, n_graphs, lanes):
                count = min(lanes, n_graphs - first)
                _select_rows(weight, rows, permutation[window], window, first, count, parts, selected)
                _couple(context, above, selected, base, first, count, parts, products, coupling)
                if len(grad) > 0:
                    _differentiate(grad, above, selected, base, first, count, parts, products, coupling, slope)
                factors = slope if len(grad) > 0 else coupling
                for y in range(n_classes):
                    for t in range(count):
                        factor = simd.broadcast(simd.get(factors, y * lanes + t))
                        high = simd.broadcast(simd.get(above, first + t))
                        for i in range(parts):
                            vote = simd.fma(
                                high, simd.load(selected, (y * lanes + t) * parts + i), simd.load(base, y * parts + i)
                            )
                            place = ((first + t) * n_classes + y) * parts + i
                            simd.store(total, place, simd.fma(factor, vote, simd.load(total, place)))


@njit(cache=True, nogil=True)
def _scatter_windows(
    excess: Any,
    permutation: Any,
    rows: Any,
    weight: Any,
    padding: float,
    split: Any,
    contexts: Any,
    grads: Any,
    grad_value: Any,
    grad_weight: Any,
    start: int,
    stop: int,
) -> None:
    """The gradients of the windows ``start`` to ``stop``; :func:`scatter` says which."""
    n_graphs = excess.shape[1]
    n_classes, _, n_rows, size = weight.shape
    lanes, parts = simd.lanes(weight), len(split)
    base = simd.empty(n_classes * parts, weight)
    selected = simd.empty(n_classes * lanes * parts, weight)
    gradient = simd.empty(n_classes * lanes * parts, weight)  # of the votes
    everywhere = simd.empty(n_classes * parts, weight)
    products = simd.empty(lanes, weight)
    coupling, slope = simd.empty(n_classes, weight), simd.empty(n_classes, weight)
    products[:] = 0
    for window in range(start, stop):
        above = excess[window]
        _sum_rows(weight, window, padding, parts, base)
        everywhere[:] = 0
        grad_weight[:, window] = 0
        for first in range(0, n_graphs, lanes):
            count = min(lanes, n_graphs - first)
            _select_rows(weight, rows, permutation[window], window, first, count, parts, selected)
            gradient[:] = 0
            for r in range(len(contexts)):
                context = contexts[r] if r > 0 else contexts[r, :0]
                _couple(context, above, selected, base, first, count, parts, products, coupling)
                if r > 0:
                    _differentiate(grads[r], above, selected, base, first, count, parts, products, coupling, slope)
                    _add_scaled(contexts[r], slope, n_classes, first, count, parts, gradient)
                _add_scaled(grads[r], coupling, n_classes, first, count, parts, gradient)
            _scatter_block(
                rows, permutation[window], above, window, first, count, parts, gradient, grad_weight, everywhere
            )
            _dot_block(selected, gradient, n_classes, count, parts, products)
            sums = simd.sum_each(products, 0)
            simd.store(coupling, 0, sums)
            for t in range(count):
                grad_value[window, first + t] = coupling[t]
        for y in range(n_classes):
            flat = grad_weight[y, window].reshape(n_rows * size)
            for i in range(parts):
                shared = simd.broadcast(padding) * simd.load(everywhere, y * parts + i)
                for row in range(n_rows):
                    simd.store(flat, row * parts + i, simd.load(flat, row * parts + i) + shared)


@njit(cache=True, nogil=True, forceinline=True)
def _sum_rows(weight: Any, window: int, padding: float, parts: int, base: Any) -> None:
    """γ times the sum of all rows of W, for every class."""
    n_classes, _, n_rows, size = weight.shape
    for y in range(n_classes):
        flat = weight[y, window].reshape(n_rows * size)
        for i in range(parts):
            total = simd.load(flat, i)
            for row in range(1, n_rows):
                total = total + simd.load(flat, row * parts + i)
            simd.store(base, y * parts + i, simd.broadcast(padding) * total)


@njit(cache=True, nogil=True, forceinline=True)
def _select_rows(
    weight: Any, rows: Any, permutation: Any, window: int, first: int, count: int, parts: int, selected: Any
) -> None:
    """The sum of the rows of W that each graph's permutation selects, for every class."""
    n_classes, _, n_rows, size = weight.shape
    for y in range(n_classes):
        flat = weight[y, window].reshape(n_rows * size)
        for t in range(count):
            chosen = rows[permutation[first + t]]
            for i in range(parts):
                total = simd.load(flat, simd.get(chosen, 0) * parts + i)
                for a in range(1, len(chosen)):
                    total = total + simd.load(flat, simd.get(chosen, a) * parts + i)
                simd.store(selected, (y * simd.lanes(weight) + t) * parts + i, total)


@njit(cache=True, nogil=True, forceinline=True)
def _dot_votes(
    vectors: Any, above: Any, selected: Any, base: Any, y: int, first: int, count: int, parts: int, products: Any
) -> Any:
    """û·x for one class, a graph in every lane; ``vectors`` holds x of all graphs and classes."""
    lanes = simd.lanes(base)
    n_classes = len(base) // lanes // parts
    for t in range(count):
        high = simd.broadcast(simd.get(above, first + t))
        total = simd.broadcast(base.dtype.type(0.0))
        for i in range(parts):
            vote = simd.fma(high, simd.load(selected, (y * lanes + t) * parts + i), simd.load(base, y * parts + i))
            total = simd.fma(vote, simd.load(vectors, ((first + t) * n_classes + y) * parts + i), total)
        simd.store(products, t, total)
    return simd.sum_each(products, 0)


@njit(cache=True, nogil=True, forceinline=True)
def _couple(
    context: Any,
    above: Any,
    selected: Any,
    base: Any,
    first: int,
    count: int,
    parts: int,
    products: Any,
    coupling: Any,
) -> None:
    """The leaky softmax over classes of û·context, a graph in every lane; of zeros without a context."""
    n_classes = len(coupling) // simd.lanes(coupling)
    if len(context) == 0:
        coupling[:] = 1 / (n_classes + 1)
        return
    zero = simd.broadcast(base.dtype.type(0.0))
    top = zero
    for y in range(n_classes):
        logit = _dot_votes(context, above, selected, base, y, first, count, parts, products)
        simd.store(coupling, y, logit)
        top = simd.maximum(top, logit)
    total = simd.exp(zero - top)
    for y in range(n_classes):
        share = simd.exp(simd.load(coupling, y) - top)
        simd.store(coupling, y, share)
        total = total + share
    for y in range(n_classes):
        simd.store(coupling, y, simd.load(coupling, y) / total)


@njit(cache=True, nogil=True, forceinline=True)
def _differentiate(
    grad: Any,
    above: Any,
    selected: Any,
    base: Any,
    first: int,
    count: int,
    parts: int,
    products: Any,
    coupling: Any,
    slope: Any,
) -> None:
    """The gradient for the logits, α_y (û_y·grad_y - Σ α û·grad), a graph in every lane."""
    n_classes = len(coupling) // simd.lanes(coupling)
    mean = simd.broadcast(base.dtype.type(0.0))
    for y in range(n_classes):
        gain = _dot_votes(grad, above, selected, base, y, first, count, parts, products)
        simd.store(slope, y, gain)
        mean = simd.fma(simd.load(coupling, y), gain, mean)
    for y in range(n_classes):
        simd.store(slope, y, simd.load(coupling, y) * (simd.load(slope, y) - mean))


@njit(cache=True, nogil=True, forceinline=True)
def _add_scaled(vectors: Any, factors: Any, n_classes: int, first: int, count: int, parts: int, gradient: Any) -> None:
    """Add factor · x to the votes' gradient, for every class and graph."""
    lanes = simd.lanes(gradient)
    for y in range(n_classes):
        for t in range(count):
            factor = simd.broadcast(simd.get(factors, y * lanes + t))
            for i in range(parts):
                place = (y * lanes + t) * parts + i
                x = simd.load(vectors, ((first + t) * n_classes + y) * parts + i)
                simd.store(gradient, place, simd.fma(factor, x, simd.load(gradient, place)))


@njit(cache=True, nogil=True, forceinline=True)
def _scatter_block(
    rows: Any,
    permutation: Any,
    above: Any,
    window: int,
    first: int,
    count: int,
    parts: int,
    gradient: Any,
    grad_weight: Any,
    everywhere: Any,
) -> None:
    """Add the votes' gradient to the rows that were selected, and to the sum that goes to all rows."""
    n_classes, _, n_rows, size = grad_weight.shape
    lanes = simd.lanes(gradient)
    for y in range(n_classes):
        flat = grad_weight[y, window].reshape(n_rows * size)
        for i in range(parts):
            total = simd.load(everywhere, y * parts + i)
            for t in range(count):
                chosen = rows[permutation[first + t]]
                g = simd.load(gradient, (y * lanes + t) * parts + i)
                total = total + g
                scaled = simd.broadcast(simd.get(above, first + t)) * g
                for a in range(len(chosen)):
                    place = simd.get(chosen, a) * parts + i
                    simd.store(flat, place, simd.load(flat, place) + scaled)
            simd.store(everywhere, y * parts + i, total)


@njit(cache=True, nogil=True, forceinline=True)
def _dot_block(selected: Any, gradient: Any, n_classes: int, count: int, parts: int, products: Any) -> None:
    """Σ over classes of selected · gradient, unsummed over lanes: one vector per graph."""
    lanes = simd.lanes(gradient)
    for t in range(count):
        total = simd.broadcast(gradient.dtype.type(0.0))
        for y in range(n_classes):
            for i in range(parts):
                place = (y * lanes + t) * parts + i
                total = simd.fma(simd.load(selected, place), simd.load(gradient, place), total)
        simd.store(products, t, total)
