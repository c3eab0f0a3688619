"""A transposed convolution with 4 x 4 filters and a stride of 2 on the CPU, and its gradients.

The outputs at even and odd rows and columns are four maps of the size of the input. Each is a convolution with 2 x 2
of the 16 weights: output (2y + p, 2x + q) is the sum over a, b in {0, 1} of weight (3 - p - 2a, 3 - q - 2b) times input
(y + p - 1 + a, x + q - 1 + b). Each lane of a vector is a column.
"""

from typing import Any

import torch
from numba import njit
from torch import Tensor
from torch.nn.functional import pad

from isocapsnet.functional.kernels import _simd as simd
from isocapsnet.functional.kernels._simd_rows import add_up
from isocapsnet.functional.kernels._threads import parallel_ranges

# Maps whose gradients are in registers at once.
_AT_ONCE = 4


def double(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Inputs ``(n_graphs, n_in, n, n)``, weights ``(n_in, n_out, 4, 4)``, biases to ``(n_graphs, n_out, 2n, 2n)``."""
    n_graphs, _, n, _ = inputs.shape
    result = inputs.new_empty(n_graphs, weight.shape[1], 2 * n, 2 * n)
    arguments = inputs.contiguous().numpy(), _by_parity(weight.transpose(0, 1)).numpy(), bias.numpy(), result.numpy()
    parallel_ranges(lambda start, stop: _double(*arguments, start, stop), n_graphs)
    return result


def backward(grad: Tensor, inputs: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of inputs, weights and biases."""
    n_graphs, n_in, n_out = len(inputs), *weight.shape[:2]
    grad_inputs = torch.empty_like(inputs, memory_format=torch.contiguous_format)
    # One sum per graph, added up in order: the result does not depend on the number of threads.
    parts = inputs.new_empty(n_graphs, n_in, n_out, 4, 4)
    padded = pad(weight.detach(), (0, 0, 0, 0, 0, 0, 0, -n_in % _AT_ONCE))
    # For each output map and weight, those of several input maps lie side by side.
    rows = _by_parity(padded).unflatten(0, (-1, _AT_ONCE)).movedim(1, -1).flatten(1).contiguous()
    grad = grad.contiguous()
    arguments = grad.numpy(), inputs.contiguous().numpy(), rows.numpy(), grad_inputs.numpy(), parts.numpy()
    parallel_ranges(lambda start, stop: _backward(*arguments, start, stop), n_graphs)
    return grad_inputs, parts.sum(dim=0), grad.sum(dim=(0, 2, 3))


def _by_parity(weight: Tensor) -> Tensor:
    """Weights ``(m, n, 4, 4)`` to ``(m, n · 16)``, in the order of p, q, a and b."""
    # 3 - p - 2a: the flipped axis is 2a + p.
    split = weight.flip(2, 3).unflatten(2, (2, 2)).unflatten(4, (2, 2))  # m, n, a, p, b, q
    return split.permute(0, 1, 3, 5, 2, 4).flatten(1).contiguous()


@njit(cache=True, nogil=True)
def _double(inputs: Any, weight: Any, bias: Any, result: Any, start: int, stop: int) -> None:
    n_in, n, lanes = inputs.shape[1], inputs.shape[2], simd.lanes(inputs)
    length = _row_length(n, lanes)
    planes = simd.empty(n_in * (n + 2) * length // lanes, inputs)
    planes[:] = 0
    room = simd.empty(4, inputs)
    for graph in range(start, stop):
        for i in range(n_in):
            for y in range(n):
                first = (i * (n + 2) + y + 1) * length + 1
                planes[first : first + n] = inputs[graph, i, y]
        for o in range(len(bias)):
            for y in range(n):
                for x in range(0, n, lanes):
                    s = simd.broadcast(bias[o])
                    t, u, v = s, s, s
                    for i in range(n_in):
                        w, at = i * 16, (i * (n + 2) + y) * length + x
                        a, b, c = _three(planes, at)
                        d, e, f = _three(planes, at + length)
                        g, h, j = _three(planes, at + 2 * length)
                        s = _weigh(weight[o], w, s, a, b, d, e)
                        t = _weigh(weight[o], w + 4, t, b, c, e, f)
                        u = _weigh(weight[o], w + 8, u, d, e, g, h)
                        v = _weigh(weight[o], w + 12, v, e, f, h, j)
                    simd.store(room, 0, s)
                    simd.store(room, 1, t)
                    simd.store(room, 2, u)
                    simd.store(room, 3, v)
                    upper, lower = result[graph, o, 2 * y], result[graph, o, 2 * y + 1]
                    for lane in range(min(lanes, n - x)):
                        column = 2 * (x + lane)
                        upper[column], upper[column + 1] = room[lane], room[lanes + lane]
                        lower[column], lower[column + 1] = room[2 * lanes + lane], room[3 * lanes + lane]


@njit(cache=True, nogil=True)
def _backward(grad: Any, inputs: Any, weight: Any, grad_inputs: Any, parts: Any, start: int, stop: int) -> None:
    n_in, n, n_out, lanes = inputs.shape[1], inputs.shape[2], grad.shape[1], simd.lanes(inputs)
    length = _row_length(n, lanes)
    area = (n + 2) * length
    planes, grads = simd.empty(n_in * area // lanes, inputs), simd.empty(4 * n_out * area // lanes, inputs)
    planes[:] = 0
    grads[:] = 0
    room = simd.empty(_AT_ONCE, inputs)
    for graph in range(start, stop):
        for i in range(n_in):
            for y in range(n):
                first = i * area + (y + 1) * length + 1
                planes[first : first + n] = inputs[graph, i, y]
        for o in range(n_out):  # four maps of each output, with a margin of zeros
            for y in range(2 * n):
                first = (4 * o + 2 * (y % 2)) * area + (y // 2 + 1) * length + 1
                row = grad[graph, o, y]
                for x in range(n):
                    grads[first + x] = row[2 * x]
                    grads[first + area + x] = row[2 * x + 1]
        for block in range(len(weight)):
            for y in range(n):
                for x in range(0, n, lanes):
                    s = simd.broadcast(grad.dtype.type(0))
                    t, u, v = s, s, s
                    for of_output in range(4 * n_out):
                        p, q = of_output >> 1 & 1, of_output & 1
                        for tap in range(4):
                            a, b = tap >> 1, tap & 1
                            at = of_output * area + (y + 2 - p - a) * length + x + 2 - q - b
                            value, w = simd.load_from(grads, at), (of_output * 4 + tap) * _AT_ONCE
                            s = simd.fma(simd.broadcast(simd.get(weight[block], w)), value, s)
                            t = simd.fma(simd.broadcast(simd.get(weight[block], w + 1)), value, t)
                            u = simd.fma(simd.broadcast(simd.get(weight[block], w + 2)), value, u)
                            v = simd.fma(simd.broadcast(simd.get(weight[block], w + 3)), value, v)
                    simd.store(room, 0, s)
                    simd.store(room, 1, t)
                    simd.store(room, 2, u)
                    simd.store(room, 3, v)
                    count = min(lanes, n - x)
                    for i in range(min(_AT_ONCE, n_in - block * _AT_ONCE)):
                        target = grad_inputs[graph, block * _AT_ONCE + i, y]
                        target[x : x + count] = room[i * lanes : i * lanes + count]
        for i in range(n_in):
            for of_output in range(4 * n_out):
                o, p, q = of_output >> 2, of_output >> 1 & 1, of_output & 1
                s = simd.broadcast(grad.dtype.type(0))
                t, u, v = s, s, s
                for y in range(n):
                    for x in range(0, n, lanes):  # beyond the last column there are zeros
                        value = simd.load_from(grads, of_output * area + (y + 1) * length + x + 1)
                        at = i * area + (y + p) * length + x + q
                        s = simd.fma(value, simd.load_from(planes, at), s)
                        t = simd.fma(value, simd.load_from(planes, at + 1), t)
                        u = simd.fma(value, simd.load_from(planes, at + length), u)
                        v = simd.fma(value, simd.load_from(planes, at + length + 1), v)
                parts[graph, i, o, 3 - p, 3 - q], parts[graph, i, o, 3 - p, 1 - q] = add_up(s), add_up(t)
                parts[graph, i, o, 1 - p, 3 - q], parts[graph, i, o, 1 - p, 1 - q] = add_up(u), add_up(v)


@njit(cache=True, nogil=True)
def _row_length(n: int, lanes: int) -> int:
    """Room for a margin on both sides of a row and for a vector that begins in its last column."""
    return (-(-n // lanes) + 1) * lanes


@njit(cache=True, nogil=True)
def _three(planes: Any, at: int) -> Any:
    return simd.load_from(planes, at), simd.load_from(planes, at + 1), simd.load_from(planes, at + 2)


@njit(cache=True, nogil=True)
def _weigh(weight: Any, first: int, total: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    total = simd.fma(simd.broadcast(simd.get(weight, first)), a, total)
    total = simd.fma(simd.broadcast(simd.get(weight, first + 1)), b, total)
    total = simd.fma(simd.broadcast(simd.get(weight, first + 2)), c, total)
    return simd.fma(simd.broadcast(simd.get(weight, first + 3)), d, total)
