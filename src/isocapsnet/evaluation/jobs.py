"""A job is one fit of one method on one fold; ``run_job`` computes its record."""

import pkgutil
import platform
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from isocapsnet.evaluation.artifacts import write_artifacts
from isocapsnet.evaluation.engine.memory import peak_memory, reset_peak_memory
from isocapsnet.evaluation.estimation import Fitter, as_tuples, predict_probabilities
from isocapsnet.evaluation.naming import digest_of, seed_from
from isocapsnet.evaluation.preparation import Preparation, Step
from isocapsnet.evaluation.protocol import Protocol, count_subjects, free_unlabelled, null_order
from isocapsnet.evaluation.samples import DataSource, Samples


@dataclass(frozen=True)
class Job:
    """Everything that a result depends on.

    Device, number of processes and verbosity are not part of it. ``space`` is what the inner search may try (empty: no
    search). ``permutation`` is 0 for the data as given; ``audit`` is the number of a shuffled node order.
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

    @cached_property
    def key(self) -> str:
        """The sha256 of the job as canonical JSON."""
        return digest_of(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        return asdict(self)

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


def run_job(task: Task) -> dict[str, Any]:
    """Fit on the training subjects, predict the test subjects, return the record.

    The record is JSON: the job and its key, the fold (:func:`describe_fold`), class probabilities, the settings chosen
    by tuning, seconds, peak memory in bytes, versions. The estimator is given training data only; test labels are
    looked up after it has predicted.
    """
    job, samples = task.job, task.source.load()
    protocol = Protocol(**job.protocol)
    split = protocol.splits(samples, job.repeat)[job.fold]
    order = null_order(samples, protocol, job.permutation) if job.permutation else np.arange(len(samples))
    train, test, labels = order[split.train], order[split.test], samples.labels[split.train]
    extra = free_unlabelled(samples, protocol, test) if job.use_unlabeled else np.arange(0)
    fitter = Fitter(
        task.factory,
        {**job.parameters, **task.runtime},
        Preparation(task.steps, _node_order(job, samples), task.transforms),
        samples,
        extra,
        job.seed("fit"),
    )
    reset_peak_memory()
    clock = [time.perf_counter()]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        groups = None if samples.groups is None else samples.groups[split.train]
        settings = fitter.search(job.space, protocol, train, labels, groups, job.seed)
        clock.append(time.perf_counter())
        preparation = fitter.preparation
        estimator = fitter.fit(settings, preparation.fit(samples, train, labels), labels)
        clock.append(time.perf_counter())
        prepared = preparation.apply(samples, test)
        probabilities = predict_probabilities(estimator, prepared, samples.classes)
        clock.append(time.perf_counter())
    memory = peak_memory()
    task.source.load()  # refused when the data changed under the fit
    if task.artifacts is not None:
        held_out = prepared, samples.labels[split.test]
        write_artifacts(Path(task.artifacts), estimator, caught, task.save_model, task.explain, held_out, preparation)
    return {
        "key": job.key,
        "job": job.to_json(),
        **describe_fold(samples, job),
        "probabilities": probabilities.tolist(),
        "settings": settings,
        "seconds": dict(zip(("tune", "fit", "predict"), np.diff(clock).tolist(), strict=True)),
        "peak_memory": memory,
        "versions": versions(),
    }


def describe_fold(samples: Samples, job: Job) -> dict[str, Any]:
    """The part of a record that is fixed before the job runs.

    The name of the fold and, if folds are sites, its sites; the names of the classes, the number of training graphs,
    test indices and true labels (as indices into ``classes``).
    """
    split = Protocol(**job.protocol).splits(samples, job.repeat)[job.fold]
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
