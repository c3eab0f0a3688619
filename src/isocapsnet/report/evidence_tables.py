"""The tables of the evidence section: one row per card, and the regions, windows, carriers and edges of a card."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from isocapsnet._format import MISSING, number
from isocapsnet.report.content import Content
from isocapsnet.report.evidence import Scene, effect
from isocapsnet.report.tables import Cell, PageTable, cell

if TYPE_CHECKING:
    from isocapsnet.explanation.cards import EvidenceCard, MotifCard

_LISTED_REGIONS, _LISTED_WINDOWS, _LISTED_EDGES, _LISTED_CARRIERS = 8, 6, 8, 50


def summary_table(content: Content, scenes: Sequence[Scene]) -> PageTable:
    """One row per card, with a link to it."""
    rows = []
    for scene in scenes:
        card = scene.card or scene.motif
        regions = ", ".join(content.node_name(node) for node in scene.top) or MISSING
        rows.append(
            [
                Cell(Markup('<a href="#{}">{}</a>').format(scene.id, scene.title)),
                Cell(scene.verdict),
                Cell(MISSING) if card is None else cell(effect(card.effect), card.effect.value),
                Cell(MISSING) if card is None else Cell(f"{card.n_separating} of {card.n_fits}", card.n_separating),
                Cell(regions),
            ]
        )
    numeric = ["effect d", "fits in which it separates the classes"]
    columns = ["card", "verdict", *numeric, "main regions"]
    return PageTable("evidence-summary", "All cards", columns, rows, numeric, False)


def shared_regions(content: Content, scenes: Sequence[Scene]) -> str:
    """Which regions several cards have in common, in a sentence; empty if there are none."""
    counts = Counter(node for scene in scenes for node in scene.top)
    shared = [(node, count) for node, count in counts.most_common(_LISTED_REGIONS) if count > 1]
    if not shared:
        return ""
    names = ", ".join(f"{content.node_name(node)} ({count})" for node, count in shared)
    return f"Main regions of several of the {len(scenes)} cards, with the number of cards: {names}."


def regions_table(content: Content, card: "EvidenceCard", id: str) -> PageTable:
    """The regions of an evidence card."""
    rows = [
        [
            Cell(content.node_name(region.node)),
            Cell(f"{region.share:.1%}", region.share),
            cell(effect(region.effect), region.effect.value),
            Cell(f"{region.n_fits} of {card.n_fits}", region.n_fits),
            Cell(content.classes[region.favours]),
        ]
        for region in card.regions[:_LISTED_REGIONS]
    ]
    numeric = ["share of the separation", "effect d", f"fits with it among the first {len(card.matrix)}"]
    caption = f"The {len(rows)} regions that separate the classes most"
    return PageTable(f"{id}-regions", caption, ["region", *numeric, "matches better in"], rows, numeric, False)


def motif_regions_table(content: Content, card: "MotifCard", id: str) -> PageTable:
    """The most frequent regions of a motif."""
    shares = np.array(card.region_shares)
    rows = [
        [Cell(content.node_name(int(node))), Cell(f"{shares[node]:.1%}", float(shares[node]))]
        for node in np.argsort(-shares, kind="stable")[:_LISTED_REGIONS]
    ]
    by_chance = len(card.matrix) / max(len(shares), 1)
    caption = f"Regions of the motif in its {len(card.carriers)} carriers; {by_chance:.1%} by chance"
    return PageTable(
        f"{id}-regions", caption, ["region", "share of the carriers"], rows, ["share of the carriers"], False
    )


def carriers_table(content: Content, card: "MotifCard", id: str) -> PageTable:
    """The regions of the motif in each of its clearest carriers."""
    columns = [f"node {node}" for node in range(1, len(card.matrix) + 1)]
    rows = [
        [
            Cell(carrier.subject),
            Cell(content.classes[carrier.label]),
            Cell(number(carrier.distance, 2), carrier.distance),
            *(Cell(content.node_name(node)) for node in carrier.nodes),
        ]
        for carrier in card.carriers[:_LISTED_CARRIERS]
    ]
    caption = (
        f"The {len(rows)} clearest of {len(card.carriers)} carriers, and the region of each node of the motif. The "
        "distance is 0 at the mean of the carriers, and 1 at the mean of the graphs of other classes"
    )
    return PageTable(f"{id}-carriers", caption, ["subject", "class", "distance", *columns], rows, ["distance"])


def edges_table(content: Content, scene: Scene) -> PageTable:
    """The strongest edges of an attribution."""
    upper = np.triu(scene.edges)
    order = np.argsort(-np.abs(upper), axis=None)[:_LISTED_EDGES]
    rows = [
        [
            Cell(content.node_name(int(a))),
            Cell(content.node_name(int(b))),
            Cell(f"{upper[a, b]:+.3g}".replace("-", "−"), float(upper[a, b])),
        ]
        for a, b in zip(*np.unravel_index(order, upper.shape), strict=True)
        if upper[a, b]
    ]
    caption = f"The {len(rows)} edges that separate the classes most"
    return PageTable(f"{scene.id}-edges", caption, ["region", "region", "separation"], rows, ["separation"], False)


def windows_table(content: Content, card: "EvidenceCard", id: str) -> PageTable:
    """The windows of an evidence card."""
    size = len(card.matrix)
    rows = []
    for window in card.windows[:_LISTED_WINDOWS]:
        row_nodes, column_nodes = (
            f"{content.node_name(start)} to {content.node_name(start + size - 1)}"
            for start in (window.row, window.column)
        )
        scores = zip(content.classes, window.scores, strict=True)
        orders = zip(content.classes, window.orientations, strict=True)
        rows.append(
            [
                Cell(row_nodes if window.row == window.column else f"{row_nodes} × {column_nodes}"),
                Cell(f"{window.share:.1%}", window.share),
                cell(effect(window.effect), window.effect.value),
                Cell(", ".join(f"{name}\u00a0{number(score, 2)}" for name, score in scores)),
                Cell(", ".join(f"{name}\u00a0{_order(o.permutation)}\u00a0({o.share:.0%})" for name, o in orders)),
            ]
        )
    numeric = ["share of the separation", "effect d"]
    columns = ["window", *numeric, "mean match score", "most frequent order (share of graphs)"]
    caption = (
        "Windows of the matrix with the largest influence. The match score is 1 at a perfect match and lower "
        "otherwise. An order lists the nodes of the template, as numbered in the drawing, in the order of the regions"
    )
    return PageTable(f"{id}-windows", caption, columns, rows, numeric, False)


def _order(permutation: Sequence[int]) -> str:
    """The numbers of the template's nodes, as drawn, in the order of the regions of the window."""
    return "\u2011".join(str(node + 1) for node in permutation) or MISSING
