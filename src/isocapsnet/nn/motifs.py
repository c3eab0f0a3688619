"""A network that looks for learned templates wherever they occur: no parameter belongs to a node."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from isocapsnet._validation import InputError, check_option
from isocapsnet.functional import grown_windows, permutation_at, soft_minimum, take_windows
from isocapsnet.functional.isomorphic import match_by
from isocapsnet.functional.kernels import eager
from isocapsnet.nn.isomorphic import gaussian

#: What windows hold deviations from.
DEVIATIONS = ("mean_graph", "mean_edge")
#: Templates start from windows among this share of those with the largest norm: the others hold noise.
_STRONGEST = 0.1
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
    """Templates matched with windows that follow strong edges, pooled over windows, then a linear layer.

    A template contributes one number per graph, the soft minimum of its distance to all windows: how well it occurs
    anywhere. The network has no parameter for a node: shuffling the nodes of all graphs changes nothing.

    Parameters
    ----------
    n_nodes, n_classes, n_templates, kernel_size : int
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

    def __init__(
        self,
        n_nodes: int,
        n_classes: int,
        *,
        n_templates: int = 32,
        kernel_size: int = 4,
        deviation_from: str = "mean_graph",
        softness: float = 0.6,
    ) -> None:
        super().__init__()
        check_option("deviation_from", deviation_from, DEVIATIONS)
        if kernel_size < 2:
            raise InputError(f"kernel_size={kernel_size} is out of range; a motif has at least 2 nodes.")
        self.deviation_from, self.softness = deviation_from, softness
        self.n_windows = min(max(8, n_nodes // 2), n_nodes * (n_nodes - 1) // 2)
        self.templates = gaussian(n_templates, kernel_size, kernel_size)
        self.head = nn.Linear(n_templates, n_classes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.register_buffer("center", torch.zeros(n_nodes, n_nodes))
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("mean", torch.zeros(n_templates))
        self.register_buffer("variance", torch.ones(n_templates))

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
        k = self.templates.shape[-1]
        nodes = grown_windows(deviations, k, self.n_windows)
        return take_windows(deviations, nodes), nodes

    def match(self, graphs: Tensor) -> MotifMatch:
        """Where and how each template matches."""
        windows, nodes = self.take(graphs)
        found = match_by(eager.search, eager.backward, windows.flatten(0, 1), self.templates)
        shape = (len(graphs), nodes.shape[1], len(self.templates))
        distance, permutation = (part.view(shape).transpose(1, 2) for part in found)
        return MotifMatch(distance, permutation, nodes)

    def locate(self, graphs: Tensor) -> tuple[Tensor, Tensor]:
        """The best window of each template: distances ``(n_graphs, n_templates)`` and nodes ``(..., k)``.

        Nodes are in the order of the rows of the template.
        """
        match = self.match(graphs)
        distance, window = match.distance.min(dim=2)
        nodes = match.nodes.gather(1, window[..., None].expand(-1, -1, match.nodes.shape[2]))
        # Row a of a window matches row p[a] of the template.
        rows = permutation_at(match.permutation.gather(2, window[..., None])[..., 0], nodes.shape[2])
        return distance, torch.empty_like(nodes).scatter_(2, rows, nodes)

    def forward(self, graphs: Tensor) -> MotifOutput:
        """Graphs ``(n_graphs, n_nodes, n_nodes)`` to logits and scores."""
        pooled = self._pool(graphs)
        # A batch of one graph has no variance of its own.
        training = self.training and len(pooled) > 1
        scores = nn.functional.batch_norm(pooled, self.mean, self.variance, training=training)
        return MotifOutput(self.head(scores), scores)

    def _pool(self, graphs: Tensor) -> Tensor:
        """How well each template occurs anywhere: ``(n_graphs, n_templates)``, 0 at a perfect match."""
        return -soft_minimum(self.match(graphs).distance, self.softness)
