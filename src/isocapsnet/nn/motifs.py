"""A network that looks for learned templates wherever they occur: no parameter belongs to a node."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from isocapsnet._validation import InputError, check_option
from isocapsnet.functional import (
    BestWindows,
    diagonal_windows,
    grown_windows,
    match_windows,
    mean_over,
    nearest_windows,
    shared_patterns,
    soft_minimum,
    strongest_windows,
    take_windows,
    turn_windows,
)
from isocapsnet.nn.isomorphic import gaussian

#: Sets of nodes that strong edges connect, or ranges of neighbouring nodes.
MOTIF_WINDOWS = ("neighborhood", "diagonal")
#: What windows hold deviations from.
DEVIATIONS = ("mean_graph", "mean_edge")
#: Templates start from windows among this share of those with the largest norm: the others hold noise.
_STRONGEST = 0.1
# Windows that grow in a graph: half as many as it has nodes, but at least these.
_LEAST_WINDOWS = 8
_BATCH_NORM_EPSILON = 1e-5
# Scores of graphs that are all alike have no variance.
_LEAST_VARIANCE = 1e-6


class MotifMatch(NamedTuple):
    """The best match of every template in every window.

    Attributes
    ----------
    distance : Tensor (n_graphs, n_templates, n_windows)
        Of Eq. 1, in units of the initial templates' root mean square.
    permutation : Tensor (n_graphs, n_templates, n_windows), int64
    nodes : Tensor (n_graphs, n_windows, k), int64
        Which nodes a window holds.
    """

    distance: Tensor
    permutation: Tensor
    nodes: Tensor


class MotifOutput(NamedTuple):
    """The output of a motif network for a batch.

    Attributes
    ----------
    logits : Tensor (n_graphs, n_classes)
    scores : Tensor (n_graphs, n_templates)
        How well each template occurs anywhere in each graph, standardised over the training graphs.
    """

    logits: Tensor
    scores: Tensor


class MotifNetwork(nn.Module):
    """Templates matched with windows of each graph, pooled over windows, then a linear layer.

    A template contributes one number per graph, the soft minimum of its distance to all windows: how well it occurs
    anywhere. The network has no parameter for a node. With ``windows="neighborhood"`` it makes no difference if the
    nodes of all graphs are shuffled, unless edges are equally strong (binary graphs, counts, many absent edges), where
    the order of the nodes decides which window grows.

    Parameters
    ----------
    n_nodes, n_classes, n_templates, kernel_size : int
    windows : {"neighborhood", "diagonal"}
        Sets of nodes that grow from the strongest edges (:func:`~isocapsnet.functional.grown_windows`), or all ranges
        of neighbouring nodes (:func:`~isocapsnet.functional.diagonal_windows`), which depend on the order of the nodes
        and do not depend on the strength of the edges.
    deviation_from : {"mean_graph", "mean_edge"}
        Windows hold deviations from the mean training graph, or from its mean edge. With the latter it makes no
        difference either if the nodes of each graph are shuffled in another way.
    softness : float
        τ of the soft minimum.
    """

    center: Tensor
    scale: Tensor
    mean: Tensor
    variance: Tensor
    patterns: Tensor
    others: Tensor
    thresholds: Tensor
    covariance: Tensor

    def __init__(
        self,
        n_nodes: int,
        n_classes: int,
        *,
        n_templates: int = 32,
        kernel_size: int = 4,
        windows: str = "neighborhood",
        deviation_from: str = "mean_graph",
        softness: float = 0.6,
    ) -> None:
        super().__init__()
        check_option("windows", windows, MOTIF_WINDOWS)
        check_option("deviation_from", deviation_from, DEVIATIONS)
        if kernel_size < 2:
            raise InputError(f"kernel_size={kernel_size} is out of range; a motif has at least 2 nodes.")
        self.windows, self.deviation_from, self.softness = windows, deviation_from, softness
        self.templates = gaussian(n_templates, kernel_size, kernel_size)
        self.head = nn.Linear(n_templates, n_classes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.register_buffer("center", torch.zeros(n_nodes, n_nodes))
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("mean", torch.zeros(n_templates))
        self.register_buffer("variance", torch.ones(n_templates))
        # What `describe` finds in training graphs, for explanations.
        self.register_buffer("patterns", torch.zeros(n_templates, kernel_size, kernel_size))
        self.register_buffer("others", torch.zeros(n_templates, kernel_size, kernel_size))
        self.register_buffer("thresholds", torch.zeros(n_templates))
        self.register_buffer("covariance", torch.zeros(n_templates, n_templates))

    @torch.no_grad()
    def start_from(self, mean: Tensor, graphs: Tensor) -> None:
        """Start the templates from windows of training graphs, which also give the units of edges and scores.

        Parameters
        ----------
        mean : Tensor (n_nodes, n_nodes)
            Of all training graphs.
        graphs : Tensor (n_graphs, n_nodes, n_nodes)
            All or some of them.
        """
        if self.deviation_from == "mean_edge":
            edges = ~torch.eye(len(mean), dtype=torch.bool, device=mean.device)
            mean = mean[edges].double().mean().to(mean).expand_as(mean)
        self.center.copy_(mean)
        self.scale.fill_(1.0)
        n_templates, k, _ = self.templates.shape
        windows = self.take(graphs)[0].reshape(-1, k, k)
        norms = windows.flatten(1).norm(dim=1)
        strongest = norms.topk(max(min(n_templates, len(norms)), round(_STRONGEST * len(norms)))).indices
        order = torch.randperm(len(strongest)).to(strongest.device)
        templates = windows[strongest[order.repeat(-(-n_templates // len(order)))[:n_templates]]]
        size = templates.square().sum().div(n_templates * k * (k - 1)).sqrt()
        self.scale.copy_(torch.where(size > 0, size, 1.0))
        self.templates.copy_(templates / self.scale)
        pooled = self._pool(graphs)
        self.mean.copy_(pooled.mean(dim=0))
        self.variance.copy_(pooled.var(dim=0, correction=0).clamp_min(_LEAST_VARIANCE))

    def take(self, graphs: Tensor) -> tuple[Tensor, Tensor]:
        """Windows ``(n_graphs, n_windows, k, k)`` of deviations, and their nodes."""
        deviations = (graphs - self.center) / self.scale
        n_graphs, n_nodes, k = *deviations.shape[:2], self.templates.shape[-1]
        if self.windows == "diagonal":
            nodes = diagonal_windows(n_nodes, k, graphs.device).expand(n_graphs, -1, -1)
        else:
            n_windows = min(max(_LEAST_WINDOWS, n_nodes // 2), n_nodes * (n_nodes - 1) // 2)
            nodes = grown_windows(deviations, k, n_windows)
        return take_windows(deviations, nodes), nodes

    def match(self, graphs: Tensor) -> MotifMatch:
        """Where and how each template matches."""
        windows, nodes = self.take(graphs)
        return MotifMatch(*match_windows(windows, self.templates), nodes)

    def locate(self, graphs: Tensor) -> tuple[Tensor, Tensor]:
        """The best window of each template: distances ``(n_graphs, n_templates)`` and nodes ``(..., k)``.

        Nodes are in the order of the rows of the template.
        """
        windows, nodes = self.take(graphs)
        best = nearest_windows(windows, self.templates)
        return best.distance, _nodes_of(best, nodes)

    def locate_patterns(self, graphs: Tensor) -> tuple[Tensor, Tensor]:
        """The best window of each pattern: how far it is from the pattern ``(n_graphs, n_templates)``, and its nodes.

        The distance is measured along the line from the pattern to what other classes have in its place: it is 0 at the
        first and 1 at the second, and negative where the pattern is stronger than in the mean of its carriers.
        """
        windows, nodes = self.take(graphs)
        best = strongest_windows(windows, self.patterns)
        return distances_along(turn_windows(windows, best), self.patterns, self.others), _nodes_of(best, nodes)

    @torch.no_grad()
    def describe(self, windows: Tensor, codes: Tensor) -> None:
        """Learn from training graphs which of them carry each template, and what its carriers have in common.

        A graph carries a template if the distance of its best window (that of :meth:`locate_patterns`) is at most a
        threshold. It is the one at which carriers and others differ most between the class that the template speaks for
        and the rest (the largest balanced accuracy). ``patterns`` are what the carriers share, ``others`` what
        graphs of other classes have in its place, and ``thresholds`` are those of the distances.
        ``covariance`` is that of the scores.

        Parameters
        ----------
        windows : Tensor (n_graphs, n_windows, k, k)
            Of :meth:`take`.
        codes : Tensor (n_graphs,)
        """
        pooled = soft_minimum(match_windows(windows, self.templates)[0], self.softness)
        scores = (pooled - pooled.mean(dim=0)) / (self.variance + _BATCH_NORM_EPSILON).sqrt()
        self.covariance.copy_(scores.T @ scores / len(scores))
        is_for = codes[:, None] == self.speaks_for
        patterns: Tensor = self.templates
        for is_last in (False, True):
            best = turn_windows(windows, strongest_windows(windows, patterns))
            others = mean_over(best, ~is_for, torch.zeros_like(patterns))
            distances = distances_along(best, patterns, others)
            thresholds = best_thresholds(distances, is_for)
            if not is_last:
                patterns = shared_patterns(windows, patterns, distances <= thresholds)
        self.patterns.copy_(patterns)
        self.others.copy_(others)
        self.thresholds.copy_(thresholds)

    @property
    def speaks_for(self) -> Tensor:
        """The class with the largest weight of each template ``(n_templates,)``."""
        return self.head.weight.detach().argmax(dim=0)

    def forward(self, graphs: Tensor) -> MotifOutput:
        """Graphs ``(n_graphs, n_nodes, n_nodes)`` to logits and scores."""
        pooled = self._pool(graphs)
        # A batch of one graph has no variance of its own.
        training = self.training and len(pooled) > 1
        scores = nn.functional.batch_norm(pooled, self.mean, self.variance, training=training, eps=_BATCH_NORM_EPSILON)
        return MotifOutput(self.head(scores), scores)

    def _pool(self, graphs: Tensor) -> Tensor:
        """How well each template occurs anywhere: ``(n_graphs, n_templates)``, 0 at a perfect match."""
        return -soft_minimum(self.match(graphs).distance, self.softness)


def distances_along(windows: Tensor, patterns: Tensor, others: Tensor) -> Tensor:
    """How far windows ``(n_graphs, n_templates, k, k)`` are from patterns, as a part of the way to ``others``.

    Both are ``(n_templates, k, k)``. If windows are one or the other plus equal noise in all edges, this is the
    logarithm of the likelihood ratio up to its scale and origin.
    """
    way = others - patterns
    return ((windows - patterns) * way).sum(dim=(2, 3)) / way.square().sum(dim=(1, 2)).clamp_min(_LEAST_VARIANCE)


def _nodes_of(best: BestWindows, nodes: Tensor) -> Tensor:
    """The nodes ``(n_graphs, n_templates, k)`` of the best windows, in the order of the templates."""
    chosen = nodes.gather(1, best.window[..., None].expand(-1, -1, nodes.shape[2]))
    return chosen.gather(2, best.order)


def best_thresholds(distances: Tensor, is_inside: Tensor) -> Tensor:
    """The thresholds of distances ``(n_graphs, n_templates)`` that separate two groups best, by balanced accuracy.

    ``is_inside`` ``(n_graphs, n_templates)`` is true for graphs that should have small distances. A threshold lies in
    the middle between the distances of two graphs. If all graphs are inside it is the largest distance.
    """
    ascending, order = distances.sort(dim=0)
    inside = is_inside.gather(0, order).to(distances.dtype)
    shares = [(group.cumsum(dim=0) / group.sum(dim=0).clamp_min(1)) for group in (inside, 1 - inside)]
    is_last = torch.ones_like(is_inside)
    is_last[:-1] = ascending[1:] > ascending[:-1]  # equal distances are on the same side
    best = torch.where(is_last, shares[0] - shares[1], -1.0).argmax(dim=0, keepdim=True)
    following = (best + 1).clamp_max(len(ascending) - 1)
    return (ascending.gather(0, best) + ascending.gather(0, following))[0] / 2
