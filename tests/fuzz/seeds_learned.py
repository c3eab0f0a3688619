"""Saved models and a finished results folder, as seeds: what needs estimators to be made."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from isocapsnet import MODELS, save_model
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.evaluation import Store, tabulate
from isocapsnet.evaluation.output import write_results
from isocapsnet.evaluation.records import seal
from isocapsnet.evaluation.store import batch_key
from isocapsnet.explanation.storage import write_explanation
from tests.fuzz.seeds import Seed, _Collector
from tests.report.toys import MANY_CANDIDATES, STRENGTHS, VERSIONS, make_job, make_record

N_NODES = 5
#: Small settings of methods of each family; one epoch says as much to a reader as a hundred.
_MODELS: dict[str, dict[str, Any]] = {
    "constant": {},
    "linear": {"random_state": 0},
    "wl": {},
    "freq": {},
    "cpm": {"random_state": 0},
    "svm": {"random_state": 0},
    "forest": {"n_trees": 3, "random_state": 0},
    "riemann": {"random_state": 0},
    "shortest-path": {"node_labels": "degree", "density": 0.3, "random_state": 0},
    "brainnetcnn": {"max_epochs": 1, "random_state": 0, "channels": (2,), "node_channels": 2, "hidden_sizes": (4, 4)},
    "bnt": {
        "max_epochs": 1,
        "random_state": 0,
        "n_layers": 1,
        "feedforward_size": 4,
        "n_clusters": 2,
        "cluster_size": 2,
        "hidden_sizes": (4, 4),
    },
    "cnn": {"max_epochs": 1, "random_state": 0},
    "fastisonn": {"max_epochs": 1, "random_state": 0, "kernel_size": 3},
    "isocapsnet": {"max_epochs": 1, "random_state": 0, "kernel_size": 3, "residual_sizes": (4,), "decoder_sizes": (4,)},
}


def _graphs(n_graphs: int = 12) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_graphs, N_NODES, N_NODES)).astype(np.float32)
    return X + X.swapaxes(1, 2), np.arange(n_graphs) % 2


def _fit(method: str, labels: tuple[Any, ...] = (0, 1)) -> Any:
    X, codes = _graphs()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MODELS[method](**_MODELS[method]).fit(X, np.array(labels)[codes])


def models() -> list[Seed]:
    made = _Collector()
    for method in _MODELS:
        for labels in ((0, 1), ("ill", "well")) if method in ("linear", "wl") else ((0, 1),):
            model = _fit(method, labels)
            made.add(
                lambda f, m=model: save_model(m, f / "x.isocaps"), "x.isocaps", ways=("load_model",), is_sealed=True
            )
    return made.seeds


def records() -> list[Seed]:
    made = _Collector()
    ways = ("Store",) * 3 + ("compare",) * 3 + ("read_results",) * 6 + ("two folders",)
    made.add(lambda f: _write_results(f, ("isocapsnet", "linear")), ways=ways, is_sealed=True)
    made.add(lambda f: _write_results(f, ("isocapsnet",), with_explanation=True), ways=ways, is_sealed=True)
    return made.seeds


def _write_results(folder: Path, methods: tuple[str, ...], with_explanation: bool = False) -> None:
    """Two folds of some methods, an audit, permutations alone and in a batch, a failure, artifacts and the data."""
    X, labels = _graphs(18)
    data = BrainGraphs(X, labels, label_names=("control", "case"), name="toy")
    store = Store(folder)
    for method in methods:
        for fold in range(2):
            job = make_job(data, method, 0, fold)
            store.save(job, make_record(data, job, STRENGTHS[method]))
            if method == "isocapsnet":
                _write_artifacts(store.artifacts(job), data, with_explanation)
    audit = make_job(data, methods[0], 0, 0, audit=0)
    store.save(audit, make_record(data, audit, 0.2))
    null = [make_job(data, methods[0], 0, 0, permutation=number) for number in range(1, 5)]
    store.save(null[0], make_record(data, null[0], 0.0))
    batch = {"key": batch_key(null[1]), "batch": [seal(make_record(data, job, 0.0)) for job in null[1:]]}
    path = folder / "records" / batch["key"][:2] / f"{batch['key']}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(batch))
    store.save_error(make_job(data, "gcn", 0, 0), {"reason": "MemoryError: too little memory", "traceback": "..."})
    (folder / "data").mkdir()
    copy = folder / "data" / f"{data.digest().removeprefix('sha256:')[:16]}.npz"
    data.save(copy)
    context = {
        "passport": data.passport,
        "command": "isocapsnet benchmark study.npz",
        "versions": VERSIONS,
        "protocol": {**MANY_CANDIDATES, "repeats": 1, "permutations": 4},
        "preparation": [],
        "data": {"file": f"data/{copy.name}", "digest": data.digest()},
        "detectable": {"n_scores": 2, "above_chance": 0.66, "between_methods": 0.15},
    }
    write_results(folder, tabulate(store.records(), store.errors()), context)
    (folder / "partial").rmdir()


def _write_artifacts(folder: Path, data: BrainGraphs, with_explanation: bool) -> None:
    folder.mkdir(parents=True)
    epochs = [{"epoch": epoch, "train_loss": 1 / epoch, "valid_loss": 0.3, "dur": 0.1} for epoch in (1, 2, 3)]
    (folder / "history.json").write_text(json.dumps(epochs))
    (folder / "warnings.json").write_text(json.dumps(["UserWarning: the smallest class has few graphs"]))
    np.savez(folder / "templates.npz", templates=np.random.default_rng(0).normal(size=(2, 2, 2)))
    if with_explanation:
        X, labels = _graphs(6)
        write_explanation(_fit("isocapsnet"), X, labels, folder)
