"""L2 logistic regression with a strength chosen on the training data, used by ``linear``, ``freq`` and others."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from isocapsnet.models._calibration import fit_slope_and_offset

# Candidate strengths, for features scaled so that the squared norm of a graph is about 1. The smallest leaves little
# but the class frequencies, the largest separates the training graphs.
C_GRID: tuple[float, ...] = tuple(10.0**power for power in range(-4, 6))
_N_FOLDS = 5


class Logistic(NamedTuple):
    """A fitted regression: ``coef (n_classes, n_features)``, ``intercept (n_classes,)``, its strength ``C``, the
    log-loss of that strength over the inner folds, and whether these calibrated it."""

    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    C: float
    loss: float = np.nan
    is_calibrated: bool = False

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
    span = _Span.of(features)
    fit, _ = _search(span.rotated, codes, weights, C_GRID if C is None else (C,), selection_folds(codes, seed))
    return span.back(fit)


def fit_calibrated(
    features: NDArray[np.float64],
    codes: NDArray[np.int64],
    weights: NDArray[np.float64],
    *,
    seed: int,
    C: float | None = None,
    grid: Sequence[float] = C_GRID,
    choose_weights: bool = True,
) -> Logistic:
    """As :func:`fit_logistic`, with probabilities calibrated on the inner folds, and a choice of class weights.

    The scores are multiplied by one slope, and the intercepts are replaced, such that the log-loss of the graphs that
    were held out is the least (:func:`fit_slope_and_offset`). With ``choose_weights`` and more than two classes, a
    second regression weights classes by the inverse of their frequencies, and the one with the smaller loss after
    calibration is taken. The calibration uses ``weights`` for both, so they decide what the probabilities are about.
    """
    span, folds = _Span.of(features), selection_folds(codes, seed)
    choices = [weights]
    balanced = len(codes) / (len(weights) * np.bincount(codes))
    if choose_weights and len(weights) > 2 and not np.allclose(weights, balanced):
        choices.append(balanced)
    fits = []
    for chosen in choices:
        fit, scores = _search(span.rotated, codes, chosen, grid if C is None else (C,), folds)
        fits.append(_calibrate(fit, scores, codes, weights, folds))
    return span.back(min(fits, key=lambda fit: fit.loss))


class _Span(NamedTuple):
    """Features scaled to a mean squared norm of 1, in an orthonormal basis of the training graphs' span."""

    rotated: NDArray[np.float64]
    rotation: NDArray[np.float64] | None
    scale: float

    @classmethod
    def of(cls, features: NDArray[np.float64]) -> "_Span":
        scale = np.sqrt(max(np.mean(np.sum(features**2, axis=1)), np.finfo(float).tiny))
        return cls(*_rotate_into_span(features / scale), scale)

    def back(self, fit: Logistic) -> Logistic:
        """The same regression, of the features as they were."""
        coef = (fit.coef if self.rotation is None else fit.coef @ self.rotation) / self.scale
        return fit._replace(coef=np.ascontiguousarray(coef))


def _search(
    features: NDArray[np.float64],
    codes: NDArray[np.int64],
    weights: NDArray[np.float64],
    grid: Sequence[float],
    folds: list[tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> tuple[Logistic, NDArray[np.float64]]:
    """The regression with the best strength, and its scores ``(n_graphs, n_classes)`` of the graphs held out, without
    intercepts."""
    losses, scores = _inner_losses(features, codes, weights, grid, folds)
    best = int(losses.argmin()) if losses.any() else len(grid) // 2
    coef, intercept = one_row_per_class(_regression(weights).set_params(C=grid[best]).fit(features, codes))
    return Logistic(coef, intercept, grid[best], float(losses[best])), scores[best]


def _calibrate(
    fit: Logistic,
    scores: NDArray[np.float64],
    codes: NDArray[np.int64],
    weights: NDArray[np.float64],
    folds: list[tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> Logistic:
    """The regression with the slope and the intercepts that fit the scores of the graphs held out."""
    if not folds:
        return fit
    held_out = np.concatenate([fold for _, fold in folds])
    truth = codes[held_out]
    slope, offset = fit_slope_and_offset(scores[held_out], truth, weights)
    log_proba = log_softmax(slope * scores[held_out] + offset, axis=1)
    loss = -weights[truth] @ log_proba[np.arange(len(truth)), truth]
    return Logistic(slope * fit.coef, offset, fit.C, float(loss), is_calibrated=True)


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
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Class-weighted log-loss of each strength of ``grid``, summed over the graphs held out; 0 without folds. And their
    scores without intercepts ``(n_strengths, n_graphs, n_classes)``."""
    losses, scores = np.zeros(len(grid)), np.zeros((len(grid), len(codes), len(weights)))
    for train, held_out in folds:
        model = _regression(weights)
        for i, C in enumerate(grid):
            coef, intercept = one_row_per_class(model.set_params(C=C).fit(features[train], codes[train]))
            scores[i, held_out] = features[held_out] @ coef.T
            log_proba = log_softmax(scores[i, held_out] + intercept, axis=1)
            truth = codes[held_out]
            losses[i] -= weights[truth] @ log_proba[np.arange(len(truth)), truth]
    return losses, scores


def one_row_per_class(model: LogisticRegression) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Coefficients ``(n_classes, n_features)`` and intercepts ``(n_classes,)``, also with two classes."""
    if len(model.classes_) > 2:
        return model.coef_, model.intercept_
    return np.vstack([-model.coef_, model.coef_]) / 2, np.concatenate([-model.intercept_, model.intercept_]) / 2
