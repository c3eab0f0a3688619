"""What a report is made of, as plain arrays and JSON values; who reads a results folder fills this in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Fit:
    """One fitted model of a method: what it predicted for its test graphs, and how it was trained.

    Attributes
    ----------
    repeat, fold : int
    labels : array (n_test,)
        True classes, as columns of ``probabilities``.
    probabilities : array (n_test, n_classes)
    settings : mapping
        What tuning chose; empty without tuning, or where the defaults won.
    seconds : mapping
        Of ``tune``, ``fit`` and ``predict``.
    peak_memory : int or None
        Bytes.
    history : sequence of mappings
        One per epoch, with ``epoch``, ``train_loss`` and perhaps ``valid_loss``.
    templates : array (n_templates, k, k) or None
    warnings : sequence of str
    """

    repeat: int
    fold: int
    labels: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    settings: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    peak_memory: int | None = None
    history: Sequence[Mapping[str, Any]] = ()
    templates: NDArray[Any] | None = None
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class Representation:
    """What one fit makes of its test graphs: ``(n_graphs, n_features)``, capsules say, and classes ``(n_graphs,)``."""

    vectors: NDArray[Any]
    labels: NDArray[np.int64]


@dataclass(frozen=True)
class Attribution:
    """Which edges a network uses.

    Attributes
    ----------
    edges : array (n_nodes, n_nodes)
        How much each edge separates the classes, signed and symmetric; mean over fits.
    randomization : float
        Rank correlation with the attributions of an untrained network; near 0 is what should be seen.
    n_fits : int
    """

    edges: NDArray[Any]
    randomization: float
    n_fits: int


@dataclass(frozen=True)
class Reconstructions:
    """What decoders make of graphs that their fits did not see.

    Attributes
    ----------
    method : str
    subjects : sequence of str (n_graphs,)
    labels : array (n_graphs,)
    inputs, outputs : array (n_graphs, n_nodes, n_nodes)
        In original units.
    n_available : int
        Test graphs in all, of which these are some.
    """

    method: str
    subjects: Sequence[str]
    labels: NDArray[np.int64]
    inputs: NDArray[Any]
    outputs: NDArray[Any]
    n_available: int

    def likeness(self) -> tuple[float, float]:
        """Mean correlation, over edges, of reconstructions with their own inputs and with other subjects' inputs.

        NaN where there is nothing to correlate: a graph without variation, a single subject.
        """
        edges = np.triu_indices(self.inputs.shape[1], k=1)
        n_graphs = len(self.inputs)
        with np.errstate(invalid="ignore", divide="ignore"):
            both = np.corrcoef(self.outputs[:, *edges], self.inputs[:, *edges])[:n_graphs, n_graphs:]
        own = np.eye(n_graphs, dtype=bool)
        return float(both[own].mean()), float(both[~own].mean()) if n_graphs > 1 else float("nan")


@dataclass(frozen=True)
class Method:
    """One method of the comparison.

    Attributes
    ----------
    row : mapping
        Its entry in ``results.json``.
    name : str
        The method's name in the registry, without parameters.
    parameters, space : mapping
        Constructor arguments that differ from the defaults, and what the inner search may try.
    fits : sequence of Fit
        On the data as they are (no permutations, no audits), by repeat and fold.
    cards : sequence of mappings
        Evidence cards of its templates, see ``isocapsnet.explain``.
    attribution, representation, reconstructions
        As far as the method has them.
    """

    row: Mapping[str, Any]
    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    space: Mapping[str, Any] = field(default_factory=dict)
    fits: Sequence[Fit] = ()
    cards: Sequence[Mapping[str, Any]] = ()
    attribution: Attribution | None = None
    representation: Representation | None = None
    reconstructions: Reconstructions | None = None

    @property
    def label(self) -> str:
        """The method as tables name it, with its parameters."""
        return str(self.row["method"])

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """True classes of all fits' test graphs, one after another ``(n_predictions,)``."""
        return np.concatenate([fit.labels for fit in self.fits])

    @cached_property
    def probabilities(self) -> NDArray[np.float64]:
        """Predictions of all fits, one after another ``(n_predictions, n_classes)``."""
        return np.concatenate([fit.probabilities for fit in self.fits])

    @cached_property
    def fit_of(self) -> NDArray[np.int64]:
        """Which fit made each prediction ``(n_predictions,)``."""
        return np.repeat(np.arange(len(self.fits)), [len(fit.labels) for fit in self.fits])

    @property
    def n_repeats(self) -> int:
        """Repeats of the cross-validation in which the method was fitted."""
        return len({fit.repeat for fit in self.fits})

    @property
    def histories(self) -> list[Sequence[Mapping[str, Any]]]:
        """Of the fits that have one."""
        return [fit.history for fit in self.fits if fit.history]

    @property
    def chosen(self) -> list[tuple[str, int]]:
        """Settings that tuning chose and in how many folds, the most frequent first."""
        names = [", ".join(f"{key} = {value}" for key, value in fit.settings.items()) for fit in self.fits]
        counts = {name: names.count(name) for name in dict.fromkeys(names)}
        return sorted(((name or "the defaults", n) for name, n in counts.items()), key=lambda item: -item[1])


