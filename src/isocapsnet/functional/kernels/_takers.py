"""Gradients of large weights that are used part by part, so that kernels of the CPU need no tensor for one whole.

During a training, a gradient is as large as its weights. Routing computes that of a window's weights from this window
alone, and an optimizer that moves each weight by itself can use it at once: after that, the weights of the window are
not needed any more in the step.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

#: Uses a part of a gradient: ``taker(part, gradient)``, where ``part`` finds the same part of any tensor of the whole
#: gradient's size.
Taker = Callable[[Callable[[Tensor], Tensor], Tensor], None]


class _Taken:
    """Weights whose gradient is taken, and how many forward passes have a share in it."""

    def __init__(self, weight: Tensor, taker: Taker) -> None:
        self.n_bytes, self.taker, self.n_uses = weight.nbytes, taker, 0


_taken: ContextVar[dict[int, _Taken] | None] = ContextVar("isocapsnet_taken", default=None)  # by their addresses


@contextmanager
def taking_gradients(takers: dict[Tensor, Taker]) -> Iterator[None]:
    """Let kernels inside give the gradients of these weights to their takers, and to no one else."""
    token = _taken.set({weight.data_ptr(): _Taken(weight, taker) for weight, taker in takers.items()})
    try:
        yield
    finally:
        _taken.reset(token)


def note_use(weight: Tensor) -> None:
    """Count a forward pass that has a share in the gradient of these weights."""
    taken = _of(weight) if weight.requires_grad and torch.is_grad_enabled() else None
    if taken is not None:
        taken.n_uses += 1


def taker_of(weight: Tensor) -> Taker | None:
    """What takes the gradient of these weights, unless several passes have a share in it, or none."""
    taken = _of(weight)
    return taken.taker if taken is not None and taken.n_uses == 1 else None


def _of(weight: Tensor) -> _Taken | None:
    every = _taken.get()
    if not every:  # tensors inside a transform of torch.func have no address
        return None
    taken = every.get(weight.data_ptr())
    is_whole = taken is not None and taken.n_bytes == weight.nbytes and weight.is_contiguous()
    return taken if is_whole else None


def windows_of_class(whole: Tensor, shape: tuple[int, ...], y: int, windows: slice) -> Tensor:
    """The part of the weights of all windows, ``(n_classes, n_windows, ...)`` in ``shape``, of one class."""
    return whole.view(shape)[y, windows]
