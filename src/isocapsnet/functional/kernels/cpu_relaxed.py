"""The distance of FastIsoNN's relaxed match on the CPU, fused: no tensor of size windows × k² is made.

Each lane of a vector is a window. Half-stored eigenvectors, those of the windows at columns s >= rows t of symmetric
graphs, serve the window at (t, s) and its transpose at (s, t).
"""

from typing import Any

from numba import njit
from torch import Tensor

from isocapsnet.functional.kernels import _simd as simd
from isocapsnet.functional.kernels._threads import parallel_ranges


def distances(graphs: Tensor, vectors: Tensor, index: Tensor, middle: Tensor, stride: int) -> Tensor:
    """‖V M Vᵀ - A_ts‖_F of each window, V the absolute values of its eigenvectors: ``(n_graphs, n_templates, n, n)``.

    Parameters
    ----------
    graphs : Tensor (n_graphs, n_nodes, n_nodes)
    vectors : Tensor (n, n_windows, k, k)
        Eigenvectors, of all n² windows of a graph or of those with s >= t.
    index : Tensor (n_graphs,), int64
        The row of ``vectors`` of each graph.
    middle : Tensor (n_templates, k, k)
        M.
    stride : int
    """
    n = (graphs.shape[1] - middle.shape[-1]) // stride + 1
    result = graphs.new_empty(len(graphs), len(middle), n, n)
    arguments = *_arrays(graphs, vectors, index, middle), stride, result.numpy()
    parallel_ranges(lambda start, stop: _measure(*arguments, start, stop), len(graphs))
    return result


def backward(
    grad: Tensor, distance: Tensor, graphs: Tensor, vectors: Tensor, index: Tensor, middle: Tensor, stride: int
) -> Tensor:
    """The gradient of M ``(n_templates, k, k)``: Σ Vᵀ (V M Vᵀ - A) V · grad / distance over all windows."""
    # One sum per graph, added up in order: the result does not depend on the number of threads.
    parts = middle.new_zeros(len(graphs), *middle.shape)
    arrays = _arrays(graphs, vectors, index, middle)
    arguments = *arrays, stride, distance.numpy(), grad.contiguous().numpy(), parts.flatten(2).numpy()
    parallel_ranges(lambda start, stop: _differentiate(*arguments, start, stop), len(graphs))
    return parts.sum(dim=0)


def _arrays(graphs: Tensor, vectors: Tensor, index: Tensor, middle: Tensor) -> tuple[Any, Any, Any, Any, Any]:
    """The first arguments of both kernels. The last is a tuple of k, whose length is a constant to the compiler."""
    stored, flat = vectors.flatten(2).contiguous(), middle.detach().flatten(1).contiguous()
    graphs = graphs.detach().contiguous()
    return graphs.numpy(), stored.numpy(), index.contiguous().numpy(), flat.numpy(), (None,) * middle.shape[-1]


@njit(cache=True, nogil=True)
def _measure(
    graphs: Any,
    vectors: Any,
    index: Any,
    middle: Any,
    nodes: Any,
    stride: int,
    result: Any,
    start: int,
    stop: int,
) -> None:
    n, k, lanes = result.shape[2], len(nodes), simd.lanes(graphs)
    halved = n > 1 and vectors.shape[1] < n * n
    own, window, half, matched = _rooms(graphs, k)
    lengths, mirrored = simd.empty(1, graphs), simd.empty(1, graphs)
    for graph in range(start, stop):
        first = 0
        for t in range(n):
            for s in range(t if halved else 0, n, lanes):
                count = min(lanes, n - s)
                _gather(graphs[graph], vectors[index[graph]], first, t, s, count, stride, nodes, own, window)
                first += count
                for c in range(len(middle)):
                    _match(own, middle[c], nodes, half, matched)
                    total = simd.broadcast(middle.dtype.type(0))
                    transposed = total
                    for a in range(k):
                        for b in range(k):
                            value = simd.load(matched, a * k + b)
                            error = value - simd.load(window, a * k + b)
                            total = simd.fma(error, error, total)
                            error = value - simd.load(window, b * k + a)
                            transposed = simd.fma(error, error, transposed)
                    simd.store(lengths, 0, simd.sqrt(total))
                    simd.store(mirrored, 0, simd.sqrt(transposed))
                    for lane in range(count):
                        if halved:
                            result[graph, c, s + lane, t] = mirrored[lane]
                        result[graph, c, t, s + lane] = lengths[lane]


