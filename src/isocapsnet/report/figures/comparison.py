"""Figures that compare methods: means with intervals, single folds, node orders, a parameter sweep."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isocapsnet._format import interval, number
from isocapsnet.evaluation.comparisons import CONSTANT, REFERENCE
from isocapsnet.evaluation.metrics import METRICS
from isocapsnet.evaluation.power import Design
from isocapsnet.evaluation.statistics import CHANCE, weighted_mean
from isocapsnet.report.content import Content
from isocapsnet.report.figures import style
from isocapsnet.report.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches; a page shows two of these side by side.
_WIDTH = 4.6
# The page enlarges the first figure to its own width.
_WIDE = 5.2
_ROW_INCHES = 0.27
# Beyond this ratio of the longest to the shortest time, the axis is logarithmic.
_LOGARITHMIC_RANGE = 30
_SWEEP_METRICS = ("roc_auc", "accuracy", "weighted_f1")


def comparison(content: Content, metric: str = "roc_auc") -> Iterator[Drawing]:
    """The mean of every method in one metric, with its interval."""
    if not content.methods:
        return
    names = [method.label for method in content.methods]
    label, is_area = METRICS[metric].label, metric == "roc_auc"
    reference, band = (REFERENCE, _chance_band(content)) if is_area else (CONSTANT, None)
    intervals = [method.row.metrics[metric] for method in content.methods]
    styles = style.method_styles(content.table.rows)
    figure = plot_comparison(
        names,
        intervals,
        label=label,
        chance=CHANCE if is_area else None,
        band=band,
        reference=reference,
        colours=[styles[name].colour for name in names],
        width=_WIDE if is_area else _WIDTH,
    )
    caption = f"{label[0].upper()}{label[1:]} of every method, mean and 95 % interval over test folds."
    if band is not None and np.isfinite(band):
        caption += " Grey: the range that holds the mean of an uninformative method in at least 95 % of studies."
    if reference in names:
        caption += f" Vertical line: {reference}."
    values = "; ".join(f"{name} {interval(*bounds)}" for name, bounds in zip(names, intervals, strict=True))
    yield Drawing(f"comparison-{metric.replace('_', '-')}", figure, caption, f"{label}: {values}.")


def folds(content: Content) -> Iterator[Drawing]:
    """The ROC AUC of every method in each test fold."""
    if not content.methods:
        return
    scores = [np.array([fold["roc_auc"] for fold in method.row.scores.values()]) for method in content.methods]
    means = [method.row.metrics["roc_auc"].mean for method in content.methods]
    styles = style.method_styles(content.table.rows)
    ranges = [
        f"{method.label} {number(np.nanmin(values))} to {number(np.nanmax(values))}"
        for method, values in zip(content.methods, scores, strict=True)
        if np.isfinite(values).any()
    ]
    yield Drawing(
        "folds",
        plot_folds(
            [method.label for method in content.methods],
            scores,
            means=means,
            colours=[styles[method.label].colour for method in content.methods],
        ),
        f"ROC AUC in each test fold; bars are means{', weighted by subjects' if content.sites else ''}.",
        f"ROC AUC of single test folds: {'; '.join(ranges)}.",
    )


def node_order(content: Content) -> Iterator[Drawing]:
    """The change of ROC AUC with shuffled nodes."""
    differences = {m.label: m.row.audit.difference for m in content.methods if m.row.audit is not None}
    if differences:
        values = "; ".join(f"{label} {interval(*difference)}" for label, difference in differences.items())
        styles = style.method_styles(content.table.rows)
        yield Drawing(
            "node-order",
            plot_audit(list(differences), list(differences.values()), [styles[label].colour for label in differences]),
            "Node-order audit: change of ROC AUC when the nodes of all graphs are put in another order.",
            f"Change of ROC AUC with shuffled nodes: {values}.",
        )


def sweep(content: Content) -> Iterator[Drawing]:
    """Scores and times for the values of one parameter."""
    if content.sweep is None:
        return
    parameter, values, methods = content.sweep.parameter, content.sweep.values, content.sweep.methods
    rows = [method.row for method in methods]
    most_frequent = np.bincount(methods[0].labels).argmax()
    constant = weighted_mean([np.mean(fit.labels == most_frequent) for fit in methods[0].fits], methods[0].weights)
    areas = [f"{value}: {number(row.metrics['roc_auc'].mean)}" for value, row in zip(values, rows, strict=True)]
    yield Drawing(
        f"sweep-{parameter.replace('_', '-')}",
        plot_sweep(
            parameter,
            values,
            {METRICS[metric].label: [row.metrics[metric] for row in rows] for metric in _SWEEP_METRICS},
            [row.seconds for row in rows],
            constant_accuracy=constant,
        ),
        f"{content.sweep.method} for values of {parameter}, and the time per fold. Always predicting the most frequent "
        f"class has an accuracy of {number(constant)} on these folds.",
        f"Mean ROC AUC by {parameter}: {'; '.join(areas)}.",
    )


@style.styled()
def plot_comparison(
    names: Sequence[str],
    intervals: ArrayLike,
    *,
    label: str = "ROC AUC",
    chance: float | None = 0.5,
    band: float | None = None,
    reference: str | None = "linear",
    colours: Sequence[str] = (),
    width: float = _WIDTH,
) -> "Figure":
    """Mean and interval of each method, the best on top, with chance and a reference method.

    ``intervals`` ``(n_methods, 3)`` are mean, low and high, NaN if not measured. ``band`` is half the width of the
    range around ``chance`` that holds the mean of an uninformative method. The mean of ``reference`` is a line.
    ``colours`` are those of the methods, and ``width`` is in inches.
    """
    values = np.asarray(intervals, dtype=float).reshape(-1, 3)
    order = np.argsort(-np.nan_to_num(values[:, 0], nan=-np.inf), kind="stable")
    colours = colours or [style.METHODS[0]] * len(names)
    figure, (axis,) = style.new_figure(width, 0.8 + _ROW_INCHES * max(len(names), 2))
    if chance is not None:
        if band is not None and np.isfinite(band):
            axis.axvspan(chance - band, chance + band, color=style.FAINT, alpha=0.6, lw=0, gid="chance-band")
        axis.axvline(chance, color=style.MUTED, lw=0.9, ls="--", gid="chance")
        axis.text(
            chance, 1.01, "chance", color=style.INK, ha="center", va="bottom", transform=axis.get_xaxis_transform()
        )
    if reference is not None and reference in names:
        at = float(values[list(names).index(reference)][0])
        axis.axvline(at, color=style.MUTED, lw=0.9, gid="reference")
        if chance is None or abs(at - chance) > 0.05:
            axis.text(at, 1.01, reference, ha="center", va="bottom", transform=axis.get_xaxis_transform())
    draw_intervals(axis, values[order], [colours[i] for i in order])
    style.list_on_y(axis, [names[i] for i in order])
    axis.set_xlabel(f"{label}, mean and 95 % interval")
    return figure


@style.styled()
def plot_folds(
    names: Sequence[str],
    scores: Sequence[ArrayLike],
    *,
    means: Sequence[float] | None = None,
    colours: Sequence[str] = (),
) -> "Figure":
    """One dot per ROC AUC of a test fold, the mean as a bar; methods in the order given, the first on top.

    ``scores`` holds an array ``(n_folds,)`` for each method, with NaN if the score is not defined in a fold. ``means``
    (n_methods,) are those of the table if folds have weights. ``colours`` are those of the methods.
    """
    colours = colours or [style.METHODS[0]] * len(names)
    figure, (axis,) = style.new_figure(_WIDTH, 0.8 + _ROW_INCHES * max(len(names), 2))
    axis.axvline(0.5, color=style.MUTED, lw=0.9, ls="--", gid="chance")
    for row, fold_scores in enumerate(scores):
        defined = np.asarray(fold_scores, dtype=float)
        defined = defined[~np.isnan(defined)]
        # Equal scores would cover each other on one line.
        offsets = 0.26 * np.sin(2.4 * np.arange(len(defined)))
        axis.plot(defined, row + offsets, "o", ms=3.4, color=colours[row], alpha=0.7, mew=0, gid=f"folds-{row}")
        if len(defined):
            mean = defined.mean() if means is None else means[row]
            axis.plot([mean, mean], [row - 0.33, row + 0.33], color=style.INK, lw=1.4, gid=f"mean-{row}")
    style.list_on_y(axis, names)
    axis.set_xlabel("ROC AUC of each test fold")
    return figure


@style.styled()
def plot_audit(names: Sequence[str], differences: ArrayLike, colours: Sequence[str] = ()) -> "Figure":
    """ROC AUC with shuffled nodes minus ROC AUC with nodes as given: mean, low, high ``(n_methods, 3)``."""
    values = np.asarray(differences, dtype=float).reshape(-1, 3)
    figure, (axis,) = style.new_figure(_WIDTH, 0.75 + _ROW_INCHES * max(len(names), 2))
    axis.axvline(0, color=style.MUTED, lw=0.9, ls="--", gid="no-change")
    draw_intervals(axis, values, colours or [style.METHODS[0]] * len(names))
    style.list_on_y(axis, names)
    axis.set_xlabel("change of ROC AUC, 95 % interval")
    return figure


@style.styled()
def plot_sweep(
    parameter: str,
    values: Sequence[Any],
    metrics: Mapping[str, ArrayLike],
    seconds: ArrayLike,
    *,
    constant_accuracy: float | None = None,
) -> "Figure":
    """One parameter varied (Table 2 of the paper): each metric with its interval, and the seconds per fold.

    ``metrics`` maps labels to arrays ``(n_values, 3)`` of mean, low and high; ``constant_accuracy`` is that of always
    predicting the most frequent class.
    """
    figure, (scores, times) = style.new_figure(style.FULL, 2.6, 2, width_ratios=[1.6, 1])
    positions = np.arange(len(values))
    shifts = 0.09 * (np.arange(len(metrics)) - (len(metrics) - 1) / 2)
    colour, dashes = style.METHODS[0], ("-", "--", ":")
    for index, (name, intervals) in enumerate(metrics.items()):
        shift, marker, dash = shifts[index], style.MARKERS[index], dashes[index % len(dashes)]
        mean, low, high = np.asarray(intervals, dtype=float).reshape(-1, 3).T
        scores.vlines(positions + shift, low, high, color=colour, lw=1)
        scores.plot(positions + shift, mean, marker=marker, ms=4, color=colour, ls=dash, label=name)
    scores.axhline(0.5, color=style.MUTED, lw=0.9, ls="--", label="chance (ROC AUC)", gid="chance")
    if constant_accuracy is not None:
        scores.axhline(
            constant_accuracy,
            color=style.MUTED,
            lw=0.9,
            ls=":",
            label="constant answer (accuracy)",
            gid="constant-accuracy",
        )
    scores.set_ylabel("score, mean and 95 % interval")
    scores.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(metrics))
    durations = np.asarray(seconds, dtype=float)
    times.bar(positions, durations, width=0.6, color=colour)
    if durations.max() > _LOGARITHMIC_RANGE * durations.min():
        times.set_yscale("log")
    times.set_ylabel("seconds per fold")
    for axis in (scores, times):
        axis.set_xticks(positions, [str(value) for value in values])
        axis.set_xlabel(parameter)
        axis.grid(axis="y")
        axis.set_axisbelow(True)
    return figure


def draw_intervals(axis: "Axes", values: NDArray[np.float64], colours: Sequence[str]) -> None:
    """Rows of mean, low, high as dots with whiskers, without values that are not finite."""
    for row, ((mean, low, high), colour) in enumerate(zip(values, colours, strict=True)):
        if np.isfinite([low, high]).all():
            axis.plot([low, high], [row, row], color=colour, lw=1.6, solid_capstyle="round", gid=f"interval-{row}")
        if np.isfinite(mean):
            axis.plot(mean, row, "o", ms=5.5, color=colour, gid=f"mean-{row}")


def _chance_band(content: Content) -> float | None:
    """Half the width of the range that holds the mean of an uninformative method in at least 95 % of studies."""
    folds = max((list(method.row.areas.values()) for method in content.methods), key=len)
    design = Design([fold.counts for fold in folds], [fold.n_train for fold in folds], [fold.weight for fold in folds])
    variance = design.variance()
    return None if np.isnan(variance) else float(1.96 * np.sqrt(variance))
