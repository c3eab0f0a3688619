"""A graph convolutional network with a mean readout.

T. Kipf and M. Welling, "Semi-supervised classification with graph convolutional networks", ICLR 2017. The layer is
PyTorch Geometric's.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from isocapsnet._validation import check_option
from isocapsnet.models._encoder import EncoderOutput
from isocapsnet.models._graph_network import GraphNeuralNetwork, NodeNorm, NodesAndEdges, geometric_layers
from isocapsnet.models._parameters import estimator

READOUTS = ("mean", "max")


class GCN(nn.Module):
    """H ← ReLU(BatchNorm(D^-1/2 (A + I) D^-1/2 H W)) in each layer, then the mean over nodes and a linear classifier.

    Parameters
    ----------
    nodes_and_edges : NodesAndEdges
        Computes H of the first layer, and A.
    n_classes, n_layers, hidden_size : int
    dropout : float
    readout : {"mean", "max"}
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

    def forward(self, graphs: Tensor) -> EncoderOutput:
        """Logits and codes of scaled graphs ``(n_graphs, n_nodes, n_nodes)``."""
        nodes, edges = self.nodes_and_edges(graphs)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            nodes = self.dropout(torch.relu(norm(convolution(nodes, edges))))
        code = nodes.mean(1) if self.readout == "mean" else nodes.amax(1)
        return EncoderOutput(self.classifier(code), code)


@estimator
class GCNClassifier(GraphNeuralNetwork):
    """Graph convolutional network (Kipf and Welling 2017).

    In each layer, nodes average over their neighbours. A linear classifier uses the mean over nodes.

    {strongest_edges}

    Parameters
    ----------
    {neighbourhoods}
    n_layers, hidden_size : int
        Graph convolutions, and features per node after each.
    readout : {"mean", "max"}
        Representation of a graph from those of its nodes.
    dropout : float
        After each layer.
    {training}

    Attributes
    ----------
    classes_ : array (n_classes,)
    {fitted}
    """

    version: ClassVar[int] = 3

    readout: str = "mean"

    @classmethod
    def search_space(cls) -> dict[str, list[Any]]:
        """Candidate values for nested tuning."""
        return {"n_layers": [1, 2], "density": [0.02, 0.05, 0.1], "learning_rate": [3e-4, 1e-3, 3e-3]}

    def _check_parameters(self, n_nodes: int) -> None:
        super()._check_parameters(n_nodes)
        check_option("readout", self.readout, READOUTS)

    def _build_module(self, n_nodes: int, n_classes: int) -> nn.Module:
        return GCN(
            self._nodes_and_edges(n_nodes),
            n_classes,
            n_layers=self.n_layers,
            hidden_size=self.hidden_size,
            dropout=self.dropout,
            readout=self.readout,
        )
