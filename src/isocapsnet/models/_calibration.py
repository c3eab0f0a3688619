"""Calibration of probabilities: graphs held out of the training, and a scale fitted to their scores."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.model_selection import StratifiedKFold

#: Each half of the graphs needs two graphs of every class.
LEAST_PER_CLASS = 4
# Range of log(temperature * size of the score differences): from equal probabilities to certainty.
_LOG_RANGE = (-5.0, 5.0)
# Smaller differences between scores are rounding errors; no temperature is fitted to them.
_NO_DIFFERENCE = 1e-9
# A second network must lower twice the log-loss by more than this: see `choose_second`.
_EARNED = 3.84
# Of scores whose largest absolute value is 1.
_LEAST_SLOPE = 1e-3


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
    targets, unit = _targets(codes, class_weight), _unit(scores)
    if unit < _NO_DIFFERENCE:
        return 1.0

    def log_loss(log_size: float) -> float:
        return _log_loss(np.exp(log_size) / unit * scores, targets)

    # Convex in t, so there is one minimum.
    return float(np.exp(minimize_scalar(log_loss, bounds=_LOG_RANGE, method="bounded").x) / unit)


class Combination(NamedTuple):
    """Two networks whose class scores are added: softmax(t · scores + u · others + b).

    Attributes
    ----------
    chosen : str
        The name of the second network.
    weights : tuple of float
        t and u.
    intercepts : array (n_classes,)
        b.
    """

    chosen: str
    weights: tuple[float, float]
    intercepts: NDArray[np.float64]


def choose_second(
    scores: NDArray[np.float64],
    candidates: Mapping[str, NDArray[np.float64]],
    codes: NDArray[np.int64],
    class_weight: NDArray[np.float64],
) -> Combination | None:
    """The candidate that improves the class scores of a network most if it is added to them; None if none does.

    A second network has to earn its place on held-out graphs: it must lower twice the log-loss by more than 3.84, the
    95 % quantile of χ² with one degree of freedom. Weights are not negative, so a useless network does so with a
    probability of 2.5 %, and one of two useless networks with at most 5 %. Both sides of the comparison have
    intercepts: a network that only knows the sizes of the classes earns nothing. The first network has the weight 0 if
    it does not help beside the second.

    Parameters
    ----------
    scores : array (n_graphs, n_classes)
        Of graphs that were held out of the training.
    candidates : mapping from name to array (n_graphs, n_classes)
        Scores of other networks for the same graphs.
    codes : array (n_graphs,)
    class_weight : array (n_classes,)
        As in the training loss.
    """
    targets = _targets(codes, class_weight)
    # The test counts graphs. With class weights they are worth Kish's effective number, (Σw)² / Σw².
    weights = class_weight[codes]
    targets *= weights.sum() / np.square(weights).sum()
    alone, *_ = _fit_sum([scores], targets)
    fits = {name: _fit_sum([scores, others], targets) for name, others in candidates.items()}
    chosen = min(fits, key=lambda name: fits[name][0], default=None)
    if chosen is None or 2 * (alone - fits[chosen][0]) <= _EARNED:
        return None
    _, (first, second), intercepts = fits[chosen]
    return Combination(chosen, (float(first), float(second)), intercepts)


def _fit_sum(
    parts: list[NDArray[np.float64]], targets: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """The least log-loss of a weighted sum of scores with intercepts, its weights (none negative) and intercepts."""
    stack, n_parts = np.stack(parts), len(parts)
    units = np.array([max(_unit(part), _NO_DIFFERENCE) for part in parts])

    def loss_and_slope(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        total = np.tensordot(values[:n_parts] / units, stack, axes=1) + values[n_parts:]
        excess = targets.sum(axis=1, keepdims=True) * softmax(total, axis=1) - targets
        slope = np.concatenate([np.tensordot(stack, excess, axes=2) / units, excess.sum(axis=0)])
        return _log_loss(total, targets), slope

    # Convex, so there is one minimum.
    start = np.concatenate([np.ones(n_parts), np.zeros(targets.shape[1])])
    bounds = [(0.0, float(np.exp(_LOG_RANGE[1])))] * n_parts + [(None, None)] * targets.shape[1]
    fit = minimize(loss_and_slope, start, jac=True, bounds=bounds, method="L-BFGS-B")
    return float(fit.fun), fit.x[:n_parts] / units, fit.x[n_parts:]


def fit_slope_and_offset(
    scores: NDArray[np.float64], codes: NDArray[np.int64], class_weight: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """Slope and offset ``(n_classes,)`` that minimise the log-loss of softmax(slope · scores + offset).

    The slope is positive: a negative one would reverse the ranking. Targets and arguments are those of
    :func:`fit_temperature`.
    """
    targets = _targets(codes, class_weight)
    size = float(np.abs(scores).max()) or 1.0

    def loss_and_slope(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        total = parameters[0] * scores / size + parameters[1:]
        excess = targets.sum(axis=1, keepdims=True) * softmax(total, axis=1) - targets
        return _log_loss(total, targets), np.concatenate([[np.sum(excess * scores) / size], excess.sum(axis=0)])

    n_classes = len(class_weight)
    bounds = [(_LEAST_SLOPE, None)] + [(None, None)] * n_classes
    best = minimize(loss_and_slope, np.r_[1.0, np.zeros(n_classes)], jac=True, bounds=bounds, method="L-BFGS-B").x
    return float(best[0] / size), best[1:]


def _targets(codes: NDArray[np.int64], class_weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Platt's targets ``(n_graphs, n_classes)`` times the weight of the graph's class."""
    n_classes = len(class_weight)
    counts = np.bincount(codes, minlength=n_classes)
    targets = (np.eye(n_classes) * counts + 1) / (counts[:, None] + n_classes)
    return np.asarray(class_weight[codes, None] * targets[codes])


def _unit(scores: NDArray[np.float64]) -> float:
    """The size of the differences between the scores of a graph's classes."""
    return float(np.sqrt(np.mean(np.square(scores - scores.mean(axis=1, keepdims=True)))))


def _log_loss(scores: NDArray[np.float64], targets: NDArray[np.float64]) -> float:
    return -float(np.sum(targets * log_softmax(scores, axis=1)))
