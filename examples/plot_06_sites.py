"""
Sites: leave one out, and harmonise in the fold
===============================================

Scanners differ. With ``protocol="leave-site-out"`` each site is the test set once, so a score says how well a method
works at a site that it has not seen. ``harmonize=True`` removes differences between sites with ComBat, fitted to the
training subjects of each fold.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np

import isocapsnet as ic

# %%
# Three sites. Each adds an offset to every edge and scales the noise.
planted = ic.make_planted_graphs(
    n_graphs=150, n_nodes=16, signal_to_noise=1.2, n_sites=3, site_effect=0.7, random_state=0
)
study = ic.BrainGraphs(
    planted.graphs,
    np.array(["control", "patient"])[planted.labels],
    sites=np.array(["north", "east", "west"])[planted.sites],
    name="three sites",
)

# %%
# The table of sites has a score and an interval for every site.
options = {"methods": ["linear", "constant"], "jobs": 0, "progress": False}
left_out = ic.benchmark(study, **options, protocol="leave-site-out", out=tempfile.mkdtemp())
left_out.sites[left_out.sites["method"] == "linear"]

# %%
# If all sites are in training and test, harmonisation can help.
mixed = ic.benchmark(study, **options, repeats=1, out=tempfile.mkdtemp())
harmonized = ic.benchmark(study, **options, repeats=1, harmonize=True, out=tempfile.mkdtemp())

names = ["an unseen site", "mixed sites", "mixed sites, harmonised"]
figure, axis = plt.subplots(figsize=(6, 2.4), layout="constrained")
for position, results in enumerate((left_out, mixed, harmonized)):
    row = results.table.set_index("method").loc["linear"]
    axis.plot([row.roc_auc_low, row.roc_auc_high], [position] * 2, color="tab:blue")
    axis.plot(row.roc_auc, position, "o", color="tab:blue")
axis.axvline(0.5, color="grey", linestyle="--")
axis.set_yticks(range(3), names)
axis.set_xlabel("ROC AUC of the linear model with 95 % interval")
plt.show()
