"""A network that looks for learned templates wherever they occur: no parameter belongs to a node."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from isocapsnet._validation import InputError, check_option
from isocapsnet.functional import grown_windows, neighborhoods, soft_minimum, take_windows
from isocapsnet.functional.isomorphic import match_by
from isocapsnet.functional.kernels import eager
from isocapsnet.nn.isomorphic import gaussian

WINDOWS = ("grown", "neighborhood")
#: Templates start from windows among this share of those with the largest norm: the others hold noise.
_STRONGEST = 0.1


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


class MotifNetwork(nn.Module):
    """Templates matched with windows that follow strong edges, pooled over windows, then a linear layer.

    A template contributes one number per graph, the soft minimum of its distance to all windows: how well it occurs
    anywhere. Shuffling the nodes of all graphs changes nothing.

    Parameters
    ----------
    n_nodes, n_classes, n_templates, kernel_size : int
    windows : {"grown", "neighborhood"}
        See :func:`~isocapsnet.functional.grown_windows` (half as many as there are nodes) and
        :func:`~isocapsnet.functional.neighborhoods` (one for each node).
    temperature : float
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
        windows: str = "grown",
        temperature: float = 0.6,
    ) -> None:
        super().__init__()
        check_option("windows", windows, WINDOWS)
        if kernel_size < 2:
            raise InputError(f"kernel_size={kernel_size} is out of range; a motif has at least 2 nodes.")
        self.windows, self.temperature = windows, temperature
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
    def start_from(self, graphs: Tensor) -> None:
        """Take the mean graph, the unit of the edges and the initial templates from training graphs.

        Parameters
        ----------
        graphs : Tensor (n_graphs, n_nodes, n_nodes)
        """
        self.center.copy_(graphs.mean(dim=0))
        self.scale.fill_(1.0)
        n_templates, k, _ = self.templates.shape
        windows = self.take(graphs)[0].reshape(-1, k, k)
        norms = windows.flatten(1).norm(dim=1)
        strongest = norms.topk(max(min(n_templates, len(norms)), round(_STRONGEST * len(norms)))).indices
        drawn = torch.randperm(len(strongest), device=strongest.device)[torch.arange(n_templates) % len(strongest)]
        templates = windows[strongest[drawn]]
        size = templates.square().sum().div(n_templates * k * (k - 1)).sqrt()
        self.scale.copy_(torch.where(size > 0, size, 1.0))
        self.templates.copy_(templates / self.scale)

    def take(self, graphs: Tensor) -> tuple[Tensor, Tensor]:
        """Windows ``(n_graphs, n_windows, k, k)`` of deviations from the mean graph, and their nodes."""
        deviations = (graphs - self.center) / self.scale
        k = self.templates.shape[-1]
        if self.windows == "grown":
            nodes = grown_windows(deviations, k, self.n_windows)
        else:
            nodes = neighborhoods(deviations, k)
        return take_windows(deviations, nodes), nodes

    def match(self, graphs: Tensor) -> MotifMatch:
        """Where and how each template matches."""
        windows, nodes = self.take(graphs)
        found = match_by(eager.search, eager.backward, windows.flatten(0, 1), self.templates)
        shape = (len(graphs), nodes.shape[1], len(self.templates))
        distance, permutation = (part.view(shape).transpose(1, 2) for part in found)
        return MotifMatch(distance, permutation, nodes)

    def forward(self, graphs: Tensor) -> Tensor:
        """Graphs ``(n_graphs, n_nodes, n_nodes)`` to logits ``(n_graphs, n_classes)``."""
        pooled = -soft_minimum(self.match(graphs).distance, self.temperature)
        # A batch of one graph has no variance of its own.
        training = self.training and len(pooled) > 1
        return self.head(nn.functional.batch_norm(pooled, self.mean, self.variance, training=training))
