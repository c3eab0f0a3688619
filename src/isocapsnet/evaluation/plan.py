"""A benchmark as a list of tasks."""

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from isocapsnet._packages import check_packages
from isocapsnet._validation import InputError, check_number, check_option
from isocapsnet.evaluation.comparisons import CONSTANT
from isocapsnet.evaluation.jobs import Job, Task, method_label
from isocapsnet.evaluation.power import Design
from isocapsnet.evaluation.preparation import COVARIATES, NO_TRANSFORM, TRANSFORM, Step, name_covariates
from isocapsnet.evaluation.procedures import DEFAULT_TEST, TESTS
from isocapsnet.evaluation.protocol import Protocol, Split, count_subjects
from isocapsnet.evaluation.samples import DataSource
from isocapsnet.evaluation.sites import Sites
from isocapsnet.evaluation.statistics import LEVEL
from isocapsnet.evaluation.store import BATCH_SIZE, inner_scores_path


@dataclass(frozen=True)
class MethodSpec:
    """An estimator by its import path, from which every worker can build it."""

    name: str
    #: ``"package.module:Class"``.
    factory: str
    #: Changes when a change of the method changes its results.
    version: int = 1
    #: Constructor arguments that differ from the defaults.
    parameters: Mapping[str, Any] = field(default_factory=dict)
    #: Parameter to candidate values, for the inner search.
    space: Mapping[str, Any] = field(default_factory=dict)
    #: Arguments that do not change results (device, verbose); not part of a job's key.
    runtime: Mapping[str, Any] = field(default_factory=dict)
    #: Pass unlabelled graphs to ``fit`` as ``X_unlabeled``.
    use_unlabeled: bool = False
    #: Whether ``Plan.save_model`` can save the estimator.
    can_be_saved: bool = True
    #: Whether the estimator takes more than two classes.
    is_multiclass: bool = True
    #: What the estimator is given: "graphs", or "covariates" as :attr:`Plan.covariates` codes them.
    input: str = "graphs"
    #: Modules that the estimator needs, with the extras that install them.
    packages: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The name of the method in tables, with its parameters."""
        return method_label(self.name, self.parameters)


def keep_suitable(
    methods: tuple[MethodSpec, ...], n_classes: int, *, named: bool, runs_here: bool = True
) -> tuple[MethodSpec, ...]:
    """The methods that take this many classes and, if they run here, have the packages that they need.

    Others are refused if they were named, and else left out with a warning.
    """
    kept = []
    for method in methods:
        try:
            if n_classes > 2 and not method.is_multiclass:
                sentence = f"{method.label} takes two classes, but the data have {n_classes}"
                raise InputError(f"{sentence}; leave it out of methods=." if named else f"{sentence}.")
            if runs_here:
                check_packages(method.label, method.packages)
        except InputError as reason:
            if named:
                raise
            warnings.warn(f"A method is left out: {reason}", stacklevel=2)
        else:
            kept.append(method)
    return tuple(kept)


@dataclass(frozen=True)
class Plan:
    """A benchmark: methods under one protocol on one dataset."""

    source: DataSource
    methods: tuple[MethodSpec, ...]
    protocol: Protocol = field(default_factory=Protocol)
    #: Repeats of the whole cross-validation, each with its own splits.
    repeats: int = 5
    #: Transformers fitted inside each fold before the method.
    preparation: tuple[Step, ...] = ()
    #: Transforms, by name, of which the search may put one behind the preparation, like a parameter of the method.
    transforms: Mapping[str, Step] = field(default_factory=dict)
    #: The step that codes covariates for the methods that are given these instead of graphs; None without covariates.
    covariates: Step | None = None
    #: Draws from the null hypothesis, each through the whole protocol.
    permutations: int = 0
    #: Shuffled node orders.
    audits: int = 0
    #: Shares of the training subjects for a learning curve, each below 1.
    shares: tuple[float, ...] = ()
    #: Import path of ``save_model(estimator, path, preparation)``, called for the first repeat.
    save_model: str | None = None
    #: Import path of ``explain(estimator, graphs, labels, folder)``, called with the test graphs of every fold after
    #: they were predicted; it writes files into ``folder`` and changes no record.
    explain: str | None = None
    #: A key of :data:`isocapsnet.evaluation.procedures.TESTS`. Records do not depend on it.
    test: str = DEFAULT_TEST

    def __post_init__(self) -> None:
        check_option("test", self.test, tuple(TESTS))
        check_number("repeats", self.repeats, low=1, integer=True)
        for name in ("permutations", "audits"):
            check_number(name, getattr(self, name), low=0, integer=True)
        labels = [method.label for method in self.methods]
        if not labels:
            raise InputError("methods= is empty; name at least one method.")
        if len(set(labels)) < len(labels):
            twice = next(label for label in labels if labels.count(label) > 1)
            raise InputError(f"methods: {twice} is given twice; name each method once.")
        if self.transforms and not self.protocol.is_tuned:
            raise InputError(
                f"choose_transform= needs a search, and protocol={self.protocol.name!r} has none as it is given; use "
                'protocol="nested" with two or more candidates, or transform= for a fixed one.'
            )
        if len(self.transforms) >= self.protocol.n_candidates:
            raise InputError(
                f"choose_transform= names {len(self.transforms)} transforms; to try each of them and none, use "
                f"candidates={len(self.transforms) + 1} or more."
            )
        taken = [method.label for method in self.methods if self.transforms and TRANSFORM in method.space]
        if taken:
            raise InputError(f"choose_transform= does not apply: {taken[0]} has a parameter {TRANSFORM!r} of its own.")
        without = [method.label for method in self.methods if method.input == COVARIATES and self.covariates is None]
        if without:
            raise InputError(
                f"{without[0]} needs covariates, and the data have none that it may use; name columns such as age, sex "
                "and motion with covariates=, or leave it out of methods=."
            )

    @cached_property
    def folds(self) -> list[Split]:
        """The folds of the first repeat."""
        samples = self.source.load()
        self.protocol.check_repeats(samples, self.repeats)
        return self.protocol.splits(samples, repeat=0)

    @property
    def sites(self) -> Sites | None:
        """Which sites are tested, if folds are sites."""
        return Sites.of({"tested": split.sites, "too_small": split.too_small} for split in self.folds if split.sites)

    @property
    def covariate_names(self) -> list[str]:
        """The covariates that some methods are given instead of graphs, ``site`` among them."""
        return [] if self.covariates is None else name_covariates(self.covariates.identity())

    @cached_property
    def detectable(self) -> dict[str, float]:
        """Effects that are found with 80 % power: see ``Procedure.power``."""
        samples = self.source.load()
        # A fold of one class has no ROC AUC.
        splits = [split for split in self.folds if len(np.unique(samples.labels[split.test])) > 1] or self.folds
        counts = [
            [count_subjects(samples, split.test[samples.labels[split.test] == label]) for label in samples.classes]
            for split in splits
        ]
        weights = [count_subjects(samples, split.test) if split.sites else 1 for split in splits]
        n_train = [count_subjects(samples, split.train) for split in splits]
        design = Design(counts, n_train, weights).repeated(self.repeats)
        return TESTS[self.test].power(design, len(self._tested))

    @property
    def _tested(self) -> list[MethodSpec]:
        """The methods that are tested together: all but the constant answer and controls."""
        return [method for method in self.methods if method.name != CONSTANT and method.input != COVARIATES]

    def too_few_permutations(self) -> str | None:
        """A sentence if even the smallest p-value of so many permutations would not be below the level."""
        n_tested = len(self._tested)
        needed = math.ceil(max(n_tested, 1) / LEVEL) - 1
        if not 0 < self.permutations < needed:
            return None
        return (
            f"With {self.permutations} permutations, no method can be called above chance: the smallest p-value is "
            f"1/{self.permutations + 1}, and the level of {LEVEL:g} is adjusted for the number of methods, {n_tested}. "
            f"Use at least {needed} permutations."
        )

    def tasks(self, folder: Path) -> list[Task]:
        """All tasks, with artifacts under ``folder``: the data as given, audits, smaller samples, permutations.

        Repeat by repeat and fold by fold, so that all methods have the same folds if the run is interrupted.
        """
        return [
            self._task(folder, method, repeat, fold, permutation, audit, share)
            for permutations, audit, share in self._rounds()
            for repeat in range(self.repeats)
            for fold in range(len(self.folds))
            for method in self.methods
            if audit is None or method.input != COVARIATES  # covariates have no nodes
            if share == 1 or method.name != CONSTANT
            for permutation in permutations
        ]

    def _rounds(self) -> Iterator[tuple[range, int | None, float]]:
        """(permutations, audit, share) of the data as they are, of each audit and share, and of batches of the null."""
        yield range(1), None, 1.0
        for audit in range(self.audits):
            yield range(1), audit, 1.0
        for share in self.shares:
            yield range(1), None, share
        for start in range(1, self.permutations + 1, BATCH_SIZE):
            yield range(start, min(start + BATCH_SIZE, self.permutations + 1)), None, 1.0

    def _task(
        self,
        folder: Path,
        method: MethodSpec,
        repeat: int,
        fold: int,
        permutation: int,
        audit: int | None,
        share: float,
    ) -> Task:
        transforms = {} if method.input == COVARIATES or method.name == CONSTANT else self.transforms
        space = {**method.space, **({TRANSFORM: [NO_TRANSFORM, *transforms]} if transforms else {})}
        tuned = self.protocol.is_tuned and bool(space)
        own = (self.covariates,) if self.covariates is not None and method.input == COVARIATES else ()
        # Without a search its settings are not part of the key: they do not change the result.
        protocol = (
            self.protocol if tuned else replace(self.protocol, inner_folds=0, n_candidates=1, search="exhaustive")
        )
        job = Job(
            dataset=self.source.digest,
            method=method.name,
            version=method.version,
            parameters=method.parameters,
            protocol=protocol.to_json(),
            space=space if tuned else {},
            preparation=tuple(step.identity() for step in (*self.preparation, *own)),
            use_unlabeled=method.use_unlabeled,
            repeat=repeat,
            fold=fold,
            permutation=permutation,
            audit=audit,
            share=share,
        )
        plain = not permutation and audit is None and share == 1
        return Task(
            job=job,
            source=self.source,
            factory=method.factory,
            runtime=method.runtime,
            steps=own or self.preparation,
            transforms=transforms,
            artifacts=str(folder.resolve() / "artifacts" / job.key) if plain else None,
            save_model=self.save_model if plain and repeat == 0 and method.can_be_saved else None,
            explain=self.explain if plain else None,
            # One file for each of thousands of permutations would be many; their searches are not continued.
            inner_scores=str(inner_scores_path(folder.resolve(), job)) if tuned and not permutation else None,
        )
