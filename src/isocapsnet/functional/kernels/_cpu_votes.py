"""The compiled part of routing on the CPU: votes, couplings and their gradients, window by window.

Both kernels begin with what ``Windows.arrays`` of :mod:`~isocapsnet.functional.kernels.cpu_routing` returns. They alone
are kept compiled: Numba cannot read what it kept for a type of ours that is gone in the next version.
"""

from typing import Any, NamedTuple

from numba import njit

from isocapsnet.functional.kernels import _simd as simd


class _Block(NamedTuple):
    """What the kernels keep of a vector of graphs at one window: arrays of vectors.

    Attributes
    ----------
    base : (n_classes, parts)
        γ times the sum of all rows of W.
    selected : (n_classes, lanes, parts)
        The sum of the rows of W that each graph's permutation selects; empty where it is not needed.
    votes : (n_classes, lanes, parts)
    coupling : (n_iterations, n_classes)
        α, a graph in every lane.
    slope : (n_iterations, n_classes)
        The gradient for the logits, a graph in every lane.
    """

    base: Any
    selected: Any
    votes: Any
    coupling: Any
    slope: Any


@njit(cache=True, nogil=True)
def attend_chunks(
    excess: Any,
    permutation: Any,
    weight: Any,
    padding: float,
    rows: Any,
    shape: Any,
    n_classes: int,
    context: Any,
    grad: Any,
    sums: Any,
    start: int,
    stop: int,
) -> None:
    """Sum the chunks ``start`` to ``stop`` of windows; ``attend`` says what."""
    n_windows, n_graphs = excess.shape
    lanes, parts = simd.lanes(weight), len(shape[1])
    block = _make_block(weight, n_classes, 1, parts, 0)
    factors = block.slope if len(grad) > 0 else block.coupling
    for chunk in range(start, stop):
        total = sums[chunk]
        total[:] = 0
        for window in range(n_windows * chunk // len(sums), n_windows * (chunk + 1) // len(sums)):
            own = excess[window]
            _sum_rows(weight, window, n_windows, padding, shape, block)
            for first in range(0, n_graphs, lanes):
                count = min(lanes, n_graphs - first)
                _make_votes(weight, rows, permutation[window], own, window, n_windows, first, count, shape, block)
                if len(context) > 0:
                    _couple(context, first, 0, shape, block)
                else:
                    _couple_evenly(n_classes, block)
                if len(grad) > 0:
                    _differentiate(grad, first, 0, shape, block)
                for y in range(n_classes):
                    for t in range(count):
                        factor = simd.broadcast(simd.get(factors, y * lanes + t))
                        for i in range(parts):
                            index = ((first + t) * n_classes + y) * parts + i
                            vote = simd.load(block.votes, (y * lanes + t) * parts + i)
                            simd.store(total, index, simd.fma(factor, vote, simd.load(total, index)))


@njit(cache=True, nogil=True)
def scatter_windows(
    excess: Any,
    permutation: Any,
    weight: Any,
    padding: float,
    rows: Any,
    shape: Any,
    n_classes: int,
    contexts: Any,
    grads: Any,
    n_iterations: int,
    grad_value: Any,
    grad_weight: Any,
    start: int,
    stop: int,
) -> None:
    """The gradients of the windows ``start`` to ``stop``; ``scatter`` says which."""
    n_windows, n_graphs = excess.shape
    n_rows, lanes, parts = len(shape[0]) ** 2, simd.lanes(weight), len(shape[1])
    block = _make_block(weight, n_classes, n_iterations, parts, n_classes * lanes * parts)
    n_padded = (n_graphs + lanes - 1) // lanes * lanes
    to_all_rows = simd.empty(n_classes * parts, weight)
    lane_values = simd.empty(1, weight)
    for window in range(start, stop):
        own = excess[window]
        _sum_rows(weight, window, n_windows, padding, shape, block)
        to_all_rows[:] = 0
        for y in range(n_classes):
            start_of_class = (y * n_windows + window) * n_rows * parts
            for i in range(start_of_class, start_of_class + n_rows * parts):
                simd.store(grad_weight, i, simd.broadcast(weight.dtype.type(0.0)))
        for first in range(0, n_graphs, lanes):
            count = min(lanes, n_graphs - first)
            _make_votes(weight, rows, permutation[window], own, window, n_windows, first, count, shape, block)
            _couple_evenly(n_classes, block)
            for r in range(1, n_iterations):
                _couple(contexts, r * n_padded + first, r, shape, block)
                _differentiate(grads, r * n_padded + first, r, shape, block)
            _differentiate_votes(contexts, grads, first, n_padded, n_iterations, count, shape, block)
            _scatter_block(
                grad_weight, rows, permutation[window], own, window, n_windows, first, count, shape, block, to_all_rows
            )
            total = simd.broadcast(weight.dtype.type(0.0))
            for y in range(n_classes):
                offset = y * lanes * parts
                total = total + simd.dot_each(block.selected, offset, block.votes, offset, parts, shape[1])
            simd.store(lane_values, 0, total)
            for t in range(count):
                grad_value[window, first + t] = lane_values[t]
        for y in range(n_classes):
            for i in range(parts):
                shared = simd.broadcast(padding) * simd.load(to_all_rows, y * parts + i)
                for row in range(n_rows):
                    index = ((y * n_windows + window) * n_rows + row) * parts + i
                    simd.store(grad_weight, index, simd.load(grad_weight, index) + shared)


@njit(nogil=True)
def _make_block(like: Any, n_classes: int, n_iterations: int, parts: int, n_selected: int) -> Any:
    votes = simd.empty(n_classes * simd.lanes(like) * parts, like)
    votes[:] = 0  # lanes without a graph are computed with, though never used
    return _Block(
        simd.empty(n_classes * parts, like),
        simd.empty(n_selected, like),
        votes,
        simd.empty(n_iterations * n_classes, like),
        simd.empty(n_iterations * n_classes, like),
    )


@njit(nogil=True, forceinline=True)
def _sum_rows(weight: Any, window: int, n_windows: int, padding: float, shape: Any, block: Any) -> None:
    """γ times the sum of all rows of W, for every class."""
    n_rows, parts = len(shape[0]) ** 2, len(shape[1])
    for y in range(len(block.base) // parts // simd.lanes(weight)):
        for i in range(parts):
            index = (y * n_windows + window) * n_rows * parts + i
            total = simd.load(weight, index)
            for row in range(1, n_rows):
                total = total + simd.load(weight, index + row * parts)
            simd.store(block.base, y * parts + i, simd.broadcast(padding) * total)


@njit(nogil=True, forceinline=True)
def _make_votes(
    weight: Any,
    rows: Any,
    permutation: Any,
    excess: Any,
    window: int,
    n_windows: int,
    first: int,
    count: int,
    shape: Any,
    block: Any,
) -> None:
    """The sum of the selected rows of W and the vote of each graph, for every class."""
    k, parts, lanes = len(shape[0]), len(shape[1]), simd.lanes(weight)
    for y in range(len(block.base) // parts // lanes):
        corner = (y * n_windows + window) * k * k
        for t in range(count):
            chosen = rows[simd.get(permutation, first + t)]
            high = simd.broadcast(simd.get(excess, first + t))
            for i in range(parts):
                total = simd.load(weight, (corner + simd.get(chosen, 0)) * parts + i)
                for a in range(1, k):
                    total = total + simd.load(weight, (corner + simd.get(chosen, a)) * parts + i)
                index = (y * lanes + t) * parts + i
                if len(block.selected) > 0:
                    simd.store(block.selected, index, total)
                simd.store(block.votes, index, simd.fma(high, total, simd.load(block.base, y * parts + i)))


@njit(nogil=True, forceinline=True)
def _dot_votes(vectors: Any, y: int, first: int, n_classes: int, shape: Any, block: Any) -> Any:
    """û·x for class ``y``, a graph in every lane; ``vectors`` holds x of all graphs and classes."""
    parts = len(shape[1])
    start = (first * n_classes + y) * parts
    return simd.dot_each(block.votes, y * simd.lanes(block.votes) * parts, vectors, start, n_classes * parts, shape[1])


@njit(nogil=True, forceinline=True)
def _couple_evenly(n_classes: int, block: Any) -> None:
    """The leaky softmax of zeros, of the first iteration."""
    for y in range(n_classes):
        simd.store(block.coupling, y, simd.broadcast(block.coupling.dtype.type(1 / (n_classes + 1))))


@njit(nogil=True, forceinline=True)
def _couple(context: Any, first: int, r: int, shape: Any, block: Any) -> None:
    """The leaky softmax over classes of û·context in iteration ``r``; ``first`` counts graphs over all iterations."""
    n_classes = len(block.base) // len(shape[1]) // simd.lanes(block.base)
    coupling, start = block.coupling, r * n_classes
    zero = simd.broadcast(coupling.dtype.type(0.0))
    top = zero
    for y in range(n_classes):
        logit = _dot_votes(context, y, first, n_classes, shape, block)
        simd.store(coupling, start + y, logit)
        top = simd.maximum(top, logit)
    total = simd.exp(zero - top)
    for y in range(n_classes):
        share = simd.exp(simd.load(coupling, start + y) - top)
        simd.store(coupling, start + y, share)
        total = total + share
    for y in range(n_classes):
        simd.store(coupling, start + y, simd.load(coupling, start + y) / total)


@njit(nogil=True, forceinline=True)
def _differentiate(grad: Any, first: int, r: int, shape: Any, block: Any) -> None:
    """The gradient for the logits of iteration ``r``, α_y (û_y·grad_y - Σ α û·grad)."""
    n_classes = len(block.base) // len(shape[1]) // simd.lanes(block.base)
    coupling, slope, start = block.coupling, block.slope, r * n_classes
    mean = simd.broadcast(slope.dtype.type(0.0))
    for y in range(n_classes):
        gain = _dot_votes(grad, y, first, n_classes, shape, block)
        simd.store(slope, start + y, gain)
        mean = simd.fma(simd.load(coupling, start + y), gain, mean)
    for y in range(n_classes):
        simd.store(slope, start + y, simd.load(coupling, start + y) * (simd.load(slope, start + y) - mean))


@njit(nogil=True, forceinline=True)
def _differentiate_votes(
    contexts: Any, grads: Any, first: int, n_padded: int, n_iterations: int, count: int, shape: Any, block: Any
) -> None:
    """Overwrite the votes with their gradient, Σ over iterations of α · grad + slope · context."""
    parts, lanes = len(shape[1]), simd.lanes(block.votes)
    n_classes = len(block.base) // parts // lanes
    for y in range(n_classes):
        for t in range(count):
            for i in range(parts):
                index = ((first + t) * n_classes + y) * parts + i
                total = simd.broadcast(simd.get(block.coupling, y * lanes + t)) * simd.load(grads, index)
                for r in range(1, n_iterations):
                    later = index + r * n_padded * n_classes * parts
                    factor = (r * n_classes + y) * lanes + t
                    alpha, slope = simd.get(block.coupling, factor), simd.get(block.slope, factor)
                    total = simd.fma(simd.broadcast(alpha), simd.load(grads, later), total)
                    total = simd.fma(simd.broadcast(slope), simd.load(contexts, later), total)
                simd.store(block.votes, (y * lanes + t) * parts + i, total)


@njit(nogil=True, forceinline=True)
def _scatter_block(
    grad_weight: Any,
    rows: Any,
    permutation: Any,
    excess: Any,
    window: int,
    n_windows: int,
    first: int,
    count: int,
    shape: Any,
    block: Any,
    to_all_rows: Any,
) -> None:
    """Add the votes' gradient to the rows that were selected, and to the sum that goes to all rows."""
    k, parts, lanes = len(shape[0]), len(shape[1]), simd.lanes(grad_weight)
    for y in range(len(to_all_rows) // parts // lanes):
        corner = (y * n_windows + window) * k * k
        for i in range(parts):
            total = simd.load(to_all_rows, y * parts + i)
            for t in range(count):
                chosen = rows[simd.get(permutation, first + t)]
                gradient = simd.load(block.votes, (y * lanes + t) * parts + i)
                total = total + gradient
                scaled = simd.broadcast(simd.get(excess, first + t)) * gradient
                for a in range(k):
                    index = (corner + simd.get(chosen, a)) * parts + i
                    simd.store(grad_weight, index, simd.load(grad_weight, index) + scaled)
            simd.store(to_all_rows, y * parts + i, total)
