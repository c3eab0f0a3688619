"""The linear assignment problem for many small matrices at once."""

import torch
from torch import Tensor

# Values of the matrices that are solved at a time, so that a step reads and writes a few MB.
_CHUNK_VALUES = 200_000


def assigned_columns(profit: Tensor) -> Tensor:
    """The column of each row in the assignment of largest total profit: ``(..., k, k)`` to int64 ``(..., k)``.

    Shortest augmenting paths (Jonker & Volgenant 1987, in the form of Crouse 2016), in float64. The whole batch takes
    at most k²/2 steps; a solver for one matrix would be called once per window. Entries that are not finite count as 0,
    so the result is a permutation for any input.
    """
    k = profit.shape[-1]
    flat = profit.detach().reshape(-1, k, k)
    columns = torch.empty(len(flat), k, dtype=torch.int64, device=profit.device)
    step = max(1, _CHUNK_VALUES // max(1, k * k))
    for start in range(0, len(flat), step):
        chunk = flat[start : start + step].double().nan_to_num(0.0, 0.0, 0.0)
        columns[start : start + step] = _assign(-chunk)
    return columns.view(profit.shape[:-1])


def _assign(cost: Tensor) -> Tensor:
    """Columns ``(n, k)`` of least total cost for ``(n, k, k)``."""
    n, k, _ = cost.shape
    each = torch.arange(n, device=cost.device)
    row_price, cheapest = cost.min(dim=2)
    column_price = torch.zeros_like(row_price)
    column_of, row_of = torch.full_like(cheapest, -1), torch.full_like(cheapest, -1)
    # Each row is assigned its cheapest column, unless an earlier row has it.
    for row in range(k):
        column = cheapest[:, row]
        free = row_of[each, column] < 0
        row_of[each[free], column[free]] = row
        column_of[free, row] = column[free]
    while len(open_ := (column_of < 0).any(dim=1).nonzero()[:, 0]):
        state = [tensor[open_] for tensor in (row_price, column_price, column_of, row_of)]
        _augment(cost[open_], *state)
        for tensor, changed in zip((row_price, column_price, column_of, row_of), state, strict=True):
            tensor[open_] = changed
    return column_of


def _augment(cost: Tensor, row_price: Tensor, column_price: Tensor, column_of: Tensor, row_of: Tensor) -> None:
    """Assign a column to the first unassigned row of each matrix. All arguments but ``cost`` are changed in place.

    Dijkstra's algorithm finds the cheapest path from that row to a free column. The path enters each further row
    through the column assigned to it, and that row is assigned the next column on the path.
    """
    n, k, _ = cost.shape
    each = torch.arange(n, device=cost.device)
    first = (column_of < 0).to(torch.uint8).argmax(dim=1)
    row, so_far, end = first, cost.new_zeros(n), torch.full_like(first, -1)
    length, before = torch.full_like(row_price, torch.inf), torch.zeros_like(row_of)
    reached = torch.zeros_like(row_of, dtype=torch.bool)
    for _ in range(k):
        going = end < 0
        reduced = (so_far - row_price[each, row])[:, None] + cost[each, row] - column_price
        shorter = (reduced < length) & ~reached & going[:, None]
        length, before = torch.where(shorter, reduced, length), torch.where(shorter, row[:, None], before)
        nearest, column = length.masked_fill(reached, torch.inf).min(dim=1)
        so_far = torch.where(going, nearest, so_far)
        reached[each, column] |= going
        next_row = row_of[each, column]
        end = torch.where(going & (next_row < 0), column, end)
        if (end >= 0).all():
            break
        row = torch.where(end < 0, next_row, row)
    gain = (so_far[:, None] - length).masked_fill(~reached, 0)
    column_price -= gain
    row_price.scatter_add_(1, row_of.clamp_min(0), gain.masked_fill(row_of < 0, 0))
    row_price[each, first] += so_far
    column, each = end, each
    while len(each):
        row = before[each, column]
        column_of[each, row], row_of[each, column], column = column, row, column_of[each, row]
        going = row != first[each]
        each, column = each[going], column[going]
