"""A graph isomorphism network.

K. Xu, W. Hu, J. Leskovec and S. Jegelka, "How powerful are graph neural networks?", ICLR 2019. The layer is PyTorch
Geometric's.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn

from isocapsnet.models._encoder import EncoderOutput
from isocapsnet.models._graph_network import GraphNeuralNetwork, NodeNorm, NodesAndEdges, geometric_layers
from isocapsnet.models._parameters import estimator, one_of


class GIN(nn.Module):
    """H ← ReLU(BatchNorm(MLP((1 + ε) H + A H))) in each layer (Eq. 4.1), with ε learned. The graph's code has the mean
    or sum over nodes after every layer, the input among them, side by side (Eq. 4.2). A linear classifier uses it.

    All graphs have the same number of nodes here, so a mean differs from a sum by a constant factor only, and gives the
    codes a scale that is easier to train.

    ``nodes_and_edges`` computes H of the first layer, and A. Other parameters are those of :class:`GINClassifier`.
    """

    def __init__(
        self,
        nodes_and_edges: NodesAndEdges,
        n_classes: int,
        *,
        n_layers: int,
        hidden_size: int,
        dropout: float,
        readout: str = "mean",
        dropout_on: str = "nodes",
    ) -> None:
        super().__init__()
        self.nodes_and_edges, self.readout, self.dropout_on = nodes_and_edges, readout, dropout_on
        convolution = geometric_layers().DenseGINConv
        sizes = [nodes_and_edges.n_features] + [hidden_size] * n_layers
        self.convolutions = nn.ModuleList(
            convolution(_perceptron(size, hidden_size), train_eps=True) for size in sizes[:-1]
        )
        self.norms = nn.ModuleList(NodeNorm(hidden_size) for _ in range(n_layers))
        self.dropout = nn.Dropout(dropout)
        if dropout_on == "nodes":
            self.classifier: nn.Module = nn.Linear(sum(sizes), n_classes)
        else:
            self.classifier = _SummedScores(sizes, n_classes, dropout)

    def forward(self, graphs: Tensor, edges: Tensor | None = None) -> EncoderOutput:
        """Logits and codes of scaled graphs ``(n_graphs, n_nodes, n_nodes)``."""
        nodes, edges = self.nodes_and_edges(graphs, edges)
        parts = [self._read_out(nodes)]
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            nodes = torch.relu(norm(convolution(nodes, edges)))
            nodes = self.dropout(nodes) if self.dropout_on == "nodes" else nodes
            parts.append(self._read_out(nodes))
        code = torch.cat(parts, 1)
        return EncoderOutput(self.classifier(code), code)

    def _read_out(self, nodes: Tensor) -> Tensor:
        return nodes.mean(1) if self.readout == "mean" else nodes.sum(1)


class _SummedScores(nn.Module):
    """A linear classifier of each layer's part of the code, with dropout of its class scores, which are summed."""

    def __init__(self, sizes: Sequence[int], n_classes: int, dropout: float) -> None:
        super().__init__()
        self.sizes = list(sizes)
        self.layers = nn.ModuleList(nn.Linear(size, n_classes) for size in sizes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, code: Tensor) -> Tensor:
        """``(n_graphs, sum(sizes))`` to ``(n_graphs, n_classes)``."""
        parts = code.split(self.sizes, dim=1)
        return torch.stack([self.dropout(layer(part)) for layer, part in zip(self.layers, parts, strict=True)]).sum(0)


def _perceptron(n_in: int, n_out: int) -> nn.Sequential:
    """The MLP of a layer, without biases: the normalisations inside and after it have them."""
    return nn.Sequential(
        nn.Linear(n_in, n_out, bias=False), NodeNorm(n_out), nn.ReLU(), nn.Linear(n_out, n_out, bias=False)
    )


@estimator
class GINClassifier(GraphNeuralNetwork):
    """Graph isomorphism network (Xu et al. 2019).

    In each layer, nodes sum over their neighbours, which can distinguish as many graphs as the Weisfeiler-Lehman test.
    A linear classifier uses the means (or sums) over nodes after every layer.

    {neighbourhoods}
    n_layers, hidden_size : int
        Graph convolutions, and features per node after each.
    readout : {"mean", "sum"}
        Representation of a graph from those of its nodes.
    dropout : float
    dropout_on : {"nodes", "scores"}
        Dropout of the node features after each layer, or of the class scores that each layer gives the graph.
    {preset}
    {training_and_fitted}
    """

    PRESETS: ClassVar = {"paper": {"n_layers": 4, "readout": "sum", "dropout_on": "scores"}}
    _module = GIN
    _records_steps: ClassVar[bool] = True
    _search_space: ClassVar = {"n_layers": [1, 2], "density": [0.02, 0.05, 0.1], "learning_rate": [3e-4, 1e-3, 3e-3]}

    readout: Annotated[str, one_of("mean", "sum")] = "mean"
    dropout_on: Annotated[str, one_of("nodes", "scores")] = "nodes"
    preset: str | None = None
