"""From what a user asks for to the list of tasks."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from isocapsnet._validation import InputError, check_number
from isocapsnet.evaluation.jobs import Job, Method, Task
from isocapsnet.evaluation.preparation import Step
from isocapsnet.evaluation.protocol import Protocol
from isocapsnet.evaluation.store import BATCH_SIZE
from isocapsnet.evaluation.study import DataSource


@dataclass(frozen=True)
class Plan:
    """A benchmark: methods under one protocol on one study.

    Parameters
    ----------
    source : DataSource
    methods : tuple of Method
    protocol : Protocol
    repeats : int
        Repeats of the whole cross-validation, each with its own splits.
    preparation : tuple of Step
        Transformers fitted inside each fold before the method.
    permutations : int
        Draws from the null hypothesis, each through the whole protocol.
    audits : int
        Shuffled node orders; 0 for none.
    save_model : str or None
        Import path of ``save_model(estimator, path)``, called for the first repeat.
    explain : str or None
        Import path of ``explain(estimator, graphs, labels, folder)``, called with the test graphs of every fold after
        they were predicted; it writes files into ``folder`` and changes no record.
    """

    source: DataSource
    methods: tuple[Method, ...]
    protocol: Protocol = field(default_factory=Protocol)
    repeats: int = 5
    preparation: tuple[Step, ...] = ()
    permutations: int = 0
    audits: int = 0
    save_model: str | None = None
    explain: str | None = None

    def __post_init__(self) -> None:
        check_number("repeats", self.repeats, low=1, integer=True)
        check_number("permutations", self.permutations, low=0, integer=True)
        check_number("audits", self.audits, low=0, integer=True)
        labels = [method.label for method in self.methods]
        if len(set(labels)) < len(labels):
            twice = next(label for label in labels if labels.count(label) > 1)
            raise InputError(f"The method {twice} is asked for twice.")

    def tasks(self, folder: Path) -> list[Task]:
        """Every task of the plan, with artifacts under ``folder``: first the data, then audits, then the null.

        Repeat by repeat, all methods of a fold together, so that an interrupted run compares like with like.
        """
        study = self.source.load()
        self.protocol.check_repeats(study, self.repeats)
        folds = range(len(self.protocol.splits(study, repeat=0)))
        return [
            self._task(folder, method, repeat, fold, permutation, audit)
            for permutations, audit in self._rounds()
            for repeat in range(self.repeats)
            for fold in folds
            for method in self.methods
            for permutation in permutations
        ]

    def _rounds(self) -> Iterator[tuple[range, int | None]]:
        """(permutations, audit) of the data as they are, of each audit, and of the null in batches of one file."""
        yield range(1), None
        for audit in range(self.audits):
            yield range(1), audit
        for start in range(1, self.permutations + 1, BATCH_SIZE):
            yield range(start, min(start + BATCH_SIZE, self.permutations + 1)), None

    def _task(self, folder: Path, method: Method, repeat: int, fold: int, permutation: int, audit: int | None) -> Task:
        tuned = self.protocol.is_tuned and bool(method.space)
        # Settings of a search that does not happen must not tell records apart.
        protocol = self.protocol if tuned else replace(self.protocol, inner_folds=0, n_candidates=1)
        job = Job(
            dataset=self.source.digest,
            method=method.name,
            version=method.version,
            parameters=method.parameters,
            protocol=asdict(protocol),
            space=method.space if tuned else {},
            preparation=tuple(step.identity() for step in self.preparation),
            use_unlabeled=method.use_unlabeled,
            repeat=repeat,
            fold=fold,
            permutation=permutation,
            audit=audit,
        )
        plain = not permutation and audit is None
        return Task(
            job=job,
            source=self.source,
            factory=method.factory,
            runtime=method.runtime,
            steps=self.preparation,
            artifacts=str(folder.resolve() / "artifacts" / job.key) if plain else None,
            save_model=self.save_model if plain and repeat == 0 else None,
            explain=self.explain if plain else None,
        )
