"""Convolutions over the edges that share a node: edge-to-edge, edge-to-node and node-to-graph.

J. Kawahara, C. J. Brown, S. P. Miller, B. G. Booth, V. Chau, R. E. Grunau, J. G. Zwicker and G. Hamarneh, "BrainNetCNN:
Convolutional neural networks for brain networks; towards predicting neurodevelopment", NeuroImage 2017.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, linear

from isocapsnet.functional.edge_sums import leaky_edge_sums
from isocapsnet.models._encoder import EncoderClassifier, EncoderOutput
from isocapsnet.models._parameters import Count, Sizes, estimator, in_range

# Slope of the "very leaky" rectifier for negative values.
LEAK = 0.33


def edge_to_edge(edges: Tensor, rows: Tensor, columns: Tensor, bias: Tensor) -> Tensor:
    """B[n, i, j] = Σ_m Σ_k rows[n, m, k] A[m, i, k] + columns[n, m, k] A[m, k, j] (Eq. 1), plus the bias of n.

    The first sum depends on i alone and the second on j alone, so both are computed once per node.

    Parameters
    ----------
    edges : Tensor (n_graphs, n_in, n_nodes, n_nodes)
    rows, columns : Tensor (n_out, n_in, n_nodes)
    bias : Tensor (n_out,)

    Returns
    -------
    Tensor (n_graphs, n_out, n_nodes, n_nodes)
    """
    return (_sum_rows(edges, rows) + bias[:, None])[..., None] + _sum_columns(edges, columns)[..., None, :]


def edge_to_node(edges: Tensor, rows: Tensor, columns: Tensor, bias: Tensor) -> Tensor:
    """b[n, i] = Σ_m Σ_k rows[n, m, k] A[m, i, k] + columns[n, m, k] A[m, k, i] (Eq. 2), plus the bias of n.

    Parameters
    ----------
    edges : Tensor (n_graphs, n_in, n_nodes, n_nodes)
    rows, columns : Tensor (n_out, n_in, n_nodes)
    bias : Tensor (n_out,)

    Returns
    -------
    Tensor (n_graphs, n_out, n_nodes)
    """
    return _sum_rows(edges, rows) + _sum_columns(edges, columns) + bias[:, None]


def node_to_graph(nodes: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
    """c[n] = Σ_m Σ_i weights[n, m, i] b[m, i] (Eq. 3), plus the bias of n.

    Parameters
    ----------
    nodes : Tensor (n_graphs, n_in, n_nodes)
    weights : Tensor (n_out, n_in, n_nodes)
    bias : Tensor (n_out,)

    Returns
    -------
    Tensor (n_graphs, n_out)
    """
    return linear(nodes.flatten(1), weights.flatten(1), bias)


def _sum_rows(edges: Tensor, weights: Tensor) -> Tensor:
    return torch.einsum("bmik,nmk->bni", edges, weights)


def _sum_columns(edges: Tensor, weights: Tensor) -> Tensor:
    return torch.einsum("bmkj,nmk->bnj", edges, weights)


class CrossFilters(nn.Module):
    """Filters for the row and the column of an edge or a node, and a bias per output channel."""

    def __init__(self, n_in: int, n_out: int, n_nodes: int) -> None:
        super().__init__()
        self.rows = _xavier(torch.empty(n_out, n_in, n_nodes))
        self.columns = _xavier(torch.empty(n_out, n_in, n_nodes))
        self.bias = nn.Parameter(torch.zeros(n_out))


class NodeToGraph(nn.Module):
    """The module of :func:`node_to_graph`."""

    def __init__(self, n_in: int, n_out: int, n_nodes: int) -> None:
        super().__init__()
        self.weights = _xavier(torch.empty(n_out, n_in, n_nodes))
        self.bias = nn.Parameter(torch.zeros(n_out))

    def forward(self, nodes: Tensor) -> Tensor:
        """``(n_graphs, n_in, n_nodes)`` to ``(n_graphs, n_out)``."""
        return node_to_graph(nodes, self.weights, self.bias)


class BrainNetCNN(nn.Module):
    """The network "E2Enet" of the paper; parameters are those of :class:`BrainNetCNNClassifier`."""

    def __init__(
        self,
        n_nodes: int,
        n_classes: int,
        channels: Sequence[int] = (32, 32),
        node_channels: int = 64,
        hidden_sizes: Sequence[int] = (256, 128, 30),
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.edge_layers = nn.ModuleList(CrossFilters(n_in, n_out, n_nodes) for n_in, n_out in pairwise([1, *channels]))
        self.node_layer = CrossFilters(channels[-1], node_channels, n_nodes)
        self.graph_layer = NodeToGraph(node_channels, hidden_sizes[0], n_nodes)
        self.hidden_layers = nn.ModuleList(_linear(n_in, n_out) for n_in, n_out in pairwise(hidden_sizes))
        self.dropout = nn.Dropout(dropout)
        self.head = _linear(hidden_sizes[-1], n_classes)

    def forward(self, graphs: Tensor) -> EncoderOutput:
        """Graphs ``(n_graphs, n_nodes, n_nodes)`` to logits and representations."""
        first, *others = cast("list[CrossFilters]", [*self.edge_layers, self.node_layer])
        edges = graphs[:, None]
        rows, columns = _sum_rows(edges, first.rows), _sum_columns(edges, first.columns)
        for before, layer in pairwise([first, *others]):
            # An edge-to-edge layer is a number of the row plus one of the column: the edges themselves are not needed.
            rows = rows + before.bias[:, None]
            rows, columns = leaky_edge_sums(rows, columns, layer.rows, layer.columns, LEAK)
        code = leaky_relu(rows + columns + self.node_layer.bias[:, None], LEAK)
        for layer in (self.graph_layer, *self.hidden_layers):
            code = self.dropout(leaky_relu(layer(code), LEAK))
        return EncoderOutput(self.head(code), code)


def _linear(n_in: int, n_out: int) -> nn.Linear:
    layer = nn.Linear(n_in, n_out)
    _xavier(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def _xavier(weights: Tensor) -> nn.Parameter:
    """Caffe's filler of that name: uniform, with a variance of one over the number of inputs of an output."""
    bound = (3 / weights[0].numel()) ** 0.5
    return nn.Parameter(nn.init.uniform_(weights, -bound, bound))


