"""Weighted sums over max(0, P_i + Q_k) for all pairs of nodes, in time n instead of n².

The nodes k that count for node i are those with Q_k > -P_i. With both sorted, the next node i adds a few nodes k to two
running sums, Σ w_k and Σ w_k Q_k, and its result is P_i Σ w_k + Σ w_k Q_k. A vector holds output channels.
"""

from typing import Any

import numpy as np
from numba import njit
from torch import Tensor
from torch.nn.functional import pad

from isocapsnet.functional.kernels import _simd as simd
from isocapsnet.functional.kernels._simd_rows import add_up
from isocapsnet.functional.kernels._threads import parallel_ranges


def order_of(values: Tensor) -> np.ndarray:
    """The indices that sort the last axis, ascending."""
    return np.argsort(values.detach().numpy(), axis=-1)


def sums(p: Tensor, q: Tensor, weight: Tensor, orders: tuple[np.ndarray, np.ndarray]) -> Tensor:
    """Σ_m Σ_k weight[o, m, k] max(0, p[m, i] + q[m, k]) for each graph.

    Parameters
    ----------
    p, q : Tensor (n_graphs, n_in, n_nodes)
    weight : Tensor (n_out, n_in, n_nodes)
    orders : tuple
        :func:`order_of` p and q.

    Returns
    -------
    Tensor (n_graphs, n_out, n_nodes)
    """
    rows, split = _rows(weight.permute(1, 2, 0))
    result = p.new_zeros(len(p), p.shape[2], rows.shape[-1])
    arguments = *_arrays(p, q), *orders, rows.flatten(1).numpy(), split, result.flatten(1).numpy()
    parallel_ranges(lambda start, stop: _sum(*arguments, start, stop), len(p))
    return result[..., : len(weight)].transpose(1, 2)


def backward(
    grad: Tensor, p: Tensor, q: Tensor, weight: Tensor, orders: tuple[np.ndarray, np.ndarray]
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients for ``p``, ``q`` and ``weight`` from that for the sums."""
    rows, split = _rows(weight.permute(1, 2, 0))
    grads, _ = _rows(grad.transpose(1, 2))
    grad_p, grad_q, grad_rows = p.new_empty(p.shape), q.new_empty(q.shape), rows.new_zeros(rows.shape)
    arguments = (
        *_arrays(p, q),
        *orders,
        rows.flatten(1).numpy(),
        split,
        grads.flatten(1).numpy(),
        grad_p.numpy(),
        grad_q.numpy(),
        grad_rows.flatten(1).numpy(),
    )
    # By input channels, of which each has its own weights: the result does not depend on the number of threads.
    parallel_ranges(lambda start, stop: _backward(*arguments, start, stop), len(rows))
    return grad_p, grad_q, grad_rows[..., : len(weight)].permute(2, 0, 1).contiguous()


def _arrays(p: Tensor, q: Tensor) -> tuple[np.ndarray, np.ndarray]:
    return p.detach().contiguous().numpy(), q.detach().contiguous().numpy()


def _rows(tensor: Tensor) -> tuple[Tensor, tuple[None, ...]]:
    """Output channels last, with zeros up to whole vectors, and a tuple as long as there are vectors in a row."""
    lanes = simd.VECTOR_BYTES // tensor.element_size()
    missing = -tensor.shape[-1] % lanes
    return pad(tensor.detach(), (0, missing)).contiguous(), (None,) * ((tensor.shape[-1] + missing) // lanes)


@njit(cache=True, nogil=True)
def _sum(
    p: Any, q: Any, order_p: Any, order_q: Any, weight: Any, split: Any, result: Any, start: int, stop: int
) -> None:
    _, n_in, n = p.shape
    n_vectors = len(split)
    plain, scaled = simd.empty(n_vectors, p), simd.empty(n_vectors, p)
    for graph in range(start, stop):
        own = result[graph]
        for m in range(n_in):
            first, second = p[graph, m], q[graph, m]
            plain[:] = 0
            scaled[:] = 0
            left = n - 1
            for i in order_p[graph, m]:
                left = _advance(second, order_q[graph, m], left, -first[i], weight[m], split, plain, scaled)
                factor = simd.broadcast(first[i])
                for v in range(n_vectors):
                    total = simd.load(own, i * n_vectors + v) + simd.load(scaled, v)
                    simd.store(own, i * n_vectors + v, simd.fma(factor, simd.load(plain, v), total))


@njit(cache=True, nogil=True)
def _backward(
    p: Any,
    q: Any,
    order_p: Any,
    order_q: Any,
    weight: Any,
    split: Any,
    grad: Any,
    grad_p: Any,
    grad_q: Any,
    grad_weight: Any,
    start: int,
    stop: int,
) -> None:
    n_graphs, _, n = p.shape
    n_vectors = len(split)
    plain, scaled = simd.empty(n_vectors, p), simd.empty(n_vectors, p)
    for m in range(start, stop):
        target = grad_weight[m]
        for graph in range(n_graphs):
            first, second, own = p[graph, m], q[graph, m], grad[graph]
            plain[:] = 0
            scaled[:] = 0
            left = n - 1
            for i in order_p[graph, m]:
                left = _advance(second, order_q[graph, m], left, -first[i], weight[m], split, plain, scaled)
                total = simd.load(plain, 0) * simd.load(own, i * n_vectors)
                for v in range(1, n_vectors):
                    total = simd.fma(simd.load(plain, v), simd.load(own, i * n_vectors + v), total)
                grad_p[graph, m, i] = add_up(total)
            plain[:] = 0
            scaled[:] = 0
            left = n - 1
            for k in order_q[graph, m]:
                left = _advance(first, order_p[graph, m], left, -second[k], own, split, plain, scaled)
                factor = simd.broadcast(second[k])
                total = simd.load(plain, 0) * simd.load(weight[m], k * n_vectors)
                for v in range(n_vectors):
                    summed = simd.load(plain, v)
                    if v > 0:
                        total = simd.fma(summed, simd.load(weight[m], k * n_vectors + v), total)
                    change = simd.fma(factor, summed, simd.load(scaled, v))
                    simd.store(target, k * n_vectors + v, simd.load(target, k * n_vectors + v) + change)
                grad_q[graph, m, k] = add_up(total)


@njit(nogil=True, forceinline=True)
def _advance(values: Any, order: Any, left: int, floor: float, rows: Any, split: Any, plain: Any, scaled: Any) -> int:
    """Add the rows of all values above ``floor``, from the largest that is ``left`` on; how many are left then."""
    n_vectors = len(split)
    while left >= 0 and values[order[left]] > floor:
        k = order[left]
        factor = simd.broadcast(values[k])
        for v in range(n_vectors):
            row = simd.load(rows, k * n_vectors + v)
            simd.store(plain, v, simd.load(plain, v) + row)
            simd.store(scaled, v, simd.fma(factor, row, simd.load(scaled, v)))
        left -= 1
    return left
