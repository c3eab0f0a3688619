"""Frequent sub-graphs: mining against exhaustive enumeration, bounds, features and what they are good for."""

import time
from itertools import combinations
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from isocapsnet import InputError, make_planted_graphs
from isocapsnet.models import freq
from isocapsnet.models.freq import FreqClassifier, frequent_subgraphs


def is_connected(edges):
    reached, rest = set(edges[0]), list(edges[1:])
    while touching := [edge for edge in rest if reached & set(edge)]:
        reached.update(*touching)
        rest = [edge for edge in rest if edge not in touching]
    return not rest


def exhaustive(graphs, *, directed, n_patterns, max_edges, min_support, max_support):
    """Every connected edge set there is, counted one graph at a time and ranked: (edges, support) pairs."""
    n_graphs, n_nodes, _ = graphs.shape
    pairs = [(i, j) for i in range(n_nodes) for j in range(n_nodes) if (i != j if directed else i < j)]

    def support(edges):
        return sum(all(graph[edge] for edge in edges) for graph in graphs) / n_graphs

    pairs = [pair for pair in pairs if 0 < support([pair]) <= max_support]
    found = [
        (edges, support(edges))
        for size in range(1, max_edges + 1)
        for edges in combinations(pairs, size)
        if is_connected(edges) and support(edges) >= max(min_support, 1 / n_graphs)
    ]
    return sorted(found, key=lambda pattern: (-pattern[1], len(pattern[0]), pattern[0]))[:n_patterns]


def as_edge_sets(patterns):
    return [tuple(sorted({(int(i), int(j)) for i, j in pattern})) for pattern in patterns]


@settings(deadline=None, max_examples=300)
@given(
    arrays(bool, st.tuples(st.integers(3, 9), st.just(4), st.just(4)), fill=st.nothing()),
    st.booleans(),
    st.integers(1, 40),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.2, 0.5]),
    st.sampled_from([0.6, 0.9, 1.0]),
    st.sampled_from([1, 3, 64]),
)
def test_mining_equals_exhaustive_enumeration(graphs, directed, n_patterns, max_edges, min_support, max_support, batch):
    if not directed:
        graphs = graphs | graphs.swapaxes(1, 2)
    bounds = {"min_support": min_support, "max_support": max_support}
    asked = {"directed": directed, "n_patterns": n_patterns, "max_edges": max_edges} | bounds
    with mock.patch.object(freq, "_BATCH", batch):
        patterns, support = frequent_subgraphs(graphs, **asked)
    expected = exhaustive(graphs, **asked)
    assert patterns.shape == (len(expected), max_edges, 2)
    assert as_edge_sets(patterns) == [edges for edges, _ in expected]
    assert_allclose(support, [share for _, share in expected])


def test_mining_more_graphs_than_fit_in_one_word():
    rng = np.random.default_rng(0)
    graphs = rng.random((200, 5, 5)) < 0.6
    graphs |= graphs.swapaxes(1, 2)
    asked = {"directed": False, "n_patterns": 60, "max_edges": 3, "min_support": 0.1, "max_support": 1.0}
    patterns, support = frequent_subgraphs(graphs, **asked)
    expected = exhaustive(graphs, **asked)
    assert as_edge_sets(patterns) == [edges for edges, _ in expected]
    assert_allclose(support, [share for _, share in expected])


def test_dense_graphs_of_200_nodes_finish_in_seconds():
    graphs = np.random.default_rng(0).random((150, 200, 200)) < 0.6
    graphs |= graphs.swapaxes(1, 2)
    started = time.process_time()
    asked = {"directed": False, "n_patterns": 1000, "max_edges": 5, "min_support": 0.1, "max_support": 0.95}
    patterns, support = frequent_subgraphs(graphs, **asked)
    assert time.process_time() - started < 20
    assert len(patterns) == 1000
    assert (np.diff(support) <= 0).all()


def planted(signal=2.5, **parameters):
    X, y, truth, *_ = make_planted_graphs(effect="existence", signal_to_noise=signal, random_state=0, **parameters)
    return X, y, truth


def test_features_say_which_graph_holds_which_subgraph_whole():
    X, y, _ = planted(n_graphs=40, n_nodes=8)
    model = FreqClassifier(density=8 / 28, n_patterns=50, random_state=0).fit(X, y)
    features = model.transform(X)
    for graph, row in zip(X, features, strict=True):
        eighth = np.sort(graph[np.triu_indices(8, 1)])[-8]
        for pattern, present in zip(model.patterns_, row, strict=True):
            assert present == all(graph[i, j] >= eighth for i, j in pattern)
    assert_allclose(features.mean(axis=0), model.support_)
    assert features.dtype == np.uint8


