"""The linear assignment problem for many small matrices on the CPU, one matrix at a time."""

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from isocapsnet.functional.kernels._threads import parallel_ranges


def assigned_columns(profit: Tensor) -> Tensor:
    """The same as :func:`isocapsnet.functional.assigned_columns`, step by step and so also where several are best."""
    k = profit.shape[-1]
    flat = profit.detach().reshape(-1, k, k).contiguous()
    columns = torch.empty(len(flat), k, dtype=torch.int64)
    arguments = flat.numpy(), columns.numpy()
    parallel_ranges(lambda start, stop: _assign_all(*arguments, start, stop), len(flat))
    return columns.view(profit.shape[:-1])


@njit(cache=True, nogil=True)
def _assign_all(profits: Any, columns: Any, start: int, stop: int) -> None:
    k = profits.shape[1]
    work = np.empty((k, k)), np.empty((3, k)), np.empty((2, k), np.int64), np.empty(k, np.bool_)
    for i in range(start, stop):
        assign(profits[i].reshape(-1), k, columns[i], work)


@njit(nogil=True)
def assign(profit: Any, width: int, column_of: Any, work: Any) -> None:
    """The columns of the k rows of a matrix whose rows begin every ``width`` entries of ``profit``.

    ``work`` is room for k x k numbers, 3 x k numbers, 2 x k indices and k truth values.
    """
    k = len(column_of)
    cost, reached = work[0], work[3]
    row_price, column_price, length = work[1][0], work[1][1], work[1][2]
    row_of, before = work[2][0], work[2][1]
    for row in range(k):
        for column in range(k):
            value = profit[row * width + column]
            cost[row, column] = -np.float64(value) if np.isfinite(value) else 0.0
        column_price[row] = 0.0
        column_of[row] = row_of[row] = -1
    # Each row is assigned its cheapest column, unless an earlier row has it.
    for row in range(k):
        cheapest = 0
        for column in range(1, k):
            if cost[row, column] < cost[row, cheapest]:
                cheapest = column
        row_price[row] = cost[row, cheapest]
        if row_of[cheapest] < 0:
            row_of[cheapest], column_of[row] = row, cheapest
    for first in range(k):
        if column_of[first] < 0:
            _augment(first, cost, row_price, column_price, column_of, row_of, length, before, reached)


@njit(cache=True, nogil=True)
def _augment(
    first: int,
    cost: Any,
    row_price: Any,
    column_price: Any,
    column_of: Any,
    row_of: Any,
    length: Any,
    before: Any,
    reached: Any,
) -> None:
    """Assign a column to row ``first`` along the cheapest path to a free column (Dijkstra)."""
    k = len(cost)
    length[:] = np.inf
    reached[:] = False
    row, so_far, end = first, 0.0, -1
    while end < 0:
        base = so_far - row_price[row]
        nearest = -1
        for column in range(k):
            if reached[column]:
                continue
            reduced = base + cost[row, column] - column_price[column]
            if reduced < length[column]:
                length[column], before[column] = reduced, row
            if nearest < 0 or length[column] < length[nearest]:
                nearest = column
        so_far = length[nearest]
        reached[nearest] = True
        if row_of[nearest] < 0:
            end = nearest
        else:
            row = row_of[nearest]
    for column in range(k):
        if reached[column]:
            gain = so_far - length[column]
            column_price[column] -= gain
            if row_of[column] >= 0:
                row_price[row_of[column]] += gain
    row_price[first] += so_far
    column = end
    while True:
        row = before[column]
        following = column_of[row]
        column_of[row], row_of[column] = column, row
        if row == first:
            return
        column = following
