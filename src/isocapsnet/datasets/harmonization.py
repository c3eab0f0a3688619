"""Transformers that remove the effects of covariates and acquisition sites, learned from training subjects only."""

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from isocapsnet._packages import importing
from isocapsnet._safe_text import list_some
from isocapsnet._state import State, check_arrays, check_names, check_positive
from isocapsnet._validation import InputError, check_graphs, check_option, off_diagonal
from isocapsnet.datasets.covariates import CovariateEncoder
from isocapsnet.datasets.transformer import GraphTransformer


class ConfoundRegressor(GraphTransformer):
    """Subtract from each edge what a linear model predicts from covariates such as age and sex.

    The model is fitted on the training subjects; each edge keeps its training mean. Texts are one-hot coded; a value
    that is missing, or a text that was not seen in training, counts as the training average. Pass ``covariates`` (a
    DataFrame, one row per graph) at fit and at transform.
    """

    on_edges, shifts_edges = "linear", True
    __metadata_request__fit: ClassVar = {"covariates": True}
    __metadata_request__transform: ClassVar = {"covariates": True}

    def fit(self, X: ArrayLike, y: Any = None, *, covariates: Any = None) -> Self:
        """Fit to graphs ``(n_graphs, n_nodes, n_nodes)`` and covariates ``(n_graphs, n_covariates)``."""
        graphs = check_graphs(X)
        frame = _check_frame("ConfoundRegressor", covariates, len(graphs))
        self.encoder_ = CovariateEncoder().fit(covariates=frame)
        design = self.encoder_.transform(covariates=frame)
        if len(graphs) <= design.shape[1] + 1:
            raise InputError(f"{len(graphs)} graphs are too few to regress out {design.shape[1]} covariate columns.")
        self.n_nodes_in_ = graphs.shape[1]
        edges = graphs.reshape(len(graphs), -1).astype(np.float64)
        self.coefficients_ = np.linalg.lstsq(design, edges - edges.mean(axis=0), rcond=None)[0]
        return self

    def transform(self, X: ArrayLike, *, covariates: Any = None) -> NDArray[np.float64]:
        """Graphs without what the covariates explain."""
        graphs = self._check_fitted(X)
        frame = _check_frame("ConfoundRegressor", covariates, len(graphs))
        explained = self.encoder_.transform(covariates=frame) @ self.coefficients_
        return graphs - explained.reshape(graphs.shape)

    def check_subjects(self, subjects: Sequence[str], *, covariates: pd.DataFrame) -> None:
        """Refuse subjects without a value of a covariate, or with a text that no training subject had."""
        missing = self.encoder_.find_missing(covariates)
        if missing.any():
            row, column = np.argwhere(missing)[0].tolist()
            name = self.encoder_.columns_[column]
            raise InputError(
                f"The covariate {name!r} of subject {subjects[row]} is {str(covariates[name].iloc[row])!r:.60}, which "
                f"is missing or was not seen in training ({missing.any(axis=1).sum()} of {len(subjects)} subjects); "
                "fill it in, leave the subject out with exclude=, or use the training average with "
                'missing_covariates="average".'
            )

    def _get_state(self) -> State:
        values, arrays = self.encoder_._get_state()
        return values, {**arrays, "coefficients": self.coefficients_}

    def _set_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.encoder_ = CovariateEncoder()
        self.encoder_._set_state(values, {name: array for name, array in arrays.items() if name != "coefficients"})
        shape = (self.encoder_.n_columns_, self.n_nodes_in_**2)
        check_arrays({"coefficients": arrays["coefficients"]}, {"coefficients": (np.float64, shape)})
        self.coefficients_ = arrays["coefficients"]


