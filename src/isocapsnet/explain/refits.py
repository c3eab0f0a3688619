"""Refits of a model on folds of the data, each explained on the fold that it did not see."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from isocapsnet._validation import InputError, check_graphs, check_labels, check_number
from isocapsnet.explain.fits import FitExplanation, explain_fit


def explain_refits(
    estimator: Any,
    graphs: ArrayLike,
    labels: ArrayLike,
    folds: int = 5,
    method: str = "gradient",
    random_state: int = 0,
) -> Iterator[tuple[FitExplanation, NDArray[np.int64]]]:
    """Fit a clone of the estimator to all folds but one, and explain it on the remaining fold.

    A model cannot be judged on graphs that it trained on, and stability cannot be judged from one fit.

    Parameters
    ----------
    estimator : NetworkClassifier
        It is not changed; its parameters are used.
    graphs : array-like (n_graphs, n_nodes, n_nodes)
    labels : array-like (n_graphs,)
    folds : int
        Number of folds, stratified by class.
    method : {"gradient", "integrated"}
        How edges are attributed.
    random_state : int
        Seed of the folds; fit number i uses ``random_state + i``.

    Returns
    -------
    iterator of (explanation, test)
        ``test`` ``(n_test,)`` are the indices of the graphs that this fit did not see. Input is checked before the
        first fit.
    """
    X = check_graphs(graphs)
    check_number("folds", folds, low=2, integer=True)
    classes, codes = check_labels(labels, len(X))
    counts = np.bincount(codes)
    if counts.min() < folds:
        raise InputError(
            f"folds={folds} needs {folds} graphs of each class, but class {classes[counts.argmin()]} has "
            f"{counts.min()}; use fewer folds."
        )
    splits = StratifiedKFold(folds, shuffle=True, random_state=random_state).split(codes, codes)

    def explain_fold(fold: int, train: NDArray[np.int64], test: NDArray[np.int64]) -> FitExplanation:
        refit = clone(estimator).set_params(random_state=random_state + fold)
        if "calibrate" in refit.get_params():
            refit.set_params(calibrate=False)  # class scores are explained, not probabilities
        return explain_fit(refit.fit(X[train], classes[codes[train]]), X[test], classes[codes[test]], method)

    return ((explain_fold(fold, train, test), test) for fold, (train, test) in enumerate(splits))
