"""Settings of a method compared inside training folds, so that no default is chosen on test data.

The outer folds of seed 0 give three training sets; each is cross-validated by itself, and the outer test folds are
never touched. One line per setting: mean ROC AUC over the nine inner folds and its standard deviation.

    python benchmarks/choices.py ../shared/data/abide_aal116_nyu.npz
    python benchmarks/choices.py ../shared/data/abide_aal116_nyu.npz --only default,k=3 --tangent
"""

import argparse
import time
import warnings

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline

from isocapsnet import IsoCapsNetClassifier, LinearClassifier

SETTINGS = {
    "default": {},
    "n_templates=1": {"n_templates": 1},
    "n_templates=8": {"n_templates": 8},
    "no routing (one iteration)": {"routing_iterations": 1},
    "no capsules (residual alone)": {"routing_iterations": 0},
    "no residual": {"residual": False},
    "no reconstruction": {"reconstruction_weight": 0.0},
    "frozen templates": {"callbacks": "freeze"},
    "shared weights": {"weight_sharing": "template"},
    "k=2": {"kernel_size": 2},
    "k=3": {"kernel_size": 3},
    "k=5": {"kernel_size": 5},
    "spectral matching": {"matching": "spectral"},
    "gamma=0": {"gamma": 0.0},
    "gamma=-1": {"gamma": -1.0},
    "template_scale=0.5": {"template_scale": 0.5},
    "template_scale=2": {"template_scale": 2.0},
    "learning_rate=1e-4": {"learning_rate": 1e-4},
    "learning_rate=1e-3": {"learning_rate": 1e-3},
    "learning_rate=1e-2": {"learning_rate": 1e-2},
    "max_epochs=20": {"max_epochs": 20},
    "max_epochs=40": {"max_epochs": 40},
    "early stopping on 15 %": {"validation_fraction": 0.15},
}


def build(parameters: dict, device: str, seed: int) -> IsoCapsNetClassifier:
    """A classifier with these settings; "freeze" keeps the templates as they were drawn."""
    parameters = dict(parameters)
    if parameters.get("callbacks") == "freeze":
        from skorch.callbacks import Freezer

        parameters["callbacks"] = [Freezer("isomorphic.templates")]
    return IsoCapsNetClassifier(device=device, random_state=seed, **parameters)


def inner_folds(graphs: np.ndarray, labels: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Nine (train, validation) pairs, all inside the three training sets of seed 0."""
    pairs = []
    for outer, (train, _) in enumerate(StratifiedKFold(3, shuffle=True, random_state=0).split(graphs, labels)):
        inner = StratifiedKFold(3, shuffle=True, random_state=100 + outer)
        pairs += [(train[a], train[b]) for a, b in inner.split(graphs[train], labels[train])]
    return pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--only", help="settings by name, separated by commas")
    parser.add_argument("--tangent", action="store_true", help="tangent space, its reference fitted in each fold")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--share", default="0/1", help="i/n: every n-th setting from the i-th, to spread the work")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with np.load(arguments.data) as data:
        graphs, labels = data["adjacency"], data["labels"]
    pairs = inner_folds(graphs, labels)
    first, step = (int(part) for part in arguments.share.split("/"))
    names = ["linear", *SETTINGS] if arguments.only is None else arguments.only.split(",")
    for name in names[first::step]:
        start, scores = time.perf_counter(), []
        for seed, (train, test) in enumerate(pairs):
            model = (
                LinearClassifier(random_state=seed)
                if name == "linear"
                else build(SETTINGS[name], arguments.device, seed)
            )
            if arguments.tangent:
                from isocapsnet.datasets.connectivity import TangentSpace

                model = make_pipeline(TangentSpace(), model)
            model.fit(graphs[train], labels[train])
            scores.append(roc_auc_score(labels[test], model.predict_proba(graphs[test])[:, 1]))
        seconds = (time.perf_counter() - start) / len(pairs)
        print(f"| {name} | {np.mean(scores):.3f} | {np.std(scores, ddof=1):.3f} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
