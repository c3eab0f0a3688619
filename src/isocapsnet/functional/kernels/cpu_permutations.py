"""Permutations that are too many for a table, compiled."""

from math import factorial
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from isocapsnet.functional.kernels import _simd as simd
from isocapsnet.functional.kernels._threads import parallel_ranges

_MOST_32_BITS = np.uint64(2**32 - 1)


def permutation_at(number: Tensor, kernel_size: int) -> Tensor:
    """:func:`isocapsnet.functional.permutations.permutation_at` as small integers: uint8 ``(..., kernel_size)``."""
    orders = torch.empty(*number.shape, kernel_size, dtype=torch.uint8)
    flat = number.contiguous().flatten().numpy(), orders.view(-1, kernel_size).numpy()
    parallel_ranges(lambda start, stop: _write_orders(*flat, start, stop), number.numel())
    return orders


def block_sizes(kernel_size: int) -> np.ndarray:
    """How many permutations begin with the same 1, 2, …, ``kernel_size`` nodes: int64 ``(kernel_size,)``."""
    return np.array([factorial(i) for i in reversed(range(kernel_size))])


@njit(cache=True, nogil=True)
def _write_orders(numbers: Any, orders: Any, start: int, stop: int) -> None:
    for i in range(start, stop):
        write_order(numbers[i], orders[i])


@njit(cache=True, nogil=True)
def write_order(number: int, order: Any) -> None:
    """The permutation with a number."""
    a, rest = len(order) - 1, np.uint64(number)
    # The last digits of the number, in a system with the bases 1, 2, 3, ...: each division is by a small number.
    while a >= 0 and rest > _MOST_32_BITS:
        base = np.uint64(len(order) - a)
        quotient = rest // base
        simd.put(order, a, order.dtype.type(rest - quotient * base))
        a, rest = a - 1, quotient
    short = np.uint32(rest)  # divisions of 32 bits are faster
    while a >= 0:
        short_base = np.uint32(len(order) - a)
        short_quotient = short // short_base
        simd.put(order, a, order.dtype.type(short - short_quotient * short_base))
        a, short = a - 1, short_quotient
    # So far a node is an index into the nodes that were still unused; skip those used before it.
    for a in range(len(order) - 2, -1, -1):
        node = simd.get(order, a)
        for b in range(a + 1, len(order)):
            later = simd.get(order, b)
            simd.put(order, b, order.dtype.type(later + (later >= node)))


@njit(cache=True, nogil=True)
def number_of(order: Any, blocks: Any) -> int:
    """The reverse of :func:`write_order`; ``blocks`` is the result of :func:`block_sizes`."""
    number = 0
    for a in range(len(order)):
        node, smaller = simd.get(order, a), 0
        for b in range(a + 1, len(order)):
            smaller += simd.get(order, b) < node
        number += smaller * blocks[a]
    return number
