"""The content of a report: the results table, its context, and what the fits of each method left behind."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isocapsnet.evaluation.results import MethodResult, ResultsTable

if TYPE_CHECKING:
    from isocapsnet.explanation.cards import EvidenceCard, MotifCard
    from isocapsnet.explanation.summary import Explanation


@dataclass(frozen=True)
class Fit:
    """One fitted model: its predictions for the test graphs of a fold, and its training.

    Attributes
    ----------
    labels : array (n_test,)
        True classes, as columns of ``probabilities`` ``(n_test, n_classes)``.
    settings : mapping
        What tuning selected; empty without tuning, or if the defaults were selected.
    seconds : mapping
        Of ``tune``, ``fit`` and ``predict``.
    peak_memory : int or None
        Bytes.
    history : sequence of mappings
        One per epoch, with ``epoch``, ``train_loss`` and perhaps ``valid_loss``.
    templates : array (n_templates, k, k) or None
    test : array (n_test,)
        Indices of the test graphs in the dataset; empty if they are not known.
    """

    repeat: int
    labels: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    settings: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    peak_memory: int | None = None
    history: Sequence[Mapping[str, Any]] = ()
    templates: NDArray[Any] | None = None
    warnings: Sequence[str] = ()
    test: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))


@dataclass(frozen=True)
class ReportedMethod:
    """One method of the comparison.

    Attributes
    ----------
    row : MethodResult
        Its row of the table.
    fits : sequence of Fit
        By repeat and fold, without those of permutations and audits.
    explanation : Explanation or None
        None for methods that are not networks, and for runs without explanations.
    """

    row: MethodResult
    fits: Sequence[Fit] = ()
    explanation: "Explanation | None" = None

    @property
    def label(self) -> str:
        """The name with its parameters."""
        return self.row.method

    @property
    def slug(self) -> str:
        """The label as letters, digits and dashes, for ids and file names."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.label.lower()).strip("-")

    @property
    def cards(self) -> "Sequence[EvidenceCard]":
        """Evidence cards of its templates."""
        return () if self.explanation is None else self.explanation.cards

    @property
    def motif_cards(self) -> "Sequence[MotifCard]":
        """Evidence cards of its motifs."""
        return () if self.explanation is None else self.explanation.motif_cards

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """True classes of the test graphs of all fits ``(n_predictions,)``."""
        return np.concatenate([fit.labels for fit in self.fits])

    @cached_property
    def probabilities(self) -> NDArray[np.float64]:
        """Predictions of all fits ``(n_predictions, n_classes)``."""
        return np.concatenate([fit.probabilities for fit in self.fits])

    @cached_property
    def test(self) -> NDArray[np.int64]:
        """Indices of the test graphs of all fits ``(n_predictions,)``; empty if they are not known."""
        return np.concatenate([fit.test for fit in self.fits])

    @cached_property
    def fit_of(self) -> NDArray[np.int64]:
        """The index of the fit that made each prediction ``(n_predictions,)``."""
        return np.repeat(np.arange(len(self.fits)), [len(fit.labels) for fit in self.fits])

    @property
    def weights(self) -> list[float]:
        """The weight of each fit in means: 1, or its number of test subjects if folds are sites."""
        return list(self.row.weights.values())

    @property
    def n_repeats(self) -> int:
        """Number of repeats of the cross-validation."""
        return len({fit.repeat for fit in self.fits})

    @property
    def histories(self) -> list[Sequence[Mapping[str, Any]]]:
        """Histories of the fits that have one."""
        return [fit.history for fit in self.fits if fit.history]

    @property
    def selected(self) -> list[tuple[str, int]]:
        """Settings that tuning selected, and in how many folds, the most frequent first."""
        names = [", ".join(f"{key} = {value}" for key, value in fit.settings.items()) for fit in self.fits]
        return [(name or "the defaults", count) for name, count in Counter(names).most_common()]


