"""The Weisfeiler-Lehman subtree kernel with a kernel machine.

N. Shervashidze and K. Borgwardt, "Fast subtree kernels on graphs", NIPS 2009. The values are those of GraKeL's kernel,
which later versions of Python do not have.
"""

from collections.abc import Sequence
from dataclasses import field
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from isocapsnet.models._binarise import NEGATIVE_EDGES, NegativeEdges
from isocapsnet.models._graph_kernel import GraphKernelClassifier
from isocapsnet.models._parameters import Positive, PositiveShare, estimator, in_range, one_of


@estimator
class WLClassifier(GraphKernelClassifier):
    """Support vector machine with the Weisfeiler-Lehman subtree kernel.

    Each graph keeps its strongest edges, unweighted; the diagonal is not used. Nodes start with a label. In each
    iteration, the new label of a node stands for its old one and those of its neighbours (successors, in directed
    graphs). The kernel of two graphs counts the labels that they share over all iterations, normalised to 1 for a
    graph with itself.

    A saved model holds the edges of the training graphs, so it may be shared only as the data may.

    Parameters
    ----------
    node_labels : "region" or "degree"
        Initial labels. With ``"region"`` a subtree is specific to its regions; with ``"degree"`` the method is
        invariant to the order of the nodes.
    n_iterations : int
        Depth of the subtrees.
    density : float or None
        Share of the possible edges that each graph keeps. ``None`` takes, from 0.01, 0.02, 0.04, 0.08 and 0.16, the
        value with the least log-loss in stratified cross-validation within the training data.
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

    def _load_kernel(self, graphs: NDArray[np.bool_]) -> "SubtreeCounts":
        return count_subtrees(graphs, self.node_labels, self.n_iterations)

    def _fit_kernel(self, graphs: NDArray[np.bool_]) -> tuple["SubtreeCounts", NDArray[np.float64]]:
        kernel = self._load_kernel(graphs)
        return kernel, _similarity(kernel, kernel)

    def _compare(self, kernel: "SubtreeCounts", graphs: NDArray[np.bool_]) -> NDArray[np.float64]:
        return _similarity(count_subtrees(graphs, self.node_labels, self.n_iterations, kernel.columns), kernel)

    @property
    def _calibrates(self) -> bool:  # type: ignore[override]
        return self.head == "svm"

    def _without_effect(self) -> dict[str, str]:
        return {"C": 'head="vote" has no penalty'} if self.head == "vote" else {}

    def _fit_head(
        self, similarity: NDArray[np.float64], codes: NDArray[np.int64], weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if self.head == "svm":
            return super()._fit_head(similarity, codes, weights)
        # In one order of memory, so that a loaded model sums in the same order.
        votes = np.ascontiguousarray(np.eye(len(weights))[:, codes] * weights[codes])
        # If a graph shares nothing with any training graph, the class frequencies remain.
        return votes, 1e-9 * votes.sum(axis=1)

    def _probabilities(
        self, scores: NDArray[np.float64], slope: float, offset: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        if self.head == "svm":
            return super()._probabilities(scores, slope, offset)
        return scores / scores.sum(axis=1, keepdims=True)


class SubtreeCounts(NamedTuple):
    """How often each graph has each subtree: ``counts (n_graphs, n_subtrees)``, and the column of each subtree.

    A subtree of depth 0 is the label of a node. A deeper one is the column of the node's subtree that is one level less
    deep, and the sorted columns of those of its neighbours.
    """

    counts: csr_array
    columns: dict[Any, int]


def count_subtrees(
    graphs: NDArray[np.bool_], node_labels: str, n_iterations: int, columns: dict[Any, int] | None = None
) -> SubtreeCounts:
    """Counts of the subtrees up to the depth ``n_iterations``. Subtrees that ``columns`` lacks get further columns."""
    columns = dict(columns or {})
    entries: list[int] = []
    for graph in graphs:
        neighbours = [np.flatnonzero(row).tolist() for row in graph]
        labels: Sequence[int] = range(len(graph)) if node_labels == "region" else [len(near) for near in neighbours]
        subtrees: list[Any] = [*labels]
        for depth in range(n_iterations + 1):
            if depth:
                subtrees = [(labels[v], *sorted([labels[u] for u in near])) for v, near in enumerate(neighbours)]
            labels = [columns.setdefault(subtree, len(columns)) for subtree in subtrees]
            entries += labels
    rows = np.repeat(np.arange(len(graphs)), graphs.shape[1] * (n_iterations + 1))
    return SubtreeCounts(
        csr_array((np.ones(len(entries)), (rows, entries)), shape=(len(graphs), len(columns))), columns
    )


def _similarity(graphs: SubtreeCounts, others: SubtreeCounts) -> NDArray[np.float64]:
    """The kernel of each graph with each of the others, which have the first columns of ``graphs``."""
    shared = (graphs.counts[:, : len(others.columns)] @ others.counts.T).toarray()
    return np.asarray(
        shared / np.sqrt(np.outer(graphs.counts.power(2).sum(axis=1), others.counts.power(2).sum(axis=1)))
    )
