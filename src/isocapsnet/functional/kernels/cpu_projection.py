"""Linear images of permutations on the CPU, compiled: sums of k rows of a table, in the layout of the routing kernel.

A lane of a vector is an entry of an image. The result has a graph in every lane, as
:mod:`~isocapsnet.functional.kernels.cpu_dense_routing` reads it.
"""

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from isocapsnet.functional.kernels import _simd as simd
from isocapsnet.functional.kernels._simd_rows import add_up
from isocapsnet.functional.kernels._threads import parallel_ranges
from isocapsnet.functional.kernels.cpu_permutations import permutation_at

__all__ = ["permutation_at", "project", "project_back"]

# Gradients for the table are summed in this many chunks: the result does not depend on the number of threads.
_CHUNKS = 32


def project(value: Tensor, orders: Tensor, table: Tensor) -> Tensor:
    """value · g / ‖g‖ for every window of some graphs, g the sum of the rows of ``table`` that a permutation selects.

    Parameters
    ----------
    value : Tensor (n_graphs, n_windows)
    orders : Tensor (n_graphs, n_windows, k), uint8
    table : Tensor (k², size)

    Returns
    -------
    Tensor (n_windows, n_groups, size, lanes)
        A graph in every lane, and zeros after the last.
    """
    lanes, size = simd.VECTOR_BYTES // value.element_size(), table.shape[1]
    packed = value.new_zeros(value.shape[1], -(-len(value) // lanes), size, lanes)
    arguments = *_arrays(value, orders, table), packed.numpy()
    parallel_ranges(lambda start, stop: _project(*arguments, start, stop), value.shape[1])
    return packed


def project_back(value: Tensor, orders: Tensor, table: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients for value and table, from that for the result of :func:`project`."""
    grad_value = torch.empty_like(value)
    sums = _padded(table).new_zeros(_CHUNKS, *_padded(table).shape)
    arguments = *_arrays(value, orders, table), grad.numpy(), grad_value.numpy(), sums.flatten(1).numpy()
    parallel_ranges(lambda start, stop: _project_back(*arguments, start, stop), _CHUNKS)
    return grad_value, sums.sum(dim=0)[:, : table.shape[1]]


def _padded(table: Tensor) -> Tensor:
    """The table with zeros at the end of its rows, so that they are whole vectors."""
    lanes = simd.VECTOR_BYTES // table.element_size()
    return torch.nn.functional.pad(table.detach(), [0, -table.shape[1] % lanes])


def _arrays(value: Tensor, orders: Tensor, table: Tensor) -> tuple[Any, Any, Any, int]:
    padded = _padded(table)
    lanes = simd.VECTOR_BYTES // table.element_size()
    return value.numpy(), orders.contiguous().numpy(), padded.flatten().numpy(), padded.shape[1] // lanes


@njit(nogil=True, forceinline=True)
def _add_rows(table: Any, order: Any, parts: int, image: Any) -> Any:
    """Write the sum of the selected rows to ``image``, and return its length."""
    k, zero = len(order), simd.broadcast(table.dtype.type(0))
    squares = zero
    for part in range(parts):
        total = zero
        for a in range(k):
            total = total + simd.load(table, (a * k + np.int64(order[a])) * parts + part)
        simd.store(image, part, total)
        squares = simd.fma(total, total, squares)
    return np.sqrt(add_up(squares))


@njit(cache=True, nogil=True)
def _project(value: Any, orders: Any, table: Any, parts: int, packed: Any, start: int, stop: int) -> None:
    size, lanes = packed.shape[2:]
    image = simd.empty(parts, table)
    for window in range(start, stop):
        for g in range(len(value)):
            length = _add_rows(table, orders[g, window], parts, image)
            factor = value[g, window] / length if length != 0 else value.dtype.type(0)
            target = packed[window, g // lanes]
            for i in range(size):
                target[i, g % lanes] = factor * image[i]


@njit(cache=True, nogil=True)
def _project_back(
    value: Any,
    orders: Any,
    table: Any,
    parts: int,
    grad: Any,
    grad_value: Any,
    sums: Any,
    start: int,
    stop: int,
) -> None:
    size, lanes = grad.shape[2:]
    n_windows, k = value.shape[1], orders.shape[2]
    image, slope = simd.empty(parts, table), simd.empty(parts, table)
    slope[:] = 0
    for chunk in range(start, stop):
        total = sums[chunk]
        for window in range(n_windows * chunk // len(sums), n_windows * (chunk + 1) // len(sums)):
            for g in range(len(value)):
                order = orders[g, window]
                length = _add_rows(table, order, parts, image)
                if length == 0:
                    grad_value[g, window] = 0
                    continue
                source = grad[window, g // lanes]
                agreement = value.dtype.type(0)
                for i in range(size):
                    slope[i] = source[i, g % lanes]
                    agreement += slope[i] * image[i]
                grad_value[g, window] = agreement / length
                factor = simd.broadcast(value[g, window] / length)
                along = simd.broadcast(agreement / (length * length))
                for part in range(parts):
                    step = factor * (simd.load(slope, part) - along * simd.load(image, part))
                    for a in range(k):
                        row = (a * k + np.int64(order[a])) * parts + part
                        simd.store(total, row, simd.load(total, row) + step)
