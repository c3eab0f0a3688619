"""Kernels of the isomorphic match and of routing, and the choice between them.

A kernel of the match is a module with ``search`` and ``backward`` as in
:mod:`~isocapsnet.functional.kernels.eager`; one of the spectral match has ``search`` and ``backward`` as in
:mod:`~isocapsnet.functional.kernels.cpu_spectral`; one of routing has ``Windows``, ``fits``, ``iterate`` and
``backward`` as in :mod:`~isocapsnet.functional.kernels.cpu_routing`. They import their compilers, so they are imported
only if they are used.

Fused kernels use internals of Numba and Triton. If one fails when it is imported, compiled, read from a cache or run,
the same is computed in plain torch, which is slower. There is one warning, and the kernel is not used again. If plain
torch fails too, the input is at fault: its error is raised, and the kernel stays in use. If a kernel fails after
some weights have moved, the training step cannot be repeated, and the optimizer raises an error.
"""

import warnings
from collections.abc import Callable
from functools import lru_cache, partial
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

import torch
from torch import Tensor

from isocapsnet._validation import InputError
from isocapsnet.functional.kernels import eager
from isocapsnet.functional.kernels._buffers import forget_used, give_back, on_large_pages, reusing_buffers, zeros_like
from isocapsnet.functional.kernels._takers import (
    Taker,
    note_use,
    taker_of,
    taking_gradients,
    windows_of_class,
)
from isocapsnet.functional.kernels._threads import parallel_ranges

__all__ = [
    "MAX_KERNEL_SIZE",
    "Taker",
    "eager",
    "forget_used",
    "give_back",
    "import_kernel",
    "note_use",
    "on_large_pages",
    "parallel_ranges",
    "pick_fused",
    "pick_kernel",
    "pick_routing",
    "pick_spectral",
    "reusing_buffers",
    "run_fused",
    "run_kernel",
    "taker_of",
    "taking_gradients",
    "windows_of_class",
    "zeros_like",
]

#: Of kernels that pack a permutation into 8 half bytes; 9! permutations are searched by the eager one.
MAX_KERNEL_SIZE = 8

_COMPILERS = ("numba", "triton")
# Devices whose kernels failed. Both kernels of a device have one compiler, so neither is tried again.
_failed: set[str] = set()

# In messages of torch's allocators, which raise RuntimeError.
_LACK_OF_MEMORY = ("out of memory", "allocate memory", "not enough memory")

Result = TypeVar("Result")


def pick_kernel(graphs: Tensor, templates: Tensor) -> ModuleType:
    """The kernel of the match for these tensors: the fused one of their device, or the eager one."""
    device = graphs.device.type
    small = templates.shape[-1] <= MAX_KERNEL_SIZE
    return (import_kernel(device) if small and device not in _failed else None) or eager


def pick_routing(weight: Tensor) -> ModuleType | None:
    """The kernel of routing for weights ``(..., k², capsule_size)``, or None where there is none."""
    device = weight.device.type
    if device in _failed or import_kernel(device) is None:
        return None
    kernel = import_kernel(f"{device}_routing")
    return kernel if kernel is not None and kernel.fits(weight) else None


def pick_fused(name: str, tensor: Tensor) -> ModuleType | None:
    """The module of fused kernels of this name if it can be used for a tensor on the CPU, otherwise None."""
    usable = tensor.device.type == "cpu" and "cpu" not in _failed and tensor.dtype in (torch.float32, torch.float64)
    return import_kernel(name) if usable and import_kernel("cpu") is not None else None


def run_kernel(kernel: ModuleType, function: str, *arguments: Any) -> Any:
    """Call a function of a kernel of the match; where it fails, that of the eager one."""
    plain = partial(getattr(eager, function), *arguments)
    if kernel is eager:
        return plain()
    return run_fused(arguments[0].device, partial(getattr(kernel, function), *arguments), plain)


def pick_spectral(tensor: Tensor) -> ModuleType | None:
    """The kernel of the spectral match for tensors like this one, or None where there is none."""
    return pick_fused("cpu_spectral", tensor)


def run_fused(device: torch.device, fused: Callable[[], Result], plain: Callable[[], Result]) -> Result:
    """The result of ``fused``, or of ``plain``, the same in torch, if a kernel of the device fails.

    A kernel has failed if ``plain`` succeeds where it does not. Bad input fails in both: then the error of ``plain`` is
    raised. A lack of memory is no failure of a kernel. Neither is a transform of ``torch.func``, such as ``vmap``,
    which kernels do not support: ``plain`` is used without a warning.
    """
    try:
        return fused()
    except Exception as error:
        lacks_memory = any(words in str(error) for words in _LACK_OF_MEMORY)
        if isinstance(error, InputError | MemoryError | torch.OutOfMemoryError) or lacks_memory:
            raise
        reason = _describe(error)  # the error itself would keep the tensors of its frames
        in_transform = "functorch" in str(error)
    try:
        result = plain()
    except Exception as error:
        error.add_note(f"The fused kernel failed, too ({reason}).")
        raise
    if device.type not in _failed and not in_transform:
        _failed.add(device.type)
        _warn(reason)
    return result


@lru_cache(maxsize=16)
def import_kernel(name: str) -> ModuleType | None:
    """A module of fused kernels; None if there is none of this name or its compiler (Numba, Triton) cannot be used."""
    try:
        module = import_module(f"{__name__}.{name}")
        if name.startswith("cpu"):
            import_module(f"{__name__}._simd").forget_stale_code()  # before any of its code is loaded
        return module
    except Exception as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name in (*_COMPILERS, f"{__name__}.{name}")
        if not missing:
            _warn(_describe(error))
        return None


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _warn(reason: str) -> None:
    warnings.warn(
        f"The fused kernels cannot be used ({reason}), so matching and routing will be slow; results are the same up "
        "to rounding. Set NUMBA_CACHE_DIR to a folder that can be written to, or install the tested versions of Numba "
        "and Triton.",
        stacklevel=3,
    )
