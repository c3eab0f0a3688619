"""A deep graph convolutional network with SortPooling.

M. Zhang, Z. Cui, M. Neumann and Y. Chen, "An end-to-end deep learning architecture for graph classification", AAAI
2018. Graph convolution and SortPooling are PyTorch Geometric's.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn

from isocapsnet._validation import InputError
from isocapsnet.models._encoder import EncoderOutput
from isocapsnet.models._graph_network import GraphNeuralNetwork, NodesAndEdges, geometric_layers
from isocapsnet.models._parameters import Count, Layers, PositiveShare, Sizes, estimator, one_of

_KERNEL_SIZE = 5


class DGCNN(nn.Module):
    """Graph convolutions, SortPooling, two 1-D convolutions, a dense layer and a linear classifier.

    The last graph convolution has one channel. The nodes are sorted by it, and the first ones are kept.

    Parameters are those of :class:`DGCNNClassifier`.
    """

    def __init__(
        self,
        nodes_and_edges: NodesAndEdges,
        n_classes: int,
        *,
        n_layers: int,
        hidden_size: int,
        kept_nodes: float,
        channels: Sequence[int],
        dense_size: int,
        dropout: float,
        normalization: str = "symmetric",
    ) -> None:
        super().__init__()
        layers = geometric_layers()
        self.nodes_and_edges = nodes_and_edges
        sizes = [nodes_and_edges.n_features, *[hidden_size] * n_layers, 1]
        convolution = layers.DenseGCNConv if normalization == "symmetric" else _RowConvolution
        self.convolutions = nn.ModuleList(convolution(n_in, n_out) for n_in, n_out in pairwise(sizes))
        n_kept = max(2, round(kept_nodes * nodes_and_edges.n_nodes))
        self.sort = layers.SortAggregation(n_kept)
        n_channels, n_pairs = sum(sizes[1:]), n_kept // 2
        kernel_size = min(_KERNEL_SIZE, n_pairs)
        self.encoder = nn.Sequential(
            # One step of this convolution is one node.
            nn.Conv1d(1, channels[0], n_channels, stride=n_channels),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(channels[0], channels[1], kernel_size),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(channels[1] * (n_pairs - kernel_size + 1), dense_size),
            nn.ReLU(),
        )
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(dense_size, n_classes))

    def forward(self, graphs: Tensor, edges: Tensor | None = None) -> EncoderOutput:
        """Logits and codes of scaled graphs ``(n_graphs, n_nodes, n_nodes)``."""
        nodes, edges = self.nodes_and_edges(graphs, edges)
        states = []
        for convolution in self.convolutions:
            nodes = torch.tanh(convolution(nodes, edges))
            states.append(nodes)
        n_graphs, n_nodes, _ = graphs.shape
        graph_of_node = torch.arange(n_graphs, device=graphs.device).repeat_interleave(n_nodes)
        pooled = self.sort(torch.cat(states, 2).flatten(0, 1), graph_of_node)
        code = self.encoder(pooled[:, None])
        return EncoderOutput(self.classifier(code), code)


class _RowConvolution(nn.Module):
    """D⁻¹(A + I)HW, where D are the degrees of A + I (Eq. 1 of the paper)."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.lin = nn.Linear(n_in, n_out, bias=False)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        """``(n_graphs, n_nodes, n_in)`` to ``(n_graphs, n_nodes, n_out)``."""
        return self.lin(edges @ nodes + nodes) / (edges.sum(2, keepdim=True) + 1)


@estimator
class DGCNNClassifier(GraphNeuralNetwork):
    """Deep graph convolutional network (Zhang et al. 2018).

    Graph convolutions are followed by SortPooling, which sorts the nodes by their last feature, and by 1-D convolutions
    over the sorted nodes.

    {neighbourhoods}
    n_layers, hidden_size : int
        Graph convolutions before the one-channel convolution that sorts, and features per node after each.
    kept_nodes : float
        Share of the nodes, first in the sorted order, that the 1-D convolutions read.
    channels : sequence of 2 int
        Channels of the two 1-D convolutions.
    dense_size : int
        Size of the layer before the classifier.
    dropout : float
        Before the classifier.
    normalization : {"symmetric", "rows"}
        Whether a graph convolution divides A + I by its degrees as D^-1/2 (A + I) D^-1/2 or as D^-1 (A + I).
    {preset}
    {training_and_fitted}
    """

    # All graphs of a study have the same size, which is then every quantile of the sizes.
    PRESETS: ClassVar = {"paper": {"kept_nodes": 1.0, "normalization": "rows"}}
    _module = DGCNN
    _search_space: ClassVar = {
        "kept_nodes": [0.3, 0.6, 1.0],
        "density": [0.02, 0.05, 0.1],
        "learning_rate": [3e-4, 1e-3, 3e-3],
    }

    n_layers: Layers = 3
    hidden_size: Count = 32
    kept_nodes: PositiveShare = 0.6
    channels: Sizes = (16, 32)
    dense_size: Count = 128
    normalization: Annotated[str, one_of("symmetric", "rows")] = "symmetric"
    preset: str | None = None

    def _check_parameters(self, n_nodes: int) -> None:
        super()._check_parameters(n_nodes)
        if len(self.channels) != 2:
            raise InputError(f"channels={self.channels!r} must have two numbers, one per 1-D convolution.")
