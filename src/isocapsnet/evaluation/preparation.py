"""The steps between data and estimator (connectivity, harmonisation, transforms), fitted inside each fold."""

import inspect
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.evaluation.samples import Samples

#: The step of methods that are given covariates instead of graphs. It stands alone.
COVARIATES = "covariates"


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

    A benchmark fits one in each fold, and a saved model has one. The nodes of every graph are put into ``node_order``
    before the first step. If ``fit`` or ``transform`` of a step has parameters ``sites`` or ``covariates``, it is given
    those of the same subjects (the covariates of its columns). With the step :data:`COVARIATES` no graph is read: the
    step makes columns of numbers from what it is given.

    Attributes
    ----------
    fitted : list of (Step, transformer)
        Empty before ``fit``.
    """

    def __init__(self, steps: Sequence[Step], node_order: NDArray[np.int64] | None = None) -> None:
        self.steps, self._node_order = tuple(steps), node_order
        self.fitted: list[tuple[Step, Any]] = []

    def fit(self, samples: Samples, train: NDArray[np.int64], labels: NDArray[Any]) -> NDArray[Any]:
        """Fit every step on the subjects ``train`` and return their prepared graphs (n_train, n_nodes, n_nodes)."""
        self.fitted = []
        graphs = self._data(samples, train)
        for step in self.steps:
            transformer = _make(step)
            transformer.fit(graphs, labels, **metadata_for(transformer.fit, step, samples, train))
            graphs = transformer.transform(graphs, **metadata_for(transformer.transform, step, samples, train))
            self.fitted.append((step, transformer))
        return graphs

    def apply(self, samples: Samples, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Prepared graphs of any subjects (n_indices, n_nodes, n_nodes), with the steps as fitted."""
        graphs = self._data(samples, indices)
        for step, transformer in self.fitted:
            graphs = transformer.transform(graphs, **metadata_for(transformer.transform, step, samples, indices))
        return graphs

    def get_state(self) -> tuple[list[dict[str, Any]], dict[str, NDArray[Any]]]:
        """What each step has learned: JSON values, and arrays named ``number/array``."""
        values: list[dict[str, Any]] = []
        arrays: dict[str, NDArray[Any]] = {}
        for number, (step, transformer) in enumerate(self.fitted):
            _check_declared(step, transformer)
            own, own_arrays = transformer._get_state()
            values.append(own)
            arrays |= {f"{number}/{name}": array for name, array in own_arrays.items()}
        return values, arrays

    def set_state(self, values: Sequence[dict[str, Any]], arrays: Mapping[str, NDArray[Any]], n_nodes: int) -> None:
        """The inverse of ``get_state``, for graphs of ``n_nodes``. Parameters, values and arrays are checked."""
        fitted, used = [], set()
        for number, (step, own) in enumerate(zip(self.steps, values, strict=True)):
            transformer = _make(step)
            transformer._check_parameters()
            transformer.n_nodes_in_ = n_nodes
            prefix = f"{number}/"
            names = {name for name in arrays if name.startswith(prefix)}
            transformer._set_state(own, {name.removeprefix(prefix): arrays[name] for name in names})
            used |= names
            fitted.append((step, transformer))
        if unused := sorted(arrays.keys() - used):
            raise InputError(f"it has an unexpected array {unused[0]!r:.60}")
        self.fitted = fitted

    def _data(self, samples: Samples, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Graphs or time series of these subjects, with the nodes in ``node_order``."""
        if self.steps and self.steps[0].name == COVARIATES:
            return np.empty((len(indices), 0))
        order = self._node_order
        if order is None and np.array_equal(indices, np.arange(len(samples))):
            return samples.X  # all of a memory map stay one
        data = samples.X[indices]
        if order is None:
            return data
        if not samples.is_time_series:
            return data[:, order][:, :, order]
        for index, series in enumerate(data):
            data[index] = series[:, order]
        return data


def metadata_for(
    function: Callable[..., Any], step: Step, samples: Samples, indices: NDArray[np.int64]
) -> dict[str, Any]:
    """The sites and covariates of these subjects that ``function`` has parameters for."""
    names = inspect.signature(function).parameters
    metadata: dict[str, Any] = {}
    if "sites" in names and samples.sites is not None:
        metadata["sites"] = samples.sites[indices]
    if "covariates" in names and step.columns:
        metadata["covariates"] = samples.covariates[list(step.columns)].iloc[indices]
    return metadata


def _make(step: Step) -> Any:
    return pkgutil.resolve_name(step.factory)(**step.parameters)


def _check_declared(step: Step, transformer: Any) -> None:
    """Refuse a transformer that learns something and does not say what."""
    learns = {name for name in vars(transformer) if name.endswith("_")} - {"n_nodes_in_"}
    if learns and not any(transformer._get_state()):
        raise InputError(
            f"The transform {step.name} cannot be saved: {type(transformer).__name__} does not declare what it learns "
            f"({', '.join(sorted(learns))}) in _state_values and _state_arrays."
        )
