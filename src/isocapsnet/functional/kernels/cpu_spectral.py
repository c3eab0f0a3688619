"""The spectral match on the CPU, compiled: permutations are read as numbers, one window at a time."""

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from isocapsnet.functional.kernels._threads import parallel_ranges
from isocapsnet.functional.kernels.cpu_assignment import assigned_columns
from isocapsnet.functional.kernels.cpu_permutations import block_sizes, number_of, write_order


def match_profit(profit: Tensor, windows: Tensor, template: Tensor) -> tuple[Tensor, Tensor]:
    """The same as :func:`isocapsnet.functional.kernels.eager.match_profit`."""
    distance = windows.new_empty(windows.shape[:2])
    permutation = torch.empty(len(windows), dtype=torch.int64)
    arguments = (
        assigned_columns(profit).numpy(),
        windows.detach().contiguous().numpy(),
        template.detach().contiguous().numpy(),
        block_sizes(len(template)),
        distance.numpy(),
        permutation.numpy(),
    )
    parallel_ranges(lambda start, stop: _compare(*arguments, start, stop), len(windows))
    return distance, permutation


@njit(cache=True, nogil=True)
def _compare(
    orders: Any, windows: Any, template: Any, blocks: Any, distance: Any, permutation: Any, start: int, stop: int
) -> None:
    """Numbers of the permutations ``start`` to ``stop``, and the distances of their windows."""
    k = len(template)
    for i in range(start, stop):
        order = orders[i]
        for j in range(windows.shape[1]):
            window, squared = windows[i, j], 0.0
            for a in range(k):
                row = template[order[a]]
                for b in range(k):
                    difference = row[order[b]] - window[a, b]
                    squared += difference * difference
            distance[i, j] = np.sqrt(squared)
        permutation[i] = number_of(order, blocks)


def backward(
    grad_distance: Tensor,
    distance: Tensor,
    permutation: Tensor,
    graphs: Tensor,
    templates: Tensor,
    stride: int,
    needs_graphs: bool,
    needs_templates: bool,
) -> tuple[Tensor | None, Tensor | None]:
    """The same as :func:`isocapsnet.functional.kernels.eager.backward`."""
    # One sum per graph, added up in order: the result does not depend on the number of threads.
    parts = torch.zeros(len(graphs), *templates.shape, dtype=torch.float64)
    grad_graphs = torch.zeros(graphs.shape if needs_graphs else (len(graphs), 0, 0), dtype=graphs.dtype)
    arguments = (
        grad_distance.contiguous().numpy(),
        distance.contiguous().numpy(),
        permutation.contiguous().numpy(),
        graphs.detach().contiguous().numpy(),
        templates.detach().contiguous().numpy(),
        block_sizes(templates.shape[-1]),
        stride,
        parts.numpy(),
        grad_graphs.numpy(),
    )
    parallel_ranges(lambda start, stop: _add_gradients(*arguments, start, stop), len(graphs))
    grad_templates = parts.sum(dim=0).to(templates.dtype) if needs_templates else None
    return grad_graphs if needs_graphs else None, grad_templates


@njit(cache=True, nogil=True)
def _add_gradients(
    grad: Any,
    distance: Any,
    permutation: Any,
    graphs: Any,
    templates: Any,
    blocks: Any,
    stride: int,
    parts: Any,
    grad_graphs: Any,
    start: int,
    stop: int,
) -> None:
    """Gradients of the graphs ``start`` to ``stop``, if there is room for them, and each one's part of the templates'.

    At a perfect match the zero sub-gradient is taken.
    """
    n_templates, k, _ = templates.shape
    needs_graphs, n = grad_graphs.size > 0, distance.shape[-1]
    order = np.empty(k, np.int64)
    for g in range(start, stop):
        graph = graphs[g]
        for c, s, t in np.ndindex(n_templates, n, n):
            if distance[g, c, s, t] == 0:
                continue
            template, part = templates[c], parts[g, c]
            slope = grad[g, c, s, t] / distance[g, c, s, t]
            write_order(permutation[g, c, s, t], blocks, order)
            for a in range(k):
                for b in range(k):
                    i, j = s * stride + a, t * stride + b
                    step = slope * (template[order[a], order[b]] - graph[i, j])
                    part[order[a], order[b]] += step
                    if needs_graphs:
                        grad_graphs[g, i, j] -= step
