"""
Are the probabilities calibrated?
=================================

Of the subjects for whom a model predicts 80 %, about 80 % should be patients. Networks are often overconfident. Methods
of this package calibrate their probabilities on training graphs that they hold out.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from isocapsnet import MODELS, make_planted_graphs

planted = make_planted_graphs(n_graphs=900, n_nodes=12, signal_to_noise=0.9, random_state=0)
train, test = slice(0, 150), slice(150, 900)

# %%
# The same network with and without calibration. The ranking of subjects hardly changes, the probabilities do.
figure, axis = plt.subplots(figsize=(4.5, 3.6), layout="constrained")
axis.plot([0, 1], [0, 1], color="grey", linestyle="--", label="perfect")
for calibrate in (False, True):
    model = MODELS["cnn"](calibrate=calibrate, random_state=0).fit(planted.graphs[train], planted.labels[train])
    probabilities = model.predict_proba(planted.graphs[test])[:, 1]
    observed, predicted = calibration_curve(planted.labels[test], probabilities, n_bins=8, strategy="quantile")
    name = "calibrated" if calibrate else "not calibrated"
    axis.plot(predicted, observed, "o-", label=name)
    is_right = (probabilities > 0.5) == planted.labels[test]
    score = brier_score_loss(planted.labels[test], probabilities)
    print(
        f"{name}: Brier score {score:.3f}, mean confidence {np.maximum(probabilities, 1 - probabilities).mean():.2f}, "
    )
    print(f"    accuracy {is_right.mean():.2f}")
axis.set_xlabel("predicted probability")
axis.set_ylabel("share of class 1")
axis.legend()
plt.show()
