"""Structural deep brain network: nodes re-ordered by module, then a convolutional network that also reconstructs.

S. Wang, L. He, B. Cao, C.-T. Lu, P. S. Yu and A. B. Ragin, "Structural deep brain network mining", KDD 2017.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, leaves_list, linkage
from scipy.spatial.distance import pdist
from torch import Tensor, nn

from isocapsnet._validation import InputError
from isocapsnet.functional.upsampling import doubling_convolution
from isocapsnet.models._batches import GraphStore
from isocapsnet.models._encoder import EncoderClassifier, EncoderOutput, fully_connected
from isocapsnet.models._parameters import Flag, NotNegative, Positive, Share, Sizes, estimator
from isocapsnet.models._semisupervised import SemiSupervisedNetwork
from isocapsnet.models.cnn import convolutions, pooled_size

#: The largest number of modules that :func:`find_modules` tries.
MAX_MODULES = 20


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
    return leaves_list(_cluster_tree(strength, optimal_ordering=True)).astype(np.int64)


def find_modules(strength: NDArray[np.float64]) -> NDArray[np.int64]:
    """The module of each node ``(n_nodes,)``: 0, 1, ...

    The clusters of :func:`module_order`, cut where the modularity (Newman 2006) of the graph is largest; of equal cuts
    the one with the fewest modules, and at most ``MAX_MODULES``.

    Parameters
    ----------
    strength : array (n_nodes, n_nodes)
        Edge strengths, not negative. The diagonal is not used.
    """
    links = strength + strength.T
    np.fill_diagonal(links, 0)
    modules, largest = np.zeros(len(links), dtype=np.int64), 0.0
    if len(links) < 3 or not links.any():
        return modules
    excess = links - np.outer(links.sum(axis=1), links.sum(axis=0)) / links.sum()
    tree = _cluster_tree(strength)
    for n_modules in range(2, min(MAX_MODULES, len(links)) + 1):
        cut = fcluster(tree, n_modules, criterion="maxclust").astype(np.int64) - 1
        modularity = excess[cut[:, None] == cut].sum() / links.sum()
        if modularity > largest + 1e-12:
            modules, largest = cut, modularity
    return modules


def _cluster_tree(strength: NDArray[np.float64], *, optimal_ordering: bool = False) -> NDArray[np.float64]:
    """Ward's clusters of the connection profiles, as scipy writes them."""
    profiles = strength + strength.T
    # A node is as close to itself as to its strongest partner; an empty diagonal would separate nodes of one module.
    np.fill_diagonal(profiles, 0)
    np.fill_diagonal(profiles, profiles.max(axis=1))
    return linkage(pdist(profiles), method="ward", optimal_ordering=optimal_ordering)


class SDBN(nn.Module):
    """Re-ordering, convolutions, fully connected layers to the classes, transposed convolutions back to the graph.

    With ``augmented``, the convolutions have a second input: the edges inside modules, with zeros elsewhere. Other
    parameters are those of :class:`SDBNClassifier`. Without ``reconstruct`` there is no decoder.
    """

    order: Tensor
    module_of_node: Tensor | None

    def __init__(
        self,
        n_nodes: int,
        n_classes: int,
        channels: Sequence[int] = (6, 16),
        hidden_sizes: Sequence[int] = (120, 84),
        dropout: float = 0.0,
        reconstruct: bool = True,
        augmented: bool = False,
    ) -> None:
        super().__init__()
        self.register_buffer("order", torch.arange(n_nodes))
        self.register_buffer("module_of_node", torch.zeros(n_nodes, dtype=torch.int64) if augmented else None)
        self.convolutions = convolutions(channels, n_inputs=2 if augmented else 1)
        flat = channels[-1] * pooled_size(n_nodes, len(channels)) ** 2
        self.connected = fully_connected([flat, *hidden_sizes], dropout)
        self.head = nn.Linear(hidden_sizes[-1], n_classes)
        self.decoder = _deconvolutions(channels) if reconstruct else None

    def forward(self, graphs: Tensor) -> EncoderOutput:
        """Graphs ``(n_graphs, n_nodes, n_nodes)`` to logits, representations and reconstructions."""
        ordered = graphs.index_select(1, self.order).index_select(2, self.order)
        inputs = ordered[:, None]
        if self.module_of_node is not None:
            modules = self.module_of_node[self.order]
            inputs = torch.cat([inputs, inputs * (modules[:, None] == modules)], dim=1)
        maps = self.convolutions(inputs)
        code = self.connected(maps.flatten(1))
        if self.decoder is None:
            return EncoderOutput(self.head(code), code)
        n_nodes = graphs.shape[1]
        return EncoderOutput(self.head(code), code, self.decoder(maps)[:, 0, :n_nodes, :n_nodes], ordered)


