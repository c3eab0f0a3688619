"""Distances of FastIsoNN's relaxed match without its matrices: the windows are constant, and only templates learn."""

from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from isocapsnet.functional.capsule import safe_norm
from isocapsnet.functional.eigenvectors import eigenvectors
from isocapsnet.functional.isomorphic import check_match_input, spectral_match
from isocapsnet.functional.kernels import pick_fused, run_fused
from isocapsnet.functional.kernels.eager import windows_of
from isocapsnet.functional.kernels.fallback import plain_gradients


class WindowVectors:
    """Eigenvectors ``(n_graphs, n, n, k, k)`` of the windows of some graphs. Only the part that is asked for is copied.

    Attributes
    ----------
    tensor : Tensor (n_stored, n_distinct, k, k)
        The matrices of the distinct windows of each stored graph. In symmetric graphs, the window at rows t and columns
        s is the transpose of that at s and t and has the same ones, so there are only those with s >= t.
    index : Tensor (n_graphs,), int64
        The rows of ``tensor`` that are meant.
    distinct : Tensor (n, n), int64
        Which of the distinct windows a window is.
    """

    def __init__(self, tensor: Tensor, index: Tensor, distinct: Tensor) -> None:
        self.tensor, self.index, self.distinct = tensor, index, distinct

    def __getitem__(self, part: tuple[Any, ...]) -> Tensor:
        graphs, *windows = part
        numbers = self.distinct[tuple(windows)]
        return self.tensor[self.index[graphs].view(-1, *(1 for _ in numbers.shape)), numbers]

    @classmethod
    def of(cls, graphs: Tensor, kernel_size: int, stride: int, sort_eigenvalues: bool) -> "WindowVectors":
        """Those of all graphs."""
        first, distinct = distinct_windows(graphs, kernel_size, stride)
        vectors = graphs.new_empty(len(graphs), len(first), kernel_size, kernel_size)
        for i in range(len(graphs)):  # one at a time: all of them would be in memory twice
            windows = windows_of(graphs[i : i + 1], kernel_size, stride).flatten(1, 2)[0, first]
            vectors[i] = eigenvectors(windows, sort_eigenvalues)
        return cls(vectors, torch.arange(len(graphs), device=graphs.device), distinct)


def distinct_windows(graphs: Tensor, kernel_size: int, stride: int) -> tuple[Tensor, Tensor]:
    """The numbers of the windows whose eigenvectors differ, and which of them each window ``(n, n)`` has."""
    n = (graphs.shape[1] - kernel_size) // stride + 1
    number = torch.arange(n * n, device=graphs.device).view(n, n)
    if torch.equal(graphs, graphs.transpose(1, 2)):
        number = torch.minimum(number, number.T)
    first, distinct = number.unique(return_inverse=True)
    return first, distinct.view(n, n)


def relaxed_distances(
    graphs: Tensor,
    templates: Tensor,
    stride: int = 1,
    window_vectors: WindowVectors | None = None,
    sort_eigenvalues: bool = True,
) -> Tensor:
    """The distances ``(n_graphs, n_templates, n, n)`` of ``spectral_match`` with ``projection="none"``.

    With P = |U₂||U₁|ᵀ, P K Pᵀ = |U₂| M |U₂|ᵀ, where M = |U₁|ᵀ K |U₁| belongs to the template alone.

    Parameters
    ----------
    graphs, templates, stride, sort_eigenvalues
        As in :func:`~isocapsnet.functional.spectral_match`.
    window_vectors : WindowVectors, optional
    """
    check_match_input(graphs, templates, stride)
    kernel = None if graphs.requires_grad else pick_fused("cpu_relaxed", graphs)

    def plain() -> Tensor:
        arguments: tuple[Any, ...] = graphs, templates, stride, "none", window_vectors, sort_eigenvalues
        return spectral_match(*arguments).distance

    if kernel is None:
        return plain()
    with torch.no_grad():
        if window_vectors is None:
            window_vectors = WindowVectors.of(graphs, templates.shape[-1], stride, sort_eigenvalues)
        own = eigenvectors(templates, sort_eigenvalues).abs()
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
