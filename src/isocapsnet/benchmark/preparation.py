"""The steps between data and estimator (connectivity, harmonisation, transforms), fitted inside each fold."""

import inspect
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet.benchmark.study import Study


@dataclass(frozen=True)
class Step:
    """A scikit-learn transformer by its import path; ``name`` and ``parameters`` are part of a job's key."""

    name: str
    factory: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


class Preparation:
    """Transformers in a row, fitted on training subjects only.

    ``node_order`` puts the nodes of every graph in another order before the first step. A step whose ``fit`` or
    ``transform`` takes ``sites`` or ``covariates`` is given those of the same subjects.
    """

    def __init__(self, steps: Sequence[Step], study: Study, node_order: NDArray[np.int64] | None = None) -> None:
        self._steps, self._study, self._node_order = steps, study, node_order
        self._fitted: list[Any] = []

    def fit(self, train: NDArray[np.int64], labels: NDArray[Any]) -> NDArray[Any]:
        """Fit every step on the subjects ``train`` and return their prepared graphs (n_train, n_nodes, n_nodes)."""
        self._fitted = []
        graphs, metadata = self._data(train), self._study.metadata(train)
        for step in self._steps:
            transformer = pkgutil.resolve_name(step.factory)(**step.parameters)
            transformer.fit(graphs, labels, **_accepted(transformer.fit, metadata))
            graphs = transformer.transform(graphs, **_accepted(transformer.transform, metadata))
            self._fitted.append(transformer)
        return graphs

    def transform(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Prepared graphs of any subjects (n_indices, n_nodes, n_nodes), with the steps as fitted."""
        graphs, metadata = self._data(indices), self._study.metadata(indices)
        for transformer in self._fitted:
            graphs = transformer.transform(graphs, **_accepted(transformer.transform, metadata))
        return graphs

    def _data(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        """What the study holds of these subjects, its nodes in ``node_order``."""
        data, order = self._study.X[indices], self._node_order
        if order is None:
            return data
        if not self._study.is_time_series:
            return data[:, order][:, :, order]
        if data.dtype != object:
            return data[:, :, order]
        for place, series in enumerate(data):
            data[place] = series[:, order]
        return data


def _accepted(function: Callable[..., Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The part of ``metadata`` that ``function`` has parameters for."""
    names = inspect.signature(function).parameters
    return {name: value for name, value in metadata.items() if name in names}
