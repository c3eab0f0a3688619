"""A job is one fit of one method on one fold; ``run_job`` computes its record."""

import pkgutil
import platform
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from isocapsnet._stages import enter_stage
from isocapsnet.evaluation.artifacts import write_artifacts
from isocapsnet.evaluation.engine.memory import peak_memory, reset_peak_memory
from isocapsnet.evaluation.estimation import Fitter, as_tuples, predict_probabilities
from isocapsnet.evaluation.inner_scores import InnerScores
from isocapsnet.evaluation.naming import digest_of, seed_from
from isocapsnet.evaluation.preparation import Preparation, Step
from isocapsnet.evaluation.protocol import Protocol, Split, count_subjects, free_unlabelled, null_order
from isocapsnet.evaluation.samples import DataSource, Samples
from isocapsnet.evaluation.shares import take_share


@dataclass(frozen=True)
class Job:
    """Everything that a result depends on.

    Device, number of processes and verbosity are not part of it. ``space`` is what the inner search may try (empty: no
    search). ``permutation`` is 0 for the data as given; ``audit`` is the number of a shuffled node order; ``share`` is
    the share of the training subjects that trains.
    """

    dataset: str
    method: str
    version: int
    parameters: Mapping[str, Any]
    protocol: Mapping[str, Any]
    space: Mapping[str, Any]
    preparation: tuple[Mapping[str, Any], ...]
    use_unlabeled: bool
    repeat: int
    fold: int
    permutation: int = 0
    audit: int | None = None
    share: float = 1.0

    @cached_property
    def key(self) -> str:
        """The sha256 of the job as canonical JSON."""
        return digest_of(self.to_json())

    @cached_property
    def search_key(self) -> str:
        """The key of the inner scores: of all but the candidates, the inner folds and the way to search.

        Scores of other versions of packages are not used, since a record names one version.
        """
        splits = {name: self.protocol[name] for name in ("name", "n_folds")}
        return digest_of({**self.to_json(), "protocol": splits, "space": None, "versions": versions()})

    def to_json(self) -> dict[str, Any]:
        """The fields; a share of 1 is not named, as in records of versions that had no other."""
        return {name: value for name, value in asdict(self).items() if (name, value) != ("share", 1.0)}

    @property
    def label(self) -> str:
        """The name of the method in tables: ``isocapsnet`` or ``isocapsnet[kernel_size=3]``."""
        return method_label(self.method, self.parameters)

    def seed(self, *purpose: str) -> int:
        """A seed for one purpose, equal for all parameter settings of a method, so that they differ in nothing else."""
        return seed_from(*purpose, self.dataset, self.method, self.repeat, self.fold, self.permutation, self.audit)


@dataclass(frozen=True)
class Task:
    """A job and what is needed to compute it. All of it is JSON, so it can be sent to any worker."""

    job: Job
    source: DataSource
    factory: str
    runtime: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    transforms: Mapping[str, Step] = field(default_factory=dict)
    artifacts: str | None = None
    save_model: str | None = None
    explain: str | None = None
    inner_scores: str | None = None
    #: Estimate the duration of the job in about so many seconds instead of running it.
    trial_seconds: float | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        return cls(
            **{
                **content,
                "job": Job(**content["job"]),
                "source": DataSource(**content["source"]),
                "steps": tuple(Step(**step) for step in content["steps"]),
                "transforms": {name: Step(**step) for name, step in content["transforms"].items()},
            }
        )

    def load(self) -> None:
        """Read the data and import the method; the process keeps both for its next task."""
        self.source.load()
        pkgutil.resolve_name(self.factory)


def method_label(name: str, parameters: Mapping[str, Any]) -> str:
    """``name`` or ``name[parameter=value,...]``."""
    settings = ",".join(f"{key}={as_tuples(value)}" for key, value in sorted(parameters.items()))
    return f"{name}[{settings}]" if settings else name


class Fold(NamedTuple):
    """The graphs of a job: their indices, after an exchange under the null, and the labels of those that train."""

    protocol: Protocol
    split: Split
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    labels: NDArray[Any]
    groups: NDArray[Any] | None


def find_fold(task: Task) -> Fold:
    """The graphs of a job."""
    job, samples = task.job, task.source.load()
    protocol, split = Protocol.from_json(job.protocol), _find_split(samples, job)
    order = null_order(samples, protocol, job.permutation) if job.permutation else np.arange(len(samples))
    groups = None if samples.groups is None else samples.groups[split.train]
    return Fold(protocol, split, order[split.train], order[split.test], samples.labels[split.train], groups)


def _find_split(samples: Samples, job: Job) -> Split:
    split = Protocol.from_json(job.protocol).splits(samples, job.repeat)[job.fold]
    return take_share(samples, split, job.share, job.repeat, job.fold)


