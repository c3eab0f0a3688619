"""The shortest-path kernel with a support vector machine.

K. M. Borgwardt and H.-P. Kriegel, "Shortest-path kernels on graphs", ICDM 2005. The values are those of GraKeL's
kernel, whose search for paths in Python is many times slower than scipy's.
"""

from dataclasses import field
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from isocapsnet.models._binarise import NEGATIVE_EDGES, NegativeEdges
from isocapsnet.models._graph_kernel import GraphKernelClassifier
from isocapsnet.models._parameters import Positive, PositiveShare, estimator, one_of

DENSITIES = (0.01, 0.02, 0.04, 0.08, 0.16)


@estimator
class ShortestPathClassifier(GraphKernelClassifier):
    """Support vector machine with the shortest-path kernel.

    Each graph keeps its strongest edges, unweighted; the diagonal is not used. The kernel of two graphs counts pairs of
    nodes, one of each graph, with the same labels and the same number of edges on the shortest path between them (along
    their direction, in directed graphs). It is normalised to 1 for a graph with itself. Pairs without a path do not
    count.

    Parameters
    ----------
    node_labels : "region" or "degree"
        With ``"region"`` a path is specific to the regions at its ends; with ``"degree"`` the method is invariant to
        the order of the nodes.
    density : float or None
        Share of the possible edges that each graph keeps. ``None`` takes, from ``DENSITIES``, the value with the least
        log-loss in stratified cross-validation within the training data.
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
    _DENSITIES: ClassVar = DENSITIES

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

    def _fit_kernel(self, graphs: NDArray[np.bool_]) -> tuple[Any, NDArray[np.float64]]:
        counts = path_counts(graphs, self.node_labels)
        return counts, (counts @ counts.T).toarray()

    def _compare(self, kernel: Any, graphs: NDArray[np.bool_]) -> NDArray[np.float64]:
        return np.asarray((path_counts(graphs, self.node_labels) @ kernel.T).toarray())


def path_counts(graphs: NDArray[np.bool_], node_labels: str) -> csr_array:
    """How often each graph has each kind of shortest path ``(n_graphs, n_kinds)``, as rows of norm 1.

    The kind of a path is the labels of its ends and its number of edges. A graph without edges has a row of zeros.
    """
    n_nodes = graphs.shape[1]
    rows = []
    for graph in graphs:
        length = shortest_path(csr_array(graph), unweighted=True)
        start, end = np.nonzero(np.isfinite(length) & (length > 0))
        label = np.arange(n_nodes) if node_labels == "region" else graph.sum(axis=1)
        # Labels and lengths are below the number of nodes.
        kinds = (label[start] * n_nodes + label[end]) * n_nodes + length[start, end].astype(np.int64)
        kind, count = np.unique(kinds, return_counts=True)
        rows.append((kind, count / (float(np.linalg.norm(count)) or 1.0)))
    columns, values = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    ends = np.cumsum([0, *(len(kind) for kind, _ in rows)])
    return csr_array((values, columns, ends), shape=(len(graphs), n_nodes**3))
