"""A convolution with 2 x 2 max-pooling and ReLU on the CPU: the pooling, and gradients through its winners alone.

At most one of four outputs of the convolution has a gradient, and where ReLU cuts none of them has one. Each such
output adds its gradient times a patch of the input to that of the weights, and times the weights to that of the patch.
A row of a patch is contiguous if channels come last.
"""

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor
from torch.nn.functional import pad

from isocapsnet.functional.kernels import _simd as simd
from isocapsnet.functional.kernels._simd_rows import store_from
from isocapsnet.functional.kernels._threads import parallel_ranges

# Marks a pooled output that ReLU has cut.
_CUT = 4


def pool(maps: Tensor) -> tuple[Tensor, Tensor]:
    """The largest of each 2 x 2 outputs, not below 0, and which of them it is; sides are rounded up.

    ``(n_graphs, n_channels, n, n)`` to two tensors ``(n_graphs, n_channels, ⌈n/2⌉, ⌈n/2⌉)``.
    """
    simd.forget_stale_code()
    side = -(-maps.shape[-1] // 2)
    pooled = maps.new_empty(*maps.shape[:2], side, side)
    winner = torch.empty(pooled.shape, dtype=torch.uint8)
    arguments = maps.contiguous().flatten(0, 1).numpy(), pooled.flatten(0, 1).numpy(), winner.flatten(0, 1).numpy()
    parallel_ranges(lambda start, stop: _pool(*arguments, start, stop), len(arguments[0]))
    return pooled, winner


def backward(
    grad: Tensor, winner: Tensor, inputs: Tensor, weight: Tensor, needs_inputs: bool
) -> tuple[Tensor | None, Tensor, Tensor]:
    """Gradients of inputs ``(n_graphs, n_in, n, n)``, weights ``(n_out, n_in, k, k)`` and biases ``(n_out,)``."""
    simd.forget_stale_code()
    (n_graphs, n_in, n, _), (n_out, _, k, _) = inputs.shape, weight.shape
    lanes = simd.VECTOR_BYTES // inputs.element_size()
    n_vectors = -(-k * n_in // lanes)
    margin = k // 2
    # Rows have room for a vector that begins in their last patch.
    padded = inputs.new_zeros(n_graphs, n + 2 * margin, (n + 2 * margin) * n_in + lanes)
    inside = slice(margin, margin + n), slice(margin * n_in, (margin + n) * n_in)
    padded[:, *inside].view(n_graphs, n, n, n_in).copy_(inputs.permute(0, 2, 3, 1))
    rows = pad(weight.permute(0, 2, 3, 1).flatten(2), (0, n_vectors * lanes - k * n_in)).contiguous()
    grad_padded = torch.zeros_like(padded) if needs_inputs else padded.new_empty(0, *padded.shape[1:])
    # One sum per graph, added up in order: the result does not depend on the number of threads.
    parts = padded.new_empty(n_graphs, *rows.shape)
    biases = padded.new_empty(n_graphs, n_out)
    arguments = (
        grad.contiguous().numpy(),
        winner.numpy(),
        padded.flatten(1).numpy(),
        padded.shape[2],
        n_in,
        rows.flatten().numpy(),
        (None,) * k,
        (None,) * n_vectors,
        grad_padded.flatten(1).numpy(),
        parts.flatten(1).numpy(),
        biases.numpy(),
    )
    parallel_ranges(lambda start, stop: _backward(*arguments, start, stop), n_graphs)
    grad_weight = parts.sum(dim=0)[..., : k * n_in].unflatten(2, (k, n_in)).permute(0, 3, 1, 2).contiguous()
    grad_inputs = None
    if needs_inputs:
        grad_inputs = grad_padded[:, *inside].view(n_graphs, n, n, n_in).permute(0, 3, 1, 2).contiguous()
    return grad_inputs, grad_weight, biases.sum(dim=0)


@njit(cache=True, nogil=True)
def _pool(maps: Any, pooled: Any, winner: Any, start: int, stop: int) -> None:
    """No branches, which would be mispredicted at every second output."""
    n, side = maps.shape[1], pooled.shape[1]
    column, of_lower = np.empty(2 * side, maps.dtype), np.empty(2 * side, np.int32)
    for i in range(start, stop):
        for y in range(side):
            upper, lower = maps[i, 2 * y], maps[i, min(2 * y + 1, n - 1)]
            for x in range(n):
                # A NaN wins, so that a diverged training is noticed; the copy of a border never wins over itself.
                below = (lower[x] > upper[x]) | ((lower[x] != lower[x]) & (upper[x] == upper[x]))
                column[x] = lower[x] if below else upper[x]
                of_lower[x] = 2 if below else 0
            column[2 * side - 1], of_lower[2 * side - 1] = column[n - 1], of_lower[n - 1]
            for x in range(side):
                left, right = column[2 * x], column[2 * x + 1]
                first, second = of_lower[2 * x], of_lower[2 * x + 1] + 1
                # Of equal outputs the first in the order of rows wins.
                later = (right > left) | ((right != right) & (left == left)) | ((right == left) & (second < first))
                best = right if later else left
                cut = best <= 0
                pooled[i, y, x] = 0 if cut else best
                winner[i, y, x] = _CUT if cut else (second if later else first)


@njit(cache=True, nogil=True)
def _backward(
    grad: Any,
    winner: Any,
    padded: Any,
    row_length: int,
    n_in: int,
    weight: Any,
    kernel_rows: Any,
    split: Any,
    grad_padded: Any,
    parts: Any,
    biases: Any,
    start: int,
    stop: int,
) -> None:
    n_out, side = grad.shape[1], grad.shape[2]
    k, n_vectors, lanes = len(kernel_rows), len(split), simd.lanes(padded)
    places, slopes = np.empty(side * side, np.int64), np.empty(side * side, grad.dtype)
    for graph in range(start, stop):
        own, sums = padded[graph], parts[graph]
        sums[:] = 0
        for channel in range(n_out):
            # A list of the outputs with a gradient, so that the loops over them have no branches.
            count = 0
            for y in range(side):
                for x in range(side):
                    which = np.int64(winner[graph, channel, y, x])
                    places[count] = (2 * y + which // 2) * row_length + (2 * x + which % 2) * n_in
                    slopes[count] = grad[graph, channel, y, x]
                    count += which != _CUT
            biases[graph, channel] = slopes[:count].sum()
            corner = channel * k * n_vectors
            for live in range(count):
                factor, place = simd.broadcast(simd.get(slopes, live)), simd.get(places, live)
                for row in range(k):
                    for i in range(n_vectors):
                        index, at = corner + row * n_vectors + i, place + row * row_length + i * lanes
                        simd.store(sums, index, simd.fma(factor, simd.load_from(own, at), simd.load(sums, index)))
            if len(grad_padded) > 0:
                target = grad_padded[graph]
                for live in range(count):
                    factor, place = simd.broadcast(simd.get(slopes, live)), simd.get(places, live)
                    for row in range(k):
                        for i in range(n_vectors):
                            index, at = corner + row * n_vectors + i, place + row * row_length + i * lanes
                            added = simd.fma(factor, simd.load(weight, index), simd.load_from(target, at))
                            store_from(target, at, added)
