"""The equations of the authors' published program where it differs from the paper, for reproduction.

They are used by :class:`isocapsnet.nn.ReleasedIsoCapsNet`.
"""

import torch
from torch import Tensor

from isocapsnet.functional.capsule import PermutationCapsules
from isocapsnet.functional.isomorphic import IsomorphicMatch, check_exact_size, check_match_input, match_by
from isocapsnet.functional.kernels.eager import backward, by_graph, permuted_templates, windows_of

# Entries of A - PKPᵀ that are computed at a time: 4 MB of float32 fit in the cache.
_CHUNK_VALUES = 1_000_000


def released_match(graphs: Tensor, templates: Tensor) -> IsomorphicMatch:
    """The match of :func:`~isocapsnet.functional.isomorphic_match`, with the winners of the published program.

    The first permutation with the smallest ‖A - PKPᵀ‖_F² in float32 wins. As in the program, the norm over the k²
    entries is torch's, and its square is compared. For large counts, rounding decides between permutations whose
    distances are nearly equal.

    Parameters
    ----------
    graphs : Tensor (n_graphs, n_nodes, n_nodes)
    templates : Tensor (n_templates, k, k)

    Returns
    -------
    IsomorphicMatch
    """
    check_match_input(graphs, templates, 1)
    check_exact_size(templates.shape[-1], "the paper's own model with matching='spectral'")
    return match_by(_search, backward, graphs, templates)


def _search(graphs: Tensor, templates: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Distance and winning permutation, both ``(n_graphs, n_templates, n, n)``."""
    n_templates, k, _ = templates.shape
    windows = windows_of(graphs, k, stride)
    flat = windows.reshape(-1, 1, k, k)
    # The program computes (P K) Pᵀ as two products. The result is bitwise equal: each entry is an entry of K.
    candidates = permuted_templates(templates)  # (c, k!, k, k)
    distance = graphs.new_empty(n_templates, len(flat))
    permutation = torch.empty(n_templates, len(flat), dtype=torch.int64, device=graphs.device)
    step = max(1, _CHUNK_VALUES // candidates[0].numel()) if n_templates else 1
    for start in range(0, len(flat), step):
        here = slice(start, start + step)
        for i in range(n_templates):
            # Each norm uses the entries of one difference, so chunks do not change it.
            lengths = torch.linalg.vector_norm(flat[here] - candidates[i], dim=(-2, -1))
            winner = (-lengths.square()).argmax(dim=1)
            permutation[i, here] = winner
            distance[i, here] = lengths.gather(1, winner[:, None])[:, 0]
    return by_graph(distance, windows), by_graph(permutation, windows)


def released_primary_capsules(distance: Tensor, permutation: Tensor, kernel_size: int) -> PermutationCapsules:
    """squash(vec(P)·d²), with zeros replaced by -1.

    On the k selected entries squash gives d²·‖m‖/(1 + ‖m‖²) with ‖m‖ = d²√k.
    """
    squared = distance.square()
    value = squared * (squared * kernel_size**0.5) / (1 + kernel_size * squared.square())
    return PermutationCapsules(torch.where(value == 0, -1.0, value), permutation, -1.0, kernel_size)
