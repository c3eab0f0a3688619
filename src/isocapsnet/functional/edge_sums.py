"""Sums over the edges of a node, where an edge is the leaky ReLU of a number of its row plus a number of its column."""

from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import leaky_relu

from isocapsnet.functional.kernels import pick_fused, run_fused
from isocapsnet.functional.kernels.fallback import plain_gradients


def leaky_edge_sums(
    rows: Tensor, columns: Tensor, row_filters: Tensor, column_filters: Tensor, leak: float
) -> tuple[Tensor, Tensor]:
    """Weighted sums over the rows and over the columns of A[m, i, j] = leaky_relu(rows[m, i] + columns[m, j]).

    leaky_relu(x) = leak · x + (1 - leak) · max(0, x). The sums over the first term are products of matrices of nodes,
    and on a CPU those over the second take a time proportional to the nodes, not the edges; A itself is not computed.

    Parameters
    ----------
    rows, columns : Tensor (n_graphs, n_in, n_nodes)
    row_filters, column_filters : Tensor (n_out, n_in, n_nodes)
    leak : float

    Returns
    -------
    of_rows, of_columns : Tensor (n_graphs, n_out, n_nodes)
        Σ_m Σ_k row_filters[n, m, k] A[m, i, k] and Σ_m Σ_k column_filters[n, m, k] A[m, k, j].
    """
    kernel = pick_fused("cpu_edge_sums", rows)
    plain = partial(_sum_plainly, rows, columns, row_filters, column_filters, leak)
    # The kernel does not check shapes; torch raises an error if they do not belong together.
    belong = rows.shape == columns.shape and rows.shape[1:] == row_filters.shape[1:] == column_filters.shape[1:]
    if kernel is None or not belong:
        return plain()

    def fused() -> tuple[Tensor, Tensor]:
        of_rows, of_columns = _RectifiedSums.apply(rows, columns, row_filters, column_filters, kernel)
        linear_rows = leak * _linear_sums(rows, columns, row_filters)
        linear_columns = leak * _linear_sums(columns, rows, column_filters)
        return linear_rows + (1 - leak) * of_rows, linear_columns + (1 - leak) * of_columns

    return run_fused(rows.device, fused, plain)


def _sum_plainly(
    rows: Tensor, columns: Tensor, row_filters: Tensor, column_filters: Tensor, leak: float
) -> tuple[Tensor, Tensor]:
    """:func:`leaky_edge_sums` in plain torch."""
    edges = leaky_relu(rows[..., None] + columns[..., None, :], leak)
    of_rows = torch.einsum("bmik,nmk->bni", edges, row_filters)
    return of_rows, torch.einsum("bmkj,nmk->bnj", edges, column_filters)


def _linear_sums(p: Tensor, q: Tensor, filters: Tensor) -> Tensor:
    """Σ_m Σ_k filters[n, m, k] (p[m, i] + q[m, k])."""
    return filters.sum(dim=2) @ p + (q.flatten(1) @ filters.flatten(1).T)[..., None]


class _RectifiedSums(torch.autograd.Function):
    """:func:`leaky_edge_sums` with a leak of 0, by a kernel."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, columns: Tensor, row_filters: Tensor, column_filters: Tensor, kernel: ModuleType
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(rows, columns, row_filters, column_filters)
        ctx.orders, ctx.kernel = (kernel.order_of(rows), kernel.order_of(columns)), kernel
        of_rows = kernel.sums(rows, columns, row_filters, ctx.orders)
        return of_rows, kernel.sums(columns, rows, column_filters, ctx.orders[::-1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_rows: Tensor, grad_columns: Tensor) -> tuple[Tensor | None, ...]:
        rows, columns, row_filters, column_filters = ctx.saved_tensors
        backward, orders = ctx.kernel.backward, ctx.orders

        def fused() -> tuple[Tensor, ...]:
            one, other, of_rows = backward(grad_rows, rows, columns, row_filters, orders)
            more, less, of_columns = backward(grad_columns, columns, rows, column_filters, orders[::-1])
            return one + less, other + more, of_rows, of_columns

        sums = partial(_sum_plainly, leak=0.0)
        plain = partial(plain_gradients, sums, ctx.saved_tensors, grad_rows, grad_columns)
        return *run_fused(grad_rows.device, fused, plain), None
