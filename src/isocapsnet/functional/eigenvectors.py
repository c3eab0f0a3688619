"""Eigenvectors of many small matrices."""

from functools import partial
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

from isocapsnet.functional.kernels import pick_fused, run_fused

#: Larger matrices are diagonalised by compiled rotations, with a sixth of the time of LAPACK. Where two eigenvalues are
#: equal, the results differ; smaller matrices stay with LAPACK, as in earlier versions.
LAPACK_SIZE = 9
#: Absolute eigenvectors of windows beyond :data:`LAPACK_SIZE` are rounded to so many steps between 0 and 1 before a
#: permutation is sought. They then fit into 16 bits, and it does not matter whether they are kept or computed again.
STEPS = 2**16 - 1
_JACOBI_SWEEPS = 8
# Matrices that numpy diagonalises at a time: its copies of them have ten times their size.
_AT_ONCE = 10_000


def eigenvectors(matrices: Tensor, symmetrise: bool = True) -> Tensor:
    """Eigenvectors of the symmetric parts of matrices ``(..., k, k)``, in columns, eigenvalues ascending.

    Without ``symmetrise``, the result of :func:`eigenvector_moduli`.
    """
    if not symmetrise:
        return eigenvector_moduli(matrices)
    symmetric = (matrices + matrices.transpose(-1, -2)) / 2
    if symmetric.is_cuda:
        # The batched solver of the GPU allocates 270 KB of workspace per 4 x 4 matrix: 200 GB for a batch of graphs.
        return jacobi_eigenvectors(symmetric)
    kernel = pick_fused("cpu_eigenvectors", symmetric) if symmetric.shape[-1] > LAPACK_SIZE else None

    def plain() -> Tensor:
        return torch.linalg.eigh(symmetric).eigenvectors

    if kernel is None:
        return plain()
    return run_fused(symmetric.device, partial(kernel.eigenvectors, symmetric), plain)


def eigenvector_moduli(matrices: Tensor) -> Tensor:
    """Absolute values of the eigenvectors of matrices ``(..., k, k)`` as they are, in columns, as numpy returns them.

    A matrix that is not symmetric may have complex eigenvectors. Each has length 1. Their order is that in which
    LAPACK's ``geev`` finds the eigenvalues. It depends on rounding and on the library: torch has another one in some
    matrices. Therefore numpy computes them, in double precision, which it also uses for ``float32``. Matrices that are
    not finite have NaN.
    """
    k = matrices.shape[-1]
    flat = matrices.detach().cpu().reshape(-1, k, k)
    moduli = torch.full_like(flat, torch.nan)
    finite = flat.isfinite().flatten(1).all(dim=1).nonzero().squeeze(1)
    for some in finite.split(_AT_ONCE):
        moduli[some] = torch.from_numpy(np.abs(np.linalg.eig(flat[some].numpy()).eigenvectors))
    return moduli.view(matrices.shape).to(matrices.device)


def jacobi_eigenvectors(matrices: Tensor) -> Tensor:
    """Eigenvectors of many small symmetric matrices ``(..., k, k)``, in columns, eigenvalues ascending.

    Jacobi's cyclic rotations, each applied to the whole batch. Convergence is quadratic; the number of sweeps is enough
    for k = 20 in float64.
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
