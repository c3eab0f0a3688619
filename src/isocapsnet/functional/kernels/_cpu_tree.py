"""The search for the best permutation on the CPU, a window in every lane of a vector.

The correlation of a permutation is a sum over its nodes and pairs of nodes,

    ⟨PKPᵀ, A⟩ = Σ_r K[p_r, p_r] A[r, r] + Σ_{r<s} (K[p_r, p_s] A[r, s] + K[p_s, p_r] A[s, r]),

so permutations that begin alike share most of it. The search walks the tree of prefixes in table order and keeps,
at every depth, the sum so far and, for every free node at every free position, what it would add there. The
last four positions are done at once, six permutations at a time, with the pairs among the last three looked up. A
permutation then costs about six operations instead of k².
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from isocapsnet.functional.kernels import _simd as simd
from isocapsnet.functional.permutations import permutation_table

# Tables over pairs and triples of nodes have this stride whatever k is: addresses are then shifts, not products.
STRIDE = 8
# Below a prefix four nodes are free; smaller templates are padded with nodes that do not move.
FREE = 4
_LEAVES = 24
# Up to this many nodes, the correlations of all permutations are kept: they fit the nearest cache.
_KEPT = 5
_NEVER = 2**31 - 1


@lru_cache(maxsize=STRIDE)
def plan(kernel_size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The tree of permutations.

    Returns
    -------
    table : ndarray (k!, max(k, 4)), uint8
        All permutations in table order, behind the padding nodes.
    packed : ndarray (k!,), int32
        The same, with the node at position a in the a-th half byte.
    prefixes : ndarray (n_prefixes, max(k, 4)), uint8
        The nodes of each prefix, then the four free nodes in ascending order.
    changed : ndarray (n_prefixes,), int64
        First depth at which a prefix differs from the one before it.
    """
    padding = max(0, FREE - kernel_size)
    table = np.empty((math.factorial(kernel_size), padding + kernel_size), dtype=np.uint8)
    table[:, :padding] = np.arange(padding)
    table[:, padding:] = padding + permutation_table(kernel_size).numpy()
    packed = (table.astype(np.uint32) << (4 * np.arange(table.shape[1], dtype=np.uint32))).sum(axis=1, dtype=np.uint32)
    prefixes = table[::_LEAVES].copy()
    changed = np.zeros(len(prefixes), dtype=np.int64)
    changed[1:] = (prefixes[1:] != prefixes[:-1]).argmax(axis=1)
    return table, packed.view(np.int32), prefixes, changed


class _Tree(NamedTuple):
    """What the search keeps of a tile of windows: arrays of vectors, a window in every lane.

    Attributes
    ----------
    tile : (8, 8)
        Entry (a, b) of the windows.
    levels : (depth, 8, 8)
        At each depth: what node x would add at position r, with the present prefix, at ``[r, x]``.
    sums : (depth,)
        At each depth: the correlation among the nodes of the prefix.
    triples : (8, 8, 8)
        What nodes x, y, z add among themselves at the last three positions.
    peaks : (n_prefixes,)
        The best correlation below each prefix.
    leaves : (n_permutations,)
        The correlations of all permutations, up to ``_KEPT`` nodes.
    matched : (8, 8)
        Entry (a, b) of PKPᵀ for the winners.
    """

    tile: Any
    levels: Any
    sums: Any
    triples: Any
    peaks: Any
    leaves: Any
    matched: Any


