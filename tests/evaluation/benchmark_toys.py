"""Small studies and estimators that workers import by path: some honest, some that misbehave on purpose."""

import errno
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.linear_model import LogisticRegression

from isocapsnet._validation import InputError
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.evaluation import DataSource, Job, MethodSpec, Samples
from isocapsnet.evaluation.jobs import describe_fold


def make_study(
    *,
    n_graphs: int = 30,
    n_nodes: int = 5,
    effect: float = 1.0,
    n_classes: int = 2,
    n_sites: int = 0,
    n_unlabelled: int = 0,
    graphs_per_subject: int = 1,
    folds: int = 0,
    seed: int = 0,
) -> BrainGraphs:
    """Symmetric noise with a class effect on one edge; the value at [0, 0] names the graph (100 + its index).

    The covariate ``person`` says who each graph is of.
    """
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(n_graphs, n_nodes, n_nodes))
    X = noise + noise.transpose(0, 2, 1)
    labels = np.arange(n_graphs) // graphs_per_subject % n_classes
    X[:, 0, 1] += effect * labels
    X[:, 1, 0] += effect * labels
    X[:, 0, 0] = 100 + np.arange(n_graphs)
    labels[n_graphs - n_unlabelled :] = -1
    return BrainGraphs(
        X,
        labels,
        label_names=[f"class {label}" for label in range(n_classes)],
        sites=np.array([f"site {i * n_sites // n_graphs}" for i in range(n_graphs)]) if n_sites else None,
        covariates=pd.DataFrame(
            {
                "age": np.arange(n_graphs, dtype=float),
                "person": [f"person {i // graphs_per_subject}" for i in range(n_graphs)],
            }
        ),
        folds=[np.arange(n_graphs)[i::folds] for i in range(folds)],
        name="toy",
    )


def make_samples(**options: Any) -> Samples:
    """The same as an evaluation reads it."""
    return Samples(make_study(**options), group="person")


def toy_source(**options: Any) -> DataSource:
    return DataSource("benchmark_toys:make_study", make_samples(**options).digest, options, group="person")


def toy_record(job: Job, value: float = 0.5, **options: Any) -> dict[str, Any]:
    """What a job on the toy study might have returned, with one answer for everybody."""
    fold = describe_fold(make_samples(**options), job)
    return {
        "key": job.key,
        "job": job.to_json(),
        **fold,
        "probabilities": [[value, 1 - value]] * len(fold["test"]),
        "settings": {},
        "seconds": {"tune": 0.0, "fit": 1.0, "predict": 0.5},
        "peak_memory": 1,
        "versions": {"numpy": "2.0"},
    }


def toy_method(name: str, cls: type, **options: Any) -> MethodSpec:
    return MethodSpec(name, f"{cls.__module__}:{cls.__qualname__}", **options)


class Logistic(ClassifierMixin, BaseEstimator):
    """An honest method with a history, templates and a random state."""

    def __init__(self, C: float = 1.0, sleep: float = 0.0, blind: bool = False, random_state: Any = None) -> None:
        self.C, self.sleep, self.blind, self.random_state = C, sleep, blind, random_state

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Logistic":
        time.sleep(self.sleep)
        self.model_ = LogisticRegression(C=self.C).fit(self._edges(X), y)
        self.classes_ = self.model_.classes_
        self.noise_ = np.random.default_rng(self.random_state).normal(0, 1e-3)
        self.history_ = [{"epoch": 1, "train_loss": np.float64(0.5), "batches": [{"loss": 1.0}]}]
        self.templates_ = np.eye(3)[None]
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        raw = self.model_.predict_proba(self._edges(X)) ** (1 + self.noise_)
        return raw / raw.sum(axis=1, keepdims=True)

    def _edges(self, X: np.ndarray) -> np.ndarray:
        """The upper triangle, which does not hold the graph's name."""
        rows, columns = np.triu_indices(X.shape[1], k=1)
        return X[:, rows, columns] * (not self.blind)


class Counted(Logistic):
    """Appends its settings to a file at each fit. The fit with the number ``stop_at`` fails, or kills its process."""

    def __init__(
        self, C: float = 1.0, log: str = "", stop_at: int = 0, killed: bool = False, random_state: Any = None
    ) -> None:
        super().__init__(C, random_state=random_state)
        self.log, self.stop_at, self.killed = log, stop_at, killed

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Counted":
        _note(self.log, C=self.C, n_graphs=len(X))
        if len(Path(self.log).read_text().splitlines()) == self.stop_at:
            if self.killed:
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("this fit fails")
        super().fit(X, y)
        return self


class Prior(ClassifierMixin, BaseEstimator):
    """Class frequencies for everybody."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Prior":
        self.classes_, counts = np.unique(y, return_counts=True)
        self.prior_ = counts / counts.sum()
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.tile(self.prior_, (len(X), 1))


class Raises(Prior):
    def fit(self, X: np.ndarray, y: np.ndarray) -> "Raises":
        raise RuntimeError("this method always fails")


class Hangs(Prior):
    def fit(self, X: np.ndarray, y: np.ndarray) -> "Hangs":
        time.sleep(600)
        return self


class HoldsTheInterpreter(Prior):
    """One call that lets no other thread of its process run for a long time; a file says that it has begun."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> "HoldsTheInterpreter":
        Path(os.environ["HOLDS_THE_INTERPRETER"]).touch()
        pow(7, 100_000_000)
        return self


