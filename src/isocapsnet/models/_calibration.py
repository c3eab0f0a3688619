"""Calibration of probabilities: graphs held out of the training, and a temperature fitted to their scores."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.model_selection import StratifiedKFold

#: Each half of the graphs needs two graphs of every class.
LEAST_PER_CLASS = 4
# Range of log(temperature * size of the score differences): from equal probabilities to certainty.
_LOG_RANGE = (-5.0, 5.0)
# Smaller differences between scores are rounding errors; no temperature is fitted to them.
_NO_DIFFERENCE = 1e-9


def validation_part(codes: NDArray[np.int64], fraction: float, seed: int) -> NDArray[np.int64]:
    """Sorted indices of a fraction of the graphs of each class; empty if a class is too small for one."""
    rng = np.random.default_rng(seed)
    parts = []
    for code in range(codes.max() + 1):
        members = rng.permutation(np.flatnonzero(codes == code))
        parts.append(members[: round(fraction * len(members))])
    return np.sort(np.concatenate(parts)) if all(map(len, parts)) else np.arange(0)


def halves(codes: NDArray[np.int64], seed: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Two stratified pairs of ``(training, held-out)`` indices. Each half of the graphs is held out once."""
    return list(StratifiedKFold(2, shuffle=True, random_state=seed).split(codes, codes))


def fit_temperature(scores: NDArray[np.float64], codes: NDArray[np.int64], class_weight: NDArray[np.float64]) -> float:
    """The t > 0 that minimises the log-loss of softmax(t · scores).

    C. Guo et al., "On calibration of modern neural networks", ICML 2017.

    The targets are Platt's: (n + 1)/(n + n_classes) for the class of a graph, if n graphs have that class. So t stays
    finite even if all held-out graphs are classified correctly.

    Parameters
    ----------
    scores : array (n_graphs, n_classes)
        Of graphs that were held out of the training.
    codes : array (n_graphs,)
    class_weight : array (n_classes,)
        As in the training loss.
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
