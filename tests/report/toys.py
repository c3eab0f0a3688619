"""Results folders and report contents that are made, not computed: every number in them is known."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from isocapsnet.datasets.atlas import load_atlas
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.evaluation import Job, Store, tabulate
from isocapsnet.evaluation.output import write_results
from isocapsnet.explanation.fits import FitExplanation, Templates
from isocapsnet.explanation.storage import save_explanation
from isocapsnet.report.content import Content, ReportedMethod

CLASSES = ("control", "case")
#: Method to how far its scores of the two classes lie apart, in standard deviations.
STRENGTHS = {"isocapsnet": 1.1, "linear": 1.2, "constant": 0.0, "gcn": 0.3, "isonn": 0.8}
VERSIONS = {"python": "3.11.7", "isocapsnet": "0.1.0", "torch": "2.13.0"}
MANY_CANDIDATES = {"name": "nested", "n_folds": 3, "inner_folds": 3, "n_candidates": 8}


def make_data(*, n_graphs: int = 48, with_atlas: bool = True, name: str = "toy study") -> BrainGraphs:
    """Symmetric graphs of 90 nodes with modules, from two sites; cases are older than controls."""
    rng = np.random.default_rng(0)
    modules = np.arange(90) // 15
    graphs = 0.4 * (modules[:, None] == modules) + rng.normal(0, 0.15, (n_graphs, 90, 90))
    graphs = np.tanh(graphs + graphs.swapaxes(1, 2)).astype(np.float32)
    codes = np.arange(n_graphs) % 2
    covariates = pd.DataFrame(
        {
            "AGE_AT_SCAN": 20 + 10 * codes + np.arange(n_graphs) % 5,
            "sex": np.where(np.arange(n_graphs) % 3, "female", "male"),
            "shoe_size": np.full(n_graphs, 42),
        }
    )
    return BrainGraphs(
        graphs,
        codes,
        label_names=CLASSES,
        subjects=[f"sub-{number:02}" for number in range(1, n_graphs + 1)],
        sites=np.where(np.arange(n_graphs) % 4 < 2, "north", "south"),
        covariates=covariates,
        atlas=load_atlas("aal90") if with_atlas else None,
        name=name,
    )


def make_job(data: BrainGraphs, method: str, repeat: int, fold: int, **changes: Any) -> Job:
    return Job(
        **{
            "dataset": data.digest(),
            "method": method,
            "version": 1,
            "parameters": {},
            "protocol": MANY_CANDIDATES,
            "space": {"learning_rate": [0.001, 0.01]} if method == "isocapsnet" else {},
            "preparation": (),
            "use_unlabeled": False,
            "repeat": repeat,
            "fold": fold,
            **changes,
        }
    )


def make_record(data: BrainGraphs, job: Job, strength: float, seconds: float = 2.0) -> dict[str, Any]:
    """Predictions that separate the classes by ``strength``; each subject is tested once per repeat."""
    rng = np.random.default_rng([job.repeat, job.fold, *job.method.encode(), 0 if job.audit is None else 1])
    test = np.arange(job.fold, len(data), 3)
    labels = data.labels[test]
    noise = rng.normal(size=len(test)) if strength else np.zeros(len(test))
    positive = 1 / (1 + np.exp(-(strength * (2 * labels - 1) + noise)))
    return {
        "key": job.key,
        "job": job.to_json(),
        "split": f"fold {job.fold + 1}",
        "classes": list(CLASSES),
        "n_train": round(job.share * (len(data) - len(test))),
        "test": test.tolist(),
        "labels": labels.tolist(),
        "probabilities": np.stack([1 - positive, positive], axis=1).tolist(),
        "settings": {"learning_rate": 0.001} if job.space and job.fold else {},
        "seconds": {"tune": 0.0, "fit": seconds, "predict": 0.1},
        "peak_memory": 250_000_000,
        "versions": VERSIONS,
    }


def make_folder(
    folder: Path,
    *,
    data: BrainGraphs | None = None,
    methods: Mapping[str, float] | None = None,
    repeats: int = 2,
    with_audit: bool = True,
    with_failure: bool = True,
    with_results: bool = True,
) -> Path:
    """A results folder as ``isocapsnet benchmark`` leaves it, of methods with known strengths."""
    data = data or make_data()
    methods = methods or {name: STRENGTHS[name] for name in ("isocapsnet", "linear", "constant")}
    store = Store(folder)
    for method, strength in methods.items():
        for repeat, fold in np.ndindex(repeats, 3):
            job = make_job(data, method, repeat, fold)
            store.save(job, make_record(data, job, strength))
            write_toy_artifacts(store.artifacts(job), data, job)
            if with_audit and method == "linear":
                half = make_job(data, method, repeat, fold, share=0.5)
                store.save(half, make_record(data, half, strength / 2))
            if with_audit:
                audit = make_job(data, method, repeat, fold, audit=0)
                store.save(audit, make_record(data, audit, strength / 3))
    if with_failure:
        job = make_job(data, "gcn", 0, 0)
        store.save_error(job, {"reason": "MemoryError: not enough <memory> & time", "traceback": "..."})
    (folder / "data").mkdir(exist_ok=True)
    path = folder / "data" / f"{data.digest().removeprefix('sha256:')[:16]}.npz"
    data.save(path)
    if with_results:
        context = {
            "passport": data.passport,
            "command": "isocapsnet benchmark study.npz --audit node-order",
            "versions": VERSIONS,
            "protocol": {**MANY_CANDIDATES, "repeats": repeats, "permutations": 0},
            "preparation": [],
            "data": {"file": f"data/{path.name}", "digest": data.digest()},
            "detectable": {"n_scores": 3 * repeats, "above_chance": 0.66, "between_methods": 0.15},
        }
        write_results(folder, tabulate(store.records(), store.errors()), context)
    return folder


def network_alone(content: Content, *, with_reconstructions: bool = False) -> ReportedMethod:
    """The network of a toy content with its explanation and no fits: a page about it has few figures to draw."""
    network = next(method for method in content.methods if method.explanation is not None)
    graphs = network.explanation.reconstructions if with_reconstructions else None
    return replace(network, fits=(), explanation=replace(network.explanation, reconstructions=graphs))


def write_toy_artifacts(folder: Path, data: BrainGraphs, job: Job) -> None:
    """History, templates, explanation and a warning of an isomorphic network; nothing of the others."""
    if job.method != "isocapsnet":
        return
    folder.mkdir(parents=True)
    epochs = [
        {"epoch": epoch, "train_loss": 1 / epoch, "valid_loss": 0.3 + abs(epoch - 12) / 50, "dur": 0.1}
        for epoch in range(1, 31)
    ]
    (folder / "history.json").write_text(json.dumps(epochs))
    save_explanation(make_explanation(data, job), folder)
    np.savez(folder / "templates.npz", templates=np.random.default_rng(job.fold).normal(size=(2, 4, 4)))
    (folder / "warnings.json").write_text(json.dumps(["UserWarning: the smallest class has <few> graphs"]))


def make_explanation(data: BrainGraphs, job: Job) -> FitExplanation:
    """Two templates: the first matches nodes 20 to 23 of cases, in every fit; the second matches noise."""
    rng = np.random.default_rng([job.repeat, job.fold])
    test = np.arange(job.fold, len(data), 3)
    codes = data.labels[test]
    n_windows, matrices = 87, np.random.default_rng(5).normal(size=(2, 4, 4)).astype(np.float32)
    windows = rng.normal(0, 1e-4, (2, n_windows, n_windows)).astype(np.float32)
    windows[0, 20, 20] = 0.8
    evidence = rng.normal(0, 0.3, (len(test), 1, 2))
    evidence[:, 0, 0] += codes
    regions = rng.normal(0, 0.02, (len(test), 1, 2, 90))
    regions[:, 0, 0, 20:24] += rng.normal(1, 0.6, (len(test), 1)) * codes[:, None] * np.array([1.0, 0.9, 0.8, 0.7])
    scores = np.full((2, 2, n_windows, n_windows), 0.2, np.float32)
    scores[1, 0, 20, 20] = 0.9
    orientation = np.zeros((2, 2, n_windows, n_windows), np.int32)
    orientation[1, 0, 20, 20] = 23
    edges = np.zeros((90, 90), np.float32)
    edges[20, 21] = edges[21, 20] = 1.0
    edges[20, 23] = edges[23, 20] = -0.5
    assert data.adjacency is not None
    graphs = np.asarray(data.adjacency[test])
    return FitExplanation(
        classes=np.array(["0", "1"]),
        positions=np.arange(len(test)),
        codes=codes,
        edges=edges,
        randomization=0.04,
        examples=np.arange(6),
        example_graphs=graphs[:6],
        example_reconstructions=0.6 * graphs.mean(axis=0) + 0.4 * graphs[:6],
        representation=(rng.normal(size=(len(test), 32)) + codes[:, None]).astype(np.float32),
        templates=Templates(
            matrices=matrices,
            stride=1,
            template_evidence=evidence.astype(np.float32),
            region_evidence=regions.astype(np.float32),
            unattributed=np.zeros((len(test), 1), np.float32),
            window_separation=windows,
            window_effect=windows,
            window_influence=np.abs(windows),
            class_scores=scores,
            orientation=orientation,
            orientation_share=np.full((2, 2, n_windows, n_windows), 0.8, np.float32),
        ),
    )
