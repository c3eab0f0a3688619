"""What the motif form of Iso-CapsNet finds in each graph, and how much of the class scores comes from it.

A motif has one score per graph, and the class scores are linear in these scores. The part of a motif in the margin of a
graph is therefore exact: form weight x margin of the head's weights x score.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from isocapsnet.explanation.contrasts import margins


@dataclass(frozen=True)
class Motifs:
    """The motifs of a fitted network, and their places in graphs that it did not train on.

    What was fitted (all but ``evidence``, ``distances`` and ``nodes``) comes from training graphs alone.

    Attributes
    ----------
    form_weights : array (2,)
        Weights of the paper's network and of the motif form in the class scores.
    logarithm : bool
        Whether edges are log(1 + edge) in what follows.
    learned : array (n_motifs, k, k)
        Learned templates, in the units of the edges: deviations from the mean training graph or its mean edge.
    patterns : array (n_motifs, k, k)
        What the training graphs that carry a motif have in common, in the same units and order of nodes.
    weights : array (n_contrasts, n_motifs)
        What the margin of the class scores gains when the score of a motif rises by 1.
    covariance : array (n_motifs, n_motifs)
        Of the scores of the motifs over training graphs.
    thresholds : array (n_motifs,)
        A graph carries a motif if its distance is at most this.
    evidence : array (n_graphs, n_contrasts, n_motifs)
        The contribution of each motif to the margin.
    distances : array (n_graphs, n_motifs)
        How far the best window is from the pattern: 0 where it equals the mean of the carriers, 1 where it equals what
        graphs of other classes have in its place, and negative where the pattern is stronger than in that mean.
    nodes : array (n_graphs, n_motifs, k), int
        Nodes of that window, in the order of the pattern's nodes.
    """

    form_weights: NDArray[np.float64]
    logarithm: bool
    learned: NDArray[np.float32]
    patterns: NDArray[np.float32]
    weights: NDArray[np.float32]
    covariance: NDArray[np.float32]
    thresholds: NDArray[np.float32]
    evidence: NDArray[np.float32]
    distances: NDArray[np.float32]
    nodes: NDArray[np.int64]

    def importance(self, members: NDArray[Any]) -> float:
        """How much motifs move the margin: the spread of their part in it over training graphs, mean over contrasts.

        For one motif this is the absolute weight times the standard deviation of its score.
        """
        weights, covariance = self.weights[:, members], self.covariance[np.ix_(members, members)]
        variances = np.einsum("jm,mn,jn->j", weights, covariance, weights, dtype=np.float64)
        return float(np.sqrt(np.maximum(variances, 0)).mean())


def explain_motifs(estimator: Any, X: NDArray[Any]) -> Motifs | None:
    """The motifs of a fitted network in checked graphs; None without a motif form, or if its weight is 0."""
    form_weights = getattr(estimator, "form_weights_", (1.0, 0.0))
    if form_weights[1] == 0:
        return None
    network = estimator.motif_network_.eval()
    with torch.inference_mode():
        parts = [(network(graphs).scores, *network.locate_patterns(graphs)) for graphs in estimator._batches(X)]
        scores, distances, nodes = (torch.cat(part).cpu().numpy() for part in zip(*parts, strict=True))
        weights = form_weights[1] * margins(network.head.weight[None])[0].cpu().numpy()
        unit = float(network.scale) * estimator.scaler_.scale
        learned, patterns, covariance, thresholds = (
            tensor.cpu().numpy()
            for tensor in (network.templates * unit, network.patterns * unit, network.covariance, network.thresholds)
        )
    return Motifs(
        form_weights=np.array(form_weights, dtype=np.float64),
        logarithm=estimator.scaler_.logarithm,
        learned=learned,
        patterns=patterns,
        weights=weights.astype(np.float32),
        covariance=covariance,
        thresholds=thresholds,
        evidence=(weights * scores[:, None]).astype(np.float32),
        distances=distances,
        nodes=nodes,
    )
