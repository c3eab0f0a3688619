"""A linear layer with many weights and few graphs, such as the last one of a decoder."""

from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from isocapsnet.functional.kernels import note_use, pick_fused, run_fused, taker_of
from isocapsnet.functional.kernels.fallback import plain_gradients


def wide_linear(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``inputs @ weight.T + bias``, with a kernel of the CPU where there are many weights.

    The kernel has no second derivatives.

    Parameters
    ----------
    inputs : Tensor (n_graphs, n_in)
    weight : Tensor (n_out, n_in)
    bias : Tensor (n_out,) or None

    Returns
    -------
    Tensor (n_graphs, n_out)
    """
    note_use(weight)
    kernel = pick_fused("cpu_linear", weight)
    if kernel is not None and kernel.fits(inputs, weight, bias):
        fused = partial(_WideLinear.apply, inputs, weight, bias, kernel)
        return run_fused(weight.device, fused, partial(nn.functional.linear, inputs, weight, bias))
    return nn.functional.linear(inputs, weight, bias)


class _WideLinear(torch.autograd.Function):
    """The products are those of a kernel."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor, kernel: ModuleType) -> Tensor:
        output: Tensor = kernel.apply(inputs.detach(), weight.detach(), bias.detach())
        ctx.save_for_backward(inputs, weight, bias)
        ctx.kernel = kernel
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight, bias = ctx.saved_tensors

        def fused() -> tuple[Tensor | None, ...]:
            grad_inputs = ctx.kernel.grad_inputs(grad, weight) if ctx.needs_input_grad[0] else None
            taker = taker_of(weight) if ctx.needs_input_grad[1] else None
            return grad_inputs, ctx.kernel.grad_weight(grad, inputs, taker), grad.sum(dim=0)

        def in_torch() -> tuple[Tensor | None, ...]:
            return plain_gradients(nn.functional.linear, (inputs, weight, bias), grad)

        return *run_fused(grad.device, fused, in_torch), None
