"""Routing of capsules of any entries with a weight matrix per window, fused: votes are made where they are used.

The lanes of a vector are graphs. The capsules of some graphs at a window stay in registers while the entries of W pass
by, and dot products over the entries of a class capsule need no sums across lanes.
"""

from typing import Any

import torch
from numba import njit
from torch import Tensor

from isocapsnet.functional.kernels import _simd as simd
from isocapsnet.functional.kernels._simd_rows import combine
from isocapsnet.functional.kernels._threads import parallel_ranges

# Windows are summed in this many chunks, added up in order: the result does not depend on the number of threads.
_CHUNKS = 32
# Larger primary capsules have more rows than a processor has registers.
_MAX_ROWS = 16


def fits(weight: Tensor) -> bool:
    """Whether the kernels take these weights: a class capsule must fill whole vectors."""
    return weight.shape[-1] * weight.element_size() % simd.VECTOR_BYTES == 0 and weight.shape[-2] <= _MAX_ROWS


def pack(tensor: Tensor) -> Tensor:
    """From ``(n_graphs, n, size)`` to ``(n, n_groups, size, lanes)``: a graph in every lane, zeros after the last."""
    lanes = simd.VECTOR_BYTES // tensor.element_size()
    padded = torch.nn.functional.pad(tensor, [0, 0, 0, 0, 0, -len(tensor) % lanes])
    return padded.unflatten(0, (-1, lanes)).permute(2, 0, 3, 1).contiguous()


def unpack(packed: Tensor, n_graphs: int) -> Tensor:
    """The reverse of :func:`pack`."""
    return packed.permute(1, 3, 0, 2).flatten(0, 1)[:n_graphs].contiguous()


def attend(capsules: Tensor, weight: Tensor, leak: bool, context: Tensor | None, grad: Tensor | None = None) -> Tensor:
    """Σ α û over windows, with α the softmax of û·context over classes; or the gradient for the context.

    Parameters
    ----------
    capsules : Tensor (n_windows, n_groups, primary_size, lanes)
        Those of :func:`pack`.
    weight : Tensor (n_classes, n_windows, primary_size, capsule_size)
    leak : bool
        Whether the softmax has an additional logit of 0.
    context : Tensor (n_classes, n_groups, capsule_size, lanes), optional
        Without one, all logits are zero.
    grad : Tensor (n_classes, n_groups, capsule_size, lanes), optional
        Gradient of a loss for Σ α û. With it, the result is the gradient for the context, Σ (∂loss/∂logit) û.

    Returns
    -------
    Tensor (n_classes, n_groups, capsule_size, lanes)
    """
    n_groups, lanes = capsules.shape[1], capsules.shape[-1]
    sums = weight.new_empty(_CHUNKS, len(weight), n_groups, weight.shape[-1], lanes)
    none = sums.new_empty(0).numpy()
    arguments = (
        *_arrays(capsules, weight, leak),
        none if context is None else context.flatten().numpy(),
        none if grad is None else grad.flatten().numpy(),
        sums.flatten(1).numpy(),
    )
    parallel_ranges(lambda start, stop: _attend(*arguments, start, stop), _CHUNKS)
    return sums.sum(dim=0)


