"""Settings of the methods compared inside training folds, so that no default is chosen on test data.

The outer folds of seed 0 give three training sets; each is cross-validated by itself, and the outer test folds are
never touched. One line per setting: mean ROC AUC over the nine inner folds, its standard deviation, seconds per fit.

    python benchmarks/choices.py abide-nyu
    python benchmarks/choices.py abide-nyu --method gcn
    python benchmarks/choices.py abide-nyu --only default,k=3 --tangent
"""

import argparse
import time
import warnings
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline

from isocapsnet import load_graphs
from isocapsnet.datasets.connectivity import TangentSpace
from isocapsnet.models import MODELS


class FrozenTemplates(MODELS["isocapsnet"]):
    """Iso-CapsNet whose templates stay as they were drawn."""

    def _prepare(self, module: torch.nn.Module, graphs: Any) -> None:
        module.get_parameter("isomorphic.templates").requires_grad_(False)


EARLY_STOPPING = {"validation_fraction": 0.15, "patience": 20, "max_epochs": 100}

GRAPH_NETWORK = {
    "learning_rate=3e-4": {"learning_rate": 3e-4},
    "learning_rate=3e-3": {"learning_rate": 3e-3},
    "density=0.02": {"density": 0.02},
    "density=0.1": {"density": 0.1},
    "density=0.2": {"density": 0.2},
    "edges with weights": {"edge_weights": "weighted"},
    "negative edges as positive": {"negative_edges": "absolute"},
    "degree as feature": {"node_features": "degree"},
    "identity as feature": {"node_features": "identity"},
    "no dropout": {"dropout": 0.0},
    "max_epochs=60": {"max_epochs": 60},
    "early stopping on 15 %": EARLY_STOPPING,
}
IMAGE_NETWORK = {
    "learning_rate=1e-4": {"learning_rate": 1e-4},
    "learning_rate=1e-3": {"learning_rate": 1e-3},
    "dropout=0.5": {"dropout": 0.5},
    "max_epochs=60": {"max_epochs": 60},
    "early stopping on 15 %": EARLY_STOPPING,
}
ISOMORPHIC_NETWORK = {
    "n_templates=1": {"n_templates": 1},
    "n_templates=4": {"n_templates": 4},
    "k=2": {"kernel_size": 2},
    "k=4": {"kernel_size": 4},
    "learning_rate=3e-4": {"learning_rate": 3e-4},
    "max_epochs=60": {"max_epochs": 60},
    "early stopping on 15 %": EARLY_STOPPING,
}
# Every third window, so that nine fits take minutes.
LARGE: dict[str, Any] = {"kernel_size": 12, "matching": "spectral", "stride": 3}
# Per method, what differs from its defaults.
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "isocapsnet": {
        "n_templates=1": {"n_templates": 1},
        "n_templates=8": {"n_templates": 8},
        "no routing (one iteration)": {"routing_iterations": 1},
        "no capsules (residual alone)": {"routing_iterations": 0},
        "no residual": {"residual": False},
        "no reconstruction": {"reconstruction_weight": 0.0},
        "frozen templates": {"model": FrozenTemplates},
        "shared weights": {"weight_sharing": "template"},
        "k=2": {"kernel_size": 2},
        "k=3": {"kernel_size": 3},
        "k=5": {"kernel_size": 5},
        "spectral matching": {"matching": "spectral"},
        "poses of Eq. 3 (orthogonal)": {"matching": "spectral", "projection": "orthogonal"},
        "routing over windows": {"routing_over": "windows"},
        "one residual MLP per class": {"residual_per_class": True},
        "k=12 and stride 3": LARGE,
        "k=12 and stride 3 with a learned map": LARGE | {"primary_size": 16},
        "k=12 and stride 3 without a map": LARGE | {"primary_size": None},
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
    },
    "cnn": IMAGE_NETWORK,
    "sdbn": IMAGE_NETWORK
    | {
        "no reconstruction": {"reconstruction_weight": 0.0},
        "reconstruction_weight=1": {"reconstruction_weight": 1.0},
    },
    "gcn": GRAPH_NETWORK | {"one layer": {"n_layers": 1}},
    "gin": GRAPH_NETWORK | {"one layer": {"n_layers": 1}},
    "diffpool": GRAPH_NETWORK
    | {
        "two layers": {"n_layers": 2},
        "pool_ratio=0.1": {"pool_ratio": 0.1},
        "without link and entropy losses": {"link_weight": 0.0, "entropy_weight": 0.0},
    },
    "dgcnn": GRAPH_NETWORK | {"kept_nodes=0.3": {"kept_nodes": 0.3}, "kept_nodes=1": {"kept_nodes": 1.0}},
    "autoencoder": {
        "no corruption": {"corruption": 0.0},
        "corruption=0.5": {"corruption": 0.5},
        "no pretraining": {"pretraining_epochs": 0},
        "learning_rate=3e-4": {"learning_rate": 3e-4},
        "max_epochs=60": {"max_epochs": 60},
        "early stopping on 15 %": EARLY_STOPPING,
    },
    "isonn": ISOMORPHIC_NETWORK,
    "fastisonn": ISOMORPHIC_NETWORK
    | {"projection=permutation": {"projection": "permutation"}, "projection=orthogonal": {"projection": "orthogonal"}},
    "capsnet": {
        "n_primary=2": {"n_primary": 2},
        "n_primary=8": {"n_primary": 8},
        "no routing (one iteration)": {"routing_iterations": 1},
        "no reconstruction": {"reconstruction_weight": 0.0},
        "learning_rate=3e-4": {"learning_rate": 3e-4},
        "learning_rate=3e-3": {"learning_rate": 3e-3},
        "max_epochs=60": {"max_epochs": 60},
        "early stopping on 15 %": EARLY_STOPPING,
    },
    "wl": {
        "n_iterations=2": {"n_iterations": 2},
        "n_iterations=3": {"n_iterations": 3},
        "degree as label": {"node_labels": "degree"},
        "negative edges as positive": {"negative_edges": "absolute"},
        "weighted vote": {"head": "vote"},
        "C=0.1": {"C": 0.1},
        "C=10": {"C": 10.0},
    },
    "freq": {
        "max_edges=1": {"max_edges": 1},
        "max_edges=3": {"max_edges": 3},
        "n_patterns=300": {"n_patterns": 300},
        "n_patterns=3000": {"n_patterns": 3000},
        "negative edges as positive": {"negative_edges": "absolute"},
    },
    "brainnetcnn": {
        "one edge-to-edge layer": {"channels": (32,)},
        "learning_rate=1e-4": {"learning_rate": 1e-4},
        "learning_rate=3e-4": {"learning_rate": 3e-4},
        "no dropout": {"dropout": 0.0},
        "max_epochs=60": {"max_epochs": 60},
        "early stopping on 15 %": EARLY_STOPPING,
    },
    "bnt": {
        "n_clusters=10": {"n_clusters": 10},
        "one layer": {"n_layers": 1},
        "learning_rate=3e-4": {"learning_rate": 3e-4},
        "learning_rate=1e-3": {"learning_rate": 1e-3},
        "max_epochs=200": {"max_epochs": 200},
        "early stopping on 15 %": EARLY_STOPPING,
    },
    "linear": {"C=0.01": {"C": 0.01}, "C=1": {"C": 1.0}},
    "cpm": {
        "threshold=0.001": {"threshold": 0.001},
        "threshold=0.05": {"threshold": 0.05},
        "positive network": {"networks": "positive"},
        "negative network": {"networks": "negative"},
    },
    "svm": {"C=0.1": {"C": 0.1}, "C=10": {"C": 10.0}, "rbf": {"kernel": "rbf"}},
    "forest": {"min_leaf=3": {"min_leaf": 3}, "max_features=0.1": {"max_features": 0.1}},
    "riemann": {
        "shrinkage=0.05": {"shrinkage": 0.05},
        "shrinkage=0.3": {"shrinkage": 0.3},
        "log-Euclidean": {"metric": "logeuclid"},
        "minimum distance to mean": {"approach": "mdm"},
    },
    "shortest-path": {
        "C=0.1": {"C": 0.1},
        "negative edges as positive": {"negative_edges": "absolute"},
        "degree as label": {"node_labels": "degree"},
    },
}


