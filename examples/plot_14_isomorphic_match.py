"""
The isomorphic match: a pattern in any order
============================================

The first layer of Iso-CapsNet compares a template with each window of a graph, in the order of nodes that fits best.
The distance does not change if the nodes of the window are permuted. The permutation says in which order
the pattern is.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from isocapsnet.functional import isomorphic_match, permutation_at

# %%
# A graph of noise with a pattern of three nodes at two places, in two orders.
rng = np.random.default_rng(0)
pattern = np.array([[0.0, 1.0, -0.5], [1.0, 0.0, 0.8], [-0.5, 0.8, 0.0]])
order = np.array([2, 0, 1])
noise = np.triu(0.15 * rng.normal(size=(12, 12)), k=1)
graph = noise + noise.T
graph[1:4, 1:4] += pattern
graph[7:10, 7:10] += pattern[np.ix_(order, order)]

# %%
# ``distance`` has a value for each pair of a row range and a column range. Those on the diagonal are sub-graphs.
match = isomorphic_match(torch.tensor(graph[None]), torch.tensor(pattern[None]))
distance = match.distance[0, 0]
figure, axes = plt.subplots(1, 2, figsize=(7, 3.2), layout="constrained")
axes[0].imshow(graph, cmap="RdBu_r", vmin=-1, vmax=1)
axes[0].set_title("graph")
figure.colorbar(axes[1].imshow(distance, cmap="viridis"), label="distance")
axes[1].set_title("isomorphic distance of each window")
plt.show()

# %%
# Both occurrences have a distance near zero, and different permutations.
for start in (1, 7):
    nodes = permutation_at(match.permutation[0, 0, start, start], 3).tolist()
    print(f"window at node {start}: distance {distance[start, start]:.2f}, permutation {nodes}")
print(f"median distance of all windows: {distance.median():.2f}")
