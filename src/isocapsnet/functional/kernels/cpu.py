"""The isomorphic match on the CPU, fused: no tensor of size windows × permutations is ever made.

The correlation of a permutation is a sum over its nodes and pairs of nodes,

    ⟨PKPᵀ, A⟩ = Σ_r K[p_r, p_r] A[r, r] + Σ_{r<s} (K[p_r, p_s] A[r, s] + K[p_s, p_r] A[s, r]),

so permutations that begin alike share most of it. The search walks the tree of prefixes in table order and keeps,
at every depth, the sum so far and, for every free node at every free place, what putting it there would add. The
last three places are done at once, six permutations at a time, with their own pairs looked up. A permutation then
costs about six operations instead of k². A tile of windows, one per lane of a vector, is searched together.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from isocapsnet.functional.kernels import _simd as simd
from isocapsnet.functional.kernels._threads import parallel_ranges
from isocapsnet.functional.kernels.eager import TIE_TOLERANCE, permutation_table

# Tables over pairs and triples of nodes have this stride whatever k is: addresses are then shifts, not products.
_STRIDE = 8
# Below a prefix four nodes are free; smaller templates are padded with nodes that stay in place.
_FREE = 4
_LEAVES = 24
_NEVER = 2**31 - 1


@lru_cache(maxsize=8)
def _tree(kernel_size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The tree of permutations.

    Returns
    -------
    table : ndarray (k!, max(k, 4)), uint8
        All permutations in table order, behind the padding nodes.
    prefixes : ndarray (n_prefixes, max(k, 4)), uint8
        The nodes of each prefix, then the four free nodes in ascending order.
    changed : ndarray (n_prefixes,), int64
        First depth at which a prefix differs from the one before it.
    """
    padding = max(0, _FREE - kernel_size)
    table = np.empty((math.factorial(kernel_size), padding + kernel_size), dtype=np.uint8)
    table[:, :padding] = np.arange(padding)
    table[:, padding:] = padding + permutation_table(kernel_size).numpy()
    prefixes = table[::_LEAVES].copy()
    changed = np.zeros(len(prefixes), dtype=np.int64)
    changed[1:] = (prefixes[1:] != prefixes[:-1]).argmax(axis=1)
    return table, prefixes, changed


@lru_cache(maxsize=8)
def _orders(kernel_size: int) -> tuple[np.ndarray, np.ndarray]:
    """The node at each place and the place of each node, for every permutation: both uint8 ``(k!, k)``."""
    table = permutation_table(kernel_size)
    return table.numpy().astype(np.uint8), table.argsort(dim=1).numpy().astype(np.uint8)