def build(method: str, parameters: dict[str, Any], device: str, seed: int) -> Any:
    """A classifier with these settings."""
    settings = {"model": MODELS[method], "random_state": seed} | parameters
    model = settings.pop("model")(**settings)
    if "calibrate" in model.get_params():
        model.set_params(calibrate=False)  # settings are compared by ROC AUC
    return model.set_params(device=device) if "device" in model.get_params() else model


def inner_folds(graphs: np.ndarray, labels: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Nine (train, validation) pairs, all inside the three training sets of seed 0."""
    pairs = []
    for outer, (train, _) in enumerate(StratifiedKFold(3, shuffle=True, random_state=0).split(graphs, labels)):
        inner = StratifiedKFold(3, shuffle=True, random_state=100 + outer)
        pairs += [(train[a], train[b]) for a, b in inner.split(graphs[train], labels[train])]
    return pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="path or name of a dataset")
    parser.add_argument("--method", default="isocapsnet", choices=SETTINGS)
    parser.add_argument("--only", help="settings by name, separated by commas")
    parser.add_argument("--tangent", action="store_true", help="tangent space, its reference fitted in each fold")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--first-seed", type=int, default=0, help="of the models; another one shows what seeds do")
    parser.add_argument("--share", default="0/1", help="i/n: every n-th setting from the i-th, to spread the work")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    data = load_graphs(arguments.data)
    graphs, labels = data.X, data.labels
    pairs = inner_folds(graphs, labels)
    settings = {"default": {}} | SETTINGS[arguments.method]
    first, step = (int(part) for part in arguments.share.split("/"))
    names = list(settings) if arguments.only is None else arguments.only.split(",")
    for name in names[first::step]:
        start, scores = time.perf_counter(), []
        for seed, (train, test) in enumerate(pairs, arguments.first_seed):
            model = build(arguments.method, settings[name], arguments.device, seed)
            if arguments.tangent:
                model = make_pipeline(TangentSpace(), model)
            model.fit(graphs[train], labels[train])
            scores.append(roc_auc_score(labels[test], model.predict_proba(graphs[test])[:, 1]))
        seconds = (time.perf_counter() - start) / len(pairs)
        print(
            f"| {arguments.method} | {name} | {np.mean(scores):.3f} | {np.std(scores, ddof=1):.3f} | {seconds:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
