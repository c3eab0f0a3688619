"""Baselines of every benchmark: a constant predictor and a tuned linear model."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from isocapsnet._validation import InputError, check_number
from isocapsnet.models._base import (
    GraphClassifier,
    are_symmetric,
    as_seed,
    class_weights,
    count_edges,
    edge_vectors,
)
from isocapsnet.models._logistic import Logistic, fit_logistic
from isocapsnet.models._state import check_arrays, check_truth


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

    def _get_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {}, {"prior": self.prior_}

    def _set_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        check_arrays(arrays, {"prior": (np.float64, (len(self.classes_),))})
        if arrays["prior"].min() < 0 or not np.isclose(arrays["prior"].sum(), 1):
            raise InputError("its class frequencies are not probabilities")
        self.prior_ = arrays["prior"]


class LinearClassifier(GraphClassifier):
    """L2 logistic regression on standardised edges.

    Edges are the upper triangle, or both triangles when a training graph is not symmetric; the diagonal is
    not used. Each edge, with its sign, is centred and scaled by its mean and deviation over the training
    graphs; an edge that never varies is ignored.

    Parameters
    ----------
    C : float or None
        Inverse penalty, for edges scaled so that the mean squared norm of a training graph is 1. ``None``
        takes, from a grid over nine decades, the value with the least log-loss in stratified cross-validation
        within the training data (five folds, or as many as the smallest class allows).
    class_weight : None, "balanced" or dict
        Weight of each class in the fit and in the choice of ``C``.
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

    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    mean_: NDArray[np.float64]
    scale_: NDArray[np.float64]
    C_: float
    directed_: bool

    def __init__(self, *, C: float | None = None, class_weight: Any = None, random_state: Any = None) -> None:
        self.C = C
        self.class_weight = class_weight
        self.random_state = random_state

    def _check_parameters(self, n_nodes: int) -> None:
        if self.C is not None:
            check_number("C", self.C, low=0, open_low=True)

    def _fit(self, X: NDArray[Any], codes: NDArray[np.int64]) -> None:
        weights = class_weights(self.class_weight, self.classes_, codes)
        self.directed_ = not are_symmetric(X)
        scaler = StandardScaler()
        edges = scaler.fit_transform(edge_vectors(X, directed=self.directed_))
        self.mean_, self.scale_ = scaler.mean_, scaler.scale_
        head = fit_logistic(edges, codes, weights, seed=as_seed(self.random_state), C=self.C)
        self.coef_, self.intercept_, self.C_ = head.coef, head.intercept, head.C

    def _predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        edges = (edge_vectors(X, directed=self.directed_) - self.mean_) / self.scale_
        return Logistic(self.coef_, self.intercept_, self.C_).predict_proba(edges)

    def _get_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        arrays = {"coef": self.coef_, "intercept": self.intercept_, "mean": self.mean_, "scale": self.scale_}
        return {"C": self.C_, "directed": self.directed_}, arrays

    def _set_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.C_, self.directed_ = values["C"], check_truth("directed", values["directed"])
        check_number("C", self.C_, low=0, open_low=True)
        n_classes, n_edges = len(self.classes_), count_edges(self.n_nodes_in_, directed=self.directed_)
        shapes = {"coef": (n_classes, n_edges), "intercept": (n_classes,), "mean": (n_edges,), "scale": (n_edges,)}
        check_arrays(arrays, {name: (np.float64, shape) for name, shape in shapes.items()})
        self.coef_, self.intercept_ = arrays["coef"], arrays["intercept"]
        self.mean_, self.scale_ = arrays["mean"], arrays["scale"]