def search(graphs: Tensor, templates: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Distance and winning permutation of Eq. 1, both ``(n_graphs, n_templates, n, n)``."""
    n_templates, k, _ = templates.shape
    n_graphs, n_nodes, _ = graphs.shape
    n = (n_nodes - k) // stride + 1
    distance = graphs.new_empty(n_graphs, n_templates, n, n)
    permutation = torch.empty(n_graphs, n_templates, n, n, dtype=torch.int64)
    tolerance = TIE_TOLERANCE * torch.finfo(graphs.dtype).eps * templates.detach().flatten(1).norm(dim=1)
    arguments = (
        graphs.detach().contiguous().numpy(),
        _on_grid(templates, max(0, _FREE - k)),
        tolerance.numpy(),
        *_tree(k),
        k,
        stride,
        distance.view(n_graphs, n_templates, n * n).numpy(),
        permutation.view(n_graphs, n_templates, n * n).numpy(),
    )
    lanes = simd.VECTOR_BYTES // graphs.element_size()
    tiles_per_graph = -(-n * n // lanes)
    parallel_ranges(lambda start, stop: _search_tiles(*arguments, start, stop), n_graphs * tiles_per_graph)
    return distance, permutation


def backward(
    grad_distance: Tensor,
    distance: Tensor,
    permutation: Tensor,
    graphs: Tensor,
    templates: Tensor,
    stride: int,
    needs_graphs: bool,
    needs_templates: bool,
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients through the winning permutation alone, for graphs and for templates."""
    k = templates.shape[-1]
    table, places = _orders(k)
    slopes = torch.where(distance > 0, grad_distance / distance, 0.0)  # at a perfect match, the zero sub-gradient
    arguments = (
        slopes.contiguous().numpy(),
        permutation.numpy(),
        graphs.detach().contiguous().numpy(),
        _on_grid(templates, 0),
        stride,
    )
    grad_graphs = grad_templates = None
    if needs_graphs:
        grad_graphs = torch.zeros(graphs.shape, dtype=graphs.dtype)
        parallel_ranges(
            lambda start, stop: _backward_graphs(*arguments, table, grad_graphs.numpy(), start, stop), len(graphs)
        )
    if needs_templates:
        # One sum per graph, added up in order: the result does not depend on the number of threads.
        parts = torch.empty(len(graphs), len(templates), _STRIDE, _STRIDE, dtype=torch.float64)
        parallel_ranges(
            lambda start, stop: _backward_templates(*arguments, places, parts.flatten(2).numpy(), start, stop),
            len(graphs),
        )
        grad_templates = parts.sum(dim=0)[:, :k, :k].to(templates.dtype)
    return grad_graphs, grad_templates


def _on_grid(templates: Tensor, padding: int) -> np.ndarray:
    """Templates behind ``padding`` empty nodes, in rows of the tables' stride: ``(n_templates, 64)``."""
    margins = [padding, _STRIDE - templates.shape[-1] - padding]
    return torch.nn.functional.pad(templates.detach(), margins * 2).flatten(1).numpy()


@njit(cache=True, nogil=True)
def _search_tiles(
    graphs: Any,
    templates: Any,
    tolerance: Any,
    table: Any,
    prefixes: Any,
    changed: Any,
    k: int,
    stride: int,
    distance: Any,
    permutation: Any,
    start: int,
    stop: int,
) -> None:
    """Search the tiles ``start`` to ``stop`` of the batch; a tile is one vector of consecutive windows of a graph."""
    size = table.shape[1]
    lanes = simd.lanes(graphs)
    n_windows = distance.shape[2]
    tiles_per_graph = -(-n_windows // lanes)
    tile = simd.empty(_STRIDE**2, graphs)
    levels = simd.empty((size - _FREE + 1) * _STRIDE**2, graphs)
    sums = simd.empty(size - _FREE + 1, graphs)
    triples = simd.empty(_STRIDE**3, graphs)
    peaks = simd.empty(len(prefixes), graphs)
    winners = np.empty(lanes, dtype=np.int32)
    lengths = simd.empty(1, graphs)
    matched = simd.empty(_STRIDE**2, graphs)
    for i in range(start, stop):
        graph = i // tiles_per_graph
        first = (i - graph * tiles_per_graph) * lanes
        count = min(lanes, n_windows - first)
        _load_tile(graphs[graph], k, size - k, stride, first, count, tile)
        for c in range(len(templates)):
            template = templates[c]
            _start_tree(template, tile, size, size - k, sums, levels, triples)
            best = _find_best(template, tile, k, prefixes, changed, sums, levels, triples, peaks)
            floor = simd.fma(simd.broadcast(-tolerance[c]), _sizes(tile, size), best)
            tied = _find_first(template, tile, k, prefixes, floor, sums, levels, triples, peaks)
            simd.store(winners, 0, tied)
            for t in range(lanes):
                winner = winners[t] if winners[t] != _NEVER else 0  # input with NaN matches nothing
                _match(template, table[winner], t, matched)
                if t < count:
                    permutation[graph, c, first + t] = winner
            simd.store(lengths, 0, _lengths(tile, matched, size))
            for t in range(count):
                distance[graph, c, first + t] = lengths[t]


@njit(cache=True, nogil=True)
def _load_tile(graph: Any, k: int, pad: int, stride: int, first: int, count: int, tile: Any) -> None:
    """Bring ``count`` windows into the lanes of ``tile``: entry (a, b) of all windows is one vector.

    Entries of padding nodes and of unused lanes are zero.
    """
    lanes = simd.lanes(tile)
    n = (len(graph) - k) // stride + 1
    if pad > 0 or count < lanes:
        tile[:] = 0
    t = 0
    while t < count:
        row = (first + t) // n
        column = first + t - row * n
        run = min(count - t, n - column)  # windows side by side
        for a in range(k):
            source = graph[row * stride + a]
            for b in range(k):
                target = (pad + a) * _STRIDE + pad + b
                if run == lanes and stride == 1:
                    simd.store(tile, target, simd.load_from(source, column + b))
                    continue
                for i in range(run):
                    tile[target * lanes + t + i] = source[(column + i) * stride + b]
        t += run


@njit(cache=True, nogil=True)
def _start_tree(template: Any, tile: Any, size: int, pad: int, sums: Any, levels: Any, triples: Any) -> None:
    """What each node adds alone at each place, and each three nodes among themselves at the last three places."""
    zero = simd.broadcast(template.dtype.type(0.0))
    never = simd.broadcast(template.dtype.type(-np.inf))
    simd.store(sums, 0, zero)
    for r in range(size):
        entry = simd.load(tile, r * _STRIDE + r)
        for x in range(size):
            alone = simd.fma(simd.broadcast(template[x * _STRIDE + x]), entry, zero)
            if x != r and (x < pad or r < pad):
                alone = never
            simd.store(levels, r * _STRIDE + x, alone)

    p, q, r = size - 3, size - 2, size - 1
    pq, qp = simd.load(tile, p * _STRIDE + q), simd.load(tile, q * _STRIDE + p)
    pr, rp = simd.load(tile, p * _STRIDE + r), simd.load(tile, r * _STRIDE + p)
    qr, rq = simd.load(tile, q * _STRIDE + r), simd.load(tile, r * _STRIDE + q)
    for x in range(size):
        for y in range(size):
            if x == y:
                continue
            pair = simd.fma(simd.broadcast(template[x * _STRIDE + y]), pq, zero)
            pair = simd.fma(simd.broadcast(template[y * _STRIDE + x]), qp, pair)
            for z in range(size):
                if z in (x, y):
                    continue
                three = simd.fma(simd.broadcast(template[x * _STRIDE + z]), pr, pair)
                three = simd.fma(simd.broadcast(template[z * _STRIDE + x]), rp, three)
                three = simd.fma(simd.broadcast(template[y * _STRIDE + z]), qr, three)
                three = simd.fma(simd.broadcast(template[z * _STRIDE + y]), rq, three)
                simd.store(triples, (x * _STRIDE + y) * _STRIDE + z, three)


@njit(cache=True, nogil=True, forceinline=True)
def _descend(template: Any, tile: Any, nodes: Any, depth: int, sums: Any, levels: Any) -> None:
    """Put ``nodes[depth]`` at place ``depth``: one level down the tree."""
    size = len(nodes)
    here, below = depth * _STRIDE**2, (depth + 1) * _STRIDE**2
    x = nodes[depth]
    simd.store(sums, depth + 1, simd.load(sums, depth) + simd.load(levels, here + depth * _STRIDE + x))
    for j in range(depth + 1, size):
        y = nodes[j]
        xy, yx = simd.broadcast(template[x * _STRIDE + y]), simd.broadcast(template[y * _STRIDE + x])
        for r in range(depth + 1, size):
            gain = simd.load(levels, here + r * _STRIDE + y)
            gain = simd.fma(xy, simd.load(tile, depth * _STRIDE + r), gain)
            gain = simd.fma(yx, simd.load(tile, r * _STRIDE + depth), gain)
            simd.store(levels, below + r * _STRIDE + y, gain)


@njit(cache=True, nogil=True, forceinline=True)
def _six(
    template: Any, tile: Any, size: int, sums: Any, levels: Any, triples: Any, x: int, u: int, v: int, w: int
) -> Any:
    """Correlations of the six permutations that continue the prefix with x, then u, v, w in any order."""
    m = size - _FREE
    base = m * _STRIDE**2 + m * _STRIDE
    total = simd.load(sums, m) + simd.load(levels, base + x)
    xu, ux = simd.broadcast(template[x * _STRIDE + u]), simd.broadcast(template[u * _STRIDE + x])
    xv, vx = simd.broadcast(template[x * _STRIDE + v]), simd.broadcast(template[v * _STRIDE + x])
    xw, wx = simd.broadcast(template[x * _STRIDE + w]), simd.broadcast(template[w * _STRIDE + x])
    out, back = simd.load(tile, m * _STRIDE + m + 1), simd.load(tile, (m + 1) * _STRIDE + m)
    pu = total + simd.fma(xu, out, simd.fma(ux, back, simd.load(levels, base + _STRIDE + u)))
    pv = total + simd.fma(xv, out, simd.fma(vx, back, simd.load(levels, base + _STRIDE + v)))
    pw = total + simd.fma(xw, out, simd.fma(wx, back, simd.load(levels, base + _STRIDE + w)))
    out, back = simd.load(tile, m * _STRIDE + m + 2), simd.load(tile, (m + 2) * _STRIDE + m)
    qu = simd.fma(xu, out, simd.fma(ux, back, simd.load(levels, base + 2 * _STRIDE + u)))
    qv = simd.fma(xv, out, simd.fma(vx, back, simd.load(levels, base + 2 * _STRIDE + v)))
    qw = simd.fma(xw, out, simd.fma(wx, back, simd.load(levels, base + 2 * _STRIDE + w)))
    out, back = simd.load(tile, m * _STRIDE + m + 3), simd.load(tile, (m + 3) * _STRIDE + m)
    ru = simd.fma(xu, out, simd.fma(ux, back, simd.load(levels, base + 3 * _STRIDE + u)))
    rv = simd.fma(xv, out, simd.fma(vx, back, simd.load(levels, base + 3 * _STRIDE + v)))
    rw = simd.fma(xw, out, simd.fma(wx, back, simd.load(levels, base + 3 * _STRIDE + w)))
    return (
        (pu + simd.load(triples, (u * _STRIDE + v) * _STRIDE + w)) + (qv + rw),
        (pu + simd.load(triples, (u * _STRIDE + w) * _STRIDE + v)) + (qw + rv),
        (pv + simd.load(triples, (v * _STRIDE + u) * _STRIDE + w)) + (qu + rw),
        (pv + simd.load(triples, (v * _STRIDE + w) * _STRIDE + u)) + (qw + ru),
        (pw + simd.load(triples, (w * _STRIDE + u) * _STRIDE + v)) + (qu + rv),
        (pw + simd.load(triples, (w * _STRIDE + v) * _STRIDE + u)) + (qv + ru),
    )


@njit(cache=True, nogil=True, forceinline=True)
def _next_branch(i: int, x: int, u: int, v: int, w: int) -> Any:
    """From branch ``i`` of the four free nodes, x then the others in ascending order, to the next."""
    if i == 0:
        return u, x, v, w
    return (v, u, x, w) if i == 1 else (w, u, v, x)


@njit(cache=True, nogil=True)
def _find_best(
    template: Any, tile: Any, k: int, prefixes: Any, changed: Any, sums: Any, levels: Any, triples: Any, peaks: Any
) -> Any:
    """The best correlation in every lane; that below prefix n goes to ``peaks[n]``."""
    size = prefixes.shape[1]
    branches = _FREE if k >= _FREE else 1  # a padding node stays in place
    best = simd.broadcast(template.dtype.type(-np.inf))
    for n in range(len(prefixes)):
        nodes = prefixes[n]
        for depth in range(changed[n], size - _FREE):
            _descend(template, tile, nodes, depth, sums, levels)
        x, u, v, w = nodes[-4], nodes[-3], nodes[-2], nodes[-1]
        peak = simd.broadcast(template.dtype.type(-np.inf))
        for i in range(branches):
            six = _six(template, tile, size, sums, levels, triples, x, u, v, w)
            low, high = simd.maximum(six[0], six[1]), simd.maximum(six[2], six[3])
            peak = simd.maximum(peak, simd.maximum(simd.maximum(low, high), simd.maximum(six[4], six[5])))
            x, u, v, w = _next_branch(i, x, u, v, w)
        simd.store(peaks, n, peak)
        best = simd.maximum(best, peak)
    return best


@njit(cache=True, nogil=True)
def _find_first(
    template: Any, tile: Any, k: int, prefixes: Any, floor: Any, sums: Any, levels: Any, triples: Any, peaks: Any
) -> Any:
    """The first permutation that reaches ``floor`` in every lane; only prefixes with such a one are searched again."""
    size = prefixes.shape[1]
    branches = _FREE if k >= _FREE else 1
    first = simd.index_where(floor, floor, _NEVER, _NEVER)
    for n in range(len(prefixes)):
        if not simd.any_earlier(simd.index_where(simd.load(peaks, n), floor, n * _LEAVES, _NEVER), first):
            continue
        nodes = prefixes[n]
        for depth in range(size - _FREE):
            _descend(template, tile, nodes, depth, sums, levels)
        x, u, v, w = nodes[-4], nodes[-3], nodes[-2], nodes[-1]
        for i in range(branches):
            six = _six(template, tile, size, sums, levels, triples, x, u, v, w)
            index = n * _LEAVES + i * 6
            found = simd.index_where(six[5], floor, index + 5, _NEVER)
            found = simd.index_where(six[4], floor, index + 4, found)
            found = simd.index_where(six[3], floor, index + 3, found)
            found = simd.index_where(six[2], floor, index + 2, found)
            found = simd.index_where(six[1], floor, index + 1, found)
            found = simd.index_where(six[0], floor, index, found)
            first = simd.earlier(first, found)
            x, u, v, w = _next_branch(i, x, u, v, w)
    return first


@njit(cache=True, nogil=True, forceinline=True)
def _sizes(tile: Any, size: int) -> Any:
    """‖A‖ in every lane."""
    squared = simd.broadcast(tile.dtype.type(0.0))
    for a in range(size):
        for b in range(size):
            entry = simd.load(tile, a * _STRIDE + b)
            squared = simd.fma(entry, entry, squared)
    return simd.sqrt(squared)


@njit(cache=True, nogil=True, forceinline=True)
def _match(template: Any, nodes: Any, t: int, matched: Any) -> None:
    """Write PKPᵀ to lane ``t`` of ``matched``."""
    for a in range(len(nodes)):
        row = simd.get(nodes, a) * _STRIDE
        for b in range(len(nodes)):
            entry = simd.get(template, row + simd.get(nodes, b))
            simd.put(matched, (a * _STRIDE + b) * simd.lanes(matched) + t, entry)


@njit(cache=True, nogil=True, forceinline=True)
def _lengths(tile: Any, matched: Any, size: int) -> Any:
    """‖PKPᵀ - A‖ in every lane, from the difference itself, which loses nothing to cancellation."""
    squared = simd.broadcast(tile.dtype.type(0.0))
    for a in range(size):
        for b in range(size):
            difference = simd.load(matched, a * _STRIDE + b) - simd.load(tile, a * _STRIDE + b)
            squared = simd.fma(difference, difference, squared)
    return simd.sqrt(squared)


@njit(cache=True, nogil=True)
def _backward_templates(
    slopes: Any,
    permutation: Any,
    graphs: Any,
    templates: Any,
    stride: int,
    places: Any,
    parts: Any,
    start: int,
    stop: int,
) -> None:
    """Each graph's part of the templates' gradients, for the graphs ``start`` to ``stop``.

    Windows are brought into the order of the template, one per lane, so that the sum over windows is a sum over
    vectors.
    """
    k = places.shape[1]
    n = slopes.shape[2]
    lanes = simd.lanes(graphs)
    matched = simd.empty(_STRIDE**2, graphs)
    sums = simd.empty(_STRIDE**2, graphs)
    slope = simd.empty(1, graphs)
    matched[:] = 0
    n_nodes = graphs.shape[1]
    for g in range(start, stop):
        graph = graphs[g].reshape(n_nodes * n_nodes)
        for c in range(len(templates)):
            sums[:] = 0
            for row in range(n):
                for column in range(0, n, lanes):
                    slope[:] = 0
                    for t in range(min(lanes, n - column)):
                        slope[t] = slopes[g, c, row, column + t]
                        corner = (row * n_nodes + column + t) * stride
                        _match_window(graph, n_nodes, corner, places[permutation[g, c, row, column + t]], t, matched)
                    _add_differences(templates[c], matched, simd.load(slope, 0), k, sums)
            for i in range(_STRIDE**2):
                total = 0.0
                for t in range(lanes):
                    total += sums[i * lanes + t]
                parts[g, c, i] = total


@njit(cache=True, nogil=True, forceinline=True)
def _match_window(graph: Any, n_nodes: int, corner: int, places: Any, t: int, matched: Any) -> None:
    """Write PᵀAP of the window at ``corner`` of a flat graph to lane ``t`` of ``matched``."""
    for x in range(len(places)):
        row = corner + simd.get(places, x) * n_nodes
        for y in range(len(places)):
            entry = simd.get(graph, row + simd.get(places, y))
            simd.put(matched, (x * _STRIDE + y) * simd.lanes(matched) + t, entry)


@njit(cache=True, nogil=True, forceinline=True)
def _add_differences(template: Any, matched: Any, slope: Any, k: int, sums: Any) -> None:
    """Add slope · (K - PᵀAP) to the sums, entry by entry."""
    for x in range(k):
        for y in range(k):
            i = x * _STRIDE + y
            difference = simd.broadcast(template[i]) - simd.load(matched, i)
            simd.store(sums, i, simd.fma(slope, difference, simd.load(sums, i)))


@njit(cache=True, nogil=True)
def _backward_graphs(
    slopes: Any,
    permutation: Any,
    graphs: Any,
    templates: Any,
    stride: int,
    table: Any,
    grad_graphs: Any,
    start: int,
    stop: int,
) -> None:
    """Gradients of the graphs ``start`` to ``stop``; their windows overlap, so each graph is one thread's."""
    k = table.shape[1]
    n = slopes.shape[2]
    for g in range(start, stop):
        for c in range(len(templates)):
            template = templates[c]
            for row in range(n):
                for column in range(n):
                    slope = slopes[g, c, row, column]
                    nodes = table[permutation[g, c, row, column]]
                    for a in range(k):
                        source, target = graphs[g, row * stride + a], grad_graphs[g, row * stride + a]
                        for b in range(k):
                            i = column * stride + b
                            target[i] -= slope * (template[nodes[a] * _STRIDE + nodes[b]] - source[i])
