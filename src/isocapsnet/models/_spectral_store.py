"""The batches of a fit with a spectral match: graphs and the eigenvectors of their windows."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isocapsnet.functional import window_eigenvectors
from isocapsnet.models._batches import GraphStore

# Eigenvectors up to this size are kept during a fit; larger ones are computed again for every batch.
_KEPT_BYTES = 1024**3


class Rows:
    """Rows of a tensor ``(n, m, ...)``. Only the part that is asked for is copied."""

    def __init__(self, tensor: Tensor, index: Tensor) -> None:
        self.tensor, self.index = tensor, index

    def __getitem__(self, part: tuple[slice, slice]) -> Tensor:
        return self.tensor[self.index[part[0]], part[1]]


class SpectralStore(GraphStore):
    """Graphs together with the eigenvectors of their windows, which are the same in every epoch.

    Eigenvectors that need more than ``kept_bytes`` are not kept.
    """

    def __init__(
        self, kernel_size: int, stride: int, sort_eigenvalues: bool, *graphs: Any, kept_bytes: int | None = None
    ) -> None:
        super().__init__(*graphs)
        n_nodes = self.sources[0].shape[1]
        n_values = len(self) * (((n_nodes - kernel_size) // stride + 1) * kernel_size) ** 2
        self.vectors: Tensor | None = None
        if self.resident is not None and 4 * n_values <= (_KEPT_BYTES if kept_bytes is None else kept_bytes):
            for i, graph in enumerate(self.resident):  # one at a time: all of them would be in memory twice
                vectors = window_eigenvectors(graph[None], kernel_size, stride, sort_eigenvalues)
                if self.vectors is None:
                    self.vectors = vectors.new_empty(len(self), *vectors.shape[1:])
                self.vectors[i] = vectors[0]

    def batch(self, positions: NDArray[np.int64], buffer: NDArray[np.float32] | None = None) -> tuple[Any, Tensor]:
        """The module's arguments and codes ``(n,)`` at positions of this subset."""
        graphs, codes = super().batch(positions, buffer)
        if self.vectors is None:
            return graphs, codes
        vectors = Rows(self.vectors, torch.from_numpy(self.index[positions]).to(self.device))
        return {"graphs": graphs, "window_vectors": vectors}, codes
