"""Transformers that remove the effects of covariates and acquisition sites, learned from training subjects only."""

import copy
import warnings
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from isocapsnet._validation import InputError, check_graphs, check_option
from isocapsnet.datasets.covariates import CovariateEncoder
from isocapsnet.datasets.transformer import GraphTransformer, off_diagonal


class ConfoundRegressor(GraphTransformer):
    """Subtract from each edge what a linear model predicts from covariates such as age and sex.

    The model is fitted on the training subjects; each edge keeps its training mean. Texts are one-hot coded; a value
    that is missing, or a text that was not seen in training, counts as the training average. Pass ``covariates`` (a
    DataFrame, one row per graph) at fit and at transform.
    """

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
    """

    __metadata_request__fit: ClassVar = {"sites": True, "covariates": True}
    __metadata_request__transform: ClassVar = {"sites": True, "covariates": True}

    def __init__(self, unseen: Literal["keep", "refuse"] = "keep") -> None:
        self.unseen = unseen

    def fit(self, X: ArrayLike, y: Any = None, *, sites: Any = None, covariates: Any = None) -> Self:
        """Fit to graphs ``(n_graphs, n_nodes, n_nodes)``, sites ``(n_graphs,)`` and optional covariates."""
        check_option("unseen", self.unseen, ("keep", "refuse"))
        graphs = check_graphs(X)
        site_names = _check_sites(sites, len(graphs))
        frame = None if covariates is None else _check_frame("SiteHarmonizer", covariates, len(graphs))
        self.n_nodes_in_ = graphs.shape[1]
        names, counts = np.unique(site_names, return_counts=True)
        self.sites_ = names[counts >= 2]
        self.combat_ = None
        if len(self.sites_) < 2:
            return self
        is_seen = np.isin(site_names, self.sites_)
        edges = graphs[is_seen].reshape(is_seen.sum(), -1).astype(np.float64)
        self.varies_ = off_diagonal(graphs).ravel() & (edges.std(axis=0) > 1e-12)
        self.encoder_ = None if frame is None else CovariateEncoder().fit(covariates=frame[is_seen])
        self.combat_ = _make_combat(site_names[is_seen], self._encode(frame, is_seen)).fit(edges[:, self.varies_])
        return self

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
        if self.combat_ is None or not is_seen.any():
            return graphs
        if (frame is None) != (self.encoder_ is None):
            raise InputError("SiteHarmonizer needs covariates at fit and at transform, or at neither.")
        edges = graphs.reshape(len(graphs), -1)
        combat = copy.copy(self.combat_).set_params(
            batch=pd.Series(site_names[is_seen]), continuous_covariates=self._encode(frame, is_seen)
        )
        edges[np.ix_(is_seen, self.varies_)] = combat.transform(edges[np.ix_(is_seen, self.varies_)])
        return graphs

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
    try:
        from combatlearn import ComBat
    except ImportError as error:
        raise InputError("Site harmonisation needs combatlearn; install isocapsnet[harmonize].") from error
    method = "johnson" if covariates is None else "fortin"
    return ComBat(batch=pd.Series(sites), continuous_covariates=covariates, method=method)
