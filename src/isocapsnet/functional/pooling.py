"""A convolution followed by 2 x 2 max-pooling and ReLU."""

from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import conv2d, max_pool2d

from isocapsnet.functional.kernels import pick_fused, run_fused
from isocapsnet.functional.kernels.fallback import plain_gradients


def pooled_convolution(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """max(0, the largest of each 2 x 2 outputs of a convolution with padded borders); the sides are rounded up.

    This equals max-pooling after ReLU, with a quarter of the work.

    Parameters
    ----------
    inputs : Tensor (n_graphs, n_in, n, n)
    weight : Tensor (n_out, n_in, k, k)
        k is odd.
    bias : Tensor (n_out,)

    Returns
    -------
    Tensor (n_graphs, n_out, ⌈n/2⌉, ⌈n/2⌉)
    """
    kernel = pick_fused("cpu_pooling", inputs)
    plain = partial(_pool_plainly, inputs, weight, bias)
    fits = inputs.dim() == 4 and weight.shape == (len(bias), inputs.shape[1], *2 * weight.shape[-1:])
    is_square = inputs.shape[-1] == inputs.shape[-2] and weight.shape[-1] % 2 == 1
    if kernel is None or not fits or not is_square or not inputs.dtype == weight.dtype == bias.dtype:
        return plain()
    return run_fused(inputs.device, partial(_PooledConvolution.apply, inputs, weight, bias, kernel), plain)


def _pool_plainly(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """:func:`pooled_convolution` in plain torch."""
    return max_pool2d(conv2d(inputs, weight, bias, padding=weight.shape[-1] // 2), 2, ceil_mode=True).relu()


class _PooledConvolution(torch.autograd.Function):
    """:func:`pooled_convolution` by a kernel."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, kernel: ModuleType) -> Tensor:
        pooled, winner = kernel.convolve(inputs.detach(), weight.detach(), bias.detach())
        ctx.save_for_backward(winner, inputs, weight, bias)
        ctx.kernel = kernel
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        winner, *inputs, bias = ctx.saved_tensors
        fused = partial(ctx.kernel.backward, grad, winner, *inputs, ctx.needs_input_grad[0])
        plain = partial(plain_gradients, _pool_plainly, (*inputs, bias), grad)
        return *run_fused(grad.device, fused, plain), None
