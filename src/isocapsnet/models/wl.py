"""The Weisfeiler-Lehman subtree kernel with a kernel machine.

N. Shervashidze and K. Borgwardt, "Fast subtree kernels on graphs", NIPS 2009. The kernel is GraKeL's.
"""

from dataclasses import field
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.svm import SVC

from isocapsnet._state import Expected
from isocapsnet._threads import one_thread
from isocapsnet._validation import InputError
from isocapsnet.models._base import GraphClassifier, RepresentationMixin, as_seed, class_weights
from isocapsnet.models._binarise import NEGATIVE_EDGES, NegativeEdges, binarise
from isocapsnet.models._calibration import fit_slope_and_offset
from isocapsnet.models._logistic import selection_folds
from isocapsnet.models._parameters import Positive, PositiveShare, estimator, in_range, one_of

DENSITIES = (0.01, 0.02, 0.04, 0.08, 0.16)


@estimator
class WLClassifier(RepresentationMixin, GraphClassifier):
    """Support vector machine with the Weisfeiler-Lehman subtree kernel.

    Each graph keeps its strongest edges, unweighted; the diagonal is not used. Nodes start with a label. In each
    iteration, the new label of a node stands for its old one and those of its neighbours (successors, in directed
    graphs). The kernel of two graphs counts the labels that they share over all iterations, normalised to 1 for a
    graph with itself.

    Parameters
    ----------
    node_labels : "region" or "degree"
        Initial labels. With ``"region"`` a subtree is specific to its regions; with ``"degree"`` the method is
        invariant to the order of the nodes.
    n_iterations : int
        Depth of the subtrees.
    density : float or None
        Share of the possible edges that each graph keeps. ``None`` takes, from ``DENSITIES``, the value with the least
        log-loss in stratified cross-validation within the training data.
    negative_edges : "drop" or "absolute"
        Whether negative edges are never kept, or ranked by absolute weight.
    head : "svm" or "vote"
        A support vector machine, one class against the rest, its decision values turned into probabilities by a
        sigmoid fitted to held-out training graphs; or each class's share of the kernel values with the training graphs.
    C : float
        Inverse penalty of the support vector machine.
    class_weight : None, "balanced" or dict
    random_state : int, generator or None
        Shuffles the inner folds.
    {preset}

    Attributes
    ----------
    density_ : float
        The density used.
    graphs_ : bool array (n_graphs, n_nodes, n_nodes)
        The training graphs' edges; the kernel compares new graphs with these.
    coef_ : array (n_classes, n_graphs)
        What each training graph adds to the score of a class, per unit of kernel value.
    intercept_ : array (n_classes,)
    slope_, offset_ : float, array (n_classes,)
        Probabilities are softmax(slope * scores + offset) with the ``"svm"`` head.
    """

    PRESETS: ClassVar = {"paper": {"head": "vote"}}
    # The density is chosen within fit.
    _search_space: ClassVar = {
        "n_iterations": [1, 2, 3],
        "negative_edges": list(NEGATIVE_EDGES),
        "C": [0.1, 1.0, 10.0],
    }
    _state_values: ClassVar = {"density": in_range(0, 1, open_low=True), "slope": in_range(0, open_low=True)}

    node_labels: Annotated[str, one_of("region", "degree")] = "region"
    # Subtrees of this depth reach every node of a brain graph; larger numbers are refused as typing errors.
    n_iterations: Annotated[int, in_range(1, 100, integer=True)] = 1
    density: PositiveShare | None = None
    negative_edges: NegativeEdges = "drop"
    head: Annotated[str, one_of("svm", "vote")] = "svm"
    C: Positive = 1.0
    class_weight: Any = None
    random_state: Any = None
    preset: str | None = None

    density_: float = field(init=False)
    graphs_: NDArray[np.bool_] = field(init=False)
    coef_: NDArray[np.float64] = field(init=False)
    intercept_: NDArray[np.float64] = field(init=False)
    slope_: float = field(init=False)
    offset_: NDArray[np.float64] = field(init=False)

    @one_thread()
    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """The kernel of each graph with each training graph: ``(n_graphs, n_training_graphs)``."""
        return self._similarity(self._check_fitted(X))

    @property
    def _n_features_out(self) -> int:  # type: ignore[override]
        return len(self.graphs_)

    def _without_effect(self) -> dict[str, str]:
        return {"C": 'head="vote" has no penalty'} if self.head == "vote" else {}

    def _fit(self, X: NDArray[Any], codes: NDArray[np.int64]) -> None:
        weights = class_weights(self.class_weight, self.classes_, codes)
        folds = selection_folds(codes, as_seed(self.random_state))
        least_loss = np.inf
        for density in DENSITIES if self.density is None else (self.density,):
            graphs = binarise(X, density, self.negative_edges)
            kernel = _subtree_kernel(self.n_iterations)
            similarity = kernel.fit_transform(_labelled(graphs, self.node_labels))
            slope, offset, loss = self._cross_validate(similarity, codes, weights, folds)
            if loss < least_loss:
                least_loss, best_similarity = loss, similarity
                self._kernel, self.graphs_, self.density_ = kernel, graphs, density
                self.slope_, self.offset_ = slope, offset
        self.coef_, self.intercept_ = self._fit_head(best_similarity, codes, weights)

    def _fit_head(
        self, similarity: NDArray[np.float64], codes: NDArray[np.int64], weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights ``(n_classes, n_graphs)`` and intercepts ``(n_classes,)`` of the class scores."""
        n_classes = len(weights)
        if self.head == "vote":
            # In one order of memory, so that a loaded model sums in the same order.
            votes = np.ascontiguousarray(np.eye(n_classes)[:, codes] * weights[codes])
            # If a graph shares nothing with any training graph, the class frequencies remain.
            return votes, 1e-9 * votes.sum(axis=1)
        coef, intercept = np.zeros((n_classes, len(codes))), np.zeros(n_classes)
        # With two classes one machine is enough: the scores of the other class are its negative.
        for code in range(n_classes) if n_classes > 2 else [1]:
            machine = SVC(kernel="precomputed", C=self.C, random_state=0)
            machine.fit(similarity, codes == code, sample_weight=weights[codes])
            coef[code, machine.support_], intercept[code] = machine.dual_coef_[0], machine.intercept_[0]
        if n_classes == 2:
            coef[0], intercept[0] = -coef[1], -intercept[1]
        return coef, intercept

    def _cross_validate(
        self,
        similarity: NDArray[np.float64],
        codes: NDArray[np.int64],
        weights: NDArray[np.float64],
        folds: list[tuple[NDArray[np.int64], NDArray[np.int64]]],
    ) -> tuple[float, NDArray[np.float64], float]:
        """Slope and offset of the probabilities, and their log-loss over the held-out graphs."""
        slope, offset = 1.0, np.zeros(len(weights))
        if not folds:
            return slope, offset, 0.0
        scores = np.zeros((len(codes), len(weights)))
        for train, fold in folds:
            coef, intercept = self._fit_head(similarity[np.ix_(train, train)], codes[train], weights)
            scores[fold] = similarity[np.ix_(fold, train)] @ coef.T + intercept
        held_out = np.concatenate([fold for _, fold in folds])
        scores, codes = scores[held_out], codes[held_out]
        if self.head == "svm":
            slope, offset = fit_slope_and_offset(scores, codes, weights)
        proba = self._probabilities(scores, slope, offset)[np.arange(len(codes)), codes]
        return slope, offset, float(-weights[codes] @ np.log(np.maximum(proba, 1e-12)))

    def _probabilities(
        self, scores: NDArray[np.float64], slope: float, offset: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        if self.head == "vote":
            return scores / scores.sum(axis=1, keepdims=True)
        return np.asarray(softmax(slope * scores + offset, axis=1))

    def _similarity(self, X: NDArray[Any]) -> NDArray[np.float64]:
        graphs = binarise(X, self.density_, self.negative_edges)
        return np.asarray(self._kernel.transform(_labelled(graphs, self.node_labels)))

    def _predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        scores = self._similarity(X) @ self.coef_.T + self.intercept_
        return self._probabilities(scores, self.slope_, self.offset_)

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
        self._kernel = _subtree_kernel(self.n_iterations)
        self._kernel.fit_transform(_labelled(self.graphs_, self.node_labels))


def _subtree_kernel(n_iterations: int) -> Any:
    """GraKeL's kernel: the dot product of label counts over all iterations, normalised."""
    try:
        from grakel.kernels import VertexHistogram, WeisfeilerLehman
    except ImportError as error:
        raise InputError('WLClassifier needs GraKeL; install it with pip install "isocapsnet[methods]".') from error
    return WeisfeilerLehman(n_iter=n_iterations, normalize=True, base_graph_kernel=VertexHistogram)


def _labelled(graphs: NDArray[np.bool_], node_labels: str) -> list[tuple[dict[int, dict[int, float]], dict[int, int]]]:
    """Graphs as GraKeL reads them: each node's neighbours, each node's label."""
    labelled = []
    for graph in graphs:
        labels = range(len(graph)) if node_labels == "region" else graph.sum(axis=1).tolist()
        neighbours = [np.flatnonzero(row).tolist() for row in graph]
        labelled.append(({v: dict.fromkeys(near, 1.0) for v, near in enumerate(neighbours)}, dict(enumerate(labels))))
    return labelled
