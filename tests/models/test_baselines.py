"""The constant predictor and the linear model: known answers and agreement with slow references."""

import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.preprocessing import StandardScaler

from isocapsnet import InputError, load_graphs
from isocapsnet.evaluation.metrics import METRICS
from isocapsnet.models._logistic import C_GRID, fit_calibrated, fit_logistic, selection_folds
from isocapsnet.models.baselines import ConstantClassifier, LinearClassifier


def random_graphs(n_graphs, n_nodes, *, seed=0, directed=False, n_classes=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_graphs, n_nodes, n_nodes))
    if not directed:
        X = X + X.swapaxes(1, 2)
    y = np.arange(n_graphs) % n_classes
    X[:, 0, 1] += y
    X[:, 1, 0] += y
    return X, y


def test_constant_predicts_the_training_frequencies():
    X, _ = random_graphs(8, 3)
    y = np.array(["b", "a", "b", "b", "c", "b", "a", "c"])
    model = ConstantClassifier().fit(X, y)
    assert_allclose(model.predict_proba(X[:2]), [[0.25, 0.5, 0.25]] * 2)
    assert_array_equal(model.predict(X), ["b"] * 8)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_rotating_into_the_span_leaves_the_solution_unchanged(n_classes, C):
    X, y = random_graphs(30, 12, n_classes=n_classes)
    edges = StandardScaler().fit_transform(X[:, *np.triu_indices(12, 1)])
    head = fit_logistic(edges, y, np.ones(n_classes), seed=0, C=C)
    scaled = edges / np.sqrt(np.mean(np.sum(edges**2, axis=1)))
    direct = LogisticRegression(C=C, solver="newton-cg", tol=1e-10, max_iter=1000).fit(scaled, y)
    assert_allclose(head.predict_proba(edges), direct.predict_proba(scaled), atol=2e-4)


@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.5, 4.0)])
def test_strength_is_the_grid_value_with_the_least_cross_validated_log_loss(weights):
    rng = np.random.default_rng(1)
    features, codes = rng.normal(size=(40, 5)), np.arange(40) % 2
    features[:, 0] += 2 * codes
    features -= features.mean(axis=0)
    head = fit_logistic(features, codes, np.array(weights), seed=3)
    scaled = features / np.sqrt(np.mean(np.sum(features**2, axis=1)))

    def loss(C):
        proba = cross_val_predict(
            LogisticRegression(C=C, class_weight=dict(enumerate(weights)), tol=1e-8, max_iter=5000),
            scaled,
            codes,
            cv=StratifiedKFold(5, shuffle=True, random_state=3),
            method="predict_proba",
        )
        return -np.take(weights, codes) @ np.log(proba[np.arange(40), codes])

    assert min(C_GRID, key=loss) == head.C
    assert_allclose(head.loss, loss(head.C), rtol=1e-3)
    assert C_GRID[0] < head.C < C_GRID[-1]


