"""L2 logistic regression with a strength chosen on the training data, used by ``linear`` and ``freq``."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

# Candidate strengths, for features scaled so that the squared norm of a graph is about 1. The smallest leaves little
# but the class frequencies, the largest separates the training graphs.
C_GRID: tuple[float, ...] = tuple(10.0**power for power in range(-4, 6))
_N_FOLDS = 5


class Logistic(NamedTuple):
    """A fitted regression: ``coef (n_classes, n_features)``, ``intercept (n_classes,)``, its strength ``C`` and the
    log-loss of that strength over the inner folds."""

    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    C: float
    loss: float = np.nan

    def predict_proba(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Class probabilities ``(n_graphs, n_classes)`` of features ``(n_graphs, n_features)``."""
        return np.asarray(softmax(features @ self.coef.T + self.intercept, axis=1))


def selection_folds(codes: NDArray[np.int64], seed: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Stratified ``(train, validation)`` indices within the training data: five, or as many as the smallest
    class allows. A graph that is alone in its class is always in the training part. The list is empty if no graph can
    be held out."""
    counts = np.bincount(codes)
    splittable = np.flatnonzero(counts[codes] > 1)
    if len(splittable) == 0:
        return []
    splitter = StratifiedKFold(min(_N_FOLDS, int(counts[counts > 1].min())), shuffle=True, random_state=seed)
    indices = np.arange(len(codes))
    held_out = (splittable[fold] for _, fold in splitter.split(splittable, codes[splittable]))
    return [(np.setdiff1d(indices, fold), fold) for fold in held_out]


def fit_logistic(
    features: NDArray[np.float64],
    codes: NDArray[np.int64],
    weights: NDArray[np.float64],
    *,
    seed: int,
    C: float | None = None,
) -> Logistic:
    """Fit to centred ``features (n_graphs, n_features)``, with one weight per class.

    Without ``C``, the value of ``C_GRID`` with the least class-weighted log-loss over inner folds is taken. The
    solution lies in the span of the training graphs, so wide features are rotated into that span first: the result is
    the same, and the whole search costs what ``n_graphs`` features would.
    """
    scale = np.sqrt(max(np.mean(np.sum(features**2, axis=1)), np.finfo(float).tiny))
    rotated, rotation = _rotate_into_span(features / scale)
    grid = C_GRID if C is None else (C,)
    losses = _inner_losses(rotated, codes, weights, grid, selection_folds(codes, seed))
    best = int(losses.argmin()) if losses.any() else len(grid) // 2
    coef, intercept = _one_row_per_class(_regression(weights).set_params(C=grid[best]).fit(rotated, codes))
    coef = (coef if rotation is None else coef @ rotation) / scale
    return Logistic(np.ascontiguousarray(coef), intercept, grid[best], float(losses[best]))


def _regression(weights: NDArray[np.float64]) -> LogisticRegression:
    class_weight = dict(enumerate(weights.tolist()))
    return LogisticRegression(class_weight=class_weight, tol=1e-5, max_iter=5000, warm_start=True)


def _rotate_into_span(
    features: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Coordinates ``(n_graphs, rank)`` in an orthonormal basis ``(rank, n_features)`` of the rows' span."""
    n_graphs, n_features = features.shape
    if not features.any():
        return np.zeros((n_graphs, 1)), np.zeros((1, n_features))
    if n_features <= n_graphs:
        return features, None
    eigenvalues, vectors = eigh(features @ features.T)
    kept = eigenvalues > eigenvalues[-1] * n_graphs * np.finfo(float).eps * 10
    singular = np.sqrt(eigenvalues[kept])
    return vectors[:, kept] * singular, (vectors[:, kept] / singular).T @ features


def _inner_losses(
    features: NDArray[np.float64],
    codes: NDArray[np.int64],
    weights: NDArray[np.float64],
    grid: Sequence[float],
    folds: list[tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> NDArray[np.float64]:
    """Class-weighted log-loss of each strength of ``grid``, summed over the graphs held out; 0 without folds."""
    losses = np.zeros(len(grid))
    for train, held_out in folds:
        model = _regression(weights)
        for i, C in enumerate(grid):
            coef, intercept = _one_row_per_class(model.set_params(C=C).fit(features[train], codes[train]))
            log_proba = log_softmax(features[held_out] @ coef.T + intercept, axis=1)
            truth = codes[held_out]
            losses[i] -= weights[truth] @ log_proba[np.arange(len(truth)), truth]
    return losses


def _one_row_per_class(model: LogisticRegression) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Coefficients ``(n_classes, n_features)`` and intercepts ``(n_classes,)``, also with two classes."""
    if len(model.classes_) > 2:
        return model.coef_, model.intercept_
    return np.vstack([-model.coef_, model.coef_]) / 2, np.concatenate([-model.intercept_, model.intercept_]) / 2
