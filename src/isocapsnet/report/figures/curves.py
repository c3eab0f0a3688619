"""Figures of one method: calibration, confusion, learning curves, representation."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isocapsnet._format import interval
from isocapsnet.evaluation.statistics import wilson_interval
from isocapsnet.report.content import Content, ReportedMethod
from isocapsnet.report.figures import style
from isocapsnet.report.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PANEL = (2.9, 2.75)
_BINS = 8
_PER_BIN = 8


def calibration(content: Content, method: ReportedMethod) -> Iterator[Drawing]:
    """Predicted probability against observed frequency."""
    if method.fits:
        figure = plot_calibration(
            method.labels,
            method.probabilities,
            n_repeats=method.n_repeats,
            classes=content.classes,
            positive=content.positive,
            colour=_colour(content, method),
        )
        caption = "Predicted against observed frequency, with 95 % intervals; grey: number of predictions."
        alt = f"Calibration of {method.label}; Brier score {interval(*method.row.metrics['brier'])}."
        yield Drawing(f"{method.slug}-calibration", figure, caption, alt)


def confusion(content: Content, method: ReportedMethod) -> Iterator[Drawing]:
    """Predicted against true classes."""
    if method.fits:
        figure = plot_confusion(
            method.labels,
            method.probabilities,
            n_repeats=method.n_repeats,
            classes=content.classes,
            colour=_colour(content, method),
        )
        alt = f"Confusion matrix of {method.label}; accuracy {interval(*method.row.metrics['accuracy'])}."
        yield Drawing(f"{method.slug}-confusion", figure, "Test graphs by true and predicted class.", alt)


def _colour(content: Content, method: ReportedMethod) -> str:
    return style.method_styles(content.table.rows)[method.label].colour


def learning(content: Content, method: ReportedMethod) -> Iterator[Drawing]:
    """Training and validation loss of every fit."""
    if method.histories:
        epochs = [len(history) for history in method.histories]
        validated = any(epoch.get("valid_loss") is not None for history in method.histories for epoch in history)
        yield Drawing(
            f"{method.slug}-learning",
            plot_learning(method.histories, colour=_colour(content, method)),
            "One line per fit"
            + ("; dashed: validation; dots: the epoch with the lowest validation loss." if validated else "."),
            f"Learning curves of {len(epochs)} fits of {method.label}, {min(epochs)} to {max(epochs)} epochs.",
        )


def representation(content: Content, method: ReportedMethod) -> Iterator[Drawing]:
    """The representation of the test graphs of the first fold, on two principal components."""
    if method.explanation is None:
        return
    vectors, labels = method.explanation.representation, method.explanation.representation_labels
    if vectors is not None and labels is not None and min(vectors.shape) > 1:
        yield Drawing(
            f"{method.slug}-representation",
            plot_representation(vectors, labels, content.classes),
            "Representation of the test graphs of the first fold, on its first two principal components.",
            f"{len(vectors)} test graphs of {method.label} in two dimensions.",
        )


@style.styled()
def plot_calibration(
    labels: ArrayLike,
    probabilities: ArrayLike,
    *,
    n_repeats: int,
    classes: Sequence[str],
    positive: int = 1,
    colour: str = style.METHODS[0],
) -> "Figure":
    """Predicted against observed frequency, in bins of equally many predictions, with Wilson intervals.

    For two classes, the probability of the positive one; for more, that of the predicted class. Predictions of the same
    subject in ``n_repeats`` repeats are not independent, so an interval counts each subject once. Grey bars are the
    number of predictions.
    """
    truth, predicted = np.asarray(labels), np.asarray(probabilities, dtype=float)
    binary = len(classes) == 2
    confidence = predicted[:, positive] if binary else predicted.max(axis=1)
    correct = truth == positive if binary else truth == predicted.argmax(axis=1)
    figure, (axis,) = style.new_figure(*_PANEL)
    axis.plot([0, 1], [0, 1], color=style.MUTED, lw=0.9, ls="--", gid="ideal")
    for members in _equal_bins(confidence, n_repeats):
        n_subjects = max(1, round(len(members) / n_repeats))
        observed = float(correct[members].mean())
        _, low, high = wilson_interval(round(observed * n_subjects), n_subjects)
        at = confidence[members].mean()
        axis.plot([at, at], [low, high], color=colour, lw=1, gid="interval")
        axis.plot(at, observed, "o", ms=4.5, color=colour, gid="bin")
    counts, edges = np.histogram(confidence, bins=25, range=(0, 1))
    heights = 0.1 * counts / counts.max(initial=1)
    axis.bar(edges[:-1], heights, np.diff(edges), bottom=-0.12, align="edge", color=style.FAINT, gid="predictions")
    predictor = f"predicted probability of {classes[positive]}" if binary else "probability of the predicted class"
    axis.set(title="Calibration", xlabel=predictor, ylabel="observed frequency")
    axis.set(xlim=(-0.02, 1.02), ylim=(-0.12, 1.02), aspect="equal")
    return figure


@style.styled()
def plot_confusion(
    labels: ArrayLike,
    probabilities: ArrayLike,
    *,
    n_repeats: int,
    classes: Sequence[str],
    colour: str = style.METHODS[0],
) -> "Figure":
    """Predicted against true classes: graphs per repeat; colour is the share of the true class."""
    from matplotlib.patches import Rectangle

    truth, answers = np.asarray(labels), np.asarray(probabilities).argmax(axis=1)
    counts = np.zeros((len(classes), len(classes)))
    np.add.at(counts, (truth, answers), 1 / n_repeats)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-12)
    figure, (axis,) = style.new_figure(*_PANEL)
    for row, column in np.ndindex(*counts.shape):
        alpha = 0.04 + 0.36 * float(shares[row, column])  # pale, so that the text is legible on it
        axis.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, color=colour, alpha=alpha, lw=0, gid="cell"))
    for row, column in np.ndindex(*counts.shape):
        number = f"{counts[row, column]:.0f}" if n_repeats == 1 else f"{counts[row, column]:.1f}"
        axis.text(column, row, f"{number}\n{shares[row, column]:.0%}", ha="center", va="center")
    size = len(classes) - 0.5
    axis.set(xlim=(-0.5, size), ylim=(size, -0.5), aspect="equal")
    axis.set_xticks(range(len(classes)), classes)
    axis.set_yticks(range(len(classes)), classes, rotation=90, va="center")
    repeats = "" if n_repeats == 1 else f", mean of {n_repeats} repeats"
    axis.set(title=f"Confusion{repeats}", xlabel="predicted", ylabel="true")
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)
    return figure


@style.styled()
def plot_learning(histories: Sequence[Sequence[Mapping[str, Any]]], *, colour: str = style.METHODS[0]) -> "Figure":
    """Training and validation loss per epoch, one thin line per fit, a dot where validation was best.

    Each history holds one mapping per epoch with ``epoch``, ``train_loss`` and, with a validation part,
    ``valid_loss``; a loss is None if it was not finite.
    """
    figure, (axis,) = style.new_figure(*_PANEL)
    for key, dash, name in (("train_loss", "-", "training"), ("valid_loss", (0, (3, 1.5)), "validation")):
        for history in histories:
            epochs = [epoch["epoch"] for epoch in history if epoch.get(key) is not None]
            losses = [epoch[key] for epoch in history if epoch.get(key) is not None]
            if losses:
                label = None if name in axis.get_legend_handles_labels()[1] else name
                axis.plot(epochs, losses, color=colour, ls=dash, lw=0.9, alpha=0.7, label=label, gid=key)
                if key == "valid_loss":
                    best = int(np.argmin(losses))
                    axis.plot(epochs[best], losses[best], "o", ms=3.5, color=colour, gid="best")
    axis.set(title="Learning", xlabel="epoch", ylabel="loss")
    axis.grid(axis="y", color=style.FAINT)
    axis.legend(loc="upper right")
    return figure


@style.styled()
def plot_representation(vectors: ArrayLike, labels: ArrayLike, classes: Sequence[str]) -> "Figure":
    """``vectors`` ``(n_graphs, n_features)`` on their first two principal components, with a marker per class."""
    from sklearn.decomposition import PCA

    values, truth = np.asarray(vectors, dtype=float), np.asarray(labels)
    figure, (axis,) = style.new_figure(*_PANEL)
    fitted = PCA(n_components=2, svd_solver="full").fit(values)
    points = fitted.transform(values)
    styles = zip(classes, style.class_colours(len(classes)), style.markers_of(len(classes)), strict=True)
    for code, (name, colour, marker) in enumerate(styles):
        here = points[truth == code]
        axis.plot(
            here[:, 0], here[:, 1], marker, ms=4.2, color=colour, alpha=0.75, mew=0, label=name, gid=f"class-{code}"
        )
    share = np.nan_to_num(fitted.explained_variance_ratio_)
    axis.set(xlabel=f"component 1 ({share[0]:.0%} of variance)", ylabel=f"component 2 ({share[1]:.0%})")
    axis.set_title("Representation")
    axis.legend(loc="best", handletextpad=0.2)
    return figure


def _equal_bins(values: NDArray[np.float64], n_repeats: int) -> list[NDArray[np.int64]]:
    """Indices in bins of about the same number of values; equal values are in one bin."""
    n_bins = int(np.clip(len(values) / n_repeats // _PER_BIN, 1, _BINS))
    edges = np.unique(np.quantile(values, np.linspace(0, 1, n_bins + 1)[1:-1]))
    bins = np.searchsorted(edges, values, side="left")
    return [np.flatnonzero(bins == number) for number in np.unique(bins)]
