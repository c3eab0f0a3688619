"""Is it the same in every fit, and more than chance?

A template *separates* in a fit when its evidence on the graphs that the fit did not see is higher for the true classes
than with these graphs' labels shuffled. Given the fit, that p-value is exact. Fits of a cross-validation depend on one
another, so their p-values are combined by a rule that is valid under any dependence (Rüger 1978): where the null
hypothesis holds, m/k times the k-th smallest of m p-values is a p-value again; k is nine tenths of m, rounded up,
since what separates in half of the fits is not stable.
"""

import numpy as np
from numpy.typing import NDArray

from isocapsnet.explain.cards import Agreement
from isocapsnet.explain.contrasts import separation, shuffled_separations

#: Level at which a single fit separates, and at which fits agree.
LEVEL = 0.05
#: Level of the verdict: strict, since a report holds many cards and "stable" is what will be quoted.
STABLE_LEVEL = 0.01
#: Shufflings behind the p-value of a fit, enough for the verdict's level with dozens of templates.
N_DRAWS = 9999
# Random places behind the agreement of maps.
_N_PLACES = 999


def permutation_p_values(
    evidence: NDArray[np.floating], codes: NDArray[np.int64], n_classes: int, seed: int
) -> NDArray[np.float64]:
    """That evidence separates the classes by chance, one-sided, by shuffling the labels.

    Parameters
    ----------
    evidence : array (n_graphs, n_contrasts, n_templates)
    codes : array (n_graphs,)

    Returns
    -------
    array (n_templates,)
    """
    observed = separation(evidence, codes, n_classes)
    null = shuffled_separations(evidence, codes, n_classes, N_DRAWS, seed)
    # Equal up to rounding counts as equal: a template without evidence must not win by the order of a sum.
    ties = 1e-6 * np.abs(evidence).mean(axis=(0, 1))
    return np.asarray((1 + (null >= observed - ties).sum(axis=0)) / (1 + N_DRAWS))


def combine_p_values(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """One p-value from those of m dependent fits ``(m, ...)``: small when nine of ten are; all, with fewer than ten."""
    m = len(p_values)
    needed = m - m // 10
    return np.minimum(1, m / needed * np.sort(p_values, axis=0)[needed - 1])


def holm(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Adjusted for the number of templates ``(n_templates,)`` (Holm 1979)."""
    order = np.argsort(p_values)
    steps = np.arange(len(p_values), 0, -1) * p_values[order]
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(steps))
    return adjusted


def agreement_of_places(maps: NDArray[np.float64], seed: int) -> Agreement:
    """How alike fits are in where a template separates the classes.

    The mean correlation between two fits' separation by region, against the same with each map moved to a random place
    (around the end to the start), which keeps how smooth it is.

    Parameters
    ----------
    maps : array (n_fits, n_nodes)
    """
    n_fits, n_nodes = maps.shape
    shifts = np.random.default_rng(seed).integers(n_nodes, size=(_N_PLACES, n_fits, 1))
    moved = maps[np.arange(n_fits)[:, None], (np.arange(n_nodes) + shifts) % n_nodes]
    return judge_agreement(_mean_correlation(maps), _mean_correlation(moved))


def _mean_correlation(maps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean correlation over pairs of fits, ``(..., n_fits, n_nodes)`` to ``(...)``; 0 with a map that is constant."""
    centred = maps - maps.mean(axis=-1, keepdims=True)
    length = np.linalg.norm(centred, axis=-1, keepdims=True)
    unit = np.divide(centred, length, out=np.zeros_like(centred), where=length > 0)
    return mean_over_pairs(unit @ unit.swapaxes(-1, -2))


def mean_over_pairs(similarity: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean off-diagonal entry ``(..., n_fits, n_fits)`` to ``(...)``."""
    n_fits = similarity.shape[-1]
    return np.asarray(similarity[..., ~np.eye(n_fits, dtype=bool)].mean(axis=-1))


def judge_agreement(observed: NDArray[np.float64], null: NDArray[np.float64]) -> Agreement:
    """An observed agreement beside draws ``(n_draws,)`` of what chance makes of it."""
    p_value = (1 + (null >= observed - 1e-9).sum()) / (1 + len(null))  # equal up to rounding is equal
    return Agreement(float(observed), float(np.quantile(null, 1 - LEVEL)), float(p_value))
