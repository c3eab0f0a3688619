"""Squashing of many short vectors on the CPU: length, factor and product of a vector while it is in the nearest cache.

Plain torch makes ten passes over them, and sums over few entries are slow there.
"""

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from isocapsnet.functional.kernels._threads import parallel_ranges

# For fewer entries, plain torch takes no longer.
_LEAST_ENTRIES = 2**15
# Longer vectors are not unrolled by the compiler.
_LONGEST = 64


def fits(x: Tensor) -> bool:
    """Whether the kernels take these vectors: their entries must be neighbours in memory, without gaps."""
    if x.dim() < 2 or x.numel() < max(1, _LEAST_ENTRIES) or x.shape[-1] > _LONGEST or x.is_neg():
        return False
    return x.permute(_order(x)).is_contiguous() and x.stride(-1) == 1


def squash(x: Tensor) -> Tensor:
    """The squashed vectors ``(..., size)``, in the memory order of ``x``."""
    result = torch.empty_like(x)
    arguments = _rows(x), _rows(result), (None,) * x.shape[-1]
    parallel_ranges(lambda start, stop: _squash(*arguments, start, stop), x.numel() // x.shape[-1])
    return result


def backward(grad: Tensor, x: Tensor) -> Tensor:
    """The gradient for ``x`` from that for the squashed vectors."""
    result = torch.empty_like(x)
    # In the memory order of x; a sum hands down a gradient without strides.
    grad = grad if grad.stride() == x.stride() else torch.empty_like(x).copy_(grad)
    arguments = _rows(grad), _rows(x), _rows(result), (None,) * x.shape[-1]
    parallel_ranges(lambda start, stop: _backward(*arguments, start, stop), x.numel() // x.shape[-1])
    return result


def _order(x: Tensor) -> list[int]:
    """The dimensions in the order of the memory, the entries of a vector last."""
    strides = x.stride()
    return [*sorted(range(x.dim() - 1), key=lambda i: -strides[i]), x.dim() - 1]


def _rows(x: Tensor) -> np.ndarray[Any, Any]:
    """A vector in each row, in the order of the memory."""
    rows: np.ndarray[Any, Any] = x.permute(_order(x)).view(-1, x.shape[-1]).numpy()
    return rows


@njit(cache=True, nogil=True)
def _squash(x: Any, result: Any, shape: Any, start: int, stop: int) -> None:
    zero, one = x.dtype.type(0), x.dtype.type(1)
    for i in range(start, stop):
        squared = zero
        for d in range(len(shape)):
            squared += x[i, d] * x[i, d]
        factor = np.sqrt(squared) / (one + squared)
        for d in range(len(shape)):
            result[i, d] = factor * x[i, d]


@njit(cache=True, nogil=True)
def _backward(grad: Any, x: Any, result: Any, shape: Any, start: int, stop: int) -> None:
    """f · grad + f′/L (x·grad) x, where f = L / (1 + L²) is the factor of a vector of length L."""
    zero, one = x.dtype.type(0), x.dtype.type(1)
    for i in range(start, stop):
        squared, along = zero, zero
        for d in range(len(shape)):
            squared += x[i, d] * x[i, d]
            along += x[i, d] * grad[i, d]
        length, share = np.sqrt(squared), one / (one + squared)
        # At zero the gradient is zero, as that of `safe_norm`.
        # In this order nothing overflows where the square of the length does not.
        change = zero if squared == zero else along / length * ((one - squared) * share) * share
        for d in range(len(shape)):
            result[i, d] = length * share * grad[i, d] + change * x[i, d]
