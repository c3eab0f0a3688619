"""The batches of a fit with a spectral match: graphs and the eigenvectors of their windows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from isocapsnet.functional.relaxed import WindowVectors, distinct_windows
from isocapsnet.models._batches import GraphStore

# Eigenvectors up to this size are kept during a fit; larger ones are computed again for every batch.
_KEPT_BYTES = 1024**3


class SpectralStore(GraphStore):
    """Graphs together with the eigenvectors of their windows, which are the same in every epoch.

    Eigenvectors are those of symmetrised windows. In symmetric graphs, the window at rows t and columns s is the
    transpose of that at s and t and has the same ones, so they are kept once. Eigenvectors that need more than
    ``kept_bytes`` are not kept.
    """

    def __init__(
        self, kernel_size: int, stride: int, sort_eigenvalues: bool, *graphs: Any, kept_bytes: int | None = None
    ) -> None:
        super().__init__(*graphs)
        self.vectors: WindowVectors | None = None
        if self.resident is None:
            return
        first, _ = distinct_windows(self.resident, kernel_size, stride)
        n_bytes = 4 * len(self) * len(first) * kernel_size**2
        if n_bytes <= (_KEPT_BYTES if kept_bytes is None else kept_bytes):
            self.vectors = WindowVectors.of(self.resident, kernel_size, stride, sort_eigenvalues)

    def batch(self, positions: NDArray[np.int64], buffer: NDArray[np.float32] | None = None) -> tuple[Any, Tensor]:
        """The module's arguments and codes ``(n,)`` at positions of this subset."""
        graphs, codes = super().batch(positions, buffer)
        if self.vectors is None:
            return graphs, codes
        index = self.on_device(self.index[positions])
        vectors = WindowVectors(self.vectors.tensor, index, self.vectors.distinct)
        return {"graphs": graphs, "window_vectors": vectors}, codes
