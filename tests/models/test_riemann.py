"""Riemannian geometry: positive definite matrices, tangent vectors and distances from their definitions."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import eigvalsh, expm, logm, sqrtm
from sklearn.metrics import roc_auc_score

from isocapsnet import InputError, make_planted_graphs
from isocapsnet.models.riemann import RiemannClassifier


def correlations(n_graphs=60, n_nodes=5, seed=0, shift=0.0):
    """Correlation matrices; in class 1 the first two nodes share a source of size ``shift``."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_graphs) % 2
    series = rng.normal(size=(n_graphs, 40, n_nodes)) + 0.5 * rng.normal(size=(n_graphs, 40, 1))
    series[:, :, :2] += shift * y[:, None, None] * rng.normal(size=(n_graphs, 40, 1))
    return np.stack([np.corrcoef(one.T) for one in series]), y


def test_correlations_are_shrunk_towards_the_identity():
    X, y = correlations()
    model = RiemannClassifier(shrinkage=0.2, random_state=0).fit(X, y)
    assert model.bound_ == 1
    assert_allclose(model._matrices(X), 0.8 * X + 0.2 * np.eye(5), atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e5])
def test_any_graphs_become_positive_definite_and_only_edges_count(scale):
    rng = np.random.default_rng(0)
    X = scale * rng.normal(size=(30, 6, 6))
    model = RiemannClassifier(shrinkage=0.1, random_state=0).fit(X[:20], np.arange(20) % 2)
    assert np.linalg.eigvalsh(model._matrices(X[:20])).min() == pytest.approx(0.1)
    new = np.linalg.eigvalsh(model._matrices(5 * X[20:]))
    assert new.min() == pytest.approx(0.1)
    other = X.copy()
    other[:, range(6), range(6)] = 7.0
    assert_allclose(model.predict_proba(other.swapaxes(1, 2)), model.predict_proba(X))


@pytest.mark.parametrize("metric", ["riemann", "logeuclid"])
def test_mean_and_tangent_vectors_are_those_of_the_definition(metric):
    X, y = correlations(12)
    model = RiemannClassifier(metric=metric, random_state=0).fit(X, y)
    matrices, mean = model._matrices(X), model.means_[0]
    logs = np.stack([logm(one).real for one in matrices])
    if metric == "riemann":
        root = np.linalg.inv(sqrtm(mean).real)
        tangent = np.stack([logm(root @ one @ root).real for one in matrices])
        assert_allclose(tangent.mean(axis=0), 0, atol=1e-6)  # what makes the mean the mean
    else:
        assert_allclose(logm(mean).real, logs.mean(axis=0), atol=1e-8)
        # The derivative of the exponential at the mean, in the direction of each graph.
        step, start = 1e-5, logs.mean(axis=0)
        ends = [[expm(start + sign * step * (one - start)) for sign in (1, -1)] for one in logs]
        tangent = np.stack([(ahead - behind) / (2 * step) for ahead, behind in ends])
    rows, columns = np.triu_indices(5)
    # Entries off the diagonal stand for two, so that lengths are those of the matrices.
    vectors = tangent[:, rows, columns] * np.where(rows == columns, 1, np.sqrt(2))
    assert_allclose(model.transform(X), vectors, atol=1e-6)


def test_minimum_distance_to_mean_uses_the_affine_invariant_distance():
    X, y = correlations(30, shift=1.0)
    model = RiemannClassifier(approach="mdm", random_state=0).fit(X, y)
    matrices = model._matrices(X)
    slow = np.array([[np.sum(np.log(eigvalsh(one, mean)) ** 2) for mean in model.means_] for one in matrices])
    assert_allclose(model.transform(X), slow, rtol=1e-6)
    proba = model.predict_proba(X)
    log_odds = np.log(proba[:, 1] / proba[:, 0])
    slope, offset = np.polyfit(slow[:, 0] - slow[:, 1], log_odds, 1)
    assert slope > 0
    assert_allclose(slope * (slow[:, 0] - slow[:, 1]) + offset, log_odds, atol=1e-6)


def test_predictions_do_not_change_if_nodes_are_permuted_in_all_graphs():
    X, y = correlations(40, shift=1.0)
    order = np.array([3, 0, 4, 1, 2])
    for approach in ("tangent", "mdm"):
        plain = RiemannClassifier(approach=approach, random_state=0).fit(X, y).predict_proba(X)
        permuted = X[:, order][:, :, order]
        other = RiemannClassifier(approach=approach, random_state=0).fit(permuted, y).predict_proba(permuted)
        assert_allclose(other, plain, atol=2e-3)


@pytest.mark.parametrize("approach", ["tangent", "mdm"])
@pytest.mark.parametrize("metric", ["riemann", "logeuclid"])
def test_a_source_that_two_nodes_share_is_seen(approach, metric):
    X, y = correlations(90, shift=1.2)
    model = RiemannClassifier(approach=approach, metric=metric, random_state=0).fit(X[:60], y[:60])
    assert roc_auc_score(y[60:], model.predict_proba(X[60:])[:, 1]) > 0.9


@pytest.mark.parametrize(("effect", "sees"), [("existence", True), ("wiring", False)])
def test_planted_effects(effect, sees):
    graphs, labels, *_ = make_planted_graphs(effect=effect, random_state=0)
    model = RiemannClassifier(random_state=0).fit(graphs[:160], labels[:160])
    area = roc_auc_score(labels[160:], model.predict_proba(graphs[160:])[:, 1])
    assert area > 0.9 if sees else area < 0.7


def test_without_pyriemann_the_error_says_what_to_install(monkeypatch):
    for name in ("pyriemann", "pyriemann.geometry", "pyriemann.geometry.distance"):
        monkeypatch.setitem(sys.modules, name, None)
    X, y = correlations(10)
    with pytest.raises(InputError, match=r"RiemannClassifier.*isocapsnet\[methods\]"):
        RiemannClassifier().fit(X, y)
