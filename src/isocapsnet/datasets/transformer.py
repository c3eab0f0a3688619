"""The contract every transformer of graphs keeps."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from isocapsnet._state import Expected, Stateful
from isocapsnet._validation import InputError, check_graphs


class GraphOutputMixin(TransformerMixin):
    """A transformer to graphs ``(n_graphs, n_nodes, n_nodes)``, which stay arrays: a table has two dimensions."""

    n_nodes_in_: int
    #: Modules that it needs, with the extras that install them: ``{"nilearn": "data"}``.
    packages: ClassVar[Mapping[str, str]] = MappingProxyType({})
    #: What becomes of an edge. "linear": its value times a number, plus what sites and covariates explain; "monotone":
    #: a non-decreasing function of its value; "edgewise": a function of its value; "mixed": a function of all edges.
    on_edges: ClassVar[Literal["linear", "monotone", "edgewise", "mixed"]] = "mixed"
    #: Whether a number is added to each edge, which may change its sign.
    shifts_edges: bool = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(auto_wrap_output_keys=None, **options)  # scikit-learn does not wrap transform

    def set_output(self, *, transform: str | None = None) -> Self:
        """No effect on graphs, so that a Pipeline that ends in a representation can be asked for tables."""
        return self

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Names of the nodes ``(n_nodes,)``: those given, or node0, node1, ..."""
        check_is_fitted(self, "n_nodes_in_")
        if input_features is None:
            return np.array([f"node{i}" for i in range(self.n_nodes_in_)], dtype=object)
        names = np.asarray(input_features, dtype=object)
        if names.shape != (self.n_nodes_in_,):
            raise InputError(f"input_features has shape {names.shape}, but the graphs have {self.n_nodes_in_} nodes.")
        return names


class GraphTransformer(Stateful, GraphOutputMixin, BaseEstimator):
    """A scikit-learn transformer of graphs ``(n_graphs, n_nodes, n_nodes)`` to graphs of the same shape.

    A transformer implements ``_transform(X)`` and, when it learns something, ``_fit(X)``, on checked input in floating
    point. What it learns is declared in ``_state_values`` and ``_state_arrays``, so that it can be saved. Metadata
    (``sites``, ``covariates``) are passed on as keywords.
    """

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn from the training graphs ``X`` ``(n_graphs, n_nodes, n_nodes)``; labels are ignored."""
        self._check_parameters()
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

    def _check_parameters(self) -> None:
        """Raise InputError for parameters that are not valid."""

    def _check_graphs(self, X: NDArray[Any]) -> None:
        """Raise InputError for graphs of another kind than the transform is for."""

    def _state_arrays(self) -> dict[str, Expected]:
        return {}

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


def _as_float(graphs: NDArray[Any]) -> NDArray[Any]:
    return graphs if graphs.dtype.kind == "f" else graphs.astype(np.float64)
