"""
From time series to graphs
==========================

Graphs are made from ROI time series inside each fold. The tangent space needs a reference, which is the mean of the
training subjects, so it must not be computed from all subjects.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np

import isocapsnet as ic
from isocapsnet.datasets.connectivity import TimeSeriesConnectivity

# %%
# Two groups of subjects whose regions are mixed a little differently; 60 subjects, 10 regions, 80 time points.
rng = np.random.default_rng(0)
mixing = np.eye(10) + 0.3 * rng.normal(size=(10, 10))
change = np.zeros((10, 10))
change[2, 5] = change[5, 2] = 0.35
labels = rng.permutation(np.repeat(["control", "patient"], 30))
series = [rng.normal(size=(80, 10)) @ (mixing + (label == "patient") * change) for label in labels]
study = ic.BrainGraphs(time_series=series, labels=labels, name="time series")
study

# %%
# One subject in three kinds of connectivity.
kinds = ["correlation", "partial correlation", "tangent"]
figure, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
for axis, kind in zip(axes, kinds, strict=True):
    graphs = TimeSeriesConnectivity(kind=kind).fit_transform(study.X)
    axis.imshow(graphs[0], cmap="RdBu_r", vmin=-1, vmax=1)
    axis.set_title(kind)
plt.show()

# %%
# The benchmark makes the graphs in each fold, with a reference from its training subjects.
options = {"methods": ["linear", "constant"], "repeats": 1, "jobs": 0, "progress": False}
for kind in kinds:
    results = ic.benchmark(study, connectivity=kind, **options, out=tempfile.mkdtemp())
    row = results.table.set_index("method").loc["linear"]
    print(f"{kind}: ROC AUC {row.roc_auc:.2f} [{row.roc_auc_low:.2f}, {row.roc_auc_high:.2f}], {row.verdict}")
