"""A control of every benchmark with covariates: a linear model that is given these instead of graphs."""

from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_array, check_is_fitted

from isocapsnet._threads import one_thread
from isocapsnet._validation import InputError, check_labels
from isocapsnet.models._base import as_seed, class_weights
from isocapsnet.models._logistic import Logistic, fit_calibrated
from isocapsnet.models._parameters import Positive, check_fields, estimator


@estimator
class ConfoundClassifier(ClassifierMixin, BaseEstimator):
    """Calibrated L2 logistic regression on standardised covariates, as ``linear`` is on edges; it never sees a graph.

    A benchmark gives it the age, sex, head motion and site of each subject, as columns of numbers
    (``CovariateEncoder``). A method that is not better than this one has not shown
    that it uses more of the brain than confounds tell.

    Parameters
    ----------
    C : float or None
        Inverse penalty, for columns scaled so that the mean squared norm of a training subject is 1. ``None`` takes,
        from a grid over nine decades, the value with the least log-loss in stratified cross-validation within the
        training data.
    class_weight : None, "balanced" or dict
        Weight of each class in the fit, in the choice of ``C`` and in the calibration. With ``None`` and more than two
        classes, those in the fit are equal or balanced, whichever predicts better in the same cross-validation; those
        in the calibration are equal.
    random_state : int, generator or None
        Shuffles the inner folds.

    Attributes
    ----------
    coef_ : array (n_classes, n_columns)
        Weights of the standardised columns; with two classes the second row is minus the first.
    intercept_ : array (n_classes,)
    C_ : float
    """

    C: Positive | None = None
    class_weight: Any = None
    random_state: Any = None

    #: What a benchmark gives to ``fit`` and ``predict_proba``.
    input: ClassVar[str] = "covariates"
    #: Increased when a fix changes the results, so that older benchmark records are not reused.
    version: ClassVar[int] = 2

    classes_: NDArray[Any] = field(init=False)
    coef_: NDArray[np.float64] = field(init=False)
    intercept_: NDArray[np.float64] = field(init=False)
    C_: float = field(init=False)
    scaler_: StandardScaler = field(init=False)

    @one_thread()
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to columns ``X`` ``(n_subjects, n_columns)`` and labels ``y`` ``(n_subjects,)``."""
        check_fields(self)
        columns = _check_columns(X)
        self.classes_, codes = check_labels(y, len(columns))
        weights = class_weights(self.class_weight, self.classes_, codes)
        self.scaler_ = StandardScaler().fit(columns)
        features = self.scaler_.transform(columns)
        seed = as_seed(self.random_state)
        head = fit_calibrated(features, codes, weights, seed=seed, C=self.C, choose_weights=self.class_weight is None)
        self.coef_, self.intercept_, self.C_ = head.coef, head.intercept, head.C
        return self

    @one_thread()
    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Class probabilities ``(n_subjects, n_classes)``, columns in the order of ``classes_``."""
        check_is_fitted(self, "scaler_")
        head = Logistic(self.coef_, self.intercept_, self.C_)
        return head.predict_proba(self.scaler_.transform(_check_columns(X)))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class of each subject ``(n_subjects,)``."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def _check_columns(X: ArrayLike) -> NDArray[np.float64]:
    if np.ndim(X) != 2:
        raise InputError(
            f"X has shape {np.shape(X)}; confound-only takes covariates (n_subjects, n_columns) instead of graphs, "
            "which a benchmark gives to it."
        )
    return np.asarray(check_array(X, dtype=np.float64))
