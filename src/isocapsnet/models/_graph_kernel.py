"""What the graph kernels share: unweighted graphs of a chosen density, and a support vector machine."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isocapsnet._state import Expected
from isocapsnet._threads import one_thread
from isocapsnet._validation import InputError
from isocapsnet.models._base import RepresentationMixin, as_seed, class_weights
from isocapsnet.models._binarise import binarise
from isocapsnet.models._kernel_machine import KernelClassifier
from isocapsnet.models._logistic import selection_folds
from isocapsnet.models._parameters import in_range

DENSITIES = (0.01, 0.02, 0.04, 0.08, 0.16)


class GraphKernelClassifier(RepresentationMixin, KernelClassifier):
    """A support vector machine with a kernel of unweighted graphs.

    A method has ``_fit_kernel``, ``_load_kernel``, ``_compare`` and the parameters that are annotated here.
    """

    _state_values: ClassVar = {"density": in_range(0, 1, open_low=True), "slope": in_range(0, open_low=True)}

    node_labels: str
    density: float | None
    negative_edges: str
    class_weight: Any
    random_state: Any

    density_: float
    graphs_: NDArray[np.bool_]

    def _fit_kernel(self, graphs: NDArray[np.bool_]) -> tuple[Any, NDArray[np.float64]]:
        """What the kernel keeps of the training graphs, and its values between them ``(n_graphs, n_graphs)``."""
        raise NotImplementedError

    def _load_kernel(self, graphs: NDArray[np.bool_]) -> Any:
        """What the kernel keeps of the training graphs, without its values between them."""
        raise NotImplementedError

    def _compare(self, kernel: Any, graphs: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The kernel of each graph with each training graph ``(n_graphs, n_training_graphs)``."""
        raise NotImplementedError

    @one_thread()
    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """The kernel of each graph with each training graph: ``(n_graphs, n_training_graphs)``."""
        return self._similarity(self._check_fitted(X))

    @property
    def _n_features_out(self) -> int:  # type: ignore[override]
        return len(self.graphs_)

    def _fit(self, X: NDArray[Any], codes: NDArray[np.int64]) -> None:
        weights = class_weights(self.class_weight, self.classes_, codes)
        folds = selection_folds(codes, as_seed(self.random_state))
        least_loss = np.inf
        for density in DENSITIES if self.density is None else (self.density,):
            graphs = binarise(X, density, self.negative_edges)
            kernel, similarity = self._fit_kernel(graphs)
            slope, offset, loss = self._cross_validate(similarity, codes, weights, folds)
            if loss < least_loss:
                least_loss, best_similarity = loss, similarity
                self._kernel, self.graphs_, self.density_ = kernel, graphs, density
                self.slope_, self.offset_ = slope, offset
        self.coef_, self.intercept_ = self._fit_head(best_similarity, codes, weights)

    def _similarity(self, X: NDArray[Any]) -> NDArray[np.float64]:
        return self._compare(self._kernel, binarise(X, self.density_, self.negative_edges))

    def _get_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        values, arrays = super()._get_state()
        return values, arrays | {"graphs": np.packbits(self.graphs_, axis=-1)}

    def _state_arrays(self) -> dict[str, Expected]:
        n_classes, n_nodes = len(self.classes_), self.n_nodes_in_
        return {
            "graphs": (np.uint8, ("graphs", n_nodes, -(-n_nodes // 8))),
            "coef": (np.float64, (n_classes, "graphs")),
            "intercept": (np.float64, (n_classes,)),
            "offset": (np.float64, (n_classes,)),
        }

    def _set_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._set_state(values, arrays)
        if not len(arrays["graphs"]):
            raise InputError("it has no training graphs")
        self.graphs_ = np.unpackbits(arrays["graphs"], axis=-1, count=self.n_nodes_in_).astype(bool)
        if np.diagonal(self.graphs_, axis1=1, axis2=2).any():
            raise InputError("a training graph has an edge from a node to itself")
        self._kernel = self._load_kernel(self.graphs_)
