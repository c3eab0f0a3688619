"""The steps between data and estimator (connectivity, harmonisation, transforms), fitted inside each fold."""

import inspect
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._packages import check_packages, packages_of
from isocapsnet._state import Stateful
from isocapsnet._validation import InputError
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
        """What the result of the step depends on, as JSON values."""
        return {"name": self.name, "parameters": self.parameters, "columns": self.columns}


def name_covariates(step: Mapping[str, Any]) -> list[str]:
    """What a step :data:`COVARIATES`, given by its identity, codes: its columns and perhaps the site."""
    return [*step["columns"], *(["site"] if step["parameters"].get("use_sites") else [])]


class Preparation:
    """A pipeline of transformers, fitted on training subjects only.

    A benchmark fits one in each fold, and a saved model has one. The nodes of every graph are put into ``node_order``
    before the first step. If ``fit`` or ``transform`` of a step has parameters ``sites`` or ``covariates``, it is given
    those of the same subjects (the covariates of its columns). With the step :data:`COVARIATES` no graph is read: the
    step makes columns of numbers from what it is given. A search may put one of ``choices`` behind the other steps.

    Attributes
    ----------
    fitted : list of (Step, transformer)
        Empty before ``fit``.
    training : (Samples, indices) or None
        What it was fitted to.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        node_order: NDArray[np.int64] | None = None,
        choices: Mapping[str, Step] = MappingProxyType({}),
    ) -> None:
        self.steps, self._node_order, self.choices = tuple(steps), node_order, choices
        self.fitted: list[tuple[Step, Any]] = []
        self.training: tuple[Samples, NDArray[np.int64]] | None = None

    def fit(self, samples: Samples, train: NDArray[np.int64], labels: NDArray[Any]) -> NDArray[Any]:
        """Fit every step on the subjects ``train`` and return their prepared graphs (n_train, n_nodes, n_nodes)."""
        self.fitted, self.training = [], (samples, train)
        graphs = self._data(samples, train)
        for step in self.steps:
            transformer = make_transformer(step)
            transformer.fit(graphs, labels, **metadata_for(transformer.fit, step, samples, train))
            graphs = transformer.transform(graphs, **metadata_for(transformer.transform, step, samples, train))
            self.fitted.append((step, transformer))
        return graphs

    def choose(self, name: str, graphs: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
        """Try one of the choices, or none: fit it to what :meth:`fit` returned, in place of one tried before."""
        del self.fitted[len(self.steps) :]
        if name in self.choices:
            self.fitted.append((self.choices[name], make_transformer(self.choices[name]).fit(graphs, labels)))
        return self.apply_choice(graphs)

    def apply_choice(self, graphs: NDArray[Any]) -> NDArray[Any]:
        """Graphs that went through all other steps, after the choice that is tried."""
        for _, transformer in self.fitted[len(self.steps) :]:
            graphs = transformer.transform(graphs)
        return graphs

    def settle(self, settings: Mapping[str, Any]) -> "Preparation":
        """A preparation without choices, not fitted: the one that a search has chosen is the last step."""
        step = self.choices.get(settings.get(TRANSFORM, NO_TRANSFORM))
        return Preparation((*self.steps, *([] if step is None else [step])), self._node_order)

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
            transformer = make_transformer(step)
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


def make_transformer(step: Step) -> Any:
    """The transformer of a step, not fitted."""
    return pkgutil.resolve_name(step.factory)(**step.parameters)


def check_installed(steps: Iterable[Step]) -> None:
    """Refuse steps that need packages which are not installed here."""
    for step in steps:
        check_packages(step.name, packages_of(pkgutil.resolve_name(step.factory)))


def _check_declared(step: Step, transformer: Any) -> None:
    """Refuse a transformer that learns something and does not say what."""
    learns = {name for name in vars(transformer) if name.endswith("_")} - {"n_nodes_in_"}
    if not isinstance(transformer, Stateful) or (learns and not any(transformer._get_state())):
        raise InputError(
            f"The transform {step.name} cannot be saved: {type(transformer).__name__} does not declare what it learns "
            f"({', '.join(sorted(learns)) or 'nothing'}) in _state_values and _state_arrays; see GraphTransformer."
        )
