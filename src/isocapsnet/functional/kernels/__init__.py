"""Kernels of the isomorphic match, and the choice between them.

Each module offers ``search`` and ``backward`` with the signatures of :mod:`~isocapsnet.functional.kernels.eager`.
"""

from functools import lru_cache
from importlib import import_module
from types import ModuleType

from torch import Tensor

from isocapsnet.functional.kernels import eager

__all__ = ["eager", "fused_kernel", "pick_kernel"]

MAX_KERNEL_SIZE = 8  # of the fused kernels; 9! permutations are searched by the eager one


def pick_kernel(graphs: Tensor, templates: Tensor) -> ModuleType:
    """The kernel module to use for these tensors: the fused one of their device, if there is one."""
    kernel = fused_kernel(graphs.device.type) if templates.shape[-1] <= MAX_KERNEL_SIZE else None
    return kernel or eager


@lru_cache(maxsize=8)
def fused_kernel(device_type: str) -> ModuleType | None:
    """The kernels for "cpu" (Numba) or "cuda" (Triton); None for other devices and where the compiler is missing."""
    if device_type not in ("cpu", "cuda"):
        return None
    try:
        return import_module(f"{__name__}.{device_type}")
    except ImportError:
        return None
