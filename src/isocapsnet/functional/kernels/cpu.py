"""The isomorphic match on the CPU, fused: no tensor of size windows × permutations is ever made.

The correlation of a permutation is a sum over its nodes and pairs of nodes,

    ⟨PKPᵀ, A⟩ = Σ_r K[p_r, p_r] A[r, r] + Σ_{r<s} (K[p_r, p_s] A[r, s] + K[p_s, p_r] A[s, r]),

so permutations that begin alike share most of it. The search walks the tree of prefixes in table order and keeps,
at every depth, the sum so far and, for every free node at every free place, what putting it there would add. The
last three places are done at once, six permutations at a time, with their own pairs looked up. A permutation then
costs about six operations instead of k². A tile of windows, one per lane of a vector, is searched together.
"""

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
    table : ndarray (k!, k), uint8
        All permutations in table order.
    prefixes : ndarray (n_prefixes, max(k, 4)), uint8
        The nodes of each prefix, then the four free nodes in ascending order.
    changed : ndarray (n_prefixes,), int64
        First depth at which a prefix differs from the one before it.
    """
    table = permutation_table(kernel_size).numpy().astype(np.uint8)
    prefixes = table[::_LEAVES].copy() if kernel_size > _FREE else np.arange(_FREE, dtype=np.uint8)[None]
    changed = np.zeros(len(prefixes), dtype=np.int64)
    changed[1:] = (prefixes[1:] != prefixes[:-1]).argmax(axis=1)
    return table, prefixes, changed


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
    n_templates, k, _ = templates.shape
    table, *_ = _tree(k)
    grad_graphs = torch.zeros(graphs.shape if needs_graphs else (0, 0, 0), dtype=graphs.dtype)
    # One sum per graph, added up in order: the result does not depend on the number of threads.
    parts = torch.zeros(len(graphs), n_templates, _STRIDE, _STRIDE, dtype=torch.float64)
    arguments = (
        grad_distance.contiguous().numpy(),
        distance.numpy(),
        permutation.numpy(),
        graphs.detach().contiguous().numpy(),
        _on_grid(templates, 0),
        table,
        stride,
        grad_graphs.numpy(),
        parts.flatten(2).numpy(),
    )
    parallel_ranges(lambda start, stop: _backward_graphs(*arguments, start, stop), len(graphs))
    grad_templates = parts.sum(dim=0)[:, :k, :k].to(templates.dtype) if needs_templates else None
    return grad_graphs if needs_graphs else None, grad_templates


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
    stride: int,
    distance: Any,
    permutation: Any,
    start: int,
    stop: int,
) -> None:
    """Search the tiles ``start`` to ``stop`` of the batch; a tile is one vector of consecutive windows of a graph."""
    k, size = table.shape[1], prefixes.shape[1]
    lanes = simd.VECTOR_BYTES // graphs.itemsize
    n_windows = distance.shape[2]
    tiles_per_graph = -(-n_windows // lanes)
    tile = simd.empty(_STRIDE**2, graphs)
    levels = simd.empty((size - _FREE + 1) * _STRIDE**2, graphs)
    sums = simd.empty(size - _FREE + 1, graphs)
    triples = simd.empty(_STRIDE**3, graphs)
    winners = np.empty(lanes, dtype=np.int32)
    for i in range(start, stop):
        graph = i // tiles_per_graph
        first = (i - graph * tiles_per_graph) * lanes
        count = min(lanes, n_windows - first)
        _load_tile(graphs[graph], k, size - k, stride, first, count, tile)
        for c in range(len(templates)):
            template = templates[c]
            _start_tree(template, tile, size, size - k, sums, levels, triples)
            best, _ = _sweep(template, tile, k, prefixes, changed, sums, levels, triples, None)
            floor = simd.fma(simd.broadcast(-tolerance[c]), _sizes(tile, size), best)
            _, first_tie = _sweep(template, tile, k, prefixes, changed, sums, levels, triples, floor)
            simd.store(winners, 0, first_tie)
            for t in range(count):
                winner = winners[t] if winners[t] != _NEVER else 0  # input with NaN matches nothing
                permutation[graph, c, first + t] = winner
                distance[graph, c, first + t] = _distance(template, tile, table[winner], size - k, lanes, t)


@njit(cache=True, nogil=True)
def _load_tile(graph: Any, k: int, pad: int, stride: int, first: int, count: int, tile: Any) -> None:
    """Bring ``count`` windows into the lanes of ``tile``: entry (a, b) of all windows is one vector.

    Entries of padding nodes and of unused lanes are zero.
    """
    lanes = simd.VECTOR_BYTES // tile.itemsize
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
                target = ((pad + a) * _STRIDE + pad + b) * lanes + t
                for i in range(run):
                    tile[target + i] = source[(column + i) * stride + b]
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


@njit(cache=True, nogil=True)
def _sweep(
    template: Any, tile: Any, k: int, prefixes: Any, changed: Any, sums: Any, levels: Any, triples: Any, floor: Any
) -> Any:
    """Walk all permutations in table order.

    Without a ``floor`` (compiled on its own): the best correlation in every lane. With one: the index of the first
    permutation that reaches it.
    """
    size = prefixes.shape[1]
    depth = size - _FREE
    branches = _FREE if k >= _FREE else 1  # a padding node stays in place
    best = simd.broadcast(template.dtype.type(-np.inf))
    first = simd.index_where(best, best, _NEVER, _NEVER)
    for n in range(len(prefixes)):
        nodes = prefixes[n]
        for m in range(changed[n], depth):
            _descend(template, tile, nodes, m, sums, levels)
        for i in range(branches):
            x = nodes[depth + i]
            u, v, w = nodes[depth + (i < 1)], nodes[depth + 1 + (i < 2)], nodes[depth + 2 + (i < 3)]
            six = _six(template, tile, size, sums, levels, triples, x, u, v, w)
            if floor is None:
                low, high = simd.maximum(six[0], six[1]), simd.maximum(six[2], six[3])
                best = simd.maximum(best, simd.maximum(simd.maximum(low, high), simd.maximum(six[4], six[5])))
            else:
                index = n * _LEAVES + i * 6
                found = simd.index_where(six[5], floor, index + 5, _NEVER)
                found = simd.index_where(six[4], floor, index + 4, found)
                found = simd.index_where(six[3], floor, index + 3, found)
                found = simd.index_where(six[2], floor, index + 2, found)
                found = simd.index_where(six[1], floor, index + 1, found)
                found = simd.index_where(six[0], floor, index, found)
                first = simd.earlier(first, found)
    return best, first


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
def _distance(template: Any, tile: Any, permutation: Any, pad: int, lanes: int, t: int) -> float:
    """‖PKPᵀ - A‖ in lane ``t``, from the difference itself, which loses nothing to cancellation."""
    squared = template.dtype.type(0.0)
    for a in range(len(permutation)):
        x = pad + permutation[a]
        for b in range(len(permutation)):
            entry = tile[((pad + a) * _STRIDE + pad + b) * lanes + t]
            difference = template[x * _STRIDE + pad + permutation[b]] - entry
            squared += difference * difference
    return np.sqrt(squared)


@njit(cache=True, nogil=True)
def _backward_graphs(
    grad_distance: Any,
    distance: Any,
    permutation: Any,
    graphs: Any,
    templates: Any,
    table: Any,
    stride: int,
    grad_graphs: Any,
    grad_templates: Any,
    start: int,
    stop: int,
) -> None:
    """Gradients of the graphs ``start`` to ``stop``, and each one's part of the templates' gradients."""
    needs_graphs = len(grad_graphs) > 0
    k = table.shape[1]
    n = distance.shape[2]
    for g in range(start, stop):
        for c in range(len(templates)):
            template, grad_template = templates[c], grad_templates[g, c]
            for row in range(n):
                for column in range(n):
                    length = distance[g, c, row, column]
                    slope = grad_distance[g, c, row, column]
                    if slope == 0 or not length > 0:  # at a perfect match, the zero sub-gradient
                        continue
                    slope /= length
                    nodes = table[permutation[g, c, row, column]]
                    for a in range(k):
                        source = graphs[g, row * stride + a]
                        for b in range(k):
                            entry = nodes[a] * _STRIDE + nodes[b]
                            place = column * stride + b
                            gradient = slope * (template[entry] - source[place])
                            grad_template[entry] += gradient
                            if needs_graphs:
                                grad_graphs[g, row * stride + a, place] -= gradient
