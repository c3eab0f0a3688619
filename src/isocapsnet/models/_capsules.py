"""Base class of the capsule networks: class scores, representation, reconstruction."""

from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from isocapsnet._state import State, check_truth
from isocapsnet._threads import one_thread
from isocapsnet._validation import InputError
from isocapsnet.functional import margin_loss, safe_norm
from isocapsnet.models._base import RepresentationMixin
from isocapsnet.models._parameters import Count, NotNegative, SizesOrEmpty, estimator, in_range
from isocapsnet.models._semisupervised import SemiSupervisedNetwork
from isocapsnet.models._training import History
from isocapsnet.nn import CapsuleLoss, CapsuleOutput
from isocapsnet.nn.capsule import MAX_ROUTING_ITERATIONS


@estimator
class CapsuleClassifier(RepresentationMixin, SemiSupervisedNetwork):
    """A network whose module returns :class:`~isocapsnet.nn.CapsuleOutput`."""

    capsule_size: Count = 16
    routing_iterations: Annotated[int, in_range(1, MAX_ROUTING_ITERATIONS, integer=True)] = 3
    decoder_sizes: SizesOrEmpty = (512, 1024)
    reconstruction_weight: NotNegative = 0.0005

    @one_thread()
    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """The class capsules of each graph, concatenated: ``(n_graphs, n_classes * capsule_size)``."""
        graphs = self._check_fitted(X)
        return np.concatenate([output.capsules.flatten(1).cpu().numpy() for output in self._forward(graphs)])

    @one_thread()
    def reconstruct(self, X: ArrayLike) -> NDArray[np.float32]:
        """Each graph as decoded from its capsules, in original units: ``(n_graphs, n_nodes, n_nodes)``."""
        graphs = self._check_fitted(X)
        if self.reconstruction_weight == 0:
            raise InputError("This model was fitted with reconstruction_weight=0, so it has no decoder.")
        if not self._has_decoder:
            raise InputError("This model was saved without its decoder; save it with decoder=True to reconstruct.")
        decoded = np.concatenate([output.reconstruction.cpu().numpy() for output in self._forward(graphs)])
        return self.scaler_.inverse_transform(decoded)

    @property
    def _n_features_out(self) -> int:  # type: ignore[override]
        return len(self.classes_) * self.capsule_size

    @property
    def _has_decoder(self) -> bool:
        return getattr(self.module_, "decoder", None) is not None

    def _build_stored(self, values: dict[str, Any]) -> nn.Module:
        module = super()._build_stored(values)
        if not check_truth("decoder", values.get("decoder", True)):
            module.register_module("decoder", None)
        return module

    def _get_state(self) -> State:
        values, arrays = super()._get_state()
        is_left_out = self.reconstruction_weight > 0 and hasattr(self.module_, "decoder") and not self._has_decoder
        return values | ({"decoder": False} if is_left_out else {}), arrays

    def _without_effect(self) -> dict[str, str]:
        reasons = (
            {} if self.reconstruction_weight else {"decoder_sizes": "reconstruction_weight=0, so there is no decoder"}
        )
        return super()._without_effect() | reasons

    def _learns_unlabeled(self) -> bool:
        return bool(self.reconstruction_weight > 0)

    def _build_criterion(self, weights: Tensor) -> nn.Module:
        return CapsuleLoss(self.reconstruction_weight, weights)

    def _class_scores(self, output: Any) -> Tensor:
        return safe_norm(output.capsules)


class MarginReached:
    """A callback that stops the training when the mean margin loss of an epoch falls below ``tolerance``.

    The loss of Eq. 10 is zero once every graph is on the right side of both margins. The labels then have nothing left
    to teach, and later epochs only improve the reconstruction.
    """

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.batches: list[tuple[Tensor, Tensor]] = []

    def on_batch_end(self, output: CapsuleOutput, codes: Tensor) -> None:
        """Note the sum of the margin losses of a batch and its number of labelled graphs, without waiting for a GPU."""
        losses = margin_loss(safe_norm(output.capsules.detach()), codes)
        self.batches.append((losses.sum(), (codes >= 0).sum()))

    def on_epoch_end(self, history: History) -> bool:
        """Whether the mean over the epoch is below the tolerance."""
        losses, n_labelled = (sum(torch.stack(column).tolist()) for column in zip(*self.batches, strict=True))
        self.batches.clear()
        return losses < self.tolerance * n_labelled
