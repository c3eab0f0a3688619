"""A convolution of graphs as images, and ReLU."""

from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import conv2d

from isocapsnet.functional.kernels import pick_fused, run_fused
from isocapsnet.functional.kernels.fallback import plain_gradients


def graph_convolution(graphs: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int) -> Tensor:
    """max(0, a convolution of graphs with padded borders); on a CPU, channels come last in memory.

    Parameters
    ----------
    graphs : Tensor (n_graphs, 1, n, n)
    weight : Tensor (n_out, 1, k, k)
    bias : Tensor (n_out,) or None
    stride, padding : int

    Returns
    -------
    Tensor (n_graphs, n_out, m, m)
    """
    kernel = pick_fused("cpu_convolution", graphs)
    plain = partial(_convolve_plainly, graphs, weight, bias, stride, padding)
    if kernel is None or graphs.requires_grad or not kernel.fits(graphs, weight, bias, padding):
        return plain()
    return run_fused(
        graphs.device, partial(_GraphConvolution.apply, graphs, weight, bias, stride, padding, kernel), plain
    )


def _convolve_plainly(graphs: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int) -> Tensor:
    """:func:`graph_convolution` in plain torch."""
    maps = conv2d(graphs, weight, bias, stride, padding)
    if maps.device.type == "cpu":
        maps = maps.contiguous(memory_format=torch.channels_last)  # this order is faster to convolve there
    return maps.relu()


class _GraphConvolution(torch.autograd.Function):
    """:func:`graph_convolution` by a kernel, without a gradient of the graphs."""

    @staticmethod
    def forward(
        ctx: Any, graphs: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int, kernel: ModuleType
    ) -> Tensor:
        maps = kernel.convolve(graphs.detach(), weight.detach(), bias.detach(), stride, padding)
        ctx.save_for_backward(maps, graphs, weight, bias)
        ctx.arguments = stride, padding, kernel
        result: Tensor = maps.permute(0, 3, 1, 2)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        maps, graphs, weight, bias = ctx.saved_tensors
        stride, padding, kernel = ctx.arguments
        fused = partial(kernel.backward, grad.permute(0, 2, 3, 1), maps, graphs, weight.detach(), stride, padding)

        def in_torch() -> tuple[Tensor, ...]:
            convolve = partial(_convolve_plainly, graphs, stride=stride, padding=padding)
            return plain_gradients(convolve, (weight, bias), grad)

        return None, *run_fused(grad.device, fused, in_torch), None, None, None
