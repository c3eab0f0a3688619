"""What a method's predictions and training look like: ROC, calibration, confusion, learning curves."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isocapsnet.evaluation.metrics import roc_auc
from isocapsnet.evaluation.statistics import wilson_interval
from isocapsnet.report.figures.style import FAINT, MUTED, PALETTE, class_colours, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BLUE, _VERMILION = PALETTE[:2]
_PANEL = (2.9, 2.75)
_BINS = 8
_PER_BIN = 8


@styled
def plot_roc(labels: ArrayLike, probabilities: ArrayLike, folds: ArrayLike, classes: Sequence[str]) -> "Figure":
    """ROC curves: thin per test fold, thick their mean; beyond two classes the mean of each class against the rest.

    Parameters
    ----------
    labels : array (n_predictions,)
        Indices of the columns of ``probabilities``.
    probabilities : array (n_predictions, n_classes)
    folds : array (n_predictions,)
        Which predictions one fitted model made.
    classes : sequence of str (n_classes,)
        With two, the last is the positive class.
    """
    truth, predicted, groups = np.asarray(labels), np.asarray(probabilities), np.asarray(folds)
    figure, (axis,) = new_figure(*_PANEL)
    axis.plot([0, 1], [0, 1], color=MUTED, lw=0.9, ls="--", gid="chance")
    grid = np.linspace(0, 1, 101)
    shown = [len(classes) - 1] if len(classes) == 2 else list(range(len(classes)))
    for column, colour in zip(shown, [_BLUE] if len(shown) == 1 else class_colours(len(shown)), strict=True):
        curves = []
        for fold in np.unique(groups):
            here = groups == fold
            curve = _roc_curve(truth[here] == column, predicted[here, column])
            if curve is None:
                continue
            if len(shown) == 1:
                axis.plot(*curve, color=colour, lw=0.6, alpha=0.35, gid="fold")
            curves.append(np.interp(grid, *curve))
        if curves:
            mean = np.concatenate([[0.0], np.mean(curves, axis=0)])
            name = "mean" if len(shown) == 1 else classes[column]
            axis.plot(np.concatenate([[0.0], grid]), mean, color=colour, lw=1.8, label=name, gid="mean")
    areas = [roc_auc(truth[groups == fold], predicted[groups == fold]) for fold in np.unique(groups)]
    known = [area for area in areas if not np.isnan(area)]
    axis.set_title(f"ROC, mean AUC {np.mean(known):.3f}" if known else "ROC (undefined: one class in every fold)")
    axis.set_xlabel("false positive rate")
    axis.set_ylabel("true positive rate" if len(shown) > 1 else f"true positive rate ({classes[-1]})")
    axis.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    if len(shown) > 1:
        axis.legend(loc="lower right")
    return figure


@styled
def plot_calibration(
    labels: ArrayLike, probabilities: ArrayLike, *, n_repeats: int, classes: Sequence[str]
) -> "Figure":
    """Predicted against observed frequency, in bins of equally many predictions, with Wilson intervals.

    With two classes, of the last one; with more, of the predicted class. Predictions of the same subject in
    ``n_repeats`` repeats are not independent, so an interval counts each subject once. Grey bars: how many
    predictions there are of each probability.
    """
    truth, predicted = np.asarray(labels), np.asarray(probabilities, dtype=float)
    binary = len(classes) == 2
    confidence = predicted[:, 1] if binary else predicted.max(axis=1)
    correct = truth == 1 if binary else truth == predicted.argmax(axis=1)
    figure, (axis,) = new_figure(*_PANEL)
    axis.plot([0, 1], [0, 1], color=MUTED, lw=0.9, ls="--", gid="ideal")
    for members in _equal_bins(confidence, n_repeats):
        n_subjects = max(1, round(len(members) / n_repeats))
        observed = float(correct[members].mean())
        _, low, high = wilson_interval(round(observed * n_subjects), n_subjects)
        at = confidence[members].mean()
        axis.plot([at, at], [low, high], color=_BLUE, lw=1, gid="interval")
        axis.plot(at, observed, "o", ms=4.5, color=_BLUE, gid="bin")
    counts, edges = np.histogram(confidence, bins=25, range=(0, 1))
    heights = 0.1 * counts / counts.max(initial=1)
    axis.bar(edges[:-1], heights, np.diff(edges), bottom=-0.12, align="edge", color=FAINT, gid="predictions")
    axis.set_title("Calibration")
    axis.set_xlabel(f"predicted probability of {classes[-1]}" if binary else "probability of the predicted class")
    axis.set_ylabel("observed frequency")
    axis.set(xlim=(-0.02, 1.02), ylim=(-0.12, 1.02), aspect="equal")
    return figure


@styled
def plot_confusion(labels: ArrayLike, probabilities: ArrayLike, *, n_repeats: int, classes: Sequence[str]) -> "Figure":
    """Predicted against true classes: graphs per repeat, and their share of the true class as colour."""
    truth, answers = np.asarray(labels), np.asarray(probabilities).argmax(axis=1)
    counts = np.zeros((len(classes), len(classes)))
    np.add.at(counts, (truth, answers), 1 / n_repeats)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-12)
    figure, (axis,) = new_figure(*_PANEL)
    axis.imshow(shares, cmap=_whites_to_blue(), vmin=0, vmax=1, aspect="equal")
    for row, column in np.ndindex(*counts.shape):
        number = f"{counts[row, column]:.0f}" if n_repeats == 1 else f"{counts[row, column]:.1f}"
        colour = "white" if shares[row, column] > 0.55 else "black"
        axis.text(column, row, f"{number}\n{shares[row, column]:.0%}", ha="center", va="center", color=colour)
    axis.set_xticks(range(len(classes)), classes)
    axis.set_yticks(range(len(classes)), classes, rotation=90, va="center")
    axis.set_xlabel("predicted")
    axis.set_ylabel("true")
    axis.set_title("Confusion" + ("" if n_repeats == 1 else f", mean of {n_repeats} repeats"))
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)
    return figure


@styled
def plot_learning(histories: Sequence[Sequence[Mapping[str, Any]]]) -> "Figure":
    """Training and validation loss per epoch, one thin line per fit, a dot where validation was best.

    Each history holds one mapping per epoch with ``epoch``, ``train_loss`` and, with a validation part,
    ``valid_loss``; a loss may be None where it was not finite.
    """
    figure, (axis,) = new_figure(*_PANEL)
    for key, colour, name in (("train_loss", _BLUE, "training"), ("valid_loss", _VERMILION, "validation")):
        for history in histories:
            epochs = [epoch["epoch"] for epoch in history if epoch.get(key) is not None]
            losses = [epoch[key] for epoch in history if epoch.get(key) is not None]
            if losses:
                known = axis.get_legend_handles_labels()[1]
                label = None if name in known else name
                axis.plot(epochs, losses, color=colour, lw=0.9, alpha=0.7, label=label, gid=key)
                if key == "valid_loss":
                    best = int(np.argmin(losses))
                    axis.plot(epochs[best], losses[best], "o", ms=3.5, color=colour, gid="best")
    axis.set_title("Learning")
    axis.set_xlabel("epoch")
    axis.set_ylabel("loss")
    axis.grid(axis="y", color=FAINT)
    axis.legend(loc="upper right")
    return figure


def _roc_curve(
    positive: NDArray[np.bool_], scores: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """(false positive rate, true positive rate); None with one class."""
    from sklearn.metrics import roc_curve

    if positive.all() or not positive.any():
        return None
    false_positive, true_positive, _ = roc_curve(positive, scores)
    return false_positive, true_positive


def _equal_bins(values: NDArray[np.float64], n_repeats: int) -> list[NDArray[np.int64]]:
    """Indices in bins of equally many values, enough subjects in each; equal values share a bin."""
    n_bins = int(np.clip(len(values) / n_repeats // _PER_BIN, 1, _BINS))
    edges = np.unique(np.quantile(values, np.linspace(0, 1, n_bins + 1)[1:-1]))
    place = np.searchsorted(edges, values, side="left")
    return [np.flatnonzero(place == at) for at in np.unique(place)]


def _whites_to_blue() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("share", ["#f4f8fb", _BLUE])
