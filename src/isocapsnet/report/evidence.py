"""An evidence card as edges and nodes to draw; cards are those of ``isocapsnet.explain`` as JSON."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_WINDOWS = 3


def card_edges(card: Mapping[str, Any], n_nodes: int) -> NDArray[np.float64]:
    """The template laid on the regions where it matches: signed weights ``(n_nodes, n_nodes)``.

    In each of the most influential windows the template stands in the orientation found most often in the class
    that the window favours, weighted by the window's share relative to the largest one.
    """
    template = np.asarray(card["matrix"], dtype=float)
    edges = np.zeros((n_nodes, n_nodes))
    windows = [window for window in card["windows"] if window["share"] > 0][:_WINDOWS]
    largest = max((window["share"] for window in windows), default=1.0)
    for window in windows:
        order = window["orientations"][window["favours"]]["permutation"]
        rows = np.arange(len(order)) + window["row"]
        columns = np.arange(len(order)) + window["column"]
        edges[np.ix_(rows, columns)] += template[np.ix_(order, order)] * window["share"] / largest
    edges = (edges + edges.T) / 2
    np.fill_diagonal(edges, 0.0)
    return edges


def card_nodes(card: Mapping[str, Any], n_nodes: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Each node's share, 0 where the card does not list it, and the class it favours; both ``(n_nodes,)``."""
    shares, favours = np.zeros(n_nodes), np.zeros(n_nodes, dtype=np.int64)
    for region in card["regions"]:
        shares[region["node"]] = max(region["share"], 0.0)
        favours[region["node"]] = region["favours"]
    return shares, favours
