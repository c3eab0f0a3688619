"""Contrasts between classes: margins of class scores, separation of classes, effect sizes, permutations.

With two classes there is one contrast, the second class against the first; with more there is one per class, that
class against the rest.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def margins(scores: Any) -> Any:
    """Each contrast's class score minus the mean score of the other classes.

    Scores ``(n_graphs, n_classes, ...)``, array or Tensor, give margins ``(n_graphs, n_contrasts, ...)``.
    """
    n_classes = scores.shape[1]
    differences = (n_classes * scores - scores.sum(1, keepdims=True)) / (n_classes - 1)
    return differences[:, 1:] if n_classes == 2 else differences


def contrast_members(codes: NDArray[np.int64], n_classes: int) -> NDArray[np.bool_]:
    """Whether each graph belongs to the class of each contrast ``(n_graphs, n_contrasts)``."""
    classes = np.arange(n_classes)
    return codes[:, None] == (classes[1:] if n_classes == 2 else classes)


def contrast_weights(codes: NDArray[np.int64], n_classes: int) -> NDArray[np.float64]:
    """Weights ``(n_graphs, n_contrasts)`` whose sum over graphs is "mean of the class minus mean of the rest".

    The weights of a contrast without graphs on one side are 0. Weights are divided by the number of contrasts, so
    that the sum over contrasts is their mean.
    """
    members = contrast_members(codes, n_classes)
    inside, outside = members.sum(axis=0), (~members).sum(axis=0)
    defined = (inside > 0) & (outside > 0)
    weights = members / np.maximum(inside, 1) - ~members / np.maximum(outside, 1)
    return np.asarray(weights * defined / members.shape[1])


def separation(evidence: NDArray[Any], codes: NDArray[np.int64], n_classes: int) -> NDArray[np.float64]:
    """How well evidence separates the classes: its mean in the class minus its mean in the rest, mean over contrasts.

    Evidence ``(n_graphs, n_contrasts, ...)`` and codes ``(n_graphs,)`` give ``(...)``.
    """
    return np.einsum("gj,gj...->...", contrast_weights(codes, n_classes), evidence)


def shuffled_separations(
    evidence: NDArray[Any], codes: NDArray[np.int64], n_classes: int, n_draws: int, seed: int
) -> NDArray[np.float64]:
    """:func:`separation` for ``n_draws`` random permutations of the labels: ``(n_draws, ...)``."""
    weights = contrast_weights(codes, n_classes)
    orders = np.random.default_rng(seed).permuted(np.tile(np.arange(len(codes)), (n_draws, 1)), axis=1)
    flat = np.asarray(evidence, dtype=np.float64).reshape(weights.size, -1)
    return (weights[orders].reshape(n_draws, -1) @ flat).reshape(n_draws, *evidence.shape[2:])


def effect_size(evidence: NDArray[Any], codes: NDArray[np.int64], n_classes: int) -> NDArray[np.float64]:
    """Cohen's d of evidence, class against rest with the pooled standard deviation, mean over contrasts.

    Evidence ``(n_graphs, n_contrasts, ...)`` and codes ``(n_graphs,)`` give ``(...)``, which is 0 if evidence does not
    vary or a contrast has fewer than two graphs on one side.
    """
    members = contrast_members(codes, n_classes)
    effects = []
    for contrast, inside in enumerate(members.T):
        values = np.asarray(evidence[:, contrast], dtype=np.float64)
        if min(inside.sum(), (~inside).sum()) < 2:
            effects.append(np.zeros(values.shape[1:]))
            continue
        first, second = values[inside], values[~inside]
        squares = ((first - first.mean(axis=0)) ** 2).sum(axis=0) + ((second - second.mean(axis=0)) ** 2).sum(axis=0)
        deviation = np.sqrt(squares / (len(values) - 2))
        difference = first.mean(axis=0) - second.mean(axis=0)
        effects.append(np.divide(difference, deviation, out=np.zeros_like(difference), where=deviation > 0))
    return np.mean(effects, axis=0)
