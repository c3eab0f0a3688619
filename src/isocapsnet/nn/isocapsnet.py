"""The Iso-CapsNet module of the paper, that of the authors' published program, and their loss."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn

from isocapsnet import functional
from isocapsnet._validation import InputError, check_option
from isocapsnet.nn.capsule import DigitCapsules, GraphDecoder, PrimaryCapsules, ResidualCapsules
from isocapsnet.nn.isomorphic import IsomorphicLayer, ReleasedIsomorphicLayer, SpectralIsomorphicLayer, gaussian
from isocapsnet.nn.motifs import MotifNetwork, MotifOutput

MATCHING = ("exact", "spectral")
ROUTING_OVER = ("classes", "windows")


class CapsuleOutput(NamedTuple):
    """The output of a capsule network for a batch.

    Attributes
    ----------
    capsules : Tensor (n_graphs, n_classes, capsule_size)
        Class capsules v_j; their lengths are the class scores.
    reconstruction : Tensor (n_graphs, n_nodes, n_nodes) or None
    graphs : Tensor (n_graphs, n_nodes, n_nodes)
        The input, which the reconstruction is compared with.
    motifs : MotifOutput or None
        The output of the motif network, if there is one.
    """

    capsules: Tensor
    reconstruction: Tensor | None
    graphs: Tensor
    motifs: MotifOutput | None = None


class IsoCapsNet(nn.Module):
    """Isomorphic layer, primary capsules, routing, residual, decoder (Section 4).

    Parameters
    ----------
    n_nodes, n_classes : int
    n_templates, kernel_size, stride : int
    matching : {"exact", "spectral"}
    projection : {"permutation", "orthogonal", "none"}
        The pose of a spectral match: see :class:`SpectralIsomorphicLayer`.
    weight_sharing : {"window", "template"}
    primary_size : int, "blocks" or None
        See :class:`PrimaryCapsules`.
    capsule_size : int
    routing_iterations : int
        With 0 there are no routed capsules, and the residual is used alone.
    routing_over : {"classes", "windows"}
        What the couplings of a window are normalised over. Eq. 7 as printed normalises over windows.
    gamma : float
    residual : bool
    residual_input : {"softmax", "scores"}
    residual_sizes, decoder_sizes : sequence of int
    residual_per_class : bool
    reconstruct : bool
        Whether there is a decoder.
    template_scale : float
    directed : bool
        Whether graphs may differ from their transposes; see :class:`GraphDecoder`.

    Attributes
    ----------
    motifs : MotifNetwork or None
        A second network for patterns without a fixed position. It is trained separately and assigned afterwards.
    """

    motifs: MotifNetwork | None

    def __init__(
        self,
        n_nodes: int,
        n_classes: int,
        *,
        n_templates: int = 1,
        kernel_size: int = 4,
        stride: int = 1,
        matching: str = "exact",
        projection: str = "permutation",
        weight_sharing: str = "window",
        primary_size: int | str | None = None,
        capsule_size: int = 16,
        routing_iterations: int = 3,
        routing_over: str = "classes",
        gamma: float = -0.1,
        residual: bool = True,
        residual_input: str = "softmax",
        residual_sizes: Sequence[int] = (64,),
        residual_per_class: bool = False,
        decoder_sizes: Sequence[int] = (512, 1024),
        reconstruct: bool = True,
        template_scale: float = 1.0,
        directed: bool = True,
    ) -> None:
        super().__init__()
        check_option("matching", matching, MATCHING)
        check_option("routing_over", routing_over, ROUTING_OVER)
        self.n_classes, self.capsule_size = n_classes, capsule_size
        n_windows = ((n_nodes - kernel_size) // stride + 1) ** 2
        sizes = n_templates, kernel_size, stride, template_scale
        exact = matching == "exact"
        self.isomorphic = IsomorphicLayer(*sizes) if exact else SpectralIsomorphicLayer(*sizes, projection)
        self.primary = PrimaryCapsules(kernel_size, gamma, primary_size)
        shape = n_classes, n_templates, n_windows
        self.digit = self.residual = self.decoder = self.motifs = None
        if routing_iterations > 0:
            size = self.primary.size
            self.digit = DigitCapsules(*shape, size, capsule_size, weight_sharing, routing_iterations, routing_over)
        if residual:
            self.residual = ResidualCapsules(*shape, capsule_size, residual_sizes, residual_input, residual_per_class)
        if reconstruct:
            self.decoder = GraphDecoder(n_classes, capsule_size, n_nodes, decoder_sizes, directed=directed)

    def forward(self, graphs: Tensor, **match_options: Any) -> CapsuleOutput:
        """Graphs ``(n_graphs, n_nodes, n_nodes)`` to class capsules and reconstructions."""
        match = self.isomorphic(graphs, **match_options)
        capsules = graphs.new_zeros(len(graphs), self.n_classes, self.capsule_size)
        if self.digit is not None:
            capsules = capsules + self.digit(self.primary(match))
        if self.residual is not None:
            capsules = capsules + self.residual(1 - match.distance)  # Eq. 9: v_j = r_j + c_j
        reconstruction = None if self.decoder is None else self.decoder(capsules)
        return CapsuleOutput(capsules, reconstruction, graphs, None if self.motifs is None else self.motifs(graphs))


class ReleasedIsoCapsNet(nn.Module):
    """The network of the authors' published program, for reproduction of its results.

    It uses squared distances instead of scores, squashes the primary capsules and pads them with -1, and routes with a
    softmax over windows. It has no residual. The decoder uses only the predicted class and ends in a sigmoid.

    Parameters
    ----------
    n_nodes, n_classes, kernel_size, capsule_size, routing_iterations : int
    decoder_sizes : sequence of int
    """

    def __init__(
        self,
        n_nodes: int,
        n_classes: int,
        *,
        kernel_size: int = 4,
        capsule_size: int = 16,
        routing_iterations: int = 3,
        decoder_sizes: Sequence[int] = (512, 1024),
    ) -> None:
        super().__init__()
        self.routing_iterations = routing_iterations
        self.isomorphic = ReleasedIsomorphicLayer(kernel_size)
        n_windows = (n_nodes - kernel_size + 1) ** 2
        self.weight = gaussian(n_classes, 1, n_windows, kernel_size**2, capsule_size)
        self.decoder: nn.Module | None = GraphDecoder(n_classes, capsule_size, n_nodes, decoder_sizes, masked=True)

    def forward(self, graphs: Tensor) -> CapsuleOutput:
        """Graphs ``(n_graphs, n_nodes, n_nodes)`` to class capsules and reconstructions."""
        squared, permutation = functional.released_distances(graphs, self.isomorphic.templates[0])
        if self.training and (squared == 0).any():
            # The published program continues, and all its weights are NaN after this step.
            raise InputError(
                "A window equals the template, where the published program's squash divides 0 by 0 and its gradient is "
                "NaN; use another random_state, or IsoCapsNetClassifier."
            )
        capsules = functional.released_route(squared, permutation, self.weight[:, 0], self.routing_iterations)
        reconstruction = None if self.decoder is None else self.decoder(capsules)
        return CapsuleOutput(capsules, reconstruction, graphs)


class CapsuleLoss(nn.Module):
    """(margin + δ · reconstruction) / batch (Eq. 13).

    Unlabelled graphs (target -1) contribute to the reconstruction loss only.

    Parameters
    ----------
    reconstruction_weight : float
        δ.
    class_weight : Tensor (n_classes,), optional
    squared : bool
        Sum of squared errors instead of the Frobenius norm, as in the published program, in its order of operations.
    """

    class_weight: Tensor | None

    def __init__(
        self, reconstruction_weight: float = 0.0005, class_weight: Tensor | None = None, squared: bool = False
    ) -> None:
        super().__init__()
        self.reconstruction_weight, self.squared = reconstruction_weight, squared
        self.register_buffer("class_weight", class_weight)

    def forward(self, output: CapsuleOutput, targets: Tensor) -> Tensor:
        """The mean loss of a batch with targets ``(n_graphs,)``."""
        if self.squared and output.reconstruction is not None:
            lengths = (output.capsules**2).sum(dim=-1) ** 0.5
            error = functional.reconstruction_loss(output.graphs, output.reconstruction, squared=True).sum()
            loss = functional.margin_loss(lengths, targets, self.class_weight).sum()
            return (loss + self.reconstruction_weight * error) / len(targets)
        lengths = functional.safe_norm(output.capsules)
        loss = functional.margin_loss(lengths, targets, self.class_weight).sum()
        loss = loss / (targets >= 0).sum().clamp_min(1)
        if output.reconstruction is not None and self.reconstruction_weight > 0:
            error = functional.reconstruction_loss(output.graphs, output.reconstruction)
            loss = loss + self.reconstruction_weight * error.mean()
        return loss
