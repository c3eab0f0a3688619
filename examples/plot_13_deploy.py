"""
Fit, save, predict elsewhere
============================

A model file holds the preparation, the model and its card. It takes raw data.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import isocapsnet as ic

folder = Path(tempfile.mkdtemp())
planted = ic.make_planted_graphs(n_graphs=160, n_nodes=12, signal_to_noise=1.5, random_state=0)
names = np.array(["control", "patient"])[planted.labels]
study = ic.BrainGraphs(planted.graphs[:120], names[:120], name="study")
new = ic.BrainGraphs(planted.graphs[120:], name="new subjects")

# %%
# The benchmark measures what to expect. Then the same pipeline is fitted to all subjects.
options = {"transform": "scale", "repeats": 1, "jobs": 0, "progress": False}
ic.benchmark(study, ["linear", "constant"], **options, out=folder / "results")
ic.fit(like=folder / "results", method="linear", out=folder / "model.safetensors")

# %%
# The card is part of the file: data, preparation, expected performance with intervals, limits.
card = ic.model_card(folder / "model.safetensors", out=folder / "card.html")
print("expected ROC AUC and 95 % interval:", np.round(card["expected"]["metrics"]["roc_auc"], 2))

# %%
# On another computer, the file and the package are enough.
predictions = ic.predict(folder / "model.safetensors", new)
predictions.head()

# %%
# The new subjects are synthetic, so the truth is known.
figure, axis = plt.subplots(figsize=(5, 3), layout="constrained")
for name in ("control", "patient"):
    axis.hist(predictions["p_patient"][names[120:] == name], bins=np.linspace(0, 1, 11), alpha=0.6, label=name)
axis.set_xlabel("predicted probability of being a patient")
axis.set_ylabel("new subjects")
axis.legend()
plt.show()

# %%
# Data that the model cannot prepare are refused, with a sentence that says why.
try:
    ic.predict(folder / "model.safetensors", ic.BrainGraphs(planted.graphs[:1, :5, :5]))
except ic.InputError as error:
    print(error)
