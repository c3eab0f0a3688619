"""The Brain Network Transformer: self-attention between connection profiles, and a readout by orthonormal clusters.

X. Kan, W. Dai, H. Cui, Z. Zhang, Y. Guo and C. Yang, "Brain network transformer", NeurIPS 2022.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn

from isocapsnet._validation import InputError
from isocapsnet.models._encoder import EncoderClassifier, EncoderOutput
from isocapsnet.models._graph_network import describe_nodes
from isocapsnet.models._parameters import Count, Layers, Positive, Sizes, estimator, in_range, with_parameters


def assign_to_clusters(nodes: Tensor, centres: Tensor) -> Tensor:
    """P[i, k] = exp⟨Z[i], E[k]⟩ / Σ_k' exp⟨Z[i], E[k']⟩, the share of node i that belongs to cluster k.

    Parameters
    ----------
    nodes : Tensor (n_graphs, n_nodes, n_features)
        Z.
    centres : Tensor (n_clusters, n_features)
        E.

    Returns
    -------
    Tensor (n_graphs, n_nodes, n_clusters)
    """
    return (nodes @ centres.T).softmax(dim=-1)


def read_out_clusters(nodes: Tensor, centres: Tensor) -> Tensor:
    """Pᵀ Z, the sum over the nodes of each cluster; arguments are those of :func:`assign_to_clusters`.

    Returns
    -------
    Tensor (n_graphs, n_clusters, n_features)
    """
    return assign_to_clusters(nodes, centres).transpose(1, 2) @ nodes


def draw_orthonormal_centres(n_clusters: int, n_features: int) -> Tensor:
    """Xavier-uniform vectors after a Gram-Schmidt process: orthonormal rows ``(n_clusters, n_features)``."""
    vectors = nn.init.xavier_uniform_(torch.empty(n_clusters, n_features))
    # The QR decomposition is the Gram-Schmidt process up to the signs, which are those of the diagonal of R.
    basis, triangle = torch.linalg.qr(vectors.T)
    return (basis * triangle.diagonal().sign()).T.contiguous()


class SelfAttention(nn.Module):
    """softmax(Q Kᵀ / √d) V for each head, with heads side by side and projected back to the features (Eq. 1).

    d is the number of features over the number of heads, rounded up.
    """

    def __init__(self, n_features: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.n_heads, self.head_size = n_heads, -(-n_features // n_heads)
        self.inputs = nn.Linear(n_features, 3 * n_heads * self.head_size)
        self.output = nn.Linear(n_heads * self.head_size, n_features)
        self.dropout = nn.Dropout(dropout)
        nn.init.xavier_uniform_(self.inputs.weight)
        for layer in (self.inputs, self.output):
            nn.init.zeros_(layer.bias)

    def forward(self, nodes: Tensor) -> Tensor:
        """The same shape ``(n_graphs, n_nodes, n_features)``."""
        split = self.inputs(nodes).unflatten(-1, (3, self.n_heads, self.head_size))
        queries, keys, values = split.permute(2, 0, 3, 1, 4)
        # Written out: torch's own attention has no repeatable gradients on a GPU.
        weights = (queries @ keys.transpose(2, 3) / self.head_size**0.5).softmax(dim=-1)
        heads = self.dropout(weights) @ values
        return self.output(heads.transpose(1, 2).flatten(2))


class TransformerLayer(nn.Module):
    """Self-attention, then two linear layers with ReLU between, each added to its input and normalised per node."""

    def __init__(self, n_features: int, n_heads: int, feedforward_size: int, dropout: float) -> None:
        super().__init__()
        self.attention = SelfAttention(n_features, n_heads, dropout)
        self.feedforward = nn.Sequential(
            nn.Linear(n_features, feedforward_size),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(feedforward_size, n_features),
        )
        self.norms = nn.ModuleList(nn.LayerNorm(n_features) for _ in range(2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, nodes: Tensor) -> Tensor:
        """The same shape ``(n_graphs, n_nodes, n_features)``."""
        for layer, norm in zip((self.attention, self.feedforward), self.norms, strict=True):
            nodes = norm(nodes + self.dropout(layer(nodes)))
        return nodes


class BrainNetworkTransformer(nn.Module):
    """Connection profiles, transformer layers, clusters and an MLP; parameters are those of :class:`BNTClassifier`."""

    centres: Tensor

    def __init__(
        self,
        n_nodes: int,
        n_classes: int,
        *,
        n_layers: int,
        n_heads: int,
        feedforward_size: int,
        n_clusters: int,
        cluster_size: int,
        hidden_sizes: Sequence[int],
        dropout: float,
    ) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(TransformerLayer(n_nodes, n_heads, feedforward_size, dropout) for _ in range(n_layers))
        )
        n_clusters = min(n_clusters, n_nodes)  # more than n_nodes vectors of n_nodes features are not orthogonal
        self.register_buffer("centres", draw_orthonormal_centres(n_clusters, n_nodes))
        self.reduction = nn.Sequential(nn.Linear(n_nodes, cluster_size), nn.LeakyReLU(), nn.Flatten())
        sizes = [n_clusters * cluster_size, *hidden_sizes]
        self.mlp = nn.Sequential(
            *(nn.Sequential(nn.Linear(n_in, n_out), nn.LeakyReLU()) for n_in, n_out in pairwise(sizes))
        )
        self.head = nn.Linear(sizes[-1], n_classes)

    def forward(self, graphs: Tensor) -> EncoderOutput:
        """Graphs ``(n_graphs, n_nodes, n_nodes)`` to logits and representations."""
        nodes = self.layers(describe_nodes(graphs, graphs, "profile"))
        code = self.mlp(self.reduction(read_out_clusters(nodes, self.centres)))
        return EncoderOutput(self.head(code), code)


@estimator
class BNTClassifier(EncoderClassifier):
    """Brain Network Transformer (Kan et al. 2022).

    The features of a node are its row of the graph, its connection profile, with a fixed value at its own position.
    Transformer layers let each node attend to all others. The orthonormal clustering readout (OCRead) assigns the nodes
    softly to clusters, whose centres are orthonormal and stay as they were drawn, and sums the nodes of each cluster;
    an MLP classifies the sums. Weighted and negative edges enter as they are, after scaling; a graph may be directed.
    Features belong to nodes, so the same regions must be in the same order in all graphs.

    Sizes are those of the published program; the readout is that of the paper. The authors train with Adam for 200
    epochs, at a rate of 1e-4 that falls to 1e-5, and mixes pairs of graphs; here training is as for all networks.

    Parameters
    ----------
    n_layers, n_heads : int
        Transformer layers, and heads of each self-attention.
    feedforward_size : int
        Units between the two linear layers of each transformer layer.
    n_clusters : int
        Clusters of the readout; graphs of fewer nodes have one per node.
    cluster_size : int
        Features to which the sum of each cluster is reduced.
    hidden_sizes : sequence of int
        Hidden widths of the MLP; ``transform`` returns the last one.
    dropout : float
        Dropout in the transformer layers.
    {training_and_fitted}
    """

    _records_steps: ClassVar[bool] = True
    _search_space: ClassVar = {"n_clusters": [10, 100], "learning_rate": [1e-4, 3e-4, 1e-3]}

    n_layers: Layers = 2
    n_heads: Count = 4
    feedforward_size: Count = 1024
    n_clusters: Count = 100
    cluster_size: Count = 8
    hidden_sizes: Sizes = (256, 32)
    dropout: Annotated[float, in_range(0, 0.95)] = 0.1
    learning_rate: Positive = 1e-4

    def _check_parameters(self, n_nodes: int) -> None:
        super()._check_parameters(n_nodes)
        if n_nodes == 1:
            raise InputError(f"{type(self).__name__} needs graphs of at least two nodes.")

    def _build_module(self, n_nodes: int, n_classes: int) -> nn.Module:
        return with_parameters(BrainNetworkTransformer, self, n_nodes, n_classes)
