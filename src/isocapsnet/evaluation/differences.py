"""The difference in ROC AUC of two methods over the same test folds, from what the test subjects add to it."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from isocapsnet.evaluation.areas import FoldArea, pair_shares
from isocapsnet.evaluation.statistics import LEVEL, Interval, weighted_mean

#: Two methods whose ROC AUC differs by less than this are called equivalent.
MARGIN = 0.03
#: In larger test folds the excess of DeLong's variance is approximated. It is below one percent if scores do not
#: separate the classes.
_MOST_PAIRED = 100
#: How much fits vary is not estimated from fewer folds.
_FEWEST_FITS = 5


class Difference(NamedTuple):
    """The difference of two methods: its interval, and p-values of "they are equal" and "they differ by MARGIN"."""

    interval: Interval
    p_value: float
    p_equivalent: float


def difference(first: Sequence[FoldArea], second: Sequence[FoldArea], margin: float = MARGIN) -> Difference:
    """Difference in ROC AUC of two methods over the same folds.

    The area is a mean over pairs of test subjects of different classes. The variance of such a mean is the sum of the
    products of all pairs that share a subject (Hoeffding, 1948). With c_il for what the pair of subjects i and l adds
    to the difference, less its expectation, this is v = Σ_i (Σ_l c_il)² - Σ_il c_il². The first sum is the variance
    of DeLong, DeLong and Clarke-Pearson (1988), Σ_k S_k / n_k over classes k, where S_k is the variance of the
    subjects' differences of placements. The second one is the small-sample excess of the first, which counts each pair
    twice. Both are summed over folds, so that folds with a single subject of a class can be used. v is at least
    half of the first sum, its lower bound for two classes.

    If the cross-validation is repeated, c_il is the mean over repeats, so that what differs between them by chance is
    averaged out. How much repeats differ also bounds how much their mean depends on shared training subjects:
    :func:`largest_variance`. Fits may also be better or worse as a whole, as those of a network that may fail to
    converge. If the differences of J folds vary by more than their subjects imply, the excess over J is added. Fewer
    than five folds say too little about this: with a single repeat of three folds, methods that are equally good on
    average may be called different because fits failed.

    S_k is at least 1 / (4 C² n_k), as if the placement of one of the n_k subjects of the class differed by half of its
    range in one of the C scored columns (one for two classes): otherwise methods that are both perfect would be said to
    differ by exactly 0.

    If people have several graphs, placements are averaged over the graphs of a person, and people are what is counted.

    Since S_k is estimated, quantiles are those of Student's t with the degrees of freedom of Welch and Satterthwaite,
    at most the number of subjects minus the number of folds minus one: in each fold, placements of the classes have
    means that depend on each other.
    "They are equal" is tested two-sided. "They differ by ``margin`` or more" is tested by two one-sided tests, of which
    the larger p-value is returned (Schuirmann, 1987).
    """
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if not np.isnan(a.area - b.area)]
    if not pairs:
        return Difference(Interval(*[float("nan")] * 3), 1.0, 1.0)
    mean = weighted_mean([a.area - b.area for a, b in pairs], [a.weight for a, _ in pairs])
    variance, freedom = _paired_variance(pairs)
    error = float(np.sqrt(variance))
    half = float(stats.t.isf(LEVEL / 2, freedom)) * error
    p_value, p_equivalent = stats.t.sf([abs(mean) / error, (margin - abs(mean)) / error], freedom)
    interval = Interval(mean, max(mean - half, -1.0), min(mean + half, 1.0))
    return Difference(interval, float(2 * p_value), float(p_equivalent))


def _paired_variance(pairs: Sequence[tuple[FoldArea, FoldArea]]) -> tuple[float, float]:
    """The variance V of the mean difference in area, and its degrees of freedom."""
    pairs = [(_per_person(a), _per_person(b)) for a, b in pairs]
    folds = [a for a, _ in pairs]
    who, sizes = _number_subjects(pairs), np.array([fold.n_test for fold in folds])
    repeats = len(who) / (who.max() + 1)
    # The factor for shared training subjects, with the weights that folds have in one repeat; a fold's share in the
    # mean over repeats is smaller.
    weights = np.array([fold.weight for fold in folds], dtype=np.float64)
    weights *= repeats / weights.sum()
    spread = np.sqrt(weights**2 + weights * sizes / [fold.n_train for fold in folds])
    variance, freedom = _delong_variance(pairs, who, spread / repeats)
    single = variance
    if round(repeats) > 1:  # otherwise, at most some people were tested twice
        single, _ = _delong_variance(pairs, np.arange(len(who)), spread / np.sqrt(repeats), repeats)
        variance = largest_variance(variance, single, repeats, _shared_training(who, sizes))
    if len(pairs) < _FEWEST_FITS:
        return variance, freedom
    # Fits that are better or worse as a whole: what differences of folds vary beyond what their subjects imply.
    gaps, shares = np.array([a.area - b.area for a, b in pairs]), weights / repeats
    implied = single * repeats / np.sum(spread**2)
    excess = len(gaps) / (len(gaps) - 1) * (shares**2 @ (gaps - shares @ gaps) ** 2) - np.sum(shares**2) * implied
    of_fits = max(0.0, float(excess))
    total = variance + of_fits
    return total, total**2 / (variance**2 / freedom + of_fits**2 / (len(gaps) - 1))


def largest_variance(averaged: float, single: float, repeats: float, shared: float) -> float:
    """The largest variance of a mean over repeats that agrees with the variances of its subjects' contributions.

    What a subject adds in one repeat has three parts: one of its own, one for each training subject, and chance, with
    variances A, B and E. A part for a training subject is there in the repeats in which that subject trains, so that
    the mean over R repeats has the variance S̄ = A + m B + E / R, where m is ``shared``, and a single repeat
    S = A + B + E. Pairs of a test and a training subject add twice, with their roles exchanged, and these two parts are
    taken to be equal, as they are for scores that are linear in the labels of training subjects if there is
    nothing to find. The variance of the mean is then A + 2 m B + E / R = S̄ + m B. B is not known, so it is taken to be
    as large as it can be if A, B and E are at least 0.

    ``averaged`` and ``single`` are S̄ and S times a factor for shared training subjects, which is 2.5 for 3 and 2.1 for
    10 folds of one size (Nadeau and Bengio, 2003). The result is half of this factor times S̄ + m B: with a single
    repeat, S̄ = S = m B and the result is S times the factor, as without this function. Half of the factor is
    above 1 because variances of test subjects do not have all of the variance over training sets.
    """
    most = [averaged / shared]  # all of S̄
    most += [(single - averaged) / (1 - shared)] if shared < 1 else []  # without E
    most += [(averaged - single / repeats) / (shared - 1 / repeats)] if shared * repeats > 1 else []  # without A
    return (averaged + shared * max(0.0, min(most))) / 2


def _shared_training(who: NDArray[np.int64], sizes: NDArray[np.int64]) -> float:
    """m: Σ t² / Σ t over all pairs of subjects, where t is the share of repeats that do not test both in one fold.

    1 if all repeats have the same folds. For random folds it is f + (1 - f) / R, where f is the share of training
    subjects. ``who`` numbers the subjects of all folds, and ``sizes`` (n_folds,) are the numbers of test subjects.
    """
    n_subjects = who.max() + 1
    repeats = len(who) / n_subjects
    tests = np.zeros((len(sizes), n_subjects))
    tests[np.repeat(np.arange(len(sizes)), sizes), who] = 1
    both, squares = np.sum(sizes**2) / repeats, np.sum((tests @ tests.T) ** 2) / repeats**2
    apart = n_subjects**2 - both
    return float((apart - both + squares) / apart) if apart > 0 else 1.0


def _delong_variance(
    pairs: Sequence[tuple[FoldArea, FoldArea]],
    who: NDArray[np.int64],
    spread: NDArray[np.float64],
    copies: float = 1.0,
) -> tuple[float, float]:
    """DeLong's variance of the mean difference less its excess, and its degrees of freedom.

    ``who`` numbers those whose contributions are added up before they are squared; each subject appears ``copies``
    times among them. ``spread`` (n_folds,) is the factor with which contributions to each fold enter.
    """
    folds = [a for a, _ in pairs]
    fold_of = np.repeat(np.arange(len(folds)), [fold.n_test for fold in folds])
    classes, labels = np.unique(np.concatenate([fold.labels for fold in folds]), return_inverse=True)
    differences = np.concatenate([a.placements - b.placements for a, b in pairs])
    centred = differences - (np.bincount(labels, differences) / np.bincount(labels))[labels]
    groups = fold_of * len(classes) + labels
    weights = spread[fold_of] / np.bincount(groups)[groups]
    class_of = np.zeros(who.max() + 1, dtype=np.int64)
    class_of[who] = labels
    squares, shares = (np.bincount(who, weights * values) ** 2 for values in (centred, np.ones(len(who))))
    n_subjects, total = np.bincount(class_of) / copies, np.bincount(class_of, shares)
    n_columns = len(classes) if len(classes) > 2 else 1
    least = total / (4 * n_columns**2 * n_subjects)
    parts = np.maximum(np.bincount(class_of, squares) * n_subjects / np.maximum(n_subjects - 1, 1), least)
    freedom = np.maximum(total**2 / np.bincount(class_of, shares**2) - 1, 1)
    by_fold: NDArray[Any] = np.bincount(fold_of, (weights * centred) ** 2)
    variance = parts.sum() - min(_excess(pairs, classes, spread, who, by_fold), parts.sum() / 2)
    most = max(1.0, n_subjects.sum() - len(pairs) * n_subjects.sum() / len(who) - 1)
    return float(variance), float(min(most, parts.sum() ** 2 / np.sum(parts**2 / freedom)))


def _number_subjects(pairs: Sequence[tuple[FoldArea, FoldArea]]) -> NDArray[np.int64]:
    """Consecutive numbers of the test subjects of all folds; without ``subjects``, folds test different ones."""
    known = [b.subjects if a.subjects is None else a.subjects for a, b in pairs]
    numbers = [own for own in known if own is not None]
    if len(numbers) < len(known):
        return np.arange(sum(a.n_test for a, _ in pairs))
    return np.unique(np.concatenate(numbers), return_inverse=True)[1]


def _excess(
    pairs: Sequence[tuple[FoldArea, FoldArea]],
    classes: NDArray[np.integer[Any]],
    spread: NDArray[np.float64],
    who: NDArray[np.int64],
    by_fold: NDArray[Any],
) -> float:
    """By how much DeLong's variance of the mean difference is too large: Σ c_il², where c_il is the mean over repeats.

    Of large folds, and those without ranks, it is taken to be what it is if scores do not separate the classes: one
    part in n_test + 2 of ``by_fold``, which is DeLong's variance due to each fold. This is below what it is otherwise.
    """
    sizes = np.array([a.n_test for a, _ in pairs])
    has_ranks = [a.ranks is not None and b.ranks is not None for a, b in pairs]
    is_exact = (sizes <= _MOST_PAIRED) & has_ranks
    rest = float(by_fold[~is_exact] @ (1 / (sizes[~is_exact] + 2)))
    if not is_exact.any():
        return rest
    exact = list(compress(pairs, is_exact))
    members = [(a.labels[:, None] == classes).astype(np.float64) for a, _ in exact]
    shares = [pair_shares(a) - pair_shares(b) for a, b in exact]
    counts = np.array([np.outer(own.sum(axis=0), own.sum(axis=0)) for own in members])
    sums = np.array([own.T @ share @ own for own, share in zip(members, shares, strict=True)])
    expected = (sums * counts).sum(axis=0) / np.maximum(counts.sum(axis=0), 1)
    values, keys = [], []
    numbers = compress(np.split(who, np.cumsum(sizes)[:-1]), is_exact)
    for own, share, count, subjects, scale in zip(members, shares, counts, numbers, spread[is_exact], strict=True):
        centred = share - own @ (expected / np.maximum(count, 1)) @ own.T
        upper = np.triu_indices(len(share), 1)
        ends = np.sort(subjects[np.stack(upper)], axis=0)
        values.append(scale * centred[upper])
        keys.append(ends[0] * len(who) + ends[1])
    _, pair = np.unique(np.concatenate(keys), return_inverse=True)
    return rest + float(np.sum(np.bincount(pair, np.concatenate(values)) ** 2))


def _per_person(fold: FoldArea) -> FoldArea:
    """A fold whose test subjects are people instead of graphs, with the mean placement of each."""
    if fold.persons is None:
        return fold
    keys = np.stack([fold.persons, fold.labels.astype(np.int64)])
    _, first, inverse = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    sizes = np.bincount(inverse.ravel())
    return replace(
        fold,
        labels=fold.labels[first],
        placements=np.bincount(inverse.ravel(), fold.placements) / sizes,
        persons=None,
        subjects=keys[0, first] * (np.iinfo(fold.labels.dtype).max + 1) + keys[1, first],
        ranks=None,
        n_train=max(1, round(fold.n_train / sizes.mean())),
    )
