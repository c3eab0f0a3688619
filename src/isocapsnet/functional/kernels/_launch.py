"""Launch Triton kernels with little overhead on the host.

For every launch, ``kernel[grid](...)`` determines which compiled code fits the arguments. This takes longer than most
of our kernels, so the result is cached here.
"""

from collections.abc import Callable
from typing import Any

import torch
import triton
from torch import Tensor

# From this version on, compiled code also takes the constants as arguments.
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
