"""
Graphs with a known difference
==============================

``make_planted_graphs`` makes graphs of two classes that differ in one known way. We look at two kinds of difference: a
pattern at the same regions in every subject, and a motif that is at different regions in every subject.
"""

import matplotlib.pyplot as plt
import numpy as np

from isocapsnet import make_planted_graphs

# %%
# In the first dataset, class 1 has a pattern of four nodes at fixed regions. In the second, each graph of class 1 has
# the pattern at nodes drawn at random.
fixed = make_planted_graphs(effect="existence", random_state=0)
moving = make_planted_graphs(effect="motif", placement="free", random_state=0)
print(fixed.graphs.shape, np.bincount(fixed.labels))

# %%
# The difference of the class means shows a pattern at fixed regions, and hides one that moves. A method that has one
# weight per edge cannot see the second kind.
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
axes[0].imshow(fixed.graphs[fixed.labels == 1][0], cmap="RdBu_r", vmin=-1.5, vmax=1.5)
axes[0].set_title("one graph of class 1")
for axis, data, title in zip(axes[1:], (fixed, moving), ("fixed pattern", "moving motif"), strict=True):
    difference = data.graphs[data.labels == 1].mean(axis=0) - data.graphs[data.labels == 0].mean(axis=0)
    image = axis.imshow(difference, cmap="RdBu_r", vmin=-1, vmax=1)
    axis.set_title(f"class 1 - class 0: {title}")
figure.colorbar(image, ax=axes, label="edge weight")
plt.show()

# %%
# ``truth`` has the pattern and ``occurrences`` its nodes in each graph (-1 if the graph does not have it).
print(moving.truth[0].pattern.round(2))
print(moving.occurrences[0][:5])
