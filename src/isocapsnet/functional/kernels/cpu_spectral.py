"""The spectral match on the CPU, compiled: one window at a time, from its eigenvectors to its distances.

The permutation of a window changes seldom while templates learn. The one of an earlier step is therefore tried first:
Bellman and Ford's algorithm shows in a few passes over the profits whether another permutation is better. Only then is
the assignment problem solved again. The result is the same, because only a permutation that is best by a margin above
rounding errors is kept.
"""

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from isocapsnet.functional.kernels import _simd as simd
from isocapsnet.functional.kernels._simd_rows import add_up
from isocapsnet.functional.kernels._threads import parallel_ranges
from isocapsnet.functional.kernels.cpu_assignment import assign
from isocapsnet.functional.kernels.cpu_eigenvectors import diagonalise, put_symmetric, write_sorted
from isocapsnet.functional.kernels.cpu_permutations import block_sizes, number_of, write_order
from isocapsnet.functional.known_windows import UNKNOWN, WindowOrders, WindowVectors

# By how much an earlier permutation has to be better than others. Entries of a profit are at most 1.
_MARGIN = 1e-5
# The profit of what must not be assigned.
_NEVER = -1e6


def search(
    graphs: Tensor,
    templates: Tensor,
    stride: int,
    vectors: WindowVectors | None,
    orders: WindowOrders | None,
    pairs: Tensor,
    template_vectors: Tensor,
    distance: Tensor,
    permutation: Tensor,
    steps: int,
) -> None:
    """Write the distances and permutations of all windows.

    Parameters
    ----------
    graphs : Tensor (n_graphs, n_nodes, n_nodes)
    templates : Tensor (n_templates, k, k)
    stride : int
    vectors : WindowVectors, optional
        Eigenvectors of the windows. Without them, they are computed.
    orders : WindowOrders, optional
        Permutations to try first; replaced by those that are found.
    pairs : Tensor (2, n_pairs), int64
        Windows (s, t). If there are fewer than n², the window (t, s) has the permutation of (s, t).
    template_vectors : Tensor (n_templates, k, k)
        Absolute eigenvectors.
    distance, permutation : Tensor (n_graphs, n_templates, n, n)
        The results. Both are contiguous.
    steps : int
        Absolute eigenvectors are rounded to so many steps between 0 and 1; with 0, they are not.
    """
    n_templates, k, _ = templates.shape
    rows, columns = pairs
    lanes = simd.VECTOR_BYTES // graphs.element_size()
    padded = graphs.new_zeros(n_templates, k, -(-k // lanes) * lanes)
    padded[:, :, :k] = template_vectors.transpose(1, 2)
    arguments = (
        # A vector may be read past the end of a row, and so past the end of the last graph.
        torch.nn.functional.pad(graphs.detach().flatten(), [0, padded.shape[2]]).numpy(),
        graphs.shape[1],
        templates.detach().flatten().numpy(),
        (n_templates, k),
        stride,
        padded.flatten().numpy(),
        rows.contiguous().numpy(),
        columns.contiguous().numpy(),
        *_arrays(vectors, graphs.new_empty(0, 0, k, k), rows, columns),
        *_arrays(orders, torch.empty(0, 0, n_templates, k, dtype=torch.uint8), rows, columns),
        block_sizes(k),
        distance.numpy(),
        permutation.numpy(),
        distance.numpy().dtype.type(steps),
        vectors is not None and not vectors.tensor.is_floating_point(),
    )
    n_tiles = -(-len(rows) // lanes)
    parallel_ranges(lambda start, stop: _search(*arguments, n_tiles, start, stop), len(graphs) * n_tiles)


def _arrays(
    known: WindowVectors | WindowOrders | None, nothing: Tensor, rows: Tensor, columns: Tensor
) -> tuple[Any, Any, Any]:
    """What is stored, its row for each graph, and its column for each pair; ``nothing`` in place of None."""
    if known is None:
        return nothing.numpy(), rows[:0].numpy(), rows[:0].numpy()
    stored = known.tensor.contiguous().numpy()
    stored = stored.view(np.uint16) if stored.dtype == np.int16 else stored
    return stored, known.index.numpy(), known.distinct[rows, columns].numpy()


@njit(cache=True, nogil=True)
def _search(
    flat: Any,
    n_nodes: int,
    templates: Any,
    sizes: Any,
    stride: int,
    template_vectors: Any,
    rows: Any,
    columns: Any,
    stored: Any,
    stored_row: Any,
    stored_column: Any,
    orders: Any,
    order_row: Any,
    order_column: Any,
    blocks: Any,
    distance: Any,
    permutation: Any,
    steps: Any,
    are_steps: bool,
    n_tiles: int,
    start: int,
    stop: int,
) -> None:
    """The tiles ``start`` to ``stop`` of all graphs, each of as many windows as a vector has lanes."""
    (n_templates, k), lanes, n = sizes, simd.lanes(flat), distance.shape[-1]
    parts = -(-k // lanes)
    is_mirrored = len(rows) < n * n
    square, vectors, room = simd.empty(k * k, flat), simd.empty(k * k, flat), simd.empty(1, flat)
    profit, matched = simd.empty(k * parts, flat), simd.empty(k * parts, flat)
    prices, own = simd.empty(2 * parts, flat), np.empty(k, flat.dtype)
    absolute, order, rank = np.empty(lanes * k * k, flat.dtype), np.empty(k, np.int64), np.empty(k, np.int64)
    work = np.empty((k, k)), np.empty((3, k)), np.empty((2, k), np.int64), np.empty(k, np.bool_)
    for tile in range(start, stop):
        g, first = tile // n_tiles, tile % n_tiles * lanes
        count = min(lanes, len(rows) - first)
        graph = flat[g * n_nodes * n_nodes : (g + 1) * n_nodes * n_nodes].reshape(n_nodes, n_nodes)
        if len(stored) == 0:
            for lane in range(lanes):
                pair = first + min(lane, count - 1)
                put_symmetric(graph, rows[pair] * stride, columns[pair] * stride, k, square, lane)
            diagonalise(k, square, vectors, room)
        for lane in range(count):
            if len(stored) == 0:
                write_sorted(k, square, vectors, lane, rank, absolute[lane * k * k : (lane + 1) * k * k].reshape(k, k))
            else:
                own_vectors = stored[stored_row[g], stored_column[first + lane]]
                for a in range(k):
                    for b in range(k):
                        absolute[(lane * k + a) * k + b] = own_vectors[a, b]
        for i in range(count * k * k):
            value = abs(absolute[i])
            if steps > 0 and not are_steps:
                value = np.rint(value * steps)
            absolute[i] = value / steps if steps > 0 else value
        for lane in range(count):
            s, t = rows[first + lane], columns[first + lane]
            here = (g * n_nodes + s * stride) * n_nodes + t * stride
            there = (g * n_nodes + t * stride) * n_nodes + s * stride
            for c in range(n_templates):
                _multiply(absolute, lane * k * k, k, template_vectors, c * k * parts, parts, profit)
                is_known = False
                if len(orders) > 0:
                    kept = orders[order_row[g], order_column[first + lane], c]
                    if kept[0] != UNKNOWN:
                        for a in range(k):
                            order[a] = kept[a]
                        is_known = is_best(profit, order, parts, prices, own)
                if not is_known:
                    assign(profit, parts * lanes, order, work)
                    if len(orders) > 0:
                        for a in range(k):
                            kept[a] = order[a]
                number = number_of(order, blocks)
                for a in range(k):
                    row = (c * k + order[a]) * k
                    for b in range(k):
                        simd.put(matched, a * parts * lanes + b, simd.get(templates, row + simd.get(order, b)))
                distance[g, c, s, t] = _measure(flat, here, n_nodes, matched, k, parts)
                permutation[g, c, s, t] = number
                if is_mirrored:
                    distance[g, c, t, s] = _measure(flat, there, n_nodes, matched, k, parts)
                    permutation[g, c, t, s] = number


@njit(nogil=True, forceinline=True)
def _multiply(vectors: Any, start: int, k: int, template_vectors: Any, first: int, parts: int, profit: Any) -> None:
    """``profit = vectors @ template_vectors``.

    The entries of ``vectors`` begin with number ``start``. A row of ``template_vectors`` begins every ``parts`` vectors
    from ``first`` on.
    """
    zero = simd.broadcast(profit.dtype.type(0))
    for a in range(k):
        for part in range(parts):
            total = zero
            for b in range(k):
                factor = simd.broadcast(simd.get(vectors, start + a * k + b))
                total = simd.fma(factor, simd.load(template_vectors, first + b * parts + part), total)
            simd.store(profit, a * parts + part, total)


@njit(cache=True, nogil=True)
def is_best(profit: Any, order: Any, parts: int, prices: Any, own: Any) -> bool:
    """Whether every other permutation has less total profit than ``order``, by a margin.

    ``prices`` is room for twice the vectors of a row, ``own`` for k numbers.

    Moving row a from its column to column j costs ``profit[a, order[a]] - profit[a, j]``. ``order`` is best if no
    cycle of such moves has a cost below zero. Bellman and Ford's prices of columns converge in k passes if and only if
    there is none. With a margin taken off each cost, they do so only if every cycle has a cost above it.
    """
    k, width = len(order), parts * simd.lanes(profit)
    number = profit.dtype.type
    zero = simd.broadcast(number(0))
    for a in range(k):
        place = a * width + order[a]
        own[a] = profit[place]
        profit[place] = number(_NEVER)  # staying is no move
        for j in range(k, width):
            profit[a * width + j] = number(_NEVER)
    for part in range(parts):
        simd.store(prices, part, zero)
    has_converged = False
    for _ in range(k + 1):
        change = zero
        for part in range(parts):
            price = simd.load(prices, part)
            lowest = price
            for a in range(k):
                cost = simd.get(prices, simd.get(order, a)) + simd.get(own, a) - number(_MARGIN)
                lowest = simd.minimum(lowest, simd.broadcast(cost) - simd.load(profit, a * parts + part))
            simd.store(prices, parts + part, lowest)
            change = change + (price - lowest)
        if add_up(change) == 0:
            has_converged = True
            break
        for part in range(parts):
            simd.store(prices, part, simd.load(prices, parts + part))
    for a in range(k):
        profit[a * width + order[a]] = own[a]
    return has_converged


@njit(nogil=True, forceinline=True)
def _measure(flat: Any, first: int, n_nodes: int, matched: Any, k: int, parts: int) -> Any:
    """The distance of ``matched`` from the window whose first entry is number ``first``."""
    lanes = simd.lanes(flat)
    zero = simd.broadcast(flat.dtype.type(0))
    total = zero
    for a in range(k):
        for part in range(parts):
            error = simd.load(matched, a * parts + part) - simd.load_from(flat, first + a * n_nodes + part * lanes)
            error = simd.join(error, zero, np.int32(k - part * lanes))
            total = simd.fma(error, error, total)
    return np.sqrt(add_up(total))


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
    """The same as :func:`isocapsnet.functional.kernels.eager.backward`."""
    # One sum per graph, added up in order: the result does not depend on the number of threads.
    parts = torch.zeros(len(graphs), *templates.shape, dtype=torch.float64)
    grad_graphs = torch.zeros(graphs.shape if needs_graphs else (len(graphs), 0, 0), dtype=graphs.dtype)
    arguments = (
        grad_distance.contiguous().numpy(),
        distance.contiguous().numpy(),
        permutation.contiguous().numpy(),
        graphs.detach().contiguous().numpy(),
        templates.detach().contiguous().numpy(),
        stride,
        parts.numpy(),
        grad_graphs.numpy(),
    )
    parallel_ranges(lambda start, stop: _add_gradients(*arguments, start, stop), len(graphs))
    grad_templates = parts.sum(dim=0).to(templates.dtype) if needs_templates else None
    return grad_graphs if needs_graphs else None, grad_templates


@njit(cache=True, nogil=True)
def _add_gradients(
    grad: Any,
    distance: Any,
    permutation: Any,
    graphs: Any,
    templates: Any,
    stride: int,
    parts: Any,
    grad_graphs: Any,
    start: int,
    stop: int,
) -> None:
    """Gradients of the graphs ``start`` to ``stop``, if there is room for them, and each one's part of the templates'.

    The gradient of a template is Σ slope · (K - PᵀAP). At a perfect match the zero sub-gradient is taken.
    """
    n_templates, k, _ = templates.shape
    needs_graphs, n = grad_graphs.size > 0, distance.shape[-1]
    order = np.empty(k, np.int64)
    for g in range(start, stop):
        graph, n_nodes = graphs[g], graphs.shape[1]
        flat = graph.reshape(-1)
        for c in range(n_templates):
            template, part, total = templates[c], parts[g, c].reshape(-1), 0.0
            for s in range(n):
                for t in range(s, n):
                    # Windows that are transposes of each other have one permutation.
                    slope = _slope(grad[g, c, s, t], distance[g, c, s, t])
                    number, other_number = permutation[g, c, s, t], permutation[g, c, t, s]
                    other = _slope(grad[g, c, t, s], distance[g, c, t, s]) if s != t else 0.0
                    together = other if other_number == number else 0.0
                    write_order(number, order)
                    total += _scatter(part, flat, n_nodes, s * stride, t * stride, slope, together, order)
                    if needs_graphs:
                        _subtract(grad_graphs[g], template, graph, s * stride, t * stride, slope, order)
                        if other_number == number:
                            _subtract(grad_graphs[g], template, graph, t * stride, s * stride, together, order)
                    if other_number != number:
                        write_order(other_number, order)
                        total += _scatter(part, flat, n_nodes, t * stride, s * stride, other, 0.0, order)
                        if needs_graphs:
                            _subtract(grad_graphs[g], template, graph, t * stride, s * stride, other, order)
            for a in range(k):
                for b in range(k):
                    part[a * k + b] += total * template[a, b]


@njit(nogil=True, forceinline=True)
def _slope(grad: Any, distance: Any) -> float:
    return np.float64(grad) / distance if distance != 0 else 0.0


@njit(nogil=True, forceinline=True)
def _scatter(part: Any, graph: Any, n_nodes: int, i: int, j: int, slope: float, other: float, order: Any) -> float:
    """Subtract ``slope`` times the window at (i, j), and ``other`` times that at (j, i), in the template's order.

    ``part`` and ``graph`` are flat.
    """
    k = len(order)
    for a in range(k):
        here, there = (i + a) * n_nodes + j, (j + a) * n_nodes + i
        row = simd.get(order, a) * k
        for b in range(k):
            step = slope * simd.get(graph, here + b) + other * simd.get(graph, there + b)
            target = row + simd.get(order, b)
            simd.put(part, target, simd.get(part, target) - step)
    return slope + other


@njit(nogil=True, forceinline=True)
def _subtract(grad_graph: Any, template: Any, graph: Any, i: int, j: int, slope: float, order: Any) -> None:
    """Subtract the gradient of a distance for the template from that for the window at (i, j)."""
    k = len(order)
    for a in range(k):
        for b in range(k):
            grad_graph[i + a, j + b] -= slope * (template[order[a], order[b]] - graph[i + a, j + b])
