"""The isomorphic neural network with the spectral relaxation of the match: FastIsoNN.

L. Meng and J. Zhang, "IsoNN: isomorphic neural network for graph representation learning and classification",
arXiv 1907.09495, 2019.
"""

from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isocapsnet._validation import check_number
from isocapsnet.functional import window_eigenvectors
from isocapsnet.functional.isomorphic import PROJECTIONS
from isocapsnet.functional.permutations import MAX_NUMBERED_SIZE
from isocapsnet.models._batches import GraphStore
from isocapsnet.models._parameters import Count, Flag, estimator, one_of
from isocapsnet.models.isonn import IsoNNClassifier, windows_per_axis
from isocapsnet.nn import IsomorphicLayer, SpectralIsomorphicLayer

# Eigenvectors up to this size are kept during a fit; larger ones are computed again for every batch.
_KEPT_BYTES = 1024**3


class _SpectralStore(GraphStore):
    """Graphs together with the eigenvectors of their windows, which are the same in every epoch."""

    def __init__(self, kernel_size: int, stride: int, sort_eigenvalues: bool, *graphs: Any) -> None:
        super().__init__(*graphs)
        n_graphs, n_nodes, _ = self.sources[0].shape
        n_values = n_graphs * (windows_per_axis(n_nodes, 1, kernel_size, stride) * kernel_size) ** 2
        self.vectors: Tensor | None = None
        if self.resident is not None and 4 * n_values <= _KEPT_BYTES:
            parts = self.resident.split(16)
            self.vectors = torch.cat(
                [window_eigenvectors(part, kernel_size, stride, sort_eigenvalues) for part in parts]
            )

    def batch(self, positions: NDArray[np.int64], buffer: NDArray[np.float32] | None = None) -> tuple[Any, Tensor]:
        """The module's arguments and codes ``(n,)`` at positions of this subset."""
        graphs, codes = super().batch(positions, buffer)
        if self.vectors is None:
            return graphs, codes
        vectors = self.vectors[torch.from_numpy(self.index[positions]).to(self.device)]
        return {"graphs": graphs, "window_vectors": vectors}, codes


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
        return _SpectralStore(self.kernel_size, self.stride, self.sort_eigenvalues, X, codes, self.scaler_, device)
