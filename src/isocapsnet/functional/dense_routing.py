"""Dynamic routing of capsules of any entries through the fused kernel of the CPU."""

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from isocapsnet.functional.capsule import reverse_routing, trace_routing
from isocapsnet.functional.kernels import run_fused
from isocapsnet.functional.kernels.fallback import plain_gradients


class DenseRouting(torch.autograd.Function):
    """All iterations of routing with weights per window. Votes are recomputed when they are needed, not stored.

    ``apply(capsules, weight, iterations, scale, leak, kernel, plain)``, where ``plain(capsules, weight)`` is the same
    in plain torch, for gradients if the kernel fails.
    """

    @staticmethod
    def forward(
        ctx: Any,
        capsules: Tensor,
        weight: Tensor,
        iterations: int,
        scale: float,
        leak: bool,
        kernel: ModuleType,
        plain: Callable[[Tensor, Tensor], Tensor],
    ) -> Tensor:
        windows = capsules.detach().flatten(1, 3).contiguous(), weight.detach().flatten(1, 2).contiguous()
        zeros = weight.new_zeros(len(capsules), len(weight), weight.shape[-1])

        def attend(context: Tensor, iteration: int) -> Tensor:
            attended: Tensor = kernel.attend(*windows, leak, context if iteration else None)
            return attended

        routed, contexts, sums = trace_routing(attend, zeros, iterations, scale)
        ctx.save_for_backward(contexts, sums, *windows)
        ctx.arguments = scale, leak, kernel, plain, capsules.shape, weight.shape
        return routed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_routed: Tensor) -> tuple[Tensor | None, ...]:
        contexts, sums, capsules, weight = ctx.saved_tensors
        scale, leak, kernel, plain, shape, weight_shape = ctx.arguments

        def attend_back(grad: Tensor, iteration: int) -> Tensor:
            attended: Tensor = kernel.attend(capsules, weight, leak, contexts[iteration], grad)
            return attended

        def fused() -> tuple[Tensor, ...]:
            grads = reverse_routing(attend_back, sums, grad_routed, scale)
            grad_capsules, grad_weight = kernel.scatter(capsules, weight, leak, contexts, grads)
            return grad_capsules.view(shape), grad_weight.view(weight_shape)

        inputs = capsules.view(shape), weight.view(weight_shape)
        grads = run_fused(grad_routed.device, fused, partial(plain_gradients, plain, inputs, grad_routed))
        return *grads, None, None, None, None, None