def test_probabilities_are_those_of_a_logistic_regression_on_centred_features():
    X, y, _ = planted(n_graphs=60, n_nodes=10)
    model = FreqClassifier(density=0.3, n_patterns=40, C=10.0, random_state=0).fit(X[:40], y[:40])
    train, new = (model.transform(part) - model.support_ for part in (X[:40], X[40:]))
    unit = np.sqrt(np.mean(np.sum(train**2, axis=1)))
    direct = LogisticRegression(C=10.0, tol=1e-8, max_iter=5000).fit(train / unit, y[:40])
    assert_allclose(model.predict_proba(X[40:]), direct.predict_proba(new / unit), atol=1e-3)


def test_density_is_the_one_that_tells_the_training_classes_apart():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = np.zeros((60, 24, 24))
    # The strongest 5 % of the edges are noise, of the next 5 % a class has its own, the others are noise again: fewer
    # edges show nothing, more drown it.
    rows, columns = np.triu_indices(24, 1)
    order = rng.permutation(len(rows))
    weight = rng.random((60, len(rows)))
    for graph in weight:
        graph[rng.choice(order[42:], 14, replace=False)] += 2
    weight[np.ix_(y == 0, order[:14])] += 1
    weight[np.ix_(y == 1, order[14:28])] += 1
    X[:, rows, columns] = weight
    X += X.swapaxes(1, 2)
    assert FreqClassifier(random_state=0).fit(X, y).density_ == 0.1
    assert FreqClassifier(density=0.3, random_state=0).fit(X, y).density_ == 0.3


def test_mining_does_not_look_at_the_labels():
    X, y, _ = planted(n_graphs=60)
    one = FreqClassifier(density=0.2, random_state=0).fit(X, y)
    other = FreqClassifier(density=0.2, random_state=0).fit(X, 1 - np.roll(y, 7))
    assert_array_equal(one.patterns_, other.patterns_)


def test_an_edge_of_everybody_is_in_no_subgraph_unless_asked_for():
    X, y, _ = planted(n_graphs=40, n_nodes=8)
    X[:, 0, 1] = X[:, 1, 0] = 99
    for max_support, expected in ((0.9, False), (1.0, True)):
        model = FreqClassifier(density=0.3, max_support=max_support, random_state=0).fit(X, y)
        assert any((0, 1) in edges for edges in as_edge_sets(model.patterns_)) == expected


def test_without_any_subgraph_the_class_sizes_remain_and_a_warning_says_why():
    X = np.zeros((9, 4, 4))
    with pytest.warns(UserWarning, match="10% to 90%"):
        model = FreqClassifier(random_state=0).fit(X, [0] * 6 + [1] * 3)
    assert model.transform(X).shape == (9, 0)
    assert_allclose(model.predict_proba(X[:1]), [[2 / 3, 1 / 3]], atol=1e-3)


def test_largest_weights_hold_a_planted_edge():
    X, y, truth = planted(signal=5.0)
    model = FreqClassifier(random_state=0).fit(X, y)
    strongest = model.patterns_[np.abs(model.coef_[1]).argsort()[-5:]]
    assert np.isin(strongest, truth[0].nodes).all(axis=2).any(axis=1).all()


@pytest.mark.parametrize(("signal", "least"), [(2.5, 0.70), (5.0, 0.80)])
def test_planted_patterns_are_found(signal, least):
    X, y, _ = planted(signal)
    aucs = []
    for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(X, y):
        model = FreqClassifier(random_state=0).fit(X[train], y[train])
        aucs.append(roc_auc_score(y[test], model.predict_proba(X[test])[:, 1]))
    assert np.mean(aucs) >= least


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_patterns": 0},
        {"max_edges": 0},
        {"min_support": -0.1},
        {"max_support": 1.5},
        {"min_support": 0.95},
        {"density": 0},
        {"C": -1},
        {"negative_edges": "flip"},
    ],
    ids=str,
)
def test_parameters_out_of_range_are_refused(parameters):
    with pytest.raises(InputError, match=next(iter(parameters))):
        FreqClassifier(**parameters).fit(np.zeros((4, 3, 3)), [0, 1, 0, 1])
