"""The isomorphic neural network.

L. Meng and J. Zhang, "IsoNN: isomorphic neural network for graph representation learning and classification",
arXiv 1907.09495, 2019.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from isocapsnet._validation import InputError
from isocapsnet.functional.isomorphic import check_exact_size, check_exact_time
from isocapsnet.models._encoder import EncoderClassifier, EncoderOutput, fully_connected
from isocapsnet.models._parameters import Count, Flag, Layers, Positive, Share, Sizes, estimator
from isocapsnet.nn import IsomorphicLayer


def windows_per_axis(n_nodes: int, n_layers: int, kernel_size: int, stride: int) -> int:
    """Side of the score maps after ``n_layers`` isomorphic layers; below 1 when the graphs are too small."""
    side = n_nodes
    for _ in range(n_layers):
        side = (side - kernel_size) // stride + 1
    return side


class IsoNN(nn.Module):
    """Isomorphic layers with normalised scores, fully connected layers, one logit per class.

    The layers are exact or spectral. Every score map of a layer is a graph for the next one.
    """

    def __init__(
        self,
        n_nodes: int,
        n_classes: int,
        layers: Sequence[IsomorphicLayer],
        hidden_sizes: Sequence[int] = (64, 32),
        dropout: float = 0.0,
        squared: bool = False,
    ) -> None:
        super().__init__()
        self.squared = squared
        self.layers = nn.ModuleList(layers)
        n_templates, kernel_size, _ = layers[0].templates.shape
        side = windows_per_axis(n_nodes, len(layers), kernel_size, layers[0].stride)
        self.connected = fully_connected([n_templates ** len(layers) * side**2, *hidden_sizes], dropout)
        self.head = nn.Linear(hidden_sizes[-1], n_classes)

    def forward(self, graphs: Tensor, **first: Tensor) -> EncoderOutput:
        """Graphs ``(n_graphs, n_nodes, n_nodes)`` to logits and representations; ``first`` goes to the first layer."""
        maps = graphs
        for layer in self.layers:
            distance = layer.distances(maps, **first)  # type: ignore[operator]
            maps = normalised_scores(distance.square() if self.squared else distance).flatten(0, 1)
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
    squared : bool
        Normalise squared distances instead of distances.
    {preset}
    {training}

    Attributes
    ----------
    templates_ : array (n_templates, k, k)
        Learned templates of the first layer, in scaled units.
    {fitted}
    """

    PRESETS: ClassVar = {
        "paper": {"kernel_size": 4, "n_templates": 3, "hidden_sizes": (1024, 128), "squared": True},
    }
    _records_steps: ClassVar[bool] = True
    _search_space: ClassVar = {"kernel_size": [2, 3, 4], "n_templates": [1, 2, 4], "learning_rate": [3e-4, 1e-3]}
    _smaller_model_hint = "use fewer templates, a larger stride or smaller hidden_sizes"

    n_templates: Count = 2
    kernel_size: Count = 3
    stride: Count = 1
    n_layers: Layers = 1
    hidden_sizes: Sizes = (64, 32)
    dropout: Share = 0.0
    template_scale: Positive = 1.0
    squared: Flag = False
    preset: str | None = None

    @property
    def templates_(self) -> NDArray[np.float32]:
        """Learned templates of the first layer ``(n_templates, k, k)``, in scaled units."""
        return self.module_.get_parameter("layers.0.templates").detach().cpu().numpy().copy()

    def _check_parameters(self, n_nodes: int) -> None:
        super()._check_parameters(n_nodes)
        if windows_per_axis(n_nodes, self.n_layers, self.kernel_size, self.stride) < 1:
            raise InputError(
                f"Graphs of {n_nodes} nodes have no windows after n_layers={self.n_layers} of "
                f"kernel_size={self.kernel_size}, stride={self.stride}; choose a smaller kernel_size or fewer layers."
            )
        self._check_kernel_size(n_nodes)

    def _check_kernel_size(self, n_nodes: int) -> None:
        check_exact_size(self.kernel_size, "FastIsoNNClassifier")
        n_windows = windows_per_axis(n_nodes, 1, self.kernel_size, self.stride) ** 2
        check_exact_time(self.kernel_size, n_windows * self.n_templates, "FastIsoNNClassifier")

    def _build_layer(self) -> IsomorphicLayer:
        return IsomorphicLayer(self.n_templates, self.kernel_size, self.stride, self.template_scale)

    def _build_module(self, n_nodes: int, n_classes: int) -> nn.Module:
        layers = [self._build_layer() for _ in range(self.n_layers)]
        return IsoNN(n_nodes, n_classes, layers, self.hidden_sizes, self.dropout, self.squared)
