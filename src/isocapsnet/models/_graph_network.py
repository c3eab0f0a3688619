"""Base class of the graph neural networks: node features and edges from weighted graphs, checks of parameters."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from isocapsnet._packages import importing
from isocapsnet._validation import InputError
from isocapsnet.models._batches import GraphStore
from isocapsnet.models._binarise import NegativeEdges
from isocapsnet.models._encoder import EncoderClassifier
from isocapsnet.models._parameters import Count, Layers, PositiveShare, estimator, in_range, one_of, with_parameters

# A node's own entry in its profile, in standard deviations of an edge: about the size of the 1 on the diagonal of a
# correlation matrix. Self-edges are noise or empty. Without a mark at its own position a node can hardly be
# distinguished from others, and a mean over nodes does not show which regions an edge connects.
OWN_ENTRY = 5.0
# Values of graphs whose edges are selected at a time.
_CHUNK_VALUES = 2**21


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

    def forward(self, graphs: Tensor, edges: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Features ``(n_graphs, n_nodes, n_features)`` and adjacency ``(n_graphs, n_nodes, n_nodes)``.

        ``edges`` are those of :func:`select_edges`, if they are known.
        """
        if edges is None:
            edges = select_edges(graphs, self.density, self.negative_edges, self.edge_weights)
        return describe_nodes(graphs, edges, self.node_features), edges


class EdgeStore(GraphStore):
    """Graphs together with their selected edges, which are the same in every epoch, if both stay on the device."""

    def __init__(self, select: Callable[[Tensor], Tensor], *graphs: Any) -> None:
        super().__init__(*graphs)
        self.edges: Tensor | None = None
        if self.resident is not None:
            self.edges = torch.empty_like(self.resident)
            step = max(1, _CHUNK_VALUES // self.resident[0].numel())
            for start in range(0, len(self.resident), step):
                self.edges[start : start + step] = select(self.resident[start : start + step])

    def batch(self, positions: NDArray[np.int64], buffer: NDArray[np.float32] | None = None) -> tuple[Any, Tensor]:
        """The module's arguments and codes ``(n,)`` at positions of this subset."""
        graphs, codes = super().batch(positions, buffer)
        if self.edges is None:
            return graphs, codes
        return {"graphs": graphs, "edges": self.edges[self.on_device(self.index[positions])]}, codes


class NodeNorm(nn.BatchNorm1d):
    """Batch normalisation of node features ``(n_graphs, n_nodes, n_features)`` over all nodes of all graphs."""

    def forward(self, nodes: Tensor) -> Tensor:
        """The same shape."""
        return super().forward(nodes.flatten(0, 1)).view_as(nodes)


@estimator
class GraphNeuralNetwork(EncoderClassifier):
    """A network whose nodes receive messages from their neighbours; its module starts with :class:`NodesAndEdges`."""

    version: ClassVar[int] = 3
    packages: ClassVar = {"torch_geometric": "methods"}

    #: ``module(nodes_and_edges, n_classes, ...)``; its other arguments are parameters of the estimator.
    _module: ClassVar[type[nn.Module]]

    node_features: Annotated[str, one_of("profile", "degree", "identity")] = "profile"
    density: PositiveShare = 0.05
    negative_edges: NegativeEdges = "drop"
    edge_weights: Annotated[str, one_of("binary", "weighted")] = "binary"
    n_layers: Layers = 2
    hidden_size: Count = 64
    dropout: Annotated[float, in_range(0, 0.95)] = 0.5
    batch_size: Count = 32

    def _check_parameters(self, n_nodes: int) -> None:
        super()._check_parameters(n_nodes)
        if n_nodes == 1:
            raise InputError(f"{type(self).__name__} needs graphs of at least two nodes.")

    def _build_store(self, X: Any, codes: Any, device: torch.device, *others: Any) -> GraphStore:
        if device.type == "cuda" and self._records_steps:  # a recorded step has graphs only, and selects the edges
            return super()._build_store(X, codes, device, *others)
        choices = {name: getattr(self, name) for name in ("density", "negative_edges", "edge_weights")}
        return EdgeStore(partial(select_edges, **choices), X, codes, self.scaler_, device, *others)

    def _build_module(self, n_nodes: int, n_classes: int) -> nn.Module:
        nodes_and_edges = NodesAndEdges(
            n_nodes, self.node_features, self.density, self.negative_edges, self.edge_weights
        )
        return with_parameters(self._module, self, nodes_and_edges, n_classes)


def geometric_layers() -> Any:
    """PyTorch Geometric's layers, imported when a network is built."""
    # A plan of a network is built on the device "meta"; packages that make tensors when they are imported cannot be.
    with torch.device("cpu"), importing("Graph neural networks need PyTorch Geometric", "methods"):
        import torch_geometric.nn
    return torch_geometric.nn
