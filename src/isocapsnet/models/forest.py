"""A random forest on edges.

L. Breiman, "Random forests", Machine Learning 2001. The forest is scikit-learn's.
"""

from dataclasses import field
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from isocapsnet._state import Expected, check_positive, check_truth
from isocapsnet._validation import InputError
from isocapsnet.models._base import GraphClassifier, are_symmetric, as_seed, class_weights, count_edges, edge_vectors
from isocapsnet.models._parameters import Count, PositiveShare, estimator, in_range

# More trees are refused as typing errors.
_MAX_TREES = 100_000


@estimator
class ForestClassifier(GraphClassifier):
    """Random forest on edges.

    Edges are the upper triangle, or both triangles when a training graph is not symmetric; the diagonal is not used.
    Each edge, with its sign, is centred and scaled by its mean and deviation over the training graphs, because trees
    compare numbers of limited precision; otherwise no scaling changes the result. Each tree is grown on a bootstrap
    sample of the training graphs. The probability of a class is its mean share, over trees, among the
    training graphs in the leaf that a graph falls into.

    Parameters
    ----------
    n_trees : int
    max_features : float or None
        Share of the edges that each split chooses from; ``None`` takes the square root of their number.
    min_leaf : int
        Training graphs in each leaf, at least.
    class_weight : None, "balanced" or dict
        Weight of each class in the splits and in the shares. ``"balanced"`` weights are those of all training graphs,
        not of each bootstrap sample.
    random_state : int, generator or None
        Draws the samples and the edges that each split chooses from.

    Attributes
    ----------
    roots_ : int array (n_trees,)
        The first node of each tree.
    features_, thresholds_ : arrays (n_tree_nodes,)
        A graph goes left if this edge, scaled, is not above this value. The edge is -1 in a leaf.
    children_ : int array (n_tree_nodes, 2)
        The nodes to the left and to the right; -1 in a leaf.
    shares_ : array (n_tree_nodes, n_classes)
        Shares of the classes among the training graphs in each node.
    importances_ : array (n_edges,)
        How much the splits by each edge purify the classes, normalised to a sum of 1; zeros if no tree has a split.
    mean_, scale_ : array (n_edges,)
    directed_ : bool
        Whether both triangles are used.
    """

    _search_space: ClassVar = {"min_leaf": [1, 3, 10]}
    _state_values: ClassVar = {"directed": check_truth}

    n_trees: Annotated[int, in_range(1, _MAX_TREES, integer=True)] = 500
    max_features: PositiveShare | None = None
    min_leaf: Count = 1
    class_weight: Any = None
    random_state: Any = None

    roots_: NDArray[np.int64] = field(init=False)
    features_: NDArray[np.int64] = field(init=False)
    thresholds_: NDArray[np.float64] = field(init=False)
    children_: NDArray[np.int64] = field(init=False)
    shares_: NDArray[np.float64] = field(init=False)
    importances_: NDArray[np.float64] = field(init=False)
    mean_: NDArray[np.float64] = field(init=False)
    scale_: NDArray[np.float64] = field(init=False)
    directed_: bool = field(init=False)

    def _fit(self, X: NDArray[Any], codes: NDArray[np.int64]) -> None:
        from sklearn.ensemble import RandomForestClassifier  # slow to import, and no other method needs it

        weights = class_weights(self.class_weight, self.classes_, codes)
        self.directed_ = not are_symmetric(X)
        forest = RandomForestClassifier(
            self.n_trees,
            max_features="sqrt" if self.max_features is None else float(self.max_features),
            min_samples_leaf=self.min_leaf,
            class_weight=None if self.class_weight is None else dict(enumerate(weights.tolist())),
            random_state=as_seed(self.random_state) % 2**32,
        )
        scaler = StandardScaler().fit(edge_vectors(X, directed=self.directed_))
        self.mean_, self.scale_ = scaler.mean_, scaler.scale_
        forest.fit(self._edges(X), codes)
        trees = [tree.tree_ for tree in forest.estimators_]
        self.roots_ = np.cumsum([0, *(tree.node_count for tree in trees[:-1])])
        self.features_ = np.concatenate([np.where(tree.children_left < 0, -1, tree.feature) for tree in trees])
        self.thresholds_ = np.concatenate([tree.threshold for tree in trees])
        # Nodes of all trees are numbered together.
        children = [np.stack([tree.children_left, tree.children_right], axis=1) for tree in trees]
        numbered = [np.where(pair < 0, -1, pair + root) for pair, root in zip(children, self.roots_, strict=True)]
        self.children_ = np.concatenate(numbered)
        shares = np.concatenate([tree.value[:, 0] for tree in trees])
        self.shares_ = shares / shares.sum(axis=1, keepdims=True)
        self.importances_ = forest.feature_importances_

    def _edges(self, X: NDArray[Any]) -> NDArray[np.float32]:
        # In the precision of scikit-learn's trees, within its range.
        edges = (edge_vectors(X, directed=self.directed_) - self.mean_) / self.scale_
        limit = np.finfo(np.float32).max
        return np.clip(edges, -limit, limit).astype(np.float32)

    def _predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        edges = self._edges(X)
        rows = np.arange(len(edges))[:, None]
        nodes = np.tile(self.roots_, (len(edges), 1))
        while (inside := self.features_[nodes] >= 0).any():
            right = edges[rows, np.maximum(self.features_[nodes], 0)] > self.thresholds_[nodes]
            nodes = np.where(inside, self.children_[nodes, right.astype(np.int64)], nodes)
        return np.asarray(self.shares_[nodes].mean(axis=1))

    def _state_arrays(self) -> dict[str, Expected]:
        n_edges = count_edges(self.n_nodes_in_, directed=self.directed_)
        return {
            "roots": (np.int64, (self.n_trees,)),
            "features": (np.int64, ("nodes",)),
            "thresholds": (np.float64, ("nodes",)),
            "children": (np.int64, ("nodes", 2)),
            "shares": (np.float64, ("nodes", len(self.classes_))),
            "importances": (np.float64, (n_edges,)),
            "mean": (np.float64, (n_edges,)),
            "scale": (np.float64, (n_edges,)),
        }

    def _set_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._set_state(values, arrays)
        check_positive("scale", self.scale_)
        n_tree_nodes, n_edges = len(self.features_), len(self.importances_)
        inside = self.features_ >= 0
        if not n_tree_nodes or self.roots_.min() < 0 or self.roots_.max() >= n_tree_nodes:
            raise InputError("a tree has no first node")
        if self.features_.min() < -1 or self.features_.max() >= n_edges:
            raise InputError(f"a tree has an edge beyond the {n_edges} of the graphs")
        # Children come after their parent, so that every path ends.
        children, parents = self.children_[inside], np.flatnonzero(inside)[:, None]
        if (children <= parents).any() or (children >= n_tree_nodes).any():
            raise InputError("a tree has a node that leads nowhere")
        if self.shares_.min() < 0 or not np.allclose(self.shares_.sum(axis=1), 1):
            raise InputError("the class shares of a tree are not probabilities")
