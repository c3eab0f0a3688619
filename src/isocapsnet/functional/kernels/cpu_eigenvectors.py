"""Eigenvectors of many small symmetric matrices on the CPU: Jacobi's rotations, with a matrix in every lane."""

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from isocapsnet.functional.kernels import _simd as simd
from isocapsnet.functional.kernels._threads import parallel_ranges

# Convergence is quadratic: six sweeps are enough for almost all matrices of 12 rows, seven for 20.
_MAX_SWEEPS = 20


def eigenvectors(matrices: Tensor) -> Tensor:
    """Those of the symmetric parts of matrices ``(..., k, k)``, in columns, eigenvalues ascending.

    The result for a matrix does not depend on the others, to the last bit.
    """
    k = matrices.shape[-1]
    flat = matrices.detach().reshape(-1, k, k).contiguous()
    vectors = torch.empty_like(flat)
    lanes = simd.VECTOR_BYTES // flat.element_size()
    arguments = flat.numpy(), vectors.numpy()
    parallel_ranges(lambda start, stop: _diagonalise_all(*arguments, start, stop), -(-len(flat) // lanes))
    return vectors.view(matrices.shape)


@njit(cache=True, nogil=True)
def _diagonalise_all(matrices: Any, vectors: Any, start: int, stop: int) -> None:
    k, lanes = matrices.shape[1], simd.lanes(matrices)
    square, columns = simd.empty(k * k, matrices), simd.empty(k * k, matrices)
    room = simd.empty(1, matrices), np.empty(k, np.int64)
    for first in range(start * lanes, min(stop * lanes, len(matrices)), lanes):
        count = min(lanes, len(matrices) - first)
        for lane in range(lanes):
            put_symmetric(matrices[first + min(lane, count - 1)], 0, 0, k, square, lane)
        diagonalise(k, square, columns, room[0])
        for lane in range(count):
            write_sorted(k, square, columns, lane, room[1], vectors[first + lane])


@njit(nogil=True, inline="always")
def put_symmetric(graph: Any, top: int, left: int, k: int, square: Any, lane: int) -> None:
    """The symmetric part of a window of ``graph``, with its first entry at ``top, left``, as a lane of ``square``."""
    lanes = simd.lanes(graph)
    for i in range(k):
        for j in range(i, k):
            value = (graph[top + i, left + j] + graph[top + j, left + i]) / 2
            square[(i * k + j) * lanes + lane] = value


@njit(cache=True, nogil=True)
def diagonalise(k: int, square: Any, columns: Any, room: Any) -> None:
    """Rotate symmetric matrices until they are diagonal; ``columns`` become their eigenvectors.

    Vector ``i * k + j`` of ``square`` holds entry (i, j) of every matrix, i <= j. That of ``columns`` holds entry j of
    the eigenvector of the diagonal's entry i. ``room`` is a vector. A lane that has converged does not change any more.
    """
    number = square.dtype.type
    zero, one = simd.broadcast(number(0)), simd.broadcast(number(1))
    n_players = k + k % 2
    angles = simd.empty(max(1, n_players), square)
    epsilon = number(1.2e-7) if square.itemsize == 4 else number(2.3e-16)
    tolerance = simd.broadcast(epsilon * epsilon)
    largest, size = zero, zero
    for i in range(k):
        for j in range(i, k):
            entry = simd.load(square, i * k + j)
            largest = simd.maximum(largest, simd.maximum(entry, zero - entry))
    for i in range(k):
        for j in range(k):
            simd.store(columns, i * k + j, one if i == j else zero)
            if i <= j:  # squares neither overflow nor vanish
                entry = simd.ratio(simd.load(square, i * k + j), largest)
                simd.store(square, i * k + j, entry)
                size = simd.fma(entry, entry, size)
    for _ in range(_MAX_SWEEPS):
        excess = _sum_of_squares(k, square) - tolerance * size
        simd.store(room, 0, excess)
        if not (room > 0).any():
            return
        active = simd.ratio(excess, excess)
        # In a round, every row is in one pair at most, so the angles of all pairs are found before the first rotation:
        # the processor need not wait for divisions and roots.
        for turn in range(n_players - 1):
            for i in range(n_players // 2):
                p, q = _pair(turn, i, n_players)
                if q < k:
                    _find_angle(square, p, q, k, active, angles, i)
            for i in range(n_players // 2):
                p, q = _pair(turn, i, n_players)
                if q < k:
                    cosine, sine = simd.load(angles, 2 * i), simd.load(angles, 2 * i + 1)
                    for r in range(p):
                        _rotate(square, r * k + p, r * k + q, cosine, sine)
                    for r in range(p + 1, q):
                        _rotate(square, p * k + r, r * k + q, cosine, sine)
                    for r in range(q + 1, k):
                        _rotate(square, p * k + r, q * k + r, cosine, sine)
                    for r in range(k):
                        _rotate(columns, p * k + r, q * k + r, cosine, sine)


@njit(nogil=True, forceinline=True)
def _pair(turn: int, i: int, n: int) -> tuple[int, int]:
    """Pair ``i`` of a round of a tournament in which ``n`` players, an even number, all meet each other once."""
    one, other = (turn + i) % (n - 1), (turn - i) % (n - 1) if i > 0 else n - 1
    return min(one, other), max(one, other)


@njit(nogil=True, forceinline=True)
def _find_angle(square: Any, p: int, q: int, k: int, active: Any, angles: Any, i: int) -> None:
    """Cosine and sine of the rotation that makes entry (p, q) zero, and what it leaves in its place."""
    zero, one = simd.broadcast(square.dtype.type(0)), simd.broadcast(square.dtype.type(1))
    entry = simd.load(square, p * k + q)
    low, high = simd.load(square, p * k + p), simd.load(square, q * k + q)
    gap = high - low
    twice = entry + entry
    twice = simd.maximum(twice, zero - twice)
    length = simd.sqrt(simd.fma(gap, gap, twice * twice))
    tangent = active * simd.ratio(twice, simd.maximum(gap, zero - gap) + length)
    tangent = tangent * simd.with_sign(one, entry) * simd.with_sign(one, gap)
    cosine = one / simd.sqrt(simd.fma(tangent, tangent, one))
    simd.store(angles, 2 * i, cosine)
    simd.store(angles, 2 * i + 1, tangent * cosine)
    simd.store(square, p * k + p, low - tangent * entry)
    simd.store(square, q * k + q, high + tangent * entry)
    simd.store(square, p * k + q, zero)


@njit(nogil=True, forceinline=True)
def _sum_of_squares(k: int, square: Any) -> Any:
    """That of the entries above the diagonal."""
    total = simd.broadcast(square.dtype.type(0))
    for i in range(k):
        for j in range(i + 1, k):
            entry = simd.load(square, i * k + j)
            total = simd.fma(entry, entry, total)
    return total


@njit(nogil=True, forceinline=True)
def _rotate(vectors: Any, i: int, j: int, cosine: Any, sine: Any) -> None:
    x, y = simd.load(vectors, i), simd.load(vectors, j)
    simd.store(vectors, i, cosine * x - sine * y)
    simd.store(vectors, j, simd.fma(sine, x, cosine * y))


@njit(nogil=True, inline="always")
def write_sorted(k: int, square: Any, columns: Any, lane: int, order: Any, vectors: Any) -> None:
    """The eigenvectors ``(k, k)`` of one lane in the order of their eigenvalues; ``order`` is room for k indices."""
    lanes = simd.lanes(square)
    for i in range(k):
        value, j = square[(i * k + i) * lanes + lane], i
        while j > 0 and square[(order[j - 1] * k + order[j - 1]) * lanes + lane] > value:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i
    for i in range(k):
        for r in range(k):
            vectors[r, i] = columns[(order[i] * k + r) * lanes + lane]
