"""Base class of the graph neural networks: node features and edges from weighted graphs, checks of parameters."""

from typing import Any

import torch
from torch import Tensor, nn

from isocapsnet._validation import InputError, check_number, check_option
from isocapsnet.models._binarise import NEGATIVE_EDGES
from isocapsnet.models._encoder import MAX_LAYERS, EncoderClassifier
from isocapsnet.models._parameters import estimator

NODE_FEATURES = ("profile", "degree", "identity")
EDGE_WEIGHTS = ("binary", "weighted")

# A node's own entry in its profile, in standard deviations of an edge: about the size of the 1 on the diagonal of a
# correlation matrix. Self-edges are noise or empty. Without a mark at its own position a node can hardly be
# distinguished from others, and a mean over nodes does not show which regions an edge connects.
OWN_ENTRY = 5.0


def select_edges(graphs: Tensor, density: float, negative_edges: str, edge_weights: str) -> Tensor:
    """Adjacency matrices for a graph convolution: sparse, not negative, without self-loops.

    Each graph keeps its ``density * n_nodes * (n_nodes - 1)`` heaviest edges, as
    :func:`~isocapsnet.models._binarise.binarise` does.

    Parameters
    ----------
    graphs : Tensor (n_graphs, n_nodes, n_nodes)
    density : float
    negative_edges : {"drop", "absolute"}
        Never kept, or ranked and weighted by absolute value. Degrees of signed weights can be zero or negative, and
        their square root is then undefined.
    edge_weights : {"binary", "weighted"}
        1 for each edge, or the edges' own weights in units of their mean in the graph.

    Returns
    -------
    Tensor (n_graphs, n_nodes, n_nodes)
    """
    n_nodes = graphs.shape[-1]
    weights = graphs.abs() if negative_edges == "absolute" else graphs.clamp(min=0)
    weights = weights.masked_fill(torch.eye(n_nodes, dtype=torch.bool, device=graphs.device), 0)
    n_kept = max(2, round(density * n_nodes * (n_nodes - 1)))
    last = weights.flatten(1).kthvalue(n_nodes**2 - n_kept + 1).values
    kept = (weights >= last[:, None, None]) & (weights > 0)
    if edge_weights == "binary":
        return kept.to(graphs.dtype)
    weights = weights * kept
    total = weights.sum((1, 2), keepdim=True)
    return weights * kept.sum((1, 2), keepdim=True) / torch.where(total > 0, total, 1)


def describe_nodes(graphs: Tensor, edges: Tensor, node_features: str) -> Tensor:
    """Features of each node.

    Parameters
    ----------
    graphs : Tensor (n_graphs, n_nodes, n_nodes)
    edges : Tensor (n_graphs, n_nodes, n_nodes)
        The result of :func:`select_edges`.
    node_features : {"profile", "degree", "identity"}
        The node's row of the graph, all edges with their signs, and ``OWN_ENTRY`` at its own position; the degree
        in ``edges`` over the mean degree; or which node it is, the same in every graph.

    Returns
    -------
    Tensor (n_graphs, n_nodes, n_features)
        ``n_features`` is 1 for ``"degree"``, ``n_nodes`` otherwise.
    """
    own = torch.eye(graphs.shape[-1], dtype=graphs.dtype, device=graphs.device)
    if node_features == "profile":
        return torch.where(own > 0, OWN_ENTRY, graphs)
    if node_features == "identity":
        return own.expand_as(graphs)
    degree = edges.sum(2, keepdim=True)
    mean = degree.mean(1, keepdim=True)
    return degree / torch.where(mean > 0, mean, 1)


class NodesAndEdges(nn.Module):
    """Node features and edges of scaled graphs: :func:`describe_nodes` and :func:`select_edges`."""

    def __init__(
        self, n_nodes: int, node_features: str, density: float, negative_edges: str, edge_weights: str
    ) -> None:
        super().__init__()
        self.n_nodes, self.n_features = n_nodes, 1 if node_features == "degree" else n_nodes
        self.node_features, self.density = node_features, density
        self.negative_edges, self.edge_weights = negative_edges, edge_weights

    def forward(self, graphs: Tensor) -> tuple[Tensor, Tensor]:
        """Features ``(n_graphs, n_nodes, n_features)`` and adjacency ``(n_graphs, n_nodes, n_nodes)``."""
        edges = select_edges(graphs, self.density, self.negative_edges, self.edge_weights)
        return describe_nodes(graphs, edges, self.node_features), edges


class NodeNorm(nn.BatchNorm1d):
    """Batch normalisation of node features ``(n_graphs, n_nodes, n_features)`` over all nodes of all graphs."""

    def forward(self, nodes: Tensor) -> Tensor:
        """The same shape."""
        return super().forward(nodes.flatten(0, 1)).view_as(nodes)


@estimator
class GraphNeuralNetwork(EncoderClassifier):
    """A network whose nodes receive messages from their neighbours; its module starts with :class:`NodesAndEdges`."""

    node_features: str = "profile"
    density: float = 0.05
    negative_edges: str = "drop"
    edge_weights: str = "binary"
    n_layers: int = 2
    hidden_size: int = 64
    dropout: float = 0.5
    batch_size: int = 32

    def _check_parameters(self, n_nodes: int) -> None:
        super()._check_parameters(n_nodes)
        check_option("node_features", self.node_features, NODE_FEATURES)
        check_option("negative_edges", self.negative_edges, NEGATIVE_EDGES)
        check_option("edge_weights", self.edge_weights, EDGE_WEIGHTS)
        check_number("density", self.density, low=0, high=1, open_low=True)
        check_number("n_layers", self.n_layers, low=1, high=MAX_LAYERS, integer=True)
        check_number("hidden_size", self.hidden_size, low=1, integer=True)
        check_number("dropout", self.dropout, low=0, high=0.95)
        if n_nodes == 1:
            raise InputError(f"{type(self).__name__} needs graphs of at least two nodes.")

    def _nodes_and_edges(self, n_nodes: int) -> NodesAndEdges:
        return NodesAndEdges(n_nodes, self.node_features, self.density, self.negative_edges, self.edge_weights)


def geometric_layers() -> Any:
    """PyTorch Geometric's layers, imported when a network is built."""
    try:
        import torch_geometric.nn
    except ImportError as error:
        raise InputError(
            'Graph neural networks need PyTorch Geometric; install it with pip install "isocapsnet[methods]".'
        ) from error
    return torch_geometric.nn
