"""What is known about the windows of graphs from earlier steps of a training."""

from typing import Any

import torch
from torch import Tensor

from isocapsnet.functional.eigenvectors import STEPS, eigenvectors
from isocapsnet.functional.kernels.eager import windows_of

#: In place of an order that is not known yet.
UNKNOWN = 255


class WindowVectors:
    """Eigenvectors ``(n_graphs, n, n, k, k)`` of the windows of some graphs. Only the part that is asked for is copied.

    Attributes
    ----------
    tensor : Tensor (n_stored, n_distinct, k, k)
        The matrices of the distinct windows of each stored graph. In symmetric graphs, the window at rows t and columns
        s is the transpose of that at s and t. If windows are symmetrised, both have the same ones, so there are only
        those with s <= t. In int16, their bits are absolute values, rounded to ``STEPS``.
    index : Tensor (n_graphs,), int64
        The rows of ``tensor`` that are meant.
    distinct : Tensor (n, n), int64
        Which of the distinct windows a window is.
    """

    def __init__(self, tensor: Tensor, index: Tensor, distinct: Tensor) -> None:
        self.tensor, self.index, self.distinct = tensor, index, distinct

    def __getitem__(self, part: tuple[Any, ...]) -> Tensor:
        graphs, *windows = part
        numbers = self.distinct[tuple(windows)]
        vectors = self.tensor[self.index[graphs].view(-1, *(1 for _ in numbers.shape)), numbers]
        return vectors if vectors.is_floating_point() else (vectors.int() & STEPS).float() / STEPS

    @classmethod
    def of(
        cls, graphs: Tensor, kernel_size: int, stride: int, symmetrise: bool, *, in_steps: bool = False
    ) -> "WindowVectors":
        """Those of all graphs; with ``in_steps``, rounded absolute values in half of the memory."""
        first, distinct = distinct_windows(graphs, kernel_size, stride, symmetrise)
        shape = len(graphs), len(first), kernel_size, kernel_size
        vectors = graphs.new_empty(shape, dtype=torch.int16 if in_steps else graphs.dtype)
        for i in range(len(graphs)):  # one at a time: all of them would be in memory twice
            windows = windows_of(graphs[i : i + 1], kernel_size, stride).flatten(1, 2)[0, first]
            own = eigenvectors(windows, symmetrise)
            vectors[i] = (own.abs() * STEPS).round().int() if in_steps else own
        return cls(vectors, torch.arange(len(graphs), device=graphs.device), distinct)


class WindowOrders:
    """The permutations that an earlier step found, which are tried first: they change seldom while templates learn.

    They have no influence on results. A batch must not have a stored graph twice, nor windows that are transposes of
    each other only in the batch: their permutations would be written at once.

    Attributes
    ----------
    tensor : Tensor (n_stored, n_distinct, n_templates, k), uint8
        Permutations of the distinct windows of each stored graph, or :data:`UNKNOWN`. Every match replaces them.
    index, distinct
        As in :class:`WindowVectors`.
    """

    def __init__(self, tensor: Tensor, index: Tensor, distinct: Tensor) -> None:
        self.tensor, self.index, self.distinct = tensor, index, distinct

    def __getitem__(self, graphs: slice) -> "WindowOrders":
        """Those of some graphs."""
        return WindowOrders(self.tensor, self.index[graphs], self.distinct)

    @classmethod
    def unknown(cls, n_stored: int, n_templates: int, kernel_size: int, distinct: Tensor) -> "WindowOrders":
        """Those of graphs that have not been matched yet."""
        shape = n_stored, int(distinct.max()) + 1, n_templates, kernel_size
        return cls(torch.full(shape, UNKNOWN, dtype=torch.uint8), torch.arange(n_stored), distinct)


def distinct_windows(graphs: Tensor, kernel_size: int, stride: int, symmetrise: bool = True) -> tuple[Tensor, Tensor]:
    """The numbers of the windows whose eigenvectors differ, and which of them each window ``(n, n)`` has."""
    n = (graphs.shape[1] - kernel_size) // stride + 1
    number = torch.arange(n * n, device=graphs.device).view(n, n)
    if symmetrise and torch.equal(graphs, graphs.transpose(1, 2)):
        number = torch.minimum(number, number.T)
    first, distinct = number.unique(return_inverse=True)
    return first, distinct.view(n, n)
