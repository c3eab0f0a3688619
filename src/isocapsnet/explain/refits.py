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

    Yields
    ------
    explanation : Explanation
    test : array (n_test,)
        The graphs that this fit did not see.
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
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=random_state)
    for place, (train, test) in enumerate(folds.split(codes, codes)):
        refit = clone(estimator).set_params(random_state=random_state + place)
        refit.fit(X[train], classes[codes[train]])
        yield explain(refit, X[test], classes[codes[test]], method), test
