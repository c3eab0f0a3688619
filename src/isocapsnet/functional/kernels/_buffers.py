"""Large tensors of a training: on large pages, and with memory that the next step uses again.

The C library returns large blocks to the operating system when they are freed. The system clears them when they are
allocated again, and that takes as long as computing what is written to them. The optimizer reads and writes all
weights, gradients and moments in each step, and with small pages, finding these in memory takes a sixth of its time.
"""

import ctypes
import math
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

# glibc returns blocks of this size to the operating system when they are freed. Smaller ones are left to it: it learns
# from their sizes how much free memory to keep.
_NEVER_KEPT = 32 * 1024**2
# Twice the size of a large page, where small ones have 4 KiB.
_LARGE = 4 * 1024**2


class _Buffers:
    """Memory that is free, and memory that is in use, by its address."""

    def __init__(self) -> None:
        self.free: list[Tensor] = []
        self.used: dict[int, Tensor] = {}


_buffers: ContextVar[_Buffers | None] = ContextVar("isocapsnet_buffers", default=None)


@contextmanager
def reusing_buffers() -> Iterator[None]:
    """Use memory that is given back inside again for the next tensor, and free it afterwards. Also a decorator."""
    token = _buffers.set(_Buffers())
    try:
        yield
    finally:
        _buffers.reset(token)


def take(like: Tensor, *shape: int) -> Tensor:
    """A tensor with the type of ``like`` and any content, on large pages if it is large."""
    buffers, size = _buffers.get(), math.prod(shape)
    if buffers is None or size * like.element_size() < _NEVER_KEPT:
        return _ask_for_large_pages(like.new_empty(shape))
    fits = [i for i, free in enumerate(buffers.free) if free.numel() >= size and free.dtype == like.dtype]
    memory = buffers.free.pop(fits[0]) if fits else _ask_for_large_pages(like.new_empty(size))
    buffers.used[memory.data_ptr()] = memory
    return memory[:size].view(shape)


def give_back(tensor: Tensor | None) -> None:
    """Let the memory of a tensor of :func:`take`, which must not be used any more, be used again."""
    buffers = _buffers.get()
    if buffers is not None and tensor is not None and tensor.data_ptr() in buffers.used:
        buffers.free.append(buffers.used.pop(tensor.data_ptr()))


def zeros_like(tensor: Tensor) -> Tensor:
    """Zeros in the shape of a tensor, on large pages if they are large."""
    return _ask_for_large_pages(torch.empty_like(tensor)).zero_()


def forget_used() -> None:
    """Stop holding memory that was not given back, such as that of a pass without gradients."""
    buffers = _buffers.get()
    if buffers is not None:
        buffers.used.clear()


def on_large_pages(tensor: Tensor) -> Tensor:
    """A copy of a tensor on large pages; the tensor itself if it is small, shared, on a GPU, or if there are none."""
    has_pages = hasattr(mmap, "MADV_HUGEPAGE") and tensor.device.type == "cpu" and tensor.layout == torch.strided
    if not has_pages or tensor.nbytes < _LARGE or tensor.is_shared():
        return tensor
    return _ask_for_large_pages(torch.empty_like(tensor)).copy_(tensor)


def _ask_for_large_pages(tensor: Tensor) -> Tensor:
    """The same tensor, which nothing was written to. Small pages take four times as long to be cleared."""
    if tensor.nbytes >= _LARGE and tensor.device.type == "cpu" and hasattr(mmap, "MADV_HUGEPAGE"):
        start = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        length = tensor.data_ptr() + tensor.nbytes - start
        # This is only advice; the result is the same without it.
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), mmap.MADV_HUGEPAGE)
    return tensor
