"""Baselines of every benchmark: a constant predictor and a tuned linear model."""

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from isocapsnet._state import Expected, check_positive, check_truth
from isocapsnet._validation import InputError
from isocapsnet.models._base import (
    GraphClassifier,
    are_symmetric,
    as_seed,
    class_weights,
    count_edges,
    edge_vectors,
)
from isocapsnet.models._logistic import Logistic, fit_calibrated
from isocapsnet.models._parameters import Positive, estimator, in_range


class ConstantClassifier(GraphClassifier):
    """Predicts the most frequent training class, with the training class frequencies as probabilities.

    Attributes
    ----------
    prior_ : array (n_classes,)
        Class frequencies in the training data.
    """

    prior_: NDArray[np.float64]

    def _fit(self, X: NDArray[Any], codes: NDArray[np.int64]) -> None:
        self.prior_ = np.bincount(codes, minlength=len(self.classes_)) / len(codes)

    def _predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        return np.tile(self.prior_, (len(X), 1))

    def _state_arrays(self) -> dict[str, Expected]:
        return {"prior": (np.float64, (len(self.classes_),))}

    def _set_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._set_state(values, arrays)
        if self.prior_.min() < 0 or not np.isclose(self.prior_.sum(), 1):
            raise InputError("its class frequencies are not probabilities")


@estimator
class LinearClassifier(GraphClassifier):
    """Calibrated L2 logistic regression on standardised edges.

    Edges are the upper triangle, or both triangles when a training graph is not symmetric; the diagonal is
    not used. Each edge, with its sign, is centred and scaled by its mean and deviation over the training
    graphs; an edge that never varies is ignored. With more than two classes and without ``class_weight``, classes have
    equal or balanced weights in the fit, whichever predicts better in cross-validation within the training data.
    Probabilities are calibrated in the same cross-validation.

    Parameters
    ----------
    C : float or None
        Inverse penalty, for edges scaled so that the mean squared norm of a training graph is 1. ``None``
        takes, from a grid over nine decades, the value with the least log-loss in stratified cross-validation
        within the training data (five folds, or as many as the smallest class allows).
    class_weight : None, "balanced" or dict
        Weight of each class in the fit, in the choice of ``C`` and in the calibration. With ``None`` and more than two
        classes, the weights in the fit are chosen; those in the calibration are equal.
    random_state : int, generator or None
        Shuffles the inner folds.

    Attributes
    ----------
    coef_ : array (n_classes, n_edges)
        Weights of the standardised edges; with two classes the second row is minus the first.
    intercept_ : array (n_classes,)
    mean_, scale_ : array (n_edges,)
    C_ : float
    directed_ : bool
        Whether both triangles are used.
    """

    version: ClassVar[int] = 2

    C: Positive | None = None
    class_weight: Any = None
    random_state: Any = None

    coef_: NDArray[np.float64] = field(init=False)
    intercept_: NDArray[np.float64] = field(init=False)
    mean_: NDArray[np.float64] = field(init=False)
    scale_: NDArray[np.float64] = field(init=False)
    C_: float = field(init=False)
    directed_: bool = field(init=False)

    _state_values: ClassVar = {"C": in_range(0, open_low=True), "directed": check_truth}

    def _fit(self, X: NDArray[Any], codes: NDArray[np.int64]) -> None:
        weights = class_weights(self.class_weight, self.classes_, codes)
        self.directed_ = not are_symmetric(X)
        scaler = StandardScaler()
        edges = scaler.fit_transform(edge_vectors(X, directed=self.directed_))
        self.mean_, self.scale_ = scaler.mean_, scaler.scale_
        seed = as_seed(self.random_state)
        head = fit_calibrated(edges, codes, weights, seed=seed, C=self.C, choose_weights=self.class_weight is None)
        self.coef_, self.intercept_, self.C_ = head.coef, head.intercept, head.C
        self.is_calibrated_ = head.is_calibrated

    def _predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        edges = (edge_vectors(X, directed=self.directed_) - self.mean_) / self.scale_
        return Logistic(self.coef_, self.intercept_, self.C_).predict_proba(edges)

    def _state_arrays(self) -> dict[str, Expected]:
        n_classes, n_edges = len(self.classes_), count_edges(self.n_nodes_in_, directed=self.directed_)
        shapes = {"coef": (n_classes, n_edges), "intercept": (n_classes,), "mean": (n_edges,), "scale": (n_edges,)}
        return {name: (np.float64, shape) for name, shape in shapes.items()}

    def _set_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._set_state(values, arrays)
        check_positive("scale", self.scale_)
