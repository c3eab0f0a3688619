"""The support vector machine on edges: scikit-learn's own on the same numbers, and what it finds."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from isocapsnet import make_planted_graphs
from isocapsnet.models.svm import SVMClassifier


def make_graphs(n_graphs=60, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_graphs, 8, 8))
    y = np.arange(n_graphs) % n_classes
    X += X.swapaxes(1, 2)
    X[:, 0, 1] += 3 * y
    X[:, 1, 0] += 3 * y
    return X, y


def scaled_edges(X):
    edges = StandardScaler().fit_transform(X[:, *np.triu_indices(8, 1)])
    return edges / np.sqrt(np.mean(np.sum(edges**2, axis=1)))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_are_those_of_scikit_learn(kernel, n_classes):
    X, y = make_graphs(n_classes=n_classes)
    model = SVMClassifier(kernel=kernel, C=2.0, random_state=0).fit(X, y)
    scores = model._similarity(X) @ model.coef_.T + model.intercept_
    edges = scaled_edges(X)
    for code in range(n_classes):
        theirs = SVC(kernel=kernel, C=2.0, gamma=0.5).fit(edges, y == code).decision_function(edges)
        assert_allclose(scores[:, code], theirs, atol=1e-3)
    proba = model.predict_proba(X)
    assert_allclose(np.log(proba[:, 1] / proba[:, 0]), model.slope_ * (scores[:, 1] - scores[:, 0]) + model.offset_[1]
                    - model.offset_[0], atol=1e-8)  # fmt: skip


def test_graphs_that_are_no_support_vectors_are_not_kept():
    X, y = make_graphs()
    X[:, 0, 1] += 20 * y
    X[:, 1, 0] += 20 * y
    model = SVMClassifier(kernel="rbf", C=100.0, random_state=0).fit(X, y)
    assert 0 < len(model.vectors_) < len(X)


def test_a_file_of_the_linear_machine_holds_no_training_graph():
    X, y = make_graphs()
    _, arrays = SVMClassifier(random_state=0).fit(X, y)._get_state()
    assert {name: array.shape for name, array in arrays.items()} == {
        "coef": (2, 28), "intercept": (2,), "mean": (28,), "scale": (28,), "offset": (2,)
    }  # fmt: skip


@pytest.mark.parametrize(("effect", "sees"), [("existence", True), ("orientation", True), ("wiring", False)])
def test_planted_effects(effect, sees):
    graphs, labels, *_ = make_planted_graphs(effect=effect, random_state=0)
    model = SVMClassifier(random_state=0).fit(graphs[:160], labels[:160])
    area = roc_auc_score(labels[160:], model.predict_proba(graphs[160:])[:, 1])
    assert area > 0.9 if sees else area < 0.7


def test_the_radial_kernel_sees_what_no_linear_one_can():
    rng = np.random.default_rng(0)
    X, y = np.zeros((200, 3, 3)), np.arange(200) % 2
    X[:, 0, 1] = X[:, 1, 0] = np.where(y == 1, rng.choice([-2, 2], 200), 0) + 0.3 * rng.normal(size=200)
    areas = {}
    for kernel in ("linear", "rbf"):
        model = SVMClassifier(kernel=kernel, random_state=0).fit(X[:120], y[:120])
        areas[kernel] = roc_auc_score(y[120:], model.predict_proba(X[120:])[:, 1])
    assert areas["rbf"] > 0.95 > 0.75 > areas["linear"]