@dataclass(frozen=True)
class Subjects:
    """The subjects of a study, one entry per graph.

    Attributes
    ----------
    names : sequence of str (n_graphs,)
    labels : array (n_graphs,)
        Indices into the classes of the report; -1 for graphs without a label.
    sites : sequence of str (n_graphs,) or None
    covariates : DataFrame (n_graphs, n_columns)
        Age, sex, head motion and the covariates that methods were given, as far as the data have them.
    """

    names: Sequence[str]
    labels: NDArray[np.int64]
    sites: Sequence[str] | None = None
    covariates: pd.DataFrame = field(default_factory=pd.DataFrame)


@dataclass(frozen=True)
class Sweep:
    """One parameter of a method varied; ``methods`` has one entry for each of ``values``."""

    method: str
    parameter: str
    values: Sequence[Any]
    methods: Sequence[ReportedMethod]


@dataclass(frozen=True)
class Content:
    """Everything that a report shows.

    Attributes
    ----------
    table : ResultsTable
        Rows, comparisons, versions and sites.
    methods : sequence of ReportedMethod
        One per row of the table, the highest mean ROC AUC first.
    classes : sequence of str
    passport : mapping
        Of the data, as in ``results.json``.
    passport_lines : sequence of (str, str)
        The passport as it is printed.
    protocol : mapping
        ``name``, ``n_folds``, ``repeats``, ``inner_folds``, ``n_candidates`` and ``permutations``, as far as known.
    preparation : sequence of str
        Names of the steps that are fitted inside each fold.
    detectable : mapping or None
        ``n_scores``, ``above_chance`` and ``between_methods``: the effects that the run can show with 80 % power.
    command : str or None
        The command that made the results.
    config : str
        The options of the run as TOML; empty if they are not on record.
    sweep : Sweep or None
    node_names : sequence of str (n_nodes,)
    coordinates : array (n_nodes, 3) or None
        MNI millimetres.
    notes : sequence of str
        What is missing in the folder.
    confounds : str
        What ``confound-only`` was given, or why there is no such row.
    created : str
        The date to show.
    title : str
        The title of the page; by default the name of the dataset.
    positive : int
        The class that sensitivity, precision and curves are about, if there are two.
    subjects : Subjects or None
        None without a copy of the data.
    """

    table: ResultsTable
    methods: Sequence[ReportedMethod]
    classes: Sequence[str]
    passport: Mapping[str, Any]
    passport_lines: Sequence[tuple[str, str]] = ()
    protocol: Mapping[str, Any] = field(default_factory=dict)
    preparation: Sequence[str] = ()
    detectable: Mapping[str, float | None] | None = None
    command: str | None = None
    config: str = ""
    sweep: Sweep | None = None
    node_names: Sequence[str] = ()
    coordinates: NDArray[Any] | None = None
    notes: Sequence[str] = ()
    confounds: str = ""
    created: str = ""
    title: str = ""
    positive: int = 1
    subjects: Subjects | None = None

    @property
    def name(self) -> str:
        """The name of the dataset."""
        return str(self.passport.get("name") or "unnamed data")

    @property
    def sites(self) -> str:
        """A sentence about the tested sites; empty if folds are not sites."""
        return "" if self.table.sites is None else self.table.sites.sentence

    @property
    def n_jobs(self) -> int:
        """Number of jobs, with those of permutations and audits."""
        return sum(method.row.jobs for method in self.methods)

    @property
    def n_failed(self) -> int:
        """Number of failed jobs."""
        return sum(method.row.failed for method in self.methods)

    @property
    def n_nodes(self) -> int:
        """Number of nodes of each graph; 0 if unknown."""
        sizes = [len(self.node_names), int(self.passport.get("n_nodes") or 0)]
        return max(sizes + [len(m.explanation.edges) for m in self.methods if m.explanation is not None])

    def node_name(self, node: int) -> str:
        """The name of a node, or its number without names."""
        return self.node_names[node] if node < len(self.node_names) else f"node {node + 1}"
