"""The isomorphic match in plain torch: any device, any floating dtype, the reference for the fused kernels.

Kernels of the exact match offer the same :func:`search` and :func:`backward`, that of the spectral match the same
:func:`backward`.
"""

import torch
from torch import Tensor

from isocapsnet.functional.permutations import permutation_at, permutation_table

# Correlations held at a time: 16 MB of float32 however large k! and the number of windows are.
_CHUNK_VALUES = 4_000_000

# Correlations this close to the best, in units of eps ‖K‖ ‖A‖, are ties: the first in table order wins.
TIE_TOLERANCE = 16.0


def compact_dtype(kernel_size: int) -> torch.dtype:
    """The smallest type that numbers the permutations."""
    sizes = {5: torch.uint8, 7: torch.int16, 12: torch.int32}
    return next((dtype for largest, dtype in sizes.items() if kernel_size <= largest), torch.int64)


def windows_of(graphs: Tensor, kernel_size: int, stride: int) -> Tensor:
    """A view of every window A_st: ``(n_graphs, n_nodes, n_nodes)`` to ``(n_graphs, n, n, k, k)``."""
    return graphs.unfold(1, kernel_size, stride).unfold(2, kernel_size, stride)


def by_graph(values: Tensor, windows: Tensor) -> Tensor:
    """Values ``(n_templates, n_windows)`` of all windows in a row, as ``(n_graphs, n_templates, n, n)``."""
    return values.unflatten(1, windows.shape[:3]).transpose(0, 1).contiguous()


def permuted_templates(templates: Tensor) -> Tensor:
    """Every P K Pᵀ: ``(n_templates, k, k)`` to ``(n_templates, k!, k, k)``."""
    table = permutation_table(templates.shape[-1], templates.device)
    return templates[:, table[:, :, None], table[:, None, :]]


def search(graphs: Tensor, templates: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Distance and winning permutation of Eq. 1, both ``(n_graphs, n_templates, n, n)``.

    ‖PKPᵀ - A‖² = ‖K‖² + ‖A‖² - 2⟨PKPᵀ, A⟩, so the winner has the largest correlation; its distance is then taken
    from the difference itself, which loses nothing to cancellation.
    """
    n_templates, k, _ = templates.shape
    windows = windows_of(graphs, k, stride)
    flat = windows.reshape(-1, k * k)
    candidates = permuted_templates(templates).flatten(2)  # (c, k!, k²)
    tolerance = TIE_TOLERANCE * torch.finfo(graphs.dtype).eps * templates.flatten(1).norm(dim=1)

    distance = graphs.new_empty(n_templates, len(flat))
    permutation = torch.empty(n_templates, len(flat), dtype=torch.int64, device=graphs.device)
    step = max(1, _CHUNK_VALUES // candidates.shape[1])
    for start in range(0, len(flat), step):
        chunk = flat[start : start + step]
        sizes = chunk.norm(dim=1)
        for i in range(n_templates):
            correlation = chunk @ candidates[i].T
            floor = correlation.amax(dim=1) - tolerance[i] * sizes
            # argmax of a 0/1 tensor is its first 1: the tie rule.
            winner = (correlation >= floor[:, None]).to(torch.uint8).argmax(dim=1)
            permutation[i, start : start + step] = winner
            distance[i, start : start + step] = (candidates[i, winner] - chunk).norm(dim=1)

    return by_graph(distance, windows), by_graph(permutation, windows)


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
    """Gradients through the winning permutation alone, for graphs and for templates.

    d‖PKPᵀ - A‖ = ⟨(PKPᵀ - A)/‖PKPᵀ - A‖, P dK Pᵀ - dA⟩; at a perfect match the zero sub-gradient is taken.
    """
    n_templates, k, _ = templates.shape
    zero = distance == 0
    scale = torch.where(zero, 0.0, grad_distance / torch.where(zero, 1.0, distance))
    positions = torch.arange(k, device=graphs.device)
    windows = windows_of(graphs, k, stride)
    grad_graphs = torch.zeros_like(graphs, memory_format=torch.contiguous_format) if needs_graphs else None
    grad_windows = windows_of(grad_graphs, k, stride) if grad_graphs is not None else None
    grad_templates = torch.zeros_like(templates) if needs_templates else None
    step = max(1, _CHUNK_VALUES // max(1, windows.shape[1:].numel()))
    for start in range(0, len(graphs), step):
        chunk = slice(start, start + step)
        for i in range(n_templates):
            winner = permutation_at(permutation[chunk, i].long(), k)  # (b, n, n, k)
            matched = templates[i][winner[..., :, None], winner[..., None, :]]
            slope = scale[chunk, i, ..., None, None] * (matched - windows[chunk])
            if grad_templates is not None:
                # Pᵀ D P puts every window's slope into the template's own order: a plain sum, no atomic additions.
                back = torch.empty_like(winner).scatter_(-1, winner, positions.expand_as(winner))
                slope_of_template = slope.gather(-2, back[..., :, None].expand_as(slope))
                slope_of_template = slope_of_template.gather(-1, back[..., None, :].expand_as(slope))
                grad_templates[i] += slope_of_template.sum(dim=(0, 1, 2))
            if grad_windows is not None:
                for a in range(k):
                    for b in range(k):
                        # A view with fixed (a, b) never overlaps itself, so subtracting in place is safe.
                        grad_windows[chunk, :, :, a, b] -= slope[..., a, b]
    return grad_graphs, grad_templates