def scatter(capsules: Tensor, weight: Tensor, leak: bool, contexts: Tensor, grads: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients for capsules and weights, of all iterations at once.

    ``contexts`` and ``grads`` ``(n_iterations, n_classes, n_groups, capsule_size, lanes)`` are the context of each
    iteration, zero in the first, and the gradient for its Σ α û. Other arguments are those of :func:`attend`.
    """
    grad_capsules, grad_weight = torch.empty_like(capsules), torch.empty_like(weight)
    arguments = (
        *_arrays(capsules, weight, leak),
        contexts.flatten().numpy(),
        grads.flatten().numpy(),
        len(contexts),
        grad_capsules.flatten().numpy(),
        grad_weight.flatten().numpy(),
    )
    parallel_ranges(lambda start, stop: _scatter(*arguments, start, stop), len(capsules))
    return grad_capsules, grad_weight


def _arrays(capsules: Tensor, weight: Tensor, leak: bool) -> tuple[Any, Any, int, int, int, bool, Any]:
    """What both kernels begin with; tuples tell the compiler by their lengths rows and entries of W, and lanes."""
    n_windows, n_groups, n_rows, lanes = capsules.shape
    shape = (None,) * n_rows, (None,) * weight.shape[-1], (None,) * lanes
    return capsules.flatten().numpy(), weight.flatten().numpy(), len(weight), n_windows, n_groups, leak, shape


@njit(cache=True, nogil=True)
def _attend(
    capsules: Any,
    weight: Any,
    n_classes: int,
    n_windows: int,
    n_groups: int,
    leak: bool,
    shape: Any,
    context: Any,
    grad: Any,
    sums: Any,
    start: int,
    stop: int,
) -> None:
    n_rows, size = len(shape[0]), len(shape[1])
    votes = simd.empty(n_classes * size, weight)
    coupling, slope = simd.empty(n_classes, weight), simd.empty(n_classes, weight)
    factors = slope if len(grad) > 0 else coupling
    for chunk in range(start, stop):
        total = sums[chunk]
        total[:] = 0
        for window in range(n_windows * chunk // len(sums), n_windows * (chunk + 1) // len(sums)):
            for group in range(n_groups):
                own = (window * n_groups + group) * n_rows
                if len(context) == 0:
                    for y in range(n_classes):
                        corner, index = (y * n_windows + window) * n_rows * size, (y * n_groups + group) * size
                        combine(weight, corner, 1, size, capsules, own, 1, shape[0], size, total, index, 1, True)
                    continue
                _make_votes(capsules, weight, window, own, n_classes, n_windows, shape, votes)
                _couple(context, group, 0, n_classes, n_groups, leak, shape, votes, coupling)
                if len(grad) > 0:
                    _differentiate(grad, group, 0, n_classes, n_groups, shape, votes, coupling, slope)
                for y in range(n_classes):
                    factor, index = simd.load(factors, y), (y * n_groups + group) * size
                    for d in range(size):
                        vote = simd.load(votes, y * size + d)
                        simd.store(total, index + d, simd.fma(factor, vote, simd.load(total, index + d)))
        if len(context) == 0:
            share = simd.broadcast(weight.dtype.type(1 / (n_classes + (1 if leak else 0))))
            for index in range(n_classes * n_groups * size):
                simd.store(total, index, share * simd.load(total, index))


@njit(cache=True, nogil=True)
def _scatter(
    capsules: Any,
    weight: Any,
    n_classes: int,
    n_windows: int,
    n_groups: int,
    leak: bool,
    shape: Any,
    contexts: Any,
    grads: Any,
    n_iterations: int,
    grad_capsules: Any,
    grad_weight: Any,
    start: int,
    stop: int,
) -> None:
    n_rows, size, lanes = len(shape[0]), len(shape[1]), len(shape[2])
    parts = size // lanes
    votes, square = simd.empty(n_classes * size, weight), simd.empty(lanes, weight)
    coupling, slope = simd.empty(n_iterations * n_classes, weight), simd.empty(n_iterations * n_classes, weight)
    zero = simd.broadcast(weight.dtype.type(0.0))
    share = simd.broadcast(weight.dtype.type(1 / (n_classes + (1 if leak else 0))))
    for window in range(start, stop):
        for y in range(n_classes):
            corner = (y * n_windows + window) * n_rows * parts
            for i in range(corner, corner + n_rows * parts):
                simd.store(grad_weight, i, zero)
        for group in range(n_groups):
            own = (window * n_groups + group) * n_rows
            for i in range(own, own + n_rows):
                simd.store(grad_capsules, i, zero)
            _make_votes(capsules, weight, window, own, n_classes, n_windows, shape, votes)
            for r in range(1, n_iterations):
                _couple(contexts, group, r, n_classes, n_groups, leak, shape, votes, coupling)
                _differentiate(grads, group, r, n_classes, n_groups, shape, votes, coupling, slope)
            for y in range(n_classes):
                # The votes are replaced by their gradient, Σ over iterations of α · grad + slope · context.
                first, index = y * size, (y * n_groups + group) * size
                for d in range(size):
                    simd.store(votes, first + d, share * simd.load(grads, index + d))
                for r in range(1, n_iterations):
                    alpha, change = simd.load(coupling, r * n_classes + y), simd.load(slope, r * n_classes + y)
                    later = index + r * n_classes * n_groups * size
                    for d in range(size):
                        total = simd.fma(alpha, simd.load(grads, later + d), simd.load(votes, first + d))
                        total = simd.fma(change, simd.load(contexts, later + d), total)
                        simd.store(votes, first + d, total)
                corner = (y * n_windows + window) * n_rows * size
                combine(weight, corner, size, 1, votes, first, 1, shape[1], n_rows, grad_capsules, own, 1, True)
                for part in range(parts):
                    simd.transpose(votes, first + part * lanes, square, 0, (None,))
                    target = corner // lanes + part
                    combine(
                        capsules,
                        own * lanes,
                        lanes,
                        1,
                        square,
                        0,
                        1,
                        shape[2],
                        n_rows,
                        grad_weight,
                        target,
                        parts,
                        True,
                    )


@njit(nogil=True, forceinline=True)
def _make_votes(
    capsules: Any, weight: Any, window: int, own: int, n_classes: int, n_windows: int, shape: Any, votes: Any
) -> None:
    """û of every class, an entry of it in each vector."""
    n_rows, size = len(shape[0]), len(shape[1])
    for y in range(n_classes):
        corner = (y * n_windows + window) * n_rows * size
        combine(weight, corner, 1, size, capsules, own, 1, shape[0], size, votes, y * size, 1, None)


@njit(nogil=True, forceinline=True)
def _dot_votes(vectors: Any, start: int, votes: Any, first: int, shape: Any) -> Any:
    """û·x for the class whose votes begin at ``first``; x begins at vector ``start``. Four sums do not wait."""
    zero = simd.broadcast(votes.dtype.type(0.0))
    a, b, c, d = zero, zero, zero, zero
    for i in range(0, len(shape[1]), 4):
        a = simd.fma(simd.load(votes, first + i), simd.load(vectors, start + i), a)
        b = simd.fma(simd.load(votes, first + i + 1), simd.load(vectors, start + i + 1), b)
        c = simd.fma(simd.load(votes, first + i + 2), simd.load(vectors, start + i + 2), c)
        d = simd.fma(simd.load(votes, first + i + 3), simd.load(vectors, start + i + 3), d)
    return (a + b) + (c + d)


@njit(nogil=True, forceinline=True)
def _couple(
    context: Any,
    group: int,
    r: int,
    n_classes: int,
    n_groups: int,
    leak: bool,
    shape: Any,
    votes: Any,
    coupling: Any,
) -> None:
    """The softmax over classes of û·context of iteration ``r``."""
    start, size = r * n_classes, len(shape[1])
    zero = simd.broadcast(coupling.dtype.type(0.0))
    top = zero
    for y in range(n_classes):
        logit = _dot_votes(context, ((start + y) * n_groups + group) * size, votes, y * size, shape)
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
    grad: Any, group: int, r: int, n_classes: int, n_groups: int, shape: Any, votes: Any, coupling: Any, slope: Any
) -> None:
    """The gradient for the logits of iteration ``r``, α_y (û_y·grad_y - Σ α û·grad)."""
    start, size = r * n_classes, len(shape[1])
    mean = simd.broadcast(slope.dtype.type(0.0))
    for y in range(n_classes):
        gain = _dot_votes(grad, ((start + y) * n_groups + group) * size, votes, y * size, shape)
        simd.store(slope, start + y, gain)
        mean = simd.fma(simd.load(coupling, start + y), gain, mean)
    for y in range(n_classes):
        simd.store(slope, start + y, simd.load(coupling, start + y) * (simd.load(slope, start + y) - mean))
