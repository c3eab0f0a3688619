"""A job names one number of the benchmark; ``run_job`` computes it."""

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
from isocapsnet.evaluation.estimation import (
    as_tuples,
    build_estimator,
    inner_settings,
    list_candidates,
    predict_probabilities,
    tune,
)
from isocapsnet.evaluation.naming import digest_of, seed_from
from isocapsnet.evaluation.preparation import Preparation, Step
from isocapsnet.evaluation.protocol import (
    Protocol,
    Split,
    count_subjects,
    free_unlabelled,
    inner_folds,
    null_order,
)
from isocapsnet.evaluation.study import DataSource, Study


@dataclass(frozen=True)
class Job:
    """What a result depends on, and nothing else.

    Device, process count and verbosity are not part of it. ``space`` is what the inner search may try (empty:
    no search). ``permutation`` 0 is the data as they are; ``audit`` numbers a shuffled node order.
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
        return asdict(self)

    @property
    def label(self) -> str:
        """The method as tables name it: ``isocapsnet`` or ``isocapsnet[kernel_size=3]``."""
        return method_label(self.method, self.parameters)

    def seed(self, *purpose: str) -> int:
        """A seed for one purpose; the same for each parameter setting, so that settings differ by nothing else."""
        return seed_from(*purpose, self.dataset, self.method, self.repeat, self.fold, self.permutation, self.audit)


@dataclass(frozen=True)
class Method:
    """An estimator by its import path, so that a worker builds it without the planner's memory.

    Parameters
    ----------
    name : str
    factory : str
        ``"package.module:Class"``.
    version : int
        Rises when a fix changes results.
    parameters : mapping
        Constructor arguments that differ from the defaults.
    space : mapping
        Parameter to candidate values, for the inner search.
    runtime : mapping
        Arguments that do not change results (device, verbose); not part of a job's key.
    use_unlabeled : bool
        Hand unlabelled graphs to ``fit`` as ``X_unlabeled``.
    """

    name: str
    factory: str
    version: int = 1
    parameters: Mapping[str, Any] = field(default_factory=dict)
    space: Mapping[str, Any] = field(default_factory=dict)
    runtime: Mapping[str, Any] = field(default_factory=dict)
    use_unlabeled: bool = False

    @property
    def label(self) -> str:
        return method_label(self.name, self.parameters)


@dataclass(frozen=True)
class Task:
    """A job and the means to compute it; all of it is JSON, so any worker can be sent one."""

    job: Job
    source: DataSource
    factory: str
    runtime: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
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
            }
        )

    def load(self) -> None:
        """Read the data and import the method, both kept by this process for its next task."""
        self.source.load()
        pkgutil.resolve_name(self.factory)


def method_label(name: str, parameters: Mapping[str, Any]) -> str:
    """``name`` or ``name[parameter=value,...]``."""
    settings = ",".join(f"{key}={as_tuples(value)}" for key, value in sorted(parameters.items()))
    return f"{name}[{settings}]" if settings else name


def run_job(task: Task) -> dict[str, Any]:
    """Fit on the training subjects, predict the test subjects, return the record.

    The record is JSON: the job and its key, what :func:`describe_fold` says, class probabilities, the settings that
    tuning chose, seconds, peak memory in bytes, versions. The estimator is given training data only; test labels are
    looked up after it has predicted.
    """
    job, study = task.job, task.source.load()
    protocol = Protocol(**job.protocol)
    split = _splits(protocol, study, job.repeat)[job.fold]
    drawn = null_order(study, protocol, job.permutation) if job.permutation else np.arange(len(study.X))
    train, test, labels = drawn[split.train], drawn[split.test], study.labels[split.train]
    extra = free_unlabelled(study, protocol, test) if job.use_unlabeled else np.arange(0)
    preparation = Preparation(task.steps, study, _node_order(job, study))

    def fit(settings: Mapping[str, Any], graphs: NDArray[Any], labels: NDArray[Any]) -> Any:
        parameters = {**job.parameters, **settings, **task.runtime}
        estimator = build_estimator(task.factory, parameters, job.seed("fit"))
        unlabelled = {"X_unlabeled": preparation.transform(extra)} if len(extra) else {}
        return estimator.fit(graphs, labels, **unlabelled)

    reset_peak_memory()
    clock = [time.perf_counter()]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        settings: dict[str, Any] = {}
        if job.space:
            defaults = build_estimator(task.factory, job.parameters, seed=0).get_params()
            candidates = list_candidates(job.space, defaults, protocol.n_candidates, job.seed("candidates"))
            groups = None if study.groups is None else study.groups[split.train]
            folds = inner_folds(labels, groups, protocol.inner_folds, job.seed("inner folds"))
            inner = inner_settings(defaults)
            settings = tune(candidates, folds, fit, preparation, train, labels, inner) if folds else {}
        clock.append(time.perf_counter())
        estimator = fit(settings, preparation.fit(train, labels), labels)
        clock.append(time.perf_counter())
        prepared = preparation.transform(test)
        probabilities = predict_probabilities(estimator, prepared, study.classes)
        clock.append(time.perf_counter())
    memory = peak_memory()
    task.source.load()  # refused when the data changed under the fit
    if task.artifacts is not None:
        held_out = prepared, study.labels[split.test]
        write_artifacts(Path(task.artifacts), estimator, caught, task.save_model, task.explain, held_out)
    return {
        "key": job.key,
        "job": job.to_json(),
        **describe_fold(study, job),
        "probabilities": probabilities.tolist(),
        "settings": settings,
        "seconds": dict(zip(("tune", "fit", "predict"), np.diff(clock).tolist(), strict=True)),
        "peak_memory": memory,
        "versions": versions(),
    }


def describe_fold(study: Study, job: Job) -> dict[str, Any]:
    """What a record says of its fold, all of it known before the job runs.

    The fold's name and, where folds are sites, its sites; the names of the classes, the number of training graphs,
    test indices and true labels (as indices into ``classes``).
    """
    split = _splits(Protocol(**job.protocol), study, job.repeat)[job.fold]
    sites = {
        "tested": list(split.sites),
        "too_small": list(split.too_small),
        "n_subjects": count_subjects(study, split.test),
    }
    return {
        **({"sites": sites} if split.sites else {}),
        "split": split.name,
        "classes": list(study.class_names or study.classes.tolist()),
        "n_train": len(split.train),
        "test": split.test.tolist(),
        "labels": np.searchsorted(study.classes, study.labels[split.test]).tolist(),
    }


@lru_cache(maxsize=8)
def _splits(protocol: Protocol, study: Study, repeat: int) -> list[Split]:
    """The folds of one repeat, computed once for the jobs that this process runs in a row."""
    return protocol.splits(study, repeat)


def _node_order(job: Job, study: Study) -> NDArray[np.int64] | None:
    """The audit's order of nodes, the same for each method; None when the job is no audit."""
    if job.audit is None:
        return None
    seed = seed_from("nodes", job.dataset, job.audit, job.repeat)
    return np.random.default_rng(seed).permutation(study.X[0].shape[-1])


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """What the numbers were computed with."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for package in ("isocapsnet", "numpy", "scipy", "scikit-learn", "torch"):
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
