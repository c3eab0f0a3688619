"""Permutations of the nodes of a template, numbered in lexicographic order.

A permutation is an array p of k nodes. It represents the matrix P with ``P[a, p[a]] = 1``, so that
``P K Pᵀ = K[p][:, p]``. Its number is its row in ``itertools.permutations(range(k))``. Numbers are exact in int64 up to
k = 20. Conversion between the two forms needs no table of all k! permutations.
"""

from functools import lru_cache
from itertools import permutations
from math import factorial

import torch
from torch import Tensor
from torch.nn.functional import one_hot

#: 21! exceeds int64.
MAX_NUMBERED_SIZE = 20

#: Up to this size a permutation is looked up in the table, which then has 40,320 rows at most.
TABLE_SIZE = 8


@lru_cache(maxsize=16)
def permutation_table(kernel_size: int, device: torch.device | str = "cpu") -> Tensor:
    """All permutations of ``range(kernel_size)`` in lexicographic order, int64 ``(k!, k)``."""
    table = torch.tensor(list(permutations(range(kernel_size))), dtype=torch.int64).reshape(-1, kernel_size)
    return table.to(device)


def permutation_number(orders: Tensor) -> Tensor:
    """Numbers of permutations: ``orders`` int64 ``(..., k)`` to int64 ``(...)``."""
    k = orders.shape[-1]
    number = torch.zeros(orders.shape[:-1], dtype=torch.int64, device=orders.device)
    for i in range(k - 1):
        # Each smaller node in a later position starts a block of permutations that precede this one.
        smaller = (orders[..., i + 1 :] < orders[..., i, None]).sum(dim=-1)
        number += smaller * factorial(k - 1 - i)
    return number


def permutation_at(number: Tensor, kernel_size: int) -> Tensor:
    """The inverse of :func:`permutation_number`: ``number`` ``(...)`` to int64 ``(..., k)``, k = ``kernel_size``."""
    if kernel_size <= TABLE_SIZE:
        return permutation_table(kernel_size, number.device)[number]
    orders = torch.empty(*number.shape, kernel_size, dtype=torch.int64, device=number.device)
    for i in range(kernel_size):
        block = factorial(kernel_size - 1 - i)
        orders[..., i], number = number // block, number % block
    for i in reversed(range(kernel_size - 1)):
        # So far a node is an index into the nodes that were still unused; skip those used before it.
        later = orders[..., i + 1 :]
        later += later >= orders[..., i, None]
    return orders


def permutation_matrices(number: Tensor, kernel_size: int) -> Tensor:
    """Boolean P with ``P[a, p[a]]``: ``number`` ``(...)`` to ``(..., k, k)``, k = ``kernel_size``."""
    return one_hot(permutation_at(number, kernel_size), kernel_size).bool()


def selected_entries(number: Tensor, kernel_size: int) -> Tensor:
    """The entries of vec(P) that are 1: numbers ``(...)`` to int64 ``(..., k)``."""
    return permutation_at(number, kernel_size) + kernel_size * torch.arange(kernel_size, device=number.device)
