"""
How many subjects are needed
============================

A benchmark says before it runs which effects it can show. Here we ask the same question for studies of different sizes:
what is the smallest ROC AUC that is distinguished from chance with a power of 80 %?
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np

import isocapsnet as ic

# %%
# ``dry_run=True`` plans a benchmark and times each method in a short trial, but runs no job; with
# ``jobs=0`` no worker process is started for the trials. ``context["detectable"]`` has the smallest effects that the
# plan can show. Tests are adjusted for the number of methods, here two.
sizes = [20, 40, 60, 100, 160, 250]
above_chance, between = [], []
for size in sizes:
    planted = ic.make_planted_graphs(n_graphs=size, n_nodes=8, random_state=0)
    results = ic.benchmark(
        (planted.graphs, planted.labels),
        ["linear", "svm"],
        dry_run=True,
        jobs=0,
        progress=False,
        out=tempfile.mkdtemp(),
    )
    above_chance.append(results.context["detectable"]["above_chance"])
    between.append(results.context["detectable"]["between_methods"])

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
axes[0].plot(sizes, np.minimum(above_chance, 1), "o-")
axes[0].set_ylabel("smallest detectable ROC AUC")
axes[1].plot(sizes, between, "o-")
axes[1].set_ylabel("smallest detectable difference")
for axis in axes:
    axis.set_xlabel("subjects")
    axis.set_ylim(bottom=0.5 if axis is axes[0] else 0)
plt.show()

# %%
# Differences between two methods need many more subjects than a difference from chance. A study of 40 subjects that
# finds no difference between methods has not shown that they are equal.
for size, area, difference in zip(sizes, above_chance, between, strict=True):
    print(f"{size} subjects: ROC AUC {area:.2f}, difference {difference:.2f}")
