"""Dynamic routing of capsules of any entries, and of images of permutations, through the fused kernel of the CPU."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from math import isqrt
from types import ModuleType
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from isocapsnet.functional.capsule import reverse_routing, trace_routing
from isocapsnet.functional.kernels import parallel_ranges, run_fused, taker_of, taking_gradients, windows_of_class
from isocapsnet.functional.kernels.fallback import plain_gradients

# Bytes of projected capsules that are in memory at a time: few enough to stay in a cache.
_PART_BYTES = 2 * 1024**2
# Graphs that fill the lanes of a vector.
_SIDE = 16

Result = TypeVar("Result")


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


class ProjectedRouting(torch.autograd.Function):
    """The same for :class:`~isocapsnet.functional.capsule.ProjectedCapsules`.

    Their entries are made for some windows at a time, and again in each iteration: they stay in a cache. ``apply(value,
    permutation, table, weight, iterations, scale, leak, kernel, images, plain)``, where ``images`` is the kernel of g,
    and ``plain(value, table, weight)`` is the same in plain torch.
    """

    @staticmethod
    def forward(
        ctx: Any,
        value: Tensor,
        permutation: Tensor,
        table: Tensor,
        weight: Tensor,
        iterations: int,
        scale: float,
        leak: bool,
        kernel: ModuleType,
        images: ModuleType,
        plain: Callable[[Tensor, Tensor, Tensor], Tensor],
    ) -> Tensor:
        orders = images.permutation_at(permutation.flatten(1), isqrt(len(table)))
        windows = _Windows(value, orders, table, weight, kernel, images)
        zeros = weight.new_zeros(len(value), len(weight), weight.shape[-1])
        routed, contexts, sums = trace_routing(partial(windows.attend, leak), zeros, iterations, scale)
        ctx.save_for_backward(value, orders, table, weight, contexts, sums)
        ctx.arguments = scale, leak, kernel, images, plain
        return routed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_routed: Tensor) -> tuple[Tensor | None, ...]:
        value, orders, table, weight, contexts, sums = ctx.saved_tensors
        scale, leak, kernel, images, plain = ctx.arguments

        def fused() -> tuple[Tensor | None, ...]:
            windows = _Windows(value, orders, table, weight, kernel, images)

            def attend_back(grad: Tensor, iteration: int) -> Tensor:
                return windows.attend(leak, contexts[iteration], iteration, grad)

            grads = reverse_routing(attend_back, sums, grad_routed, scale)
            return windows.scatter(leak, contexts, grads, ctx.needs_input_grad[2])

        plainly = partial(plain_gradients, plain, (value, table, weight), grad_routed)
        with nullcontext() if ctx.needs_input_grad[3] else taking_gradients({}):
            grad_value, grad_table, grad_weight = run_fused(grad_routed.device, fused, plainly)
        return grad_value, None, grad_table, grad_weight, *(None,) * 6


class _Windows:
    """The windows of projected capsules and their weights, some at a time."""

    def __init__(
        self, value: Tensor, orders: Tensor, table: Tensor, weight: Tensor, kernel: ModuleType, images: ModuleType
    ) -> None:
        self.shapes = value.shape, weight.shape
        self.value, self.orders = value.detach().flatten(1), orders
        self.table, self.weight = table.detach(), weight.detach().flatten(1, 2).contiguous()
        self.kernel, self.images = kernel, images

        n_graphs, self.n_windows = self.value.shape
        size = -(-n_graphs // _SIDE) * _SIDE * table.shape[1] * value.element_size()
        self.step = max(1, _PART_BYTES // max(1, size))

    def for_each_part(self, use: Callable[..., Result]) -> list[Result]:
        """``use(part, made_of, capsules, weight)`` of every part, on several threads: which windows it has, what their
        capsules are made of, the packed capsules, and the weights.
        """
        n_parts = -(-self.n_windows // self.step)
        results: list[Result | None] = [None] * n_parts

        def run(start: int, stop: int) -> None:
            for i in range(start, stop):
                part = slice(i * self.step, (i + 1) * self.step)
                made_of = self.value[:, part].contiguous(), self.orders[:, part].contiguous(), self.table
                results[i] = use(part, made_of, self.images.project(*made_of), self.weight[:, part].contiguous())

        parallel_ranges(run, n_parts)
        return cast(list[Result], results)

    def attend(self, leak: bool, context: Tensor, iteration: int, grad: Tensor | None = None) -> Tensor:
        """As in the kernel, over all windows; without a context in the first iteration."""
        pack = self.kernel.pack
        others = pack(context) if iteration else None, None if grad is None else pack(grad)
        sums = self.for_each_part(lambda _, __, capsules, weight: self.kernel.attend(capsules, weight, leak, *others))
        unpacked: Tensor = self.kernel.unpack(torch.stack(sums).sum(dim=0), len(context))
        return unpacked

    def scatter(
        self, leak: bool, contexts: Tensor, grads: Tensor, needs_table: bool
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Gradients for values, table and weights; that for the weights is given to a taker, if there is one."""
        packed = [torch.stack([self.kernel.pack(one) for one in several]) for several in (contexts, grads)]
        taker, shape = taker_of(self.weight), self.weight.shape
        grad_value = torch.empty_like(self.value)
        grad_weight = torch.empty_like(self.weight) if taker is None else None

        def scatter_part(part: slice, made_of: tuple[Tensor, ...], capsules: Tensor, weight: Tensor) -> Tensor | None:
            grad, own = self.kernel.scatter(capsules, weight, leak, *packed)
            grad_value[:, part], grad_table = self.images.project_back(*made_of, grad, needs_table)
            if grad_weight is not None:
                grad_weight[:, part] = own
            elif taker is not None:
                for y in range(len(own)):
                    taker(partial(windows_of_class, shape=shape, y=y, windows=part), own[y])
            return grad_table

        parts = self.for_each_part(scatter_part)
        grad_table = torch.stack(cast(list[Tensor], parts)).sum(dim=0) if needs_table and parts else None
        value_shape, weight_shape = self.shapes
        weights = None if grad_weight is None else grad_weight.view(weight_shape)
        return grad_value.view(value_shape), grad_table, weights
