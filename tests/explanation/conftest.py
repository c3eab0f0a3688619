"""Networks cross-validated on planted graphs, and their explanations, shared by the tests."""

from typing import NamedTuple

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from isocapsnet import IsoCapsNetClassifier, make_planted_graphs
from isocapsnet.datasets.synthetic import PlantedGraphs
from isocapsnet.explanation.fits import FitExplanation, explain_fit

#: Small and quick, and enough for 120 graphs of 16 nodes.
QUICK = {"n_templates": 2, "learning_rate": 3e-3, "max_epochs": 20, "decoder_sizes": (16,), "calibrate": False}


class Study(NamedTuple):
    """Three folds of one study: models, their explanations on the fold they did not see, its graphs, mean AUC."""

    planted: PlantedGraphs
    labels: np.ndarray
    models: list[IsoCapsNetClassifier]
    explanations: list[FitExplanation]
    tests: list[np.ndarray]
    area: float


def cross_validate(effect: str, seed: int, *, shuffled: bool = False) -> Study:
    planted = make_planted_graphs(
        120, 16, effect=effect, signal_to_noise={"existence": 5.0, "orientation": 3.0}[effect], random_state=seed
    )
    labels = np.random.default_rng(seed).permutation(planted.labels) if shuffled else planted.labels
    study = Study(planted, labels, [], [], [], 0.0)
    areas = []
    for train, test in StratifiedKFold(3, shuffle=True, random_state=seed).split(labels, labels):
        model = IsoCapsNetClassifier(**QUICK, random_state=len(areas)).fit(planted.graphs[train], labels[train])
        study.models.append(model)
        study.explanations.append(explain_fit(model, planted.graphs[test], labels[test]))
        study.tests.append(test)
        areas.append(roc_auc_score(labels[test], model.predict_proba(planted.graphs[test])[:, 1]))
    return study._replace(area=float(np.mean(areas)))


@pytest.fixture(scope="session")
def study() -> Study:
    """A planted pattern that the network finds."""
    return cross_validate("existence", seed=0)
