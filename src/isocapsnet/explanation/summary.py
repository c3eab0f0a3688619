"""The explanation of a network: what all of its fits show together, as tables and files."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from isocapsnet import __version__
from isocapsnet._safe_text import spreadsheet_safe
from isocapsnet._validation import InputError
from isocapsnet.explanation.attribution import is_network, sum_over_regions
from isocapsnet.explanation.cards import EvidenceCard, MotifCard
from isocapsnet.explanation.combination import combine
from isocapsnet.explanation.fits import FitExplanation, Prepare, describe_forms, explain_fit, explain_refits
from isocapsnet.explanation.motif_cards import combine_motifs
from isocapsnet.explanation.networks import sum_over_networks, tabulate_pairs
from isocapsnet.explanation.reconstructions import Reconstructions, collect_reconstructions
from isocapsnet.explanation.storage import save_explanation

_LISTED_EDGES = 100
_LISTED_REGIONS = 10


@dataclass(frozen=True)
class Explanation:
    """The explanation of a network from one or more fits, each on graphs that it did not train on.

    Attributes
    ----------
    classes : sequence of str (n_classes,)
    n_fits : int
    edges : array (n_nodes, n_nodes)
        How much each edge separates the classes, signed and symmetric; mean over fits.
    randomization : float
        Rank correlation of the attributions with those of an untrained network; it should be near 0.
    cards : sequence of EvidenceCard
        One per template; empty for a network without templates, or if they do not contribute.
    motif_cards : sequence of MotifCard
        One per important motif; empty without a motif form, or if its weight is 0.
    notes : sequence of str
        How the forms of the network contribute and which edges the preparation leaves, where this has to be said.
    representation, representation_labels : array (n_graphs, n_features), array (n_graphs,), or None
        Output of ``transform`` for the test graphs of the first fit, and their classes.
    reconstructions : Reconstructions or None
        None for a network without a decoder.
    node_names : sequence of str (n_nodes,)
    title : str
    n_refits : int
        Number of refits; 0 if the model itself is explained.
    networks : sequence of str (n_nodes,), optional
        The network of each node.
    partition : str
        The name of these networks, such as "yeo7".
    model : FitExplanation, optional
        The explanation of the model itself.
    """

    classes: Sequence[str]
    n_fits: int
    edges: NDArray[np.float64]
    randomization: float
    cards: Sequence[EvidenceCard] = ()
    motif_cards: Sequence[MotifCard] = ()
    notes: Sequence[str] = ()
    representation: NDArray[Any] | None = None
    representation_labels: NDArray[np.int64] | None = None
    reconstructions: Reconstructions | None = None
    node_names: Sequence[str] = ()
    title: str = ""
    n_refits: int = 0
    networks: Sequence[str] | None = None
    partition: str = ""
    model: FitExplanation | None = None

    def node_name(self, node: int) -> str:
        """The name of a node, or its number without names."""
        return self.node_names[node] if node < len(self.node_names) else f"node {node + 1}"

    @property
    def strongest_regions(self) -> NDArray[np.int64]:
        """Nodes by the absolute attribution of their edges, the largest first ``(n_nodes,)``."""
        return np.argsort(-sum_over_regions(self.edges))

    @property
    def table(self) -> pd.DataFrame:
        """The listed regions of every card, then all regions by their edges; indices start at 0."""
        rows: list[dict[str, Any]] = [
            {
                "from": f"template {card.template + 1}",
                "verdict": card.verdict,
                "region": self.node_name(region.node),
                "index": region.node,
                "share": region.share,
                "effect": region.effect.value,
                "effect_low": region.effect.low,
                "effect_high": region.effect.high,
                "fits": region.n_fits,
                "matches_better_in": self.classes[region.favours],
            }
            for card in self.cards
            for region in card.regions
        ]
        rows += [
            {
                "from": f"motif {card.motif + 1}",
                "verdict": card.verdict,
                "region": self.node_name(node),
                "index": node,
                "share": card.region_shares[node],
            }
            for card in self.motif_cards
            for node in np.argsort(-np.array(card.region_shares), kind="stable")[:_LISTED_REGIONS].tolist()
        ]
        strength = sum_over_regions(self.edges)
        shares = strength / (strength.sum() or 1.0)
        rows += [
            {"from": "edges", "region": self.node_name(node), "index": node, "share": shares[node]}
            for node in self.strongest_regions
        ]
        return pd.DataFrame(rows)

    @property
    def carrier_table(self) -> pd.DataFrame:
        """The graphs that carry each motif: the nodes of the motif in its order, indices from 0 and names."""
        rows = [
            {
                "motif": card.motif + 1,
                "subject": carrier.subject,
                "class": self.classes[carrier.label],
                "distance": carrier.distance,
                "indices": " ".join(map(str, carrier.nodes)),
                "regions": "; ".join(self.node_name(node) for node in carrier.nodes),
            }
            for card in self.motif_cards
            for carrier in card.carriers
        ]
        return pd.DataFrame(rows, columns=["motif", "subject", "class", "distance", "indices", "regions"])

    @property
    def edge_table(self) -> pd.DataFrame:
        """The 100 edges that separate the classes most."""
        rows, columns = np.triu_indices(len(self.edges), k=1)
        order = np.argsort(-np.abs(self.edges[rows, columns]))[:_LISTED_EDGES]
        edges = [
            (self.node_name(row), self.node_name(column), row, column, self.edges[row, column])
            for row, column in zip(rows[order], columns[order], strict=True)
        ]
        return pd.DataFrame(edges, columns=["first", "second", "first_index", "second_index", "separation"])

    @property
    def network_table(self) -> pd.DataFrame | None:
        """The networks that the edges join, see ``tabulate_pairs``.

        The 100 edges of :attr:`edge_table` count as the strongest. None if the networks of the nodes are not known.
        """
        return None if self.networks is None else tabulate_pairs(self.edges, self.networks, _LISTED_EDGES)

    def save(self, folder: str | Path) -> None:
        """Write ``cards.json``, ``explanation.npz`` and tables of regions, edges, carriers of motifs and networks."""
        out = Path(folder)
        out.mkdir(parents=True, exist_ok=True)
        content = {
            "isocapsnet": __version__,
            "title": self.title,
            "classes": list(self.classes),
            "node_names": [self.node_name(node) for node in range(len(self.edges))],
            "n_refits": self.n_refits,
            "randomization": self.randomization,
            "cards": [asdict(card) for card in self.cards],
        }
        if self.motif_cards:
            content["motifs"] = [asdict(card) for card in self.motif_cards]
            spreadsheet_safe(self.carrier_table).to_csv(out / "motifs.csv", index=False)
        if self.notes:
            content["notes"] = list(self.notes)
        (out / "cards.json").write_text(json.dumps(content, indent=1))
        spreadsheet_safe(self.table).to_csv(out / "regions.csv", index=False)
        spreadsheet_safe(self.edge_table).to_csv(out / "edges.csv", index=False)
        if self.networks is not None:
            names, sums = sum_over_networks(self.edges, self.networks)
            frame = pd.DataFrame(sums, index=names, columns=names)
            spreadsheet_safe(frame).to_csv(out / "networks.csv", index_label="network")
            pairs = tabulate_pairs(self.edges, self.networks, _LISTED_EDGES)
            spreadsheet_safe(pairs).to_csv(out / "network-pairs.csv", index=False)
        if self.model is not None:
            save_explanation(self.model, out)


def explain(
    model: Any,
    graphs: ArrayLike,
    labels: ArrayLike,
    *,
    folds: int = 5,
    attribution: str = "gradient",
    seed: int = 0,
    subjects: Sequence[str] = (),
    networks: Sequence[str] | None = None,
    prepare: Prepare | None = None,
    **description: Any,
) -> Explanation:
    """Explain a fitted network: its templates, where they match, whether they are stable, which edges it uses.

    A model cannot be judged on graphs that it trained on, and stability cannot be judged from one fit. The model's
    settings are therefore fitted again on folds of the data. Effects and verdicts come from the graphs that each refit
    did not see.

    Parameters
    ----------
    model : NetworkClassifier
        Fitted.
    graphs : array-like (n_graphs, n_nodes, n_nodes)
    labels : array-like (n_graphs,)
    folds : int
        Number of refits; 0 explains the model itself, whose templates are then "not assessed".
    attribution : {"gradient", "integrated"}
        How edges are attributed.
    seed : int
    subjects : sequence of str (n_graphs,), optional
        Names of the subjects.
    networks : sequence of str (n_nodes,), optional
        The network of each node.
    prepare : callable, optional
        See :func:`~isocapsnet.explanation.fits.explain_refits`; ``graphs`` are prepared as the model needs them.
    **description
        ``node_names``, ``title`` and ``partition`` of the :class:`Explanation`.
    """
    if not is_network(model):
        raise InputError(
            f"{type(model).__name__} is not a fitted network; only networks can be explained, such as isocapsnet."
        )
    if networks is not None and len(networks) != model.n_nodes_in_:
        raise InputError(f"networks has {len(networks)} entries, but there are {model.n_nodes_in_} nodes.")
    refits = explain_refits(model, graphs, labels, folds, attribution, seed, prepare) if folds else ()
    own = explain_fit(model, graphs, labels, attribution)
    fits, tests = zip(*(list(refits) or [(own, np.arange(len(np.asarray(labels))))]), strict=True)
    return summarize(
        fits,
        tests,
        subjects=subjects,
        reference=own,
        seed=seed,
        n_refits=folds,
        networks=networks,
        model=own,
        **description,
    )


def summarize(
    fits: Sequence[FitExplanation],
    tests: Sequence[Sequence[int] | NDArray[np.int64]],
    *,
    subjects: Sequence[str] = (),
    reference: FitExplanation | None = None,
    seed: int = 0,
    class_names: Sequence[str] = (),
    **description: Any,
) -> Explanation:
    """One explanation from those of several fits.

    ``tests`` are the indices of the graphs given to each fit, ``subjects`` the names of all subjects, and
    ``class_names`` those of classes if the fits have codes. Templates and motifs are compared with those of
    ``reference``, or else of the first fit.
    """
    first = fits[0]
    templates, motifs = (None, None) if reference is None else (reference.templates, reference.motifs)
    return Explanation(
        classes=first.classes.tolist(),
        n_fits=len(fits),
        edges=np.mean([fit.edges for fit in fits], axis=0, dtype=np.float64),
        randomization=float(np.mean([fit.randomization for fit in fits])),
        cards=combine(fits, tests, None if templates is None else templates.matrices, seed),
        motif_cards=combine_motifs(fits, tests, subjects, motifs, seed, class_names),
        notes=describe_forms(fits),
        representation=first.representation,
        representation_labels=first.codes,
        reconstructions=collect_reconstructions(fits, tests, subjects),
        **description,
    )