def unbalanced_features(sizes, n_features=40, *, seed=0, n_shifted=3, shift=0.7):
    """Each class but the first has its own features shifted."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    features = rng.normal(size=(len(codes), n_features))
    for code in range(1, len(sizes)):
        features[codes == code, n_shifted * code : n_shifted * (code + 1)] += shift
    return features - features.mean(axis=0), codes


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_linear_takes_the_weighting_that_is_better_after_calibration(class_weight):
    features, codes = unbalanced_features((60, 25, 12))
    weights = np.ones(3) if class_weight is None else len(codes) / (3 * np.bincount(codes))
    scaled = features / np.sqrt(np.mean(np.sum(features**2, axis=1)))
    folds = list(StratifiedKFold(5, shuffle=True, random_state=3).split(scaled, codes))
    each = np.arange(len(codes))
    targets = (np.eye(3) * np.bincount(codes) + 1) / (np.bincount(codes)[:, None] + 3)
    best = (np.inf, None)
    for fit_weights in (weights, len(codes) / (3 * np.bincount(codes))):
        raw = []  # per strength: loss before calibration, scores of the graphs held out, the regression
        for C in C_GRID:
            model = LogisticRegression(C=C, class_weight=dict(enumerate(fit_weights)), tol=1e-8, max_iter=9000)
            scores, loss = np.zeros((len(codes), 3)), 0.0
            for train, held_out in folds:
                model.fit(scaled[train], codes[train])
                scores[held_out] = scaled[held_out] @ model.coef_.T
                proba = model.predict_proba(scaled[held_out])[np.arange(len(held_out)), codes[held_out]]
                loss -= fit_weights[codes[held_out]] @ np.log(proba)
            raw.append((loss, scores, model.fit(scaled, codes).coef_))
        _, scores, coef = min(raw, key=lambda item: item[0])

        def calibrated_loss(parameters, scores=scores):
            log_proba = log_softmax(parameters[0] * scores + parameters[1:], axis=1)
            return -np.sum(weights[codes, None] * targets[codes] * log_proba)

        slope, *offset = minimize(calibrated_loss, [1.0, 0.0, 0.0, 0.0], method="BFGS").x
        loss = -weights[codes] @ log_softmax(slope * scores + offset, axis=1)[each, codes]
        best = min(best, (loss, softmax(slope * scaled @ coef.T + offset, axis=1)), key=lambda item: item[0])
    head = fit_calibrated(features, codes, weights, seed=3)
    assert_allclose(head.loss, best[0], rtol=1e-3)
    assert_allclose(head.predict_proba(features), best[1], atol=5e-3)


def test_with_two_classes_calibration_leaves_the_ranking_as_it_was():
    features, codes = unbalanced_features((40, 20))
    plain = fit_logistic(features, codes, np.ones(2), seed=0)
    calibrated = fit_calibrated(features, codes, np.ones(2), seed=0)
    slope = calibrated.coef[1] @ plain.coef[1] / (plain.coef[1] @ plain.coef[1])
    assert slope > 0
    assert_allclose(calibrated.coef, slope * plain.coef)


def test_small_classes_are_ranked_and_calibrated_better_than_by_plain_logistic_regression():
    scores = []
    for seed in range(2):
        features, codes = unbalanced_features((113, 45, 23, 14), 150, seed=seed, n_shifted=20)
        for train, test in StratifiedKFold(3, shuffle=True, random_state=seed).split(features, codes):
            for fit in (fit_logistic, fit_calibrated):
                proba = fit(features[train], codes[train], np.ones(4), seed=seed).predict_proba(features[test])
                scores.append([METRICS[name].function(codes[test], proba) for name in ("roc_auc", "brier")])
    (area, brier), (calibrated_area, calibrated_brier) = np.mean(np.reshape(scores, (-1, 2, 2)), axis=0)
    assert calibrated_area > area + 0.01
    assert calibrated_brier < brier - 0.02


def test_classes_of_two_members_and_of_one_still_fit():
    X, _ = random_graphs(12, 6)
    for y in ([0] * 10 + [1] * 2, [0] * 11 + [1], [0] * 6 + [1] * 4 + [2] * 2):
        proba = LinearClassifier(random_state=0).fit(X, y).predict_proba(X)
        assert np.isfinite(proba).all()
    assert np.isfinite(LinearClassifier().fit(X[:2], [0, 1]).predict_proba(X)).all()


def test_inner_folds_hold_out_every_graph_once_but_the_only_member_of_its_class():
    codes = np.array([0, 0, 0, 0, 1, 1, 1, 2])
    folds = selection_folds(codes, seed=0)
    assert len(folds) == 3
    assert_array_equal(np.sort(np.concatenate([held_out for _, held_out in folds])), np.arange(7))
    for train, held_out in folds:
        assert_array_equal(np.sort(np.concatenate([train, held_out])), np.arange(8))
        assert set(codes[train]) == {0, 1, 2}
    assert selection_folds(np.array([0, 1]), seed=0) == []


def test_an_edge_that_never_varies_in_training_has_no_say():
    X, y = random_graphs(20, 6)
    X[:, 2, 3] = X[:, 3, 2] = 0.1
    model = LinearClassifier(random_state=0).fit(X, y)
    changed = X.copy()
    changed[:, 2, 3] = changed[:, 3, 2] = 1e6
    assert_array_equal(model.predict_proba(X), model.predict_proba(changed))


def test_directed_graphs_use_both_triangles_and_symmetric_ones_do_not():
    X, y = random_graphs(40, 6, directed=True)
    X[:, 4, 2] += 3 * y
    directed = LinearClassifier(random_state=0).fit(X, y)
    assert directed.coef_.shape == (2, 30)
    assert roc_auc_score(y, directed.predict_proba(X)[:, 1]) > 0.95
    assert LinearClassifier(random_state=0).fit(X + X.swapaxes(1, 2), y).coef_.shape == (2, 15)


def test_class_weight_moves_the_intercept_and_is_checked():
    X, _ = random_graphs(30, 6)
    y = np.repeat([0, 1], [25, 5])
    plain = LinearClassifier(random_state=0).fit(X, y)
    balanced = LinearClassifier(class_weight="balanced", random_state=0).fit(X, y)
    assert balanced.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.1
    with pytest.raises(InputError, match="class_weight"):
        LinearClassifier(class_weight="heavy").fit(X, y)


@pytest.mark.parametrize("weight", [0, -1.0, np.nan, np.inf, "one", None])
def test_class_weights_that_are_not_positive_numbers_are_refused(weight):
    X, y = random_graphs(10, 4)
    with pytest.raises(InputError, match="class_weight"):
        LinearClassifier(class_weight={0: 1.0, 1: weight}).fit(X, y)


def test_class_weights_that_are_given_are_those_of_the_fit():
    features, codes = unbalanced_features((113, 45, 23, 14), 45, n_shifted=10)
    X = np.zeros((len(codes), 10, 10))
    X[:, *np.triu_indices(10, 1)] = features
    X += X.swapaxes(1, 2)
    chosen = LinearClassifier(C=1.0, random_state=0).fit(X, codes)
    given = LinearClassifier(C=1.0, class_weight=dict.fromkeys(range(4), 1.0), random_state=0).fit(X, codes)
    edges = StandardScaler().fit_transform(features)
    edges /= np.sqrt(np.mean(np.sum(edges**2, axis=1)))
    plain = LogisticRegression(C=1.0, tol=1e-8, max_iter=5000).fit(edges, codes).coef_.ravel()
    # Calibration multiplies all of them by one number.
    assert np.corrcoef(given.coef_.ravel(), plain)[0, 1] > 1 - 1e-6
    assert np.corrcoef(chosen.coef_.ravel(), plain)[0, 1] < 0.99


@pytest.mark.parametrize("C", [0, -1.0, "1"])
def test_a_strength_that_is_not_positive_is_refused(C):
    X, y = random_graphs(10, 4)
    with pytest.raises(InputError, match="C="):
        LinearClassifier(C=C).fit(X, y)


def test_linear_is_a_serious_opponent_on_the_development_set(real_data):
    data = load_graphs("abide-nyu")
    X, y = data.adjacency, data.labels
    started, aucs = time.process_time(), []
    for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(X, y):
        model = LinearClassifier(random_state=0).fit(X[train], y[train])
        aucs.append(roc_auc_score(y[test], model.predict_proba(X[test])[:, 1]))
    assert np.mean(aucs) > 0.72
    assert time.process_time() - started < 20
