"""Kernels of the isomorphic match and of routing, and the choice between them.

A kernel of the match is a module with ``search`` and ``backward`` as in
:mod:`~isocapsnet.functional.kernels.eager`; one of routing has ``Windows``, ``iterate``,
``differentiate`` and ``scatter`` as in :mod:`~isocapsnet.functional.kernels.cpu_routing`. They import their compilers,
so they are imported when picked.
"""

import warnings
from functools import lru_cache
from importlib import import_module
from types import ModuleType

from torch import Tensor

from isocapsnet.functional.kernels import eager

__all__ = ["eager", "pick_kernel", "pick_routing"]

MAX_KERNEL_SIZE = 8  # of the fused kernels; 9! permutations are searched by the eager one


def pick_kernel(graphs: Tensor, templates: Tensor) -> ModuleType:
    """The kernel of the match for these tensors: the fused one of their device, or the eager one."""
    kernel = import_kernel(graphs.device.type) if templates.shape[-1] <= MAX_KERNEL_SIZE else None
    return kernel or eager


def pick_routing(weight: Tensor) -> ModuleType | None:
    """The kernel of routing for weights ``(..., capsule_size)``, or None where there is none."""
    kernel = import_kernel(f"{weight.device.type}_routing")
    return kernel if kernel is not None and kernel.fits(weight) else None


@lru_cache(maxsize=8)
def import_kernel(name: str) -> ModuleType | None:
    """A module of fused kernels; None if there is none of this name or its compiler (Numba, Triton) is missing."""
    try:
        return import_module(f"{__name__}.{name}")
    except ImportError:
        return None
    except RuntimeError as error:  # Numba says so where it finds no folder for compiled code
        warnings.warn(
            f"The fused kernels cannot be used ({error}), so matching and routing will be slow; set NUMBA_CACHE_DIR to "
            "a folder that can be written to.",
            stacklevel=2,
        )
        return None
