"""What the capsule networks share: lengths as class scores, capsules as representation, graphs back from them."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin
from skorch import NeuralNet
from skorch.callbacks import Callback
from torch import Tensor, nn

from isocapsnet._threads import one_thread
from isocapsnet._validation import InputError
from isocapsnet.functional import margin_loss, safe_norm
from isocapsnet.models._semisupervised import SemiSupervisedNetwork
from isocapsnet.nn import CapsuleLoss, CapsuleOutput


class CapsuleClassifier(TransformerMixin, SemiSupervisedNetwork):
    """A network whose module returns :class:`~isocapsnet.nn.CapsuleOutput`."""

    reconstruction_weight: float

    @one_thread()
    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """The class capsules of each graph, one after another: ``(n_graphs, n_classes * capsule_size)``."""
        graphs = self._check_fitted(X)
        return np.concatenate([output.capsules.flatten(1).cpu().numpy() for output in self._forward(graphs)])

    @one_thread()
    def reconstruct(self, X: ArrayLike) -> NDArray[np.float32]:
        """Each graph as the decoder draws it from its capsules, in original units: ``(n_graphs, n_nodes, n_nodes)``."""
        graphs = self._check_fitted(X)
        if self.reconstruction_weight == 0:
            raise InputError("This model was fitted with reconstruction_weight=0, so it has no decoder.")
        decoded = np.concatenate([output.reconstruction.cpu().numpy() for output in self._forward(graphs)])
        return self.scaler_.inverse_transform(decoded)

    def _learns_unlabeled(self) -> bool:
        return bool(self.reconstruction_weight > 0)

    def _build_criterion(self, weights: Tensor) -> nn.Module:
        return CapsuleLoss(self.reconstruction_weight, weights)

    def _class_scores(self, output: Any) -> Tensor:
        assert isinstance(output, CapsuleOutput)
        return safe_norm(output.capsules)


class MarginReached(Callback):
    """Ends a fit when the mean margin loss of an epoch falls below ``tolerance``.

    The loss of Eq. 10 is zero once every graph is on the right side of both margins: its labels then have nothing
    left to teach, and later epochs serve the reconstruction alone.
    """

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance

    def on_epoch_begin(self, net: NeuralNet, **_: Any) -> None:
        self.total, self.count = 0.0, 0

    def on_batch_end(self, net: NeuralNet, batch: Any = None, training: bool = False, **step: Any) -> None:
        if training:
            targets = batch[1]
            self.total += float(margin_loss(safe_norm(step["y_pred"].capsules.detach()), targets).sum())
            self.count += int((targets >= 0).sum())

    def on_epoch_end(self, net: NeuralNet, **_: Any) -> None:
        if self.total < self.tolerance * self.count:
            raise KeyboardInterrupt  # skorch's way to end a fit and keep what was learned
