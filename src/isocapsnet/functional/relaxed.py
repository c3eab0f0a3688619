"""Distances of FastIsoNN's relaxed match without its matrices: the windows are constant, and only templates learn."""

from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from isocapsnet.functional.capsule import safe_norm
from isocapsnet.functional.eigenvectors import eigenvectors
from isocapsnet.functional.isomorphic import check_match_input
from isocapsnet.functional.kernels import pick_fused, run_fused
from isocapsnet.functional.kernels.eager import windows_of
from isocapsnet.functional.kernels.fallback import plain_gradients
from isocapsnet.functional.known_windows import WindowVectors
from isocapsnet.functional.spectral import check_known, spectral_match


def relaxed_distances(
    graphs: Tensor,
    templates: Tensor,
    stride: int = 1,
    window_vectors: WindowVectors | None = None,
    symmetrise: bool = True,
) -> Tensor:
    """The distances ``(n_graphs, n_templates, n, n)`` of ``spectral_match`` with ``projection="none"``.

    With P = |U₂||U₁|ᵀ, P K Pᵀ = |U₂| M |U₂|ᵀ, where M = |U₁|ᵀ K |U₁| belongs to the template alone.

    Parameters
    ----------
    graphs, templates, stride, symmetrise
        As in :func:`~isocapsnet.functional.spectral_match`.
    window_vectors : WindowVectors, optional
    """
    check_match_input(graphs, templates, stride)
    check_known(graphs, templates, stride, window_vectors)
    kernel = None if graphs.requires_grad else pick_fused("cpu_relaxed", graphs)

    def plain() -> Tensor:
        arguments: tuple[Any, ...] = graphs, templates, stride, "none", window_vectors, symmetrise
        return spectral_match(*arguments).distance

    if kernel is None:
        return plain()
    with torch.no_grad():
        if window_vectors is None:
            window_vectors = WindowVectors.of(graphs, templates.shape[-1], stride, symmetrise)
        own = eigenvectors(templates, symmetrise).abs()
    middle = own.transpose(1, 2) @ templates @ own
    fused = partial(_RelaxedDistance.apply, middle, graphs, window_vectors, stride, kernel)
    return run_fused(graphs.device, fused, plain)


class _RelaxedDistance(torch.autograd.Function):
    """‖V M Vᵀ - A‖_F of every window, with the gradient of M."""

    @staticmethod
    def forward(
        ctx: Any, middle: Tensor, graphs: Tensor, vectors: WindowVectors, stride: int, kernel: ModuleType
    ) -> Tensor:
        distance: Tensor = kernel.distances(graphs, vectors.tensor, vectors.index, middle, stride)
        ctx.save_for_backward(distance, graphs, middle)
        ctx.arguments = vectors, stride, kernel
        return distance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        distance, graphs, middle = ctx.saved_tensors
        vectors, stride, kernel = ctx.arguments
        fused = partial(kernel.backward, grad, distance, graphs, vectors.tensor, vectors.index, middle, stride)

        def measure(middle: Tensor) -> Tensor:
            own = vectors[:, :].abs()[:, None]
            matched = own @ middle[:, None, None] @ own.transpose(-1, -2)
            return safe_norm((matched - windows_of(graphs, middle.shape[-1], stride)[:, None]).flatten(-2))

        def plain() -> Tensor:
            return plain_gradients(measure, (middle,), grad)[0]

        return run_fused(grad.device, fused, plain), None, None, None, None
