"""How well an explanation finds what was planted."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isocapsnet.explanation.cards import EvidenceCard


def region_shares(card: EvidenceCard, n_nodes: int) -> NDArray[np.float64]:
    """The shares of the regions that a card lists ``(n_nodes,)``; 0 for the others."""
    shares = np.zeros(n_nodes)
    for region in card.regions:
        shares[region.node] = region.share
    return shares


def node_precision(importance: ArrayLike, planted: Iterable[ArrayLike]) -> float:
    """Of the k most important nodes, the share that was planted; k is the number of planted nodes.

    Parameters
    ----------
    importance : array-like (n_nodes,)
    planted : iterable of array-like (kernel_size,)
        Nodes of each planted pattern.
    """
    truth = np.unique(np.concatenate([np.asarray(nodes) for nodes in planted]))
    return _precision(np.asarray(importance), np.isin(np.arange(len(np.asarray(importance))), truth))


def edge_precision(importance: ArrayLike, planted: Iterable[ArrayLike]) -> float:
    """Of the k most important edges by absolute value, the share that was planted; k is the number of planted edges.

    Parameters
    ----------
    importance : array-like (n_nodes, n_nodes)
        Symmetric; the diagonal is ignored.
    planted : iterable of array-like (kernel_size,)
        Nodes of each planted pattern; all edges within a pattern were planted.
    """
    edges = np.abs(np.asarray(importance))
    truth = np.zeros(edges.shape, dtype=bool)
    for nodes in planted:
        truth[np.ix_(np.asarray(nodes), np.asarray(nodes))] = True
    upper = np.triu_indices(len(edges), k=1)
    return _precision(edges[upper], truth[upper])


def _precision(importance: NDArray[np.floating], truth: NDArray[np.bool_]) -> float:
    first = np.argsort(-importance, kind="stable")[: truth.sum()]
    return float(truth[first].mean())
