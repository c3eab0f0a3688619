"""Where the batches of a fit come from: graphs scaled once and kept, or read from a memory map as they are needed."""

import ctypes
import sys
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isocapsnet.models._scaling import EdgeScaler

# Scaled graphs up to this size live on the device for the whole fit; larger sets are sliced batch by batch.
RESIDENT_BYTES = 256 * 1024**2
# A parameter of mallopt (malloc.h), and the size in bytes from which a block has pages of its own.
_M_MMAP_THRESHOLD, _LARGE_BLOCK = -3, 4 * 1024**2


class GraphStore(torch.utils.data.Dataset):
    """Scaled graphs and their class codes, resident on the device where they fit, read from the array where not.

    Parameters
    ----------
    X : array (n_graphs, n_nodes, n_nodes)
    codes : array (n_graphs,)
    scaler : EdgeScaler
    device : torch.device
    X_unlabeled : array (n_unlabeled, n_nodes, n_nodes), optional
        Counted after the labelled graphs, with code -1.
    """

    def __init__(
        self,
        X: NDArray[Any],
        codes: NDArray[np.int64],
        scaler: EdgeScaler,
        device: torch.device,
        X_unlabeled: NDArray[Any] | None = None,
    ) -> None:
        self.sources = [X] if X_unlabeled is None else [X, X_unlabeled]
        self.scaler, self.device = scaler, device
        n_unlabeled = 0 if X_unlabeled is None else len(X_unlabeled)
        self.codes = torch.from_numpy(np.concatenate([codes, np.full(n_unlabeled, -1)])).to(device)
        self.index = np.arange(len(self.codes))
        self.resident: Tensor | None = None
        if 4 * sum(source.size for source in self.sources) <= RESIDENT_BYTES:
            scaled = [torch.from_numpy(scaler.transform(source)) for source in self.sources]
            self.resident = torch.cat(scaled).to(device)
        else:
            _return_large_blocks()

    def subset(self, index: NDArray[np.int64]) -> Self:
        """The same store seen through ``index``; nothing is copied."""
        view = object.__new__(type(self))
        view.__dict__ = {**self.__dict__, "index": self.index[index]}
        return view

    def __len__(self) -> int:
        return len(self.index)

    def batch(self, positions: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Graphs ``(n, n_nodes, n_nodes)`` and codes ``(n,)`` at positions of this subset."""
        index = self.index[positions]
        if self.resident is not None:
            return self.resident[torch.from_numpy(index).to(self.device)], self.codes_at(positions)
        order = np.argsort(index)  # in file order: a memory map is then read front to back
        index = index[order]
        n_labeled = len(self.sources[0])
        parts = [self.sources[0][index[index < n_labeled]]]
        if index[-1] >= n_labeled:
            parts.append(self.sources[1][index[index >= n_labeled] - n_labeled])
        graphs = torch.cat([torch.from_numpy(self.scaler.transform(part)) for part in parts])
        return graphs.to(self.device), self.codes_at(positions[order])

    def codes_at(self, positions: NDArray[np.int64]) -> Tensor:
        """Codes ``(n,)`` at positions of this subset."""
        return self.codes[torch.from_numpy(self.index[positions]).to(self.device)]


class Batches:
    """Whole batches from a :class:`GraphStore`, without per-sample collation.

    Parameters
    ----------
    dataset : GraphStore
    batch_size : int
    shuffle : bool
        By torch's generator, which the fit has forked and seeded.
    """

    def __init__(self, dataset: GraphStore, batch_size: int, shuffle: bool = False) -> None:
        self.dataset, self.batch_size, self.shuffle = dataset, batch_size, shuffle

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for positions in self.positions():
            yield self.dataset.batch(positions)

    def positions(self) -> Iterator[NDArray[np.int64]]:
        """The positions ``(n,)`` of each batch of an epoch."""
        order = self.order().numpy()
        for start in range(0, len(order), self.batch_size):
            yield order[start : start + self.batch_size]

    def order(self) -> Tensor:
        """In which order an epoch goes through the dataset."""
        n = len(self.dataset)
        return torch.randperm(n) if self.shuffle else torch.arange(n)

    def __len__(self) -> int:
        return -(-len(self.dataset) // self.batch_size)


def _return_large_blocks() -> None:
    """Have glibc give large blocks back as soon as they are freed, from now on.

    Left alone it takes the sizes that it sees for ordinary ones, and keeps what is freed below 32 MB, in pieces: 100 MB
    after some hundred batches that were read from a file.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)
