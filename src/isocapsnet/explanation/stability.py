"""Tests of stability: is the evidence above chance in every fit, and do the fits agree?

A template *separates* the classes in a fit when its evidence on graphs that the fit did not see is higher with the true
labels than with shuffled labels. Given the fit, this p-value is exact. Fits of a cross-validation depend on each other,
so their p-values are combined by a rule that is valid under any dependence (Rüger 1978): under the null hypothesis, m/k
times the k-th smallest of m p-values is a p-value again. Here k is nine tenths of m, rounded up, because a template
that separates the classes in half of the fits is not stable.
"""

import numpy as np
from numpy.typing import NDArray

from isocapsnet.evaluation.results import LEVEL
from isocapsnet.explanation.cards import Agreement
from isocapsnet.explanation.contrasts import separation, shuffled_separations

#: Stability is assessed from this number of fits.
MIN_FITS = 3
#: Level of the verdict "stable", stricter than that of single fits because a report holds many cards.
STABLE_LEVEL = 0.01
#: Permutations for the p-value of a fit, enough for the level of the verdict with dozens of templates.
N_DRAWS = 9999
# Random shifts for the null distribution of the agreement of maps.
_N_SHIFTS = 999


def permutation_p_values(
    evidence: NDArray[np.floating], codes: NDArray[np.int64], n_classes: int, seed: int
) -> NDArray[np.float64]:
    """One-sided p-values ``(n_templates,)`` that evidence separates the classes by chance, from shuffled labels.

    Evidence is ``(n_graphs, n_contrasts, n_templates)``, codes ``(n_graphs,)``.
    """
    observed = separation(evidence, codes, n_classes)
    null = shuffled_separations(evidence, codes, n_classes, N_DRAWS, seed)
    # Values that are equal up to rounding count as ties, or the order of a sum would decide where there is no evidence.
    ties = 1e-6 * np.abs(evidence).mean(axis=(0, 1))
    return np.asarray((1 + (null >= observed - ties).sum(axis=0)) / (1 + N_DRAWS))


def combine_p_values(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Combine p-values of m dependent fits ``(m, ...)``: small if nine of ten are small (all, if m < 10)."""
    m = len(p_values)
    needed = m - m // 10
    return np.minimum(1, m / needed * np.sort(p_values, axis=0)[needed - 1])


def agreement_of_regions(maps: NDArray[np.float64], seed: int) -> Agreement:
    """How well fits agree on the regions in which a template separates the classes.

    The mean correlation between the maps ``(n_fits, n_nodes)`` of two fits. Under the null hypothesis each map is
    shifted by a random number of nodes (cyclically), which preserves its smoothness.
    """
    n_fits, n_nodes = maps.shape
    shifts = np.random.default_rng(seed).integers(n_nodes, size=(_N_SHIFTS, n_fits, 1))
    shifted = maps[np.arange(n_fits)[:, None], (np.arange(n_nodes) + shifts) % n_nodes]
    return judge_agreement(_mean_correlation(maps), _mean_correlation(shifted))


def _mean_correlation(maps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean correlation over pairs of fits, ``(..., n_fits, n_nodes)`` to ``(...)``; 0 for constant maps."""
    centred = maps - maps.mean(axis=-1, keepdims=True)
    length = np.linalg.norm(centred, axis=-1, keepdims=True)
    unit = np.divide(centred, length, out=np.zeros_like(centred), where=length > 0)
    return mean_over_pairs(unit @ unit.swapaxes(-1, -2))


def mean_over_pairs(similarity: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean off-diagonal entry ``(..., n_fits, n_fits)`` to ``(...)``."""
    n_fits = similarity.shape[-1]
    return np.asarray(similarity[..., ~np.eye(n_fits, dtype=bool)].mean(axis=-1))


def judge_agreement(observed: NDArray[np.float64], null: NDArray[np.float64]) -> Agreement:
    """An observed agreement with its p-value, from draws ``(n_draws,)`` under the null hypothesis."""
    p_value = (1 + (null >= observed - 1e-9).sum()) / (1 + len(null))  # ties up to rounding
    return Agreement(float(observed), float(np.quantile(null, 1 - LEVEL)), float(p_value))


def judge(
    what: str,
    network: str,
    p_values: NDArray[np.float64],
    p_value: float,
    n_without: int,
    agreement: Agreement | None,
    *,
    differs: str,
    agrees: str,
) -> tuple[str, str]:
    """The verdict about a template or motif, and the sentence that gives its reasons.

    ``agreement`` is that of the fits, None if they are too few, and ``differs`` and ``agrees`` say what it means. In
    ``n_without`` fits the network has weight 0 or is not there.
    """
    n_fits, n_separating = len(p_values), int((p_values <= LEVEL).sum())
    count = f"in {n_separating} of {n_fits} fits"
    if agreement is None:
        return "not assessed", (
            f"Not assessed: stability needs at least {MIN_FITS} fits in which {network} takes part (here: "
            f"{n_fits - n_without}). The {what} separates the classes of the graphs it was explained on {count}."
        )
    separates = f"the {what} separates the classes of unseen graphs {count}"
    separates += f" (in {n_without}, {network} does not take part)" if n_without else ""
    if p_value > STABLE_LEVEL:
        # A fit in which the network has weight 0 counts as p = 1, which no chance explains.
        chance = f"chance could explain (p = {p_value:.3f}; at most {STABLE_LEVEL} is required)"
        return "not stable", f"Not stable: {separates}, which {'is too few' if n_without and p_value >= 1 else chance}."
    if agreement.p_value > LEVEL:
        return "not stable", f"Not stable: {separates}, but {differs}."
    return "stable", f"Stable: {separates} (p = {p_value:.4f}), {agrees}."


def describe_shape(shape: Agreement) -> str:
    """``its shape is similar in all fits (similarity 0.93; up to 0.71 by chance)``, or that it differs."""
    words = "differs between fits" if shape.p_value > LEVEL else "is similar in all fits"
    return f"its shape {words} (similarity {shape.value:.2f}; up to {shape.null:.2f} by chance)"
