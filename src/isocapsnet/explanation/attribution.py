"""Attribution of edges for every network: how much each edge adds to the margin between the classes.

Both methods use the deviation of an edge from its mean over the given graphs, and "gradient" averages the gradient over
these graphs. The score jumps where another permutation wins the match, and a gradient does not see jumps: on planted
patterns the gradient of single graphs missed the pattern, and the averaged gradient found it. For the same reason signs
can be wrong in isomorphic networks, so regions are ranked by absolute values.
"""

from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.stats import spearmanr
from torch import Tensor, nn

from isocapsnet._packages import importing
from isocapsnet._threads import one_thread
from isocapsnet._validation import InputError, check_option
from isocapsnet.explanation.contrasts import margins
from isocapsnet.models._network import NetworkClassifier
from isocapsnet.models._seeding import seeded
from isocapsnet.nn import MotifNetwork

ATTRIBUTIONS = ("gradient", "integrated")

Margins = Callable[[Tensor], Tensor]

# Steps of integrated gradients.
_STEPS = 32
# Networks before training whose attributions are compared.
_UNTRAINED = 3


def is_network(estimator: Any) -> bool:
    """Whether an estimator is a fitted network, so that it has gradients."""
    return isinstance(estimator, NetworkClassifier) and hasattr(estimator, "module_")


@one_thread()
def attribute_edges(estimator: Any, graphs: ArrayLike, method: str = "gradient") -> NDArray[np.float32]:
    """How much each edge of each graph adds to the margin between the classes.

    Parameters
    ----------
    estimator : NetworkClassifier
        Fitted.
    graphs : array-like (n_graphs, n_nodes, n_nodes)
    method : {"gradient", "integrated"}
        Mean gradient times edge, or integrated gradients from the mean graph (captum), both in scaled units.

    Returns
    -------
    array (n_graphs, n_contrasts, n_nodes, n_nodes)
        Symmetric: each entry holds the mean of the edge's two entries. Contrasts as in
        ``contrasts.margins``.
    """
    check_option("method", method, ATTRIBUTIONS)
    if not is_network(estimator):
        raise InputError(f"{type(estimator).__name__} is not a fitted network, so it has no gradients.")
    return edge_attributions(estimator, estimator._check_fitted(graphs), method)


def edge_attributions(estimator: Any, X: NDArray[Any], method: str = "gradient") -> NDArray[np.float32]:
    """:func:`attribute_edges` of graphs that were checked."""
    device = next(estimator.module_.parameters()).device
    scaled = torch.from_numpy(estimator.scaler_.transform(X))
    mean = scaled.mean(dim=0, keepdim=True).to(device)

    def score_margins(batch: Tensor) -> Tensor:
        values: Tensor = margins(estimator._class_scores(estimator.module_(batch)))
        return values

    attribute = margin_gradients if method == "gradient" else partial(_integrated_gradients, mean=mean)
    batches = scaled.split(estimator.batch_size)
    gradients = np.concatenate([attribute(score_margins, batch.to(device)).cpu().numpy() for batch in batches])
    if method == "gradient":
        gradients = gradients.mean(axis=0, keepdims=True)
    attribution = gradients * (scaled - mean.cpu()).numpy()[:, None]
    return np.asarray((attribution + attribution.swapaxes(2, 3)) / 2)


def sum_over_regions(edges: NDArray[Any]) -> NDArray[np.float64]:
    """Absolute attribution at each node: edges ``(..., n_nodes, n_nodes)`` to ``(..., n_nodes)``."""
    return np.asarray(np.abs(edges).sum(axis=-1), dtype=np.float64)


@one_thread()
def randomization_check(estimator: Any, graphs: ArrayLike, method: str = "gradient") -> float:
    """Rank correlation of edge attributions with those of the same network before training.

    If an untrained network gives the same attributions, they say nothing about what was learned (Adebayo et al.,
    "Sanity checks for saliency maps", 2018). Spearman's correlation between the mean absolute attributions of the
    edges, mean over three untrained networks. It should be near 0; do not trust attributions where it is near 1.
    ``estimator``, ``graphs`` and ``method`` are those of :func:`attribute_edges`.
    """
    return untrained_correlation(estimator, estimator._check_fitted(graphs), method)


def untrained_correlation(estimator: Any, X: NDArray[Any], method: str = "gradient") -> float:
    """:func:`randomization_check` of graphs that were checked."""
    learned = _edge_importance(edge_attributions(estimator, X, method))
    correlations = []
    for seed in range(_UNTRAINED):
        untrained = copy(estimator)
        with seeded(seed):
            untrained.module_ = estimator._build_module(estimator.n_nodes_in_, len(estimator.classes_))
            if getattr(estimator.module_, "decoder", None) is None and hasattr(untrained.module_, "decoder"):
                untrained.module_.register_module("decoder", None)
            _randomize_motifs(untrained.module_, estimator.module_)
        untrained.module_.to(next(estimator.module_.parameters()).device).eval()
        random = _edge_importance(edge_attributions(untrained, X, method))
        correlations += [_rank_correlation(a, b) for a, b in zip(learned, random, strict=True)]
    return float(np.mean(correlations))


@torch.no_grad()
def _randomize_motifs(untrained: nn.Module, trained: nn.Module) -> None:
    """Give motif networks before training random weights, which start from 0, and the mean and scale of the data."""
    for module, other in zip(untrained.modules(), trained.modules(), strict=True):
        if isinstance(module, MotifNetwork):
            nn.init.normal_(module.head.weight)
            module.center.copy_(other.get_buffer("center"))
            module.scale.copy_(other.get_buffer("scale"))


def margin_gradients(function: Margins, inputs: Tensor) -> Tensor:
    """Gradients ``(n_graphs, n_contrasts, ...)`` at the inputs ``(n_graphs, ...)`` of ``(n_graphs, n_contrasts)``."""
    with torch.enable_grad():
        inputs = inputs.detach().requires_grad_()
        values = function(inputs)
        gradients = [torch.autograd.grad(value.sum(), inputs, retain_graph=True)[0] for value in values.T]
    return torch.stack(gradients, dim=1)


def _integrated_gradients(function: Margins, graphs: Tensor, mean: Tensor) -> Tensor:
    """Mean gradients of the margins on the path from the mean graph to each graph."""
    with importing("Integrated gradients need captum", "attribution", otherwise='or use method="gradient".'):
        from captum.attr import IntegratedGradients

    n_contrasts = function(mean).shape[1]
    attributor = IntegratedGradients(function, multiply_by_inputs=False)
    parts = [
        attributor.attribute(graphs, mean, contrast, n_steps=_STEPS, internal_batch_size=max(64, len(graphs)))
        for contrast in range(n_contrasts)
    ]
    return torch.stack(parts, dim=1).to(graphs.dtype).detach()


def _edge_importance(attribution: NDArray[Any]) -> NDArray[np.float64]:
    """Mean absolute attribution over graphs, a row of edges per contrast ``(n_contrasts, n_edges)``."""
    rows, columns = np.triu_indices(attribution.shape[-1], k=1)
    return np.asarray(np.abs(attribution[..., rows, columns]).mean(axis=0, dtype=np.float64))


def _rank_correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Spearman's correlation; 0 where one of them is constant."""
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(spearmanr(first, second).statistic)
