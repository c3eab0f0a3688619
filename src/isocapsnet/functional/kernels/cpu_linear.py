"""Products with a wide matrix of weights, for batches of few graphs.

Each weight is read once, or written once, while the batch stays in the nearest caches. General libraries copy a matrix
into another order first, which takes as long as the product with a batch.
"""

from typing import Any

import torch
from numba import njit
from torch import Tensor

from isocapsnet.functional.kernels import _simd as simd
from isocapsnet.functional.kernels._buffers import take
from isocapsnet.functional.kernels._simd_rows import combine, dot_block, multiply_block
from isocapsnet.functional.kernels._takers import Taker
from isocapsnet.functional.kernels._threads import parallel_ranges

# Blocks of 4 x 4 sums are in registers at a time; a row of weights consists of whole blocks.
_SIDE = 4
# Rows of weights that are read together, and blocks of rows that are written together.
_ROWS, _BLOCKS = 16, 16
# For fewer weights, torch's own product takes no longer.
_LEAST_WEIGHTS = 2**20
# Bytes of a gradient that are taken at a time: few enough to stay in a cache.
_TAKEN_BYTES = 2 * 1024**2


def fits(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether the kernels take these tensors."""
    is_matrix = inputs.shape[1:] == weight.shape[1:] and inputs.ndim == 2 and len(inputs) > 0
    has_bias = bias is not None and bias.shape == weight.shape[:1] and bias.dtype == weight.dtype
    whole = weight.shape[1] * weight.element_size() % (_SIDE * simd.VECTOR_BYTES) == 0
    is_single = weight.dtype == torch.float32 and inputs.dtype == torch.float32
    return is_matrix and has_bias and is_single and whole and len(weight) >= _SIDE and weight.numel() >= _LEAST_WEIGHTS


def apply(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``(n_graphs, n_in)``, ``(n_out, n_in)`` and ``(n_out,)`` to ``(n_graphs, n_out)``."""
    padded = torch.nn.functional.pad(inputs, [0, 0, 0, -len(inputs) % _SIDE]).contiguous()
    output = inputs.new_empty(len(padded), len(weight))
    arguments = padded.flatten().numpy(), weight.contiguous().flatten().numpy(), bias.numpy(), output.numpy()
    parallel_ranges(lambda start, stop: _apply(*arguments, start, stop), -(-len(weight) // _SIDE))
    return output if len(output) == len(inputs) else output[: len(inputs)].clone()


def grad_inputs(grad: Tensor, weight: Tensor) -> Tensor:
    """The gradient for the inputs ``(n_graphs, n_in)`` from that for the output ``(n_graphs, n_out)``."""
    n_vectors = weight.shape[1] * weight.element_size() // simd.VECTOR_BYTES
    # Vectors of all graphs together: neighbours in memory, unlike the rows of a matrix.
    sums = grad.new_zeros(n_vectors, len(grad), weight.shape[1] // n_vectors)
    arguments = grad.contiguous().numpy(), weight.detach().contiguous().flatten().numpy(), sums.flatten().numpy()
    parallel_ranges(lambda start, stop: _grad_inputs(*arguments, (None,) * _ROWS, start, stop), _SIDE)
    return sums.transpose(0, 1).flatten(1)


def grad_weight(grad: Tensor, inputs: Tensor, taker: Taker | None = None) -> Tensor | None:
    """The gradient for the weights ``(n_out, n_in)`` from that for the output ``(n_graphs, n_out)``.

    With a taker, it is taken in parts of some rows, and None is returned.
    """
    n_out, n_in = grad.shape[1], inputs.shape[1]
    size = _SIDE * simd.VECTOR_BYTES // inputs.element_size()
    packed = inputs.detach().unflatten(1, (-1, size)).transpose(0, 1).contiguous().flatten().numpy()
    if taker is None:
        result = take(inputs, n_out, n_in)
        arguments = grad.contiguous().numpy(), packed, result.flatten().numpy(), None
        n_groups = -(-n_out // (_SIDE * _BLOCKS))
        parallel_ranges(lambda start, stop: _grad_weight(*arguments, start, stop), n_groups)
        return result
    n_parts = min(-(-n_out * n_in * inputs.element_size() // _TAKEN_BYTES), n_out // _SIDE)

    def pass_on(start: int, stop: int) -> None:
        for part in range(start, stop):
            rows = slice(n_out * part // n_parts, n_out * (part + 1) // n_parts)
            own = inputs.new_empty(rows.stop - rows.start, n_in)
            n_groups = -(-len(own) // (_SIDE * _BLOCKS))
            _grad_weight(grad[:, rows].contiguous().numpy(), packed, own.flatten().numpy(), True, 0, n_groups)
            taker(lambda whole: whole.view(n_out, n_in)[rows], own)  # noqa: B023

    parallel_ranges(pass_on, n_parts)
    return None


@njit(cache=True, nogil=True)
def _apply(inputs: Any, weight: Any, bias: Any, output: Any, start: int, stop: int) -> None:
    """Rows ``4 * start`` to ``4 * stop``; the last four may have been computed before."""
    n_graphs, n_out = output.shape
    n_vectors = len(weight) // n_out // simd.lanes(weight)
    products = simd.empty(1, weight)
    for block in range(start, stop):
        first = min(block * _SIDE, n_out - _SIDE)
        for g in range(0, n_graphs, _SIDE):
            simd.store(products, 0, dot_block(inputs, g * n_vectors, weight, first * n_vectors, n_vectors))
            for i in range(_SIDE):
                for j in range(_SIDE):
                    output[g + i, first + j] = products[i * _SIDE + j] + bias[first + j]


@njit(cache=True, nogil=True)
def _grad_inputs(grad: Any, weight: Any, sums: Any, rows: Any, start: int, stop: int) -> None:
    """The quarters ``start`` to ``stop`` of the inputs."""
    n_graphs, n_out = grad.shape
    n_vectors, flat = len(weight) // n_out // simd.lanes(weight), grad.ravel()
    first_vector, last_vector = n_vectors * start // _SIDE, n_vectors * stop // _SIDE
    whole = n_out // len(rows) * len(rows)
    for row in range(0, whole, len(rows)):
        for i in range(first_vector, last_vector):
            combine(
                flat, row, n_out, 1, weight, row * n_vectors + i, n_vectors, rows, n_graphs, sums, i * n_graphs, 1, True
            )
    for row in range(whole, n_out):
        for i in range(first_vector, last_vector):
            combine(flat, row, n_out, 1, weight, row * n_vectors + i, 1, (None,), n_graphs, sums, i * n_graphs, 1, True)


@njit(cache=True, nogil=True)
def _grad_weight(grad: Any, inputs: Any, result: Any, near: Any, start: int, stop: int) -> None:
    """Groups ``start`` to ``stop`` of rows; the last four rows may be written more than once."""
    n_graphs, n_out = grad.shape
    n_vectors, flat = len(result) // n_out // simd.lanes(result), grad.ravel()
    for group in range(start, stop):
        first_row = group * _BLOCKS * _SIDE
        for i in range(0, n_vectors, _SIDE):
            for block in range(first_row, min(first_row + _BLOCKS * _SIDE, n_out), _SIDE):
                row = min(block, n_out - _SIDE)
                place, first = row * n_vectors + i, i // _SIDE * n_graphs
                multiply_block(flat, row, n_out, inputs, first, n_graphs, result, place, n_vectors, near)
