"""The batches of a fit: graphs that are scaled once and stay on the device, or that are read when they are needed."""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isocapsnet.models._scaling import InputScaler

# Scaled graphs up to this size stay on the device during the whole fit; larger sets are read batch by batch.
RESIDENT_BYTES = 256 * 1024**2


class GraphStore:
    """Scaled graphs and their class codes.

    Parameters
    ----------
    X : array (n_graphs, n_nodes, n_nodes)
    codes : array (n_graphs,)
    scaler : InputScaler
    device : torch.device
    X_unlabeled : array (n_unlabeled, n_nodes, n_nodes), optional
        These follow the labelled graphs and have the code -1.
    """

    def __init__(
        self,
        X: NDArray[Any],
        codes: NDArray[np.int64],
        scaler: InputScaler,
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

    def subset(self, index: NDArray[np.int64]) -> Self:
        """The graphs at ``index``, in a store that shares its data with this one."""
        view = object.__new__(type(self))
        view.__dict__ = {**self.__dict__, "index": self.index[index]}
        return view

    def __len__(self) -> int:
        return len(self.index)

    def batches(self, batch_size: int, *, shuffle: bool = False) -> Iterator[tuple[Any, Tensor]]:
        """All graphs in batches, in their own order or in one drawn from torch's global generator."""
        order = (torch.randperm(len(self)) if shuffle else torch.arange(len(self))).numpy()
        for start in range(0, len(order), batch_size):
            yield self.batch(order[start : start + batch_size])

    def batch(self, positions: NDArray[np.int64]) -> tuple[Any, Tensor]:
        """The module's input, usually graphs ``(n, n_nodes, n_nodes)``, and codes ``(n,)`` at positions."""
        index = self.index[positions]
        if self.resident is not None:
            return self.resident[torch.from_numpy(index).to(self.device)], self.codes_at(positions)
        order = np.argsort(index)  # in the order of the file, so that a memory map is read from front to back
        index = index[order]
        n_labeled = len(self.sources[0])
        parts = [self.sources[0][index[index < n_labeled]]]
        if index[-1] >= n_labeled:
            parts.append(self.sources[1][index[index >= n_labeled] - n_labeled])
        graphs = torch.cat([torch.from_numpy(self.scaler.transform(part)) for part in parts])
        return graphs.to(self.device), self.codes_at(positions[order])

    def codes_at(self, positions: NDArray[np.int64]) -> Tensor:
        """Codes ``(n,)`` at positions of this store."""
        return self.codes[torch.from_numpy(self.index[positions]).to(self.device)]