class SiteHarmonizer(GraphTransformer):
    """ComBat over acquisition sites (Johnson et al., 2007; Fortin et al., 2018), by the library combatlearn.

    Location and scale of every edge are brought to the training subjects' common ones, site by site. With
    ``covariates``, what they explain is kept. Pass ``sites`` (and ``covariates``) at fit and at transform. The diagonal
    and edges that do not vary in the training subjects stay as they are.

    Parameters
    ----------
    unseen : {"keep", "refuse"}
        What to do with a graph from a site with fewer than two training subjects: keep the graph as it is, with a
        warning, or refuse it.

    Attributes
    ----------
    sites_ : array of str (n_sites,)
        Sites with two training subjects or more, sorted.
    scale_, shift_ : array (n_sites, n_nodes, n_nodes)
        A harmonised edge is its value times the scale of its site, plus the shift.
    effects_ : array (n_sites, n_columns, n_nodes, n_nodes)
        What is added for each coded covariate.
    """

    packages: ClassVar = {"combatlearn": "harmonize"}
    on_edges, shifts_edges = "linear", True
    __metadata_request__fit: ClassVar = {"sites": True, "covariates": True}
    __metadata_request__transform: ClassVar = {"sites": True, "covariates": True}

    def __init__(self, unseen: Literal["keep", "refuse"] = "keep") -> None:
        self.unseen = unseen

    def fit(self, X: ArrayLike, y: Any = None, *, sites: Any = None, covariates: Any = None) -> Self:
        """Fit to graphs ``(n_graphs, n_nodes, n_nodes)``, sites ``(n_graphs,)`` and optional covariates."""
        self._check_parameters()
        graphs = check_graphs(X)
        site_names = _check_sites(sites, len(graphs))
        frame = None if covariates is None else _check_frame("SiteHarmonizer", covariates, len(graphs))
        self.n_nodes_in_ = graphs.shape[1]
        names, counts = np.unique(site_names, return_counts=True)
        self.sites_ = names[counts >= 2]
        shape = (len(self.sites_), self.n_nodes_in_, self.n_nodes_in_)
        self.scale_, self.shift_ = np.ones(shape), np.zeros(shape)
        is_seen = np.isin(site_names, self.sites_)
        self.encoder_ = None if frame is None else CovariateEncoder().fit(covariates=frame[is_seen])
        self.effects_ = np.zeros((shape[0], 0 if self.encoder_ is None else self.encoder_.n_columns_, *shape[1:]))
        if len(self.sites_) < 2:
            return self
        edges = graphs[is_seen].reshape(is_seen.sum(), -1).astype(np.float64)
        varies = off_diagonal(graphs).ravel() & (edges.std(axis=0) > 1e-12)
        combat = _make_combat(site_names[is_seen], self._encode(frame, is_seen)).fit(edges[:, varies])
        self._read_parameters(combat, varies, unit=float(np.abs(edges).max()))
        return self

    def _read_parameters(self, combat: Any, varies: NDArray[np.bool_], unit: float) -> None:
        """Learn scale, shift and effects of covariates by applying a fitted ComBat, which is linear in both.

        The graphs that it is applied to have edges of 0 or ``unit`` and average covariates, and edges of 0 and one
        covariate that differs from its average by 1.
        """
        n_covariates = self.effects_.shape[1]
        steps = np.eye(2 + n_covariates)  # zero, unit, then each covariate
        for number, site in enumerate(self.sites_):
            combat.set_params(
                batch=pd.Series([site] * len(steps)),
                continuous_covariates=None if self.encoder_ is None else pd.DataFrame(steps[:, 2:]),
            )
            shift, at_unit, *others = np.asarray(combat.transform(np.outer(steps[:, 1] * unit, np.ones(varies.sum()))))
            self.shift_[number].flat[varies] = shift
            self.scale_[number].flat[varies] = (at_unit - shift) / unit
            for column, other in enumerate(others):
                self.effects_[number, column].flat[varies] = other - shift

    def transform(self, X: ArrayLike, *, sites: Any = None, covariates: Any = None) -> NDArray[np.float64]:
        """Harmonised graphs ``(n_graphs, n_nodes, n_nodes)``."""
        graphs = self._check_fitted(X).astype(np.float64)
        site_names = _check_sites(sites, len(graphs))
        frame = None if covariates is None else _check_frame("SiteHarmonizer", covariates, len(graphs))
        is_seen = np.isin(site_names, self.sites_)
        if not is_seen.all():
            sentence = f"Site '{site_names[~is_seen][0]}' has fewer than two training subjects"
            if self.unseen == "refuse":
                raise InputError(f'{sentence}; harmonise with unseen="keep" or keep the site in the training data.')
            warnings.warn(f"{sentence}; its graphs are kept as they are.", stacklevel=2)
        if (frame is None) != (self.encoder_ is None):
            raise InputError("SiteHarmonizer needs covariates at fit and at transform, or at neither.")
        coded = self._encode(frame, is_seen)
        encoded = None if coded is None else coded.to_numpy()
        numbers = np.searchsorted(self.sites_, site_names[is_seen])
        for row, (index, number) in enumerate(zip(np.flatnonzero(is_seen), numbers, strict=True)):
            graphs[index] *= self.scale_[number]  # in place: scales of all subjects are as large as their graphs
            graphs[index] += self.shift_[number]
            if encoded is not None:
                graphs[index] += np.einsum("c,cij->ij", encoded[row], self.effects_[number])
        return graphs

    def check_subjects(self, subjects: Sequence[str], *, sites: NDArray[Any]) -> None:
        """Refuse subjects of a site that the training data did not have."""
        unseen = [index for index, site in enumerate(sites) if str(site) not in self.sites_]
        if unseen:
            raise InputError(
                f"Subject {subjects[unseen[0]]} is from site {str(sites[unseen[0]])!r:.60}, which has fewer than two "
                f"training subjects ({len(unseen)} of {len(subjects)} subjects); sites are harmonised, so leave these "
                'subjects out with exclude=, or keep their graphs as they are with unseen_sites="keep". The sites of '
                f"the model are {list_some(self.sites_.tolist())}."
            )

    def _check_parameters(self) -> None:
        check_option("unseen", self.unseen, ("keep", "refuse"))

    def _get_state(self) -> State:
        values, arrays = ({}, {}) if self.encoder_ is None else self.encoder_._get_state()
        own = {"scale": self.scale_, "shift": self.shift_, "effects": self.effects_}
        return {"sites": self.sites_.tolist(), "encoder": values}, {**arrays, **own}

    def _set_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        names = check_names("sites", values["sites"])
        if names != sorted(names):
            raise InputError("its sites are not sorted")
        self.sites_ = np.array(names, dtype=np.str_)
        arrays, self.encoder_ = dict(arrays), None
        if values["encoder"]:
            self.encoder_ = CovariateEncoder()
            self.encoder_._set_state(values["encoder"], {"means": arrays.pop("means")})
        n_sites, n_nodes = len(self.sites_), self.n_nodes_in_
        n_columns = 0 if self.encoder_ is None else self.encoder_.n_columns_
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("scale", "shift"), (n_sites, n_nodes, n_nodes))
        shapes["effects"] = (n_sites, n_columns, n_nodes, n_nodes)
        check_arrays(arrays, {name: (np.float64, shape) for name, shape in shapes.items()})
        check_positive("scale", arrays["scale"])
        self.scale_, self.shift_, self.effects_ = arrays["scale"], arrays["shift"], arrays["effects"]

    def _encode(self, frame: pd.DataFrame | None, rows: NDArray[np.bool_]) -> pd.DataFrame | None:
        if frame is None or self.encoder_ is None:
            return None
        return pd.DataFrame(self.encoder_.transform(covariates=frame[rows]))


def _check_frame(name: str, covariates: Any, n_graphs: int) -> pd.DataFrame:
    if covariates is None:
        raise InputError(f"{name} needs covariates; pass covariates= at fit and at transform.")
    frame = pd.DataFrame(covariates).reset_index(drop=True)
    if len(frame) != n_graphs:
        raise InputError(f"There are {n_graphs} graphs but {len(frame)} rows of covariates.")
    return frame


def _check_sites(sites: Any, n_graphs: int) -> NDArray[np.str_]:
    if sites is None:
        raise InputError("SiteHarmonizer needs sites; pass sites= at fit and at transform.")
    names = np.asarray(sites).astype(np.str_)
    if names.shape != (n_graphs,):
        raise InputError(f"There are {n_graphs} graphs but sites have shape {names.shape}.")
    return names


def _make_combat(sites: NDArray[np.str_], covariates: pd.DataFrame | None) -> Any:
    with importing("Site harmonisation needs combatlearn", "harmonize"):
        from combatlearn import ComBat
    method = "johnson" if covariates is None else "fortin"
    return ComBat(batch=pd.Series(sites), continuous_covariates=covariates, method=method)
