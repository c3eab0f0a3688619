"""The graph isomorphic layer: Section 4.1 of the paper, exact and spectral.

Windows are contiguous index ranges of the adjacency matrix, so the result depends on the global node order; only
diagonal windows (s = t) are induced sub-graphs, the others match a block between two sets of nodes.
"""

from collections.abc import Callable
from itertools import combinations
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from isocapsnet._validation import InputError, check_option
from isocapsnet.functional.capsule import safe_norm
from isocapsnet.functional.kernels import pick_kernel
from isocapsnet.functional.kernels.eager import compact_dtype, permutation_table, windows_of

__all__ = ["IsomorphicMatch", "SpectralMatch", "isomorphic_match", "permutation_table", "spectral_match"]

PROJECTIONS = ("permutation", "none", "orthogonal")
_JACOBI_SWEEPS = 8


class IsomorphicMatch(NamedTuple):
    """The best match of every template in every window.

    Attributes
    ----------
    distance : Tensor (n_graphs, n_templates, n, n)
        min over P of ‖P K Pᵀ - A_st‖_F, with n = (n_nodes - k) // stride + 1.
    permutation : Tensor (n_graphs, n_templates, n, n), int64
        The winner, as a row of ``permutation_table(k)``.
    """

    distance: Tensor
    permutation: Tensor


class SpectralMatch(NamedTuple):
    """The spectral match of every template in every window.

    Attributes
    ----------
    distance : Tensor (n_graphs, n_templates, n, n)
    matrix : Tensor (n_graphs, n_templates, n, n, k, k)
        The matrix P with which the distance ‖P K Pᵀ - A_st‖_F was taken.
    """

    distance: Tensor
    matrix: Tensor


def isomorphic_match(graphs: Tensor, templates: Tensor, stride: int = 1) -> IsomorphicMatch:
    """Match every template with every window, over all k! permutations (Eq. 1).

    Parameters
    ----------
    graphs : Tensor (n_graphs, n_nodes, n_nodes)
        Weighted, signed, not necessarily symmetric.
    templates : Tensor (n_templates, k, k)
    stride : int
        Distance between neighbouring windows, along both axes.

    Returns
    -------
    IsomorphicMatch
        The score of Eq. 1 is ``1 - distance``. Correlations within 16 eps ‖K‖ ‖A‖ of the best are ties, and the
        first permutation in table order wins. Gradients flow to graphs and templates through the winner alone.

    References
    ----------
    Zhang, "Iso-CapsNet", arXiv 2206.13465, Eq. 1; Meng & Zhang, "IsoNN", arXiv 1907.09495.
    """
    _check_match_input(graphs, templates, stride)
    kernel = pick_kernel(graphs, templates)
    distance, permutation = _Match.apply(graphs, templates, stride, kernel)
    return IsomorphicMatch(distance, permutation)


class _Match(torch.autograd.Function):
    """The one place where a kernel meets autograd."""

    @staticmethod
    def forward(ctx: Any, graphs: Tensor, templates: Tensor, stride: int, kernel: ModuleType) -> tuple[Tensor, Tensor]:
        distance, permutation = kernel.search(graphs, templates, stride)
        # Kept until backward, when the caller's own may long be gone; a GPU's kernels read 8 bytes.
        kept = permutation if permutation.is_cuda else permutation.to(compact_dtype(templates.shape[-1]))
        ctx.save_for_backward(graphs, templates, distance, kept)
        ctx.set_materialize_grads(False)  # zeros for the permutation would be its size again
        ctx.stride, ctx.kernel = stride, kernel
        ctx.mark_non_differentiable(permutation)
        return distance, permutation

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_distance: Tensor | None, _: None) -> tuple[Tensor | None, Tensor | None, None, None]:
        if grad_distance is None:
            return None, None, None, None
        graphs, templates, distance, permutation = ctx.saved_tensors
        needs_graphs, needs_templates = ctx.needs_input_grad[:2]
        grads = ctx.kernel.backward(
            grad_distance, distance, permutation, graphs, templates, ctx.stride, needs_graphs, needs_templates
        )
        return *grads, None, None


