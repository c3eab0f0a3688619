"""Permutations of the nodes of a template, numbered in lexicographic order.

A permutation is an array p of k nodes and stands for the matrix P with ``P[a, p[a]] = 1``, so that
``P K Pᵀ = K[p][:, p]``. Its number is its row in ``itertools.permutations(range(k))``. Numbers are exact in int64 up to
k = 20; no table over all k! permutations is needed to go from one form to the other.
"""

from functools import lru_cache
from itertools import permutations
from math import factorial

import torch
from torch import Tensor
from torch.nn.functional import one_hot

#: 21! has no room in int64.
MAX_NUMBERED_SIZE = 20

# Up to this size a permutation is looked up in the table, which then has 40,320 rows at most.
_TABLE_SIZE = 8


@lru_cache(maxsize=16)
def permutation_table(kernel_size: int) -> Tensor:
    """All permutations of ``range(kernel_size)`` in lexicographic order, int64 ``(k!, k)``."""
    return torch.tensor(list(permutations(range(kernel_size))), dtype=torch.int64).reshape(-1, kernel_size)


def permutation_number(orders: Tensor) -> Tensor:
    """Numbers of permutations: int64 ``(..., k)`` to int64 ``(...)``."""
    k = orders.shape[-1]
    number = torch.zeros(orders.shape[:-1], dtype=torch.int64, device=orders.device)
    for place in range(k - 1):
        # Every smaller node that comes later begins a block of permutations that come before this one.
        smaller = (orders[..., place + 1 :] < orders[..., place, None]).sum(dim=-1)
        number += smaller * factorial(k - 1 - place)
    return number


def permutation_at(number: Tensor, kernel_size: int) -> Tensor:
    """The inverse of :func:`permutation_number`: int64 ``(...)`` to int64 ``(..., k)``."""
    if kernel_size <= _TABLE_SIZE:
        return permutation_table(kernel_size).to(number.device)[number]
    orders = torch.empty(*number.shape, kernel_size, dtype=torch.int64, device=number.device)
    for place in range(kernel_size):
        block = factorial(kernel_size - 1 - place)
        orders[..., place], number = number // block, number % block
    for place in reversed(range(kernel_size - 1)):
        # Counted among the nodes that are left: make room for those that came before.
        later = orders[..., place + 1 :]
        later += later >= orders[..., place, None]
    return orders


def permutation_matrices(number: Tensor, kernel_size: int) -> Tensor:
    """Boolean P with ``P[a, p[a]]``: numbers ``(...)`` to ``(..., k, k)``."""
    return one_hot(permutation_at(number, kernel_size), kernel_size).bool()


def permutation_index(matrices: Tensor) -> Tensor:
    """Numbers of permutation matrices: ``(..., k, k)`` to int64 ``(...)``."""
    return permutation_number(matrices.argmax(dim=-1))


def selected_entries(number: Tensor, kernel_size: int) -> Tensor:
    """The entries of vec(P) that are 1: numbers ``(...)`` to int64 ``(..., k)``."""
    return permutation_at(number, kernel_size) + kernel_size * torch.arange(kernel_size, device=number.device)
