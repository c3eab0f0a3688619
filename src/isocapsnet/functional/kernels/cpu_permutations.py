"""Permutations that are too many for a table, compiled."""

from math import factorial
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from isocapsnet.functional.kernels._threads import parallel_ranges


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
    k, rest = len(order), np.uint64(number)
    # The last digits of the number, in a system with the bases 1, 2, 3, ...: each division is by a small number.
    for a in range(k - 1, -1, -1):
        base = np.uint64(k - a)
        quotient = rest // base
        order[a], rest = rest - quotient * base, quotient
    # So far a node is an index into the nodes that were still unused; skip those used before it.
    for a in range(k - 2, -1, -1):
        for b in range(a + 1, k):
            order[b] += order[b] >= order[a]


@njit(cache=True, nogil=True)
def number_of(order: Any, blocks: Any) -> int:
    """The reverse of :func:`write_order`; ``blocks`` is the result of :func:`block_sizes`."""
    number = 0
    for a in range(len(order)):
        smaller = 0
        for b in range(a + 1, len(order)):
            smaller += order[b] < order[a]
        number += smaller * blocks[a]
    return number
