"""A graph isomorphism network.

K. Xu, W. Hu, J. Leskovec and S. Jegelka, "How powerful are graph neural networks?", ICLR 2019. The layer is PyTorch
Geometric's.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from isocapsnet.models._encoder import EncoderOutput
from isocapsnet.models._graph_network import GraphNeuralNetwork, NodeNorm, NodesAndEdges, geometric_layers
from isocapsnet.models._parameters import estimator


class GIN(nn.Module):
    """H ← ReLU(BatchNorm(MLP((1 + ε) H + A H))) in each layer (Eq. 4.1), with ε learned; the graph's code is the mean
    over nodes after every layer, the input among them, side by side (Eq. 4.2), and a linear classifier reads it.

    The paper sums over nodes. All graphs have the same number of nodes here, so a mean differs by a constant factor
    only, and gives the codes a scale that is easier to train.

    ``nodes_and_edges`` computes H of the first layer, and A.
    """

    def __init__(
        self, nodes_and_edges: NodesAndEdges, n_classes: int, *, n_layers: int, hidden_size: int, dropout: float
    ) -> None:
        super().__init__()
        self.nodes_and_edges = nodes_and_edges
        convolution = geometric_layers().DenseGINConv
        sizes = [nodes_and_edges.n_features] + [hidden_size] * n_layers
        self.convolutions = nn.ModuleList(
            convolution(_perceptron(size, hidden_size), train_eps=True) for size in sizes[:-1]
        )
        self.norms = nn.ModuleList(NodeNorm(hidden_size) for _ in range(n_layers))
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(sum(sizes), n_classes)

    def forward(self, graphs: Tensor) -> EncoderOutput:
        """Logits and codes of scaled graphs ``(n_graphs, n_nodes, n_nodes)``."""
        nodes, edges = self.nodes_and_edges(graphs)
        means = [nodes.mean(1)]
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            nodes = self.dropout(torch.relu(norm(convolution(nodes, edges))))
            means.append(nodes.mean(1))
        code = torch.cat(means, 1)
        return EncoderOutput(self.classifier(code), code)


def _perceptron(n_in: int, n_out: int) -> nn.Sequential:
    """The MLP of a layer, without biases: the normalisations inside and after it have them."""
    return nn.Sequential(
        nn.Linear(n_in, n_out, bias=False), NodeNorm(n_out), nn.ReLU(), nn.Linear(n_out, n_out, bias=False)
    )


@estimator
class GINClassifier(GraphNeuralNetwork):
    """Graph isomorphism network (Xu et al. 2019).

    In each layer, nodes sum over their neighbours, which can distinguish as many graphs as the Weisfeiler-Lehman test.
    A linear classifier uses the means over nodes after every layer.

    {neighbourhoods}
    n_layers, hidden_size : int
        Graph convolutions, and features per node after each.
    dropout : float
        After each layer.
    {training_and_fitted}
    """

    _module = GIN
    _search_space: ClassVar = {"n_layers": [1, 2], "density": [0.02, 0.05, 0.1], "learning_rate": [3e-4, 1e-3, 3e-3]}
