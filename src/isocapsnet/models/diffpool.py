"""Differentiable pooling of graphs.

R. Ying, J. You, C. Morris, X. Ren, W. Hamilton and J. Leskovec, "Hierarchical graph representation learning with
differentiable pooling", NeurIPS 2018. The pooling and the GraphSAGE layer are PyTorch Geometric's.
"""

from itertools import pairwise
from typing import Annotated, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from isocapsnet.functional import safe_norm
from isocapsnet.models._graph_network import GraphNeuralNetwork, NodeNorm, NodesAndEdges, geometric_layers
from isocapsnet.models._parameters import Flag, Layers, NotNegative, PositiveShare, estimator, one_of


class DiffPoolOutput(NamedTuple):
    """The output of the network for a batch.

    Attributes
    ----------
    logits : Tensor (n_graphs, n_classes)
    code : Tensor (n_graphs, (n_pools + 1) * hidden_size)
    link_loss : Tensor ()
        ‖A - S Sᵀ‖_F / n_nodes as a root mean square over graphs, or the mean of ‖A - S Sᵀ‖_F, summed over poolings.
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
    level. The code of a graph has the mean (or maximum) over nodes of every level. Parameters are those of
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
        readout: str = "mean",
        unit_nodes: bool = False,
        link_loss: str = "rms",
    ) -> None:
        super().__init__()
        self.nodes_and_edges, self.readout, self.link_loss = nodes_and_edges, readout, link_loss
        self.embeddings, self.assignments = nn.ModuleList(), nn.ModuleList()
        n_features, n_clusters = nodes_and_edges.n_features, nodes_and_edges.n_nodes
        for _ in range(n_pools):
            n_clusters = max(1, round(pool_ratio * n_clusters))
            self.embeddings.append(_SAGE(n_features, hidden_size, hidden_size, n_layers, unit_nodes))
            self.assignments.append(_SAGE(n_features, hidden_size, n_clusters, n_layers, unit_nodes))
            n_features = hidden_size
        self.embeddings.append(_SAGE(n_features, hidden_size, hidden_size, n_layers, unit_nodes))
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear((n_pools + 1) * hidden_size, n_classes)

    def forward(self, graphs: Tensor, edges: Tensor | None = None) -> DiffPoolOutput:
        """Output for scaled graphs ``(n_graphs, n_nodes, n_nodes)``."""
        pool = geometric_layers().dense_diff_pool
        nodes, edges = self.nodes_and_edges(graphs, edges)
        levels = []
        link_loss = entropy = graphs.new_zeros(())
        for embed, assign in zip(self.embeddings, self.assignments, strict=False):
            embedded = self.dropout(torch.relu(embed(nodes, edges)))
            levels.append(embedded)
            assigned, fine = assign(nodes, edges), edges
            nodes, edges, norm, mean_entropy = pool(embedded, fine, assigned, normalize=False)
            loss = norm / fine.numel() ** 0.5 if self.link_loss == "rms" else _frobenius_loss(fine, assigned)
            link_loss, entropy = link_loss + loss, entropy + mean_entropy
        levels.append(self.dropout(torch.relu(self.embeddings[-1](nodes, edges))))
        code = torch.cat([level.mean(1) if self.readout == "mean" else level.amax(1) for level in levels], 1)
        return DiffPoolOutput(self.classifier(code), code, link_loss, entropy)


def _frobenius_loss(edges: Tensor, assigned: Tensor) -> Tensor:
    """The mean over graphs of ‖A - S Sᵀ‖_F, where S is the softmax of the assignment over clusters."""
    clusters = assigned.softmax(dim=-1)
    return safe_norm((edges - clusters @ clusters.transpose(1, 2)).flatten(1)).mean()


class _SAGE(nn.Module):
    """GraphSAGE layers with mean aggregation, each normalised, with ReLU between them.

    With ``unit_nodes``, the features of each node are scaled to length 1 before the normalisation.
    """

    def __init__(self, n_in: int, hidden_size: int, n_out: int, n_layers: int, unit_nodes: bool) -> None:
        super().__init__()
        self.unit_nodes = unit_nodes
        convolution = geometric_layers().DenseSAGEConv
        sizes = [n_in, *[hidden_size] * (n_layers - 1), n_out]
        self.convolutions = nn.ModuleList(convolution(a, b, bias=False) for a, b in pairwise(sizes))
        self.norms = nn.ModuleList(NodeNorm(size) for size in sizes[1:])

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        """``(n_graphs, n_nodes, n_in)`` to ``(n_graphs, n_nodes, n_out)``."""
        for layer, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            nodes = convolution(torch.relu(nodes) if layer else nodes, edges)
            nodes = norm(normalize(nodes, dim=-1) if self.unit_nodes else nodes)
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

    Nodes are pooled into learned clusters, level by level. A linear classifier uses the means (or maxima) over the
    nodes of every level.

    {neighbourhoods}
    n_layers, hidden_size : int
        Layers of each GNN, and features per node after each.
    n_pools : int
        Number of poolings.
    pool_ratio : float
        Clusters per node at each pooling.
    link_weight, entropy_weight : float
        Weights of the losses that keep linked nodes in one cluster and make assignments distinct.
    link_loss : {"rms", "frobenius"}
        The loss of linked nodes in different clusters: the root mean square of A - S Sᵀ, or its Frobenius norm.
    readout : {"mean", "max"}
        Representation of a level from those of its nodes.
    unit_nodes : bool
        Scale the features of each node to length 1 after each convolution.
    dropout : float
        After each embedding.
    {preset}
    {training_and_fitted}
    """

    PRESETS: ClassVar = {
        "paper": {
            "n_layers": 3,
            "n_pools": 2,
            "link_loss": "frobenius",
            "readout": "max",
            "unit_nodes": True,
            "dropout": 0.0,
        }
    }
    _module = DiffPool
    _records_steps: ClassVar[bool] = True
    _search_space: ClassVar = {"n_layers": [1, 2], "pool_ratio": [0.1, 0.25], "learning_rate": [3e-4, 1e-3, 3e-3]}

    n_layers: Layers = 1
    n_pools: Layers = 1
    pool_ratio: PositiveShare = 0.25
    link_weight: NotNegative = 1.0
    entropy_weight: NotNegative = 1.0
    link_loss: Annotated[str, one_of("rms", "frobenius")] = "rms"
    readout: Annotated[str, one_of("mean", "max")] = "mean"
    unit_nodes: Flag = False
    preset: str | None = None

    def _build_criterion(self, weights: Tensor) -> nn.Module:
        return DiffPoolLoss(weights, self.link_weight, self.entropy_weight)

    def _without_effect(self) -> dict[str, str]:
        reasons = {} if self.link_weight else {"link_loss": "link_weight=0, so this loss is not used"}
        return super()._without_effect() | reasons
