"""Connectome-based predictive modelling: the steps of the protocol one by one, and what they find."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import pearsonr
from sklearn.metrics import roc_auc_score

from isocapsnet import make_planted_graphs
from isocapsnet.models.cpm import CPMClassifier, select_edges


def planted(n_graphs=90, n_classes=2, seed=0):
    """Each class but the first has two stronger and one weaker edge of its own."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n_graphs) % n_classes)
    edges = rng.normal(size=(n_graphs, 45))
    for code in range(1, n_classes):
        edges[y == code, 3 * code : 3 * code + 2] += 1.5
        edges[y == code, 3 * code + 2] -= 1.5
    X = np.zeros((n_graphs, 10, 10))
    X[:, *np.triu_indices(10, 1)] = edges
    return X + X.swapaxes(1, 2), y, edges


@pytest.mark.parametrize("threshold", [0.001, 0.05, 0.5])
def test_selected_edges_are_those_that_pearsonr_calls_significant(threshold):
    _, y, edges = planted()
    edges[:, 7] = 0.1
    selected = select_edges(edges, y == 1, threshold)
    for edge in range(45):
        if edge == 7:
            assert selected[edge] == 0
        else:
            test = pearsonr(edges[:, edge], y)
            assert selected[edge] == (np.sign(test.statistic) if test.pvalue < threshold else 0)


def test_strengths_are_sums_over_the_positive_and_the_negative_network():
    X, y, edges = planted()
    model = CPMClassifier(random_state=0).fit(X, y)
    assert set(np.flatnonzero(model.selected_[0] == 1)) >= {3, 4}
    assert 5 in np.flatnonzero(model.selected_[0] == -1)
    slow = [[row[model.selected_[0] == 1].sum(), row[model.selected_[0] == -1].sum()] for row in edges]
    assert_allclose(model.transform(X), slow)
    assert_allclose(CPMClassifier(networks="negative").fit(X, y).transform(X), np.array(slow)[:, 1:])


def test_the_scores_are_a_regression_on_the_two_sums():
    X, y, _ = planted()
    model = CPMClassifier(random_state=0).fit(X, y)
    proba = model.predict_proba(X)
    logit = np.log(proba[:, 1] / proba[:, 0])
    design = np.column_stack([model.transform(X), np.ones(len(X))])
    solution, *_ = np.linalg.lstsq(design, logit, rcond=None)
    assert_allclose(design @ solution, logit, atol=1e-8)
    assert solution[0] > 0 > solution[1]


def test_with_more_classes_each_has_its_own_networks():
    X, y, _ = planted(150, 3)
    model = CPMClassifier(random_state=0).fit(X[:100], y[:100])
    assert model.selected_.shape == (3, 45)
    assert_array_equal(model.selected_[1], select_edges(X[:100, *np.triu_indices(10, 1)], y[:100] == 1, 0.01))
    assert model.transform(X).shape == (150, 6)
    assert roc_auc_score(y[100:], model.predict_proba(X[100:]), multi_class="ovr") > 0.9


def test_probabilities_are_not_overconfident_where_nothing_is():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 24, 24))
    proba = CPMClassifier(threshold=0.05, random_state=0).fit(X[:60], np.arange(60) % 2).predict_proba(X[60:])
    assert np.abs(proba - 0.5).max() < 0.35  # the regression on edges that its own graphs selected is nearly certain


def test_edges_that_tell_nothing_leave_the_frequencies_and_are_said():
    X, _, _ = planted(20)
    X[:] = X[0]
    with pytest.warns(UserWarning, match="threshold"):
        model = CPMClassifier(random_state=0).fit(X, [0] * 15 + [1] * 5)
    assert_allclose(model.predict_proba(X)[:, 0], 0.75, atol=0.05)


@pytest.mark.parametrize(("effect", "sees"), [("existence", True), ("hub", True), ("wiring", False)])
def test_planted_effects(effect, sees):
    graphs, labels, *_ = make_planted_graphs(effect=effect, random_state=0)
    model = CPMClassifier(random_state=0).fit(graphs[:160], labels[:160])
    area = roc_auc_score(labels[160:], model.predict_proba(graphs[160:])[:, 1])
    assert area > 0.9 if sees else area < 0.7
