"""Evidence as the page shows it: a card for each template and each motif, and one for the edges of each network."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isocapsnet._format import interval, number, p_value
from isocapsnet.report.content import Content

if TYPE_CHECKING:
    from isocapsnet.explanation.cards import Agreement, Effect, EvidenceCard, MotifCard
    from isocapsnet.explanation.summary import Explanation

_WINDOWS = 3
_STRONGEST_EDGES = 30
_NAMED_NODES = 6
_NAMED_WEIGHT = 0.15
# Attributions that correlate more than this with those of an untrained network say little about what was learned.
_LIKE_UNTRAINED = 0.5


@dataclass(frozen=True)
class Scene:
    """A template, a motif, or the edges that a network uses, as weighted nodes and signed edges.

    Attributes
    ----------
    nodes : array (n_nodes,)
        Weight of each node; 0 for those that are not part of it.
    favours : array (n_nodes,)
        The class in which the template matches better over each node; -1 for none.
    edges : array (n_nodes, n_nodes)
        Signed weights, symmetric; 0 for no edge.
    card : EvidenceCard or None
        The card of the template; None for a motif and for the edges of a network.
    motif : MotifCard or None
        The card of the motif. Nodes are weighted by the share of its carriers that have the motif there, and edges are
        those of its clearest carrier.
    is_doubtful : bool
        Whether the verdict is a warning.
    explanation : Explanation or None
        Of the network, for the scene of its edges.
    """

    title: str
    sentence: str
    nodes: NDArray[np.float64]
    favours: NDArray[np.int64]
    edges: NDArray[np.float64]
    card: "EvidenceCard | None" = None
    motif: "MotifCard | None" = None
    id: str = ""
    verdict: str = ""
    is_doubtful: bool = False
    facts: Sequence[tuple[str, str]] = ()
    explanation: "Explanation | None" = None

    @property
    def top(self) -> list[int]:
        """The nodes with the largest weights, without those of little weight."""
        order = np.argsort(-self.nodes)[:_NAMED_NODES]
        return [int(node) for node in order if self.nodes[node] > _NAMED_WEIGHT * self.nodes[order[0]]]


def list_scenes(content: Content) -> list[Scene]:
    """The cards of all templates, then those of all motifs, then those of all edges."""
    scenes = [
        card_scene(card, content.n_nodes, f"{method.label}, template {card.template + 1}", f"card-{method.slug}")
        for method in content.methods
        for card in method.cards
    ]
    scenes += [
        motif_scene(card, content.classes, f"{method.label}, motif {card.motif + 1}", f"card-{method.slug}")
        for method in content.methods
        for card in method.motif_cards
    ]
    for method in content.methods:
        if method.explanation is not None:
            scene = edge_scene(method.explanation, f"{method.label}, edges", f"card-{method.slug}")
            regions = ", ".join(content.node_name(node) for node in scene.top)
            scenes.append(replace(scene, facts=[*scene.facts, ("regions with most of these edges", regions or "none")]))
    return scenes


def card_scene(card: "EvidenceCard", n_nodes: int, title: str, id: str = "card") -> Scene:
    """The regions of a card, and its template placed on the windows that separate the classes most.

    In each window the template has the most frequent orientation of the class that the window favours, and a weight
    proportional to the share of the window.
    """
    nodes, favours = np.zeros(n_nodes), np.full(n_nodes, -1)
    for region in card.regions:
        if region.share > 0:
            nodes[region.node], favours[region.node] = region.share, region.favours
    template, edges = np.asarray(card.matrix, dtype=float), np.zeros((n_nodes, n_nodes))
    windows = sorted(card.windows, key=lambda window: -window.share)[:_WINDOWS]
    for window in windows:
        order = window.orientations[window.favours].permutation
        if window.share > 0 and order:
            rows, columns = (np.arange(len(order)) + first for first in (window.row, window.column))
            edges[np.ix_(rows, columns)] += template[np.ix_(order, order)] * (window.share / windows[0].share)
    edges = (edges + edges.T) / 2
    np.fill_diagonal(edges, 0.0)
    return Scene(
        title=title,
        sentence=card.sentence,
        nodes=nodes,
        favours=favours,
        edges=edges,
        card=card,
        id=f"{id}-{card.template + 1}",
        verdict=card.verdict,
        is_doubtful=card.verdict == "not stable",
        facts=_card_facts(card),
    )


def motif_scene(card: "MotifCard", classes: Sequence[str], title: str, id: str = "card") -> Scene:
    """The regions of a motif's carriers, and the motif in the clearest of them."""
    nodes = np.array(card.region_shares)
    edges = np.zeros((len(nodes), len(nodes)))
    for carrier in card.carriers[:1]:
        edges[np.ix_(carrier.nodes, carrier.nodes)] = card.matrix
    return Scene(
        title=title,
        sentence=card.sentence,
        nodes=nodes,
        favours=np.where(nodes > 0, card.favours, -1),
        edges=(edges + edges.T) / 2,
        motif=card,
        id=f"{id}-motif-{card.motif + 1}",
        verdict=card.verdict,
        is_doubtful=card.verdict == "not stable",
        facts=_motif_facts(card, classes),
    )


