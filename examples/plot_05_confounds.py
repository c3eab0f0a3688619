"""
A control for confounds
=======================

Patients are older than controls, and age changes the graphs. A classifier of graphs is then above chance although the
disease changes nothing. ``confound-only`` is a linear model that sees covariates and never a graph. A method that is
not better than this control has not shown that it uses anything but the covariates.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import isocapsnet as ic

# %%
# Labels depend on age, edges depend on age, and there is no other relation between edges and labels.
rng = np.random.default_rng(0)
n_subjects, n_nodes = 120, 16
age = rng.uniform(20, 70, n_subjects)
patient = rng.random(n_subjects) < 1 / (1 + np.exp(-(age - 45) / 6))
slope = np.triu(rng.normal(size=(n_nodes, n_nodes)), k=1)
graphs = rng.normal(size=(n_subjects, n_nodes, n_nodes)) + (age - 45)[:, None, None] / 15 * slope
graphs = np.triu(graphs, k=1)
study = ic.BrainGraphs(
    graphs + graphs.swapaxes(1, 2),
    np.where(patient, "patient", "control"),
    covariates=pd.DataFrame({"age": age}),
    name="age",
)

# %%
# The benchmark adds the control because the data have a covariate ``age``. In the second run the linear effect of age
# is removed from each edge, fitted in each training fold.
options = {"methods": ["linear", "constant"], "repeats": 1, "jobs": 0, "progress": False}
plain = ic.benchmark(study, **options, out=tempfile.mkdtemp())
cleaned = ic.benchmark(study, **options, confounds="age", out=tempfile.mkdtemp())
print(plain.verdicts["linear"])
print(cleaned.verdicts["linear"])

# %%
rows = [
    ("linear", plain.table.set_index("method").loc["linear"]),
    ("confound-only", plain.table.set_index("method").loc["confound-only"]),
    ("linear, age removed", cleaned.table.set_index("method").loc["linear"]),
]
figure, axis = plt.subplots(figsize=(6, 2.4), layout="constrained")
for position, (_, row) in enumerate(rows):
    axis.plot([row.roc_auc_low, row.roc_auc_high], [position] * 2, color="tab:blue")
    axis.plot(row.roc_auc, position, "o", color="tab:blue")
axis.axvline(0.5, color="grey", linestyle="--")
axis.set_yticks(range(len(rows)), [name for name, _ in rows])
axis.set_xlabel("ROC AUC with 95 % interval")
plt.show()
