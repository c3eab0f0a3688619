"""The batches of a fit: graphs that are scaled once and stay on the device, or that are read when they are needed."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isocapsnet._validation import iter_chunks
from isocapsnet.models._scaling import InputScaler

# Scaled graphs up to this size stay on the device during the whole fit; larger sets are read batch by batch.
RESIDENT_BYTES = 256 * 1024**2
# Values that are scaled at a time.
_CHUNK_VALUES = 500_000


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
        self.resident = self._read_all() if 4 * sum(source.size for source in self.sources) <= RESIDENT_BYTES else None

    def subset(self, index: NDArray[np.int64]) -> Self:
        """The graphs at ``index``, in a store that shares its data with this one."""
        view = object.__new__(type(self))
        view.__dict__ = {**self.__dict__, "index": self.index[index]}
        return view

    def plain(self) -> "GraphStore":
        """The same graphs in a store whose batches hold nothing else."""
        view = object.__new__(GraphStore)
        view.__dict__ = self.__dict__.copy()
        return view

    @torch.no_grad()
    def mapped(self, function: Callable[[Tensor], Tensor], batch_size: int) -> "GraphStore":
        """A store of what ``function`` makes of each graph; all of it stays on the device."""
        view = self.plain()
        parts = [(function(graphs), codes) for graphs, codes in view.batches(batch_size)]
        view.resident, view.codes = (torch.cat(column) for column in zip(*parts, strict=True))
        view.index = np.arange(len(view.codes))
        return view

    def __len__(self) -> int:
        return len(self.index)

    def batches(self, batch_size: int, *, shuffle: bool = False) -> Iterator[tuple[Any, Tensor]]:
        """All graphs in batches, in their own order or in one drawn from torch's global generator.

        Graphs that are read from the array share one buffer: a batch is valid until the next one is asked for.
        """
        order = (torch.randperm(len(self)) if shuffle else torch.arange(len(self))).numpy()
        buffer = self._new_buffer(min(batch_size, len(self))) if self.resident is None else None
        for start in range(0, len(order), batch_size):
            yield self.batch(order[start : start + batch_size], buffer)

    def batch(self, positions: NDArray[np.int64], buffer: NDArray[np.float32] | None = None) -> tuple[Any, Tensor]:
        """The module's input, usually graphs ``(n, n_nodes, n_nodes)``, and codes ``(n,)`` at positions.

        Graphs that are read from the array are written to ``buffer``, where one is given.
        """
        index = self.index[positions]
        if self.resident is not None:
            rows = self.on_device(index)
            return self.resident[rows], self.codes[rows]
        order = np.argsort(index)  # in the order of the file, so that a memory map is read from front to back
        graphs = self._new_buffer(len(index)) if buffer is None else buffer[: len(index)]
        n_labeled = len(self.sources[0])
        for row, i in enumerate(index[order].tolist()):
            graph = self.sources[0][i] if i < n_labeled else self.sources[1][i - n_labeled]
            graphs[row] = self.scaler.transform(graph)
        return torch.from_numpy(graphs).to(self.device), self.codes_at(positions[order])

    def bytes_in_passing(self, n_graphs: int) -> int:
        """Bytes that the module computes from ``n_graphs`` graphs alone, and holds during a training step."""
        return 0

    def _read_all(self) -> Tensor:
        """All graphs, scaled, on the device; scaled a few at a time, so that there is no second copy of them."""
        graphs = torch.from_numpy(self._new_buffer(len(self)))
        row = 0
        for source in self.sources:
            for _, chunk in iter_chunks(source, _CHUNK_VALUES):
                graphs[row : row + len(chunk)] = torch.from_numpy(self.scaler.transform(chunk))
                row += len(chunk)
        return graphs.to(self.device)

    def _new_buffer(self, n_graphs: int) -> NDArray[np.float32]:
        return np.empty((n_graphs, *self.sources[0].shape[1:]), dtype=np.float32)

    def codes_at(self, positions: NDArray[np.int64]) -> Tensor:
        """Codes ``(n,)`` at positions of this store."""
        return self.codes[self.on_device(self.index[positions])]

    def on_device(self, index: NDArray[np.int64]) -> Tensor:
        """Indices on the device of the graphs; the host does not wait for the steps that the device still has to do."""
        return torch.from_numpy(index).to(self.device, non_blocking=True)


class Parts(NamedTuple):
    """The graphs of a fit, the codes of the labelled ones, which are first, and indices of those in each part."""

    graphs: GraphStore
    codes: NDArray[np.int64]
    training: NDArray[np.int64]
    validation: NDArray[np.int64]
