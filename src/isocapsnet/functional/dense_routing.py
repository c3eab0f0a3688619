"""Dynamic routing of capsules of any entries through the fused kernel of the CPU."""

from collections.abc import Callable
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
        n_graphs = len(capsules)
        windows = kernel.pack(capsules.detach().flatten(1, 3)), weight.detach().flatten(1, 2).contiguous()
        zeros = weight.new_zeros(n_graphs, len(weight), weight.shape[-1])

        def attend(context: Tensor, iteration: int) -> Tensor:
            attended = kernel.attend(*windows, leak, kernel.pack(context) if iteration else None)
            unpacked: Tensor = kernel.unpack(attended, n_graphs)
            return unpacked

        routed, contexts, sums = trace_routing(attend, zeros, iterations, scale)
        ctx.save_for_backward(contexts, sums, *windows)
        ctx.arguments = scale, leak, kernel, plain, capsules.shape, weight.shape
        return routed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_routed: Tensor) -> tuple[Tensor | None, ...]:
        contexts, sums, capsules, weight = ctx.saved_tensors
        scale, leak, kernel, plain, shape, weight_shape = ctx.arguments

        def fused() -> tuple[Tensor, ...]:
            packed = torch.stack([kernel.pack(context) for context in contexts])

            def attend_back(grad: Tensor, iteration: int) -> Tensor:
                attended = kernel.attend(capsules, weight, leak, packed[iteration], kernel.pack(grad))
                unpacked: Tensor = kernel.unpack(attended, len(grad))
                return unpacked

            grads = torch.stack([kernel.pack(grad) for grad in reverse_routing(attend_back, sums, grad_routed, scale)])
            grad_capsules, grad_weight = kernel.scatter(capsules, weight, leak, packed, grads)
            return kernel.unpack(grad_capsules, shape[0]).reshape(shape), grad_weight.view(weight_shape)

        def in_torch() -> tuple[Tensor, ...]:
            inputs = kernel.unpack(capsules, shape[0]).reshape(shape), weight.view(weight_shape)
            return plain_gradients(plain, inputs, grad_routed)

        return *run_fused(grad_routed.device, fused, in_torch), None, None, None, None, None
