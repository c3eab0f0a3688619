"""The graph isomorphic layer: Section 4.1 of the paper. Its fast variant is in :mod:`isocapsnet.functional.spectral`.

Windows are contiguous index ranges of the adjacency matrix, so the result depends on the order of the nodes. Only
diagonal windows (s = t) are induced sub-graphs; the others are blocks of edges between two sets of nodes.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from isocapsnet._validation import InputError
from isocapsnet.functional.kernels import MAX_KERNEL_SIZE, pick_kernel, run_kernel
from isocapsnet.functional.kernels.eager import compact_dtype

#: Largest template of an exact match. With 10 nodes, every template needs 2 GB and a window takes 0.8 s.
MAX_EXACT_SIZE = 9
# Without a fused kernel, a window and a template take this long on one core; a graph may take so long in an epoch.
_SEARCH_SECONDS, _MOST_SECONDS = 0.005, 10.0

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
