"""The isomorphic neural network with the spectral relaxation of the match: FastIsoNN.

L. Meng and J. Zhang, "IsoNN: isomorphic neural network for graph representation learning and classification",
arXiv 1907.09495, 2019.
"""

from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from isocapsnet._validation import check_number
from isocapsnet.functional.isomorphic import PROJECTIONS
from isocapsnet.functional.permutations import MAX_NUMBERED_SIZE
from isocapsnet.models._batches import GraphStore
from isocapsnet.models._parameters import Count, Flag, estimator, one_of
from isocapsnet.models._spectral_store import SpectralStore
from isocapsnet.models.isonn import IsoNNClassifier
from isocapsnet.nn import IsomorphicLayer, SpectralIsomorphicLayer


@estimator
class FastIsoNNClassifier(IsoNNClassifier):
    """Isomorphic neural network with a spectral match (FastIsoNN, Meng & Zhang 2019).

    As :class:`~isocapsnet.models.isonn.IsoNNClassifier`, with the same attributes (``templates_`` among them), but the
    node permutation of a match is computed from the eigenvectors of template and window instead of searched among all
    k!, which is faster for templates of five nodes and more. Weighted and negative edges and the diagonal enter as they
    are, after scaling.

    Parameters
    ----------
    projection : {"none", "permutation", "orthogonal"}
        What the product of the eigenvectors becomes before the distance is taken; see
        :func:`~isocapsnet.functional.spectral_match`.
    sort_eigenvalues : bool
        Whether eigenvectors are paired by the order of their eigenvalues, or as the solver returns them.
    {preset}
    n_templates, kernel_size, stride, n_layers, hidden_sizes, dropout, template_scale, squared
        As in :class:`~isocapsnet.models.isonn.IsoNNClassifier`.
    {training_and_fitted}
    """

    PRESETS: ClassVar = {"paper": {**IsoNNClassifier.PRESETS["paper"], "sort_eigenvalues": False}}

    projection: Annotated[str, one_of(*PROJECTIONS)] = "none"
    sort_eigenvalues: Flag = True
    max_epochs: Count = 20

    def _check_kernel_size(self) -> None:
        check_number("kernel_size", self.kernel_size, low=1, high=MAX_NUMBERED_SIZE, integer=True)

    def _build_layer(self) -> IsomorphicLayer:
        sizes = self.n_templates, self.kernel_size, self.stride
        return SpectralIsomorphicLayer(*sizes, self.template_scale, self.projection, self.sort_eigenvalues)

    def _build_store(
        self, X: NDArray[Any], codes: NDArray[np.int64], device: torch.device, X_unlabeled: NDArray[Any] | None
    ) -> GraphStore:
        settings, at_once = (self.kernel_size, self.stride, self.sort_eigenvalues), self.projection != "permutation"
        return SpectralStore(*settings, X, codes, self.scaler_, device, at_once=at_once)
