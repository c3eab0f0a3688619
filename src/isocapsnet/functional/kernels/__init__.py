"""Kernels of the isomorphic match, and the choice between them.

Each module offers ``search`` and ``backward`` with the signatures of :mod:`~isocapsnet.functional.kernels.eager`.
"""

from types import ModuleType

from torch import Tensor

from isocapsnet.functional.kernels import eager

__all__ = ["eager", "pick_kernel"]


def pick_kernel(graphs: Tensor, templates: Tensor) -> ModuleType:
    """The kernel module to use for these tensors."""
    return eager
