"""Covariates of subjects as numbers, learned from training subjects only."""

from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from isocapsnet._state import Expected, Stateful, check_names
from isocapsnet._validation import InputError
from isocapsnet.datasets.fields import is_missing

_SITE = "acquisition site"


def _check_levels(name: str, value: Any) -> None:
    """Refuse anything but lists of texts by column."""
    if not isinstance(value, dict):
        raise InputError(f"{name} are not lists of texts by column")
    for column, levels in value.items():
        check_names(f"{name} of {column!r:.60}", levels)


class CovariateEncoder(Stateful, BaseEstimator):
    """Covariates as columns of numbers in which 0 is the average of the training subjects.

    Texts are one-hot coded, without the last level. A value that is missing, or a text that was not seen in training,
    counts as the training average. Pass ``covariates`` (a DataFrame, one row per subject) and ``sites`` at fit and at
    transform; graphs are not looked at.

    Parameters
    ----------
    use_sites : bool
        Code the sites like a column of texts.
    """

    _state_values: ClassVar = {"columns": check_names, "levels": _check_levels}

    def __init__(self, use_sites: bool = False) -> None:
        self.use_sites = use_sites

    def fit(self, X: Any = None, y: Any = None, *, sites: ArrayLike | None = None, covariates: Any = None) -> Self:
        """Learn levels and averages from covariates ``(n_subjects, n_covariates)`` and sites ``(n_subjects,)``."""
        frame = self._frame(sites, covariates)
        self.columns_ = list(frame.columns)
        texts = [column for column in self.columns_ if frame[column].dtype.kind not in "biuf"]
        self.levels_ = {c: sorted({*_as_texts(frame[c][~frame[c].map(is_missing)])}) for c in texts}
        self.means_ = self._expand(frame).mean().fillna(0).to_numpy(np.float64)
        return self

    def transform(
        self, X: Any = None, *, sites: ArrayLike | None = None, covariates: Any = None
    ) -> NDArray[np.float64]:
        """Columns of numbers ``(n_subjects, n_columns)``."""
        frame = self._frame(sites, covariates)
        if missing := [column for column in self.columns_ if column not in frame]:
            raise InputError(f"The covariate {missing[0]!r} was there at fit and is missing now.")
        return (self._expand(frame) - self.means_).fillna(0).to_numpy(np.float64)

    def find_missing(self, covariates: pd.DataFrame) -> NDArray[np.bool_]:
        """Which values are missing, texts in a column of numbers, or texts that were not seen in training.

        ``(n_subjects, n_covariates)``.
        """
        return np.column_stack(
            [
                ~_as_texts(values).isin(self.levels_[column]) if column in self.levels_ else _as_numbers(values).isna()
                for column, values in covariates[self.columns_].items()
            ]
        )

    @property
    def n_columns_(self) -> int:
        """Columns of numbers that covariates become."""
        return sum(max(0, len(self.levels_[c]) - 1) if c in self.levels_ else 1 for c in self.columns_)

    def _state_arrays(self) -> dict[str, Expected]:
        return {"means": (np.float64, (self.n_columns_,))}

    def _frame(self, sites: ArrayLike | None, covariates: Any) -> pd.DataFrame:
        frame = pd.DataFrame(covariates).reset_index(drop=True)
        if not self.use_sites:
            return frame
        if sites is None:
            raise InputError("use_sites=True needs sites; pass sites= at fit and at transform.")
        names = pd.Series(np.asarray(sites).astype(str), name=_SITE)
        return pd.concat([frame.drop(columns=_SITE, errors="ignore"), names], axis=1)

    def _expand(self, frame: pd.DataFrame) -> pd.DataFrame:
        """One column per number, and per level of a text but the last; NaN where a value is missing or new."""
        expanded: list[pd.Series] = []
        for column in self.columns_:
            if column not in self.levels_:
                expanded.append(_as_numbers(frame[column]))
                continue
            values = _as_texts(frame[column])
            is_seen = values.isin(self.levels_[column])
            expanded += [(values == level).astype(np.float64).where(is_seen) for level in self.levels_[column][:-1]]
        return pd.concat(expanded, axis=1, ignore_index=True) if expanded else pd.DataFrame(index=frame.index)


def _as_numbers(values: pd.Series) -> pd.Series:
    """A column of numbers, with NaN for texts that are none."""
    return pd.to_numeric(values, errors="coerce").astype(np.float64)


def _as_texts(values: pd.Series) -> pd.Series:
    """A column of texts. Whole numbers are written without decimals: a file may have 1 as a text or as a number."""
    return values.astype(str).str.replace(r"^(-?\d+)\.0+$", r"\1", regex=True)
