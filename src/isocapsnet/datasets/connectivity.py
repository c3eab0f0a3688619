"""From time series to graphs, and from graphs to better graphs, inside a fold.

Everything here is a scikit-learn transformer that learns from the training subjects only. Input and output are graphs
``(n_graphs, n_nodes, n_nodes)``; :class:`TimeSeriesConnectivity` takes time series.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from isocapsnet._packages import importing
from isocapsnet._state import Expected, State, Stateful, check_positive, check_truth
from isocapsnet._validation import InputError, check_number, check_option, off_diagonal
from isocapsnet.datasets.fields import check_series
from isocapsnet.datasets.harmonization import ConfoundRegressor, SiteHarmonizer
from isocapsnet.datasets.transformer import GraphOutputMixin, GraphTransformer

CONNECTIVITY = ("correlation", "partial correlation", "covariance", "precision", "tangent")


class TimeSeriesConnectivity(Stateful, GraphOutputMixin, BaseEstimator):
    """ROI time series to graphs, by nilearn's ConnectivityMeasure (Ledoit-Wolf covariance).

    Parameters
    ----------
    kind : {"correlation", "partial correlation", "covariance", "precision", "tangent"}
        "tangent" is relative to a reference that is fitted on the training subjects.
    """

    packages: ClassVar = {"nilearn": "data"}

    def __init__(self, kind: str = "correlation") -> None:
        self.kind = kind

    def fit(self, X: Sequence[ArrayLike], y: Any = None) -> Self:
        """Fit to time series, each ``(n_timepoints, n_nodes)``."""
        self._check_parameters()
        series = check_series(X)
        self.n_nodes_in_ = series[0].shape[1]
        if self.kind == "tangent":
            self.tangent_ = TangentSpace(shrinkage=0.0).fit(_measure("covariance", series))
        return self

    def transform(self, X: Sequence[ArrayLike]) -> NDArray[np.float64]:
        """Graphs ``(n_graphs, n_nodes, n_nodes)`` with a diagonal of zeros."""
        check_is_fitted(self, "n_nodes_in_")
        series = check_series(X, self.n_nodes_in_)
        if self.kind == "tangent":
            return self.tangent_.transform(_measure("covariance", series))
        return _without_diagonal(_measure(self.kind, series))

    def _check_parameters(self) -> None:
        check_option("kind", self.kind, CONNECTIVITY)

    def _get_state(self) -> State:
        return self.tangent_._get_state() if self.kind == "tangent" else ({}, {})

    def _set_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        if self.kind != "tangent":
            super()._set_state(values, arrays)
            return
        self.tangent_ = TangentSpace(shrinkage=0.0)
        self.tangent_.n_nodes_in_ = self.n_nodes_in_
        self.tangent_._set_state(values, arrays)

    def _state_arrays(self) -> dict[str, Expected]:
        return {}


class TangentSpace(GraphTransformer):
    """Correlation or covariance matrices to the tangent space at their geometric mean (Varoquaux et al., 2010).

    Parameters
    ----------
    shrinkage : float
        Each matrix becomes (1 - shrinkage) * matrix + shrinkage * its mean variance * identity first: with fewer time
        points than regions a correlation matrix is singular, and the tangent space needs positive definite ones.
        Nodes without signal (rows of zeros) count as uncorrelated nodes of mean variance.
    """

    packages: ClassVar = {"nilearn": "data"}

    def __init__(self, shrinkage: float = 0.3) -> None:
        self.shrinkage = shrinkage

    def _check_parameters(self) -> None:
        check_number("shrinkage", self.shrinkage, low=0, high=1)

    def _state_arrays(self) -> dict[str, Expected]:
        shape = (self.n_nodes_in_, self.n_nodes_in_)
        return {"reference": (np.float64, shape), "whitening": (np.float64, shape)}

    def _fit(self, X: NDArray[Any]) -> None:
        measure = _nilearn_measure(kind="tangent", cov_estimator=_GivenCovariance()).fit(list(self._shrink(X)))
        self.reference_, self.whitening_ = measure.mean_, measure.whitening_

    def _transform(self, X: NDArray[Any]) -> NDArray[Any]:
        values, vectors = np.linalg.eigh(self.whitening_ @ self._shrink(X) @ self.whitening_)
        return _without_diagonal((vectors * np.log(values)[:, None, :]) @ vectors.swapaxes(1, 2))

    def _check_graphs(self, X: NDArray[Any]) -> None:
        self._shrink(X)

    def _shrink(self, X: NDArray[Any]) -> NDArray[np.float64]:
        matrices = (X + X.swapaxes(1, 2)).astype(np.float64) / 2
        variance = np.diagonal(matrices, axis1=1, axis2=2)
        if not (variance > 0).any(axis=1).all():
            raise InputError("TangentSpace needs correlations or covariances; the diagonal of a graph is zero.")
        mean_variance = variance.mean(axis=1, where=variance > 0, keepdims=True)
        nodes = np.arange(X.shape[1])
        matrices[:, nodes, nodes] = np.where(variance > 0, variance, mean_variance)
        shrunk = (1 - self.shrinkage) * matrices
        shrunk[:, nodes, nodes] += self.shrinkage * mean_variance
        smallest = np.linalg.eigvalsh(shrunk)[:, 0] / mean_variance[:, 0]
        if smallest.min() <= 1e-10:
            raise InputError(f"Graph {smallest.argmin()} is not positive definite; raise shrinkage={self.shrinkage}.")
        return shrunk


class FisherZ(GraphTransformer):
    """Correlations to Fisher's z, arctanh(r), with a diagonal of zeros; ``|r|`` is clipped at ``limit``."""

    on_edges = "monotone"

    def __init__(self, limit: float = 0.999999) -> None:
        self.limit = limit

    def _check_parameters(self) -> None:
        check_number("limit", self.limit, low=0, high=np.nextafter(1, 0), open_low=True)

    def _check_graphs(self, X: NDArray[Any]) -> None:
        if np.abs(X).max() > 1 + 1e-6:
            raise InputError(
                f"FisherZ needs correlations, but a value of {np.abs(X).max():.6g} was found; sites and covariates "
                'are removed after it, because this moves values beyond 1: transform="fisher-z,harmonize,confounds".'
            )

    def _transform(self, X: NDArray[Any]) -> NDArray[Any]:
        self._check_graphs(X)
        return _without_diagonal(np.arctanh(np.clip(X, -self.limit, self.limit)))


