"""The isomorphic layers, which hold the templates."""

from typing import Any

import torch
from torch import Tensor, nn

from isocapsnet.functional import (
    IsomorphicMatch,
    SpectralMatch,
    isomorphic_match,
    released_match,
    spectral_match,
    spectral_permutations,
)
from isocapsnet.functional.known_windows import WindowOrders, WindowVectors
from isocapsnet.functional.relaxed import relaxed_distances


def gaussian(*shape: int, scale: float = 1.0) -> nn.Parameter:
    """A parameter with normally distributed entries; on the meta device, which has shapes only, without entries."""
    entries = torch.empty(shape)
    # torch imports its compiler to draw random numbers on the meta device.
    return nn.Parameter(entries if entries.is_meta else entries.normal_().mul_(scale))


class IsomorphicLayer(nn.Module):
    """Match learned templates with every window of a graph, over all permutations (Eq. 1).

    Parameters
    ----------
    n_templates, kernel_size, stride : int
    template_scale : float
        Standard deviation of the initial templates, in the units of the (scaled) graphs.
    """

    def __init__(self, n_templates: int, kernel_size: int, stride: int = 1, template_scale: float = 1.0) -> None:
        super().__init__()
        self.stride = stride
        self.templates = gaussian(n_templates, kernel_size, kernel_size, scale=template_scale)

    def forward(self, graphs: Tensor) -> IsomorphicMatch:
        """``(n_graphs, n_nodes, n_nodes)`` to distances and permutations ``(n_graphs, n_templates, n, n)``."""
        return isomorphic_match(graphs, self.templates, self.stride)

    def distances(self, graphs: Tensor, **others: Any) -> Tensor:
        """The distances of :meth:`forward` ``(n_graphs, n_templates, n, n)``, for networks that use nothing else."""
        distance: Tensor = self(graphs, **others).distance
        return distance


class SpectralIsomorphicLayer(IsomorphicLayer):
    """The faster variant, which computes the match from eigenvectors (Eq. 2 and 3).

    Parameters
    ----------
    n_templates, kernel_size, stride, template_scale
        As in :class:`IsomorphicLayer`.
    projection : {"permutation", "none", "orthogonal"}
    symmetrise : bool
        As in :func:`~isocapsnet.functional.spectral_match`.
    """

    def __init__(
        self,
        n_templates: int,
        kernel_size: int,
        stride: int = 1,
        template_scale: float = 1.0,
        projection: str = "permutation",
        symmetrise: bool = True,
    ) -> None:
        super().__init__(n_templates, kernel_size, stride, template_scale)
        self.projection, self.symmetrise = projection, symmetrise

    def forward(  # type: ignore[override]
        self,
        graphs: Tensor,
        window_vectors: Tensor | WindowVectors | None = None,
        window_orders: WindowOrders | None = None,
    ) -> IsomorphicMatch | SpectralMatch:
        """``(n_graphs, n_nodes, n_nodes)`` to a match, of the exact layer's type with ``projection="permutation"``.

        ``window_vectors`` as in :func:`~isocapsnet.functional.spectral_match`, ``window_orders`` as in
        :func:`~isocapsnet.functional.spectral_permutations`.
        """
        if self.projection == "permutation":
            return spectral_permutations(
                graphs, self.templates, self.stride, window_vectors, self.symmetrise, window_orders
            )
        arguments = graphs, self.templates, self.stride, self.projection, window_vectors, self.symmetrise
        return spectral_match(*arguments)

    def distances(self, graphs: Tensor, **others: Any) -> Tensor:
        """The same; with ``projection="none"`` the poses, which would be matrices, are never stored."""
        if self.projection != "none":
            return super().distances(graphs, **others)
        return relaxed_distances(graphs, self.templates, self.stride, **others, symmetrise=self.symmetrise)


class ReleasedIsomorphicLayer(IsomorphicLayer):
    """The match of the published program: one template, stride 1, and winners that depend on float32 rounding.

    Parameters
    ----------
    kernel_size : int
    """

    def __init__(self, kernel_size: int) -> None:
        super().__init__(1, kernel_size)

    def forward(self, graphs: Tensor) -> IsomorphicMatch:
        """``(n_graphs, n_nodes, n_nodes)`` to distances and permutations ``(n_graphs, 1, n, n)``."""
        return released_match(graphs, self.templates)
