"""The capsule network on the adjacency matrix as an image.

S. Sabour, N. Frosst and G. E. Hinton, "Dynamic routing between capsules", NIPS 2017.
"""

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor, nn

from isocapsnet.functional.convolution import graph_convolution
from isocapsnet.functional.squashing import squash_many
from isocapsnet.models._capsules import CapsuleClassifier
from isocapsnet.models._parameters import Count, Sizes, estimator, with_parameters
from isocapsnet.nn import CapsuleOutput, DigitCapsules, GraphDecoder


class CapsNet(nn.Module):
    """A convolution, convolutional primary capsules, dynamic routing to class capsules, a decoder.

    Parameters are those of :class:`CapsNetClassifier`. Without ``reconstruct`` there is no decoder.
    """

    def __init__(
        self,
        n_nodes: int,
        n_classes: int,
        *,
        n_channels: int = 16,
        n_primary: int = 4,
        primary_size: int = 8,
        capsule_size: int = 16,
        kernel_size: int = 5,
        stride: int = 2,
        routing_iterations: int = 3,
        decoder_sizes: Sequence[int] = (512, 1024),
        reconstruct: bool = True,
        directed: bool = True,
    ) -> None:
        super().__init__()
        self.shape = (n_primary, primary_size)
        padding = kernel_size // 2
        self.features = nn.Conv2d(1, n_channels, kernel_size, stride, padding)
        self.primary = nn.Conv2d(n_channels, n_primary * primary_size, kernel_size, stride, padding)
        side = n_nodes
        for _ in range(2):
            side = (side + 2 * padding - kernel_size) // stride + 1
        self.digit = DigitCapsules(
            n_classes,
            n_primary,
            side**2,
            primary_size,
            capsule_size,
            iterations=routing_iterations,
            over="classes without leak",
        )
        self.decoder = None
        if reconstruct:
            self.decoder = GraphDecoder(n_classes, capsule_size, n_nodes, decoder_sizes, directed=directed)

    def forward(self, graphs: Tensor) -> CapsuleOutput:
        """Graphs ``(n_graphs, n_nodes, n_nodes)`` to class capsules and reconstructions."""
        first = self.features
        features = graph_convolution(graphs[:, None], first.weight, first.bias, first.stride[0], int(first.padding[0]))
        maps = self.primary(features)
        # (B, n_primary, primary_size, m, m) to one vector per type and position.
        primary = squash_many(maps.unflatten(1, self.shape).movedim(2, -1))
        capsules = self.digit(primary)
        return CapsuleOutput(capsules, self.decoder(capsules) if self.decoder is not None else None, graphs)


@estimator
class CapsNetClassifier(CapsuleClassifier):
    """Capsule network with convolutional primary capsules (Sabour et al. 2017).

    A convolution over the adjacency matrix and a second one whose channels are read in groups, one primary capsule
    each, are followed by dynamic routing to one capsule per class; the length of a class capsule is the class score.
    Weighted and negative edges and the diagonal enter as they are, after scaling. Neighbouring rows are neighbouring
    pixels, so the model depends on the order of the nodes.

    The original was made for images of 28 x 28 pixels; four things differ here. The sum of the votes is divided by the
    square root of their number, because thousands of votes would saturate every class capsule. Both convolutions have a
    stride, and layers are narrower. The decoder uses all class capsules instead of that of the true class, so that it
    needs no label. Its error is the norm of the difference instead of the squared norm, as in Iso-CapsNet.

    Parameters
    ----------
    n_channels : int
        Feature maps of the first convolution.
    n_primary : int
        Primary capsules at each position.
    primary_size, capsule_size : int
        Dimensions of primary and class capsules.
    kernel_size, stride : int
        Of both convolutions; borders are padded.
    routing_iterations : int
    decoder_sizes : sequence of int
        Hidden widths of the decoder.
    reconstruction_weight : float
        Weight of the norm of the reconstruction error, in scaled units. With 0 there is no decoder.
    {training_and_fitted}
    """

    version: ClassVar[int] = 3
    # The decoder of undirected graphs became smaller; models fitted before predict the same.
    _warned_before: ClassVar[int | None] = 2

    _records_steps: ClassVar[bool] = True
    _search_space: ClassVar = {"learning_rate": [3e-4, 1e-3, 3e-3], "n_primary": [2, 4, 8]}

    n_channels: Count = 16
    n_primary: Count = 4
    primary_size: Count = 8
    kernel_size: Count = 5
    stride: Count = 2
    decoder_sizes: Sizes = (512, 1024)

    def _build_module(self, n_nodes: int, n_classes: int) -> nn.Module:
        given = {"reconstruct": self.reconstruction_weight > 0, "directed": self.directed_}
        return with_parameters(CapsNet, self, n_nodes, n_classes, **given)
