"""Refits of a model on folds of the data: what it takes to say anything honest about one saved model."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from isocapsnet._validation import InputError, check_graphs, check_labels, check_number
from isocapsnet.explain.explanation import Explanation, explain


def explain_refits(
    estimator: Any,
    graphs: ArrayLike,
    labels: ArrayLike,
    n_folds: int = 5,
    method: str = "gradient",
    random_state: int = 0,
) -> Iterator[tuple[Explanation, NDArray[np.int64]]]:
    """Fit the estimator's settings anew on all folds but one, and explain each fit on the fold it did not see.

    A model cannot be judged on graphs that it trained on, and a single fit cannot be called stable.

    Parameters
    ----------
    estimator : NetworkClassifier
        Left as it is; its parameters are used.
    graphs : array-like (n_graphs, n_nodes, n_nodes)
    labels : array-like (n_graphs,)
    n_folds : int
        Stratified by class.
    method : {"gradient", "integrated"}
        How edges are attributed.
    random_state : int
        Of the folds; fit number i starts from ``random_state + i``.

    Returns
    -------
    iterator of (explanation, test)
        ``test`` ``(n_test,)`` are the graphs that this fit did not see. Wrong input is refused before the first fit.
    """
    X = check_graphs(graphs)
    check_number("n_folds", n_folds, low=2, integer=True)
    classes, codes = check_labels(labels, len(X))
    counts = np.bincount(codes)
    if counts.min() < n_folds:
        raise InputError(
            f"{n_folds} folds need {n_folds} graphs of each class, but class {classes[counts.argmin()]} has "
            f"{counts.min()}; use fewer folds."
        )
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=random_state).split(codes, codes)

    def explain_fold(place: int, train: NDArray[np.int64], test: NDArray[np.int64]) -> Explanation:
        refit = clone(estimator).set_params(random_state=random_state + place)
        if "calibrate" in refit.get_params():
            refit.set_params(calibrate=False)  # class scores are explained, not probabilities
        return explain(refit.fit(X[train], classes[codes[train]]), X[test], classes[codes[test]], method)

    return ((explain_fold(place, train, test), test) for place, (train, test) in enumerate(folds))
