"""Routing of capsules of any entries with a weight matrix per window, fused: votes are made where they are used.

The lanes of a vector are entries of a class capsule. A window's rows of W stay in registers while the graphs pass by.
"""

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from isocapsnet.functional.kernels import _simd as simd
from isocapsnet.functional.kernels._simd_rows import dot_each
from isocapsnet.functional.kernels._threads import parallel_ranges

# Windows are summed in this many chunks, added up in order: the result does not depend on the number of threads.
_CHUNKS = 32
# Larger primary capsules have more rows of W than a processor has registers.
_MAX_ROWS = 16


def fits(weight: Tensor) -> bool:
    """Whether the kernels take these weights: a class capsule must fill whole vectors."""
    return weight.shape[-1] * weight.element_size() % simd.VECTOR_BYTES == 0 and weight.shape[-2] <= _MAX_ROWS


def attend(capsules: Tensor, weight: Tensor, leak: bool, context: Tensor | None, grad: Tensor | None = None) -> Tensor:
    """Σ α û over windows, with α the softmax of û·context over classes; or the gradient for the context.

    Parameters
    ----------
    capsules : Tensor (n_graphs, n_windows, primary_size)
    weight : Tensor (n_classes, n_windows, primary_size, capsule_size)
    leak : bool
        Whether the softmax has an additional logit of 0.
    context : Tensor (n_graphs, n_classes, capsule_size), optional
        Without one, all logits are zero.
    grad : Tensor (n_graphs, n_classes, capsule_size), optional
        Gradient of a loss for Σ α û. With it, the result is the gradient for the context, Σ (∂loss/∂logit) û.

    Returns
    -------
    Tensor (n_graphs, n_classes, capsule_size)
    """
    n_classes, size = len(weight), weight.shape[-1]
    sums = weight.new_empty(_CHUNKS, len(capsules), n_classes, size)
    none = sums.new_empty(0, n_classes, size)
    arguments = (
        *_arrays(capsules, weight, leak),
        _padded(none if context is None else context),
        _padded(none if grad is None else grad),
        sums.flatten(1).numpy(),
    )
    parallel_ranges(lambda start, stop: _attend(*arguments, start, stop), _CHUNKS)
    return sums.sum(dim=0)


