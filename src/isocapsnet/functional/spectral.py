"""The spectral match: Section 4.1 of the paper with eigenvectors instead of enumeration, and FastIsoNN's variant."""

from functools import partial
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from isocapsnet._validation import InputError, check_option
from isocapsnet.functional.assignment import assigned_columns
from isocapsnet.functional.capsule import safe_norm
from isocapsnet.functional.eigenvectors import LAPACK_SIZE, STEPS, eigenvectors
from isocapsnet.functional.isomorphic import IsomorphicMatch, check_match_input, match_by
from isocapsnet.functional.kernels import eager, pick_spectral, run_fused, run_kernel
from isocapsnet.functional.kernels.eager import windows_of
from isocapsnet.functional.known_windows import WindowOrders, WindowVectors
from isocapsnet.functional.permutations import MAX_NUMBERED_SIZE, permutation_matrices, permutation_number

PROJECTIONS = ("permutation", "none", "orthogonal")
# Entries of the windows whose eigenvectors are matched at a time: a few MB for the cache of a CPU, more for a GPU.
_CHUNK_VALUES = {"cpu": 500_000, "cuda": 16_000_000}


class SpectralMatch(NamedTuple):
    """The spectral match of every template in every window.

    Attributes
    ----------
    distance : Tensor (n_graphs, n_templates, n, n)
    matrix : Tensor (n_graphs, n_templates, n, n, k, k)
        The matrix P of the distance ‖P K Pᵀ - A_st‖_F.
    """

    distance: Tensor
    matrix: Tensor


def spectral_match(
    graphs: Tensor,
    templates: Tensor,
    stride: int = 1,
    projection: str = "permutation",
    window_vectors: Tensor | WindowVectors | None = None,
    symmetrise: bool = True,
) -> SpectralMatch:
    """Match by eigenvectors instead of enumeration (Eq. 2 and 3 of the paper, FastIsoNN).

    With K = U₁Λ₁U₁ᵀ and A = U₂Λ₂U₂ᵀ of the symmetrised matrices, P is

    - ``"permutation"``: the permutation that maximises ``⟨P, |U₂||U₁|ᵀ⟩``, by exact linear assignment (Umeyama 1988).
      At a perfect match A = QKQᵀ with distinct eigenvalues, Q is *a* maximum but not always the only one: without the
      signs of the eigenvectors, two nodes whose rows of U₁ differ only in signs are the same, and the distance of the
      result may be far from zero;
    - ``"none"``: ``|U₂||U₁|ᵀ``, the relaxation of FastIsoNN, with a distance above zero at a perfect match;
    - ``"orthogonal"``: U₂SU₁ᵀ, as in the paper, with the signs S that make P closest to the identity,
      S_i = sign(u₁ᵢ·u₂ᵢ), where sign(0) = 1. It needs ``symmetrise``.

    Distances are those of the original matrices, not of their symmetrised forms. There are no gradients through the
    eigenvectors, so repeated eigenvalues do no harm.

    Parameters
    ----------
    graphs : Tensor (n_graphs, n_nodes, n_nodes)
    templates : Tensor (n_templates, k, k)
    stride : int
    projection : {"permutation", "none", "orthogonal"}
    window_vectors : Tensor (n_graphs, n, n, k, k) or WindowVectors, optional
        The result of :func:`window_eigenvectors` for these graphs, to match them repeatedly.
    symmetrise : bool
        Whether U₁ and U₂ are those of the symmetrised matrices, with sorted eigenvalues. Otherwise |U₁| and |U₂| are
        the absolute eigenvectors of the matrices as they are, in the order of ``numpy.linalg.eig``, as in the published
        program of FastIsoNN.

    Returns
    -------
    SpectralMatch
    """
    check_match_input(graphs, templates, stride)
    check_option("projection", projection, PROJECTIONS)
    check_signs(projection, symmetrise)
    if projection == "permutation":
        match = spectral_permutations(graphs, templates, stride, window_vectors, symmetrise)
        matrix = permutation_matrices(match.permutation, templates.shape[-1]).to(graphs.dtype)
        return SpectralMatch(match.distance, matrix)
    check_known(graphs, templates, stride, window_vectors, symmetrise)
    n_templates, k, _ = templates.shape
    with torch.no_grad():
        if window_vectors is None:
            window_vectors = window_eigenvectors(graphs, k, stride, symmetrise)
        window_vectors = window_vectors[:, :]
        project = _relaxed if projection == "none" else _orthogonal
        matrix = project(window_vectors, eigenvectors(templates, symmetrise))  # (c, B, n, n, k, k)
    # One large product per template; broadcasting would copy the template for every window.
    half = torch.bmm(matrix.reshape(n_templates, -1, k), templates).view_as(matrix)
    matched = half @ matrix.transpose(-1, -2)
    distance = safe_norm((matched - windows_of(graphs, k, stride)).flatten(-2))
    return SpectralMatch(distance.transpose(0, 1), matrix.transpose(0, 1))


