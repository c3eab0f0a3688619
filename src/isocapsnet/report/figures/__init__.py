"""The figures of a report, each a kind in the registry :data:`FIGURES`.

To add a figure, write a function that takes a :class:`~isocapsnet.report.content.Content` and yields a
:class:`~isocapsnet.report.figures.drawing.Drawing`, and add a line here. The page shows it in its section.
``FIGURES["folds"](content)`` is the matplotlib figure. The ``plot_*`` functions draw the same from arrays.
"""

from functools import partial

from isocapsnet.report.figures import brain, comparison, curves, roc, sample_size, sites, templates
from isocapsnet.report.figures.drawing import FigureKind
from isocapsnet.report.figures.style import save_figure

__all__ = ["FIGURES", "save_figure"]

#: Name to kind of figure, in the order of the page.
FIGURES: dict[str, FigureKind] = {
    "comparison": FigureKind(comparison.comparison, "answer"),
    "accuracy": FigureKind(partial(comparison.comparison, metric="accuracy"), "comparison"),
    "folds": FigureKind(comparison.folds, "comparison"),
    "all_roc": FigureKind(roc.all_roc, "comparison"),
    "precision_recall": FigureKind(roc.precision_recall, "comparison"),
    "site_forest": FigureKind(sites.site_forest, "sites"),
    "node_order": FigureKind(comparison.node_order, "node-order"),
    "learning_curve": FigureKind(sample_size.learning_curve, "learning-curve"),
    "sweep": FigureKind(comparison.sweep, "sweep"),
    "roc": FigureKind(roc.roc, "methods", of="method"),
    "calibration": FigureKind(curves.calibration, "methods", of="method"),
    "confusion": FigureKind(curves.confusion, "methods", of="method"),
    "learning": FigureKind(curves.learning, "methods", of="method"),
    "representation": FigureKind(curves.representation, "methods", of="method"),
    "first_templates": FigureKind(templates.first_templates, "templates", of="method"),
    "template": FigureKind(templates.template, "template", of="scene"),
    "brain": FigureKind(brain.brain, "brain", of="scene"),
    "carriers": FigureKind(brain.carriers, "brain", of="scene"),
    "reconstruction": FigureKind(brain.reconstruction, "reconstruction", of="method"),
}
