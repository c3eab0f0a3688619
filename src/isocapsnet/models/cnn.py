"""A convolutional network on the adjacency matrix as an image: LeNet-5.

Y. LeCun, P. Haffner, L. Bottou and Y. Bengio, "Object recognition with gradient-based learning", 1999.
"""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

from torch import Tensor, nn

from isocapsnet.functional.kernels import pick_fused
from isocapsnet.functional.pooling import pooled_convolution
from isocapsnet.models._encoder import EncoderClassifier, EncoderOutput, fully_connected
from isocapsnet.models._parameters import Positive, Share, Sizes, estimator

KERNEL_SIZE = 5


class PooledConvolution(nn.Conv2d):
    """The module of :func:`~isocapsnet.functional.pooling.pooled_convolution`, with 5 x 5 filters."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__(n_in, n_out, KERNEL_SIZE)

    def forward(self, maps: Tensor) -> Tensor:
        """``(n_graphs, n_in, n, n)`` to ``(n_graphs, n_out, ⌈n/2⌉, ⌈n/2⌉)``."""
        return pooled_convolution(maps, self.weight, self.get_parameter("bias"))

    def bytes_in_passing(self, pooled: Tensor, n_graphs: int) -> int:
        """Twice the size of the maps of ``n_graphs`` graphs before pooling; the kernel of the CPU makes none."""
        return 0 if pick_fused("cpu_pooling", pooled) is not None else 2 * 4 * pooled[0].nbytes * n_graphs


def convolutions(channels: Sequence[int], n_inputs: int = 1) -> nn.Sequential:
    """5 x 5 convolutions, each with 2 x 2 max-pooling and ReLU: ``(b, n_inputs, n, n)`` to ``(b, channels[-1], m, m)``.

    Borders are padded and pooling rounds up, so graphs of any size are valid and no node is lost:
    m = ⌈n / 2^len(channels)⌉.
    """
    layers = [PooledConvolution(n_in, n_out) for n_in, n_out in pairwise([n_inputs, *channels])]
    # Names of files that were saved when convolution, ReLU and pooling were modules of their own.
    return nn.Sequential(OrderedDict((str(3 * i), layer) for i, layer in enumerate(layers)))


def pooled_size(n_nodes: int, n_layers: int) -> int:
    """⌈n_nodes / 2^n_layers⌉, the side of the maps that :func:`convolutions` returns."""
    return -(-n_nodes // 2**n_layers)


class LeNet(nn.Module):
    """Convolutions, fully connected layers, one logit per class; parameters are those of :class:`CNNClassifier`."""

    def __init__(
        self,
        n_nodes: int,
        n_classes: int,
        channels: Sequence[int] = (6, 16),
        hidden_sizes: Sequence[int] = (120, 84),
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        flat = channels[-1] * pooled_size(n_nodes, len(channels)) ** 2
        self.encoder = nn.Sequential(
            convolutions(channels), nn.Flatten(), fully_connected([flat, *hidden_sizes], dropout)
        )
        self.head = nn.Linear(hidden_sizes[-1], n_classes)

    def forward(self, graphs: Tensor) -> EncoderOutput:
        """Graphs ``(n_graphs, n_nodes, n_nodes)`` to logits and representations."""
        code = self.encoder(graphs[:, None])
        return EncoderOutput(self.head(code), code)


@estimator
class CNNClassifier(EncoderClassifier):
    """LeNet-5 on the adjacency matrix (LeCun et al. 1999).

    Two convolutions with max-pooling and two fully connected layers, in the sizes of LeNet-5. Weighted and negative
    edges and the diagonal enter as they are, after scaling. Neighbouring rows are neighbouring pixels, so the model
    depends on the order of the nodes.

    Parameters
    ----------
    {convolutions}
    {training_and_fitted}
    """

    _records_steps: ClassVar[bool] = True
    _search_space: ClassVar = {"learning_rate": [1e-4, 3e-4, 1e-3], "dropout": [0.0, 0.5]}

    channels: Sizes = (6, 16)
    hidden_sizes: Sizes = (120, 84)
    dropout: Share = 0.0
    learning_rate: Positive = 3e-4

    def _build_module(self, n_nodes: int, n_classes: int) -> nn.Module:
        return LeNet(n_nodes, n_classes, self.channels, self.hidden_sizes, self.dropout)
