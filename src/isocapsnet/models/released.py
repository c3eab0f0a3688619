"""Iso-CapsNet as its authors' published program computes it.

J. Zhang, "Iso-CapsNet: isomorphic capsule network for brain graph representation learning", arXiv 2206.13465, 2022; the
program differs from the paper.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from isocapsnet._validation import check_number
from isocapsnet.functional.isomorphic import check_exact_size
from isocapsnet.models._encoder import check_sizes
from isocapsnet.models._optimizers import Adam
from isocapsnet.models._templates import TemplateClassifier
from isocapsnet.nn import CapsuleLoss, ReleasedIsoCapsNet
from isocapsnet.nn.capsule import MAX_ROUTING_ITERATIONS


class ReleasedIsoCapsNetClassifier(TemplateClassifier):
    """What the authors' published program runs under the name Iso-CapsNet, for reproduction.

    One template is matched with every window; the squared distance (large for a bad match) times the winning
    permutation is squashed, its zeros are set to -1, and class capsules are routed with a softmax over windows. There
    is no residual. The decoder sees the predicted class alone, in training too, and ends in a sigmoid. Graphs enter as
    they are, unscaled, and training runs for all epochs; nothing is held out and probabilities are not calibrated.
    Rounding in float32 decides between permutations that are nearly as good, as it does in the program: see
    :func:`~isocapsnet.functional.released_match`.

    Use :class:`~isocapsnet.models.isocapsnet.IsoCapsNetClassifier` to classify. This one exists so that its numbers can
    be set beside those of the paper.

    Where a window equals the template, the program's squash divides 0 by 0, its gradient is NaN and so are all weights
    from then on. ``fit`` refuses to go on there, in one sentence; ``predict`` takes such a window for a capsule of -1.

    Parameters
    ----------
    kernel_size : int
        k, nodes of the template. Time and memory grow with k!; at most 9.
    capsule_size : int
        Size of the class capsules.
    routing_iterations : int
        At least 1.
    decoder_sizes : sequence of int
        Hidden layer sizes of the decoder.
    reconstruction_weight : float
        Weight of the sum of squared errors of the reconstruction.
    learning_rate, weight_decay : float
        Of Adam; the weight decay is an L2 penalty, not decoupled.
    batch_size, max_epochs : int
    device : str
        "auto", "cpu", "cuda".
    random_state : int, optional
    verbose : int
        1 prints the losses of every epoch.
    callbacks : list, optional
        Further skorch callbacks.

    Attributes
    ----------
    classes_ : array (2,)
        The program has two classes, and so has this estimator.
    templates_ : array (1, k, k)
    module_, history_, scaler_, temperature_, net_
        See :class:`~isocapsnet.models._network.NetworkClassifier`.
    """

    version: ClassVar[int] = 1

    _max_classes: ClassVar[int | None] = 2
    _optimizer: ClassVar[type[torch.optim.Optimizer]] = Adam

    # What other networks have as parameters and the published program does not have at all.
    calibrate = False
    scaling = "none"
    patience = None
    validation_fraction = 0.0
    class_weight = None

    def __init__(
        self,
        *,
        kernel_size: int = 4,
        capsule_size: int = 16,
        routing_iterations: int = 3,
        decoder_sizes: Sequence[int] = (512, 1024),
        reconstruction_weight: float = 0.0005,
        learning_rate: float = 0.01,
        weight_decay: float = 5e-4,
        batch_size: int = 64,
        max_epochs: int = 17,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.kernel_size = kernel_size
        self.capsule_size = capsule_size
        self.routing_iterations = routing_iterations
        self.decoder_sizes = decoder_sizes
        self.reconstruction_weight = reconstruction_weight
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # type: ignore[override]  # the program has no unlabelled graphs
        """Fit to graphs ``X`` ``(n_graphs, n_nodes, n_nodes)`` and labels ``y`` ``(n_graphs,)`` of two classes."""
        return super().fit(X, y)

    def _check_parameters(self, n_nodes: int) -> None:
        super()._check_parameters(n_nodes)
        check_exact_size(self.kernel_size, "IsoCapsNetClassifier with matching='spectral'")
        check_number("capsule_size", self.capsule_size, low=1, integer=True)
        check_number("routing_iterations", self.routing_iterations, low=1, high=MAX_ROUTING_ITERATIONS, integer=True)
        check_number("reconstruction_weight", self.reconstruction_weight, low=0)
        check_sizes("decoder_sizes", self.decoder_sizes, may_be_empty=True)

    def _build_criterion(self, weights: Tensor) -> nn.Module:
        return CapsuleLoss(self.reconstruction_weight, squared=True)

    def _build_module(self, n_nodes: int, n_classes: int) -> nn.Module:
        return ReleasedIsoCapsNet(
            n_nodes,
            n_classes,
            kernel_size=self.kernel_size,
            capsule_size=self.capsule_size,
            routing_iterations=self.routing_iterations,
            decoder_sizes=self.decoder_sizes,
        )

    def _smaller_model_hint(self) -> str:
        return "use a smaller capsule_size or smaller decoder_sizes"
