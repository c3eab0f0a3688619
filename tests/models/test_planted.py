"""What the model can and cannot learn, on data whose truth is known."""

from itertools import islice

import pytest
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from isocapsnet import IsoCapsNetClassifier, make_planted_graphs
from isocapsnet.evaluation.resampled import corrected_interval

# Noise 0.2 of the pattern's largest entry, on all entries.
ORIENTATION = {"n_graphs": 240, "n_nodes": 24, "kernel_size": 4, "effect": "orientation", "signal_to_noise": 5.0}


def score_folds(planted, seed=0, *, n_folds=3, **parameters):
    """ROC AUC of the first ``n_folds`` of three folds."""
    splits = StratifiedKFold(3, shuffle=True, random_state=seed).split(planted.graphs, planted.labels)
    for train, test in islice(splits, n_folds):
        model = IsoCapsNetClassifier(random_state=0, calibrate=False, **parameters)
        model.fit(planted.graphs[train], planted.labels[train])
        yield roc_auc_score(planted.labels[test], model.predict_proba(planted.graphs[test])[:, 1])


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_capsules_see_orientation_that_scores_alone_do_not(seed):
    planted = make_planted_graphs(**ORIENTATION, random_state=seed)
    assert min(score_folds(planted, n_folds=1, stride=4)) >= 0.95
    [without] = score_folds(planted, n_folds=1, stride=4, routing_iterations=0)
    assert abs(without - 0.5) < 2.6 * 0.065  # 99 % of scores without association, for 40 test graphs of each class


def test_overlapping_windows_see_orientation_too():
    planted = make_planted_graphs(**ORIENTATION, random_state=0)
    assert min(score_folds(planted, n_folds=1, max_epochs=40)) >= 0.95


@pytest.mark.slow
def test_nothing_is_found_where_nothing_is():
    """Of 20 null datasets at most 3 intervals may exclude chance (5 % each: P(more than 3) = 0.016)."""
    excluded = 0
    for seed in range(20):
        planted = make_planted_graphs(120, 16, effect="null", random_state=seed)
        interval = corrected_interval(list(score_folds(planted, seed, max_epochs=20)), test_over_train=0.5)
        excluded += not interval.low <= 0.5 <= interval.high
    assert excluded <= 3
