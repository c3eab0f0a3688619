"""The random forest on edges: its arrays against scikit-learn's trees, and what it finds."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

from isocapsnet import make_planted_graphs
from isocapsnet.models.forest import ForestClassifier


@pytest.mark.parametrize(
    ("parameters", "theirs"),
    [
        ({}, {}),
        ({"max_features": 0.5, "min_leaf": 4}, {"max_features": 0.5, "min_samples_leaf": 4}),
        ({"class_weight": "balanced"}, {"class_weight": "balanced"}),
    ],
)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_probabilities_are_those_of_scikit_learn(parameters, theirs, n_classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 7, 7)).astype(np.float32)
    X += X.swapaxes(1, 2)
    y = np.minimum(rng.integers(0, 2 * n_classes, 90), n_classes - 1)
    ours = ForestClassifier(n_trees=30, random_state=3, **parameters).fit(X[:60], y[:60])
    edges = X[:, *np.triu_indices(7, 1)]
    forest = RandomForestClassifier(30, random_state=3, **theirs).fit(edges[:60], y[:60])
    assert_allclose(ours.predict_proba(X), forest.predict_proba(edges), atol=1e-12)
    assert_array_equal(ours.importances_, forest.feature_importances_)


def test_a_graph_goes_the_way_that_its_edges_decide():
    X, y = np.zeros((20, 2, 2)), np.arange(20) % 2
    X[:, 0, 1] = X[:, 1, 0] = y
    model = ForestClassifier(n_trees=5, random_state=0).fit(X, y)
    edge = np.array([[[0, value], [value, 0]] for value in (0.49, 0.5, 0.51)], dtype=float)
    assert_array_equal(model.predict_proba(edge)[:, 1], [0, 0, 1])
    assert_allclose(model.thresholds_[model.features_ >= 0] * model.scale_ + model.mean_, 0.5)


@pytest.mark.parametrize(("scale", "offset"), [(1e-9, 0), (1e-30, 0), (1e9, 0), (1e60, 0), (1e-3, 1e6), (1, -1e9)])
def test_neither_the_unit_nor_the_origin_of_the_weights_matters(scale, offset):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5, 5)), np.arange(60) % 2
    X[:, 0, 1] += 3 * y
    X = np.round(X + X.swapaxes(1, 2), 3)
    expected = ForestClassifier(n_trees=20, random_state=0).fit(X[:40], y[:40]).predict_proba(X[40:])
    X = scale * X + offset
    assert_allclose(ForestClassifier(n_trees=20, random_state=0).fit(X[:40], y[:40]).predict_proba(X[40:]), expected)


@pytest.mark.parametrize(("effect", "sees"), [("existence", True), ("hub", True), ("wiring", False)])
def test_planted_effects(effect, sees):
    graphs, labels, *_ = make_planted_graphs(effect=effect, random_state=0)
    model = ForestClassifier(n_trees=200, random_state=0).fit(graphs[:160], labels[:160])
    area = roc_auc_score(labels[160:], model.predict_proba(graphs[160:])[:, 1])
    assert area > 0.9 if sees else area < 0.7


def test_two_edges_that_only_together_tell_the_class_are_seen():
    rng = np.random.default_rng(0)
    signs = rng.choice([-1, 1], size=(300, 2))
    X, y = np.zeros((300, 3, 3)), (signs.prod(axis=1) > 0).astype(int)
    for edge, (i, j) in enumerate([(0, 1), (1, 2)]):
        X[:, i, j] = X[:, j, i] = signs[:, edge] + 0.2 * rng.normal(size=300)
    model = ForestClassifier(n_trees=100, random_state=0).fit(X[:200], y[:200])
    assert roc_auc_score(y[200:], model.predict_proba(X[200:])[:, 1]) > 0.95
