"""Fits for ``test_distributed.py``, which runs them in one process and, launched by torchrun, in two.

``torchrun --standalone --nproc-per-node 2 tests/models/distributed_fits.py FOLDER``
"""

import os
import pickle
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from accelerate import PartialState
from skorch.callbacks import Callback

from isocapsnet.models import MODELS, _batches, _distributed

N_GRAPHS, N_NODES = 30, 9


def make_data(n_graphs=N_GRAPHS):
    """Graphs ``(n_graphs, 9, 9)`` and labels, a third of them in class 1, which has a stronger triangle."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n_graphs, N_NODES, N_NODES)), (np.arange(n_graphs) % 3 == 0).astype(int)
    X[:, 1:4, 1:4] += 1.5 * y[:, None, None]
    return ((X + X.swapaxes(1, 2)) / 2).astype(np.float32), y


class Trace(Callback):
    """Keeps the seed that random numbers of the loop come from, and the length of every step's gradient."""

    def on_epoch_begin(self, net, **_):
        net.seed_in_loop = torch.initial_seed()

    def on_train_begin(self, net, **_):
        net.gradient_lengths = []

    def on_grad_computed(self, net, named_parameters, **_):
        gradients = [parameter.grad.norm() for _, parameter in named_parameters if parameter.grad is not None]
        net.gradient_lengths.append(torch.stack(gradients).norm().item())


def fit(method, *, n_graphs=N_GRAPHS, unlabeled=0, **parameters):
    """The method fitted to the first graphs, with the last ``unlabeled`` of them as unlabelled ones."""
    X, y = make_data(n_graphs)
    labelled = n_graphs - unlabeled
    settings = {"random_state": 0, "max_epochs": 6, "device": "cpu", "callbacks": [("trace", Trace())], **parameters}
    extra = {"X_unlabeled": X[labelled:]} if unlabeled else {}
    return MODELS[method](**settings).fit(X[:labelled], y[:labelled], **extra)


def fit_streamed(**parameters):
    with mock.patch.object(_batches, "RESIDENT_BYTES", 0):
        return fit("isocapsnet", **parameters)


def fit_without_synchronisation():
    with mock.patch.object(_distributed.DistributedNet, "_initialize_accelerator"):
        return fit("isocapsnet", **RAGGED)


SMALL = {"n_templates": 2, "kernel_size": 3, "decoder_sizes": (16,), "learning_rate": 0.003, "tolerance": 0}
# 22 graphs to train on, 14 of them labelled: batches of 7, 7, 7 and 1 are no even number of shares, the last is less
# than one per process, and the shares differ in their number of labels and weight of classes.
RAGGED = {"batch_size": 7, "unlabeled": 8, "validation_fraction": 0.33, "class_weight": "balanced", **SMALL}

FITS = {
    "capsules": lambda: fit("isocapsnet", **RAGGED),
    "early stopping": lambda: fit("isocapsnet", **{**RAGGED, "max_epochs": 30, "patience": 2, "learning_rate": 0.02}),
    "tolerance": lambda: fit("isocapsnet", **{**SMALL, "max_epochs": 60, "tolerance": 0.05}),
    "streamed": lambda: fit_streamed(**RAGGED),
    "pretraining": lambda: fit("autoencoder", unlabeled=8, batch_size=7, pretraining_epochs=3),
    "node order": lambda: fit("sdbn", unlabeled=8, batch_size=7, dropout=0.0),
    "batch norm": lambda: fit("gin", batch_size=8, n_graphs=24, dropout=0.0, n_layers=2, validation_fraction=0),
    "two inputs": lambda: fit("fastisonn", batch_size=7),
    "capsnet": lambda: fit("capsnet", batch_size=7, max_epochs=2),
    "isonn": lambda: fit("isonn", batch_size=7, max_epochs=2),
    "gcn": lambda: fit("gcn", batch_size=8, n_graphs=24, dropout=0.0, max_epochs=2, validation_fraction=0),
    "dgcnn": lambda: fit("dgcnn", batch_size=7, dropout=0.0, max_epochs=2),
}
# What cannot equal a fit in one process.
OTHERS = {
    "diffpool": lambda: fit("diffpool", batch_size=8, n_graphs=24, max_epochs=2),
    "dropout": lambda: fit("cnn", dropout=0.5, batch_size=7),
    "no seed": lambda: fit("isocapsnet", random_state=None, **RAGGED),
    "no synchronisation": fit_without_synchronisation,
}


def outcome(model):
    """What a fit has led to, as arrays."""
    X, _ = make_data()
    proba = model.predict_proba(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), proba)
    return {
        "losses": np.array([[row["train_loss"], row.get("valid_loss", 0)] for row in model.history_]),
        "names": list(model.module_.state_dict()),
        "weights": torch.cat([tensor.double().flatten() for tensor in model.module_.state_dict().values()]).numpy(),
        "gradients": model.net_.gradient_lengths,  # Adam would hide a wrong scale
        "proba": proba,
        "temperature": model.temperature_,
        "seed": model.net_.seed_in_loop,
    }


def main(folder):
    PartialState(cpu=True)  # the script asks for one fit over all processes
    for name, run in {**FITS, **OTHERS}.items():
        before = torch.get_rng_state()
        np.savez(folder / f"{name} {os.environ['RANK']}.npz", **outcome(run()))
        assert torch.equal(torch.get_rng_state(), before)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
