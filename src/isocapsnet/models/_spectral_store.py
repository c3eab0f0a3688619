"""The batches of a fit with a spectral match: graphs, and what is known about their windows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from isocapsnet.functional.eigenvectors import LAPACK_SIZE
from isocapsnet.functional.known_windows import WindowOrders, WindowVectors, distinct_windows
from isocapsnet.models._batches import GraphStore
from isocapsnet.models._device import available_bytes

# Eigenvectors up to this size are kept during a fit; larger ones are computed again for every batch.
_KEPT_BYTES = 1024**3


class SpectralStore(GraphStore):
    """Graphs together with the eigenvectors of their windows, which are the same in every epoch.

    With ``symmetrise``, eigenvectors are those of symmetrised windows. In symmetric graphs, the window at rows t and
    columns s is the transpose of that at s and t and has the same ones, so they are kept once. Without it, they are
    absolute values of those of the windows as they are, and each window has its own. Eigenvectors that need more than
    ``kept_bytes``, or half of the free memory, are not kept. The module then computes those of a batch; with
    ``at_once``, all of them at once.

    For a match with ``n_templates`` by permutations on a CPU, the store also keeps the permutations that the last step
    found, in the same limits.
    """

    def __init__(
        self,
        kernel_size: int,
        stride: int,
        symmetrise: bool,
        *graphs: Any,
        kept_bytes: int | None = None,
        at_once: bool = False,
        n_templates: int = 0,
    ) -> None:
        super().__init__(*graphs)
        self.at_once = at_once
        self.vectors: WindowVectors | None = None
        self.orders: WindowOrders | None = None
        n = (self.sources[0].shape[1] - kernel_size) // stride + 1
        # Of its eigenvectors. Where windows share them, they need half.
        self.bytes_of_graph = 4 * n * n * kernel_size**2
        if self.resident is None:
            return
        first, distinct = distinct_windows(self.resident, kernel_size, stride, symmetrise)
        self.bytes_of_graph = 4 * len(first) * kernel_size**2
        most = min(_KEPT_BYTES if kept_bytes is None else kept_bytes, available_bytes(self.device) // 2)
        # Absolute values in 16 bits are all that permutations of large templates are sought with.
        in_steps = n_templates > 0 and kernel_size > LAPACK_SIZE and self.device.type == "cpu"
        if len(self) * self.bytes_of_graph <= (2 * most if in_steps else most):
            self.vectors = WindowVectors.of(self.resident, kernel_size, stride, symmetrise, in_steps=in_steps)
        if self.device.type == "cpu" and 0 < len(self) * len(first) * n_templates * kernel_size <= most:
            self.orders = WindowOrders.unknown(len(self), n_templates, kernel_size, distinct)

    def bytes_in_passing(self, n_graphs: int) -> int:
        """Those of the eigenvectors, unless they are kept, or computed a few at a time."""
        return n_graphs * self.bytes_of_graph if self.vectors is None and self.at_once else 0

    def batch(self, positions: NDArray[np.int64], buffer: NDArray[np.float32] | None = None) -> tuple[Any, Tensor]:
        """The module's arguments and codes ``(n,)`` at positions of this subset."""
        graphs, codes = super().batch(positions, buffer)
        known: dict[str, Any] = {}
        index = self.on_device(self.index[positions])
        if self.vectors is not None:
            known["window_vectors"] = WindowVectors(self.vectors.tensor, index, self.vectors.distinct)
        if self.orders is not None:
            known["window_orders"] = WindowOrders(self.orders.tensor, index, self.orders.distinct)
        return {"graphs": graphs, **known} if known else graphs, codes
