"""Launching Triton kernels at little cost on the host.

``kernel[grid](...)`` works out anew for every launch which compiled code its arguments call for. That takes longer
than most of our kernels run, so the answer is kept here.
"""

from collections.abc import Callable
from typing import Any

import torch
import triton
from torch import Tensor

# Compiled code takes the constants that it was compiled for as well, but did not before.
_REUSABLE = tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 3)

_launchers: dict[tuple[Any, ...], Callable[..., None]] = {}


def launch(
    kernel: Any, grid: tuple[int, int, int], tensors: tuple[Tensor | None, ...], numbers: tuple[float, ...]
) -> None:
    """Launch a kernel on the device of its first tensor.

    Parameters
    ----------
    kernel : a function under ``triton.jit``
    grid : tuple of three int
    tensors, numbers : tuples
        The arguments of the kernel in its order, constants included: tensors first.
    """
    first = tensors[0]
    assert first is not None
    device = first.device.index
    if device is not None and device != torch.cuda.current_device():
        with torch.cuda.device(device):
            return launch(kernel, grid, tensors, numbers)
    # Compiled code depends on the tensors' dtypes, on which addresses 16 divides, and on properties of the numbers.
    key = (kernel.fn, device, grid, numbers, *[t if t is None else (t.dtype, t.data_ptr() % 16) for t in tensors])
    launcher = _launchers.get(key)
    if launcher is not None:
        launcher(*tensors, *numbers)
    else:
        compiled = kernel[grid](*tensors, *numbers)
        if _REUSABLE and compiled is not None:  # nothing is compiled under Triton's interpreter
            _launchers[key] = compiled[grid]
    return None
