"""
What a motif looks like, and who has it
=======================================

Class 1 has a small sub-graph, at other regions in every subject. Iso-CapsNet finds it, and the explanation shows the
pattern, the subjects that carry it, and the regions where it is in each of them.
"""

import matplotlib.pyplot as plt
import numpy as np

from isocapsnet import IsoCapsNetClassifier, make_planted_graphs
from isocapsnet.explanation import explain

planted = make_planted_graphs(n_graphs=150, n_nodes=16, effect="motif", placement="free", random_state=0)

# %%
# ``windows="neighborhood"`` is the form of Iso-CapsNet that follows strong edges instead of the order of nodes.
# ``explain`` fits it again on folds and explains each fit on graphs that it did not see.
model = IsoCapsNetClassifier(windows="neighborhood", motif_size=4, n_motifs=8, random_state=0)
model.fit(planted.graphs, planted.labels)
explanation = explain(model, planted.graphs, planted.labels, folds=3, subjects=[str(i) for i in range(150)])
card = explanation.motif_cards[0]
print(card.sentence)

# %%
# The pattern that carriers share, beside the planted one. The order of its nodes is arbitrary, so we put the nodes of
# both into the order of their summed weights.


def ordered(pattern):
    order = np.argsort(pattern.sum(axis=0))
    return pattern[np.ix_(order, order)]


figure, axes = plt.subplots(1, 2, figsize=(6, 3), layout="constrained")
for axis, pattern, title in (
    (axes[0], np.asarray(card.matrix), "pattern on the card"),
    (axes[1], planted.truth[0].pattern, "planted"),
):
    axis.imshow(ordered(pattern), cmap="RdBu_r", vmin=-1, vmax=1)
    axis.set_title(title)
plt.show()

# %%
# For each carrier the card lists the regions of the motif. Most of them are the planted ones.
for carrier in card.carriers[:5]:
    truth = planted.occurrences[0][int(carrier.subject)]
    print(f"subject {carrier.subject}: found {sorted(carrier.nodes)}, planted {sorted(truth.tolist())}")
