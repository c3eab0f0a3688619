"""The shortest-path kernel machine: hand-worked kernels, a slow reference, invariance, what it finds."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import roc_auc_score

from isocapsnet import make_planted_graphs
from isocapsnet.models.shortest_path import ShortestPathClassifier
from tests.models.references import graphs_for_grakel


def lengths(graph):
    """Numbers of edges on shortest paths, by walking outwards from every node; infinite without a path."""
    n_nodes = len(graph)
    distance = np.full((n_nodes, n_nodes), np.inf)
    for start in range(n_nodes):
        frontier, steps = {start}, 0
        while frontier:
            for node in frontier:
                distance[start, node] = steps
            steps += 1
            near = {j for i in frontier for j in range(n_nodes) if graph[i, j]}
            frontier = {j for j in near if np.isinf(distance[start, j])}
    return distance


def slow_kernel(graphs, node_labels):
    def count(first, second):
        distances = lengths(first), lengths(second)
        labels = [range(len(g)) if node_labels == "region" else g.sum(axis=1).tolist() for g in (first, second)]
        total = 0
        for i, j in np.argwhere(np.isfinite(distances[0])):
            for k, m in np.argwhere(np.isfinite(distances[1])):
                if i != j and k != m and distances[0][i, j] == distances[1][k, m]:
                    total += labels[0][i] == labels[1][k] and labels[0][j] == labels[1][m]
        return total

    counts = np.array([[count(a, b) for b in graphs] for a in graphs], dtype=float)
    return counts / np.sqrt(np.outer(np.diag(counts), np.diag(counts)))


@pytest.mark.parametrize("node_labels", ["region", "degree"])
@pytest.mark.parametrize("directed", [False, True])
def test_kernel_equals_the_definition(node_labels, directed):
    rng = np.random.default_rng(1)
    graphs = rng.random((5, 6, 6)) < 0.35
    graphs[:, range(6), range(6)] = False
    graphs = graphs if directed else graphs | graphs.swapaxes(1, 2)
    model = ShortestPathClassifier(node_labels=node_labels)
    slow = slow_kernel(graphs, node_labels)
    assert_allclose(model._fit_kernel(graphs)[1], slow)
    kernel, _ = model._fit_kernel(graphs[:3])
    assert_allclose(model._compare(kernel, graphs[3:]), slow[3:, :3])


@pytest.mark.parametrize("node_labels", ["region", "degree"])
@pytest.mark.parametrize("directed", [False, True])
def test_kernel_equals_that_of_grakel(node_labels, directed):
    kernels = pytest.importorskip("grakel.kernels")
    rng = np.random.default_rng(2)
    graphs = rng.random((8, 20, 20)) < 0.1
    graphs[:, range(20), range(20)] = False
    graphs = graphs if directed else graphs | graphs.swapaxes(1, 2)
    theirs = kernels.ShortestPath(normalize=True).fit_transform(graphs_for_grakel(graphs, node_labels))
    assert_allclose(ShortestPathClassifier(node_labels=node_labels)._fit_kernel(graphs)[1], theirs)


def test_memory_does_not_grow_with_the_cube_of_the_nodes():
    graphs = np.zeros((3, 300, 300), dtype=bool)
    graphs[[0, 1, 2, 2], [0, 0, 5, 0], [1, 1, 6, 1]] = True
    model = ShortestPathClassifier()
    tracemalloc.start()
    kernel, similarity = model._fit_kernel(graphs)
    compared = model._compare(kernel, graphs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert_allclose(similarity, [[1, 1, 0.5**0.5], [1, 1, 0.5**0.5], [0.5**0.5, 0.5**0.5, 1]])
    assert_allclose(compared, similarity)
    assert peak < 8 * 300**2 * 20  # a few matrices of lengths


def test_kinds_of_paths_that_training_graphs_lack_count_in_the_norm_alone():
    train, new = np.zeros((2, 4, 4), dtype=bool)
    train[0, 1] = new[0, 1] = new[2, 3] = new[3, 2] = new[3, 0] = True  # new: 0-1, 2-3, 3-2, 3-0, 2-0, 3-1, 2-1
    model = ShortestPathClassifier()
    kernel, _ = model._fit_kernel(train[None])
    assert_allclose(model._compare(kernel, new[None]), [[1 / np.sqrt(7)]])
    assert_allclose(model._compare(kernel, np.zeros((1, 4, 4), dtype=bool)), [[0]])
    none, _ = model._fit_kernel(np.zeros((2, 4, 4), dtype=bool))
    assert_allclose(model._compare(none, new[None]), [[0, 0]])


def test_a_path_and_a_triangle_share_the_two_edges_between_the_same_regions():
    path, triangle = np.zeros((2, 3, 3), dtype=bool)
    for i, j in [(0, 1), (1, 2)]:
        path[i, j] = path[j, i] = triangle[i, j] = triangle[j, i] = True
    triangle[0, 2] = triangle[2, 0] = True
    # Each has six ordered pairs; the ends of the path are two edges apart, and one in the triangle.
    _, kernel = ShortestPathClassifier()._fit_kernel(np.array([path, triangle]))
    assert_allclose(kernel, [[1, 4 / 6], [4 / 6, 1]])


def test_with_degrees_as_labels_the_order_of_the_nodes_does_not_matter():
    graphs, labels, *_ = make_planted_graphs(40, 10, random_state=0)
    model = ShortestPathClassifier(node_labels="degree", density=0.2, random_state=0).fit(graphs, labels)
    order = np.random.default_rng(0).permutation(10)
    assert_allclose(model.predict_proba(graphs[:, order][:, :, order]), model.predict_proba(graphs), atol=1e-9)


@pytest.mark.parametrize(("effect", "sees"), [("existence", True), ("orientation", True), ("wiring", False)])
def test_planted_effects(effect, sees):
    graphs, labels, *_ = make_planted_graphs(effect=effect, random_state=0)
    model = ShortestPathClassifier(density=0.08, random_state=0).fit(graphs[:160], labels[:160])
    area = roc_auc_score(labels[160:], model.predict_proba(graphs[160:])[:, 1])
    assert area > 0.85 if sees else area < 0.7
