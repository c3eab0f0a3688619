"""Connectome-based predictive modelling, for classes.

X. Shen, E. S. Finn, D. Scheinost, M. D. Rosenberg, M. M. Chun, X. Papademetris and R. T. Constable, "Using
connectome-based predictive modeling to predict individual behavior from brain connectivity", Nature Protocols 2017.
"""

from dataclasses import field
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from isocapsnet._state import Expected, check_truth
from isocapsnet._threads import one_thread
from isocapsnet._validation import InputError
from isocapsnet.models._base import (
    GraphClassifier,
    RepresentationMixin,
    are_symmetric,
    as_seed,
    class_weights,
    count_edges,
    edge_vectors,
    warn_user,
)
from isocapsnet.models._calibration import fit_slope_and_offset
from isocapsnet.models._logistic import one_row_per_class, selection_folds
from isocapsnet.models._parameters import PositiveShare, estimator, one_of

# Next to no penalty: it keeps the weights finite if the sums separate the training graphs.
_C = 1e3


@estimator
class CPMClassifier(RepresentationMixin, GraphClassifier):
    """Logistic regression on two sums of edges: those that rise with the class, and those that fall.

    Edges are the upper triangle, or both triangles when a training graph is not symmetric; the diagonal is not used.
    An edge is selected if its correlation with the class, over the training graphs, has a p-value below ``threshold``.
    The strength of the positive network is the sum of the selected edges with a positive correlation, that of the
    negative network the sum of the others. With more than two classes, each class against the rest has two networks,
    and one regression uses all sums.

    Parameters
    ----------
    threshold : float
        The p-value that an edge must be below.
    networks : "both", "positive" or "negative"
        Which of the two sums are used.
    class_weight : None, "balanced" or dict
        Weight of each class in the regression and in the calibration.
    random_state : int, generator or None
        Shuffles the inner folds of the calibration.

    Attributes
    ----------
    selected_ : int8 array (n_contrasts, n_edges)
        1 for an edge of the positive network, -1 for one of the negative network, 0 for others. With two classes there
        is one contrast: the second class against the first.
    mean_, scale_ : array (n_sums,)
        Of the sums, over the training graphs.
    coef_, intercept_ : array (n_classes, n_sums), (n_classes,)
        Probabilities are softmax(coef @ standardised sums + intercept), calibrated on held-out training graphs.
    directed_ : bool
        Whether both triangles are used.
    """

    _search_space: ClassVar = {"threshold": [0.001, 0.01, 0.05], "networks": ["both", "positive", "negative"]}
    _state_values: ClassVar = {"directed": check_truth}

    threshold: PositiveShare = 0.01
    networks: Annotated[str, one_of("both", "positive", "negative")] = "both"
    class_weight: Any = None
    random_state: Any = None

    selected_: NDArray[np.int8] = field(init=False)
    mean_: NDArray[np.float64] = field(init=False)
    scale_: NDArray[np.float64] = field(init=False)
    coef_: NDArray[np.float64] = field(init=False)
    intercept_: NDArray[np.float64] = field(init=False)
    directed_: bool = field(init=False)

    @one_thread()
    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """The sums of each graph ``(n_graphs, n_sums)``: the positive networks of all contrasts, then the negative."""
        return self._sums(edge_vectors(self._check_fitted(X), directed=self.directed_), self.selected_)

    @property
    def _n_features_out(self) -> int:  # type: ignore[override]
        return len(self.mean_)

    def _fit(self, X: NDArray[Any], codes: NDArray[np.int64]) -> None:
        weights = class_weights(self.class_weight, self.classes_, codes)
        self.directed_ = not are_symmetric(X)
        edges = edge_vectors(X, directed=self.directed_)
        self.selected_, self.mean_, self.scale_, coef, intercept = self._fit_sums(edges, codes, weights)
        if not self.selected_.any():
            warn_user(f"No edge is correlated with the classes at p < {self.threshold}; use a larger threshold.")
        slope, offset = 1.0, intercept
        scores = np.zeros((len(codes), len(weights)))
        folds = selection_folds(codes, as_seed(self.random_state))
        self.is_calibrated_ = bool(folds)
        # Edges are selected anew in each fold: the regression on edges that its own graphs selected is overconfident.
        for train, held_out in folds:
            selected, mean, scale, coef_of_fold, _ = self._fit_sums(edges[train], codes[train], weights)
            scores[held_out] = ((self._sums(edges[held_out], selected) - mean) / scale) @ coef_of_fold.T
        if folds:
            used = np.concatenate([fold for _, fold in folds])
            slope, offset = fit_slope_and_offset(scores[used], codes[used], weights)
        self.coef_, self.intercept_ = np.ascontiguousarray(slope * coef), offset

    def _fit_sums(
        self, edges: NDArray[np.float64], codes: NDArray[np.int64], weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.int8], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Selected edges, mean and scale of their sums, weights and intercepts of the regression."""
        contrasts = range(len(weights)) if len(weights) > 2 else [1]
        selected = np.stack([select_edges(edges, codes == code, self.threshold) for code in contrasts])
        sums = self._sums(edges, selected)
        mean, scale = sums.mean(axis=0), sums.std(axis=0)
        # Sums of no edges, and of edges that are all alike.
        scale[scale <= 1e-12 * np.abs(sums).max(axis=0, initial=0.0)] = 1.0
        regression = LogisticRegression(C=_C, class_weight=dict(enumerate(weights.tolist())), max_iter=1000)
        return selected, mean, scale, *one_row_per_class(regression.fit((sums - mean) / scale, codes))

    def _sums(self, edges: NDArray[np.float64], selected: NDArray[np.int8]) -> NDArray[np.float64]:
        signs = {"both": (1, -1), "positive": (1,), "negative": (-1,)}[self.networks]
        return np.hstack([edges @ (selected == sign).T.astype(np.float64) for sign in signs])

    def _predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        sums = self._sums(edge_vectors(X, directed=self.directed_), self.selected_)
        return np.asarray(softmax((sums - self.mean_) / self.scale_ @ self.coef_.T + self.intercept_, axis=1))

    def _state_arrays(self) -> dict[str, Expected]:
        n_classes, n_edges = len(self.classes_), count_edges(self.n_nodes_in_, directed=self.directed_)
        n_contrasts = n_classes if n_classes > 2 else 1
        n_sums = n_contrasts * (2 if self.networks == "both" else 1)
        return {
            "selected": (np.int8, (n_contrasts, n_edges)),
            "mean": (np.float64, (n_sums,)),
            "scale": (np.float64, (n_sums,)),
            "coef": (np.float64, (n_classes, n_sums)),
            "intercept": (np.float64, (n_classes,)),
        }

    def _set_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._set_state(values, arrays)
        if not np.isin(self.selected_, (-1, 0, 1)).all() or self.scale_.min() <= 0:
            raise InputError("its networks are not valid")


def select_edges(edges: NDArray[np.float64], positive: NDArray[np.bool_], threshold: float) -> NDArray[np.int8]:
    """The sign of each edge's correlation with a class if its p-value is below ``threshold``, and 0 otherwise.

    The p-value is that of Student's t with n - 2 degrees of freedom, as of :func:`scipy.stats.pearsonr`. ``edges``
    ``(n_graphs, n_edges)``; ``positive`` ``(n_graphs,)`` says which graphs have the class.
    """
    n_free = len(edges) - 2
    if n_free < 1:
        return np.zeros(edges.shape[1], dtype=np.int8)
    centred = edges - edges.mean(axis=0)
    target = positive - positive.mean()
    norm = np.sqrt(np.sum(centred**2, axis=0) * (target @ target))
    # An edge that never varies is correlated with nothing.
    constant = norm <= 1e-12 * np.abs(edges).max(axis=0) * np.sqrt(len(edges) * (target @ target))
    correlation = np.clip(target @ centred / np.where(constant, 1.0, norm), -1, 1)
    quantile = stats.t.isf(threshold / 2, n_free)
    least = quantile / np.sqrt(n_free + quantile**2)
    return np.where(constant | (np.abs(correlation) <= least), 0, np.sign(correlation)).astype(np.int8)
