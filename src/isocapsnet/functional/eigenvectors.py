"""Eigenvectors of many small matrices."""

from functools import partial
from itertools import combinations

import torch
from torch import Tensor

from isocapsnet.functional.kernels import pick_fused, run_fused

#: Larger matrices are diagonalised by compiled rotations, with a sixth of the time of LAPACK. Where two eigenvalues are
#: equal, the results differ; smaller matrices stay with LAPACK, as in earlier versions.
LAPACK_SIZE = 9
_JACOBI_SWEEPS = 8


def eigenvectors(matrices: Tensor, sort: bool = True) -> Tensor:
    """Eigenvectors of the symmetric parts of matrices ``(..., k, k)``, in columns.

    Eigenvalues ascend. Without ``sort`` they are in the order of a solver for any matrix (LAPACK's ``geev``), which
    finds them by deflation.
    """
    symmetric = (matrices + matrices.transpose(-1, -2)) / 2
    if not sort:
        return torch.linalg.eig(symmetric.cpu()).eigenvectors.real.to(symmetric.device)
    if symmetric.is_cuda:
        # The batched solver of the GPU allocates 270 KB of workspace per 4 x 4 matrix: 200 GB for a batch of graphs.
        return jacobi_eigenvectors(symmetric)
    kernel = pick_fused("cpu_eigenvectors", symmetric) if symmetric.shape[-1] > LAPACK_SIZE else None

    def plain() -> Tensor:
        return torch.linalg.eigh(symmetric).eigenvectors

    if kernel is None:
        return plain()
    return run_fused(symmetric.device, partial(kernel.eigenvectors, symmetric), plain)


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