class DoublingConvolution(nn.ConvTranspose2d):
    """The module of :func:`~isocapsnet.functional.upsampling.doubling_convolution`."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__(n_in, n_out, kernel_size=4, stride=2, padding=1)

    def forward(self, maps: Tensor) -> Tensor:  # type: ignore[override]
        """``(n_graphs, n_in, n, n)`` to ``(n_graphs, n_out, 2n, 2n)``."""
        return doubling_convolution(maps, self.weight, self.get_parameter("bias"))


def _deconvolutions(channels: Sequence[int]) -> nn.Sequential:
    """Transposed convolutions that mirror :func:`~isocapsnet.models.cnn.convolutions`; each doubles the
    side, so the result may be larger than the graph and must be cropped."""
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise([*reversed(channels), 1]):
        layers += [DoublingConvolution(n_in, n_out), nn.ReLU()]
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
    structural_augmentation : bool
        Give the convolutions a second input, with the edges inside modules alone.
    {preset}
    {training}

    Attributes
    ----------
    order_ : array (n_nodes,)
        The learned order: the network sees ``X[:, order_][:, :, order_]``.
    modules_ : array (n_nodes,)
        With ``structural_augmentation``, the module of each node.
    {fitted}
    """

    PRESETS: ClassVar = {"paper": {"structural_augmentation": True}}
    _records_steps: ClassVar[bool] = True
    _search_space: ClassVar = {"learning_rate": [1e-4, 3e-4, 1e-3], "reconstruction_weight": [0.0, 0.1, 1.0]}

    channels: Sizes = (6, 16)
    hidden_sizes: Sizes = (120, 84)
    dropout: Share = 0.0
    reconstruction_weight: NotNegative = 0.1
    learning_rate: Positive = 3e-4
    structural_augmentation: Flag = False
    preset: str | None = None

    @property
    def order_(self) -> NDArray[np.int64]:
        """The learned node order ``(n_nodes,)``."""
        return self.module_.get_buffer("order").cpu().numpy().copy()

    @property
    def modules_(self) -> NDArray[np.int64]:
        """The module of each node ``(n_nodes,)``, with ``structural_augmentation``."""
        return self.module_.get_buffer("module_of_node").cpu().numpy().copy()

    def _build_module(self, n_nodes: int, n_classes: int) -> nn.Module:
        reconstruct, augmented = self.reconstruction_weight > 0, self.structural_augmentation
        return SDBN(n_nodes, n_classes, self.channels, self.hidden_sizes, self.dropout, reconstruct, augmented)

    def _prepare(self, module: nn.Module, graphs: GraphStore) -> None:
        """Learn the order and the modules of the nodes from the mean absolute training graph."""
        batches = graphs.batches(self.batch_size)
        total = torch.stack([batch.abs().sum(dim=0, dtype=torch.float64) for batch, _ in batches]).sum(dim=0)
        strength = total.cpu().numpy() / len(graphs)
        module.get_buffer("order").copy_(torch.from_numpy(module_order(strength)))
        if self.structural_augmentation:
            module.get_buffer("module_of_node").copy_(torch.from_numpy(find_modules(strength)))

    def _set_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._set_state(values, arrays)
        if not np.array_equal(np.sort(arrays["order"]), np.arange(self.n_nodes_in_)):
            raise InputError("the order of the nodes is not a permutation")
