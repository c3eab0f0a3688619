"""What a template or an attribution looks like on the brain: weighted nodes and signed edges."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet.report.content import Attribution

_WINDOWS = 3
_STRONGEST_EDGES = 30
_NAMED_NODES = 6
_NAMED_WEIGHT = 0.15


@dataclass(frozen=True)
class Scene:
    """Something to draw on the brain.

    Attributes
    ----------
    title, sentence : str
    nodes : array (n_nodes,)
        Weight of each node, 0 for those that play no part.
    favours : array (n_nodes,)
        The class each node speaks for, -1 for none.
    edges : array (n_nodes, n_nodes)
        Signed weights, symmetric, 0 for no edge.
    """

    title: str
    sentence: str
    nodes: NDArray[np.float64]
    favours: NDArray[np.int64]
    edges: NDArray[np.float64]

    @property
    def top(self) -> list[int]:
        """The nodes to name, the heaviest first; those that weigh little are not worth a name."""
        order = np.argsort(-self.nodes)[:_NAMED_NODES]
        return [int(node) for node in order if self.nodes[node] > _NAMED_WEIGHT * self.nodes[order[0]]]


def card_scene(card: Mapping[str, Any], n_nodes: int, title: str) -> Scene:
    """An evidence card's regions, and its template laid on the windows that separate the classes most.

    In each window the template stands in the orientation found most often in the class that the window favours,
    weighted by the window's share relative to the largest one.
    """
    nodes, favours = np.zeros(n_nodes), np.full(n_nodes, -1)
    for region in card["regions"]:
        if region["share"] > 0:
            nodes[region["node"]], favours[region["node"]] = region["share"], region["favours"]
    template, edges = np.asarray(card["matrix"], dtype=float), np.zeros((n_nodes, n_nodes))
    windows = sorted(card["windows"], key=lambda window: -window["share"])[:_WINDOWS]
    for window in windows:
        order = window["orientations"][window["favours"]]["permutation"]
        if window["share"] > 0 and order:
            rows, columns = (np.arange(len(order)) + window[side] for side in ("row", "column"))
            strength = window["share"] / windows[0]["share"]
            edges[np.ix_(rows, columns)] += template[np.ix_(order, order)] * strength
    edges = (edges + edges.T) / 2
    np.fill_diagonal(edges, 0.0)
    return Scene(title, card["sentence"], nodes, favours, edges)


def attribution_scene(attribution: Attribution, title: str, *, remark: str = "") -> Scene:
    """The strongest edges of an attribution, and the nodes that they meet in; ``remark`` is added to the sentence."""
    edges = np.asarray(attribution.edges, dtype=float).copy()
    np.fill_diagonal(edges, 0.0)
    strengths = np.sort(np.abs(edges[np.triu_indices(len(edges), k=1)]))[::-1]
    weakest = strengths[min(_STRONGEST_EDGES, len(strengths)) - 1] if len(strengths) else 0.0
    edges[np.abs(edges) < max(weakest, 1e-300)] = 0.0
    sentence = f"The {int(np.count_nonzero(np.triu(edges)))} edges that separate the classes most.{remark}"
    return Scene(title, sentence, np.abs(edges).sum(axis=1), np.full(len(edges), -1), edges)
