"""A convolution with 2 x 2 max-pooling and ReLU on the CPU, and its gradients through the winners of the pooling alone.

Two rows of outputs are computed and pooled at a time, so that the maps before pooling are never in memory. At most one
of four outputs has a gradient, and where ReLU cuts none of them has one. Each such output adds its gradient times a
patch of the input to that of the weights, and times the weights to that of the patch. A row of a patch is contiguous if
channels come last.
"""

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor
from torch.nn.functional import pad

from isocapsnet.functional.kernels import _simd as simd
from isocapsnet.functional.kernels._simd_rows import convolve_rows, store_from
from isocapsnet.functional.kernels._threads import parallel_ranges

# Marks a pooled output that ReLU has cut.
_CUT = 4
# Filters and vectors whose outputs are in registers at once: with two rows, 16 of 32 registers.
_FILTERS, _VECTORS = 4, 2
# Outputs whose gradients are added at once.
_AT_ONCE = 4


def convolve(inputs: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """The largest of each 2 x 2 outputs of a convolution, not below 0, and which of them it is; sides are rounded up.

    Inputs ``(n_graphs, n_in, n, n)`` with padded borders, weights ``(n_out, n_in, k, k)`` and biases ``(n_out,)`` to
    two tensors ``(n_graphs, n_out, ⌈n/2⌉, ⌈n/2⌉)``.
    """
    n_out, k = weight.shape[0], weight.shape[-1]
    side = -(-inputs.shape[-1] // 2)
    pooled = inputs.new_empty(len(inputs), n_out, side, side)
    winner = torch.empty(pooled.shape, dtype=torch.uint8)
    # Blocks of filters; their weights lie side by side after their biases.
    n_blocks = -(-n_out // _FILTERS)
    n_filters = -(-n_out // n_blocks)
    columns = torch.cat([bias[:, None], weight.flatten(1)], dim=1)
    columns = pad(columns, (0, 0, 0, n_blocks * n_filters - n_out)).view(n_blocks, n_filters, -1)
    arguments = (
        inputs.contiguous().numpy(),
        columns.transpose(1, 2).flatten(1).contiguous().numpy(),
        (None,) * k,
        (None,) * n_filters,
        (None,) * _VECTORS,
        pooled.numpy(),
        winner.numpy(),
    )
    parallel_ranges(lambda start, stop: _convolve(*arguments, start, stop), len(inputs))
    return pooled, winner


def backward(
    grad: Tensor, winner: Tensor, inputs: Tensor, weight: Tensor, needs_inputs: bool
) -> tuple[Tensor | None, Tensor, Tensor]:
    """Gradients of inputs ``(n_graphs, n_in, n, n)``, weights ``(n_out, n_in, k, k)`` and biases ``(n_out,)``."""
    n_out, n_in, k, _ = weight.shape
    lanes = simd.VECTOR_BYTES // inputs.element_size()
    n_vectors = -(-k * n_in // lanes)
    rows = pad(weight.permute(0, 2, 3, 1).flatten(2), (0, n_vectors * lanes - k * n_in)).contiguous()
    grad_inputs = torch.empty_like(inputs, memory_format=torch.contiguous_format) if needs_inputs else None
    # One sum per graph, added up in order: the result does not depend on the number of threads.
    parts = inputs.new_empty(len(inputs), *rows.shape)
    biases = inputs.new_empty(len(inputs), n_out)
    arguments = (
        grad.contiguous().flatten(1).numpy(),
        winner.flatten(1).numpy(),
        inputs.contiguous().numpy(),
        rows.flatten().numpy(),
        (None,) * k,
        (None,) * n_vectors,
        (inputs.new_empty(0, n_in, 0, 0) if grad_inputs is None else grad_inputs).numpy(),
        parts.flatten(1).numpy(),
        biases.numpy(),
    )
    parallel_ranges(lambda start, stop: _backward(*arguments, start, stop), len(inputs))
    grad_weight = parts.sum(dim=0)[..., : k * n_in].unflatten(2, (k, n_in)).permute(0, 3, 1, 2).contiguous()
    return grad_inputs, grad_weight, biases.sum(dim=0)


@njit(cache=True, nogil=True)
def _convolve(
    inputs: Any,
    weight: Any,
    kernel: Any,
    filters: Any,
    split: Any,
    pooled: Any,
    winner: Any,
    start: int,
    stop: int,
) -> None:
    n_in, n, n_out, side = inputs.shape[1], inputs.shape[2], pooled.shape[1], pooled.shape[2]
    k, n_filters, at_once = len(kernel), len(filters), len(split) * simd.lanes(inputs)
    margin, width = k // 2, -(-n // at_once) * at_once
    n_rows, row_length = 2 * side + 2 * margin, width + simd.lanes(inputs) * -(-k // simd.lanes(inputs))
    planes = simd.empty(n_in * n_rows * row_length // simd.lanes(inputs), inputs)
    planes[:] = 0
    rows = np.empty(2 * n_filters * width, inputs.dtype)
    column, of_lower = np.empty(2 * side, inputs.dtype), np.empty(2 * side, np.int32)
    for graph in range(start, stop):
        for c in range(n_in):
            for y in range(n):
                first = (c * n_rows + margin + y) * row_length + margin
                planes[first : first + n] = inputs[graph, c, y]
        for y in range(side):
            for block in range(len(weight)):
                for x in range(0, n, at_once):
                    convolve_rows(
                        planes, 2 * y * row_length + x, row_length, n_rows * row_length, n_in, weight[block], 0, rows,
                        x, width, kernel, filters, split,
                    )  # fmt: skip
                for f in range(min(n_filters, n_out - block * n_filters)):
                    upper = rows[2 * f * width :]
                    # Below the last row there is a copy of it.
                    lower = rows[(2 * f + (2 * y + 1 < n)) * width :]
                    channel = block * n_filters + f
                    _pool(upper, lower, n, column, of_lower, pooled[graph, channel, y], winner[graph, channel, y])


@njit(cache=True, nogil=True)
def _pool(upper: Any, lower: Any, n: int, column: Any, of_lower: Any, pooled: Any, winner: Any) -> None:
    """Pool two rows of outputs. There are no branches, which would be mispredicted at every second output."""
    for x in range(n):
        # A NaN wins, so that a diverged training is noticed; the copy of a border never wins over itself.
        below = (lower[x] > upper[x]) | ((lower[x] != lower[x]) & (upper[x] == upper[x]))
        column[x] = lower[x] if below else upper[x]
        of_lower[x] = 2 if below else 0
    side = len(pooled)
    column[2 * side - 1], of_lower[2 * side - 1] = column[n - 1], of_lower[n - 1]
    for x in range(side):
        left, right = column[2 * x], column[2 * x + 1]
        first, second = of_lower[2 * x], of_lower[2 * x + 1] + 1
        # Of equal outputs the first in the order of rows wins.
        later = (right > left) | ((right != right) & (left == left)) | ((right == left) & (second < first))
        best = right if later else left
        cut = best <= 0
        pooled[x] = 0 if cut else best
        winner[x] = _CUT if cut else (second if later else first)


@njit(cache=True, nogil=True)
def _backward(
    grad: Any,
    winner: Any,
    inputs: Any,
    weight: Any,
    kernel: Any,
    split: Any,
    grad_inputs: Any,
    parts: Any,
    biases: Any,
    start: int,
    stop: int,
) -> None:
    n_in, n, n_out = inputs.shape[1], inputs.shape[2], biases.shape[1]
    k, n_vectors, lanes = len(kernel), len(split), simd.lanes(inputs)
    margin, side = k // 2, -(-n // 2)
    # Rows have room for a vector that begins in their last patch.
    row_length = (n + 2 * margin) * n_in + lanes
    own = np.zeros((n + 2 * margin) * row_length, inputs.dtype)
    target = np.zeros_like(own)
    places, slopes = np.empty(side * side + _AT_ONCE, np.int64), np.empty(side * side + _AT_ONCE, grad.dtype)
    # Patches of neighbours overlap, and a vector is read late if half of it was written just before. So neighbours are
    # not next to each other in the list.
    apart = -(-n_vectors * lanes // (2 * n_in))
    for graph in range(start, stop):
        sums = parts[graph]
        sums[:] = 0
        _channels_last(inputs[graph], own, margin, row_length)
        target[:] = 0
        for channel in range(n_out):
            # A list of the outputs with a gradient, so that the loops over them have no branches.
            count = 0
            for y in range(side):
                row = (channel * side + y) * side
                for first in range(min(apart, side)):
                    for x in range(first, side, apart):
                        which = np.int64(simd.get(winner[graph], row + x))
                        place = (2 * y + (which >> 1)) * row_length + (2 * x + (which & 1)) * n_in
                        simd.put(places, count, place)
                        simd.put(slopes, count, simd.get(grad[graph], row + x))
                        count += which != _CUT
            biases[graph, channel] = slopes[:count].sum()
            places[count : count + _AT_ONCE], slopes[count : count + _AT_ONCE] = 0, 0
            corner = channel * k * n_vectors
            for live in range(0, count, _AT_ONCE):
                a, b = simd.broadcast(simd.get(slopes, live)), simd.broadcast(simd.get(slopes, live + 1))
                c, d = simd.broadcast(simd.get(slopes, live + 2)), simd.broadcast(simd.get(slopes, live + 3))
                of_a, of_b = simd.get(places, live), simd.get(places, live + 1)
                of_c, of_d = simd.get(places, live + 2), simd.get(places, live + 3)
                for row in range(k):
                    for i in range(n_vectors):
                        index, step = corner + row * n_vectors + i, row * row_length + i * lanes
                        total = simd.fma(a, simd.load_from(own, of_a + step), simd.load(sums, index))
                        total = simd.fma(b, simd.load_from(own, of_b + step), total)
                        total = simd.fma(c, simd.load_from(own, of_c + step), total)
                        simd.store(sums, index, simd.fma(d, simd.load_from(own, of_d + step), total))
            if len(grad_inputs) > 0:
                for live in range(count):
                    factor, place = simd.broadcast(simd.get(slopes, live)), simd.get(places, live)
                    for row in range(k):
                        for i in range(n_vectors):
                            index, at = corner + row * n_vectors + i, place + row * row_length + i * lanes
                            added = simd.fma(factor, simd.load(weight, index), simd.load_from(target, at))
                            store_from(target, at, added)
        if len(grad_inputs) > 0:
            for y in range(n):
                for x in range(n):
                    at = (margin + y) * row_length + (margin + x) * n_in
                    for c in range(n_in):
                        grad_inputs[graph, c, y, x] = target[at + c]


@njit(cache=True, nogil=True)
def _channels_last(maps: Any, padded: Any, margin: int, row_length: int) -> None:
    """Copy maps ``(n_in, n, n)`` to rows of pixels with a margin."""
    n_in, n, _ = maps.shape
    for y in range(n):
        for c in range(n_in):
            at = (margin + y) * row_length + margin * n_in + c
            for x in range(n):
                padded[at + x * n_in] = maps[c, y, x]
