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
from isocapsnet.explanation.attribution import is_network, sum_over_networks, sum_over_regions
from isocapsnet.explanation.cards import EvidenceCard
from isocapsnet.explanation.combination import combine
from isocapsnet.explanation.fits import FitExplanation, explain_fit, explain_refits
from isocapsnet.explanation.storage import save_explanation

_LISTED_EDGES = 100


@dataclass(frozen=True)
class Reconstructions:
    """Graphs that the fits did not train on and their reconstructions, in original units, each subject once.

    ``labels`` ``(n_graphs,)`` are class codes; ``n_available`` is the number of test graphs, of which these are a part.
    """

    subjects: Sequence[str]
    labels: NDArray[np.int64]
    inputs: NDArray[Any]
    outputs: NDArray[Any]
    n_available: int

    def similarity(self) -> tuple[float, float]:
        """Mean correlation over edges of reconstructions with their own graphs and with those of other subjects.

        NaN where it is not defined: a constant graph, a single subject.
        """
        edges = np.triu_indices(self.inputs.shape[1], k=1)
        n_graphs = len(self.inputs)
        with np.errstate(invalid="ignore", divide="ignore"):
            both = np.corrcoef(self.outputs[:, *edges], self.inputs[:, *edges])[:n_graphs, n_graphs:]
        own = np.eye(n_graphs, dtype=bool)
        return float(both[own].mean()), float(both[~own].mean()) if n_graphs > 1 else float("nan")


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
        One per template; empty for a network without templates.
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
    model : FitExplanation, optional
        The explanation of the model itself.
    """

    classes: Sequence[str]
    n_fits: int
    edges: NDArray[np.float64]
    randomization: float
    cards: Sequence[EvidenceCard] = ()
    representation: NDArray[Any] | None = None
    representation_labels: NDArray[np.int64] | None = None
    reconstructions: Reconstructions | None = None
    node_names: Sequence[str] = ()
    title: str = ""
    n_refits: int = 0
    networks: Sequence[str] | None = None
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
        strength = sum_over_regions(self.edges)
        shares = strength / (strength.sum() or 1.0)
        rows += [
            {"from": "edges", "region": self.node_name(node), "index": node, "share": shares[node]}
            for node in self.strongest_regions
        ]
        return pd.DataFrame(rows)

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

    def save(self, folder: str | Path) -> None:
        """Write ``cards.json``, ``regions.csv``, ``edges.csv``, ``networks.csv`` and ``explanation.npz``."""
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
        (out / "cards.json").write_text(json.dumps(content, indent=1))
        spreadsheet_safe(self.table).to_csv(out / "regions.csv", index=False)
        spreadsheet_safe(self.edge_table).to_csv(out / "edges.csv", index=False)
        if self.networks is not None:
            names, sums = sum_over_networks(self.edges, self.networks)
            frame = pd.DataFrame(sums, index=names, columns=names)
            spreadsheet_safe(frame).to_csv(out / "networks.csv", index_label="network")
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
    **description
        ``node_names`` and ``title`` of the :class:`Explanation`.
    """
    if not is_network(model):
        raise InputError(f"{type(model).__name__} is not a fitted network; only networks can be explained.")
    if networks is not None and len(networks) != model.n_nodes_in_:
        raise InputError(f"networks has {len(networks)} entries, but there are {model.n_nodes_in_} nodes.")
    refits = explain_refits(model, graphs, labels, folds, attribution, seed) if folds else ()
    own = explain_fit(model, graphs, labels, attribution)
    fits, tests = zip(*(list(refits) or [(own, np.arange(len(np.asarray(labels))))]), strict=True)
    return summarize(
        fits,
        tests,
        subjects=subjects,
        reference=getattr(model, "templates_", None),
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
    reference: NDArray[np.float32] | None = None,
    seed: int = 0,
    **description: Any,
) -> Explanation:
    """One explanation from those of several fits.

    ``tests`` are the indices of the graphs given to each fit, ``subjects`` the names of all subjects. ``reference`` and
    ``seed`` are those of :func:`~isocapsnet.explanation.combination.combine`.
    """
    first = fits[0]
    return Explanation(
        classes=first.classes.tolist(),
        n_fits=len(fits),
        edges=np.mean([fit.edges for fit in fits], axis=0, dtype=np.float64),
        randomization=float(np.mean([fit.randomization for fit in fits])),
        cards=combine(fits, tests, reference, seed),
        representation=first.representation,
        representation_labels=first.codes,
        reconstructions=_collect_reconstructions(fits, tests, subjects),
        **description,
    )


def _collect_reconstructions(
    fits: Sequence[FitExplanation], tests: Sequence[Sequence[int] | NDArray[np.int64]], subjects: Sequence[str]
) -> Reconstructions | None:
    """The examples of all fits, each subject once, from the first fit that has it; None without a decoder."""
    examples: dict[int, tuple[int, Any, Any]] = {}
    for fit, indices in zip(fits, tests, strict=True):
        if fit.example_reconstructions is not None:
            for example, graph, output in zip(
                fit.examples, fit.example_graphs, fit.example_reconstructions, strict=True
            ):
                examples.setdefault(indices[fit.positions[example]], (int(fit.codes[example]), graph, output))
    if not examples:
        return None
    labels, inputs, outputs = zip(*examples.values(), strict=True)
    return Reconstructions(
        subjects=[str(subjects[index]) if len(subjects) else f"subject {index + 1}" for index in examples],
        labels=np.array(labels, dtype=np.int64),
        inputs=np.stack(inputs),
        outputs=np.stack(outputs),
        n_available=len({index for indices in tests for index in indices}),
    )
