"""The isomorphic neural network with the spectral relaxation of the match: FastIsoNN.

L. Meng and J. Zhang, "IsoNN: isomorphic neural network for graph representation learning and classification",
arXiv 1907.09495, 2019.
"""

from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from isocapsnet._validation import InputError, check_number
from isocapsnet.functional.permutations import MAX_NUMBERED_SIZE
from isocapsnet.functional.spectral import PROJECTIONS, check_signs
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
    symmetrise : bool
        Whether eigenvectors are those of symmetrised templates and windows, paired by the order of their eigenvalues.
        Otherwise they are absolute values of the complex eigenvectors of the matrices as they are, paired in the order
        in which ``numpy.linalg.eig`` returns them, as in the published program. ``projection="orthogonal"`` needs True.
    {preset}
    n_templates, kernel_size, stride, n_layers, hidden_sizes, dropout, template_scale, squared
        As in :class:`~isocapsnet.models.isonn.IsoNNClassifier`.
    {training_and_fitted}
    """

    PRESETS: ClassVar = {"paper": {**IsoNNClassifier.PRESETS["paper"], "symmetrise": False}}

    projection: Annotated[str, one_of(*PROJECTIONS)] = "none"
    symmetrise: Flag = True
    max_epochs: Count = 20

    @property
    def results_version(self) -> int:
        """Results with ``symmetrise=False`` have changed once more, to those of the published program's match."""
        return self.version + (not self.symmetrise)

    @classmethod
    def update_parameters(cls, parameters: dict[str, Any], version: int) -> dict[str, Any]:
        """Earlier versions had ``sort_eigenvalues``; True is now ``symmetrise=True``, and False is gone."""
        if "sort_eigenvalues" not in parameters:
            return parameters
        if not parameters["sort_eigenvalues"]:
            raise InputError(
                "it was fitted with sort_eigenvalues=False, whose match was not that of the published program; fit it "
                "again with symmetrise=False"
            )
        kept = {name: value for name, value in parameters.items() if name != "sort_eigenvalues"}
        return {**kept, "symmetrise": True}

    def _check_parameters(self, n_nodes: int) -> None:
        super()._check_parameters(n_nodes)
        check_signs(self.projection, self.symmetrise)

    def _check_kernel_size(self, n_nodes: int) -> None:
        check_number("kernel_size", self.kernel_size, low=1, high=MAX_NUMBERED_SIZE, integer=True)

    def _build_layer(self) -> IsomorphicLayer:
        sizes = self.n_templates, self.kernel_size, self.stride
        return SpectralIsomorphicLayer(*sizes, self.template_scale, self.projection, self.symmetrise)

    def _build_store(
        self, X: NDArray[Any], codes: NDArray[np.int64], device: torch.device, X_unlabeled: NDArray[Any] | None
    ) -> GraphStore:
        settings, at_once = (self.kernel_size, self.stride, self.symmetrise), self.projection != "permutation"
        return SpectralStore(*settings, X, codes, self.scaler_, device, at_once=at_once)
