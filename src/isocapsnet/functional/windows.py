"""Windows that are sets of nodes, and templates that are matched with all of them.

A window of the paper has a range of nodes for its rows and another one for its columns. The windows here are
sub-graphs: rows and columns are the same nodes. Either the strong edges of each graph select them, so that a pattern is
found wherever it lies and the order of the nodes has no influence, or they are all ranges of neighbouring nodes. Edges
are strong if they deviate from what is usual, such as the mean graph; all functions take graphs from which that has
been subtracted.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from isocapsnet._validation import InputError
from isocapsnet.functional.isomorphic import match_by
from isocapsnet.functional.kernels import eager
from isocapsnet.functional.permutations import permutation_at

# Graphs that are matched at once.
_GRAPHS = 64


class BestWindows(NamedTuple):
    """The window of each graph that matches each template best.

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
        Sets of nodes in the order in which they grew, from the strongest first edge down. Sets may coincide. Of equally
        strong edges and nodes, the order of the nodes decides which is taken.
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


def diagonal_windows(n_nodes: int, kernel_size: int, device: torch.device | str = "cpu") -> Tensor:
    """All ranges of k = ``kernel_size`` neighbouring nodes ``(n_nodes - k + 1, k)``, int64, on ``device``."""
    if not 1 <= kernel_size <= n_nodes:
        raise InputError(f"kernel_size={kernel_size} is out of range; the graphs have {n_nodes} nodes.")
    return torch.arange(n_nodes, device=device).unfold(0, kernel_size, 1)


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


def nearest_windows(windows: Tensor, templates: Tensor) -> BestWindows:
    """The windows ``(n_graphs, n_windows, k, k)`` with the smallest distance to templates ``(n_templates, k, k)``."""
    distance, permutation = match_windows(windows, templates)
    return _pick(distance, permutation, distance.argmin(dim=2), templates)


def strongest_windows(windows: Tensor, templates: Tensor) -> BestWindows:
    """The windows ``(n_graphs, n_windows, k, k)`` in which templates ``(n_templates, k, k)`` are strongest.

    These have the largest inner product with the template, in the best order of nodes: a matched filter. A distance
    also grows with what else a window holds, so that a weak window of noise can be nearer than the pattern itself.
    """
    distance, permutation = match_windows(windows, templates)
    # In the best order of nodes, ‖W - T‖² = ‖W‖² - 2 <W, T> + ‖T‖².
    excess = windows.square().sum(dim=(2, 3))[:, None] - distance.square()
    return _pick(distance, permutation, excess.argmax(dim=2), templates)


def _pick(distance: Tensor, permutation: Tensor, window: Tensor, templates: Tensor) -> BestWindows:
    # Row a of a window matches row p[a] of the template.
    distance, permutation = (part.gather(2, window[..., None])[..., 0] for part in (distance, permutation))
    return BestWindows(distance, window, permutation_at(permutation, templates.shape[-1]).argsort(dim=2))


def turn_windows(windows: Tensor, best: BestWindows) -> Tensor:
    """The best windows with their nodes in the order of the templates ``(n_graphs, n_templates, k, k)``."""
    chosen = windows[torch.arange(len(windows), device=windows.device)[:, None], best.window]
    turned = chosen.gather(2, best.order[..., None].expand_as(chosen))
    return turned.gather(3, best.order[..., None, :].expand_as(chosen))


def match_windows(windows: Tensor, templates: Tensor) -> tuple[Tensor, Tensor]:
    """Distances and winning permutations ``(n_graphs, n_templates, n_windows)`` of all windows and templates."""
    parts = [match_by(eager.search, eager.backward, some.flatten(0, 1), templates) for some in windows.split(_GRAPHS)]
    shape = (*windows.shape[:2], len(templates))
    distance, permutation = (torch.cat(part).view(shape).transpose(1, 2) for part in zip(*parts, strict=True))
    return distance, permutation


@torch.no_grad()
def shared_patterns(windows: Tensor, templates: Tensor, carriers: Tensor, n_steps: int = 5) -> Tensor:
    """What the carriers of each template have in common: the mean of their best windows, each turned onto it.

    The windows in which the mean is strongest are looked up next, and so on. Each step is one of Lloyd's algorithm with
    one centre: the sum over carriers of <window, pattern> - ‖pattern‖²/2 never decreases.

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
    patterns = templates
    for _ in range(n_steps):
        patterns = mean_over(turn_windows(windows, strongest_windows(windows, patterns)), carriers, patterns)
    return patterns


def mean_over(windows: Tensor, members: Tensor, default: Tensor) -> Tensor:
    """Mean ``(n_templates, k, k)`` of the windows ``(n_graphs, n_templates, k, k)`` of member graphs, if there are any.

    ``members`` is ``(n_graphs, n_templates)``, bool; a template without members has its ``default``.
    """
    counts = members.sum(dim=0)[:, None, None]
    total = (windows * members[..., None, None]).sum(dim=0)
    return torch.where(counts > 0, total / counts.clamp_min(1), default)


def soft_minimum(distances: Tensor, temperature: float, dim: int = -1) -> Tensor:
    """-τ log mean exp(-d/τ) of ``distances`` over ``dim``: near the minimum for a small ``temperature`` τ."""
    n = distances.shape[dim]
    return -temperature * ((-distances / temperature).logsumexp(dim=dim) - math.log(n))


def _strengths(deviations: Tensor, kernel_size: int) -> Tensor:
    """How strongly each pair of nodes is connected, in either direction: ``(n_graphs, n_nodes, n_nodes)``."""
    n_nodes = deviations.shape[-1]
    if not 1 <= kernel_size <= n_nodes:
        raise InputError(f"kernel_size={kernel_size} is out of range; the graphs have {n_nodes} nodes.")
    size = deviations.detach().abs()
    return (size + size.mT) / 2
