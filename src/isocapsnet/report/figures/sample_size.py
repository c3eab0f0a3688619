"""The learning curve over the number of training subjects."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from isocapsnet._format import number
from isocapsnet.evaluation.shares import CurvePoint
from isocapsnet.evaluation.statistics import CHANCE
from isocapsnet.report.content import Content
from isocapsnet.report.figures import style
from isocapsnet.report.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def learning_curve(content: Content) -> Iterator[Drawing]:
    """ROC AUC by the number of training graphs, of the methods that were run on shares of them."""
    curves = {method.label: method.row.curve for method in content.methods if method.row.curve}
    if curves:
        ends = [f"{label} from {number(c[0].area.mean)} to {number(c[-1].area.mean)}" for label, c in curves.items()]
        yield Drawing(
            "learning-curve",
            plot_learning_curve(curves, style.method_styles(content.table.rows)),
            "ROC AUC by the number of training graphs, mean and 95 % interval over the same test folds. Smaller "
            "samples are parts of larger ones.",
            f"Learning curves over sample size: {'; '.join(ends)}.",
        )


@style.styled()
def plot_learning_curve(
    curves: Mapping[str, Sequence[CurvePoint]], styles: Mapping[str, style.MethodStyle]
) -> "Figure":
    """One line per method with its intervals, which are moved apart a little."""
    figure, (axis,) = style.new_figure(5.2, 2.9)
    axis.axhline(CHANCE, color=style.MUTED, lw=0.9, ls="--", gid="chance")
    widest = max(point.n_train for curve in curves.values() for point in curve)
    for index, (label, curve) in enumerate(curves.items()):
        sizes = np.array([point.n_train for point in curve])
        means, low, high = np.array([point.area for point in curve]).T
        shift = 0.008 * widest * (index - (len(curves) - 1) / 2)
        axis.vlines(sizes + shift, low, high, color=styles[label].colour, lw=1, alpha=0.7)
        axis.plot(
            sizes,
            means,
            "o",
            ms=4,
            ls=styles[label].dash,
            color=styles[label].colour,
            label=label,
            gid=f"curve-{label}",
        )
    axis.set(xlabel="training graphs", ylabel="ROC AUC, 95 % interval", xlim=(0, 1.05 * widest))
    axis.grid(axis="y")
    axis.set_axisbelow(True)
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=min(4, len(curves)))
    return figure
