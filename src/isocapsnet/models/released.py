"""Iso-CapsNet as its authors' published program computes it.

J. Zhang, "Iso-CapsNet: isomorphic capsule network for brain graph representation learning", arXiv 2206.13465, 2022; the
program differs from the paper.
"""

from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from isocapsnet.functional.isomorphic import check_exact_size
from isocapsnet.models._batches import GraphStore
from isocapsnet.models._parameters import Count, Positive, estimator, with_parameters
from isocapsnet.models._templates import TemplateClassifier
from isocapsnet.nn import CapsuleLoss, ReleasedIsoCapsNet


class _InOrder(GraphStore):
    """Batches of random graphs, each in the order of the data: the order of a sum changes its last bits."""

    def batch(self, positions: NDArray[np.int64], buffer: NDArray[np.float32] | None = None) -> tuple[Any, Tensor]:
        """The graphs and codes at positions, in ascending order."""
        return super().batch(np.sort(positions), buffer)


@estimator
class ReleasedIsoCapsNetClassifier(TemplateClassifier):
    """What the authors' published program runs under the name Iso-CapsNet, for reproduction.

    One template is matched with every window; the squared distance (large for a bad match) times the winning
    permutation is squashed, its zeros are set to -1, and class capsules are routed with a softmax over windows. There
    are two classes and no residual. The decoder sees the predicted class alone, in training too, and ends in a sigmoid.
    Graphs enter as they are, unscaled, and training runs for all epochs; nothing is held out and probabilities are not
    calibrated. Rounding in float32 decides between permutations that are nearly as good, as it does in the program: see
    :func:`~isocapsnet.functional.released_match`.

    Use :class:`~isocapsnet.models.isocapsnet.IsoCapsNetClassifier` to classify graphs. This one exists to compare its
    results with those of the paper.

    If a window equals the template, the squash of the program divides 0 by 0: the gradient is NaN, and so are all
    weights after it. ``fit`` raises InputError in this case; ``predict`` uses a capsule of -1.

    Parameters
    ----------
    kernel_size : int
        Nodes of the template; k in the paper. Time and memory grow with k!; at most 9.
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
        Graphs in a step, and passes over all graphs.
    {running}

    Attributes
    ----------
    templates_ : array (1, k, k)
    {fitted}
    """

    version: ClassVar[int] = 2

    _max_classes: ClassVar[int | None] = 2
    _decoupled_weight_decay: ClassVar[bool] = False
    _smaller_model_hint = "use a smaller capsule_size or smaller decoder_sizes"

    learning_rate: Positive = 0.01
    batch_size: Count = 64
    max_epochs: Count = 17

    # Parameters of the other networks that the published program does not have.
    calibrate: bool = field(default=False, init=False)
    scaling: str = field(default="none", init=False)
    patience: int | None = field(default=None, init=False)
    validation_fraction: float = field(default=0.0, init=False)
    class_weight: Any = field(default=None, init=False)

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # type: ignore[override]  # the program has no unlabelled graphs
        """Fit to graphs ``X`` ``(n_graphs, n_nodes, n_nodes)`` and labels ``y`` ``(n_graphs,)`` of two classes."""
        return super().fit(X, y)

    def _check_parameters(self, n_nodes: int) -> None:
        super()._check_parameters(n_nodes)
        # A fit with nine nodes would take days.
        check_exact_size(self.kernel_size, "IsoCapsNetClassifier with matching='spectral'", most=8)

    def _build_criterion(self, weights: Tensor) -> nn.Module:
        return CapsuleLoss(self.reconstruction_weight, squared=True)

    def _build_store(self, X: Any, codes: Any, *others: Any) -> GraphStore:
        return _InOrder(X, codes, self.scaler_, *others)

    def _build_module(self, n_nodes: int, n_classes: int) -> nn.Module:
        return with_parameters(ReleasedIsoCapsNet, self, n_nodes, n_classes)
