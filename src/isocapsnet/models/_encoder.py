"""Base class of the networks with one representation per graph: output, loss, ``transform``."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from isocapsnet._threads import one_thread
from isocapsnet.models._base import RepresentationMixin
from isocapsnet.models._network import NetworkClassifier


class EncoderOutput(NamedTuple):
    """The output of an encoder for a batch.

    Attributes
    ----------
    logits : Tensor (n_graphs, n_classes)
    code : Tensor (n_graphs, code_size)
        The representation, from which the logits are a linear map or an MLP.
    reconstruction, graphs : Tensor (n_graphs, n_nodes, n_nodes) or None
        The reconstruction by the decoder, and its target.
    """

    logits: Tensor
    code: Tensor
    reconstruction: Tensor | None = None
    graphs: Tensor | None = None


class EncoderLoss(nn.Module):
    """Cross-entropy + δ · mean squared error of the reconstruction.

    Unlabelled graphs (target -1) take part in the reconstruction alone.

    Parameters
    ----------
    class_weight : Tensor (n_classes,)
    reconstruction_weight : float
        δ.
    """

    class_weight: Tensor

    def __init__(self, class_weight: Tensor, reconstruction_weight: float = 0.0) -> None:
        super().__init__()
        self.reconstruction_weight = reconstruction_weight
        self.register_buffer("class_weight", class_weight)

    def forward(self, output: EncoderOutput, targets: Tensor) -> Tensor:
        """The mean loss of a batch with targets ``(n_graphs,)``."""
        # A sum divided by the weights: for a batch without labels it is 0, whereas torch's mean is NaN.
        loss = cross_entropy(output.logits, targets, self.class_weight, ignore_index=-1, reduction="sum")
        weights = self.class_weight[targets.clamp_min(0)] * (targets >= 0)
        loss = loss / weights.sum().clamp_min(1e-12)
        if output.reconstruction is not None and output.graphs is not None:
            loss = loss + self.reconstruction_weight * mse_loss(output.reconstruction, output.graphs)
        return loss


class EncoderClassifier(RepresentationMixin, NetworkClassifier):
    """A network whose module returns :class:`EncoderOutput`, or another tuple with ``logits`` and ``code``."""

    @one_thread()
    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """The representation of each graph ``(n_graphs, code_size)``."""
        graphs = self._check_fitted(X)
        return np.concatenate([output.code.cpu().numpy() for output in self._forward(graphs)])

    @property
    def _n_features_out(self) -> int:  # type: ignore[override]
        empty = np.zeros((1, self.n_nodes_in_, self.n_nodes_in_), dtype=np.float32)
        return int(next(self._forward(empty)).code.shape[1])

    def _build_criterion(self, weights: Tensor) -> nn.Module:
        return EncoderLoss(weights, getattr(self, "reconstruction_weight", 0.0))

    def _class_scores(self, output: Any) -> Tensor:
        return output.logits


def fully_connected(sizes: Sequence[int], dropout: float) -> nn.Sequential:
    """Linear layers with ReLU after each and dropout before each: ``(b, sizes[0])`` to ``(b, sizes[-1])``."""
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        layers += [nn.Dropout(dropout), nn.Linear(n_in, n_out), nn.ReLU()]
    return nn.Sequential(*layers)
