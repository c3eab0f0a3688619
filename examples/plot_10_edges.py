"""
Which edges a network uses, and a sanity check
==============================================

``attribute_edges`` gives each edge its part of the margin between the classes. ``randomization_check`` compares the
attributions with those of the same network before training. If the two agree, the attributions do not show what was
learned.
"""

import matplotlib.pyplot as plt
import numpy as np

from isocapsnet import MODELS, make_planted_graphs
from isocapsnet.explanation import attribute_edges, randomization_check

# %%
# One hundred graphs train the network; the others are explained.
planted = make_planted_graphs(n_graphs=200, n_nodes=16, random_state=0)
train, test = slice(0, 100), slice(100, 200)
model = MODELS["brainnetcnn"](random_state=0).fit(planted.graphs[train], planted.labels[train])
edges = attribute_edges(model, planted.graphs[test])[:, 0]

# %%
# What separates the classes: mean attribution in class 1 minus that in class 0. The planted nodes are framed.
is_case = planted.labels[test] == 1
separation = edges[is_case].mean(axis=0) - edges[~is_case].mean(axis=0)
nodes = np.sort(planted.truth[0].nodes)
figure, axis = plt.subplots(figsize=(4.5, 3.6), layout="constrained")
limit = np.abs(separation).max()
figure.colorbar(axis.imshow(separation, cmap="RdBu_r", vmin=-limit, vmax=limit), label="separation")
for row in nodes:
    for column in nodes:
        axis.add_patch(plt.Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, linewidth=0.8))
plt.show()

# %%
strongest = np.dstack(np.unravel_index(np.argsort(-np.abs(np.triu(separation, k=1)), axis=None), separation.shape))[0]
print("planted nodes", nodes.tolist(), "- strongest edges", strongest[:5].tolist())
print(f"rank correlation with untrained networks: {randomization_check(model, planted.graphs[test]):.2f}")
