"""How much each window of each template contributes to the class scores.

The score of class j in Iso-CapsNet is the length of v_j = c_j + r_j. With the couplings α and votes û of the routing,
the unit vector v̂_j = v_j/‖v_j‖, the scale s before the squash and its gain g = ‖s Σ α û‖/(1 + ‖s Σ α û‖²)

    ‖v_j‖ = Σ_w g s α_jw û_jw·v̂_j + v̂_j·r_j,

so the routed weights of all windows sum to the routed part of the score. The residual part v̂_j·r_j(F), and the whole
score of networks that use only match scores (IsoNN, FastIsoNN), is divided among the windows by integrated gradients
from the mean scores of the given graphs. The value at the mean scores belongs to no window; it is "unattributed".
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from isocapsnet import functional
from isocapsnet._threads import one_thread
from isocapsnet._validation import InputError
from isocapsnet.explanation.attribution import margin_gradients
from isocapsnet.explanation.contrasts import margins
from isocapsnet.functional import IsomorphicMatch, PermutationCapsules, SpectralMatch
from isocapsnet.models._capsules import CapsuleClassifier
from isocapsnet.models._templates import match_graphs
from isocapsnet.nn import MotifNetwork

# Midpoints of the path over which gradients are averaged.
_STEPS = 16
# Values of the largest tensor in a batch: 64 MB.
_BATCH_VALUES = 16_000_000


class WindowEvidence(NamedTuple):
    """The contribution of every window of every graph, for each template.

    Attributes
    ----------
    evidence : array (n_graphs, n_contrasts, n_templates, n, n)
        Contribution to the margin of ``contrasts.margins``.
    unattributed : array (n_graphs, n_contrasts)
        The part of the margin that belongs to no window, without that of the motif form.
    scores : array (n_graphs, n_templates, n, n)
        F of Eq. 1, in scaled units: 1 at a perfect match.
    permutations : array (n_graphs, n_templates, n, n), int64
        Row of ``functional.permutation_table(kernel_size)``.
    """

    evidence: NDArray[np.float32]
    unattributed: NDArray[np.float32]
    scores: NDArray[np.float32]
    permutations: NDArray[np.int64]


def find_layer(estimator: Any) -> Any:
    """The layer that matches the templates of a fitted network with contiguous windows; None where there is none."""
    module = getattr(estimator, "module_", None)
    if not isinstance(module, nn.Module):
        return None
    layers = (layer for layer in module.modules() if not isinstance(layer, MotifNetwork))
    return next((layer for layer in layers if hasattr(layer, "templates")), None)


@one_thread()
def window_evidence(estimator: Any, graphs: ArrayLike) -> WindowEvidence:
    """Divide the class scores of graphs ``(n_graphs, n_nodes, n_nodes)`` among the windows.

    ``estimator`` is a fitted isomorphic network: Iso-CapsNet, IsoNN or FastIsoNN.
    """
    if find_layer(estimator) is None:
        raise InputError(
            f"{type(estimator).__name__} has no templates for contiguous windows to explain; explain_fit explains "
            "motifs, and attribute_edges any network."
        )
    return account_for_windows(estimator, estimator._check_fitted(graphs))


def account_for_windows(estimator: Any, X: NDArray[Any]) -> WindowEvidence:
    """:func:`window_evidence` of graphs that were checked."""
    with torch.no_grad():
        match, poses = match_graphs(estimator, find_layer(estimator), X)
        posed = match if poses is None else SpectralMatch(match.distance, poses)
        explain = _account_of_capsules if isinstance(estimator, CapsuleClassifier) else _account_of_scores
        baseline = 1 - match.distance.mean(dim=0, keepdim=True)
        size = match.distance[0].numel() * len(estimator.classes_) * getattr(estimator, "capsule_size", 1)
        step = max(1, _BATCH_VALUES // size)
        parts = [
            explain(estimator, type(posed)(*(tensor[start : start + step] for tensor in posed)), baseline)
            for start in range(0, len(X), step)
        ]
    # The network and the motif form add to the class scores with their weights.
    weight = getattr(estimator, "form_weights_", (1.0, 0.0))[0]
    evidence, totals = (weight * torch.cat(part) for part in zip(*parts, strict=True))
    return WindowEvidence(
        evidence=evidence.cpu().numpy(),
        unattributed=(totals - evidence.flatten(2).sum(dim=2)).cpu().numpy(),
        scores=(1 - match.distance).cpu().numpy(),
        permutations=match.permutation.cpu().numpy(),
    )


def _account_of_capsules(estimator: Any, match: Any, baseline: Tensor) -> tuple[Tensor, Tensor]:
    """Iso-CapsNet's evidence ``(n_graphs, n_contrasts, n_templates, n, n)`` and margins ``(n_graphs, n_contrasts)``."""
    module, scores = estimator.module_, 1 - match.distance
    residual = getattr(module, "residual", None)
    shape = (len(scores), len(estimator.classes_), estimator.capsule_size)
    capsules = residual(scores) if residual is not None else scores.new_zeros(shape)
    routing = _route(module, match)
    if routing is not None:
        routed_capsules, votes, coupling = routing
        capsules = capsules + routed_capsules
    lengths = functional.safe_norm(capsules)
    direction = capsules / torch.where(lengths == 0, 1.0, lengths)[..., None]
    evidence = scores.new_zeros(1)
    if routing is not None:
        routed = coupling * torch.einsum("bymd,byd->bym", votes, direction)
        evidence = margins(routed.unflatten(2, scores.shape[1:]))
    if residual is not None:

        def residual_margins(path: Tensor) -> Tensor:
            return margins((direction * residual(path)).sum(dim=2))

        evidence = evidence + _integrate(residual_margins, scores, baseline)
    return evidence, margins(lengths)