def edge_scene(explanation: "Explanation", title: str, id: str = "card") -> Scene:
    """The edges that separate the classes most, and their nodes."""
    edges = np.array(explanation.edges, dtype=float)
    np.fill_diagonal(edges, 0.0)
    strengths = np.sort(np.abs(edges[np.triu_indices(len(edges), k=1)]))[::-1]
    weakest = strengths[min(_STRONGEST_EDGES, len(strengths)) - 1] if len(strengths) else 0.0
    edges[np.abs(edges) < max(weakest, 1e-300)] = 0.0
    sentence = f"The {int(np.count_nonzero(np.triu(edges)))} edges that separate the classes most."
    if explanation.cards:  # scores jump where another permutation wins, and gradients do not see jumps
        sentence += " In a network that matches templates, their ranks were tested; their signs are not reliable."
    is_doubtful = abs(explanation.randomization) >= _LIKE_UNTRAINED
    return Scene(
        title=title,
        sentence=sentence,
        nodes=np.abs(edges).sum(axis=1),
        favours=np.full(len(edges), -1),
        edges=edges,
        explanation=explanation,
        id=f"{id}-edges",
        verdict="similar in an untrained network" if is_doubtful else "differs from an untrained network",
        is_doubtful=is_doubtful,
        facts=[
            ("mean over", f"{explanation.n_fits} fits, each on its test graphs"),
            ("rank correlation with an untrained network", number(explanation.randomization, 2)),
        ],
    )


def effect(values: "Effect") -> str:
    """``0.71 [0.42, 1.01]``."""
    return interval(values.value, values.low, values.high, digits=2)


def _card_facts(card: "EvidenceCard") -> list[tuple[str, str]]:
    return [
        *_common_facts(card, "templates"),
        *_agreement_fact("same regions in other fits", card.places),
        *_agreement_fact("same shape in other fits", card.shape),
    ]


def _motif_facts(card: "MotifCard", classes: Sequence[str]) -> list[tuple[str, str]]:
    carriers = zip(classes, card.n_carriers, card.n_graphs, strict=True)
    return [
        ("carriers", ", ".join(f"{name}: {a} of {b} ({a / max(b, 1):.0%})" for name, a, b in carriers)),
        *_common_facts(card, "motifs"),
        *_agreement_fact("same shape in other fits", card.shape),
        (
            "spread of its contribution to the class scores",
            f"{number(card.importance, 2)} times that of all motifs together (parts may cancel each other)",
        ),
        ("learned templates that look like it", str(card.n_members)),
    ]


def _common_facts(card: "EvidenceCard | MotifCard", what: str) -> list[tuple[str, str]]:
    facts = [
        ("effect size", f"d = {effect(card.effect)}"),
        ("separates the classes", f"in {card.n_separating} of {card.n_fits} fits ({p_value(card.p_value)})"),
    ]
    if card.n_left_out:
        facts.append(("not comparable", f"{card.n_left_out} fits with {what} of another size or number"))
    return facts


def _agreement_fact(name: str, agreement: "Agreement | None") -> list[tuple[str, str]]:
    if agreement is None:
        return []
    by_chance = f"up to {number(agreement.null, 2)} by chance ({p_value(agreement.p_value)})"
    return [(name, f"r = {number(agreement.value, 2)}; {by_chance}")]
