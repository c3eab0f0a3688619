"""Graphs held out of training, and the temperature fitted to their scores: probabilities that mean what they say."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.model_selection import StratifiedKFold

#: Fewer graphs of a class than this cannot be halved into two that train and two that are held out.
LEAST_PER_CLASS = 4
# log of temperature times the size of a score difference: from all classes alike to certainty.
_LOG_RANGE = (-5.0, 5.0)
# Classes whose scores differ by less are alike, and no temperature makes them differ.
_NO_DIFFERENCE = 1e-9


def validation_part(codes: NDArray[np.int64], fraction: float, seed: int) -> NDArray[np.int64]:
    """A fraction of the graphs of each class, as sorted indices; empty when a class is too small to give any."""
    rng = np.random.default_rng(seed)
    parts = []
    for code in range(codes.max() + 1):
        members = rng.permutation(np.flatnonzero(codes == code))
        parts.append(members[: round(fraction * len(members))])
    return np.sort(np.concatenate(parts)) if all(map(len, parts)) else np.arange(0)


def halves(codes: NDArray[np.int64], seed: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Two pairs of ``(training, held-out)`` indices, by class: each half of the graphs is held out once."""
    return list(StratifiedKFold(2, shuffle=True, random_state=seed).split(codes, codes))


def fit_temperature(scores: NDArray[np.float64], codes: NDArray[np.int64], class_weight: NDArray[np.float64]) -> float:
    """The t > 0 of least log-loss of softmax(t · scores), as in Guo et al., "On calibration of modern neural networks".

    The target of a graph is Platt's, (n + 1)/(n + n_classes) for its own class of n graphs, so that t stays finite
    where every held-out graph is on the right side.

    Parameters
    ----------
    scores : array (n_graphs, n_classes)
        Of graphs that had no part in training.
    codes : array (n_graphs,)
    class_weight : array (n_classes,)
        As in the loss that the network was trained with.
    """
    n_classes = scores.shape[1]
    counts = np.bincount(codes, minlength=n_classes)
    targets = (np.eye(n_classes) * counts + 1) / (counts[:, None] + n_classes)
    pull = class_weight[codes, None] * targets[codes]
    unit = float(np.sqrt(np.mean(np.square(scores - scores.mean(axis=1, keepdims=True)))))
    if unit < _NO_DIFFERENCE:
        return 1.0

    def log_loss(log_size: float) -> float:
        return -float(np.sum(pull * log_softmax(np.exp(log_size) / unit * scores, axis=1)))

    # Convex in t, so there is one minimum.
    return float(np.exp(minimize_scalar(log_loss, bounds=_LOG_RANGE, method="bounded").x) / unit)
