"""The isomorphic match on the CPU, fused: no tensor of size windows × permutations is ever made."""

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from isocapsnet.functional.kernels import _simd as simd
from isocapsnet.functional.kernels._cpu_tree import FREE, STRIDE, plan, search_tiles
from isocapsnet.functional.kernels._threads import parallel_ranges
from isocapsnet.functional.kernels.eager import TIE_TOLERANCE
from isocapsnet.functional.permutations import permutation_table


def search(graphs: Tensor, templates: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Distance and winning permutation of Eq. 1, both ``(n_graphs, n_templates, n, n)``."""
    n_templates, k, _ = templates.shape
    n_graphs, n_nodes, _ = graphs.shape
    n = (n_nodes - k) // stride + 1
    distance = graphs.new_empty(n_graphs, n_templates, n, n)
    permutation = torch.empty(n_graphs, n_templates, n, n, dtype=torch.int64)
    tolerance = TIE_TOLERANCE * torch.finfo(graphs.dtype).eps * templates.detach().flatten(1).norm(dim=1)
    arguments = (
        _flat(graphs),
        n_nodes,
        _on_grid(templates, max(0, FREE - k)),
        tolerance.numpy(),
        *plan(k),
        (None,) * k,
        stride,
        distance.flatten(2).numpy(),
        permutation.flatten(2).numpy(),
    )
    tiles_per_graph = -(-n * n * graphs.element_size() // simd.VECTOR_BYTES)
    parallel_ranges(lambda start, stop: search_tiles(*arguments, start, stop), n_graphs * tiles_per_graph)
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
    n_graphs, n_nodes, _ = graphs.shape
    k = templates.shape[-1]
    table, positions, packed = _orders(k)
    arguments = (
        grad_distance.contiguous().flatten().numpy(),
        distance.contiguous().flatten().numpy(),
        permutation.contiguous().flatten().numpy(),
        _flat(graphs),
        n_nodes,
        _on_grid(templates, 0),
        (None,) * k,
        stride,
    )
    grad_graphs = grad_templates = None
    if needs_graphs:
        grad_graphs = torch.zeros(graphs.shape, dtype=graphs.dtype)
        target = grad_graphs.flatten(1).numpy()
        parallel_ranges(lambda start, stop: _backward_graphs(*arguments, table, target, start, stop), n_graphs)
    if needs_templates:
        # One sum per graph, added up in order: the result does not depend on the number of threads.
        parts = torch.empty(n_graphs, len(templates), STRIDE, STRIDE, dtype=torch.float64)
        target = parts.flatten(2).numpy()
        parallel_ranges(
            lambda start, stop: _backward_templates(*arguments, positions, packed, target, start, stop), n_graphs
        )
        grad_templates = parts.sum(dim=0)[:, :k, :k].to(templates.dtype)
    return grad_graphs, grad_templates


@lru_cache(maxsize=STRIDE)
def _orders(kernel_size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The node at each position and the position of each node, for every permutation: both uint8 ``(k!, k)``.

    The third array has the positions packed: that of node x in the x-th half byte of an int32 ``(k!,)``.
    """
    table = permutation_table(kernel_size)
    positions = table.argsort(dim=1)
    packed = (positions << (4 * torch.arange(kernel_size))).sum(dim=1).numpy()
    return table.numpy().astype(np.uint8), positions.numpy().astype(np.uint8), packed.astype(np.uint32).view(np.int32)


def _flat(graphs: Tensor) -> np.ndarray:
    return graphs.detach().contiguous().flatten(1).numpy()


def _on_grid(templates: Tensor, padding: int) -> np.ndarray:
    """Templates behind ``padding`` empty nodes, in rows of the tables' stride: ``(n_templates, 64)``."""
    margins = [padding, STRIDE - templates.shape[-1] - padding]
    # Without margins, at k = 8, the strides would stay as they are.
    return torch.nn.functional.pad(templates.detach().contiguous(), margins * 2).flatten(1).numpy()


@njit(cache=True, nogil=True)
def _backward_templates(
    grad: Any,
    distance: Any,
    permutation: Any,
    graphs: Any,
    n_nodes: int,
    templates: Any,
    nodes: Any,
    stride: int,
    positions: Any,
    packed: Any,
    parts: Any,
    start: int,
    stop: int,
) -> None:
    """Each graph's part of the templates' gradients, for the graphs ``start`` to ``stop``.

    Windows are brought into the order of the template, one per lane, so that the sum over windows is a sum over
    vectors. As in the search, ``nodes`` is a tuple of length k, known to the compiler.
    """
    k, lanes = len(nodes), simd.lanes(graphs)
    n = (n_nodes - k) // stride + 1
    matched, sums, some = simd.empty(STRIDE**2, graphs), simd.empty(STRIDE**2, graphs), simd.empty(1, graphs)
    matched[:] = 0
    columns, chosen = np.zeros(lanes, dtype=np.int32), simd.empty(STRIDE, graphs)
    for g in range(start, stop):
        graph = graphs[g]
        for c in range(len(templates)):
            sums[:] = 0
            for row in range(n):
                for column in range(0, n, lanes):
                    here, count = ((g * len(templates) + c) * n + row) * n + column, min(lanes, n - column)
                    if stride == 1 and count == lanes:
                        for t in range(lanes):
                            simd.put(columns, t, simd.get(packed, simd.get(permutation, here + t)))
                        winners = simd.load_indices(columns, 0, graphs)
                        _match_windows(graph, n_nodes, row * n_nodes + column, winners, k, chosen, matched)
                        slope = simd.ratio(simd.load_from(grad, here), simd.load_from(distance, here))
                    else:
                        some[:] = 0
                        for t in range(count):
                            some[t] = _slope(grad, distance, here + t)
                            corner = (row * n_nodes + column + t) * stride
                            _match_window(graph, n_nodes, corner, positions[permutation[here + t]], k, t, matched)
                        slope = simd.load(some, 0)
                    _add_differences(templates[c], matched, slope, k, sums)
            for i in range(STRIDE**2):
                total = 0.0
                for t in range(lanes):
                    total += sums[i * lanes + t]
                parts[g, c, i] = total


@njit(cache=True, nogil=True, forceinline=True)
def _slope(grad: Any, distance: Any, i: int) -> Any:
    """The factor of the difference in its gradient; at a perfect match, the zero sub-gradient."""
    return grad[i] / distance[i] if distance[i] > 0 else grad.dtype.type(0.0)


@njit(cache=True, nogil=True, forceinline=True)
def _match_window(graph: Any, n_nodes: int, corner: int, order: Any, k: int, t: int, matched: Any) -> None:
    """Write PᵀAP of the window at ``corner`` to lane ``t`` of ``matched``."""
    for x in range(k):
        row = corner + simd.get(order, x) * n_nodes
        for y in range(k):
            entry = simd.get(graph, row + simd.get(order, y))
            simd.put(matched, (x * STRIDE + y) * simd.lanes(matched) + t, entry)


@njit(cache=True, nogil=True, forceinline=True)
def _match_windows(graph: Any, n_nodes: int, corner: int, positions: Any, k: int, chosen: Any, matched: Any) -> None:
    """The same for neighbouring windows, one in every lane: first its row is chosen for each node, then its column."""
    for x in range(k):
        position = simd.half_byte(positions, x)
        for b in range(k):
            entry = simd.load_from(graph, corner + b)
            for a in range(1, k):
                entry = simd.choose(position, a, simd.load_from(graph, corner + a * n_nodes + b), entry)
            simd.store(chosen, b, entry)
        for y in range(k):
            position = simd.half_byte(positions, y)
            entry = simd.load(chosen, 0)
            for b in range(1, k):
                entry = simd.choose(position, b, simd.load(chosen, b), entry)
            simd.store(matched, x * STRIDE + y, entry)


@njit(cache=True, nogil=True, forceinline=True)
def _add_differences(template: Any, matched: Any, slope: Any, k: int, sums: Any) -> None:
    """Add slope · (K - PᵀAP) to the sums, entry by entry."""
    for x in range(k):
        for y in range(k):
            i = x * STRIDE + y
            difference = simd.broadcast(template[i]) - simd.load(matched, i)
            simd.store(sums, i, simd.fma(slope, difference, simd.load(sums, i)))


@njit(cache=True, nogil=True)
def _backward_graphs(
    grad: Any,
    distance: Any,
    permutation: Any,
    graphs: Any,
    n_nodes: int,
    templates: Any,
    nodes: Any,
    stride: int,
    table: Any,
    grad_graphs: Any,
    start: int,
    stop: int,
) -> None:
    """Gradients of the graphs ``start`` to ``stop``; their windows overlap, so each graph is one thread's."""
    k = len(nodes)
    n = (n_nodes - k) // stride + 1
    for g in range(start, stop):
        graph, target = graphs[g], grad_graphs[g]
        for c in range(len(templates)):
            template = templates[c]
            for row in range(n):
                for column in range(n):
                    here = ((g * len(templates) + c) * n + row) * n + column
                    slope, order = _slope(grad, distance, here), table[permutation[here]]
                    for a in range(k):
                        for b in range(k):
                            i = ((row * n_nodes) + column) * stride + a * n_nodes + b
                            entry = simd.get(template, simd.get(order, a) * STRIDE + simd.get(order, b))
                            simd.put(target, i, simd.get(target, i) - slope * (entry - simd.get(graph, i)))