def _account_of_scores(estimator: Any, match: Any, baseline: Tensor) -> tuple[Tensor, Tensor]:
    """The same for networks that use only the match scores."""
    graphs = match.distance.new_zeros(len(match.distance), estimator.n_nodes_in_, estimator.n_nodes_in_)

    def score_margins(scores: Tensor) -> Tensor:
        with _returning(find_layer(estimator), IsomorphicMatch(1 - scores, match.permutation)):
            values: Tensor = margins(estimator._class_scores(estimator.module_(graphs)))
        return values

    scores = 1 - match.distance
    return _integrate(score_margins, scores, baseline), score_margins(scores)


@contextmanager
def _returning(layer: Any, match: IsomorphicMatch) -> Iterator[None]:
    """Let the layer return a given match, so that the network can be evaluated at any match scores."""
    layer.forward, layer.distances = lambda graphs: match, lambda graphs: match.distance
    try:
        yield
    finally:
        del layer.forward, layer.distances


def _route(module: Any, match: Any) -> tuple[Tensor, Tensor, Tensor] | None:
    """The routing of the module, with the votes and couplings that it does not keep; None without routing.

    Class capsules ``(n_graphs, n_classes, d)``, votes ``(..., n_capsules, d)``, g s α ``(..., n_capsules)``.
    """
    if hasattr(module, "primary"):
        if module.digit is None:
            return None
        primary, weight = module.primary(match), module.digit.weight
        iterations, scale, over = module.digit.iterations, module.digit.scale, module.digit.over
    else:
        weight, kernel_size = module.weight, module.isomorphic.templates.shape[-1]
        primary = functional.released_primary_capsules(match.distance, match.permutation, kernel_size)
        iterations, scale, over = module.routing_iterations, 1.0, "windows"
    if isinstance(primary, PermutationCapsules) and weight.shape[2] > 1:
        votes = functional.permutation_votes(primary, weight)
    else:
        votes = functional.dense_votes(primary if isinstance(primary, Tensor) else primary.expand(), weight)
    contexts: list[Tensor] = []

    def attend(context: Tensor) -> Tensor:
        contexts.append(context)
        return functional.attend_to_votes(votes, context, over)

    start = votes.new_zeros(len(votes), weight.shape[0], weight.shape[-1])
    capsules = functional.dynamic_routing(attend, start, iterations, scale)
    logits = torch.einsum("bymd,byd->bym", votes, contexts[-1])
    if over == "classes":
        coupling = functional.leaky_softmax(logits, dim=1)
    else:
        coupling = logits.softmax(dim=2 if over == "windows" else 1)
    length = functional.safe_norm(scale * torch.einsum("bym,bymd->byd", coupling, votes), keepdim=True)
    return capsules, votes, scale * length / (1 + length.square()) * coupling


def _integrate(function: Callable[[Tensor], Tensor], scores: Tensor, baseline: Tensor) -> Tensor:
    """Integrated gradients of ``function`` ``(n_graphs, n_contrasts)`` from ``baseline`` to ``scores``.

    Scores ``(n_graphs, n_templates, n, n)`` give ``(n_graphs, n_contrasts, n_templates, n, n)``.
    """
    difference = scores - baseline
    path = (baseline + (step + 0.5) / _STEPS * difference for step in range(_STEPS))
    total: Tensor = reduce(torch.add, (margin_gradients(function, point) for point in path))
    return total / _STEPS * difference[:, None]
