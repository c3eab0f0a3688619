"""
Your own method in a benchmark
==============================

Any scikit-learn classifier of graphs takes part. This one sees how strongly each region is connected.
"""

import tempfile

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

import isocapsnet as ic


class StrengthClassifier(ClassifierMixin, BaseEstimator):
    """Logistic regression on the strength of each node."""

    def __init__(self, C=1.0):
        self.C = C

    def fit(self, X, y):
        self.model_ = LogisticRegression(C=self.C, max_iter=1000).fit(X.sum(axis=2), y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X.sum(axis=2))

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


# %%
# In the first dataset one region is a hub: all its edges are stronger in patients. In the second, patients have a
# pattern of four regions whose weights sum to zero. Both differences are equally large.
methods = [("strength", StrengthClassifier()), "linear", "constant"]
options = {"repeats": 1, "candidates": 1, "jobs": 0, "progress": False}
results = {}
for effect in ("hub", "existence"):
    planted = ic.make_planted_graphs(n_graphs=90, n_nodes=16, effect=effect, signal_to_noise=1, random_state=0)
    study = ic.BrainGraphs(planted.graphs, np.array(["control", "patient"])[planted.labels], name=effect)
    results[effect] = ic.benchmark(study, methods, **options, out=tempfile.mkdtemp())
    print(f"{effect}: strength is {results[effect].verdicts['strength']}")

# %%
results["hub"].plot.comparison()

# %%
results["existence"].plot.comparison()