class DensityThreshold(GraphTransformer):
    """Keep the edges that are strongest on average over the training subjects, the same for all subjects.

    Parameters
    ----------
    density : float
        Share of the off-diagonal edges to keep, by mean absolute weight.
    """

    on_edges = "linear"

    def __init__(self, density: float = 0.2) -> None:
        self.density = density

    def _check_parameters(self) -> None:
        check_number("density", self.density, low=0, high=1, open_low=True)

    def _state_arrays(self) -> dict[str, Expected]:
        return {"mask": (np.bool_, (self.n_nodes_in_, self.n_nodes_in_))}

    def _fit(self, X: NDArray[Any]) -> None:
        strength = np.abs(X).mean(axis=0)
        self.mask_ = strength >= np.quantile(strength[off_diagonal(X)], 1 - self.density)

    def _transform(self, X: NDArray[Any]) -> NDArray[Any]:
        return np.where(self.mask_ | ~off_diagonal(X), X, 0)


class ValueThreshold(GraphTransformer):
    """Set weak edges of each subject to zero.

    Parameters
    ----------
    quantile : float
        The threshold is this quantile of the absolute off-diagonal weights of the training subjects.
    """

    on_edges = "monotone"
    _state_values: ClassVar = {"threshold": partial(check_number, low=0, high=np.finfo(np.float64).max)}

    def __init__(self, quantile: float = 0.8) -> None:
        self.quantile = quantile

    def _check_parameters(self) -> None:
        check_number("quantile", self.quantile, low=0, high=1)

    def _fit(self, X: NDArray[Any]) -> None:
        self.threshold_ = float(np.quantile(np.abs(X[:, off_diagonal(X)]), self.quantile))

    def _transform(self, X: NDArray[Any]) -> NDArray[Any]:
        return np.where((np.abs(X) >= self.threshold_) | ~off_diagonal(X), X, 0)