def scatter(capsules: Tensor, weight: Tensor, leak: bool, contexts: Tensor, grads: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients for capsules and weights, of all iterations at once.

    ``contexts`` and ``grads`` ``(n_iterations, n_graphs, n_classes, capsule_size)`` are the context of each iteration,
    zero in the first, and the gradient for its Σ α û. Other arguments are those of :func:`attend`.
    """
    grad_capsules, grad_weight = torch.empty_like(capsules), torch.empty_like(weight)
    arguments = (
        *_arrays(capsules, weight, leak),
        np.concatenate([_padded(context) for context in contexts]),
        np.concatenate([_padded(grad) for grad in grads]),
        len(contexts),
        grad_capsules.numpy(),
        grad_weight.flatten().numpy(),
    )
    parallel_ranges(lambda start, stop: _scatter(*arguments, start, stop), capsules.shape[1])
    return grad_capsules, grad_weight


def _arrays(capsules: Tensor, weight: Tensor, leak: bool) -> tuple[Any, Any, Any, Any, Any, Any]:
    """What both kernels begin with; tuples tell the compiler by their lengths rows of W and vectors per capsule."""
    simd.forget_stale_code()
    n_parts = weight.shape[-1] * weight.element_size() // simd.VECTOR_BYTES
    return capsules.numpy(), weight.flatten().numpy(), len(weight), leak, (None,) * weight.shape[2], (None,) * n_parts


def _padded(tensor: Tensor) -> np.ndarray:
    """Flat, with zeros for as many more graphs as fill the last vector of graphs."""
    lanes = simd.VECTOR_BYTES // tensor.element_size()
    return torch.nn.functional.pad(tensor, [0, 0, 0, 0, 0, -len(tensor) % lanes]).flatten().numpy()


@njit(cache=True, nogil=True)
def _attend(
    capsules: Any,
    weight: Any,
    n_classes: int,
    leak: bool,
    rows: Any,
    split: Any,
    context: Any,
    grad: Any,
    sums: Any,
    start: int,
    stop: int,
) -> None:
    n_graphs, n_windows, _ = capsules.shape
    lanes, parts = simd.lanes(weight), len(split)
    votes = simd.empty(n_classes * lanes * parts, weight)
    votes[:] = 0  # lanes without a graph are computed with, though never used
    coupling, slope = simd.empty(n_classes, weight), simd.empty(n_classes, weight)
    factors = slope if len(grad) > 0 else coupling
    for chunk in range(start, stop):
        total = sums[chunk]
        total[:] = 0
        for window in range(n_windows * chunk // len(sums), n_windows * (chunk + 1) // len(sums)):
            for first in range(0, n_graphs, lanes):
                count = min(lanes, n_graphs - first)
                _make_votes(capsules, weight, window, first, count, n_classes, rows, split, votes)
                _couple(context, first, 0, n_classes, leak, split, votes, coupling)
                if len(grad) > 0:
                    _differentiate(grad, first, 0, n_classes, split, votes, coupling, slope)
                for y in range(n_classes):
                    for t in range(count):
                        factor = simd.broadcast(simd.get(factors, y * lanes + t))
                        for i in range(parts):
                            index = ((first + t) * n_classes + y) * parts + i
                            vote = simd.load(votes, (y * lanes + t) * parts + i)
                            simd.store(total, index, simd.fma(factor, vote, simd.load(total, index)))


@njit(cache=True, nogil=True)
def _scatter(
    capsules: Any,
    weight: Any,
    n_classes: int,
    leak: bool,
    rows: Any,
    split: Any,
    contexts: Any,
    grads: Any,
    n_iterations: int,
    grad_capsules: Any,
    grad_weight: Any,
    start: int,
    stop: int,
) -> None:
    n_graphs, n_windows, _ = capsules.shape
    lanes, parts = simd.lanes(weight), len(split)
    n_padded = (n_graphs + lanes - 1) // lanes * lanes
    votes = simd.empty(n_classes * lanes * parts, weight)
    votes[:] = 0
    coupling, slope = simd.empty(n_iterations * n_classes, weight), simd.empty(n_iterations * n_classes, weight)
    values = simd.empty(1, weight)
    zero = simd.broadcast(weight.dtype.type(0.0))
    for window in range(start, stop):
        for y in range(n_classes):
            corner = (y * n_windows + window) * len(rows) * parts
            for i in range(corner, corner + len(rows) * parts):
                simd.store(grad_weight, i, zero)
        for first in range(0, n_graphs, lanes):
            count = min(lanes, n_graphs - first)
            _make_votes(capsules, weight, window, first, count, n_classes, rows, split, votes)
            _couple(contexts[:0], first, 0, n_classes, leak, split, votes, coupling)
            for r in range(1, n_iterations):
                _couple(contexts, r * n_padded + first, r, n_classes, leak, split, votes, coupling)
                _differentiate(grads, r * n_padded + first, r, n_classes, split, votes, coupling, slope)
            # The votes are replaced by their gradient, Σ over iterations of α · grad + slope · context.
            for y in range(n_classes):
                for t in range(count):
                    for i in range(parts):
                        index = ((first + t) * n_classes + y) * parts + i
                        total = simd.broadcast(simd.get(coupling, y * lanes + t)) * simd.load(grads, index)
                        for r in range(1, n_iterations):
                            later = index + r * n_padded * n_classes * parts
                            factor = (r * n_classes + y) * lanes + t
                            alpha, change = simd.get(coupling, factor), simd.get(slope, factor)
                            total = simd.fma(simd.broadcast(alpha), simd.load(grads, later), total)
                            total = simd.fma(simd.broadcast(change), simd.load(contexts, later), total)
                        simd.store(votes, (y * lanes + t) * parts + i, total)
            for row in range(len(rows)):
                total = zero
                for y in range(n_classes):
                    corner = ((y * n_windows + window) * len(rows) + row) * parts
                    for i in range(parts):
                        sums = simd.load(grad_weight, corner + i)
                        for t in range(count):
                            entry = simd.broadcast(capsules[first + t, window, row])
                            sums = simd.fma(entry, simd.load(votes, (y * lanes + t) * parts + i), sums)
                        simd.store(grad_weight, corner + i, sums)
                    total = total + dot_each(votes, y * lanes * parts, weight, corner, 0, split)
                simd.store(values, 0, total)
                for t in range(count):
                    grad_capsules[first + t, window, row] = values[t]


@njit(nogil=True, forceinline=True)
def _make_votes(
    capsules: Any,
    weight: Any,
    window: int,
    first: int,
    count: int,
    n_classes: int,
    rows: Any,
    split: Any,
    votes: Any,
) -> None:
    """û of each graph and class."""
    parts, lanes = len(split), simd.lanes(weight)
    n_windows = capsules.shape[1]
    for y in range(n_classes):
        corner = (y * n_windows + window) * len(rows) * parts
        for i in range(parts):
            for t in range(count):
                own = capsules[first + t, window]
                total = simd.broadcast(simd.get(own, 0)) * simd.load(weight, corner + i)
                for row in range(1, len(rows)):
                    total = simd.fma(
                        simd.broadcast(simd.get(own, row)), simd.load(weight, corner + row * parts + i), total
                    )
                simd.store(votes, (y * lanes + t) * parts + i, total)


@njit(nogil=True, forceinline=True)
def _dot_votes(vectors: Any, y: int, first: int, n_classes: int, split: Any, votes: Any) -> Any:
    """û·x for class ``y``, a graph in every lane; ``vectors`` holds x of all graphs and classes."""
    parts = len(split)
    start = (first * n_classes + y) * parts
    return dot_each(votes, y * simd.lanes(votes) * parts, vectors, start, n_classes * parts, split)


@njit(nogil=True, forceinline=True)
def _couple(
    context: Any, first: int, r: int, n_classes: int, leak: bool, split: Any, votes: Any, coupling: Any
) -> None:
    """The softmax over classes of û·context, or of zeros without a context, a graph in every lane."""
    start = r * n_classes
    if len(context) == 0:
        share = simd.broadcast(coupling.dtype.type(1 / (n_classes + (1 if leak else 0))))
        for y in range(n_classes):
            simd.store(coupling, start + y, share)
        return
    zero = simd.broadcast(coupling.dtype.type(0.0))
    top = zero
    for y in range(n_classes):
        logit = _dot_votes(context, y, first, n_classes, split, votes)
        simd.store(coupling, start + y, logit)
        top = simd.maximum(top, logit) if leak or y > 0 else logit
    total = simd.exp(zero - top) if leak else zero
    for y in range(n_classes):
        share = simd.exp(simd.load(coupling, start + y) - top)
        simd.store(coupling, start + y, share)
        total = total + share
    for y in range(n_classes):
        simd.store(coupling, start + y, simd.load(coupling, start + y) / total)


@njit(nogil=True, forceinline=True)
def _differentiate(
    grad: Any, first: int, r: int, n_classes: int, split: Any, votes: Any, coupling: Any, slope: Any
) -> None:
    """The gradient for the logits of iteration ``r``, α_y (û_y·grad_y - Σ α û·grad)."""
    start = r * n_classes
    mean = simd.broadcast(slope.dtype.type(0.0))
    for y in range(n_classes):
        gain = _dot_votes(grad, y, first, n_classes, split, votes)
        simd.store(slope, start + y, gain)
        mean = simd.fma(simd.load(coupling, start + y), gain, mean)
    for y in range(n_classes):
        simd.store(slope, start + y, simd.load(coupling, start + y) * (simd.load(slope, start + y) - mean))