@estimator
class BrainNetCNNClassifier(EncoderClassifier):
    """BrainNetCNN (Kawahara et al. 2017).

    An edge-to-edge layer gives each edge a weighted sum of the edges that share one of its nodes, an edge-to-node layer
    gives each node a weighted sum of its edges, and a node-to-graph layer sums over nodes. All weights belong to nodes,
    so the same regions must be in the same order in all graphs. Weighted and negative edges and the diagonal enter as
    they are, after scaling; a graph may be directed.

    Sizes, rectifiers and initial weights are those of the paper's largest network. The paper predicts scores and trains
    with SGD; here the loss is the cross-entropy and the optimizer AdamW, as for all networks.

    Parameters
    ----------
    channels : sequence of int
        Feature maps of each edge-to-edge layer.
    node_channels : int
        Features of each node after the edge-to-node layer.
    hidden_sizes : sequence of int
        Widths of the node-to-graph layer and of the fully connected layers after it; ``transform`` returns the last.
    dropout : float
        Dropout after the node-to-graph layer and after each fully connected layer.
    {training_and_fitted}
    """

    version: ClassVar[int] = 3

    _records_steps: ClassVar[bool] = True
    _search_space: ClassVar = {"channels": [(32,), (32, 32)], "learning_rate": [1e-4, 3e-4, 1e-3]}

    channels: Sizes = (32, 32)
    node_channels: Count = 64
    hidden_sizes: Sizes = (256, 128, 30)
    dropout: Annotated[float, in_range(0, 0.95)] = 0.5

    def _build_module(self, n_nodes: int, n_classes: int) -> nn.Module:
        return BrainNetCNN(n_nodes, n_classes, self.channels, self.node_channels, self.hidden_sizes, self.dropout)
