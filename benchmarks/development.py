"""ROC AUC of methods with their defaults over five stratified 3-fold splits (seeds 0-4), every seed shown.

    python benchmarks/development.py abide-nyu --methods isocapsnet,linear

On the development set the defaults were chosen inside training folds of the same subjects, so these are development
figures, not evidence. Columns: method, the five seeds, their mean, CPU seconds per fit.
"""

import argparse
import time
import warnings

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from isocapsnet import load_graphs
from isocapsnet.models import MODELS


def evaluate(name: str, seed: int, graphs: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Mean ROC AUC over the three folds of one seed, and CPU seconds per fold."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    start, scores = time.process_time(), []
    for train, test in StratifiedKFold(3, shuffle=True, random_state=seed).split(graphs, labels):
        model = MODELS[name]()
        if "random_state" in model.get_params():
            model.set_params(random_state=seed)
        model.fit(graphs[train], labels[train])
        scores.append(roc_auc_score(labels[test], model.predict_proba(graphs[test])[:, 1]))
    return float(np.mean(scores)), (time.process_time() - start) / 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="path or name of a dataset")
    parser.add_argument("--methods", default=",".join(MODELS))
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    data = load_graphs(arguments.data)
    graphs, labels = data.X, data.labels
    for name in arguments.methods.split(","):
        runs = Parallel(arguments.jobs)(delayed(evaluate)(name, seed, graphs, labels) for seed in range(5))
        scores, seconds = zip(*runs, strict=True)
        each = " ".join(f"{score:.3f}" for score in scores)
        print(f"| {name} | {each} | {np.mean(scores):.3f} | {np.mean(seconds):.1f} |", flush=True)


if __name__ == "__main__":
    main()
