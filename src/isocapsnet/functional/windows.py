"""Windows that follow the edges of a graph instead of the order of its nodes.

The windows of the paper are contiguous index ranges, so a pattern is found where node order puts it. The windows here
are sets of nodes that a graph's own strong edges select: a pattern is found wherever it lies, and the result does not
depend on the order of the nodes. Edges are strong when they deviate from what is usual, the mean graph say; all
functions take graphs from which that has been subtracted.
"""

import torch
from torch import Tensor

from isocapsnet._validation import InputError


def neighborhoods(deviations: Tensor, kernel_size: int) -> Tensor:
    """Each node with the k - 1 nodes that its strongest edges lead to.

    Parameters
    ----------
    deviations : Tensor (n_graphs, n_nodes, n_nodes)
    kernel_size : int
        k, from 1 to n_nodes.

    Returns
    -------
    Tensor (n_graphs, n_nodes, k), int64
        Nodes, first the one whose neighbourhood it is, then the others from the strongest edge down.
    """
    strength = _strengths(deviations, kernel_size)
    itself = torch.eye(strength.shape[1], dtype=torch.bool, device=strength.device)
    others = strength.masked_fill(itself, -1.0).topk(kernel_size - 1, dim=2).indices
    own = torch.arange(strength.shape[1], device=others.device).expand(strength.shape[:2])[..., None]
    return torch.cat([own, others], dim=2)


def grown_windows(deviations: Tensor, kernel_size: int, n_windows: int) -> Tensor:
    """Sets of nodes grown from the strongest edges, one node at a time.

    A set starts with the two nodes of an edge; the node with the largest sum of squared deviations to the nodes in the
    set is added until there are k. Compared with :func:`neighborhoods`, all edges of the set take part.

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
        Gradients flow back to the edges that were taken.
    """
    n_graphs, n_windows, k = nodes.shape
    index = nodes[..., :, None] * graphs.shape[2] + nodes[..., None, :]
    windows = graphs.flatten(1).gather(1, index.flatten(1)).view(n_graphs, n_windows, k, k)
    return windows.masked_fill(torch.eye(k, dtype=torch.bool, device=windows.device), 0.0)


def soft_minimum(distances: Tensor, temperature: float, dim: int = -1) -> Tensor:
    """-τ log mean exp(-d/τ): the minimum where τ is small, the mean where it is large."""
    n = distances.shape[dim]
    return -temperature * ((-distances / temperature).logsumexp(dim=dim) - torch.log(distances.new_tensor(n)))


def _strengths(deviations: Tensor, kernel_size: int) -> Tensor:
    """How strong each pair of nodes is connected, in either direction: ``(n_graphs, n_nodes, n_nodes)``."""
    n_nodes = deviations.shape[-1]
    if not 1 <= kernel_size <= n_nodes:
        raise InputError(f"kernel_size={kernel_size} is out of range; the graphs have {n_nodes} nodes.")
    size = deviations.detach().abs()
    return (size + size.mT) / 2
