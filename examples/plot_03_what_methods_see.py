"""
What a method can see
=====================

Two methods with the same score on your data may see different things. We plant four effects and let four methods
classify the graphs. :doc:`/capabilities` has all methods and effects, with intervals.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from isocapsnet import MODELS, make_planted_graphs

effects = ["existence", "hub", "mean", "motif"]
methods = {
    "linear": {},
    "riemann": {},
    "shortest-path": {},
    "isocapsnet": {"windows": "neighborhood", "calibrate": False, "max_epochs": 30, "random_state": 0},
}

# %%
# Half of the graphs train each method, the other half test it.
scores = np.zeros((len(methods), len(effects)))
for column, effect in enumerate(effects):
    data = make_planted_graphs(n_graphs=200, n_nodes=16, effect=effect, random_state=1)
    train, test = slice(0, 100), slice(100, 200)
    for row, (name, parameters) in enumerate(methods.items()):
        model = MODELS[name](**parameters).fit(data.graphs[train], data.labels[train])
        scores[row, column] = roc_auc_score(data.labels[test], model.predict_proba(data.graphs[test])[:, 1])

# %%
# A linear model does not see the motif, which is at other nodes in every graph. The shortest-path kernel compares
# lengths of paths in thresholded graphs, so it does not see that all edges are a little stronger.
figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
axis.imshow(scores, vmin=0.5, vmax=1, cmap="viridis")
axis.set_xticks(range(len(effects)), effects)
axis.set_yticks(range(len(methods)), list(methods))
for (row, column), score in np.ndenumerate(scores):
    axis.text(column, row, f"{score:.2f}", ha="center", va="center", color="white" if score < 0.8 else "black")
axis.set_title("ROC AUC on 100 test graphs")
plt.show()