class LogTransform(GraphTransformer):
    """Streamline counts on a logarithmic scale: sign(x) log(1 + ``|x|``)."""

    on_edges = "monotone"

    def _transform(self, X: NDArray[Any]) -> NDArray[Any]:
        return np.sign(X) * np.log1p(np.abs(X))


class EdgeScaler(GraphTransformer):
    """Divide by the standard deviation of the training subjects' off-diagonal edges.

    Parameters
    ----------
    per_edge : bool
        Centre and scale each edge by its own mean and deviation instead of scaling all by one number. An edge that
        does not vary in the training subjects is only centred.
    """

    on_edges = "linear"
    shifts_edges = property(lambda self: self.per_edge)

    def __init__(self, per_edge: bool = False) -> None:
        self.per_edge = per_edge

    def _check_parameters(self) -> None:
        check_truth("per_edge", self.per_edge)

    def _state_arrays(self) -> dict[str, Expected]:
        shape = (self.n_nodes_in_, self.n_nodes_in_) if self.per_edge else ()
        return {"center": (np.float64, shape), "scale": (np.float64, shape)}

    def _set_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._set_state(values, arrays)
        check_positive("scale", self.scale_)

    def _fit(self, X: NDArray[Any]) -> None:
        edges = X if self.per_edge else X[:, off_diagonal(X)]
        deviation = np.asarray(edges.std(axis=0 if self.per_edge else None, dtype=np.float64))
        self.center_ = X.mean(axis=0, dtype=np.float64) if self.per_edge else np.zeros(())
        self.scale_ = np.where(deviation > 0, deviation, 1.0)

    def _transform(self, X: NDArray[Any]) -> NDArray[Any]:
        return (X - self.center_) / self.scale_


class SignedEdges(GraphTransformer):
    """What to do with negative edges.

    Parameters
    ----------
    policy : {"absolute", "positive", "negative"}
        Take absolute values, keep positive edges only, or keep the size of negative edges only.
    """

    on_edges = "edgewise"

    def __init__(self, policy: Literal["absolute", "positive", "negative"] = "absolute") -> None:
        self.policy = policy

    def _check_parameters(self) -> None:
        check_option("policy", self.policy, ("absolute", "positive", "negative"))

    def _transform(self, X: NDArray[Any]) -> NDArray[Any]:
        return np.abs(X) if self.policy == "absolute" else np.maximum(X if self.policy == "positive" else -X, 0)


class _GivenCovariance(BaseEstimator):
    """Lets nilearn work on covariance matrices where it expects time series."""

    def fit(self, X: NDArray[Any], y: Any = None) -> Self:
        self.covariance_ = X
        return self


def _nilearn_measure(**arguments: Any) -> Any:
    with importing("Connectivity and tangent space need nilearn", "data"):
        from nilearn.connectome import ConnectivityMeasure
    return ConnectivityMeasure(**arguments)


def _measure(kind: str, series: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Connectivity of each subject on its own ``(n_graphs, n_nodes, n_nodes)``."""
    return np.asarray(_nilearn_measure(kind=kind).fit_transform([np.asarray(one, dtype=np.float64) for one in series]))


def _without_diagonal(graphs: NDArray[Any]) -> NDArray[Any]:
    graphs[:, np.eye(graphs.shape[1], dtype=bool)] = 0
    return graphs


#: Names for the command line; all take graphs and can follow one another.
TRANSFORMS: dict[str, type[GraphTransformer]] = {
    "tangent": TangentSpace,
    "fisher-z": FisherZ,
    "density": DensityThreshold,
    "threshold": ValueThreshold,
    "log": LogTransform,
    "scale": EdgeScaler,
    "signs": SignedEdges,
    "confounds": ConfoundRegressor,
    "harmonize": SiteHarmonizer,
}