def spectral_permutations(
    graphs: Tensor,
    templates: Tensor,
    stride: int = 1,
    window_vectors: Tensor | WindowVectors | None = None,
    symmetrise: bool = True,
    window_orders: WindowOrders | None = None,
) -> IsomorphicMatch:
    """:func:`spectral_match` with ``projection="permutation"``, with numbers of permutations instead of matrices.

    It needs the memory of the result and a few MB, and no table of k! permutations. ``graphs``, ``templates``,
    ``stride``, ``window_vectors`` and ``symmetrise`` are those of :func:`spectral_match`. ``window_orders`` are
    permutations to try first.
    """
    check_match_input(graphs, templates, stride)
    if templates.shape[-1] > MAX_NUMBERED_SIZE:
        raise InputError(f"kernel_size={templates.shape[-1]} is too large; use at most {MAX_NUMBERED_SIZE}.")
    check_known(graphs, templates, stride, window_vectors, symmetrise, window_orders)
    search = partial(_search_spectrum, window_vectors, symmetrise, window_orders)
    return match_by(search, partial(run_kernel, pick_spectral(graphs) or eager, "backward"), graphs, templates, stride)


def _search_spectrum(
    window_vectors: Any,
    symmetrise: bool,
    window_orders: WindowOrders | None,
    graphs: Tensor,
    templates: Tensor,
    stride: int,
) -> tuple[Tensor, Tensor]:
    """As :func:`isocapsnet.functional.kernels.eager.search`, with permutations from eigenvectors."""
    n_templates, k, _ = templates.shape
    n = (graphs.shape[1] - k) // stride + 1
    distance = graphs.new_empty(len(graphs), n_templates, n, n)
    permutation = torch.empty(distance.shape, dtype=torch.int64, device=graphs.device)
    # In symmetric graphs, the window at rows t and columns s is the transpose of that at s and t. If they are
    # symmetrised, both have the same eigenvectors, and so the same permutation.
    has_twins = symmetrise and torch.equal(graphs, graphs.transpose(1, 2))
    pairs = torch.triu_indices(n, n, offset=0 if has_twins else -n, device=graphs.device)
    template_vectors = eigenvectors(templates, symmetrise).abs()
    found = pairs, template_vectors, distance, permutation
    kernel = pick_spectral(graphs)
    plain = partial(_search_in_torch, graphs, templates, stride, window_vectors, symmetrise, has_twins, *found)
    if kernel is None:
        plain()
        return distance, permutation

    steps = STEPS if symmetrise and k > LAPACK_SIZE else 0

    def fused() -> None:
        if window_vectors is not None or (symmetrise and k > LAPACK_SIZE):
            known = _as_known(window_vectors)  # without any, the kernel computes them
            kernel.search(graphs, templates, stride, known, window_orders, *found, steps=steps)
            return
        for i in range(len(graphs)):  # the vectors of all graphs would need many times the memory of the result
            own, orders = slice(i, i + 1), None if window_orders is None else window_orders[i : i + 1]
            known = WindowVectors.of(graphs[own], k, stride, symmetrise)
            kernel.search(
                graphs[own], templates, stride, known, orders, *found[:2], distance[own], permutation[own], steps=steps
            )

    run_fused(graphs.device, fused, plain)
    return distance, permutation


def _as_known(window_vectors: Tensor | WindowVectors | None) -> WindowVectors | None:
    """Vectors ``(n_graphs, n, n, k, k)`` of all windows as :class:`WindowVectors`."""
    if not isinstance(window_vectors, Tensor):
        return window_vectors
    n_graphs, n = window_vectors.shape[:2]
    return WindowVectors(window_vectors.flatten(1, 2), torch.arange(n_graphs), torch.arange(n * n).view(n, n))


