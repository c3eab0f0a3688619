"""
How selection outside the folds makes results from noise
========================================================

If edges are selected on all subjects before cross-validation, the test labels have been used. On pure noise this gives
an excellent score. The same selection inside each training fold gives chance.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline

# %%
# Sixty subjects, 40 regions, and labels that have nothing to do with the graphs; fifteen such studies.
rows, columns = np.triu_indices(40, k=1)
wrong, right = [], []
for seed in range(15):
    rng = np.random.default_rng(seed)
    edges, labels = rng.normal(size=(60, 40, 40))[:, rows, columns], rng.permutation(np.repeat([0, 1], 30))
    folds = StratifiedKFold(3, shuffle=True, random_state=seed)
    selected = SelectKBest(k=20).fit_transform(edges, labels)  # uses the labels of test subjects
    wrong.append(cross_val_score(LogisticRegression(), selected, labels, cv=folds, scoring="roc_auc").mean())
    pipeline = make_pipeline(SelectKBest(k=20), LogisticRegression())
    right.append(cross_val_score(pipeline, edges, labels, cv=folds, scoring="roc_auc").mean())

# %%
figure, axis = plt.subplots(figsize=(5, 3.2), layout="constrained")
for position, values in enumerate((wrong, right)):
    axis.scatter(position + np.linspace(-0.1, 0.1, len(values)), values)
axis.axhline(0.5, color="grey", linestyle="--", label="chance")
axis.set_xticks([0, 1], ["selected on all subjects", "selected in each fold"])
axis.set_xlim(-0.5, 1.5)
axis.set_ylabel("mean ROC AUC")
axis.legend()
plt.show()

# %%
# :func:`isocapsnet.benchmark` fits every step (selection, scaling, tangent space, harmonisation, tuning) to the
# training subjects of the fold alone. Methods never receive test labels.
print(f"selected on all subjects: {np.mean(wrong):.2f}; selected in each fold: {np.mean(right):.2f}")
