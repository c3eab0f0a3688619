"""Structural deep brain network: nodes re-ordered by module, then a convolutional network that also reconstructs.

S. Wang, L. He, B. Cao, C.-T. Lu, P. S. Yu and A. B. Ragin, "Structural deep brain network mining", KDD 2017.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import pdist
from torch import Tensor, nn

from isocapsnet._validation import InputError
from isocapsnet.models._batches import GraphStore
from isocapsnet.models._encoder import EncoderClassifier, EncoderOutput, fully_connected
from isocapsnet.models._parameters import NotNegative, Positive, Share, Sizes, estimator
from isocapsnet.models._semisupervised import SemiSupervisedNetwork
from isocapsnet.models.cnn import convolutions, pooled_size


def module_order(strength: NDArray[np.float64]) -> NDArray[np.int64]:
    """An order in which the nodes of a module follow one another.

    Modules are clusters of connection profiles (Ward). The order is scipy's optimal leaf ordering of the clusters, in
    which neighbours are as similar as possible.

    Parameters
    ----------
    strength : array (n_nodes, n_nodes)
        Edge strengths, not negative.

    Returns
    -------
    array (n_nodes,), int64
        ``strength[order][:, order]`` has its modules along the diagonal.
    """
    if len(strength) < 3:
        return np.arange(len(strength))
    profiles = strength + strength.T
    # A node is as close to itself as to its strongest partner; an empty diagonal would separate nodes of one module.
    np.fill_diagonal(profiles, 0)
    np.fill_diagonal(profiles, profiles.max(axis=1))
    return leaves_list(linkage(pdist(profiles), method="ward", optimal_ordering=True)).astype(np.int64)


class SDBN(nn.Module):
    """Re-ordering, convolutions, fully connected layers to the classes, transposed convolutions back to the graph.

    Parameters are those of :class:`SDBNClassifier`. Without ``reconstruct`` there is no decoder.
    """

    order: Tensor

    def __init__(
        self,
        n_nodes: int,
        n_classes: int,
        channels: Sequence[int] = (6, 16),
        hidden_sizes: Sequence[int] = (120, 84),
        dropout: float = 0.0,
        reconstruct: bool = True,
    ) -> None:
        super().__init__()
        self.register_buffer("order", torch.arange(n_nodes))
        self.convolutions = convolutions(channels)
        flat = channels[-1] * pooled_size(n_nodes, len(channels)) ** 2
        self.connected = fully_connected([flat, *hidden_sizes], dropout)
        self.head = nn.Linear(hidden_sizes[-1], n_classes)
        self.decoder = _deconvolutions(channels) if reconstruct else None

    def forward(self, graphs: Tensor) -> EncoderOutput:
        """Graphs ``(n_graphs, n_nodes, n_nodes)`` to logits, representations and reconstructions."""
        ordered = graphs[:, self.order][:, :, self.order]
        maps = self.convolutions(ordered[:, None])
        code = self.connected(maps.flatten(1))
        if self.decoder is None:
            return EncoderOutput(self.head(code), code)
        n_nodes = graphs.shape[1]
        return EncoderOutput(self.head(code), code, self.decoder(maps)[:, 0, :n_nodes, :n_nodes], ordered)


def _deconvolutions(channels: Sequence[int]) -> nn.Sequential:
    """Transposed convolutions that mirror :func:`~isocapsnet.models.cnn.convolutions`; each doubles the
    side, so the result may be larger than the graph and must be cropped."""
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise([*reversed(channels), 1]):
        layers += [nn.ConvTranspose2d(n_in, n_out, kernel_size=4, stride=2, padding=1), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


@estimator
class SDBNClassifier(EncoderClassifier, SemiSupervisedNetwork):
    """Structural deep brain network (Wang et al. 2017).

    The nodes are put into an order in which the modules of the mean absolute training graph are contiguous, so that
    neighbourhoods of the convolutions are parts of modules. A decoder reconstructs the graph from the last feature
    maps; it also learns from unlabelled graphs. Weighted and negative edges and the diagonal enter as they are, after
    scaling.

    Parameters
    ----------
    {convolutions}
    reconstruction_weight : float
        Weight of the mean squared error of the edges, in scaled units. With 0 there is no decoder.
    {training}

    Attributes
    ----------
    order_ : array (n_nodes,)
        The learned order: the network sees ``X[:, order_][:, :, order_]``.
    {fitted}
    """

    _search_space: ClassVar = {"learning_rate": [1e-4, 3e-4, 1e-3], "reconstruction_weight": [0.0, 0.1, 1.0]}

    channels: Sizes = (6, 16)
    hidden_sizes: Sizes = (120, 84)
    dropout: Share = 0.0
    reconstruction_weight: NotNegative = 0.1
    learning_rate: Positive = 3e-4

    @property
    def order_(self) -> NDArray[np.int64]:
        """The learned node order ``(n_nodes,)``."""
        return self.module_.get_buffer("order").cpu().numpy().copy()

    def _build_module(self, n_nodes: int, n_classes: int) -> nn.Module:
        reconstruct = self.reconstruction_weight > 0
        return SDBN(n_nodes, n_classes, self.channels, self.hidden_sizes, self.dropout, reconstruct)

    def _prepare(self, module: nn.Module, graphs: GraphStore) -> None:
        """Learn the order of the nodes from the mean absolute training graph."""
        batches = graphs.batches(self.batch_size)
        strength = torch.stack([batch.abs().sum(dim=0, dtype=torch.float64) for batch, _ in batches]).sum(dim=0)
        order = module_order(strength.cpu().numpy() / len(graphs))
        module.get_buffer("order").copy_(torch.from_numpy(order))

    def _set_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._set_state(values, arrays)
        if not np.array_equal(np.sort(arrays["order"]), np.arange(self.n_nodes_in_)):
            raise InputError("the order of the nodes is not a permutation")
