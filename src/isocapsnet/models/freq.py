"""Frequent sub-graphs as binary features of a linear classifier.

X. Yan and J. Han, "gSpan: graph-based substructure pattern mining", ICDM 2002, is the method's reference. Nodes of a
brain graph are identified regions, so here a sub-graph is a connected set of edges, two of them are the same only when
their edges are, and support is counted exactly on bitsets: no isomorphism is left to test.
"""

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isocapsnet._state import Expected
from isocapsnet._threads import one_thread
from isocapsnet._validation import InputError
from isocapsnet.models._base import (
    GraphClassifier,
    RepresentationMixin,
    are_symmetric,
    as_seed,
    class_weights,
    edge_ends,
    warn_user,
)
from isocapsnet.models._binarise import NEGATIVE_EDGES, NegativeEdges, binarise
from isocapsnet.models._logistic import Logistic, fit_logistic
from isocapsnet.models._parameters import Count, Positive, PositiveShare, Share, estimator, in_range, with_parameters

DENSITIES = (0.02, 0.05, 0.1, 0.2, 0.4)

# Patterns extended between two truncations to the best. This bounds the memory and does not change the result.
_BATCH = 64


@estimator
class FreqClassifier(RepresentationMixin, GraphClassifier):
    """Logistic regression on the presence of the most frequent connected sub-graphs.

    Each graph keeps its strongest edges, unweighted; the diagonal is not used. Sub-graphs are mined over the training
    graphs without their labels. In directed graphs, too, connected edges are connected whatever their direction.

    Parameters
    ----------
    n_patterns : int
        Sub-graphs used: those with the largest support; at equal support the smaller first, then in order of nodes.
    max_edges : int
        Edges of a sub-graph, at most.
    min_support, max_support : float
        Shares of the training graphs. A sub-graph in fewer than ``min_support`` is not used. An edge in more than
        ``max_support`` is in no sub-graph: sub-graphs that nearly all graphs have do not help to distinguish them.
    density : float or None
        Share of the possible edges that each graph keeps. ``None`` takes, from ``DENSITIES``, the value with the least
        log-loss in stratified cross-validation within the training data.
    negative_edges : "drop" or "absolute"
        Whether negative edges are never kept, or ranked by absolute weight.
    C : float or None
        Inverse penalty of the logistic regression; ``None`` chooses it together with ``density``.
    class_weight : None, "balanced" or dict
    random_state : int, generator or None
        Shuffles the inner folds.

    Attributes
    ----------
    patterns_ : int array (n_patterns, max_edges, 2)
        The nodes of each sub-graph's edges; a smaller sub-graph repeats its first edge.
    support_ : array (n_patterns,)
        Share of the training graphs that hold each sub-graph.
    coef_, intercept_ : array (n_classes, n_patterns), (n_classes,)
    density_, C_ : float
        The values used.
    """

    # Density and C are chosen within fit.
    _search_space: ClassVar = {
        "n_patterns": [300, 1000, 3000],
        "max_edges": [1, 2, 3],
        "negative_edges": list(NEGATIVE_EDGES),
    }
    _state_values: ClassVar = {"density": in_range(0, 1, open_low=True), "C": in_range(0, open_low=True)}

    n_patterns: Count = 1000
    max_edges: Count = 2
    min_support: Share = 0.1
    max_support: Share = 0.9
    density: PositiveShare | None = None
    negative_edges: NegativeEdges = "drop"
    C: Positive | None = None
    class_weight: Any = None
    random_state: Any = None

    patterns_: NDArray[np.int64] = field(init=False)
    support_: NDArray[np.float64] = field(init=False)
    coef_: NDArray[np.float64] = field(init=False)
    intercept_: NDArray[np.float64] = field(init=False)
    density_: float = field(init=False)
    C_: float = field(init=False)

    @one_thread()
    def transform(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Which sub-graphs each graph holds ``(n_graphs, n_patterns)``: 1 or 0."""
        return _contains(binarise(self._check_fitted(X), self.density_, self.negative_edges), self.patterns_)

    @property
    def _n_features_out(self) -> int:  # type: ignore[override]
        return len(self.patterns_)

    def _check_parameters(self, n_nodes: int) -> None:
        super()._check_parameters(n_nodes)
        if self.min_support > self.max_support:
            raise InputError(f"min_support={self.min_support} is larger than max_support={self.max_support}.")

    def _fit(self, X: NDArray[Any], codes: NDArray[np.int64]) -> None:
        weights = class_weights(self.class_weight, self.classes_, codes)
        directed, seed = not are_symmetric(X), as_seed(self.random_state)
        least_loss = np.inf
        for density in DENSITIES if self.density is None else (self.density,):
            graphs = binarise(X, density, self.negative_edges)
            patterns, support = with_parameters(frequent_subgraphs, self, graphs, directed=directed)
            features = _contains(graphs, patterns).astype(np.float64)
            head = fit_logistic(features - support, codes, weights, seed=seed, C=self.C)
            if head.loss < least_loss:
                least_loss = head.loss
                self.patterns_, self.support_, self.density_ = patterns, support, density
                self.coef_, self.intercept_, self.C_ = head.coef, head.intercept, head.C
        if len(self.patterns_) == 0:
            warn_user(
                f"No edge is in {self.min_support:.0%} to {self.max_support:.0%} of the training graphs, so there are "
                "no sub-graphs; change min_support, max_support or density.",
            )

    def _predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        present = _contains(binarise(X, self.density_, self.negative_edges), self.patterns_)
        return Logistic(self.coef_, self.intercept_, self.C_).predict_proba(present - self.support_)

    def _state_arrays(self) -> dict[str, Expected]:
        n_classes = len(self.classes_)
        return {
            "patterns": (np.int64, ("patterns", self.max_edges, 2)),
            "support": (np.float64, ("patterns",)),
            "coef": (np.float64, (n_classes, "patterns")),
            "intercept": (np.float64, (n_classes,)),
        }

    def _set_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._set_state(values, arrays)
        if self.patterns_.size and not (self.patterns_.min() >= 0 and self.patterns_.max() < self.n_nodes_in_):
            raise InputError(f"a pattern has a node beyond the {self.n_nodes_in_} of the graphs")


def frequent_subgraphs(
    graphs: NDArray[np.bool_],
    *,
    directed: bool,
    n_patterns: int,
    max_edges: int,
    min_support: float,
    max_support: float,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Mine the connected edge sets with the largest support in ``graphs (n_graphs, n_nodes, n_nodes)``.

    Returns the edges' nodes ``(n_found, max_edges, 2)`` and the supports ``(n_found,)``, best first: by support, then
    fewer edges, then order of nodes. Exact: a connected set of edges has a connected subset with one edge less, whose
    support is no smaller, so it ranks before it. It is enough to extend the best patterns so far.
    """
    n_graphs, n_nodes, _ = graphs.shape
    ends = edge_ends(n_nodes, directed=directed)
    counts = graphs[:, ends[:, 0], ends[:, 1]].sum(axis=0)
    least = max(1, int(np.ceil(min_support * n_graphs - 1e-9)))
    ends = ends[(counts >= least) & (counts <= max_support * n_graphs + 1e-9)]
    bitsets = _pack(graphs[:, ends[:, 0], ends[:, 1]].T)
    # A row is a pattern: minus its count, its size, its edges (the first repeated). Sorted rows are the ranking.
    edges = np.arange(len(ends))[:, None]
    table = np.hstack([-_count(bitsets)[:, None], np.ones_like(edges), np.repeat(edges, max_edges, axis=1)])
    table = np.unique(table, axis=0)[:n_patterns]
    for size in range(1, max_edges):
        grown_from = table[table[:, 1] == size]
        for start in range(0, len(grown_from), _BATCH):
            bound = -table[-1, 0] if len(table) == n_patterns else least
            grown = [_grow(row, bitsets, ends, bound) for row in grown_from[start : start + _BATCH]]
            table = np.unique(np.vstack([table, *grown]), axis=0)[:n_patterns]
    return ends[table[:, 2:]], -table[:, 0] / n_graphs


def _grow(
    row: NDArray[np.int64], bitsets: NDArray[np.uint64], ends: NDArray[np.int64], least: int
) -> NDArray[np.int64]:
    """The rows of a pattern with one more adjacent edge, if at least ``least`` graphs contain them."""
    size, pattern = int(row[1]), row[2 : 2 + int(row[1])]
    touching = np.flatnonzero(np.isin(ends, ends[pattern]).any(axis=1))
    added = np.setdiff1d(touching, pattern)
    counts = _count(bitsets[added] & np.bitwise_and.reduce(bitsets[pattern]))
    added, counts = added[counts >= least], counts[counts >= least]
    edges = np.sort(np.hstack([np.tile(pattern, (len(added), 1)), added[:, None]]), axis=1)
    padding = np.repeat(edges[:, :1], len(row) - 3 - size, axis=1)
    return np.hstack([-counts[:, None], np.full((len(added), 1), size + 1), edges, padding])


def _pack(present: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Bits ``(n_edges, n_graphs)`` as whole words ``(n_edges, n_words)``."""
    n_words = -(-present.shape[1] // 64)
    padded = np.zeros((len(present), n_words * 64), dtype=bool)
    padded[:, : present.shape[1]] = present
    return np.packbits(padded, axis=1).view(np.uint64)


def _count(bitsets: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Bits set in each row ``(n_rows,)``."""
    return np.bitwise_count(bitsets).sum(axis=1, dtype=np.int64)


def _contains(graphs: NDArray[np.bool_], patterns: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Which patterns ``(n_patterns, max_edges, 2)`` each graph holds whole ``(n_graphs, n_patterns)``."""
    contained = np.ones((len(graphs), len(patterns)), dtype=bool)
    for edge in range(patterns.shape[1]):
        contained &= graphs[:, patterns[:, edge, 0], patterns[:, edge, 1]]
    return contained.astype(np.uint8)