def spectral_match(
    graphs: Tensor,
    templates: Tensor,
    stride: int = 1,
    projection: str = "permutation",
    window_vectors: Tensor | None = None,
) -> SpectralMatch:
    """Match by eigenvectors instead of enumeration (Eq. 2 and 3 of the paper, FastIsoNN).

    With K = U₁Λ₁U₁ᵀ and A = U₂Λ₂U₂ᵀ of the symmetrised matrices, eigenvalues sorted, P is

    - ``"permutation"``: the permutation that maximises ⟨P, |U₂||U₁|ᵀ⟩, by exact linear assignment. Zero distance
      at a perfect match with distinct eigenvalues;
    - ``"none"``: |U₂||U₁|ᵀ itself, FastIsoNN's relaxation, not zero at a perfect match;
    - ``"orthogonal"``: U₂SU₁ᵀ, the paper's; the signs S are those that bring P closest to the identity,
      S_i = sign(u₁ᵢ·u₂ᵢ), with sign(0) = 1.

    Distances are taken from the matrices as they are, not from their symmetrised forms. No gradient flows through
    the eigenvectors, so repeated eigenvalues are harmless.

    Parameters
    ----------
    graphs : Tensor (n_graphs, n_nodes, n_nodes)
    templates : Tensor (n_templates, k, k)
    stride : int
    projection : {"permutation", "none", "orthogonal"}
    window_vectors : Tensor (n_graphs, n, n, k, k), optional
        What :func:`window_eigenvectors` returned for these graphs, where they are matched again and again.

    Returns
    -------
    SpectralMatch
    """
    _check_match_input(graphs, templates, stride)
    check_option("projection", projection, PROJECTIONS)
    n_templates, k, _ = templates.shape
    windows = windows_of(graphs, k, stride)
    with torch.no_grad():
        if window_vectors is None:
            window_vectors = window_eigenvectors(graphs, k, stride)
        matrix = _PROJECT[projection](window_vectors, _eigenvectors(templates))  # (c, B, n, n, k, k)
    # One tall product per template: broadcasting would copy the template for every window.
    half = torch.bmm(matrix.reshape(n_templates, -1, k), templates).view_as(matrix)
    matched = half @ matrix.transpose(-1, -2)
    distance = safe_norm((matched - windows).flatten(-2))
    return SpectralMatch(distance.transpose(0, 1), matrix.transpose(0, 1))


def window_eigenvectors(graphs: Tensor, kernel_size: int, stride: int = 1) -> Tensor:
    """Eigenvectors of every symmetrised window, in columns, eigenvalues ascending.

    ``(n_graphs, n_nodes, n_nodes)`` to ``(n_graphs, n, n, k, k)``. No gradient flows back.
    """
    with torch.no_grad():
        return _eigenvectors(windows_of(graphs, kernel_size, stride))


def _eigenvectors(matrices: Tensor) -> Tensor:
    symmetric = (matrices + matrices.transpose(-1, -2)) / 2
    # The GPU's own batched solver asks for 270 KB of workspace per 4 x 4 matrix: 200 GB for a batch of graphs.
    return jacobi_eigenvectors(symmetric) if symmetric.is_cuda else torch.linalg.eigh(symmetric).eigenvectors


def jacobi_eigenvectors(matrices: Tensor) -> Tensor:
    """Eigenvectors of many small symmetric matrices ``(..., k, k)``, in columns, eigenvalues ascending.

    Jacobi's cyclic rotations, each applied to the whole batch at once; convergence is quadratic, and the number of
    sweeps is enough for k = 8 in float64.
    """
    k = matrices.shape[-1]
    a = matrices.clone()
    vectors = torch.eye(k, dtype=a.dtype, device=a.device).expand_as(a).clone()
    for _ in range(_JACOBI_SWEEPS):
        for p, q in combinations(range(k), 2):
            off = a[..., p, q]
            zero = off == 0
            theta = (a[..., q, q] - a[..., p, p]) / torch.where(zero, 1.0, 2 * off)
            tangent = torch.where(theta < 0, -1.0, 1.0) / (theta.abs() + (theta.square() + 1).sqrt())
            tangent = torch.where(zero, 0.0, tangent).to(a.dtype)[..., None]
            cosine = (tangent.square() + 1).rsqrt()
            sine = tangent * cosine
            for columns in (a, a.transpose(-1, -2), vectors):
                first, second = columns[..., :, p].clone(), columns[..., :, q].clone()
                columns[..., :, p] = cosine * first - sine * second
                columns[..., :, q] = sine * first + cosine * second
    order = a.diagonal(dim1=-2, dim2=-1).argsort(dim=-1)
    return vectors.gather(-1, order[..., None, :].expand_as(vectors))


