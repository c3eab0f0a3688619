"""L2 logistic regression, its strength chosen on the training data: the head of ``linear`` and ``freq``."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

# Strengths tried, for features scaled so that a graph's squared norm is about 1: from no more than the class
# frequencies to separating the training graphs.
C_GRID: tuple[float, ...] = tuple(float(f"{c:.3g}") for c in np.logspace(-4, 5, 19))
_N_FOLDS = 5


class Logistic(NamedTuple):
    """A fitted regression: ``coef (n_classes, n_features)``, ``intercept (n_classes,)`` and its ``C``."""

    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    C: float

    def predict_proba(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Class probabilities ``(n_graphs, n_classes)`` of features ``(n_graphs, n_features)``."""
        return np.asarray(softmax(features @ self.coef.T + self.intercept, axis=1))


def inner_folds(codes: NDArray[np.int64], seed: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Stratified ``(train, validation)`` indices within the training data: five, or as many as the smallest
    class allows. The only member of a class always trains; with nothing to validate on the list is empty."""
    counts = np.bincount(codes)
    splittable = np.flatnonzero(counts[codes] > 1)
    if len(splittable) == 0:
        return []
    splitter = StratifiedKFold(min(_N_FOLDS, int(counts[counts > 1].min())), shuffle=True, random_state=seed)
    everyone = np.arange(len(codes))
    held_out = (splittable[fold] for _, fold in splitter.split(splittable, codes[splittable]))
    return [(np.setdiff1d(everyone, fold), fold) for fold in held_out]


def fit_logistic(
    features: NDArray[np.float64],
    codes: NDArray[np.int64],
    weights: NDArray[np.float64],
    *,
    seed: int,
    C: float | None = None,
) -> Logistic:
    """Fit to centred ``features (n_graphs, n_features)``, with one weight per class.

    Without ``C``, the value of ``C_GRID`` with the least class-weighted log-loss over inner folds is taken.
    The solution lies in the span of the training graphs, so wide features are rotated into that span first:
    the result is the same, and the whole search costs what ``n_graphs`` features would.
    """
    scale = np.sqrt(max(np.mean(np.sum(features**2, axis=1)), np.finfo(float).tiny))
    rotated, rotation = _rotate_into_span(features / scale)
    class_weight = dict(enumerate(weights.tolist()))
    if C is None:
        C = _choose_strength(rotated, codes, class_weight, inner_folds(codes, seed))
    model = _regression(class_weight).set_params(C=C).fit(rotated, codes)
    coef, intercept = _one_row_per_class(model)
    coef = (coef if rotation is None else coef @ rotation) / scale
    return Logistic(np.ascontiguousarray(coef), intercept, C)


def _regression(class_weight: dict[int, float]) -> LogisticRegression:
    return LogisticRegression(class_weight=class_weight, tol=1e-5, max_iter=5000, warm_start=True)


def _rotate_into_span(
    features: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Coordinates ``(n_graphs, rank)`` in an orthonormal basis ``(rank, n_features)`` of the rows' span."""
    n_graphs, n_features = features.shape
    if n_features <= n_graphs:
        return features, None
    eigenvalues, vectors = eigh(features @ features.T)
    kept = eigenvalues > eigenvalues[-1] * n_graphs * np.finfo(float).eps * 10
    if not kept.any():
        return np.zeros((n_graphs, 1)), np.zeros((1, n_features))
    singular = np.sqrt(eigenvalues[kept])
    return vectors[:, kept] * singular, (vectors[:, kept] / singular).T @ features


def _choose_strength(
    features: NDArray[np.float64],
    codes: NDArray[np.int64],
    class_weight: dict[int, float],
    folds: list[tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> float:
    """The strength of ``C_GRID`` with the least log-loss over ``folds``; 1 when there are none."""
    if not folds:
        return 1.0
    loss = np.zeros(len(C_GRID))
    for train, validation in folds:
        model = _regression(class_weight)
        for i, C in enumerate(C_GRID):
            model.set_params(C=C).fit(features[train], codes[train])
            coef, intercept = _one_row_per_class(model)
            log_proba = log_softmax(features[validation] @ coef.T + intercept, axis=1)
            member = np.array([class_weight[code] for code in codes[validation].tolist()])
            loss[i] -= np.sum(member * log_proba[np.arange(len(validation)), codes[validation]])
    return C_GRID[int(loss.argmin())]


def _one_row_per_class(model: LogisticRegression) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Coefficients ``(n_classes, n_features)`` and intercepts ``(n_classes,)``, also with two classes."""
    if len(model.classes_) > 2:
        return model.coef_, model.intercept_
    return np.vstack([-model.coef_, model.coef_]) / 2, np.concatenate([-model.intercept_, model.intercept_]) / 2