@dataclass(frozen=True)
class Sweep:
    """One parameter varied.

    Attributes
    ----------
    method, parameter : str
    values : sequence (n_values,)
    metrics : mapping
        Metric name to array ``(n_values, 3)`` of mean, low, high.
    seconds : array (n_values,)
        Of a fold.
    constant_accuracy : float
        What always answering the most frequent class would reach on the same test folds.
    """

    method: str
    parameter: str
    values: Sequence[Any]
    metrics: Mapping[str, NDArray[np.float64]]
    seconds: NDArray[np.float64]
    constant_accuracy: float


@dataclass(frozen=True)
class Content:
    """Everything a page shows.

    Attributes
    ----------
    results : mapping
        The content of ``results.json``; of its context only ``passport`` must be there.
    passport : sequence of (str, str)
        The data's passport as lines.
    classes : sequence of str
    methods : sequence of Method
        In the order of the page: the highest mean ROC AUC first.
    node_names : sequence of str (n_nodes,)
    coordinates : array (n_nodes, 3) or None
        MNI millimetres.
    notes : sequence of str
        What is missing in the folder, and why.
    created : str
        The date, as it is to be shown.
    """

    results: Mapping[str, Any]
    passport: Sequence[tuple[str, str]]
    classes: Sequence[str]
    methods: Sequence[Method]
    node_names: Sequence[str] = ()
    coordinates: NDArray[Any] | None = None
    sweep: Sweep | None = None
    notes: Sequence[str] = ()
    created: str = ""

    @property
    def name(self) -> str:
        """The dataset's name."""
        return str(self.results["passport"].get("name") or "unnamed data")

    @property
    def sites(self) -> str:
        """Which sites the scores are about, as a sentence; empty where folds are not sites."""
        return str((self.results.get("sites") or {}).get("sentence", ""))

    @property
    def n_jobs(self) -> int:
        """Jobs of the whole run, those of permutations and audits among them."""
        return sum(method.row["jobs"] for method in self.methods)

    @property
    def n_failed(self) -> int:
        """Jobs among them that failed."""
        return sum(method.row["failed"] for method in self.methods)

    @property
    def n_nodes(self) -> int:
        """Nodes of each graph, from whatever knows; 0 where nothing does."""
        sizes = [len(self.node_names), int(self.results["passport"].get("n_nodes") or 0)]
        return max(sizes + [len(m.attribution.edges) for m in self.methods if m.attribution is not None])

    def node_name(self, node: int) -> str:
        """The region's name, or its number where there are no names."""
        return self.node_names[node] if node < len(self.node_names) else f"node {node + 1}"
