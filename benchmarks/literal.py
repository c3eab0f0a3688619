"""What the fused kernels are measured against: Eq. 1 and routing evaluated as they are written down."""

import torch
from torch import Tensor

from isocapsnet.functional import (
    IsomorphicMatch,
    PermutationCapsules,
    attend_to_votes,
    dense_votes,
    dynamic_routing,
    permutation_matrices,
    permutation_table,
)
from isocapsnet.functional.kernels.eager import windows_of


def literal_match(graphs: Tensor, templates: Tensor, stride: int = 1) -> IsomorphicMatch:
    """Eq. 1 with every ``P K Pᵀ - A`` in memory: ``(n_graphs, V, V)``, ``(c, k, k)`` to ``(n_graphs, c, n, n)``."""
    k = templates.shape[-1]
    numbers = torch.arange(len(permutation_table(k)), device=graphs.device)
    every = permutation_matrices(numbers, k).to(graphs.dtype)  # (k!, k, k)
    windows = windows_of(graphs, k, stride)
    flat = windows.reshape(-1, k, k)
    found = []
    for template in templates:
        permuted = every @ template @ every.transpose(-1, -2)
        found.append((flat[:, None] - permuted).norm(dim=(-2, -1)).min(dim=1))
    distance, permutation = (torch.stack(part).unflatten(1, windows.shape[:3]) for part in zip(*found, strict=True))
    return IsomorphicMatch(distance.transpose(0, 1), permutation.transpose(0, 1))


def literal_route(
    capsules: PermutationCapsules, weight: Tensor, iterations: int, scale: float, over: str = "classes"
) -> Tensor:
    """Routing with a product û = Wᵀ m for every graph, class and window, as :func:`isocapsnet.functional.route`."""
    windows = capsules.expand().flatten(1, 3)  # (B, M, k²)
    votes = (windows[:, None, :, None] @ weight.flatten(1, 2)).squeeze(3)
    return _route_votes(votes, weight, iterations, scale, over)


def contracted_route(
    capsules: PermutationCapsules, weight: Tensor, iterations: int, scale: float, over: str = "classes"
) -> Tensor:
    """The same with the products of all graphs and classes at a window as one, which torch multiplies faster."""
    return _route_votes(dense_votes(capsules.expand(), weight), weight, iterations, scale, over)


def _route_votes(votes: Tensor, weight: Tensor, iterations: int, scale: float, over: str) -> Tensor:
    context = weight.new_zeros(len(votes), weight.shape[0], weight.shape[-1])
    return dynamic_routing(lambda c: attend_to_votes(votes, c, over), context, iterations, scale)
