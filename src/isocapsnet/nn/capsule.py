"""The capsule layers hold the weights; the maths is in :mod:`isocapsnet.functional.capsule`."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from isocapsnet import functional
from isocapsnet._validation import check_option
from isocapsnet.functional import IsomorphicMatch, ProjectedCapsules, SpectralMatch
from isocapsnet.functional.linear import wide_linear
from isocapsnet.functional.routing import Capsules, bytes_of_couplings
from isocapsnet.nn.isomorphic import gaussian

WEIGHT_SHARING = ("window", "template")
RESIDUAL_INPUTS = ("softmax", "scores")
#: Routing converges in a few iterations; larger numbers are refused as typing errors.
MAX_ROUTING_ITERATIONS = 100

# Initial routing weights above 0.02 saturate the class capsules before anything is learned.
WEIGHT_SCALE = 0.01
# The residual input has mean 0.01: large enough to learn from, too small to dominate the capsules.
RESIDUAL_SCALE = 0.01


def mlp(sizes: Sequence[int], linear: type[nn.Linear] = nn.Linear) -> nn.Sequential:
    """Linear layers of the given widths with ReLU between them."""
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        layers += [linear(n_in, n_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class WideLinear(nn.Linear):
    """A linear layer, with a faster product where it has many weights and the batch few graphs."""

    def forward(self, inputs: Tensor) -> Tensor:
        """``(n_graphs, n_in)`` to ``(n_graphs, n_out)``."""
        return wide_linear(inputs, self.weight, self.bias)


class PrimaryCapsules(nn.Module):
    """Scores and poses of the match as one vector per template and window (Eq. 4, with padding).

    Parameters
    ----------
    kernel_size : int
    gamma : float
        Value that replaces the zeros of a pose.
    primary_size : int, "blocks" or None
        g in Eq. 4: a learned linear map from k² to this size, the sums of 4 x 4 blocks of a pose
        (:func:`~isocapsnet.functional.block_table`), or the identity.
    """

    def __init__(self, kernel_size: int, gamma: float = -0.1, primary_size: int | str | None = None) -> None:
        super().__init__()
        self.kernel_size, self.gamma, self.project, self.size = kernel_size, gamma, None, kernel_size**2
        self.in_blocks = primary_size == "blocks"
        if self.in_blocks:
            self.size = functional.block_table(kernel_size).shape[1]
        elif primary_size is not None:
            self.size = int(primary_size)
            self.project = nn.Linear(kernel_size**2, self.size, bias=False)

    def table(self, like: Tensor) -> Tensor | None:
        """The transposed matrix of g ``(k², size)``, with the type of ``like``; None for the identity."""
        if self.in_blocks:
            return functional.block_table(self.kernel_size).to(like)
        return None if self.project is None else self.project.weight.T

    def forward(self, match: IsomorphicMatch | SpectralMatch) -> Capsules:
        """Compact capsules if the pose is a permutation, otherwise a tensor ``(n_graphs, n_templates, n, n, size)``."""
        scores = 1 - match.distance
        table = self.table(scores)
        if isinstance(match, IsomorphicMatch):
            if table is None:
                return functional.primary_capsules(scores, match.permutation, self.kernel_size, self.gamma)
            return ProjectedCapsules(scores, match.permutation, table)
        poses = match.matrix.flatten(-2)
        if table is None:
            return functional.dense_primary_capsules(scores, poses, self.gamma)
        return functional.dense_primary_capsules(scores, poses @ table, None)


class DigitCapsules(nn.Module):
    """Class capsules by dynamic routing (Eq. 6 and 7).

    Parameters
    ----------
    n_classes, n_templates : int
    n_windows : int
        Windows per template, n².
    primary_size, capsule_size : int
    weight_sharing : {"window", "template"}
        One W per class, template and window (W_ij of Sabour et al.), or one per class and template, which is smaller
        and faster but ignores the position.
    iterations : int
    over : {"classes", "classes without leak", "windows"}
        What the couplings of :func:`~isocapsnet.functional.attend_to_votes` are normalised over.
    """

    def __init__(
        self,
        n_classes: int,
        n_templates: int,
        n_windows: int,
        primary_size: int,
        capsule_size: int = 16,
        weight_sharing: str = "window",
        iterations: int = 3,
        over: str = "classes",
    ) -> None:
        super().__init__()
        check_option("weight_sharing", weight_sharing, WEIGHT_SHARING)
        self.iterations, self.over = iterations, over
        self.scale = (n_templates * n_windows) ** -0.5
        positions = n_windows if weight_sharing == "window" else 1
        self.weight = gaussian(n_classes, n_templates, positions, primary_size, capsule_size, scale=WEIGHT_SCALE)

    def forward(self, capsules: Capsules) -> Tensor:
        """Primary capsules to class capsules ``(n_graphs, n_classes, capsule_size)``."""
        return functional.route(capsules, self.weight, self.iterations, self.scale, over=self.over)

    def bytes_in_passing(self, capsules: Tensor, n_graphs: int) -> int:
        """The size of the couplings of ``n_graphs`` graphs, and of their gradients."""
        return bytes_of_couplings(self.weight, self.iterations, n_graphs, self.over)


class ResidualCapsules(nn.Module):
    """Class capsules computed directly from the scores (Eq. 8).

    Parameters
    ----------
    n_classes, n_templates : int
    n_windows : int
        Windows per template, n².
    capsule_size : int
    sizes : sequence of int
        Hidden widths of the MLP.
    residual_input : {"softmax", "scores"}
        The softmax of each F_i over its windows, scaled to mean 0.01, or 0.01 F_i.
    per_class : bool
        One MLP per class, the W_j of Eq. 8, instead of one whose last layer has the capsules of all classes.
    """

    def __init__(
        self,
        n_classes: int,
        n_templates: int,
        n_windows: int,
        capsule_size: int = 16,
        sizes: Sequence[int] = (64,),
        residual_input: str = "softmax",
        per_class: bool = False,
    ) -> None:
        super().__init__()
        check_option("residual_input", residual_input, RESIDUAL_INPUTS)
        self.shape = (n_classes, capsule_size)
        self.residual_input = residual_input
        widths = [capsule_size] * n_classes if per_class else [n_classes * capsule_size]
        networks = [mlp([n_templates * n_windows, *sizes, width]) for width in widths]
        for network in networks:
            for layer in network:
                if isinstance(layer, nn.Linear):
                    nn.init.zeros_(layer.bias)  # random biases would outweigh inputs of 0.01 and leave units inactive
            # Zero at the start, so that the residual adds nothing to the capsules before it has learned.
            nn.init.zeros_(network[-1].get_parameter("weight"))
        self.mlp = nn.ModuleList(networks) if per_class else networks[0]

    def forward(self, scores: Tensor) -> Tensor:
        """``(n_graphs, n_templates, n, n)`` to ``(n_graphs, n_classes, capsule_size)``."""
        windows, scale = scores.flatten(2), RESIDUAL_SCALE
        if self.residual_input == "softmax":
            windows, scale = windows.softmax(dim=2), scale * windows.shape[2]
        features = scale * windows.flatten(1)
        if isinstance(self.mlp, nn.ModuleList):
            return torch.stack([network(features) for network in self.mlp], dim=1)
        return self.mlp(features).unflatten(1, self.shape)


class GraphDecoder(nn.Module):
    """Reconstructs the graph from its class capsules (Eq. 11).

    Parameters
    ----------
    n_classes, capsule_size, n_nodes : int
    sizes : sequence of int
        Hidden widths of the MLP.
    masked : bool
        Use only the longest capsule, and a sigmoid at the end, as in the published program.
    directed : bool
        Whether the graph may differ from its transpose. Otherwise the last layer has one unit for both entries.
    """

    def __init__(
        self,
        n_classes: int,
        capsule_size: int,
        n_nodes: int,
        sizes: Sequence[int] = (512, 1024),
        masked: bool = False,
        directed: bool = True,
    ) -> None:
        super().__init__()
        self.n_nodes, self.masked, self.directed = n_nodes, masked, directed
        n_entries = n_nodes**2 if directed else n_nodes * (n_nodes + 1) // 2
        # The published program's own products round in another way.
        linear = nn.Linear if masked else WideLinear
        self.mlp = mlp([n_classes * capsule_size, *sizes, n_entries], linear)

    def forward(self, capsules: Tensor) -> Tensor:
        """``(n_graphs, n_classes, capsule_size)`` to ``(n_graphs, n_nodes, n_nodes)``."""
        if self.masked:
            longest = functional.safe_norm(capsules).argmax(dim=1)
            capsules = capsules * nn.functional.one_hot(longest, capsules.shape[1])[..., None]
        output = self.mlp(capsules.flatten(1))
        if self.masked:
            output = output.sigmoid()
        if not self.directed:
            return functional.symmetric_matrices(output, self.n_nodes)
        return output.unflatten(1, (self.n_nodes, self.n_nodes))
