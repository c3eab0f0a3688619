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
def pack_tiles(value: Any, permutation: Any, padding: float, excess: Any, packed: Any, start: int, stop: int) -> None:
    """Write the capsules of the tiles ``start`` to ``stop``; lanes without a window get zeros."""
    n_graphs, n_windows = value.shape
    lanes = excess.shape[2]
    for tile in range(start, stop):
        count = min(lanes, n_windows - tile * lanes)
        for g in range(n_graphs):
            for t in range(count):
                excess[tile, g, t] = value[g, tile * lanes + t] - padding
                packed[tile, g, t] = permutation[g, tile * lanes + t]
            for t in range(count, lanes):
                excess[tile, g, t] = 0
                packed[tile, g, t] = 0


@njit(cache=True, nogil=True)
def attend_evenly(
    excess: Any,
    permutation: Any,
    weight: Any,
    padding: float,
    rows: Any,
    shape: Any,
    n_classes: int,
    n_windows: int,
    sums: Any,
    start: int,
    stop: int,
) -> None:
    """Sum the chunks ``start`` to ``stop`` of tiles with the couplings of zero logits."""
    n_tiles, n_graphs, lanes = permutation.shape
    parts = len(shape[1])
    tile = _make_tile(weight, n_classes, shape)
    bases = simd.empty(n_classes * parts, weight)
    share = simd.broadcast(weight.dtype.type(1 / (n_classes + 1)))
    for chunk in range(start, stop):
        total = sums[chunk]
        total[:] = 0
        bases[:] = 0
        for number in range(n_tiles * chunk // len(sums), n_tiles * (chunk + 1) // len(sums)):
            _read_tile(weight, number, n_windows, padding, shape, tile)
            for y in range(n_classes):
                for t in range(lanes):
                    for i in range(parts):
                        base = simd.load(tile.base, (y * lanes + t) * parts + i)
                        simd.store(bases, y * parts + i, simd.load(bases, y * parts + i) + base)
            for g in range(n_graphs):
                _select(weight, rows, permutation[number, g], number, n_windows, shape, tile)
                for y in range(n_classes):
                    for i in range(parts):
                        index, first = (g * n_classes + y) * parts + i, _first_sum(y, shape, tile) + i
                        part = simd.weigh_rows(
                            excess, number * n_graphs + g, tile.sums, first, tile.index, shape[1]
                        )
                        simd.store(total, index, simd.load(total, index) + part)
        for g in range(n_graphs):
            for i in range(n_classes * parts):
                index = g * n_classes * parts + i
                simd.store(total, index, share * (simd.load(total, index) + simd.load(bases, i)))


@njit(cache=True, nogil=True)
def attend_chunks(
    excess: Any,
    permutation: Any,
    weight: Any,
    padding: float,
    rows: Any,
    shape: Any,
    n_classes: int,
    n_windows: int,
    first_graph: int,
    n_own: int,
    context: Any,
    grad: Any,
    kept: Any,
    place: int,
    n_kept: int,
    sums: Any,
    start: int,
    stop: int,
) -> None:
    """Sum the chunks ``start`` to ``stop`` of tiles for ``n_own`` graphs; ``attend`` says what."""
    n_tiles, n_graphs, lanes = permutation.shape
    parts = len(shape[1])
    tile = _make_tile(weight, n_classes, shape)
    factors = tile.slope if len(grad) > 0 else tile.coupling
    for chunk in range(start, stop):
        total = sums[chunk]
        total[:] = 0
        for number in range(n_tiles * chunk // len(sums), n_tiles * (chunk + 1) // len(sums)):
            _read_tile(weight, number, n_windows, padding, shape, tile)
            for g in range(n_own):
                own = simd.load(excess, number * n_graphs + first_graph + g)
                _select(weight, rows, permutation[number, first_graph + g], number, n_windows, shape, tile)
                _couple(context, g, own, n_classes, shape, tile)
                if len(grad) > 0:
                    _differentiate(grad, g, own, n_classes, shape, tile)
                    for y in range(n_classes):
                        index = ((number * n_own + g) * n_classes + y) * n_kept + place
                        simd.store(kept, index, simd.load(tile.coupling, y))
                        simd.store(kept, index + 1, simd.load(tile.slope, y))
                for y in range(n_classes):
                    simd.store(tile.scaled, y, own * simd.load(factors, y))
                    for i in range(parts):
                        index, first = (g * n_classes + y) * parts + i, _first_sum(y, shape, tile) + i
                        part = simd.weigh_rows(tile.scaled, y, tile.sums, first, tile.index, shape[1])
                        part = part + simd.weigh_rows(
                            factors, y, tile.base, y * lanes * parts + i, None, shape[1]
                        )
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
    first_graph: int,
    n_own: int,
    vectors: Any,
    kept: Any,
    terms: Any,
    grad_value: Any,
    grad_weight: Any,
    start: int,
    stop: int,
) -> None:
    """Write and add the gradients of the tiles ``start`` to ``stop`` for ``n_own`` graphs; ``scatter`` says which."""
    n_graphs, lanes = permutation.shape[1:]
    k, parts = len(shape[0]), len(shape[1])
    tile = _make_tile(weight, n_classes, shape)
    by_permutation = simd.empty(len(tile.sums) // lanes, weight)
    to_all_rows = simd.empty(n_classes * lanes * parts, weight)
    grad_votes, lane_values = simd.empty(lanes * parts, weight), simd.empty(1, weight)
    share = weight.dtype.type(1 / (n_classes + 1))
    for number in range(start, stop):
        first_window = number * lanes
        count = min(lanes, n_windows - first_window)
        _read_tile(weight, number, n_windows, padding, shape, tile)
        by_permutation[:] = 0
        to_all_rows[:] = 0
        for g in range(n_own):
            here = number * n_graphs + first_graph + g
            permutation_here = permutation[number, first_graph + g]
            _select(weight, rows, permutation_here, number, n_windows, shape, tile)
            to_values = simd.broadcast(weight.dtype.type(0.0))
            for y in range(n_classes):
                first, of_class = _first_sum(y, shape, tile), (y * n_windows + first_window) * k * k
                for i in range(parts):
                    simd.mix_vectors(
                        grad_votes, i, share,
                        vectors, (g * n_classes + y) * len(terms) * parts + i,
                        kept, ((number * n_own + g) * n_classes + y) * (len(terms) - 1), shape[1], terms,
                    )  # fmt: skip
                for t in range(count):
                    own = simd.broadcast(simd.get(excess, here * lanes + t))
                    row = first + simd.get(tile.index, t) * parts
                    chosen = rows[simd.get(permutation_here, t)]
                    for i in range(parts):
                        grad_vote, shared = simd.load(grad_votes, t * parts + i), (y * lanes + t) * parts + i
                        simd.store(to_all_rows, shared, simd.load(to_all_rows, shared) + grad_vote)
                        if k <= simd.SUMMED:
                            added = simd.fma(own, grad_vote, simd.load(by_permutation, row + i))
                            simd.store(by_permutation, row + i, added)
                        else:
                            scaled = own * grad_vote
                            for a in range(k):
                                index = (of_class + t * k * k + simd.get(chosen, a)) * parts + i
                                simd.store(grad_weight, index, simd.load(grad_weight, index) + scaled)
                to_values = to_values + simd.dot_rows(
                    tile.sums, first, tile.index, grad_votes, 0, parts, shape[1]
                )
            simd.store(lane_values, 0, to_values)
            for t in range(count):
                grad_value[first_graph + g, first_window + t] = lane_values[t]
        for y in range(n_classes):
            for t in range(count):
                row = (y * n_windows + first_window + t) * k * k * parts
                for i in range(parts):
                    shared = simd.broadcast(padding) * simd.load(to_all_rows, (y * lanes + t) * parts + i)
                    for index in range(row + i, row + k * k * parts + i, parts):
                        simd.store(grad_weight, index, simd.load(grad_weight, index) + shared)
                of_window = _first_sum(y, shape, tile) + t * _n_sums(shape, tile) * parts
                simd.add_by_permutation(by_permutation, of_window, grad_weight, row, shape[0], shape[1])


@njit(nogil=True)
def _make_tile(like: Any, n_classes: int, shape: Any) -> Any:
    k, parts, lanes = len(shape[0]), len(shape[1]), simd.lanes(like)
    n_sums = 1
    if k <= simd.SUMMED:
        for a in range(2, k + 1):
            n_sums *= a
    return _Tile(
        simd.empty(n_classes * lanes * n_sums * parts, like),
        np.arange(lanes),
        simd.empty(n_classes * lanes * parts, like),
        simd.empty(n_classes * lanes * parts, like),
        simd.empty(n_classes, like),
        simd.empty(n_classes, like),
        simd.empty(n_classes, like),
    )


@njit(nogil=True, forceinline=True)
def _n_sums(shape: Any, tile: Any) -> int:
    """Sums of each window in a tile."""
    return len(tile.sums) // len(tile.base)


@njit(nogil=True, forceinline=True)
def _first_sum(y: int, shape: Any, tile: Any) -> int:
    """The first vector of class ``y`` in the sums of a tile."""
    return y * simd.lanes(tile.base) * _n_sums(shape, tile) * len(shape[1])


@njit(nogil=True, forceinline=True)
def _read_tile(weight: Any, number: int, n_windows: int, padding: float, shape: Any, tile: Any) -> None:
    """Compute bases and, of small templates, the sums of all permutations."""
    k, parts, lanes = len(shape[0]), len(shape[1]), simd.lanes(weight)
    n_classes, n_sums, n_rows = len(tile.base) // lanes // lanes // parts, _n_sums(shape, tile), k * k
    count = min(lanes, n_windows - number * lanes)
    if count < lanes:  # lanes without a window have no weights
        tile.base[:] = 0
        tile.sums[:] = 0
    for y in range(n_classes):
        for t in range(count):
            start = (y * n_windows + number * lanes + t) * n_rows * parts
            for i in range(parts):
                total = simd.load(weight, start + i)
                for row in range(1, n_rows):
                    total = total + simd.load(weight, start + row * parts + i)
                simd.store(tile.base, (y * lanes + t) * parts + i, simd.broadcast(padding) * total)
            if k <= simd.SUMMED:
                target = (y * lanes + t) * n_sums * parts
                simd.sum_by_permutation(weight, start, tile.sums, target, shape[0], shape[1])
        size = parts * lanes
        for t in range(lanes):
            for d in range(size):
                entry = simd.get(tile.base, (y * lanes + t) * size + d)
                simd.put(tile.columns, (y * size + d) * lanes + t, entry)


@njit(nogil=True, forceinline=True)
def _select(weight: Any, rows: Any, permutation: Any, number: int, n_windows: int, shape: Any, tile: Any) -> None:
    """Find the sums of selected rows of one graph in the table, or compute them."""
    k, parts, lanes = len(shape[0]), len(shape[1]), simd.lanes(weight)
    if k <= simd.SUMMED:
        n_sums = _n_sums(shape, tile)
        for t in range(lanes):
            simd.put(tile.index, t, t * n_sums + simd.get(permutation, t))
        return
    n_classes, first_window = len(tile.base) // lanes // lanes // parts, number * lanes
    for t in range(min(lanes, n_windows - first_window)):
        chosen = rows[simd.get(permutation, t)]
        for y in range(n_classes):
            corner = (y * n_windows + first_window + t) * k * k
            for i in range(parts):
                total = simd.load(weight, (corner + simd.get(chosen, 0)) * parts + i)
                for a in range(1, k):
                    total = total + simd.load(weight, (corner + simd.get(chosen, a)) * parts + i)
                simd.store(tile.sums, (y * lanes + t) * parts + i, total)


@njit(nogil=True, forceinline=True)
def _dot_votes(vectors: Any, g: int, y: int, own: Any, n_classes: int, shape: Any, tile: Any) -> Any:
    """û·x for class ``y``, a window in every lane; ``vectors`` holds x of all graphs and classes."""
    parts, lanes = len(shape[1]), simd.lanes(vectors)
    first = (g * n_classes + y) * parts
    of_sums = simd.dot_rows(tile.sums, _first_sum(y, shape, tile), tile.index, vectors, first, 0, shape[1])
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