class NotANumber(Prior):
    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.full((len(X), len(self.classes_)), np.nan)


class Hungry(Prior):
    def fit(self, X: np.ndarray, y: np.ndarray) -> "Hungry":
        hoard = []
        for _ in range(20):
            hoard.append(np.ones(20_000_000))
            time.sleep(0.05)
        return super().fit(X, y)


class Suicidal(Prior):
    def fit(self, X: np.ndarray, y: np.ndarray) -> "Suicidal":
        os.kill(os.getpid(), signal.SIGKILL)
        return self


class Interrupts(Prior):
    def fit(self, X: np.ndarray, y: np.ndarray) -> "Interrupts":
        raise KeyboardInterrupt("from inside the method")


class Exits(Prior):
    """Ends its process a moment after the pipes are closed, as a process does that has much to clean up."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Exits":
        os.closerange(3, 256)
        time.sleep(0.3)
        os._exit(7)


class UnspeakableError(Exception):
    """Cannot be shown in any way."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class RaisesUnspeakable(Prior):
    def fit(self, X: np.ndarray, y: np.ndarray) -> "RaisesUnspeakable":
        raise UnspeakableError


class RaisesAtLength(Prior):
    def fit(self, X: np.ndarray, y: np.ndarray) -> "RaisesAtLength":
        raise ValueError("long " * 20_000_000)


class RaisesHalfACharacter(Prior):
    def fit(self, X: np.ndarray, y: np.ndarray) -> "RaisesHalfACharacter":
        raise ValueError("\ud800")


class FillsTheDisk(Prior):
    """Fails as a write to a full disk does, with a cause that other code has wrapped."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> "FillsTheDisk":
        try:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/scratch/best-epoch")
        except OSError as error:
            raise ValueError("The weights cannot be kept") from error


class FlipsAByte(Prior):
    """Changes the data while it is fitted."""

    def __init__(self, path: str = "") -> None:
        self.path = path

    def fit(self, X: np.ndarray, y: np.ndarray) -> "FlipsAByte":
        flip_byte(Path(self.path))
        return super().fit(X, y)


class CountsThreads(Prior):
    """Its probabilities tell how many threads it found."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> "CountsThreads":
        from threadpoolctl import threadpool_info

        super().fit(X, y)
        self.threads_ = max((pool["num_threads"] for pool in threadpool_info()), default=1)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.tile([1 - 1 / self.threads_, 1 / self.threads_], (len(X), 1))


class Spy(Prior):
    """Appends all it is given to a file: which graphs (by their names) and which labels, in which call."""

    def __init__(self, log: str = "", strength: int = 0, calibrate: bool = True) -> None:
        self.log, self.strength, self.calibrate = log, strength, calibrate

    def fit(self, X: np.ndarray, y: np.ndarray, X_unlabeled: np.ndarray | None = None) -> "Spy":
        extra = None if X_unlabeled is None else X_unlabeled[:, 0, 0].tolist()
        given = {"graphs": X[:, 0, 0].tolist(), "labels": y.tolist(), "unlabelled": extra}
        _note(self.log, who="estimator", call="fit", calibrate=self.calibrate, **given)
        return super().fit(X, y)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        _note(self.log, who="estimator", call="predict", graphs=X[:, 0, 0].tolist())
        return super().predict_proba(X)


class SpyTransformer(TransformerMixin, BaseEstimator):
    """The same as a preparation step that takes sites and covariates."""

    def __init__(self, log: str = "") -> None:
        self.log = log

    def fit(self, X: np.ndarray, y: np.ndarray, sites: Any = None, covariates: Any = None) -> "SpyTransformer":
        _note(
            self.log,
            who="transformer",
            call="fit",
            graphs=X[:, 0, 0].tolist(),
            labels=y.tolist(),
            sites=sites.tolist(),
            ages=covariates["age"].tolist(),
        )
        return self

    def transform(self, X: np.ndarray, sites: Any = None) -> np.ndarray:
        _note(self.log, who="transformer", call="transform", graphs=X[:, 0, 0].tolist(), sites=sites.tolist())
        return X


def flip_byte(path: Path) -> None:
    """Change one bit in the middle of a file."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        [byte] = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


def _note(log: str, **entry: Any) -> None:
    with Path(log).open("a") as file:
        file.write(json.dumps(entry) + "\n")


def write_model(estimator: Any, path: Path, preparation: Any) -> None:
    """Stands in for what saves the model of a fold, which has a sentence of its own for what cannot be written."""
    try:
        path.write_bytes(type(estimator).__name__.encode())
    except OSError as error:
        raise InputError(f"The model cannot be written: {error.strerror}.") from error


def explain(estimator: Any, graphs: Any, labels: Any, folder: Path) -> None:
    """Stands in for what explains a network."""
    (folder / "explanation.txt").write_bytes(type(estimator).__name__.encode())