@njit(cache=True, nogil=True)
def search_tiles(
    graphs: Any,
    n_nodes: int,
    templates: Any,
    tolerance: Any,
    table: Any,
    packed: Any,
    prefixes: Any,
    changed: Any,
    nodes: Any,
    stride: int,
    distance: Any,
    permutation: Any,
    start: int,
    stop: int,
) -> None:
    """Search the tiles ``start`` to ``stop`` of the batch; a tile is one vector of consecutive windows of a graph.

    Parameters
    ----------
    graphs : array (n_graphs, n_nodes²)
    n_nodes : int
    templates : array (n_templates, 64)
        In rows of 8, behind the padding nodes.
    tolerance : array (n_templates,)
        How far below the best a tie may lie, per unit of the window's size.
    table, packed, prefixes, changed
        The :func:`plan`.
    nodes : tuple of length k
        Known to the compiler by its type, which unrolls the loops over nodes.
    stride : int
    distance, permutation : array (n_graphs, n_templates, n²)
        Written to.
    start, stop : int
    """
    k, lanes = len(nodes), simd.lanes(graphs)
    size = max(k, FREE)
    n_windows = distance.shape[2]
    tiles_per_graph = -(-n_windows // lanes)
    tree = _Tree(
        simd.empty(STRIDE**2, graphs),
        simd.empty((size - FREE + 1) * STRIDE**2, graphs),
        simd.empty(size - FREE + 1, graphs),
        simd.empty(STRIDE**3, graphs),
        simd.empty(len(prefixes), graphs),
        simd.empty(_LEAVES * len(prefixes) if k <= _KEPT else 0, graphs),
        simd.empty(STRIDE**2, graphs),
    )
    winners, lengths = np.empty(lanes, dtype=np.int32), simd.empty(1, graphs)
    entries = simd.empty(2 * len(templates), graphs)  # of each template, where two vectors hold them
    if size * size <= 2 * lanes:
        for c in range(len(templates)):
            for a in range(size):
                for b in range(size):
                    entries[2 * c * lanes + a * size + b] = templates[c, a * STRIDE + b]
    for i in range(start, stop):
        graph = i // tiles_per_graph
        first = (i - graph * tiles_per_graph) * lanes
        count = min(lanes, n_windows - first)
        _load_tile(graphs[graph], n_nodes, stride, first, count, nodes, tree.tile)
        for c in range(len(templates)):
            template = templates[c]
            _start_tree(template, nodes, tree)
            best = _find_best(template, prefixes, changed, nodes, tree)
            floor = simd.fma(simd.broadcast(-tolerance[c]), _sizes(tree, size), best)
            simd.store(winners, 0, _find_first(template, prefixes, floor, nodes, tree))
            for t in range(lanes):
                winner = winners[t] if winners[t] != _NEVER else 0  # input with NaN matches nothing
                if size * size > 2 * lanes:
                    _match(template, table[winner], size, t, tree)
                winners[t] = packed[winner]
                if t < count:
                    permutation[graph, c, first + t] = winner
            if size * size <= 2 * lanes:
                _match_all(entries, c, simd.load_indices(winners, 0, graphs), size, tree)
            simd.store(lengths, 0, _distances(tree, size))
            for t in range(count):
                distance[graph, c, first + t] = lengths[t]


@njit(cache=True, nogil=True, forceinline=True)
def _load_tile(graph: Any, n_nodes: int, stride: int, first: int, count: int, nodes: Any, tile: Any) -> None:
    """Bring ``count`` windows into the lanes of ``tile``; entries of padding nodes and of unused lanes are zero."""
    k, lanes = len(nodes), simd.lanes(tile)
    corner = (STRIDE + 1) * max(0, FREE - k)
    n = (n_nodes - k) // stride + 1
    row = first // n
    column = first - row * n
    if k < FREE or count < lanes:
        tile[:] = 0
    if stride == 1 and count == lanes and lanes <= n:
        here = min(lanes, n - column)  # the other windows are the first of the next row
        for a in range(k):
            for b in range(k):
                entry = simd.load_from(graph, (row + a) * n_nodes + column + b)
                if here < lanes:
                    entry = simd.join(entry, simd.load_from(graph, (row + 1 + a) * n_nodes + b - here), here)
                simd.store(tile, corner + a * STRIDE + b, entry)
        return
    for t in range(count):
        for a in range(k):
            for b in range(k):
                entry = simd.get(graph, (row * stride + a) * n_nodes + column * stride + b)
                simd.put(tile, (corner + a * STRIDE + b) * lanes + t, entry)
        column += 1
        if column == n:
            row, column = row + 1, 0


@njit(cache=True, nogil=True, forceinline=True)
def _start_tree(template: Any, nodes: Any, tree: Any) -> None:
    """The top level of the tree, and the triples."""
    size, padding = max(len(nodes), FREE), max(0, FREE - len(nodes))
    zero = simd.broadcast(template.dtype.type(0.0))
    never = simd.broadcast(template.dtype.type(-np.inf))
    simd.store(tree.sums, 0, zero)
    for r in range(size):
        entry = simd.load(tree.tile, r * STRIDE + r)
        for x in range(size):
            alone = simd.broadcast(template[x * STRIDE + x]) * entry
            if x != r and (x < padding or r < padding):
                alone = never
            simd.store(tree.levels, r * STRIDE + x, alone)

    p, q, r = size - 3, size - 2, size - 1
    pq, qp = simd.load(tree.tile, p * STRIDE + q), simd.load(tree.tile, q * STRIDE + p)
    pr, rp = simd.load(tree.tile, p * STRIDE + r), simd.load(tree.tile, r * STRIDE + p)
    qr, rq = simd.load(tree.tile, q * STRIDE + r), simd.load(tree.tile, r * STRIDE + q)
    for x in range(size):
        for y in range(size):
            if x == y:
                continue
            pair = simd.broadcast(template[x * STRIDE + y]) * pq
            pair = simd.fma(simd.broadcast(template[y * STRIDE + x]), qp, pair)
            for z in range(size):
                if z in (x, y):
                    continue
                three = simd.fma(simd.broadcast(template[x * STRIDE + z]), pr, pair)
                three = simd.fma(simd.broadcast(template[z * STRIDE + x]), rp, three)
                three = simd.fma(simd.broadcast(template[y * STRIDE + z]), qr, three)
                three = simd.fma(simd.broadcast(template[z * STRIDE + y]), rq, three)
                simd.store(tree.triples, (x * STRIDE + y) * STRIDE + z, three)


@njit(cache=True, nogil=True, forceinline=True)
def _descend(template: Any, order: Any, depth: int, tree: Any) -> None:
    """Put ``order[depth]`` at position ``depth``: one level down the tree."""
    here, below = depth * STRIDE**2, (depth + 1) * STRIDE**2
    x = order[depth]
    alone = simd.load(tree.levels, here + depth * STRIDE + x)
    simd.store(tree.sums, depth + 1, simd.load(tree.sums, depth) + alone)
    for j in range(depth + 1, len(order)):
        y = order[j]
        xy, yx = simd.broadcast(template[x * STRIDE + y]), simd.broadcast(template[y * STRIDE + x])
        for r in range(depth + 1, len(order)):
            gain = simd.load(tree.levels, here + r * STRIDE + y)
            gain = simd.fma(xy, simd.load(tree.tile, depth * STRIDE + r), gain)
            gain = simd.fma(yx, simd.load(tree.tile, r * STRIDE + depth), gain)
            simd.store(tree.levels, below + r * STRIDE + y, gain)


@njit(cache=True, nogil=True, forceinline=True)
def _six(template: Any, depth: int, tree: Any, x: int, u: int, v: int, w: int) -> Any:
    """Correlations of the six permutations that continue the prefix with x, then u, v, w in any order."""
    levels, tile, triples = tree.levels, tree.tile, tree.triples
    base = depth * STRIDE**2 + depth * STRIDE
    total = simd.load(tree.sums, depth) + simd.load(levels, base + x)
    xu, ux = simd.broadcast(template[x * STRIDE + u]), simd.broadcast(template[u * STRIDE + x])
    xv, vx = simd.broadcast(template[x * STRIDE + v]), simd.broadcast(template[v * STRIDE + x])
    xw, wx = simd.broadcast(template[x * STRIDE + w]), simd.broadcast(template[w * STRIDE + x])
    out, back = simd.load(tile, depth * STRIDE + depth + 1), simd.load(tile, (depth + 1) * STRIDE + depth)
    pu = total + simd.fma(xu, out, simd.fma(ux, back, simd.load(levels, base + STRIDE + u)))
    pv = total + simd.fma(xv, out, simd.fma(vx, back, simd.load(levels, base + STRIDE + v)))
    pw = total + simd.fma(xw, out, simd.fma(wx, back, simd.load(levels, base + STRIDE + w)))
    out, back = simd.load(tile, depth * STRIDE + depth + 2), simd.load(tile, (depth + 2) * STRIDE + depth)
    qu = simd.fma(xu, out, simd.fma(ux, back, simd.load(levels, base + 2 * STRIDE + u)))
    qv = simd.fma(xv, out, simd.fma(vx, back, simd.load(levels, base + 2 * STRIDE + v)))
    qw = simd.fma(xw, out, simd.fma(wx, back, simd.load(levels, base + 2 * STRIDE + w)))
    out, back = simd.load(tile, depth * STRIDE + depth + 3), simd.load(tile, (depth + 3) * STRIDE + depth)
    ru = simd.fma(xu, out, simd.fma(ux, back, simd.load(levels, base + 3 * STRIDE + u)))
    rv = simd.fma(xv, out, simd.fma(vx, back, simd.load(levels, base + 3 * STRIDE + v)))
    rw = simd.fma(xw, out, simd.fma(wx, back, simd.load(levels, base + 3 * STRIDE + w)))
    return (
        (pu + simd.load(triples, (u * STRIDE + v) * STRIDE + w)) + (qv + rw),
        (pu + simd.load(triples, (u * STRIDE + w) * STRIDE + v)) + (qw + rv),
        (pv + simd.load(triples, (v * STRIDE + u) * STRIDE + w)) + (qu + rw),
        (pv + simd.load(triples, (v * STRIDE + w) * STRIDE + u)) + (qw + ru),
        (pw + simd.load(triples, (w * STRIDE + u) * STRIDE + v)) + (qu + rv),
        (pw + simd.load(triples, (w * STRIDE + v) * STRIDE + u)) + (qv + ru),
    )


@njit(cache=True, nogil=True, forceinline=True)
def _leaves(i: int, tree: Any) -> Any:
    """The six correlations of branch ``i`` of all, as they were stored."""
    return (
        simd.load(tree.leaves, i * 6),
        simd.load(tree.leaves, i * 6 + 1),
        simd.load(tree.leaves, i * 6 + 2),
        simd.load(tree.leaves, i * 6 + 3),
        simd.load(tree.leaves, i * 6 + 4),
        simd.load(tree.leaves, i * 6 + 5),
    )


@njit(cache=True, nogil=True, forceinline=True)
def _next_branch(i: int, x: int, u: int, v: int, w: int) -> Any:
    """From branch ``i`` of the four free nodes, x then the others in ascending order, to the next."""
    if i == 0:
        return u, x, v, w
    return (v, u, x, w) if i == 1 else (w, u, v, x)


@njit(cache=True, nogil=True, forceinline=True)
def _find_best(template: Any, prefixes: Any, changed: Any, nodes: Any, tree: Any) -> Any:
    """The best correlation in every lane."""
    depth = max(len(nodes), FREE) - FREE
    branches = FREE if len(nodes) >= FREE else 1  # a padding node does not move
    lowest = simd.broadcast(template.dtype.type(-np.inf))
    best = lowest
    for n in range(len(prefixes)):
        order = prefixes[n]
        for i in range(changed[n], depth):
            _descend(template, order, i, tree)
        x, u, v, w = order[-4], order[-3], order[-2], order[-1]
        peak = lowest
        for i in range(branches):
            six = _six(template, depth, tree, x, u, v, w)
            if len(nodes) <= _KEPT:
                for j, correlation in enumerate(six):
                    simd.store(tree.leaves, n * _LEAVES + i * 6 + j, correlation)
            low, high = simd.maximum(six[0], six[1]), simd.maximum(six[2], six[3])
            peak = simd.maximum(peak, simd.maximum(simd.maximum(low, high), simd.maximum(six[4], six[5])))
            x, u, v, w = _next_branch(i, x, u, v, w)
        simd.store(tree.peaks, n, peak)
        best = simd.maximum(best, peak)
    return best


@njit(cache=True, nogil=True, forceinline=True)
def _find_first(template: Any, prefixes: Any, floor: Any, nodes: Any, tree: Any) -> Any:
    """The first permutation that reaches ``floor`` in every lane; only prefixes with such a one are searched again."""
    depth = max(len(nodes), FREE) - FREE
    branches = FREE if len(nodes) >= FREE else 1
    first = simd.index_where(floor, floor, _NEVER, _NEVER)
    for n in range(len(prefixes)):
        reached = simd.index_where(simd.load(tree.peaks, n), floor, n * _LEAVES, _NEVER)
        if not simd.any_earlier(reached, first):
            continue
        order = prefixes[n]
        if len(nodes) > _KEPT:
            for i in range(depth):
                _descend(template, order, i, tree)
        x, u, v, w = order[-4], order[-3], order[-2], order[-1]
        for i in range(branches):
            six = _leaves(n * FREE + i, tree) if len(nodes) <= _KEPT else _six(template, depth, tree, x, u, v, w)
            index = n * _LEAVES + i * 6
            reached_first = simd.index_where(six[5], floor, index + 5, _NEVER)
            reached_first = simd.index_where(six[4], floor, index + 4, reached_first)
            reached_first = simd.index_where(six[3], floor, index + 3, reached_first)
            reached_first = simd.index_where(six[2], floor, index + 2, reached_first)
            reached_first = simd.index_where(six[1], floor, index + 1, reached_first)
            reached_first = simd.index_where(six[0], floor, index, reached_first)
            first = simd.earlier(first, reached_first)
            x, u, v, w = _next_branch(i, x, u, v, w)
    return first


@njit(cache=True, nogil=True, forceinline=True)
def _sizes(tree: Any, size: int) -> Any:
    """‖A‖ in every lane."""
    squared = simd.broadcast(tree.tile.dtype.type(0.0))
    for a in range(size):
        for b in range(size):
            entry = simd.load(tree.tile, a * STRIDE + b)
            squared = simd.fma(entry, entry, squared)
    return simd.sqrt(squared)


@njit(cache=True, nogil=True, forceinline=True)
def _match(template: Any, order: Any, size: int, t: int, tree: Any) -> None:
    """Write PKPᵀ to lane ``t``."""
    for a in range(size):
        row = simd.get(order, a) * STRIDE
        for b in range(size):
            entry = simd.get(template, row + simd.get(order, b))
            simd.put(tree.matched, (a * STRIDE + b) * simd.lanes(tree.matched) + t, entry)


@njit(cache=True, nogil=True, forceinline=True)
def _match_all(entries: Any, c: int, packed: Any, size: int, tree: Any) -> None:
    """Write PKPᵀ to all lanes, for a template whose entries fit two vectors; ``packed`` holds the winners' nodes."""
    low, high = simd.load(entries, 2 * c), simd.load(entries, 2 * c + 1)
    for a in range(size):
        for b in range(size):
            position = simd.entry_index(simd.half_byte(packed, a), simd.half_byte(packed, b), size)
            simd.store(tree.matched, a * STRIDE + b, simd.look_up(low, high, position))


@njit(cache=True, nogil=True, forceinline=True)
def _distances(tree: Any, size: int) -> Any:
    """‖PKPᵀ - A‖ in every lane, from the difference itself, which loses nothing to cancellation."""
    squared = simd.broadcast(tree.tile.dtype.type(0.0))
    for a in range(size):
        for b in range(size):
            difference = simd.load(tree.matched, a * STRIDE + b) - simd.load(tree.tile, a * STRIDE + b)
            squared = simd.fma(difference, difference, squared)
    return simd.sqrt(squared)
