"""The steps between data and estimator (connectivity, harmonisation, transforms), fitted inside each fold."""

import inspect
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet.evaluation.samples import Samples

#: The step of methods that are given covariates instead of graphs. It stands alone.
COVARIATES = "covariates"
#: The setting of a search that says which transform was chosen, and its value if none was.
TRANSFORM, NO_TRANSFORM = "transform", "none"


@dataclass(frozen=True)
class Step:
    """A scikit-learn transformer by its import path.

    ``columns`` are the covariates it is given. All but the path is part of a job's key.
    """

    name: str
    factory: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] = ()

    def identity(self) -> dict[str, Any]:
        return {"name": self.name, "parameters": self.parameters, "columns": self.columns}


def name_covariates(step: Mapping[str, Any]) -> list[str]:
    """What a step :data:`COVARIATES`, given by its identity, codes: its columns and perhaps the site."""
    return [*step["columns"], *(["site"] if step["parameters"].get("use_sites") else [])]


class Preparation:
    """A pipeline of transformers, fitted on training subjects only.

    The nodes of every graph are put into ``node_order`` before the first step. If ``fit`` or ``transform`` of a step
    has parameters ``sites`` or ``covariates``, it is given those of the same subjects (the covariates of its columns).
    With the step :data:`COVARIATES` no graph is read: the step makes columns of numbers from what it is given. A search
    may put one more step, which it chooses, behind the others.
    """

    def __init__(self, steps: Sequence[Step], samples: Samples, node_order: NDArray[np.int64] | None = None) -> None:
        self._steps, self._samples, self._node_order = steps, samples, node_order
        self._fitted: list[tuple[Step, Any]] = []

    def fit(self, train: NDArray[np.int64], labels: NDArray[Any]) -> NDArray[Any]:
        """Fit every step on the subjects ``train`` and return their prepared graphs (n_train, n_nodes, n_nodes)."""
        self._fitted = []
        graphs = self._data(train)
        for step in self._steps:
            transformer = pkgutil.resolve_name(step.factory)(**step.parameters)
            transformer.fit(graphs, labels, **self._metadata(transformer.fit, step, train))
            graphs = transformer.transform(graphs, **self._metadata(transformer.transform, step, train))
            self._fitted.append((step, transformer))
        return graphs

    def choose(self, step: Step | None, graphs: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
        """Put ``step`` behind the others, in place of one chosen before, and fit it to what :meth:`fit` returned."""
        del self._fitted[len(self._steps) :]
        if step is None:
            return graphs
        transformer = pkgutil.resolve_name(step.factory)(**step.parameters).fit(graphs, labels)
        self._fitted.append((step, transformer))
        return self.apply_choice(graphs)

    def apply_choice(self, graphs: NDArray[Any]) -> NDArray[Any]:
        """Graphs that went through all other steps, after the one that was chosen."""
        for _, transformer in self._fitted[len(self._steps) :]:
            graphs = transformer.transform(graphs)
        return graphs

    def transform(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Prepared graphs of any subjects (n_indices, n_nodes, n_nodes), with the steps as fitted."""
        graphs = self._data(indices)
        for step, transformer in self._fitted:
            graphs = transformer.transform(graphs, **self._metadata(transformer.transform, step, indices))
        return graphs

    def _metadata(self, function: Callable[..., Any], step: Step, indices: NDArray[np.int64]) -> dict[str, Any]:
        """The sites and covariates of these subjects that ``function`` has parameters for."""
        names, samples = inspect.signature(function).parameters, self._samples
        metadata: dict[str, Any] = {}
        if "sites" in names and samples.sites is not None:
            metadata["sites"] = samples.sites[indices]
        if "covariates" in names and step.columns:
            metadata["covariates"] = samples.covariates[list(step.columns)].iloc[indices]
        return metadata

    def _data(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Graphs or time series of these subjects, with the nodes in ``node_order``."""
        if self._steps and self._steps[0].name == COVARIATES:
            return np.empty((len(indices), 0))
        data, order = self._samples.X[indices], self._node_order
        if order is None:
            return data
        if not self._samples.is_time_series:
            return data[:, order][:, :, order]
        for index, series in enumerate(data):
            data[index] = series[:, order]
        return data
