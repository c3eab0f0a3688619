"""Windows that follow the edges of a graph instead of the order of its nodes.

The windows of the paper are contiguous index ranges, so a pattern is only found if its nodes are neighbours in the
order of nodes. The windows here are sets of nodes that are selected by the strong edges of each graph. A pattern is
found at any nodes, and the result does not depend on their order. An edge is strong if it deviates from a reference
such as the mean graph; all functions take graphs from which the reference has been subtracted.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from isocapsnet._validation import InputError
from isocapsnet.functional.isomorphic import match_by
from isocapsnet.functional.kernels import eager
from isocapsnet.functional.permutations import permutation_at

# Graphs that are matched at once if no gradient is needed.
_GRAPHS = 64


class NearestWindows(NamedTuple):
    """The window of each graph that is nearest to each template.

    Attributes
    ----------
    distance : Tensor (n_graphs, n_templates)
        The isomorphic distance.
    window : Tensor (n_graphs, n_templates), int64
        Which window it is.
    order : Tensor (n_graphs, n_templates, k), int64
        Row ``order[c]`` of the window matches row c of the template.
    """

    distance: Tensor
    window: Tensor
    order: Tensor


def grown_windows(deviations: Tensor, kernel_size: int, n_windows: int) -> Tensor:
    """Sets of nodes grown from the strongest edges, one node at a time.

    A set starts with the two nodes of an edge. Then the node with the largest sum of squared deviations to the nodes in
    the set is added, until the set has k nodes, so all edges of a set influence its choice.

    Parameters
    ----------
    deviations : Tensor (n_graphs, n_nodes, n_nodes)
    kernel_size : int
        k, from 2 to n_nodes.
    n_windows : int
        Sets to grow, at most one for each pair of nodes.

    Returns
    -------
    Tensor (n_graphs, n_windows, k), int64
        Sets of nodes in the order in which they grew, from the strongest first edge down. Sets may coincide.
    """
    if kernel_size < 2:
        raise InputError(f"kernel_size={kernel_size} is out of range; a window that grows from an edge has 2 nodes.")
    strength = _strengths(deviations, kernel_size).square()
    n_nodes = strength.shape[1]
    pairs = torch.triu_indices(n_nodes, n_nodes, offset=1, device=strength.device)
    if not 1 <= n_windows <= pairs.shape[1]:
        raise InputError(f"n_windows={n_windows} is out of range; {n_nodes} nodes have {pairs.shape[1]} pairs.")
    edges = strength[:, pairs[0], pairs[1]].topk(n_windows, dim=1).indices
    nodes = pairs.T[edges]  # (B, W, 2)
    rows = nodes.flatten(1)[..., None].expand(-1, -1, n_nodes)
    total = strength.gather(1, rows).unflatten(1, (-1, 2)).sum(dim=2)  # (B, W, V): a node's edges into the set
    for _ in range(kernel_size - 2):
        added = total.scatter(2, nodes, -1.0).argmax(dim=2, keepdim=True)
        nodes = torch.cat([nodes, added], dim=2)
        total = total + strength.gather(1, added.expand(-1, -1, n_nodes))
    return nodes


def take_windows(graphs: Tensor, nodes: Tensor) -> Tensor:
    """The sub-matrices of sets of nodes, with a zero diagonal.

    Parameters
    ----------
    graphs : Tensor (n_graphs, n_nodes, n_nodes)
    nodes : Tensor (n_graphs, n_windows, k), int64

    Returns
    -------
    Tensor (n_graphs, n_windows, k, k)
        Gradients flow to the edges that were taken.
    """
    n_graphs, n_windows, k = nodes.shape
    index = nodes[..., :, None] * graphs.shape[2] + nodes[..., None, :]
    windows = graphs.flatten(1).gather(1, index.flatten(1)).view(n_graphs, n_windows, k, k)
    return windows.masked_fill(torch.eye(k, dtype=torch.bool, device=windows.device), 0.0)


def nearest_windows(windows: Tensor, templates: Tensor) -> NearestWindows:
    """Find the window ``(n_graphs, n_windows, k, k)`` that is nearest to each template ``(n_templates, k, k)``."""
    distance, permutation = match_windows(windows, templates)
    distance, window = distance.min(dim=2)
    # Row a of a window matches row p[a] of the template.
    rows = permutation_at(permutation.gather(2, window[..., None])[..., 0], templates.shape[-1])
    return NearestWindows(distance, window, rows.argsort(dim=2))


def match_windows(windows: Tensor, templates: Tensor) -> tuple[Tensor, Tensor]:
    """Distances and winning permutations ``(n_graphs, n_templates, n_windows)`` of all windows and templates."""
    match = match_by(eager.search, eager.backward, windows.flatten(0, 1), templates)
    shape = (*windows.shape[:2], len(templates))
    distance, permutation = (part.view(shape).transpose(1, 2) for part in match)
    return distance, permutation


@torch.no_grad()
def shared_patterns(windows: Tensor, templates: Tensor, carriers: Tensor, n_steps: int = 5) -> Tensor:
    """What the carriers of each template have in common: the mean of their nearest windows, each aligned to it.

    Then the nearest windows of the mean are found again, and so on. Each step is a step of Lloyd's algorithm with one
    centre: the sum of squared distances to the carriers never increases.

    Parameters
    ----------
    windows : Tensor (n_graphs, n_windows, k, k)
    templates : Tensor (n_templates, k, k)
    carriers : Tensor (n_graphs, n_templates), bool
    n_steps : int

    Returns
    -------
    Tensor (n_templates, k, k)
        A template without carriers is not changed.
    """
    patterns, counts = templates, carriers.sum(dim=0)[:, None, None]
    for _ in range(n_steps):
        total = torch.zeros_like(templates)
        for some, is_carrier in zip(windows.split(_GRAPHS), carriers.split(_GRAPHS), strict=True):
            _, window, order = nearest_windows(some, patterns)
            nearest = some[torch.arange(len(some), device=some.device)[:, None], window]
            turned = nearest.gather(2, order[..., None].expand_as(nearest))
            turned = turned.gather(3, order[..., None, :].expand_as(nearest))
            total += (turned * is_carrier[..., None, None]).sum(dim=0)
        patterns = torch.where(counts > 0, total / counts.clamp_min(1), patterns)
    return patterns


def soft_minimum(distances: Tensor, temperature: float, dim: int = -1) -> Tensor:
    """-τ log mean exp(-d/τ): near the minimum for small τ, near the mean for large τ."""
    n = distances.shape[dim]
    return -temperature * ((-distances / temperature).logsumexp(dim=dim) - math.log(n))


def _strengths(deviations: Tensor, kernel_size: int) -> Tensor:
    """How strongly each pair of nodes is connected, in either direction: ``(n_graphs, n_nodes, n_nodes)``."""
    n_nodes = deviations.shape[-1]
    if not 1 <= kernel_size <= n_nodes:
        raise InputError(f"kernel_size={kernel_size} is out of range; the graphs have {n_nodes} nodes.")
    size = deviations.detach().abs()
    return (size + size.mT) / 2
