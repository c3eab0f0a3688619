"""The contract every transformer of graphs keeps."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from isocapsnet._validation import check_graphs


class GraphTransformer(TransformerMixin, BaseEstimator):
    """A scikit-learn transformer of graphs ``(n_graphs, n_nodes, n_nodes)`` to graphs of the same shape.

    A transformer implements ``_transform(X)`` and, when it learns something, ``_fit(X)``, on checked input in floating
    point. Metadata (``sites``, ``covariates``) are passed on as keywords.
    """

    n_nodes_in_: int

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn from the training graphs ``X`` ``(n_graphs, n_nodes, n_nodes)``; labels are ignored."""
        graphs = _as_float(check_graphs(X))
        self.n_nodes_in_ = graphs.shape[1]
        self._fit(graphs)
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Graphs ``(n_graphs, n_nodes, n_nodes)``, a new array."""
        return self._transform(self._check_fitted(X))

    def fit_transform(self, X: ArrayLike, y: Any = None, **metadata: Any) -> NDArray[Any]:
        """Fit, then transform the same graphs; both get the metadata."""
        return self.fit(X, y, **metadata).transform(X, **metadata)

    def _fit(self, X: NDArray[Any]) -> None:
        """Nothing to learn unless a transformer says so."""

    def _transform(self, X: NDArray[Any]) -> NDArray[Any]:
        raise NotImplementedError

    def _check_fitted(self, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self, "n_nodes_in_")
        return _as_float(check_graphs(X, n_nodes=self.n_nodes_in_))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags


def off_diagonal(X: NDArray[Any]) -> NDArray[np.bool_]:
    """Where graphs ``X`` have edges between different nodes ``(n_nodes, n_nodes)``."""
    return ~np.eye(X.shape[1], dtype=bool)


def _as_float(graphs: NDArray[Any]) -> NDArray[Any]:
    return graphs if graphs.dtype.kind == "f" else graphs.astype(np.float64)
