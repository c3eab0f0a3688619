"""What the model can and cannot learn, on data whose truth is known."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from isocapsnet import IsoCapsNetClassifier, make_planted_graphs
from isocapsnet.evaluation.resampled import corrected_interval

# Noise 0.2 of the pattern's largest entry, on all entries.
ORIENTATION = {"n_graphs": 240, "n_nodes": 24, "kernel_size": 4, "effect": "orientation", "signal_to_noise": 5.0}


def cross_validate(planted, seed=0, **parameters):
    """ROC AUC of each of three folds, and their corrected interval."""
    scores = []
    for train, test in StratifiedKFold(3, shuffle=True, random_state=seed).split(planted.graphs, planted.labels):
        model = IsoCapsNetClassifier(random_state=0, calibrate=False, **parameters)
        model.fit(planted.graphs[train], planted.labels[train])
        scores.append(roc_auc_score(planted.labels[test], model.predict_proba(planted.graphs[test])[:, 1]))
    return np.mean(scores), corrected_interval(scores, test_over_train=0.5)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_capsules_see_orientation_that_scores_alone_do_not(seed):
    planted = make_planted_graphs(**ORIENTATION, random_state=seed)
    with_capsules, _ = cross_validate(planted, stride=4)
    assert with_capsules >= 0.95
    _, interval = cross_validate(planted, stride=4, routing_iterations=0)
    assert interval.low <= 0.5 <= interval.high


def test_overlapping_windows_see_orientation_too():
    auc, _ = cross_validate(make_planted_graphs(**ORIENTATION, random_state=0), max_epochs=40)
    assert auc >= 0.95


@pytest.mark.slow
def test_nothing_is_found_where_nothing_is():
    """Of 20 null datasets at most 3 intervals may exclude chance (5 % each: P(more than 3) = 0.016)."""
    excluded = 0
    for seed in range(20):
        planted = make_planted_graphs(120, 16, effect="null", random_state=seed)
        _, interval = cross_validate(planted, seed, max_epochs=20)
        excluded += not interval.low <= 0.5 <= interval.high
    assert excluded <= 3
