"""A graph convolutional network with a mean readout.

T. Kipf and M. Welling, "Semi-supervised classification with graph convolutional networks", ICLR 2017. The layer is
PyTorch Geometric's.
"""

from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn

from isocapsnet.models._encoder import EncoderOutput
from isocapsnet.models._graph_network import GraphNeuralNetwork, NodeNorm, NodesAndEdges, geometric_layers
from isocapsnet.models._parameters import estimator, one_of


class GCN(nn.Module):
    """H ← ReLU(BatchNorm(D^-1/2 (A + I) D^-1/2 H W)) in each layer, then the mean over nodes and a linear classifier.

    ``nodes_and_edges`` computes H of the first layer, and A.
    """

    def __init__(
        self,
        nodes_and_edges: NodesAndEdges,
        n_classes: int,
        *,
        n_layers: int,
        hidden_size: int,
        dropout: float,
        readout: str,
    ) -> None:
        super().__init__()
        self.nodes_and_edges, self.readout = nodes_and_edges, readout
        convolution = geometric_layers().DenseGCNConv
        sizes = [nodes_and_edges.n_features] + [hidden_size] * (n_layers - 1)
        # No bias: the normalisation after a convolution has one.
        self.convolutions = nn.ModuleList(convolution(size, hidden_size, bias=False) for size in sizes)
        self.norms = nn.ModuleList(NodeNorm(hidden_size) for _ in sizes)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(hidden_size, n_classes)

    def forward(self, graphs: Tensor, edges: Tensor | None = None) -> EncoderOutput:
        """Logits and codes of scaled graphs ``(n_graphs, n_nodes, n_nodes)``."""
        nodes, edges = self.nodes_and_edges(graphs, edges)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            nodes = self.dropout(torch.relu(norm(convolution(nodes, edges))))
        code = nodes.mean(1) if self.readout == "mean" else nodes.amax(1)
        return EncoderOutput(self.classifier(code), code)


@estimator
class GCNClassifier(GraphNeuralNetwork):
    """Graph convolutional network (Kipf and Welling 2017).

    In each layer, nodes average over their neighbours. A linear classifier uses the mean over nodes.

    {neighbourhoods}
    n_layers, hidden_size : int
        Graph convolutions, and features per node after each.
    readout : {"mean", "max"}
        Representation of a graph from those of its nodes.
    dropout : float
        After each layer.
    {training_and_fitted}
    """

    _module = GCN
    _search_space: ClassVar = {"n_layers": [1, 2], "density": [0.02, 0.05, 0.1], "learning_rate": [3e-4, 1e-3, 3e-3]}

    readout: Annotated[str, one_of("mean", "max")] = "mean"
