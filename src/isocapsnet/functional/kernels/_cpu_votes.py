"""The compiled part of routing on the CPU: votes, couplings and their gradients, a tile of windows at a time.

A tile is a vector of neighbouring windows, one per lane. All kernels begin with what ``Windows.arrays`` of
:mod:`~isocapsnet.functional.kernels.cpu_routing` returns. They alone are kept compiled: Numba cannot read what it kept
for a type of ours that is gone in the next version.

A vote is û = excess · s + base, where s is the sum of the rows of W that a permutation selects, and base is γ times the
sum of all rows. Votes are not computed: û·x = excess · (s·x) + base·x, and Σ α û = Σ (α excess) s + Σ α base. Small
templates have a table of s for every permutation, so that a graph's s is one load.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from isocapsnet.functional.kernels import _simd as simd

# Tiles that are packed at a time, so that both sides are read and written in pieces of some cache lines.
_PACKED = 16


class _Tile(NamedTuple):
    """What the kernels keep of a tile: arrays of vectors.

    Attributes
    ----------
    sums : (n_classes, lanes, n_sums, parts)
        s of every permutation; of large templates that of one graph, with n_sums = 1.
    index : (lanes,)
        The row of ``sums`` of each window for the graph at hand.
    base : (n_classes, lanes, parts)
    columns : (n_classes, parts * lanes)
        ``base`` with a window in every lane.
    coupling : (n_classes,)
        α, a window in every lane.
    slope : (n_classes,)
        The gradient for the logits.
    scaled : (n_classes,)
        One of the two times the excess.
    """

    sums: Any
    index: Any
    base: Any
    columns: Any
    coupling: Any
    slope: Any
    scaled: Any


@njit(cache=True, nogil=True)
def pack_tiles(
    value: Any, permutation: Any, padding: float, n_graphs: int, n_windows: int, excess: Any, packed: Any,
    start: int, stop: int,
) -> None:  # fmt: skip
    """Write the capsules of the tiles ``start`` to ``stop``; lanes without a window get zeros."""
    lanes, gamma = simd.lanes(value), simd.broadcast(padding)
    for first in range(start, stop, _PACKED):
        last = min(first + _PACKED, stop)
        for g in range(n_graphs):
            for number in range(first, last):
                here, window = number * n_graphs + g, number * lanes
                there = g * n_windows + window
                if window + lanes <= n_windows:
                    simd.store(excess, here, simd.load_from(value, there) - gamma)
                    for t in range(lanes):
                        simd.put(packed, here * lanes + t, simd.get(permutation, there + t))
                else:
                    for t in range(lanes):
                        within = window + t < n_windows
                        excess[here * lanes + t] = value[there + t] - padding if within else 0
                        packed[here * lanes + t] = permutation[there + t] if within else 0


@njit(cache=True, nogil=True)
def sum_evenly(
    excess: Any,
    permutation: Any,
    weight: Any,
    padding: float,
    rows: Any,
    shape: Any,
    n_classes: int,
    n_windows: int,
    n_graphs: int,
    sums: Any,
    start: int,
    stop: int,
) -> None:
    """Sum the chunks ``start`` to ``stop`` of tiles with the couplings of zero logits."""
    parts, lanes = len(shape[1]), simd.lanes(weight)
    n_tiles = (n_windows + lanes - 1) // lanes
    tile = _make_tile(weight, n_classes, shape)
    bases = simd.empty(n_classes * parts, weight)
    share = simd.broadcast(weight.dtype.type(1 / (n_classes + 1)))
    for chunk in range(start, stop):
        total = sums[chunk]
        total[:] = 0
        bases[:] = 0
        for number in range(n_tiles * chunk // len(sums), n_tiles * (chunk + 1) // len(sums)):
            _read_tile(weight, number, n_classes, n_windows, padding, shape, tile)
            for y in range(n_classes):
                for t in range(lanes):
                    for i in range(parts):
                        base = simd.load(tile.base, (y * lanes + t) * parts + i)
                        simd.store(bases, y * parts + i, simd.load(bases, y * parts + i) + base)
            for g in range(n_graphs):
                _read_ahead(weight, number + 1, n_windows, n_classes, g, n_graphs, shape)
                here = number * n_graphs + g
                _select(weight, rows, permutation, here, number, n_classes, n_windows, shape, tile)
                for y in range(n_classes):
                    for i in range(parts):
                        index, first = (g * n_classes + y) * parts + i, _first_sum(y, shape, tile.base) + i
                        part = simd.weigh_rows(excess, here, tile.sums, first, tile.index, shape[1])
                        simd.store(total, index, simd.load(total, index) + part)
        for g in range(n_graphs):
            for i in range(n_classes * parts):
                index = g * n_classes * parts + i
                simd.store(total, index, share * (simd.load(total, index) + simd.load(bases, i)))


@njit(cache=True, nogil=True)
def sum_chunks(
    excess: Any,
    permutation: Any,
    weight: Any,
    padding: float,
    rows: Any,
    shape: Any,
    n_classes: int,
    n_windows: int,
    n_graphs: int,
    first_graph: int,
    n_own: int,
    context: Any,
    grad: Any,
    kept: Any,
    place: int,
    n_kept: int,
    is_coupled: bool,
    sums: Any,
    start: int,
    stop: int,
) -> None:
    """Sum the chunks ``start`` to ``stop`` of tiles for ``n_own`` graphs; ``attend`` says what."""
    parts, lanes = len(shape[1]), simd.lanes(weight)
    n_tiles = (n_windows + lanes - 1) // lanes
    tile = _make_tile(weight, n_classes, shape)
    factors = tile.slope if len(grad) > 0 else tile.coupling
    for chunk in range(start, stop):
        total = sums[chunk]
        total[:] = 0
        for number in range(n_tiles * chunk // len(sums), n_tiles * (chunk + 1) // len(sums)):
            _read_tile(weight, number, n_classes, n_windows, padding, shape, tile)
            for g in range(n_own):
                here = number * n_graphs + first_graph + g
                own = simd.load(excess, here)
                _read_ahead(weight, number + 1, n_windows, n_classes, g, n_own, shape)
                _select(weight, rows, permutation, here, number, n_classes, n_windows, shape, tile)
                first_kept = (number * n_own + g) * n_classes * n_kept + place
                if is_coupled:
                    for y in range(n_classes):
                        simd.store(tile.coupling, y, simd.load(kept, first_kept + y * n_kept))
                else:
                    _couple(context, g, own, n_classes, shape, tile)
                    _keep(tile.coupling, n_classes, kept, first_kept, n_kept)
                if len(grad) > 0:
                    _differentiate(grad, g, own, n_classes, shape, tile)
                    _keep(tile.slope, n_classes, kept, first_kept + 1, n_kept)
                for y in range(n_classes):
                    simd.store(tile.scaled, y, own * simd.load(factors, y))
                    for i in range(parts):
                        index, first = (g * n_classes + y) * parts + i, _first_sum(y, shape, tile.base) + i
                        part = simd.weigh_rows(tile.scaled, y, tile.sums, first, tile.index, shape[1])
                        part = part + simd.weigh_rows(factors, y, tile.base, y * lanes * parts + i, None, shape[1])
                        simd.store(total, index, simd.load(total, index) + part)


@njit(cache=True, nogil=True)
def scatter_tiles(
    excess: Any,
    permutation: Any,
    weight: Any,
    padding: float,
    rows: Any,
    shape: Any,
    n_classes: int,
    n_windows: int,
    n_graphs: int,
    first_graph: int,
    n_own: int,
    vectors: Any,
    kept: Any,
    n_terms: int,
    is_first: bool,
    grad_value: Any,
    grad_weight: Any,
    first_written: int,
    n_written: int,
    start: int,
    stop: int,
) -> None:
    """Write and add the gradients of the tiles ``start`` to ``stop`` for ``n_own`` graphs; ``scatter`` says which."""
    k, parts, lanes = len(shape[0]), len(shape[1]), simd.lanes(weight)
    tile = _make_tile(weight, n_classes, shape)
    # The votes' gradients by permutation, or those of one graph; and their sums over graphs.
    targets, to_all_rows = simd.empty(len(tile.sums) // lanes, weight), simd.empty(n_classes * lanes * parts, weight)
    lane_values = simd.empty(1, weight)
    share = weight.dtype.type(1 / (n_classes + 1))
    for number in range(start, stop):
        first_window = number * lanes
        place = first_window - first_written  # in the gradient for the weights
        count = min(lanes, n_windows - first_window)
        _read_tile(weight, number, n_classes, n_windows, padding, shape, tile)
        targets[:] = 0
        to_all_rows[:] = 0
        if is_first:
            for y in range(n_classes):
                row = (y * n_written + place) * k * k * parts
                for index in range(row, row + count * k * k * parts):
                    simd.store(grad_weight, index, simd.broadcast(weight.dtype.type(0.0)))
        for g in range(n_own):
            here = number * n_graphs + first_graph + g
            _read_ahead(weight, number + 1, n_windows, n_classes, g, n_own, shape)
            _read_ahead(grad_weight, place // lanes, n_written, n_classes, g, n_own, shape)
            _select(weight, rows, permutation, here, number, n_classes, n_windows, shape, tile)
            to_values = simd.broadcast(weight.dtype.type(0.0))
            for y in range(n_classes):
                first, of_class = _first_sum(y, shape, tile.base), (y * n_written + place) * k * k
                to_values = to_values + simd.spread_vectors(
                    share, vectors, (g * n_classes + y) * n_terms * parts,
                    kept, ((number * n_own + g) * n_classes + y) * (n_terms - 1), n_terms,
                    to_all_rows, y * lanes * parts, excess, here,
                    tile.sums, first, tile.index, targets, shape[0], shape[1],
                )  # fmt: skip
                if k > simd.SUMMED:
                    for t in range(count):
                        own = simd.broadcast(simd.get(excess, here * lanes + t))
                        chosen = simd.get(permutation, here * lanes + t) * k
                        for i in range(parts):
                            scaled = own * simd.load(targets, t * parts + i)
                            for a in range(k):
                                index = (of_class + t * k * k + simd.get(rows, chosen + a)) * parts + i
                                simd.store(grad_weight, index, simd.load(grad_weight, index) + scaled)
            simd.store(lane_values, 0, to_values)
            for t in range(count):
                grad_value[first_graph + g, first_window + t] = lane_values[t]
        for y in range(n_classes):
            for t in range(count):
                row = (y * n_written + place + t) * k * k * parts
                for i in range(parts):
                    shared = simd.broadcast(padding) * simd.load(to_all_rows, (y * lanes + t) * parts + i)
                    for index in range(row + i, row + k * k * parts + i, parts):
                        simd.store(grad_weight, index, simd.load(grad_weight, index) + shared)
                of_window = _first_sum(y, shape, tile.base) + t * _n_sums(shape) * parts
                simd.add_by_permutation(targets, of_window, grad_weight, row, shape[0], shape[1])


@njit(nogil=True)
def _make_tile(like: Any, n_classes: int, shape: Any) -> Any:
    parts, lanes = len(shape[1]), simd.lanes(like)
    return _Tile(
        simd.empty(n_classes * lanes * _n_sums(shape) * parts, like),
        np.arange(lanes),
        simd.empty(n_classes * lanes * parts, like),
        simd.empty(n_classes * lanes * parts, like),
        simd.empty(n_classes, like),
        simd.empty(n_classes, like),
        simd.empty(n_classes, like),
    )


@njit(nogil=True, forceinline=True)
def _n_sums(shape: Any) -> int:
    """Sums of each window in a tile: of all permutations of small templates, otherwise of one."""
    k = len(shape[0])
    return (1, 1, 2, 6, 24)[k] if k <= simd.SUMMED else 1


@njit(nogil=True, forceinline=True)
def _first_sum(y: int, shape: Any, like: Any) -> int:
    """The first vector of class ``y`` in the sums of a tile."""
    return y * simd.lanes(like) * _n_sums(shape) * len(shape[1])


@njit(nogil=True, forceinline=True)
def _read_tile(weight: Any, number: int, n_classes: int, n_windows: int, padding: float, shape: Any, tile: Any) -> None:
    """Compute bases and, of small templates, the sums of all permutations."""
    k, parts, lanes = len(shape[0]), len(shape[1]), simd.lanes(weight)
    n_sums = _n_sums(shape)
    count = min(lanes, n_windows - number * lanes)
    if count < lanes:  # lanes without a window have no weights
        tile.base[:] = 0
        tile.sums[:] = 0
    for y in range(n_classes):
        for t in range(count):
            start = (y * n_windows + number * lanes + t) * k * k * parts
            for i in range(parts):
                target = (y * lanes + t) * n_sums * parts + i
                total = simd.sum_by_permutation(weight, start + i, tile.sums, target, shape[0], shape[1])
                simd.store(tile.base, (y * lanes + t) * parts + i, simd.broadcast(padding) * total)
        for i in range(parts):
            first = y * lanes * parts + i
            simd.transpose(tile.base, first, tile.columns, (y * parts + i) * lanes, shape[1])


@njit(nogil=True, forceinline=True)
def _read_ahead(array: Any, number: int, n_windows: int, n_classes: int, g: int, n_graphs: int, shape: Any) -> None:
    """Ask for graph ``g``'s share of the weights of a tile, so that all have come when the last graph is done."""
    n_vectors = simd.lanes(array) * len(shape[0]) ** 2 * len(shape[1])
    for y in range(n_classes):
        start = (y * n_windows + number * simd.lanes(array)) * len(shape[0]) ** 2 * len(shape[1])
        for i in range(n_vectors * g // n_graphs, n_vectors * (g + 1) // n_graphs):
            simd.prefetch(array, start + i)


@njit(nogil=True, forceinline=True)
def _select(
    weight: Any,
    rows: Any,
    permutation: Any,
    here: int,
    number: int,
    n_classes: int,
    n_windows: int,
    shape: Any,
    tile: Any,
) -> None:
    """Find the sums of selected rows of the graph and tile ``here`` in the table, or compute them."""
    k, parts, lanes = len(shape[0]), len(shape[1]), simd.lanes(weight)
    if k <= simd.SUMMED:
        for t in range(lanes):
            simd.put(tile.index, t, t * _n_sums(shape) + simd.get(permutation, here * lanes + t))
        return
    first_window = number * lanes
    for t in range(min(lanes, n_windows - first_window)):
        chosen = simd.get(permutation, here * lanes + t) * k
        for y in range(n_classes):
            corner = (y * n_windows + first_window + t) * k * k
            for i in range(parts):
                total = simd.load(weight, (corner + simd.get(rows, chosen)) * parts + i)
                for a in range(1, k):
                    total = total + simd.load(weight, (corner + simd.get(rows, chosen + a)) * parts + i)
                simd.store(tile.sums, (y * lanes + t) * parts + i, total)


@njit(nogil=True, forceinline=True)
def _dot_votes(vectors: Any, g: int, y: int, own: Any, n_classes: int, shape: Any, tile: Any) -> Any:
    """û·x for class ``y``, a window in every lane; ``vectors`` holds x of all graphs and classes."""
    parts, lanes = len(shape[1]), simd.lanes(vectors)
    first = (g * n_classes + y) * parts
    of_sums = simd.dot_rows(tile.sums, _first_sum(y, shape, tile.base), tile.index, vectors, first, 0, shape[1])
    of_base = simd.dot_columns(tile.columns, y * lanes * parts, vectors, first, shape[1])
    return simd.fma(own, of_sums, of_base)


@njit(nogil=True, forceinline=True)
def _couple(context: Any, g: int, own: Any, n_classes: int, shape: Any, tile: Any) -> None:
    """The leaky softmax over classes of û·context."""
    coupling = tile.coupling
    zero = simd.broadcast(coupling.dtype.type(0.0))
    top = zero
    for y in range(n_classes):
        logit = _dot_votes(context, g, y, own, n_classes, shape, tile)
        simd.store(coupling, y, logit)
        top = simd.maximum(top, logit)
    total = simd.exp(zero - top)
    for y in range(n_classes):
        exponential = simd.exp(simd.load(coupling, y) - top)
        simd.store(coupling, y, exponential)
        total = total + exponential
    for y in range(n_classes):
        simd.store(coupling, y, simd.load(coupling, y) / total)


@njit(nogil=True, forceinline=True)
def _keep(factors: Any, n_classes: int, kept: Any, first: int, step: int) -> None:
    """Keep the factors of all classes, if there is room for them."""
    if len(kept) > 0:
        for y in range(n_classes):
            simd.stream(kept, first + y * step, simd.load(factors, y))


@njit(nogil=True, forceinline=True)
def _differentiate(grad: Any, g: int, own: Any, n_classes: int, shape: Any, tile: Any) -> None:
    """The gradient for the logits, α_y (û_y·grad_y - Σ α û·grad)."""
    coupling, slope = tile.coupling, tile.slope
    mean = simd.broadcast(slope.dtype.type(0.0))
    for y in range(n_classes):
        gain = _dot_votes(grad, g, y, own, n_classes, shape, tile)
        simd.store(slope, y, gain)
        mean = simd.fma(simd.load(coupling, y), gain, mean)
    for y in range(n_classes):
        simd.store(slope, y, simd.load(coupling, y) * (simd.load(slope, y) - mean))
