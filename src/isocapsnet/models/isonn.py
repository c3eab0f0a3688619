"""The isomorphic neural network.

L. Meng and J. Zhang, "IsoNN: isomorphic neural network for graph representation learning and classification",
arXiv 1907.09495, 2019.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from isocapsnet._validation import InputError, check_number
from isocapsnet.functional.isomorphic import check_exact_size
from isocapsnet.models._encoder import MAX_LAYERS, EncoderClassifier, EncoderOutput, check_sizes, fully_connected
from isocapsnet.models._parameters import estimator
from isocapsnet.nn import IsomorphicLayer


def windows_per_axis(n_nodes: int, n_layers: int, kernel_size: int, stride: int) -> int:
    """Side of the score maps after ``n_layers`` isomorphic layers; below 1 when the graphs are too small."""
    side = n_nodes
    for _ in range(n_layers):
        side = (side - kernel_size) // stride + 1
    return side


class IsoNN(nn.Module):
    """Isomorphic layers with normalised scores, fully connected layers, one logit per class.

    Parameters
    ----------
    n_nodes, n_classes : int
    layers : sequence of IsomorphicLayer
        Exact or spectral. Every score map of a layer is a graph for the next one.
    hidden_sizes : sequence of int
        Widths of the fully connected layers; the last is the size of the representation.
    dropout : float
    """

    def __init__(
        self,
        n_nodes: int,
        n_classes: int,
        layers: Sequence[IsomorphicLayer],
        hidden_sizes: Sequence[int] = (64, 32),
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        n_templates, kernel_size, _ = layers[0].templates.shape
        side = windows_per_axis(n_nodes, len(layers), kernel_size, layers[0].stride)
        self.connected = fully_connected([n_templates ** len(layers) * side**2, *hidden_sizes], dropout)
        self.head = nn.Linear(hidden_sizes[-1], n_classes)

    def forward(self, graphs: Tensor, **first: Tensor) -> EncoderOutput:
        """Graphs ``(n_graphs, n_nodes, n_nodes)`` to logits and representations; ``first`` goes to the first layer."""
        maps = graphs
        for layer in self.layers:
            maps = normalised_scores(layer(maps, **first).distance).flatten(0, 1)
            first = {}
        code = self.connected(maps.reshape(len(graphs), -1))
        return EncoderOutput(self.head(code), code)


def normalised_scores(distance: Tensor) -> Tensor:
    """Softmax of the negative distances over the windows of a map, times their number, so that the mean is 1:
    ``(n_graphs, n_templates, n, n)``, same shape out."""
    flat = distance.flatten(2)
    return ((-flat).softmax(dim=2) * flat.shape[2]).view_as(distance)


@estimator
class IsoNNClassifier(EncoderClassifier):
    """Isomorphic neural network (Meng & Zhang 2019).

    Learned templates are matched with every window of the adjacency matrix over all node permutations; the distances of
    the best matches, normalised by a softmax over the windows, are classified by fully connected layers. Weighted and
    negative edges and the diagonal enter as they are, after scaling.

    Windows are contiguous ranges of nodes, so the model depends on the order of the nodes. The best permutation itself
    is not used: with ``stride=kernel_size`` the orientation of a pattern inside its window has no effect.

    Parameters
    ----------
    n_templates : int
        Learned sub-graph templates of each layer.
    kernel_size : int
        k, nodes per template. Time grows with k!; at most 9.
    stride : int
        Distance between neighbouring windows.
    n_layers : int
        Isomorphic layers. Each score map is a graph for the next layer, so the last has ``n_templates ** n_layers``.
    hidden_sizes : sequence of int
        Widths of the fully connected layers; ``transform`` returns the last one.
    dropout : float
        Dropout before each fully connected layer.
    template_scale : float
        Standard deviation of the initial templates, in units of the edges' own.
    {training}

    Attributes
    ----------
    classes_ : array (n_classes,)
    templates_ : array (n_templates, k, k)
        Learned templates of the first layer, in scaled units.
    {fitted}
    """

    n_templates: int = 2
    kernel_size: int = 3
    stride: int = 1
    n_layers: int = 1
    hidden_sizes: Sequence[int] = (64, 32)
    dropout: float = 0.0
    template_scale: float = 1.0

    @classmethod
    def search_space(cls) -> dict[str, list[Any]]:
        """Candidate values for nested tuning."""
        return {"kernel_size": [2, 3, 4], "n_templates": [1, 2, 4], "learning_rate": [3e-4, 1e-3]}

    @property
    def templates_(self) -> NDArray[np.float32]:
        """Learned templates of the first layer ``(n_templates, k, k)``, in scaled units."""
        return self.module_.get_parameter("layers.0.templates").detach().cpu().numpy().copy()

    def _check_parameters(self, n_nodes: int) -> None:
        super()._check_parameters(n_nodes)
        for name in ("n_templates", "kernel_size", "stride"):
            check_number(name, getattr(self, name), low=1, integer=True)
        check_number("n_layers", self.n_layers, low=1, high=MAX_LAYERS, integer=True)
        check_number("template_scale", self.template_scale, low=0, open_low=True)
        check_number("dropout", self.dropout, low=0, high=1)
        check_sizes("hidden_sizes", self.hidden_sizes)
        if windows_per_axis(n_nodes, self.n_layers, self.kernel_size, self.stride) < 1:
            raise InputError(
                f"Graphs of {n_nodes} nodes have no windows after n_layers={self.n_layers} of "
                f"kernel_size={self.kernel_size}, stride={self.stride}; choose a smaller kernel_size or fewer layers."
            )

        self._check_kernel_size()

    def _check_kernel_size(self) -> None:
        check_exact_size(self.kernel_size, "FastIsoNNClassifier")

    def _build_layer(self) -> IsomorphicLayer:
        return IsomorphicLayer(self.n_templates, self.kernel_size, self.stride, self.template_scale)

    def _build_module(self, n_nodes: int, n_classes: int) -> nn.Module:
        layers = [self._build_layer() for _ in range(self.n_layers)]
        return IsoNN(n_nodes, n_classes, layers, self.hidden_sizes, self.dropout)

    def _smaller_model_hint(self) -> str:
        return "use fewer templates, a larger stride or smaller hidden_sizes"
