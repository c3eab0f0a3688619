"""Differentiable pooling of graphs.

R. Ying, J. You, C. Morris, X. Ren, W. Hamilton and J. Leskovec, "Hierarchical graph representation learning with
differentiable pooling", NeurIPS 2018. The pooling and the GraphSAGE layer are PyTorch Geometric's.
"""

from itertools import pairwise
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from isocapsnet.models._graph_network import GraphNeuralNetwork, NodeNorm, NodesAndEdges, geometric_layers
from isocapsnet.models._parameters import Layers, NotNegative, PositiveShare, estimator


class DiffPoolOutput(NamedTuple):
    """The output of the network for a batch.

    Attributes
    ----------
    logits : Tensor (n_graphs, n_classes)
    code : Tensor (n_graphs, (n_pools + 1) * hidden_size)
    link_loss : Tensor ()
        ‖A - S Sᵀ‖_F / n_nodes, as a root mean square over graphs, summed over poolings.
    entropy : Tensor ()
        Mean entropy of the nodes' assignments to clusters, summed over poolings.
    """

    logits: Tensor
    code: Tensor
    link_loss: Tensor
    entropy: Tensor


class DiffPool(nn.Module):
    """Levels of embedding and pooling (Eqs. 3-6).

    At each level one GNN embeds the nodes and another assigns them to soft clusters, which are the nodes of the next
    level. The code of a graph has the mean over nodes of every level. Parameters are those of
    :class:`DiffPoolClassifier`.
    """

    def __init__(
        self,
        nodes_and_edges: NodesAndEdges,
        n_classes: int,
        *,
        n_layers: int,
        hidden_size: int,
        n_pools: int,
        pool_ratio: float,
        dropout: float,
    ) -> None:
        super().__init__()
        self.nodes_and_edges = nodes_and_edges
        self.embeddings, self.assignments = nn.ModuleList(), nn.ModuleList()
        n_features, n_clusters = nodes_and_edges.n_features, nodes_and_edges.n_nodes
        for _ in range(n_pools):
            n_clusters = max(1, round(pool_ratio * n_clusters))
            self.embeddings.append(_SAGE(n_features, hidden_size, hidden_size, n_layers))
            self.assignments.append(_SAGE(n_features, hidden_size, n_clusters, n_layers))
            n_features = hidden_size
        self.embeddings.append(_SAGE(n_features, hidden_size, hidden_size, n_layers))
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear((n_pools + 1) * hidden_size, n_classes)

    def forward(self, graphs: Tensor) -> DiffPoolOutput:
        """Output for scaled graphs ``(n_graphs, n_nodes, n_nodes)``."""
        pool = geometric_layers().dense_diff_pool
        nodes, edges = self.nodes_and_edges(graphs)
        means = []
        link_loss = entropy = graphs.new_zeros(())
        for embed, assign in zip(self.embeddings, self.assignments, strict=False):
            embedded = self.dropout(torch.relu(embed(nodes, edges)))
            means.append(embedded.mean(1))
            n_edges = edges.numel()
            nodes, edges, norm, mean_entropy = pool(embedded, edges, assign(nodes, edges), normalize=False)
            link_loss, entropy = link_loss + norm / n_edges**0.5, entropy + mean_entropy
        means.append(self.dropout(torch.relu(self.embeddings[-1](nodes, edges))).mean(1))
        code = torch.cat(means, 1)
        return DiffPoolOutput(self.classifier(code), code, link_loss, entropy)


class _SAGE(nn.Module):
    """GraphSAGE layers with mean aggregation, each normalised, with ReLU between them."""

    def __init__(self, n_in: int, hidden_size: int, n_out: int, n_layers: int) -> None:
        super().__init__()
        convolution = geometric_layers().DenseSAGEConv
        sizes = [n_in, *[hidden_size] * (n_layers - 1), n_out]
        self.convolutions = nn.ModuleList(convolution(a, b, bias=False) for a, b in pairwise(sizes))
        self.norms = nn.ModuleList(NodeNorm(size) for size in sizes[1:])

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        """``(n_graphs, n_nodes, n_in)`` to ``(n_graphs, n_nodes, n_out)``."""
        for layer, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            nodes = norm(convolution(torch.relu(nodes) if layer else nodes, edges))
        return nodes


class DiffPoolLoss(nn.Module):
    """Cross-entropy + weighted link loss + weighted entropy.

    Parameters
    ----------
    class_weight : Tensor (n_classes,)
    link_weight, entropy_weight : float
    """

    class_weight: Tensor

    def __init__(self, class_weight: Tensor, link_weight: float, entropy_weight: float) -> None:
        super().__init__()
        self.register_buffer("class_weight", class_weight)
        self.link_weight, self.entropy_weight = link_weight, entropy_weight

    def forward(self, output: DiffPoolOutput, targets: Tensor) -> Tensor:
        """The loss of a batch with targets ``(n_graphs,)``."""
        loss = cross_entropy(output.logits, targets, self.class_weight)
        return loss + self.link_weight * output.link_loss + self.entropy_weight * output.entropy


@estimator
class DiffPoolClassifier(GraphNeuralNetwork):
    """Hierarchical graph network (Ying et al. 2018).

    Nodes are pooled into learned clusters, level by level. A linear classifier uses the means over the nodes of every
    level.

    {neighbourhoods}
    n_layers, hidden_size : int
        Layers of each GNN, and features per node after each.
    n_pools : int
        Number of poolings.
    pool_ratio : float
        Clusters per node at each pooling.
    link_weight, entropy_weight : float
        Weights of the losses that keep linked nodes in one cluster and make assignments distinct.
    dropout : float
        After each embedding.
    {training_and_fitted}
    """

    _module = DiffPool
    _search_space: ClassVar = {"n_layers": [1, 2], "pool_ratio": [0.1, 0.25], "learning_rate": [3e-4, 1e-3, 3e-3]}

    n_layers: Layers = 1
    n_pools: Layers = 1
    pool_ratio: PositiveShare = 0.25
    link_weight: NotNegative = 1.0
    entropy_weight: NotNegative = 1.0

    def _build_criterion(self, weights: Tensor) -> nn.Module:
        return DiffPoolLoss(weights, self.link_weight, self.entropy_weight)
