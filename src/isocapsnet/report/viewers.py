"""The data of the page's two interactive parts: connectomes in 3-D, reconstructed matrices."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet.report.content import Content, Reconstructions
from isocapsnet.report.cortex import cortex_outline
from isocapsnet.report.evidence import card_edges, card_nodes
from isocapsnet.report.figures.brain import is_heavy_tailed, without_diagonal
from isocapsnet.report.figures.style import NEGATIVE, POSITIVE, colours_of
from isocapsnet.report.packing import pack_numbers

#: Bytes of the page that reconstructions may take, all methods together.
_MATRIX_BYTES = 2_000_000
_LISTED_REGIONS = 6


def connectome_data(content: Content, cards: Sequence[Any]) -> dict[str, Any] | None:
    """Cortex, regions and, for each card in the page's order, its edges; None without cards or coordinates."""
    if content.coordinates is None or not cards:
        return None
    n_nodes = len(content.coordinates)
    return {
        "coordinates": pack_numbers(content.coordinates),
        "cortex": cortex_outline(),
        "colours": {"positive": POSITIVE, "negative": NEGATIVE, "classes": colours_of(len(content.classes))},
        "cards": [_card_data(card.title, card.sentence, card.source, n_nodes) for card in cards],
    }


def _card_data(title: str, sentence: str, card: Any, n_nodes: int) -> dict[str, Any]:
    shares, favours = card_nodes(card, n_nodes)
    edges = np.triu(card_edges(card, n_nodes))
    strong = np.argwhere(np.abs(edges) > 0.05 * np.abs(edges).max(initial=1e-12))
    return {
        "title": title,
        "sentence": sentence,
        "shares": [round(float(share), 4) for share in shares],
        "favours": favours.tolist(),
        "edges": [[int(a), int(b), round(float(edges[a, b]), 4)] for a, b in strong],
        "top": [region["node"] for region in card["regions"][:_LISTED_REGIONS]],
    }


def reconstruction_data(content: Content) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """For each method with a decoder: what the subject list needs, and the packed matrices."""
    found = [method.reconstructions for method in content.methods if method.reconstructions is not None]
    listed, packed = [], []
    for index, graphs in enumerate(found):
        kept = _choose(graphs, _MATRIX_BYTES // len(found))
        labels = graphs.labels[kept]
        groups = [
            (content.classes[code], [(int(at), graphs.subjects[kept[at]]) for at in np.flatnonzero(labels == code)])
            for code in np.unique(labels)
        ]
        left_out = graphs.n_available - len(kept)
        listed.append(
            {"index": index, "method": graphs.method, "groups": groups, "shown": len(kept), "left_out": left_out}
        )
        packed.append({"inputs": pack_numbers(graphs.inputs[kept]), "outputs": pack_numbers(graphs.outputs[kept])})
    return listed, packed


def wants_logarithm(content: Content) -> bool:
    """Whether the first graph's edges span so many magnitudes that colours should be logarithmic."""
    for method in content.methods:
        if method.reconstructions is not None:
            return is_heavy_tailed(without_diagonal(np.asarray(method.reconstructions.inputs[0], dtype=float)))
    return False


def _choose(graphs: Reconstructions, budget: int) -> NDArray[np.int64]:
    """Places of the graphs that fit into ``budget`` bytes of base64, classes in turn, at least one of each."""
    bytes_each = 2 * 2 * graphs.inputs[0].size * 4 / 3
    rank = np.empty(len(graphs.labels), dtype=np.int64)
    for code in np.unique(graphs.labels):
        members = np.flatnonzero(graphs.labels == code)
        rank[members] = np.arange(len(members))
    count = max(int(budget // bytes_each), len(np.unique(graphs.labels)))
    return np.sort(np.lexsort((graphs.labels, rank))[:count])