def _search_in_torch(
    graphs: Tensor,
    templates: Tensor,
    stride: int,
    window_vectors: Any,
    symmetrise: bool,
    has_twins: bool,
    pairs: Tensor,
    template_vectors: Tensor,
    distance: Tensor,
    permutation: Tensor,
) -> None:
    """Write the distances and permutations of the windows ``pairs`` and, of symmetric graphs, of their transposes."""
    n_templates, k, _ = templates.shape
    rows, columns = pairs
    windows = windows_of(graphs, k, stride)  # a view: only a part of the windows is copied at a time
    most = _CHUNK_VALUES.get(graphs.device.type, _CHUNK_VALUES["cpu"]) // k**2
    for part, some in product(_slices(len(graphs), most // len(rows)), _slices(len(rows), most)):
        s, t = rows[some], columns[some]
        flat = windows[part, s, t].flatten(0, 1)
        own = eigenvectors(flat, symmetrise) if window_vectors is None else window_vectors[part, s, t]
        absolute = own.abs().view_as(flat)
        absolute = (absolute * STEPS).round() / STEPS if symmetrise and k > LAPACK_SIZE else absolute
        for i in range(n_templates):
            order = assigned_columns(absolute @ template_vectors[i].T)
            matched, numbers = templates[i][order[:, :, None], order[:, None, :]], permutation_number(order)
            for place, alike in (((s, t), flat), ((t, s), flat.transpose(1, 2)))[: 1 + has_twins]:
                distance[part, i][:, *place] = (matched - alike).flatten(1).norm(dim=1).view(-1, len(s))
                permutation[part, i][:, *place] = numbers.view(-1, len(s))


def _slices(length: int, step: int) -> list[slice]:
    """Parts of ``range(length)`` of ``step`` indices, at least one."""
    step = max(1, step)
    return [slice(start, start + step) for start in range(0, length, step)]


def window_eigenvectors(graphs: Tensor, kernel_size: int, stride: int = 1, symmetrise: bool = True) -> Tensor:
    """Eigenvectors of every symmetrised window, in columns, eigenvalues ascending.

    Without ``symmetrise``, absolute eigenvectors of every window as it is, in the order of ``numpy.linalg.eig``.
    ``graphs`` ``(n_graphs, n_nodes, n_nodes)`` to ``(n_graphs, n, n, k, k)``, without gradients; k is ``kernel_size``,
    and ``stride`` is that of :func:`spectral_match`.
    """
    with torch.no_grad():
        return eigenvectors(windows_of(graphs, kernel_size, stride), symmetrise)


def _relaxed(window_vectors: Tensor, template_vectors: Tensor) -> Tensor:
    return torch.einsum("bstai,cdi->cbstad", window_vectors.abs(), template_vectors.abs())


def _orthogonal(window_vectors: Tensor, template_vectors: Tensor) -> Tensor:
    template_vectors = template_vectors[:, None, None, None]
    agreement = (window_vectors * template_vectors).sum(dim=-2, keepdim=True)
    signs = torch.where(agreement < 0, -1.0, 1.0).to(agreement.dtype)
    return (window_vectors * signs) @ template_vectors.transpose(-1, -2)


def check_signs(projection: str, symmetrise: bool) -> None:
    """Raise InputError for a projection that needs more than absolute eigenvectors."""
    if projection == "orthogonal" and not symmetrise:
        raise InputError(
            'projection="orthogonal" needs the signs of eigenvectors, which symmetrise=False leaves out; use '
            'symmetrise=True, or projection="none" or "permutation".'
        )


def check_known(
    graphs: Tensor,
    templates: Tensor,
    stride: int,
    vectors: Tensor | WindowVectors | None,
    symmetrise: bool = True,
    orders: WindowOrders | None = None,
) -> None:
    """Raise InputError for vectors or permutations of other windows: kernels would read past the end of a tensor."""
    n_templates, k, _ = templates.shape
    n_graphs, n = len(graphs), (graphs.shape[1] - k) // stride + 1
    if isinstance(vectors, Tensor):
        if vectors.shape != (n_graphs, n, n, k, k):
            shape = tuple(vectors.shape)
            raise InputError(f"window_vectors have shape {shape}; expected {(n_graphs, n, n, k, k)}.")
    elif vectors is not None:
        _check_stored("window_vectors", vectors, (k, k), n_graphs, n)
    if orders is not None:
        _check_stored("window_orders", orders, (n_templates, k), n_graphs, n)
        if not symmetrise:
            raise InputError("window_orders need symmetrise=True: raw eigenvectors are too long for a safe comparison.")


def _check_stored(name: str, known: WindowVectors | WindowOrders, each: tuple[int, int], n_graphs: int, n: int) -> None:
    n_stored, n_distinct, *shape = known.tensor.shape
    fits = tuple(shape) == each and known.distinct.shape == (n, n) and known.index.shape == (n_graphs,)
    if not fits or (n_graphs and int(known.index.max()) >= n_stored) or int(known.distinct.max()) >= n_distinct:
        raise InputError(f"{name} are of other graphs, templates or windows than those that are matched.")