def _relaxed(window_vectors: Tensor, template_vectors: Tensor) -> Tensor:
    return torch.einsum("bstai,cdi->cbstad", window_vectors.abs(), template_vectors.abs())


def _orthogonal(window_vectors: Tensor, template_vectors: Tensor) -> Tensor:
    template_vectors = template_vectors[:, None, None, None]
    agreement = (window_vectors * template_vectors).sum(dim=-2, keepdim=True)
    signs = torch.where(agreement < 0, -1.0, 1.0).to(agreement.dtype)
    return (window_vectors * signs) @ template_vectors.transpose(-1, -2)


def _assigned(window_vectors: Tensor, template_vectors: Tensor) -> Tensor:
    return linear_assignment(_relaxed(window_vectors, template_vectors))


_PROJECT: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "permutation": _assigned,
    "none": _relaxed,
    "orthogonal": _orthogonal,
}


def linear_assignment(profit: Tensor) -> Tensor:
    """The permutation matrix of largest total profit, exactly, for a batch of small matrices.

    Held and Karp's dynamic programme over column subsets: 2ᵏk/2 vector operations for the whole batch at once,
    where scipy's solver would be called once per window.

    Parameters
    ----------
    profit : Tensor (..., k, k)

    Returns
    -------
    Tensor (..., k, k)
        Zeros and ones, in the dtype of ``profit``.
    """
    k = profit.shape[-1]
    best = {0: profit.new_zeros(profit.shape[:-2])}
    choice: dict[int, Tensor] = {}
    for subset in sorted(range(1, 1 << k), key=int.bit_count):
        row = subset.bit_count() - 1  # rows are assigned in order, so the subset's size names the row
        columns = [j for j in range(k) if subset >> j & 1]
        totals = torch.stack([best[subset ^ (1 << j)] + profit[..., row, j] for j in columns])
        best[subset], winner = totals.max(dim=0)
        choice[subset] = torch.tensor(columns, device=profit.device)[winner]
    # Walk back from the full set; each window follows its own path, so look the choice up by subset number.
    choices = torch.stack([choice[subset] for subset in range(1, 1 << k)])
    subset_of = torch.full(profit.shape[:-2], (1 << k) - 1, dtype=torch.int64, device=profit.device)
    matrix = torch.zeros_like(profit)
    for row in reversed(range(k)):
        column = choices.gather(0, (subset_of - 1)[None])[0]
        matrix[..., row, :].scatter_(-1, column[..., None], 1.0)
        subset_of = subset_of ^ (1 << column)
    return matrix


def permutation_index(matrices: Tensor) -> Tensor:
    """Rows of ``permutation_table(k)`` for permutation matrices: ``(..., k, k)`` to int64 ``(...)``."""
    k = matrices.shape[-1]
    place = k ** torch.arange(k - 1, -1, -1, device=matrices.device)
    # Lexicographic order is the order of the rows read as numbers in base k.
    numbers = (permutation_table(k).to(matrices.device) * place).sum(dim=1)
    return torch.searchsorted(numbers, (matrices.argmax(dim=-1) * place).sum(dim=-1))


def _check_match_input(graphs: Tensor, templates: Tensor, stride: int) -> None:
    shape, template_shape = tuple(graphs.shape), tuple(templates.shape)
    if len(shape) != 3 or shape[1] != shape[2]:
        raise InputError(f"graphs have shape {shape}; expected (n_graphs, n_nodes, n_nodes).")
    if len(template_shape) != 3 or template_shape[1] != template_shape[2] or template_shape[1] == 0:
        raise InputError(f"templates have shape {template_shape}; expected (n_templates, k, k).")
    if template_shape[1] > shape[1]:
        raise InputError(
            f"templates of kernel_size={template_shape[1]} do not fit graphs of {shape[1]} nodes; "
            "choose a smaller kernel_size."
        )
    if stride < 1:
        raise InputError(f"stride={stride} is out of range; it must be a whole number of at least 1.")
    if graphs.dtype != templates.dtype or graphs.device != templates.device:
        raise InputError(
            f"graphs are {graphs.dtype} on {graphs.device} but templates are {templates.dtype} on "
            f"{templates.device}; bring them to one dtype and device."
        )
    if graphs.dtype not in (torch.float32, torch.float64):
        raise InputError(f"graphs are {graphs.dtype}; the match is exact in float32 and float64 only.")
