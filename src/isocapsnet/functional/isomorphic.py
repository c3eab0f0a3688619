"""The graph isomorphic layer: Section 4.1 of the paper, exact and spectral.

Windows are contiguous index ranges of the adjacency matrix, so the result depends on the order of the nodes. Only
diagonal windows (s = t) are induced sub-graphs; the others are blocks of edges between two sets of nodes.
"""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from isocapsnet._validation import InputError, check_option
from isocapsnet.functional.assignment import assigned_columns
from isocapsnet.functional.capsule import safe_norm
from isocapsnet.functional.eigenvectors import LAPACK_SIZE, STEPS, eigenvectors
from isocapsnet.functional.kernels import MAX_KERNEL_SIZE, eager, pick_kernel, pick_spectral, run_fused, run_kernel
from isocapsnet.functional.kernels.eager import compact_dtype, windows_of
from isocapsnet.functional.known_windows import WindowOrders, WindowVectors
from isocapsnet.functional.permutations import MAX_NUMBERED_SIZE, permutation_matrices, permutation_number

PROJECTIONS = ("permutation", "none", "orthogonal")
#: Largest template of an exact match. With 10 nodes, every template needs 2 GB and a window takes 0.8 s.
MAX_EXACT_SIZE = 9
# Without a fused kernel, a window and a template take this long on one core; a graph may take so long in an epoch.
_SEARCH_SECONDS, _MOST_SECONDS = 0.005, 10.0
# Entries of the windows whose eigenvectors are matched at a time: a few MB for the cache of a CPU, more for a GPU.
_CHUNK_VALUES = {"cpu": 500_000, "cuda": 16_000_000}

Search = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]


class IsomorphicMatch(NamedTuple):
    """The best match of every template in every window.

    Attributes
    ----------
    distance : Tensor (n_graphs, n_templates, n, n)
        min over P of ‖P K Pᵀ - A_st‖_F, with n = (n_nodes - k) // stride + 1.
    permutation : Tensor (n_graphs, n_templates, n, n), int64
        The best permutation: its row in ``permutation_table(k)``.
    """

    distance: Tensor
    permutation: Tensor


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
        The score of Eq. 1 is ``1 - distance``. Correlations within 16 eps ‖K‖ ‖A‖ of the best are ties, of which the
        first permutation in table order wins. Gradients with respect to graphs and templates are those of the distance
        with the winning permutation.

    References
    ----------
    Zhang, "Iso-CapsNet", arXiv 2206.13465, Eq. 1; Meng & Zhang, "IsoNN", arXiv 1907.09495.
    """
    check_match_input(graphs, templates, stride)
    check_exact_size(templates.shape[-1], "use spectral_match")
    kernel = pick_kernel(graphs, templates)
    search, backward = partial(run_kernel, kernel, "search"), partial(run_kernel, kernel, "backward")
    return match_by(search, backward, graphs, templates, stride)


def match_by(
    search: Search, backward: Callable[..., Any], graphs: Tensor, templates: Tensor, stride: int = 1
) -> IsomorphicMatch:
    """The match that ``search`` finds, with the gradients of ``backward``: two functions of a kernel."""
    return IsomorphicMatch(*_Match.apply(graphs, templates, stride, search, backward))


def check_exact_size(kernel_size: int, instead: str, most: int = MAX_EXACT_SIZE) -> None:
    """Raise InputError for templates with too many permutations. The error names ``instead`` as the alternative."""
    if kernel_size > most:
        raise InputError(
            f"kernel_size={kernel_size} has {kernel_size}! permutations, too many to search them all; use a "
            f"kernel_size of at most {most}, or {instead}."
        )


def check_exact_time(kernel_size: int, n_searches: int, instead: str) -> None:
    """Raise InputError if the search of one graph, ``n_searches`` windows and templates, takes too long to train."""
    seconds = n_searches * _SEARCH_SECONDS if kernel_size > MAX_KERNEL_SIZE else 0.0
    if seconds > _MOST_SECONDS:
        raise InputError(
            f"kernel_size={kernel_size} takes about {seconds:.0f} seconds for every graph in every epoch; use a "
            f"kernel_size of at most {MAX_KERNEL_SIZE}, a larger stride, or {instead}."
        )


class _Match(torch.autograd.Function):
    """Adds gradients to a search; they are those of the distance with the permutation that was found."""

    @staticmethod
    def forward(
        ctx: Any, graphs: Tensor, templates: Tensor, stride: int, search: Search, backward: Callable[..., Any]
    ) -> tuple[Tensor, Tensor]:
        distance, permutation = search(graphs, templates, stride)
        # This copy is held until backward, in fewer bytes than the caller's; the kernels of a GPU need 8 bytes.
        kept = permutation if permutation.is_cuda else permutation.to(compact_dtype(templates.shape[-1]))
        ctx.save_for_backward(graphs, templates, distance, kept)
        ctx.set_materialize_grads(False)  # otherwise the permutation would get a gradient of zeros
        ctx.stride, ctx.backward_of = stride, backward
        ctx.mark_non_differentiable(permutation)
        return distance, permutation

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_distance: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
        if grad_distance is None:
            return None, None, None, None, None
        graphs, templates, distance, permutation = ctx.saved_tensors
        needs_graphs, needs_templates = ctx.needs_input_grad[:2]
        grads = ctx.backward_of(
            grad_distance, distance, permutation, graphs, templates, ctx.stride, needs_graphs, needs_templates
        )
        return *grads, None, None, None


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


def check_match_input(graphs: Tensor, templates: Tensor, stride: int) -> None:
    """Raise InputError for tensors that cannot be matched."""
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
