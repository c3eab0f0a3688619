"""What the capsule networks share: lengths as class scores, capsules as representation, graphs back from them."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin
from torch import Tensor, nn

from isocapsnet._validation import InputError
from isocapsnet.functional import safe_norm
from isocapsnet.models._network import SemiSupervisedNetwork
from isocapsnet.nn import CapsuleLoss, CapsuleOutput


class CapsuleClassifier(TransformerMixin, SemiSupervisedNetwork):
    """A network whose module returns :class:`~isocapsnet.nn.CapsuleOutput`."""

    _calibrated: ClassVar[bool] = True

    reconstruction_weight: float

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """The class capsules of each graph, one after another: ``(n_graphs, n_classes * capsule_size)``."""
        graphs = self._check_fitted(X)
        return np.concatenate([output.capsules.flatten(1).cpu().numpy() for output in self._forward(graphs)])

    def reconstruct(self, X: ArrayLike) -> NDArray[np.float32]:
        """Each graph as the decoder draws it from its capsules, in original units: ``(n_graphs, n_nodes, n_nodes)``."""
        graphs = self._check_fitted(X)
        if self.reconstruction_weight == 0:
            raise InputError("This model was fitted with reconstruction_weight=0, so it has no decoder.")
        decoded = np.concatenate([output.reconstruction.cpu().numpy() for output in self._forward(graphs)])
        return self.scaler_.inverse_transform(decoded)

    def _build_criterion(self, weights: Tensor) -> nn.Module:
        return CapsuleLoss(self._setting("reconstruction_weight"), weights)

    def _class_scores(self, output: Any) -> Tensor:
        assert isinstance(output, CapsuleOutput)
        return safe_norm(output.capsules)
