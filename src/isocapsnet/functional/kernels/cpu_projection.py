"""Linear images of permutations on the CPU, compiled: sums of k rows of a table, in the layout of the routing kernel.

While rows are added up, a lane of a vector is an entry of an image. After that it is a graph, as
:mod:`~isocapsnet.functional.kernels.cpu_dense_routing` reads it, and lengths need no sums across lanes.
"""

from typing import Any

import numpy as np
from numba import njit
from torch import Tensor
from torch.nn.functional import pad

from isocapsnet.functional.kernels import _simd as simd
from isocapsnet.functional.kernels._threads import parallel_ranges
from isocapsnet.functional.kernels.cpu_permutations import permutation_at

__all__ = ["permutation_at", "project", "project_back"]

# Gradients for the table are summed in this many chunks: the result does not depend on the number of threads.
_CHUNKS = 8


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
    n_groups, lanes = -(-len(value) // _lanes(value)), _lanes(value)
    packed = value.new_empty(value.shape[1], n_groups, table.shape[1], lanes)
    arguments = *_arrays(value, orders, table), packed.flatten().numpy()
    parallel_ranges(lambda start, stop: _project(*arguments, start, stop), value.shape[1])
    return packed


def project_back(
    value: Tensor, orders: Tensor, table: Tensor, grad: Tensor, needs_table: bool
) -> tuple[Tensor, Tensor | None]:
    """Gradients for value and, if it is needed, for the table, from that for the result of :func:`project`."""
    arrays = *_, shape = _arrays(value, orders, table)
    size, width = table.shape[1], _lanes(table) * len(shape[1])
    grad_value = value.new_empty(value.shape[1], grad.shape[1] * grad.shape[3])
    sums = table.new_zeros(_CHUNKS, len(table) * width if needs_table else 0)
    arguments = *arrays, grad.flatten().numpy(), grad_value.flatten().numpy(), sums.numpy()
    parallel_ranges(lambda start, stop: _project_back(*arguments, start, stop), _CHUNKS)
    grad_table = sums.sum(dim=0).view(len(table), width)[:, :size] if needs_table else None
    return grad_value[:, : len(value)].T, grad_table


def _lanes(tensor: Tensor) -> int:
    return simd.VECTOR_BYTES // tensor.element_size()


def _arrays(
    value: Tensor, orders: Tensor, table: Tensor
) -> tuple[Any, Any, tuple[int, int, int], Any, tuple[Any, ...]]:
    """What both kernels begin with; tuples tell the compiler by their lengths entries, vectors and lanes."""
    lanes, size = _lanes(table), table.shape[1]
    values = pad(value.detach().T, [0, -len(value) % lanes]).contiguous()
    padded = pad(table.detach(), [0, -size % lanes])
    shape = (None,) * size, (None,) * (padded.shape[1] // lanes), (None,)
    sizes = (len(value), value.shape[1], orders.shape[-1])
    return values.flatten().numpy(), orders.contiguous().flatten().numpy(), sizes, padded.flatten().numpy(), shape


@njit(nogil=True, forceinline=True)
def _add_rows(table: Any, orders: Any, sizes: Any, window: int, group: int, shape: Any, rows: Any, images: Any) -> Any:
    """Write the images of a group of graphs, an entry in each vector, to ``images``, and return their lengths."""
    size, parts, lanes = len(shape[0]), len(shape[1]), simd.lanes(table)
    n_graphs, n_windows, k = sizes
    zero = simd.broadcast(table.dtype.type(0))
    for lane in range(lanes):
        graph = group * lanes + lane
        for part in range(parts):
            total = zero
            if graph < n_graphs:
                first = (graph * n_windows + window) * k
                for a in range(k):
                    row = a * k + np.int64(simd.get(orders, first + a))
                    total = total + simd.load(table, row * parts + part)
            simd.store(rows, lane * parts + part, total)
    for part in range(parts):
        simd.transpose(rows, part, images, part * lanes, shape[1])
    squares = zero
    for i in range(size):
        entry = simd.load(images, i)
        squares = simd.fma(entry, entry, squares)
    return simd.sqrt(squares)


@njit(cache=True, nogil=True)
def _project(values: Any, orders: Any, sizes: Any, table: Any, shape: Any, packed: Any, start: int, stop: int) -> None:
    size, width = len(shape[0]), len(shape[1]) * simd.lanes(table)
    rows, images = simd.empty(width, table), simd.empty(width, table)
    n_groups = -(-sizes[0] // simd.lanes(table))
    for window in range(start, stop):
        for group in range(n_groups):
            length = _add_rows(table, orders, sizes, window, group, shape, rows, images)
            here = window * n_groups + group
            factor = simd.ratio(simd.load(values, here), length)
            for i in range(size):
                simd.store(packed, here * size + i, factor * simd.load(images, i))


@njit(cache=True, nogil=True)
def _project_back(
    values: Any,
    orders: Any,
    sizes: Any,
    table: Any,
    shape: Any,
    grad: Any,
    grad_values: Any,
    sums: Any,
    start: int,
    stop: int,
) -> None:
    size, parts, lanes = len(shape[0]), len(shape[1]), simd.lanes(table)
    n_graphs, n_windows, k = sizes
    n_groups = -(-n_graphs // lanes)
    rows, images, steps = (
        simd.empty(parts * lanes, table),
        simd.empty(parts * lanes, table),
        simd.empty(parts * lanes, table),
    )
    zero, one = simd.broadcast(table.dtype.type(0)), simd.broadcast(table.dtype.type(1))
    for chunk in range(start, stop):
        total = sums[chunk]
        for window in range(n_windows * chunk // len(sums), n_windows * (chunk + 1) // len(sums)):
            for group in range(n_groups):
                length = _add_rows(table, orders, sizes, window, group, shape, rows, images)
                here = window * n_groups + group
                inverse = simd.ratio(one, length)
                agreement = zero
                for i in range(size):
                    agreement = simd.fma(simd.load(grad, here * size + i), simd.load(images, i), agreement)
                agreement = agreement * inverse
                simd.store(grad_values, here, agreement)
                if len(total) == 0:
                    continue
                along, factor = agreement * inverse, simd.load(values, here) * inverse
                for i in range(size):
                    step = simd.load(grad, here * size + i) - along * simd.load(images, i)
                    simd.store(images, i, factor * step)
                for part in range(parts):
                    simd.transpose(images, part * lanes, steps, part * lanes, shape[2])
                for lane in range(min(lanes, n_graphs - group * lanes)):
                    first = ((group * lanes + lane) * n_windows + window) * k
                    for part in range(parts):
                        step = simd.load(steps, part * lanes + lane)
                        for a in range(k):
                            row = (a * k + np.int64(simd.get(orders, first + a))) * parts + part
                            simd.store(total, row, simd.load(total, row) + step)
