"""The shortest-path kernel with a support vector machine.

K. M. Borgwardt and H.-P. Kriegel, "Shortest-path kernels on graphs", ICDM 2005. The values are those of GraKeL's
kernel, whose search for paths in Python is many times slower than scipy's.
"""

from dataclasses import field
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from isocapsnet.models._binarise import NEGATIVE_EDGES, NegativeEdges
from isocapsnet.models._graph_kernel import GraphKernelClassifier
from isocapsnet.models._parameters import Positive, PositiveShare, estimator, one_of


@estimator
class ShortestPathClassifier(GraphKernelClassifier):
    """Support vector machine with the shortest-path kernel.

    Each graph keeps its strongest edges, unweighted; the diagonal is not used. The kernel of two graphs counts pairs of
    nodes, one of each graph, with the same labels and the same number of edges on the shortest path between them (along
    their direction, in directed graphs). It is normalised to 1 for a graph with itself. Pairs without a path do not
    count.

    A saved model holds the edges of the training graphs, so it may be shared only as the data may.

    Parameters
    ----------
    node_labels : "region" or "degree"
        With ``"region"`` a path is specific to the regions at its ends; with ``"degree"`` the method is invariant to
        the order of the nodes.
    density : float or None
        Share of the possible edges that each graph keeps. ``None`` takes, from 0.01, 0.02, 0.04, 0.08 and 0.16, the
        value with the least log-loss in stratified cross-validation within the training data.
    negative_edges : "drop" or "absolute"
        Whether negative edges are never kept, or ranked by absolute weight.
    C : float
        Inverse penalty of the support vector machine.
    class_weight : None, "balanced" or dict
    random_state : int, generator or None
        Shuffles the inner folds.

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
        Probabilities are softmax(slope * scores + offset), fitted to held-out training graphs.
    """

    # The density is chosen within fit.
    _search_space: ClassVar = {"negative_edges": list(NEGATIVE_EDGES), "C": [0.1, 1.0, 10.0]}

    node_labels: Annotated[str, one_of("region", "degree")] = "region"
    density: PositiveShare | None = None
    negative_edges: NegativeEdges = "drop"
    C: Positive = 1.0
    class_weight: Any = None
    random_state: Any = None

    density_: float = field(init=False)
    graphs_: NDArray[np.bool_] = field(init=False)
    coef_: NDArray[np.float64] = field(init=False)
    intercept_: NDArray[np.float64] = field(init=False)
    slope_: float = field(init=False)
    offset_: NDArray[np.float64] = field(init=False)

    def _load_kernel(self, graphs: NDArray[np.bool_]) -> "PathCounts":
        return count_paths(graphs, self.node_labels)

    def _fit_kernel(self, graphs: NDArray[np.bool_]) -> tuple["PathCounts", NDArray[np.float64]]:
        kernel = self._load_kernel(graphs)
        return kernel, (kernel.counts @ kernel.counts.T).toarray()

    def _compare(self, kernel: "PathCounts", graphs: NDArray[np.bool_]) -> NDArray[np.float64]:
        counts = count_paths(graphs, self.node_labels, kernel.kinds).counts
        return np.asarray((counts @ kernel.counts.T).toarray())


class PathCounts(NamedTuple):
    """How often each graph has each kind of shortest path: ``counts (n_graphs, n_kinds)`` of the sorted ``kinds``.

    The kind of a path is the labels of its ends and its number of edges, as one number.
    """

    counts: csr_array
    kinds: NDArray[np.int64]


def count_paths(graphs: NDArray[np.bool_], node_labels: str, kinds: NDArray[np.int64] | None = None) -> PathCounts:
    """Counts of the given ``kinds`` of paths, or of all kinds in these graphs.

    Each row is divided by the norm of the counts of all kinds, given or not. A graph without edges has a row of zeros.
    The graphs have no edge from a node to itself.
    """
    n_nodes = graphs.shape[1]
    found, values = [], []
    for graph in graphs:
        length = shortest_path(csr_array(graph), unweighted=True)
        start, end = np.nonzero(np.isfinite(length) & (length > 0))
        label = np.arange(n_nodes) if node_labels == "region" else graph.sum(axis=1)
        # Labels and lengths are below the number of nodes.
        numbers = (label[start] * n_nodes + label[end]) * n_nodes + length[start, end].astype(np.int64)
        kind, count = np.unique(numbers, return_counts=True)
        found.append(kind)
        values.append(count / (float(np.linalg.norm(count)) or 1.0))
    numbers, ends = np.concatenate(found), np.cumsum([0, *map(len, found)])
    if kinds is None:
        kinds = np.unique(numbers)
    columns = np.searchsorted(kinds, numbers)
    is_given = np.append(kinds, -1)[columns] == numbers
    entries = np.concatenate(values)[is_given], columns[is_given], np.append(0, np.cumsum(is_given))[ends]
    return PathCounts(csr_array(entries, shape=(len(graphs), len(kinds))), kinds)
