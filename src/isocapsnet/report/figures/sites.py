"""The forest plot of sites."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from isocapsnet._format import interval
from isocapsnet.evaluation.comparisons import CONSTANT, REFERENCE
from isocapsnet.evaluation.site_scores import SiteScores
from isocapsnet.evaluation.statistics import CHANCE, Interval
from isocapsnet.report.content import Content
from isocapsnet.report.figures import style
from isocapsnet.report.figures.drawing import Drawing
from isocapsnet.report.sites import site_scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = 3
# Inches; the page enlarges the figure to its own width.
_WIDTH = 5.2


def site_forest(content: Content) -> Iterator[Drawing]:
    """The ROC AUC of the best methods and the linear model at each site, and over sites."""
    sites = site_scores(content)
    ranked = [m.label for m in content.methods if m.fits and m.label != CONSTANT and not m.row.covariates]
    if not sites or not ranked:
        return
    shown = ranked[: _SHOWN - 1] + [label for label in ranked[_SHOWN - 1 :] if label == REFERENCE]
    shown = (shown + [label for label in ranked if label not in shown])[:_SHOWN]
    results = content.table.site_results
    if results is not None and results.summaries:
        last = "all sites (random effects)"
        overall = {label: results.summaries[label].mean for label in shown if label in results.summaries}
    else:
        last = "all subjects"
        overall = {m.label: m.row.metrics["roc_auc"] for m in content.methods if m.label in shown}
    words = "; ".join(f"{site.name} {interval(*site.areas[shown[0]])}" for site in sites if shown[0] in site.areas)
    yield Drawing(
        "site-forest",
        plot_forest(sites, shown, style.method_styles(content.table.rows), last, overall),
        "ROC AUC at each site with its 95 % interval; larger dots are larger sites. Diamonds: "
        f"{last.replace('all', 'over all')}.",
        f"ROC AUC of {shown[0]} by site: {words}.",
    )


@style.styled()
def plot_forest(
    sites: Sequence[SiteScores],
    methods: Sequence[str],
    styles: Mapping[str, style.MethodStyle],
    last: str,
    overall: Mapping[str, Interval],
) -> "Figure":
    """Sites in rows, the largest on top, with a dot and an interval for each method; ``overall`` is the last row."""
    from matplotlib.lines import Line2D

    rows = sorted(sites, key=lambda site: -site.n_subjects)
    step = 0.2
    height = 0.8 + (len(rows) + 1) * (0.13 + 0.11 * len(methods))
    figure, (axis,) = style.new_figure(_WIDTH, height)
    axis.axvline(CHANCE, color=style.MUTED, lw=0.9, ls="--", gid="chance")
    largest = max(site.n_subjects for site in rows)
    for index, label in enumerate(methods):
        shift, colour = step * (index - (len(methods) - 1) / 2), styles[label].colour
        values = [site.areas.get(label, Interval(*[np.nan] * 3)) for site in rows]
        for row, (site, (mean, low, high)) in enumerate(zip(rows, values, strict=True)):
            if np.isfinite(mean):
                size = 3 + 4 * np.sqrt(site.n_subjects / largest)
                axis.plot([low, high], [row + shift] * 2, color=colour, lw=1.3, gid=f"interval-{row}-{index}")
                axis.plot(mean, row + shift, "o", ms=size, color=colour, gid=f"site-{row}-{index}")
        if label in overall:
            mean, low, high = overall[label]
            axis.plot([low, high], [len(rows) + shift] * 2, color=colour, lw=1.3)
            axis.plot(mean, len(rows) + shift, "D", ms=5.5, color=colour, gid=f"overall-{index}")
    axis.axhline(len(rows) - 0.5, color=style.FAINT, lw=0.8)
    style.list_on_y(axis, [*(f"{site.name} ({site.n_subjects})" for site in rows), last])
    axis.set_xlabel("ROC AUC, 95 % interval")
    handles = [Line2D([], [], color=styles[label].colour, marker="o", ms=5, label=label) for label in methods]
    axis.legend(handles=handles, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=len(methods), borderaxespad=0.2)
    return figure
