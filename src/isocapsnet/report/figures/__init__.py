"""Figures: data in, matplotlib figure out; pure functions, safe for colour-blind readers, of publication size."""

from isocapsnet.report.figures.brain import plot_connectome, plot_reconstruction, plot_representation, plot_template
from isocapsnet.report.figures.comparison import plot_audit, plot_comparison, plot_folds, plot_sweep
from isocapsnet.report.figures.curves import plot_calibration, plot_confusion, plot_learning, plot_roc
from isocapsnet.report.figures.style import as_png, as_svg, save_figure

__all__ = [
    "as_png",
    "as_svg",
    "plot_audit",
    "plot_calibration",
    "plot_comparison",
    "plot_confusion",
    "plot_connectome",
    "plot_folds",
    "plot_learning",
    "plot_reconstruction",
    "plot_representation",
    "plot_roc",
    "plot_sweep",
    "plot_template",
    "save_figure",
]