def make_fitter(task: Task, fold: Fold) -> Fitter:
    """What searches and fits the method of a job."""
    job, samples = task.job, task.source.load()
    return Fitter(
        task.factory,
        {**job.parameters, **task.runtime},
        Preparation(task.steps, _node_order(job, samples), task.transforms),
        samples,
        free_unlabelled(samples, fold.protocol, fold.test) if job.use_unlabeled else np.arange(0),
        job.seed("fit"),
    )


class Outcome(NamedTuple):
    """A fitted estimator and its preparation, the prepared test graphs, their probabilities, and how long it took."""

    estimator: Any
    preparation: Preparation
    prepared: NDArray[Any]
    probabilities: NDArray[np.float64]
    seconds: dict[str, float]


def fit_and_predict(fitter: Fitter, settings: Mapping[str, Any], samples: Samples, fold: Fold) -> Outcome:
    """Fit with the settings that were chosen, then predict the test graphs."""
    enter_stage("fit")
    clock = [time.perf_counter()]
    preparation = fitter.preparation
    estimator = fitter.fit(settings, preparation.fit(samples, fold.train, fold.labels), fold.labels)
    clock.append(time.perf_counter())
    enter_stage("predict")
    prepared = preparation.apply(samples, fold.test)
    probabilities = predict_probabilities(estimator, prepared, samples.classes)
    clock.append(time.perf_counter())
    seconds = dict(zip(("fit", "predict"), np.diff(clock).tolist(), strict=True))
    return Outcome(estimator, preparation, prepared, probabilities, seconds)


def write_explanation(folder: Path, task: Task, fold: Fold, outcome: Outcome, caught: Sequence[Any] = ()) -> None:
    """Write what the report needs about a fit."""
    enter_stage("explain")
    held_out = outcome.prepared, task.source.load().labels[fold.split.test]
    explained = outcome.estimator, caught, task.save_model, task.explain, held_out, outcome.preparation
    write_artifacts(folder, *explained)


def run_job(task: Task) -> dict[str, Any]:
    """Fit on the training subjects, predict the test subjects, return the record.

    The record is JSON: the job and its key, the fold (:func:`describe_fold`), class probabilities, the settings chosen
    by tuning, what tuning could not try with the reasons, seconds, peak memory in bytes, versions. The estimator is
    given training data only; test labels are looked up after it has predicted.
    """
    job, samples, fold = task.job, task.source.load(), find_fold(task)
    fitter = make_fitter(task, fold)
    scores = InnerScores(None if task.inner_scores is None else Path(task.inner_scores))
    reset_peak_memory()
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", DeprecationWarning)  # of packages, for their developers
        settings = fitter.search(job.space, fold.protocol, fold.train, fold.labels, fold.groups, job.seed, scores)
        # So that a record says what its search took in all.
        tuning = time.perf_counter() - began + scores.reused_seconds
        outcome = fit_and_predict(fitter, settings, samples, fold)
    memory = peak_memory()
    task.source.load()  # refused when the data changed under the fit
    if task.artifacts is not None:
        write_explanation(Path(task.artifacts), task, fold, outcome, caught)
    return {
        "key": job.key,
        "job": job.to_json(),
        **describe_fold(samples, job),
        "probabilities": outcome.probabilities.tolist(),
        "settings": settings,
        **({"left_out": fitter.left_out} if fitter.left_out else {}),
        "seconds": {"tune": tuning, **outcome.seconds},
        "peak_memory": memory,
        "versions": versions(),
    }


def describe_fold(samples: Samples, job: Job) -> dict[str, Any]:
    """The part of a record that is fixed before the job runs.

    The name of the fold and, if folds are sites, its sites; the names of the classes, the number of training graphs,
    test indices and true labels (as indices into ``classes``).
    """
    split = _find_split(samples, job)
    sites = {
        "tested": list(split.sites),
        "too_small": list(split.too_small),
        "n_subjects": count_subjects(samples, split.test),
    }
    return {
        **({"sites": sites} if split.sites else {}),
        "split": split.name,
        "classes": samples.class_names,
        "n_train": len(split.train),
        "test": split.test.tolist(),
        "labels": np.searchsorted(samples.classes, samples.labels[split.test]).tolist(),
    }


def _node_order(job: Job, samples: Samples) -> NDArray[np.int64] | None:
    """The node order of an audit, equal for all methods; None if the job is no audit."""
    if job.audit is None:
        return None
    seed = seed_from("nodes", job.dataset, job.audit, job.repeat)
    return np.random.default_rng(seed).permutation(samples.X[0].shape[-1])


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """The versions of Python and of the packages that results depend on."""
    packages = {"python": platform.python_version(), "machine": platform.machine()}
    for package in ("isocapsnet", "numpy", "scipy", "scikit-learn", "torch"):
        with suppress(PackageNotFoundError):
            packages[package] = version(package)
    return packages
