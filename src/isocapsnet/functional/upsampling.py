"""A transposed convolution that doubles the sides of maps."""

from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import conv_transpose2d

from isocapsnet.functional.kernels import pick_fused, run_fused
from isocapsnet.functional.kernels.fallback import plain_gradients


def doubling_convolution(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A transposed convolution with 4 x 4 filters, a stride of 2 and a padding of 1.

    The kernel of the CPU has no second derivatives.

    Parameters
    ----------
    inputs : Tensor (n_graphs, n_in, n, n)
    weight : Tensor (n_in, n_out, 4, 4)
    bias : Tensor (n_out,)

    Returns
    -------
    Tensor (n_graphs, n_out, 2n, 2n)
    """
    kernel = pick_fused("cpu_upsampling", inputs)
    plain = partial(_double_plainly, inputs, weight, bias)
    fits = inputs.dim() == 4 and weight.shape == (inputs.shape[1], len(bias), 4, 4)
    is_square = inputs.shape[-1] == inputs.shape[-2]
    if kernel is None or not fits or not is_square or not inputs.dtype == weight.dtype == bias.dtype:
        return plain()
    return run_fused(inputs.device, partial(_DoublingConvolution.apply, inputs, weight, bias, kernel), plain)


def _double_plainly(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """:func:`doubling_convolution` in plain torch."""
    return conv_transpose2d(inputs, weight, bias, stride=2, padding=1)


class _DoublingConvolution(torch.autograd.Function):
    """:func:`doubling_convolution` by a kernel."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, kernel: ModuleType) -> Tensor:
        ctx.save_for_backward(inputs, weight, bias)
        ctx.kernel = kernel
        doubled: Tensor = kernel.double(inputs.detach(), weight.detach(), bias.detach())
        return doubled

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight, _ = ctx.saved_tensors
        fused = partial(ctx.kernel.backward, grad, inputs, weight)
        plain = partial(plain_gradients, _double_plainly, ctx.saved_tensors, grad)
        return *run_fused(grad.device, fused, plain), None
