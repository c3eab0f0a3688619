"""ROC and precision-recall curves: those of one method, and the means of all methods in one figure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isocapsnet._format import interval, number
from isocapsnet.evaluation.comparisons import CONSTANT
from isocapsnet.evaluation.metrics import roc_auc
from isocapsnet.evaluation.statistics import weighted_mean
from isocapsnet.report.content import Content, ReportedMethod
from isocapsnet.report.figures import style
from isocapsnet.report.figures.drawing import Drawing
from isocapsnet.report.rates import average_precision

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: False positive rates, or recalls, and the values of a curve there.
Curve = tuple[NDArray[np.float64], NDArray[np.float64]]
_PANEL = (2.9, 2.75)
_WIDTH, _HEIGHT = 4.6, 3.0


def roc(content: Content, method: ReportedMethod) -> Iterator[Drawing]:
    """ROC curves of the test folds and their mean."""
    if method.fits:
        weights, weighted = (method.weights, ", weighted by subjects") if content.sites else (None, "")
        figure = plot_roc(
            method.labels,
            method.probabilities,
            method.fit_of,
            content.classes,
            weights=weights,
            positive=content.positive,
            colour=style.method_styles(content.table.rows)[method.label].colour,
        )
        yield Drawing(
            f"{method.slug}-roc",
            figure,
            f"Thin: single test folds; thick: their mean{weighted}.",
            f"ROC curves of {method.label}; area {interval(*method.row.metrics['roc_auc'])}.",
        )


def all_roc(content: Content) -> Iterator[Drawing]:
    """The mean ROC curve of every method."""
    curves, areas = {}, {}
    for method in content.methods:
        if not method.fits or method.label == CONSTANT:  # its curve is the line of chance
            continue
        columns = [content.positive] if len(content.classes) == 2 else range(len(content.classes))
        weights = method.weights if content.sites else None
        means = [
            mean_curve(folds, weights)
            for column in columns
            if (folds := fold_curves(method.labels == column, method.probabilities[:, column], method.fit_of))
        ]
        if means:
            curves[method.label] = means[0][0], np.mean([curve for _, curve in means], axis=0)
            areas[method.label] = method.row.metrics["roc_auc"].mean
    if curves:
        of = f" of {content.classes[content.positive]}" if len(content.classes) == 2 else ", mean over classes"
        yield Drawing(
            "all-roc",
            _plot_curves(
                curves,
                {label: f"{label}\n{number(area)}" for label, area in areas.items()},
                style.method_styles(content.table.rows),
                ("false positive rate", f"true positive rate{of}"),
                chance=((0, 1), (0, 1)),
            ),
            "Mean ROC curve of every method over the test folds, with the mean ROC AUC.",
            f"ROC curves; areas {'; '.join(f'{label} {number(area)}' for label, area in areas.items())}.",
        )


def precision_recall(content: Content) -> Iterator[Drawing]:
    """The mean precision-recall curve of every method, for two classes."""
    if len(content.classes) != 2:
        return
    curves, means = {}, {}
    for method in content.methods:
        if method.fits and method.label != CONSTANT and (folds := _precision_curves(method, content.positive)):
            weights = [method.weights[fold] if content.sites else 1.0 for fold in folds]
            grid = next(iter(folds.values()))[0]
            curves[method.label] = grid, np.average([curve for _, curve in folds.values()], axis=0, weights=weights)
            means[method.label] = average_precision(content, method)
    if curves:
        name = content.classes[content.positive]
        labels = next(method for method in content.methods if method.fits).labels
        share = float(np.mean(labels == content.positive))
        yield Drawing(
            "precision-recall",
            _plot_curves(
                curves,
                {label: f"{label}\n{number(mean)}" for label, mean in means.items()},
                style.method_styles(content.table.rows),
                (f"recall (sensitivity) for {name}", "precision"),
                chance=((0, 1), (share, share)),
            ),
            f"Mean precision-recall curve of every method for {name}, with the mean average precision. Dashed: the "
            f"share of {name} among the test graphs, {number(share, 2)}, which is the precision of a guess.",
            f"Average precision: {'; '.join(f'{label} {number(mean)}' for label, mean in means.items())}.",
        )


def _precision_curves(method: ReportedMethod, positive: int) -> dict[int, Curve]:
    """Fold to recalls and the largest precision at each recall or a larger one, for folds with positives."""
    from sklearn.metrics import precision_recall_curve

    grid, curves = np.linspace(0, 1, 101), {}
    for fold, fit in enumerate(method.fits):
        if (fit.labels == positive).any():
            precision, recall, _ = precision_recall_curve(fit.labels == positive, fit.probabilities[:, positive])
            # scikit-learn's last point has no threshold. Recall falls along the curve, from 1.
            best = np.maximum.accumulate(precision[:-1])
            curves[fold] = grid, best[np.searchsorted(-recall[:-1], -grid, side="right") - 1]
    return curves


@style.styled()
def _plot_curves(
    curves: Mapping[str, Curve],
    names: Mapping[str, str],
    styles: Mapping[str, style.MethodStyle],
    labels: tuple[str, str],
    *,
    chance: tuple[tuple[float, float], tuple[float, float]],
) -> "Figure":
    """One line per method, with a legend of ``names`` beside it."""
    figure, (axis, beside) = style.new_figure(_WIDTH, _HEIGHT, 2, width_ratios=[2.2, 1])
    axis.plot(*chance, color=style.MUTED, lw=0.9, ls="--", gid="chance")
    for label, curve in curves.items():
        axis.plot(
            *curve, color=styles[label].colour, ls=styles[label].dash, lw=1.6, label=names[label], gid=f"curve-{label}"
        )
    axis.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal", xlabel=labels[0], ylabel=labels[1])
    beside.axis("off")
    beside.legend(*axis.get_legend_handles_labels(), loc="upper left", borderaxespad=0, handlelength=1.8)
    return figure


@style.styled()
def plot_roc(
    labels: ArrayLike,
    probabilities: ArrayLike,
    folds: ArrayLike,
    classes: Sequence[str],
    *,
    weights: Sequence[float] | None = None,
    positive: int = 1,
    colour: str = style.METHODS[0],
) -> "Figure":
    """ROC curves of the test folds (thin) and their mean (thick); for more than two classes, means of one-vs-rest.

    ``labels`` ``(n_predictions,)`` are columns of ``probabilities`` ``(n_predictions, n_classes)``, ``folds``
    ``(n_predictions,)`` is the index of the fit that made each prediction, and ``weights`` ``(n_folds,)`` are those of
    folds in the mean. Of two classes, ``positive`` is the positive one.
    """
    truth, predicted, groups = np.asarray(labels), np.asarray(probabilities), np.asarray(folds)
    figure, (axis,) = style.new_figure(*_PANEL)
    axis.plot([0, 1], [0, 1], color=style.MUTED, lw=0.9, ls="--", gid="chance")
    shown = [positive] if len(classes) == 2 else list(range(len(classes)))
    for column, line in zip(shown, [colour] if len(shown) == 1 else style.class_colours(len(shown)), strict=True):
        curves = fold_curves(truth == column, predicted[:, column], groups)
        if len(shown) == 1:
            for curve in curves.values():
                axis.plot(*curve, color=line, lw=0.6, alpha=0.35, gid="fold")
        if curves:
            name = "mean" if len(shown) == 1 else classes[column]
            axis.plot(*mean_curve(curves, weights), color=line, lw=1.8, label=name, gid="mean")
    areas = [roc_auc(truth[groups == fold], predicted[groups == fold]) for fold in np.unique(groups)]
    area = weighted_mean(areas, weights)
    axis.set_title("ROC (not defined: one class in every fold)" if np.isnan(area) else f"ROC, mean AUC {area:.3f}")
    axis.set_xlabel("false positive rate")
    axis.set_ylabel("true positive rate" if len(shown) > 1 else f"true positive rate ({classes[positive]})")
    axis.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    if len(shown) > 1:
        axis.legend(loc="lower right")
    return figure


def fold_curves(is_positive: NDArray[np.bool_], scores: NDArray[np.float64], folds: NDArray[Any]) -> "dict[int, Curve]":
    """Fold to its ROC curve (false and true positive rates), for folds with positives and negatives."""
    from sklearn.metrics import roc_curve

    curves = {}
    for fold in np.unique(folds):
        here = folds == fold
        if len(np.unique(is_positive[here])) == 2:
            false, true, _ = roc_curve(is_positive[here], scores[here])
            curves[int(fold)] = (false, true)
    return curves


def mean_curve(curves: Mapping[int, Curve], weights: Sequence[float] | None = None) -> Curve:
    """The mean true positive rate at each false positive rate; ``weights`` ``(n_folds,)`` are those of folds."""
    grid = np.linspace(0, 1, 101)
    shares = [1.0 if weights is None else float(weights[fold]) for fold in curves]
    mean = np.average([np.interp(grid, *curve) for curve in curves.values()], axis=0, weights=shares)
    return np.concatenate([[0.0], grid]), np.concatenate([[0.0], mean])
