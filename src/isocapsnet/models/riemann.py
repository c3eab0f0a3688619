"""Classification of graphs as symmetric positive definite matrices.

A. Barachant, S. Bonnet, M. Congedo and C. Jutten, "Multiclass brain-computer interface classification by Riemannian
geometry", IEEE Transactions on Biomedical Engineering 2012. Means, distances and tangent vectors are pyRiemann's.
"""

from dataclasses import field
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from isocapsnet._packages import importing
from isocapsnet._state import Expected
from isocapsnet._threads import one_thread
from isocapsnet._validation import InputError
from isocapsnet.models._base import GraphClassifier, RepresentationMixin, as_seed, class_weights
from isocapsnet.models._calibration import fit_slope_and_offset
from isocapsnet.models._logistic import fit_calibrated, selection_folds
from isocapsnet.models._parameters import estimator, in_range, one_of


@estimator
class RiemannClassifier(RepresentationMixin, GraphClassifier):
    """Logistic regression in the tangent space of positive definite matrices, or minimum distance to the class means.

    Any graphs become positive definite matrices. Let W be a graph without its diagonal, the mean of both directions of
    each edge. With b the largest of 1 and -(smallest eigenvalue of W) over the training graphs, the matrix is
    S = I + (1 - shrinkage) W / b. The eigenvalues of S are at least ``shrinkage`` for all training graphs; those of
    a new graph that are smaller are raised to it. For correlation matrices b is 1, so S is the matrix itself, shrunk
    towards the identity. The direction of edges and the diagonal are not used.

    Parameters
    ----------
    approach : "tangent" or "mdm"
        Logistic regression on tangent vectors at the mean of the training graphs; or the distance to the mean of each
        class (minimum distance to mean). Probabilities are calibrated, so with unbalanced classes the most probable
        class need not be the one whose mean is nearest.
    metric : "riemann" or "logeuclid"
        The affine-invariant or the log-Euclidean metric, for means, distances and tangent vectors.
    shrinkage : float
        Weight of the identity matrix, above 0 and at most 1.
    class_weight : None, "balanced" or dict
        Weight of each class in the regression and in the calibration. With ``None`` and more than two classes, those in
        the regression are equal or balanced, whichever predicts better in the inner folds.
    random_state : int, generator or None
        Shuffles the inner folds, which choose the penalty of the regression and calibrate the probabilities.

    Attributes
    ----------
    bound_ : float
        The number b.
    means_ : array (n_means, n_nodes, n_nodes)
        The mean matrix of the training graphs (``"tangent"``), or that of each class (``"mdm"``).
    centre_ : array (n_features,)
        The mean feature of the training graphs (``"tangent"``); zeros for ``"mdm"``.
    coef_, intercept_ : array (n_classes, n_features), (n_classes,)
        Weights of what ``transform`` returns, minus ``centre_``, in the scores of the classes.
    """

    packages: ClassVar = {"pyriemann": "methods"}
    _search_space: ClassVar = {"approach": ["tangent", "mdm"], "shrinkage": [0.05, 0.1, 0.3]}
    _state_values: ClassVar = {"bound": in_range(1)}

    approach: Annotated[str, one_of("tangent", "mdm")] = "tangent"
    metric: Annotated[str, one_of("riemann", "logeuclid")] = "riemann"
    shrinkage: Annotated[float, in_range(0, 1, open_low=True)] = 0.1
    class_weight: Any = None
    random_state: Any = None

    bound_: float = field(init=False)
    means_: NDArray[np.float64] = field(init=False)
    centre_: NDArray[np.float64] = field(init=False)
    coef_: NDArray[np.float64] = field(init=False)
    intercept_: NDArray[np.float64] = field(init=False)

    @one_thread()
    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Tangent vectors of graphs ``X``, or their squared distances to the mean of each class.

        Their shapes are ``(n_graphs, n_nodes * (n_nodes + 1) / 2)`` and ``(n_graphs, n_classes)``.
        """
        return self._features(self._matrices(self._check_fitted(X)), self.means_)

    @property
    def _n_features_out(self) -> int:  # type: ignore[override]
        return len(self.centre_)

    def _fit(self, X: NDArray[Any], codes: NDArray[np.int64]) -> None:
        import_pyriemann()
        weights = class_weights(self.class_weight, self.classes_, codes)
        seed = as_seed(self.random_state)
        self.bound_ = max(1.0, -float(np.linalg.eigvalsh(_edges(X)).min()))
        matrices = self._matrices(X)
        self.means_ = self._find_means(matrices, codes)
        features = self._features(matrices, self.means_)
        if self.approach == "tangent":
            self.centre_ = features.mean(axis=0)
            head = fit_calibrated(
                features - self.centre_, codes, weights, seed=seed, choose_weights=self.class_weight is None
            )
            self.coef_, self.intercept_, self.is_calibrated_ = head.coef, head.intercept, head.is_calibrated
            return
        self.centre_ = np.zeros(len(weights))
        slope, offset = 1.0, np.zeros(len(weights))
        distances = np.zeros(features.shape)
        folds = selection_folds(codes, seed)
        self.is_calibrated_ = bool(folds)
        for train, held_out in folds:
            means = self._find_means(matrices[train], codes[train])
            distances[held_out] = self._features(matrices[held_out], means)
        if folds:
            used = np.concatenate([fold for _, fold in folds])
            slope, offset = fit_slope_and_offset(-distances[used], codes[used], weights)
        self.coef_, self.intercept_ = -slope * np.eye(len(weights)), offset

    def _matrices(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Positive definite matrices ``(n_graphs, n_nodes, n_nodes)``, their eigenvalues at least ``shrinkage``."""
        matrices = np.eye(X.shape[1]) + (1 - self.shrinkage) * _edges(X) / self.bound_
        values, vectors = np.linalg.eigh(matrices)
        # Training graphs may miss the bound by a rounding error, which does no harm.
        for i in np.flatnonzero(values[:, 0] < 0.99 * self.shrinkage):
            matrices[i] = (vectors[i] * np.maximum(values[i], self.shrinkage)) @ vectors[i].T
        return matrices

    def _find_means(self, matrices: NDArray[np.float64], codes: NDArray[np.int64]) -> NDArray[np.float64]:
        mean = import_pyriemann().mean.gmean
        if self.approach == "tangent":
            return np.asarray(mean(matrices, metric=self.metric))[None]
        classes = range(len(self.classes_))
        return np.stack([mean(matrices[codes == code], metric=self.metric) for code in classes])

    def _features(self, matrices: NDArray[np.float64], means: NDArray[np.float64]) -> NDArray[np.float64]:
        geometry = import_pyriemann()
        if self.approach == "tangent":
            return np.asarray(geometry.tangentspace.tangent_space(matrices, means[0], metric=self.metric))
        distances = [geometry.distance.distance(matrices, mean, metric=self.metric, squared=True) for mean in means]
        return np.hstack([np.reshape(one, (len(matrices), 1)) for one in distances])

    def _predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        features = self._features(self._matrices(X), self.means_) - self.centre_
        return np.asarray(softmax(features @ self.coef_.T + self.intercept_, axis=1))

    def _state_arrays(self) -> dict[str, Expected]:
        n_classes, n_nodes = len(self.classes_), self.n_nodes_in_
        tangent = self.approach == "tangent"
        n_features = n_nodes * (n_nodes + 1) // 2 if tangent else n_classes
        shapes = {
            "means": (1 if tangent else n_classes, n_nodes, n_nodes),
            "centre": (n_features,),
            "coef": (n_classes, n_features),
            "intercept": (n_classes,),
        }
        return {name: (np.float64, shape) for name, shape in shapes.items()}

    def _set_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._set_state(values, arrays)
        import_pyriemann()
        symmetric = np.allclose(self.means_, np.swapaxes(self.means_, 1, 2))
        if not symmetric or np.linalg.eigvalsh(self.means_).min() <= 0:
            raise InputError("its means are not positive definite matrices")


def _edges(X: NDArray[Any]) -> NDArray[np.float64]:
    """Graphs without their diagonal, the mean of both directions of each edge."""
    edges = (X.astype(np.float64) + np.swapaxes(X, 1, 2)) / 2
    nodes = np.arange(X.shape[1])
    edges[:, nodes, nodes] = 0
    return edges


def import_pyriemann() -> Any:
    """The geometry of pyRiemann."""
    with importing("RiemannClassifier needs pyRiemann 0.12 or later", "methods"):
        import pyriemann.geometry.distance
        import pyriemann.geometry.mean
        import pyriemann.geometry.tangentspace
    return pyriemann.geometry
