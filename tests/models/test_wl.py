"""The Weisfeiler-Lehman kernel machine: hand-worked kernels, slow references, invariance."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from isocapsnet import InputError, make_planted_graphs
from isocapsnet.models._binarise import binarise
from isocapsnet.models._graph_kernel import DENSITIES
from isocapsnet.models.wl import WLClassifier
from tests.models.references import graphs_for_grakel


def graph(n_nodes, *edges):
    matrix = np.zeros((n_nodes, n_nodes), dtype=bool)
    for i, j in edges:
        matrix[i, j] = matrix[j, i] = True
    return matrix


def kernel_of(graphs, node_labels, n_iterations):
    return WLClassifier(node_labels=node_labels, n_iterations=n_iterations)._fit_kernel(np.array(graphs))[1]


def slow_kernel(first, second, node_labels, n_iterations):
    """The normalised kernel of two graphs, from the definition: nested tuples as labels, counted."""

    def label_counts(edges):
        labels = list(range(len(edges))) if node_labels == "region" else [int(row.sum()) for row in edges]
        counts = Counter((0, label) for label in labels)
        for iteration in range(1, n_iterations + 1):
            labels = [
                (labels[v], tuple(sorted((labels[u] for u in np.flatnonzero(edges[v])), key=repr)))
                for v in range(len(edges))
            ]
            counts.update((iteration, label) for label in labels)
        return counts

    a, b = label_counts(first), label_counts(second)

    def dot(x, y):
        return sum(n * y[label] for label, n in x.items())

    return dot(a, b) / np.sqrt(dot(a, a) * dot(b, b))


def test_path_and_triangle_by_hand_with_degree_labels():
    # Path: degrees 1, 2, 1, then (1; 2) twice and (2; 1, 1). Triangle: 2, 2, 2, then (2; 2, 2) three times.
    # Path with itself 2² + 1² + 2² + 1² = 10, triangle 3² + 3² = 18, together 1·3 + 0 = 3.
    path, triangle = graph(3, (0, 1), (1, 2)), graph(3, (0, 1), (1, 2), (0, 2))
    together = 3 / np.sqrt(10 * 18)
    assert_allclose(kernel_of([path, triangle], "degree", 1), [[1, together], [together, 1]])


def test_two_paths_by_hand_with_region_labels():
    # 0-1-2 and 0-2-1 share their three regions and, of the three neighbourhoods each, none: 3 / (3 + 3).
    # 0-1-2 and 0-1 share region 0's neighbourhood too: 4 / √(6 · 6).
    paths = [graph(3, (0, 1), (1, 2)), graph(3, (0, 2), (2, 1)), graph(3, (0, 1))]
    expected = [[1, 3 / 6, 4 / 6], [3 / 6, 1, 3 / 6], [4 / 6, 3 / 6, 1]]
    assert_allclose(kernel_of(paths, "region", 1), expected)


adjacencies = arrays(bool, (4, 5, 5), fill=st.nothing()).map(lambda g: np.triu(g, 1) | np.triu(g, 1).swapaxes(1, 2))


@settings(deadline=None, max_examples=50)
@given(
    adjacencies | arrays(bool, (4, 5, 5), fill=st.nothing()), st.sampled_from(["region", "degree"]), st.integers(1, 3)
)
def test_kernel_equals_the_definition_also_for_graphs_with_unseen_labels(graphs, node_labels, n_iterations):
    graphs = graphs & ~np.eye(5, dtype=bool)
    slow = [[slow_kernel(a, b, node_labels, n_iterations) for b in graphs] for a in graphs]
    assert_allclose(kernel_of(graphs, node_labels, n_iterations), slow)
    model = WLClassifier(node_labels=node_labels, n_iterations=n_iterations)
    assert_allclose(model._compare(model._load_kernel(graphs[:2]), graphs[2:]), np.array(slow)[2:, :2])


@pytest.mark.parametrize("node_labels", ["region", "degree"])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("n_iterations", [1, 3])
def test_kernel_equals_that_of_grakel(node_labels, directed, n_iterations):
    kernels = pytest.importorskip("grakel.kernels")
    graphs = np.random.default_rng(2).random((8, 20, 20)) < 0.1
    graphs[:, range(20), range(20)] = False
    graphs = graphs if directed else graphs | graphs.swapaxes(1, 2)
    model = WLClassifier(node_labels=node_labels, n_iterations=n_iterations)
    kernel, similarity = model._fit_kernel(graphs[:5])
    theirs = kernels.WeisfeilerLehman(n_iter=n_iterations, normalize=True)
    assert_array_equal(similarity, theirs.fit_transform(graphs_for_grakel(graphs[:5], node_labels)))
    assert_array_equal(model._compare(kernel, graphs[5:]), theirs.transform(graphs_for_grakel(graphs[5:], node_labels)))


def test_transform_gives_the_kernel_with_each_training_graph():
    X = np.random.default_rng(0).normal(size=(12, 6, 6))
    model = WLClassifier(density=0.3, negative_edges="absolute", random_state=0).fit(X[:8], np.arange(8) % 2)
    new = binarise(X[8:], 0.3, "absolute")
    assert_allclose(model.transform(X[8:]), [[slow_kernel(a, b, "region", 1) for b in model.graphs_] for a in new])


def shuffle_nodes(X, seed):
    """Each graph with its nodes in an order of its own."""
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(X.shape[1]) for _ in X]
    return np.stack([graph[np.ix_(order, order)] for graph, order in zip(X, orders, strict=True)])


def test_degree_labels_are_invariant_to_the_order_of_the_nodes_and_region_labels_are_not():
    X, y, *_ = make_planted_graphs(60, 12, random_state=0)
    for node_labels, invariant in (("degree", True), ("region", False)):
        model = WLClassifier(node_labels=node_labels, n_iterations=2, random_state=0)
        proba = model.fit(X, y).predict_proba(X)
        shuffled = model.fit(shuffle_nodes(X, 1), y).predict_proba(shuffle_nodes(X, 2))
        assert np.allclose(proba, shuffled) == invariant


def test_binarise_by_hand():
    weights = np.zeros((4, 4))
    for (i, j), weight in {(0, 1): 3, (0, 2): -2, (0, 3): 1, (1, 2): 1, (1, 3): -5}.items():
        weights[i, j] = weights[j, i] = weight
    np.fill_diagonal(weights, 9)
    X = weights[None]
    assert_array_equal(binarise(X, 1 / 6, "drop")[0], graph(4, (0, 1)))
    assert_array_equal(binarise(X, 1 / 6, "absolute")[0], graph(4, (1, 3)))
    assert_array_equal(binarise(X, 3 / 6, "absolute")[0], graph(4, (1, 3), (0, 1), (0, 2)))
    # The two edges of weight 1 are tied: both are kept. Weight 0 is no edge, whatever the density.
    tied = graph(4, (0, 1), (0, 3), (1, 2))
    assert_array_equal(binarise(X, 2 / 6, "drop")[0], tied)
    assert_array_equal(binarise(X, 1.0, "drop")[0], tied)
    one_way = np.zeros((1, 3, 3))
    one_way[0, 2, 0], one_way[0, 0, 2], one_way[0, 1, 0] = 2, 1, 3
    assert_array_equal(np.argwhere(binarise(one_way, 2 / 6, "drop")[0]), [[1, 0], [2, 0]])
    assert not binarise(np.ones((2, 1, 1)), 0.5, "drop").any()


def test_decision_values_are_those_of_a_support_vector_machine_per_class():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 8, 8))
    for n_classes in (2, 3):
        y = np.arange(30) % n_classes
        weights = np.array([1.0, 0.2, 3.0])[:n_classes]
        class_weight = dict(enumerate(weights))
        model = WLClassifier(density=0.2, C=2.0, class_weight=class_weight, random_state=0).fit(X[:24], y[:24])
        train = kernel_of(model.graphs_, "region", 1)
        new = binarise(X[24:], 0.2, "drop")
        similarity = np.array([[slow_kernel(a, b, "region", 1) for b in model.graphs_] for a in new])
        for code in range(n_classes):
            machine = SVC(kernel="precomputed", C=2.0).fit(train, y[:24] == code, sample_weight=weights[y[:24]])
            scores = similarity @ model.coef_[code] + model.intercept_[code]
            assert_allclose(scores, machine.decision_function(similarity), atol=1e-3)


def test_vote_gives_each_class_its_share_of_the_kernel_values():
    X = np.stack([graph(3, (0, 1), (1, 2)), graph(3, (0, 2), (2, 1)), graph(3, (0, 1))]).astype(float)
    model = WLClassifier(head="vote", density=1.0, random_state=0).fit(X, ["a", "b", "a"])
    assert_allclose(model.predict_proba(X[:1]), [[(1 + 4 / 6) / (1 + 4 / 6 + 3 / 6), (3 / 6) / (1 + 4 / 6 + 3 / 6)]])
    heavier = WLClassifier(head="vote", density=1.0, class_weight={"a": 1, "b": 4}, random_state=0)
    assert_array_equal(heavier.fit(X, ["a", "b", "a"]).predict(X[:1]), ["b"])


def test_vote_falls_back_on_the_class_sizes_where_nothing_is_shared():
    X = np.stack([graph(4, (0, 1), (1, 2), (2, 3), (3, 0))] * 3).astype(float)
    model = WLClassifier(head="vote", node_labels="degree", density=1.0).fit(X, [0, 0, 1])
    assert_allclose(model.predict_proba(np.zeros((1, 4, 4))), [[2 / 3, 1 / 3]])


def test_density_is_the_one_that_tells_the_training_classes_apart():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = np.zeros((60, 24, 24))
    # The strongest 4 % of the edges are alike in all graphs, the next 4 % differ between the classes, the others
    # are noise: fewer edges show nothing, more drown it.
    rows, columns = np.triu_indices(24, 1)
    order = rng.permutation(len(rows))
    weight = rng.random((60, len(rows)))
    weight[:, order[:11]] += 2
    weight[np.ix_(y == 0, order[11:22])] += 1
    weight[np.ix_(y == 1, order[22:33])] += 1
    X[:, rows, columns] = weight
    X += X.swapaxes(1, 2)
    assert WLClassifier(random_state=0).fit(X, y).density_ == 0.08
    assert WLClassifier(density=0.05, random_state=0).fit(X, y).density_ == 0.05


@pytest.mark.parametrize(("signal", "least"), [(2.5, 0.70), (5.0, 0.80)])
def test_planted_patterns_are_found(signal, least):
    X, y, *_ = make_planted_graphs(effect="existence", signal_to_noise=signal, random_state=0)
    aucs = []
    for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(X, y):
        model = WLClassifier(random_state=0).fit(X[train], y[train])
        assert model.density_ in DENSITIES
        aucs.append(roc_auc_score(y[test], model.predict_proba(X[test])[:, 1]))
    assert np.mean(aucs) >= least


@pytest.mark.parametrize(
    "parameters",
    [{"n_iterations": 0}, {"n_iterations": 1.5}, {"density": 0}, {"density": 1.1}, {"C": 0}, {"head": "crown"}],
    ids=str,
)
def test_parameters_out_of_range_are_refused(parameters):
    with pytest.raises(InputError, match=next(iter(parameters))):
        WLClassifier(**parameters).fit(np.zeros((4, 3, 3)), [0, 1, 0, 1])
