"""How methods compare: means with intervals, single folds, node orders, one parameter's values."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isocapsnet.report.figures.style import (
    FAINT,
    FULL,
    INK,
    MUTED,
    PALETTE,
    colours_of,
    list_on_y,
    markers_of,
    new_figure,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLUE, _VERMILION = PALETTE[:2]
# Two of these stand beside each other on a page.
_WIDTH = 4.6
_ROW_INCHES = 0.27
# Times that differ more than this would be invisible beside each other on a linear scale.
_LOGARITHMIC_RANGE = 30


@styled
def plot_comparison(
    names: Sequence[str],
    intervals: ArrayLike,
    *,
    label: str = "ROC AUC",
    chance: float | None = 0.5,
    band: float | None = None,
    reference: str | None = "linear",
) -> "Figure":
    """Each method's mean with its interval, the best on top, beside chance and a reference method.

    Parameters
    ----------
    names : sequence of str (n_methods,)
    intervals : array (n_methods, 3)
        Mean, low, high; NaN bounds where there is no interval, NaN means where nothing was measured.
    label : str
        What is measured.
    chance : float, optional
        Where guessing stands.
    band : float, optional
        Half the width of the band in which the mean of an uninformative method would lie 95 times in 100.
    reference : str, optional
        The method whose mean is drawn through, where it is among ``names``.
    """
    values = np.asarray(intervals, dtype=float).reshape(-1, 3)
    order = np.argsort(-np.nan_to_num(values[:, 0], nan=-np.inf), kind="stable")
    figure, (axis,) = new_figure(_WIDTH, 0.9 + _ROW_INCHES * max(len(names), 2))
    if chance is not None:
        if band is not None and np.isfinite(band):
            axis.axvspan(chance - band, chance + band, color=FAINT, alpha=0.6, lw=0, gid="chance-band")
        axis.axvline(chance, color=MUTED, lw=0.9, ls="--", gid="chance")
        axis.text(chance, 1.01, "chance", color=INK, ha="center", va="bottom", transform=axis.get_xaxis_transform())
    if reference is not None and reference in names:
        at = float(values[list(names).index(reference)][0])
        axis.axvline(at, color=_VERMILION, lw=0.9, gid="reference")
        if chance is None or abs(at - chance) > 0.05:
            axis.text(at, 1.01, reference, ha="center", va="bottom", transform=axis.get_xaxis_transform())
    _draw_intervals(axis, values[order], [_VERMILION if names[i] == reference else _BLUE for i in order])
    list_on_y(axis, [names[i] for i in order])
    axis.set_xlabel(f"{label}, mean and 95 % interval")
    return figure


@styled
def plot_folds(
    names: Sequence[str],
    scores: Sequence[ArrayLike],
    *,
    means: Sequence[float] | None = None,
    label: str = "ROC AUC",
) -> "Figure":
    """One dot per test fold and method, the mean as a bar; methods in the order given, the first on top.

    ``scores`` holds for each method an array ``(n_folds,)``; NaN where the score is undefined in a fold. ``means``
    (n_methods,) are given where folds have weights.
    """
    figure, (axis,) = new_figure(_WIDTH, 0.8 + _ROW_INCHES * max(len(names), 2))
    axis.axvline(0.5, color=MUTED, lw=0.9, ls="--", gid="chance")
    for row, fold_scores in enumerate(scores):
        known = np.asarray(fold_scores, dtype=float)
        known = known[~np.isnan(known)]
        # Equal scores would hide each other on one line.
        offsets = 0.26 * np.sin(2.4 * np.arange(len(known)))
        axis.plot(known, row + offsets, "o", ms=3.4, color=_BLUE, alpha=0.6, mew=0, gid=f"folds-{row}")
        if len(known):
            axis.plot(
                [known.mean() if means is None else means[row]] * 2,
                [row - 0.33, row + 0.33],
                color=INK,
                lw=1.4,
                gid=f"mean-{row}",
            )
    list_on_y(axis, names)
    axis.set_xlabel(f"{label} of each test fold")
    return figure


@styled
def plot_audit(names: Sequence[str], differences: ArrayLike) -> "Figure":
    """What shuffling the nodes changes: ROC AUC with shuffled nodes minus as given, ``(n_methods, 3)``."""
    values = np.asarray(differences, dtype=float).reshape(-1, 3)
    figure, (axis,) = new_figure(_WIDTH, 0.75 + _ROW_INCHES * max(len(names), 2))
    axis.axvline(0, color=MUTED, lw=0.9, ls="--", gid="no-change")
    _draw_intervals(axis, values, [_BLUE] * len(names))
    list_on_y(axis, names)
    axis.set_xlabel("change of ROC AUC, 95 % interval")
    return figure


@styled
def plot_sweep(
    parameter: str,
    values: Sequence[Any],
    metrics: Mapping[str, ArrayLike],
    seconds: ArrayLike,
    *,
    constant_accuracy: float | None = None,
) -> "Figure":
    """One parameter varied (the paper's Table 2): each metric with its interval, and the time a fold takes.

    Parameters
    ----------
    parameter : str
    values : sequence (n_values,)
    metrics : mapping
        Label to array ``(n_values, 3)`` of mean, low, high.
    seconds : array (n_values,)
    constant_accuracy : float, optional
        Accuracy of always giving the most frequent answer, which the accuracies are to be read against.
    """
    figure, (scores, times) = new_figure(FULL, 2.6, 2, width_ratios=[1.6, 1])
    places = np.arange(len(values))
    shifts = 0.09 * (np.arange(len(metrics)) - (len(metrics) - 1) / 2)
    styles = zip(metrics.items(), shifts, colours_of(len(metrics)), markers_of(len(metrics)), strict=True)
    for (name, intervals), shift, colour, marker in styles:
        mean, low, high = np.asarray(intervals, dtype=float).reshape(-1, 3).T
        scores.vlines(places + shift, low, high, color=colour, lw=1)
        scores.plot(places + shift, mean, marker=marker, ms=4, color=colour, label=name)
    scores.axhline(0.5, color=MUTED, lw=0.9, ls="--", label="chance (ROC AUC)", gid="chance")
    if constant_accuracy is not None:
        scores.axhline(
            constant_accuracy, color=MUTED, lw=0.9, ls=":", label="constant answer (accuracy)", gid="constant-accuracy"
        )
    scores.set_ylabel("score, mean and 95 % interval")
    scores.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(metrics))
    durations = np.asarray(seconds, dtype=float)
    times.bar(places, durations, width=0.6, color=_BLUE)
    if durations.max() > _LOGARITHMIC_RANGE * durations.min():
        times.set_yscale("log")
    times.set_ylabel("seconds per fold")
    for axis in (scores, times):
        axis.set_xticks(places, [str(value) for value in values])
        axis.set_xlabel(parameter)
        axis.grid(axis="y")
        axis.set_axisbelow(True)
    return figure


def _draw_intervals(axis: "Axes", values: NDArray[np.float64], colours: Sequence[str]) -> None:
    """Rows of mean, low, high as dots with whiskers; what is not finite is left out."""
    for row, ((mean, low, high), colour) in enumerate(zip(values, colours, strict=True)):
        if np.isfinite([low, high]).all():
            axis.plot([low, high], [row, row], color=colour, lw=1.6, solid_capstyle="round", gid=f"interval-{row}")
        if np.isfinite(mean):
            axis.plot(mean, row, "o", ms=5.5, color=colour, gid=f"mean-{row}")
