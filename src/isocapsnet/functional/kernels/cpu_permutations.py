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
    blocks = np.array([factorial(i) for i in reversed(range(kernel_size))])
    arguments = number.contiguous().flatten().numpy(), blocks, orders.view(-1, kernel_size).numpy()
    parallel_ranges(lambda start, stop: _write_orders(*arguments, start, stop), number.numel())
    return orders


@njit(cache=True, nogil=True)
def _write_orders(numbers: Any, blocks: Any, orders: Any, start: int, stop: int) -> None:
    """The permutations ``start`` to ``stop``; ``blocks`` are the numbers of those with the same first nodes."""
    k = len(blocks)
    for i in range(start, stop):
        rest, order = np.int64(numbers[i]), orders[i]
        for a in range(k):
            order[a] = rest // blocks[a]
            rest %= blocks[a]
        # So far a node is an index into the nodes that were still unused; skip those used before it.
        for a in range(k - 2, -1, -1):
            for b in range(a + 1, k):
                order[b] += order[b] >= order[a]
