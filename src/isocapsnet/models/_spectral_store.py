"""The batches of a fit with a spectral match: graphs and the eigenvectors of their windows."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isocapsnet.functional.eigenvectors import eigenvectors
from isocapsnet.functional.kernels.eager import windows_of
from isocapsnet.models._batches import GraphStore

# Eigenvectors up to this size are kept during a fit; larger ones are computed again for every batch.
_KEPT_BYTES = 1024**3


class Rows:
    """Eigenvectors ``(n_graphs, n, n, k, k)`` of some graphs. Only the part that is asked for is copied.

    ``tensor`` ``(..., n_distinct, k, k)`` has the matrices of the distinct windows of a graph; ``distinct`` ``(n, n)``
    says which of them a window has.
    """

    def __init__(self, tensor: Tensor, index: Tensor, distinct: Tensor) -> None:
        self.tensor, self.index, self.distinct = tensor, index, distinct

    def __getitem__(self, part: tuple[slice, slice]) -> Tensor:
        return self.tensor[self.index[part[0], None, None], self.distinct[part[1]]]


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
        n = (self.sources[0].shape[1] - kernel_size) // stride + 1
        self.vectors: Tensor | None = None
        if self.resident is None:
            return
        places = torch.arange(n * n, device=self.device).view(n, n)
        if torch.equal(self.resident, self.resident.transpose(1, 2)):
            places = torch.minimum(places, places.T)
        first, distinct = places.unique(return_inverse=True)
        self.distinct = distinct.view(n, n)
        shape = len(self), len(first), kernel_size, kernel_size
        if 4 * math.prod(shape) > (_KEPT_BYTES if kept_bytes is None else kept_bytes):
            return
        self.vectors = self.resident.new_empty(shape)
        for i, graph in enumerate(self.resident):  # one at a time: all of them would be in memory twice
            windows = windows_of(graph[None], kernel_size, stride).flatten(1, 2)[0, first]
            self.vectors[i] = eigenvectors(windows, sort_eigenvalues)

    def batch(self, positions: NDArray[np.int64], buffer: NDArray[np.float32] | None = None) -> tuple[Any, Tensor]:
        """The module's arguments and codes ``(n,)`` at positions of this subset."""
        graphs, codes = super().batch(positions, buffer)
        if self.vectors is None:
            return graphs, codes
        vectors = Rows(self.vectors, self.on_device(self.index[positions]), self.distinct)
        return {"graphs": graphs, "window_vectors": vectors}, codes
