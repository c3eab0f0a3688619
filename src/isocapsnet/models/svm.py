"""A support vector machine on edges.

C. Cortes and V. Vapnik, "Support-vector networks", Machine Learning 1995. The machine is scikit-learn's.
"""

from dataclasses import field
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

from isocapsnet._state import Expected, check_positive, check_truth
from isocapsnet._validation import InputError
from isocapsnet.models._base import are_symmetric, as_seed, class_weights, count_edges, edge_vectors
from isocapsnet.models._kernel_machine import KernelClassifier
from isocapsnet.models._logistic import selection_folds
from isocapsnet.models._parameters import Positive, estimator, in_range, one_of

# Of the radial kernel, for graphs with a mean squared norm of 1.
_GAMMA = 0.5


@estimator
class SVMClassifier(KernelClassifier):
    """Support vector machine on standardised edges, one class against the rest, with calibrated probabilities.

    Edges are the upper triangle, or both triangles when a training graph is not symmetric; the diagonal is not used.
    Each edge, with its sign, is centred and scaled by its mean and deviation over the training graphs; an edge that
    never varies is ignored. Then all edges are divided by one number, so that the mean squared norm of a training graph
    is 1.

    With ``kernel="rbf"`` a saved model holds the edges of the training graphs that are support vectors, so it may be
    shared only as the data may. With ``kernel="linear"`` it holds one weight per edge and class instead.

    Parameters
    ----------
    kernel : "linear" or "rbf"
        The dot product of two graphs, or exp(-d² / 2) of their distance d.
    C : float
        Inverse penalty.
    class_weight : None, "balanced" or dict
    random_state : int, generator or None
        Shuffles the inner folds of the calibration.

    Attributes
    ----------
    vectors_ : array (n_vectors, n_edges)
        With ``kernel="rbf"``, the scaled edges of the training graphs that are support vectors of a class.
    coef_ : array (n_classes, n_edges) or (n_classes, n_vectors)
        Weights of the scaled edges with ``kernel="linear"``; with ``"rbf"``, what each support vector adds to the score
        of a class, per unit of kernel value.
    intercept_ : array (n_classes,)
    mean_, scale_ : array (n_edges,)
    slope_, offset_ : float, array (n_classes,)
        Probabilities are softmax(slope * scores + offset), fitted to held-out training graphs.
    directed_ : bool
        Whether both triangles are used.
    """

    _search_space: ClassVar = {"kernel": ["linear", "rbf"], "C": [0.1, 1.0, 10.0]}
    _state_values: ClassVar = {"slope": in_range(0, open_low=True), "directed": check_truth}

    kernel: Annotated[str, one_of("linear", "rbf")] = "linear"
    C: Positive = 1.0
    class_weight: Any = None
    random_state: Any = None

    vectors_: NDArray[np.float64] = field(init=False)
    coef_: NDArray[np.float64] = field(init=False)
    intercept_: NDArray[np.float64] = field(init=False)
    mean_: NDArray[np.float64] = field(init=False)
    scale_: NDArray[np.float64] = field(init=False)
    slope_: float = field(init=False)
    offset_: NDArray[np.float64] = field(init=False)
    directed_: bool = field(init=False)

    def _fit(self, X: NDArray[Any], codes: NDArray[np.int64]) -> None:
        weights = class_weights(self.class_weight, self.classes_, codes)
        self.directed_ = not are_symmetric(X)
        scaler = StandardScaler()
        edges = scaler.fit_transform(edge_vectors(X, directed=self.directed_))
        norm = np.sqrt(np.mean(np.sum(edges**2, axis=1))) or 1.0
        self.mean_, self.scale_ = scaler.mean_, scaler.scale_ * norm
        edges /= norm
        similarity = edges @ edges.T if self.kernel == "linear" else rbf_kernel(edges, gamma=_GAMMA)
        folds = selection_folds(codes, as_seed(self.random_state))
        self.slope_, self.offset_, _ = self._cross_validate(similarity, codes, weights, folds)
        coef, self.intercept_ = self._fit_head(similarity, codes, weights)
        if self.kernel == "linear":
            self.coef_ = coef @ edges
        else:
            used = coef.any(axis=0)
            self.vectors_, self.coef_ = edges[used], np.ascontiguousarray(coef[:, used])

    def _similarity(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """The kernel of each graph with each support vector; the scaled edges themselves with ``kernel="linear"``."""
        edges = (edge_vectors(X, directed=self.directed_) - self.mean_) / self.scale_
        return edges if self.kernel == "linear" else np.asarray(rbf_kernel(edges, self.vectors_, gamma=_GAMMA))

    def _state_arrays(self) -> dict[str, Expected]:
        n_classes, n_edges = len(self.classes_), count_edges(self.n_nodes_in_, directed=self.directed_)
        kernel: dict[str, tuple[int | str, ...]] = (
            {"coef": (n_classes, n_edges)}
            if self.kernel == "linear"
            else {"vectors": ("vectors", n_edges), "coef": (n_classes, "vectors")}
        )
        shapes = kernel | {
            "intercept": (n_classes,),
            "mean": (n_edges,),
            "scale": (n_edges,),
            "offset": (n_classes,),
        }
        return {name: (np.float64, shape) for name, shape in shapes.items()}

    def _set_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._set_state(values, arrays)
        check_positive("scale", self.scale_)
        if self.kernel == "rbf" and not len(self.vectors_):
            raise InputError("it has no support vectors")