@njit(cache=True, nogil=True)
def _differentiate(
    graphs: Any,
    vectors: Any,
    index: Any,
    middle: Any,
    nodes: Any,
    stride: int,
    distance: Any,
    grad: Any,
    parts: Any,
    start: int,
    stop: int,
) -> None:
    n, k, lanes = distance.shape[2], len(nodes), simd.lanes(graphs)
    halved = n > 1 and vectors.shape[1] < n * n
    own, window, half, matched = _rooms(graphs, k)
    slope, mirrored = simd.empty(1, graphs), simd.empty(1, graphs)
    sums = simd.empty(len(middle) * k * k, graphs)
    for graph in range(start, stop):
        sums[:] = 0
        first = 0
        for t in range(n):
            for s in range(t if halved else 0, n, lanes):
                count = min(lanes, n - s)
                _gather(graphs[graph], vectors[index[graph]], first, t, s, count, stride, nodes, own, window)
                first += count
                for c in range(len(middle)):
                    slope[:] = 0
                    mirrored[:] = 0
                    for lane in range(count):
                        length = distance[graph, c, t, s + lane]
                        if length > 0:
                            slope[lane] = grad[graph, c, t, s + lane] / length
                        if halved and s + lane != t:
                            length = distance[graph, c, s + lane, t]
                            if length > 0:
                                mirrored[lane] = grad[graph, c, s + lane, t] / length
                    _match(own, middle[c], nodes, half, matched)
                    factor, other = simd.load(slope, 0), simd.load(mirrored, 0)
                    for a in range(k):
                        for b in range(k):
                            value = simd.load(matched, a * k + b)
                            error = factor * (value - simd.load(window, a * k + b))
                            error = simd.fma(other, value - simd.load(window, b * k + a), error)
                            simd.store(half, a * k + b, error)
                    for a in range(k):  # D V
                        for j in range(k):
                            total = simd.broadcast(middle.dtype.type(0))
                            for b in range(k):
                                total = simd.fma(simd.load(half, a * k + b), simd.load(own, b * k + j), total)
                            simd.store(matched, a * k + j, total)
                    for i in range(k):  # Vᵀ (D V)
                        for j in range(k):
                            entry = (c * k + i) * k + j
                            total = simd.load(sums, entry)
                            for a in range(k):
                                total = simd.fma(simd.load(own, a * k + i), simd.load(matched, a * k + j), total)
                            simd.store(sums, entry, total)
        for c in range(len(middle)):
            for entry in range(k * k):
                parts[graph, c, entry] = sums[(c * k * k + entry) * lanes : (c * k * k + entry + 1) * lanes].sum()


@njit(cache=True, nogil=True)
def _rooms(like: Any, k: int) -> Any:
    """V, A and two products of one vector of windows."""
    return simd.empty(k * k, like), simd.empty(k * k, like), simd.empty(k * k, like), simd.empty(k * k, like)


@njit(cache=True, nogil=True)
def _gather(
    graph: Any,
    vectors: Any,
    first: int,
    t: int,
    s: int,
    count: int,
    stride: int,
    nodes: Any,
    own: Any,
    window: Any,
) -> None:
    """V and A of the ``count`` windows from (t, s) on, with zeros in the other lanes."""
    k, lanes = len(nodes), simd.lanes(own)
    for a in range(k):
        for b in range(k):
            place = (a * k + b) * lanes
            for lane in range(count):
                own[place + lane] = abs(vectors[first + lane, a * k + b])
                window[place + lane] = graph[t * stride + a, (s + lane) * stride + b]
            for lane in range(count, lanes):
                own[place + lane] = window[place + lane] = 0


@njit(cache=True, nogil=True)
def _match(own: Any, middle: Any, nodes: Any, half: Any, matched: Any) -> None:
    """V M Vᵀ."""
    k, zero = len(nodes), simd.broadcast(middle.dtype.type(0))
    for a in range(k):
        for j in range(k):
            total = zero
            for i in range(k):
                total = simd.fma(simd.load(own, a * k + i), simd.broadcast(middle[i * k + j]), total)
            simd.store(half, a * k + j, total)
    for a in range(k):
        for b in range(k):
            total = zero
            for j in range(k):
                total = simd.fma(simd.load(half, a * k + j), simd.load(own, b * k + j), total)
            simd.store(matched, a * k + b, total)
