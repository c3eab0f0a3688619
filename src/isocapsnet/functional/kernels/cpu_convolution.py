"""A convolution of graphs, which are images of one channel, and ReLU on the CPU; channels come last in memory.

General libraries prepare for many channels; for one, that takes longer than the sums. All filters of a pixel fill whole
vectors here, so each entry of a patch is multiplied with a vector of weights. Channels that come last are also what the
next convolution reads fastest.
"""

from typing import Any

from numba import njit
from torch import Tensor
from torch.nn.functional import pad

from isocapsnet.functional.kernels import _simd as simd
from isocapsnet.functional.kernels._simd_rows import combine
from isocapsnet.functional.kernels._threads import parallel_ranges

# Pixels whose gradients are added together to those of the weights.
_AT_ONCE = 8


def fits(graphs: Tensor, weight: Tensor, bias: Tensor | None, padding: int) -> bool:
    """Whether the kernels take these tensors: the filters must fill whole vectors, and fit into the graphs."""
    one_channel = graphs.dim() == 4 and weight.dim() == 4 and graphs.shape[1] == weight.shape[1] == 1
    if padding < 0 or any(n + 2 * padding < k for n, k in zip(graphs.shape[2:], weight.shape[2:], strict=False)):
        return False
    has_bias = bias is not None and bias.shape == weight.shape[:1] and graphs.dtype == weight.dtype == bias.dtype
    whole = len(weight) > 0 and len(weight) * weight.element_size() % simd.VECTOR_BYTES == 0
    return one_channel and has_bias and whole and graphs.device == weight.device


def convolve(graphs: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int) -> Tensor:
    """``(n_graphs, 1, n, n)``, ``(n_out, 1, k, k)`` and ``(n_out,)`` to ``(n_graphs, m, m, n_out)``."""
    padded = pad(graphs[:, 0], [padding] * 4).contiguous()
    rows, columns = ((side - k) // stride + 1 for side, k in zip(padded.shape[1:], weight.shape[2:], strict=True))
    maps = graphs.new_empty(len(graphs), rows, columns, len(weight))
    factors = weight[:, 0].permute(1, 2, 0).contiguous()
    shape = tuple((None,) * side for side in weight.shape[2:])
    arguments = padded.numpy(), factors.flatten().numpy(), bias.contiguous().numpy(), shape, stride, maps.numpy()
    parallel_ranges(lambda start, stop: _convolve(*arguments, start, stop), len(graphs))
    return maps


def backward(grad: Tensor, maps: Tensor, graphs: Tensor, weight: Tensor, stride: int, padding: int) -> tuple[Any, ...]:
    """Gradients of weights and biases, from that of the maps ``(n_graphs, m, m, n_out)``."""
    padded = pad(graphs[:, 0], [padding] * 4).contiguous()
    # One sum per graph, added up in order: the result does not depend on the number of threads.
    _, _, *sides = weight.shape
    sums = grad.new_empty(len(grad), sides[0] * sides[1] + 1, len(weight))
    shape = tuple((None,) * side for side in sides)
    arguments = padded.numpy(), grad.contiguous().numpy(), maps.numpy(), shape, (None,) * _AT_ONCE, stride, sums.numpy()
    parallel_ranges(lambda start, stop: _backward(*arguments, start, stop), len(grad))
    total = sums.sum(dim=0)
    return total[:-1].T.reshape(weight.shape), total[-1].clone()


@njit(cache=True, nogil=True)
def _convolve(graphs: Any, weight: Any, bias: Any, shape: Any, stride: int, maps: Any, start: int, stop: int) -> None:
    _, height, width = graphs.shape
    _, n_rows, n_columns, n_out = maps.shape
    parts, pixels, flat = n_out // simd.lanes(maps), graphs.ravel(), maps.ravel()
    k, zero = len(shape[1]), maps.dtype.type(0)
    for graph in range(start, stop):
        for row in range(n_rows):
            first = (graph * n_rows + row) * n_columns
            for p in range(parts):
                for x in range(n_columns):
                    simd.store(flat, (first + x) * parts + p, simd.load(bias, p))
            for y in range(len(shape[0])):
                corner = (graph * height + row * stride + y) * width
                for p in range(parts):
                    combine(
                        pixels, corner, stride, 1, weight, y * k * parts + p, parts, shape[1], n_columns,
                        flat, first * parts + p, parts, True,
                    )  # fmt: skip
            for i in range(first * n_out, (first + n_columns) * n_out):
                flat[i] = zero if flat[i] < zero else flat[i]  # NaN stays, so that a diverged training is noticed


@njit(cache=True, nogil=True)
def _backward(
    graphs: Any, grad: Any, maps: Any, shape: Any, at_once: Any, stride: int, sums: Any, start: int, stop: int
) -> None:
    _, height, width = graphs.shape
    _, n_rows, n_columns, n_out = maps.shape
    parts, pixels, k = n_out // simd.lanes(maps), graphs.ravel(), len(shape[1])
    flat_grad, flat_maps, zero = grad.ravel(), maps.ravel(), maps.dtype.type(0)
    own = simd.empty(n_columns * parts, maps)
    whole = n_columns // len(at_once) * len(at_once)
    for graph in range(start, stop):
        total = sums[graph].ravel()
        total[:] = 0
        for row in range(n_rows):
            first = (graph * n_rows + row) * n_columns * n_out
            for i in range(n_columns * n_out):
                own[i] = zero if flat_maps[first + i] <= zero else flat_grad[first + i]
            for p in range(parts):
                bias, target = simd.broadcast(zero), len(shape[0]) * k * parts + p
                for x in range(n_columns):
                    bias = bias + simd.load(own, x * parts + p)
                simd.store(total, target, simd.load(total, target) + bias)
            # Neighbouring blocks of pixels add to the same sums, and would wait for each other.
            for p in range(parts):
                for x in range(0, whole, len(at_once)):
                    for y in range(len(shape[0])):
                        corner = (graph * height + row * stride + y) * width + x * stride
                        combine(
                            pixels, corner, 1, stride, own, x * parts + p, parts, at_once, k,
                            total, y * k * parts + p, parts, True,
                        )  # fmt: skip
                for x in range(whole, n_columns):
                    for y in range(len(shape[0])):
                        corner = (graph * height + row * stride + y) * width + x * stride
                        combine(
                            pixels, corner, 1, stride, own, x * parts + p, parts, (None,), k,
                            total, y * k * parts + p, parts, True,
                        )  # fmt: skip
