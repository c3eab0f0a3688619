"""Squashing of many vectors, such as the primary capsules of a convolution."""

from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from isocapsnet.functional.capsule import squash
from isocapsnet.functional.kernels import pick_fused, run_fused
from isocapsnet.functional.kernels.fallback import plain_gradients


def squash_many(x: Tensor) -> Tensor:
    """:func:`~isocapsnet.functional.squash` over the last dimension ``(..., size)``, by a kernel of the CPU.

    The kernel has no second derivatives.
    """
    kernel = pick_fused("cpu_squash", x)
    if kernel is None or not kernel.fits(x):
        return squash(x)
    return run_fused(x.device, partial(_Squash.apply, x, kernel), partial(squash, x))


class _Squash(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel: ModuleType) -> Tensor:
        ctx.save_for_backward(x)
        ctx.kernel = kernel
        squashed: Tensor = kernel.squash(x.detach())
        return squashed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        fused = partial(ctx.kernel.backward, grad, x.detach())
        return run_fused(grad.device, fused, lambda: plain_gradients(squash, (x,), grad)[0]), None
