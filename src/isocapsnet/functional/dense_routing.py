"""Dynamic routing of capsules of any entries through the fused kernel of the CPU."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from isocapsnet.functional.capsule import dynamic_routing, squash
from isocapsnet.functional.kernels import falling_back
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
        contexts: list[Tensor] = []
        sums: list[Tensor] = []

        def attend_next(context: Tensor) -> Tensor:
            sums.append(kernel.attend(*windows, leak, context if contexts else None))
            contexts.append(context)
            return sums[-1]

        zeros = weight.new_zeros(len(capsules), len(weight), weight.shape[-1])
        routed = dynamic_routing(attend_next, zeros, iterations, scale)
        ctx.save_for_backward(torch.stack(contexts), torch.stack(sums), *windows)
        ctx.arguments = scale, leak, kernel, plain, capsules.shape, weight.shape
        return routed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_routed: Tensor) -> tuple[Tensor | None, ...]:
        contexts, sums, capsules, weight = ctx.saved_tensors
        scale, leak, kernel, plain, shape, weight_shape = ctx.arguments
        with falling_back(grad_routed.device):
            grads, grad_context = torch.empty_like(sums), torch.zeros_like(grad_routed)
            for r in reversed(range(len(sums))):
                # The last capsules are the result; the others are part of every later context.
                grad = grad_routed if r == len(sums) - 1 else grad_context
                with torch.enable_grad():
                    total = sums[r].detach().requires_grad_()
                    agreement = (squash(scale * total) * grad).sum()
                (grads[r],) = torch.autograd.grad(agreement, total)
                if r > 0:
                    grad_context += kernel.attend(capsules, weight, leak, contexts[r], grads[r])
            grad_capsules, grad_weight = kernel.scatter(capsules, weight, leak, contexts, grads)
            return grad_capsules.view(shape), grad_weight.view(weight_shape), None, None, None, None, None
        inputs = capsules.view(shape), weight.view(weight_shape)
        return *plain_gradients(plain, inputs, grad_routed), None, None, None, None, None
