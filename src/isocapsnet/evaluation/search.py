"""Which candidates of a search are tried in which inner folds, and which one is chosen.

The first candidate is the default setting of a method. A new search is one entry of :data:`SEARCHES`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: A lead or a gap counts if it is larger than this share of a standard error; see :func:`lead`.
SHARE = 0.25

Scores = NDArray[np.float64]


def lead(n_graphs: int) -> float:
    """The ROC AUC by which a candidate must differ from the defaults after ``n_graphs`` held-out graphs.

    1 / √(3n) is the standard error of the ROC AUC of n graphs in two classes of equal size without any association.
    """
    return SHARE / np.sqrt(3 * n_graphs)


def _keep_all(rows: list[int], means: Scores, margin: float) -> list[int]:
    return rows


def _best(rows: list[int], means: Scores, margin: float) -> int:
    return max(rows, key=lambda row: (means[row], -row))


def _keep_better_half(rows: list[int], means: Scores, margin: float) -> list[int]:
    """The better half of the candidates; the defaults always, and no other that is ``margin`` behind them."""
    ranked = sorted(rows, key=lambda row: (-means[row], row))
    n_kept = (len(rows) + 1) // 2
    if 0 not in rows:
        return ranked[:n_kept]
    others = [row for row in ranked if row != 0 and means[row] > means[0] - margin]
    return [0, *others[: max(n_kept - 1, 1)]]


def _best_by_a_lead(rows: list[int], means: Scores, margin: float) -> int:
    """The best candidate; the defaults unless it is more than ``margin`` better."""
    best = _best(rows, means, margin)
    return 0 if 0 in rows and means[best] - means[0] <= margin else best


class Search(NamedTuple):
    """``keep(rows, means, margin)`` lists the candidates for the next fold, ``choose(rows, means, margin)`` the best.

    ``rows`` are the candidates that were tried in all folds so far, ``means`` the mean ROC AUC of every candidate, and
    ``margin`` is that of :func:`lead`.
    """

    keep: Callable[[list[int], Scores, float], list[int]]
    choose: Callable[[list[int], Scores, float], int]


SEARCHES = {
    "halving": Search(_keep_better_half, _best_by_a_lead),
    "exhaustive": Search(_keep_all, _best),
}


def race(
    search: Search, n_candidates: int, sizes: Sequence[int], score: Callable[[int, list[int]], Sequence[float]]
) -> tuple[int | None, Scores]:
    """The chosen candidate, and the scores ``(n_candidates, n_folds)``, NaN where a candidate was not tried.

    ``score(fold, rows)`` are the scores of some candidates in a fold; one that is NaN puts its candidate out of the
    race. ``sizes`` are the numbers of held-out graphs of the folds. None is chosen if no candidate is left.
    """
    scores = np.full((n_candidates, len(sizes)), np.nan)
    rows = list(range(n_candidates))
    margin = 0.0
    for fold in range(len(sizes)):
        if fold:
            rows = search.keep(rows, scores[:, :fold].mean(axis=1), margin)
        if len(rows) < 2:  # nothing to compare
            break
        scores[rows, fold] = score(fold, rows)
        rows = [row for row in rows if not np.isnan(scores[row, fold])]
        margin = lead(sum(sizes[: fold + 1]))
    n_tried = int((~np.isnan(scores)).any(axis=0).sum())
    if len(rows) < 2:
        return next(iter(rows), None), scores
    return search.choose(rows, scores[:, :n_tried].mean(axis=1), margin), scores


def count_fits(search: str, n_candidates: int, n_folds: int, *, fewest: bool = False) -> int:
    """The largest number of inner fits that a search may need, or the smallest: the defaults are far ahead then."""
    fits = 0

    def count(fold: int, rows: list[int]) -> Sequence[float]:
        nonlocal fits
        fits += len(rows)
        return [float(fewest and row == 0) for row in rows]

    race(SEARCHES[search], n_candidates, [1] * n_folds, count)
    return fits
