"""The tables of a page that are about methods."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from isocapsnet._format import MISSING, interval, number, p_value, seconds
from isocapsnet.evaluation.differences import MARGIN
from isocapsnet.evaluation.metrics import METRICS
from isocapsnet.evaluation.statistics import Interval
from isocapsnet.report.content import Content
from isocapsnet.report.prose import describe_parameters, selected_in_fit
from isocapsnet.report.rates import average_precision, decision_rates
from isocapsnet.report.sites import site_scores

_MANY_ROWS = 4
_SHOWN_METRICS = ("accuracy", "balanced_accuracy", "weighted_f1")


@dataclass(frozen=True)
class Cell:
    """The text of a cell, and in a numeric column the value to sort by; ``is_marked`` cells stand out."""

    text: str
    value: float | str = ""
    is_marked: bool = False


@dataclass(frozen=True)
class PageTable:
    """Rows of cells, of which the first is the name of the row.

    ``numeric`` columns are aligned to the right and sorted by value. Of a ``long`` table, the rows with marked cells
    are printed, and all others are left to the screen.
    """

    id: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]] = ()
    numeric: Sequence[str] = ()
    can_filter: bool = True
    long: bool = False

    @property
    def has_filter(self) -> bool:
        return self.can_filter and len(self.rows) >= _MANY_ROWS


def results_table(content: Content) -> PageTable:
    """All methods with their scores and verdicts."""
    rows = [
        [
            Cell(breakable(method.label) + (" ★" if method.row.is_best else "")),
            Cell(method.row.verdict),
            interval_cell(method.row.metrics["roc_auc"]),
            cell(p_value(method.row.p_chance), method.row.p_chance),
            *(cell(number(mean), mean) for mean in (method.row.metrics[name].mean for name in _SHOWN_METRICS)),
            cell(seconds(method.row.seconds), method.row.seconds),
        ]
        for method in content.methods
    ]
    numeric = ["ROC AUC", "p against chance", *(METRICS[name].label for name in _SHOWN_METRICS), "time per fold"]
    return PageTable("results", "All methods; click a heading to sort", ["method", "verdict", *numeric], rows, numeric)


def rates_table(content: Content) -> PageTable:
    """Sensitivity, specificity and predictive values of each method."""
    methods = [method for method in content.methods if method.fits]
    rates = [decision_rates(content, method) for method in methods]
    is_binary = len(content.classes) == 2
    rows = []
    for method, of_method in zip(methods, rates, strict=True):
        cells = [interval_cell(values) for values in of_method.values()]
        if is_binary:
            mean = average_precision(content, method)
            cells.append(cell(number(mean), mean))
        rows.append([Cell(breakable(method.label)), *cells])
    numeric = [*(rates[0] if rates else ()), *(["average precision"] if is_binary else [])]
    positive = f", where {content.classes[content.positive]} is the positive class" if is_binary else ""
    caption = f"Decisions for the most probable class{positive}"
    return PageTable("rates", caption, ["method", *numeric], rows, numeric, False)


def pairs_table(content: Content) -> PageTable:
    """Every pair of methods."""
    has_equivalence = any(not np.isnan(pair.p_equivalent) for pair in content.table.comparisons)
    rows = [
        [
            Cell(breakable(pair.first)),
            Cell(breakable(pair.second)),
            interval_cell(pair.difference),
            cell(p_value(pair.p_adjusted), pair.p_adjusted),
            *([cell(p_value(pair.p_equivalent), pair.p_equivalent)] if has_equivalence else []),
        ]
        for pair in content.table.comparisons
    ]
    numeric = ["first minus second, ROC AUC", "p of a difference, adjusted"]
    numeric += [f"p of less than ±{MARGIN}, adjusted"] if has_equivalence else []
    return PageTable("pairs", "Differences on the same test folds", ["first", "second", *numeric], rows, numeric)


def sites_table(content: Content) -> PageTable:
    """The ROC AUC of each method at each site."""
    labels = [method.label for method in content.methods if method.fits]
    nothing = Interval(*[float("nan")] * 3)
    rows = [
        [
            Cell(", ".join(site.sites)),
            Cell(str(site.n_subjects), site.n_subjects),
            *(Cell(str(count), count) for count in site.counts),
            *(interval_cell(site.areas.get(label, nothing)) for label in labels),
        ]
        for site in site_scores(content)
    ]
    numeric = ["subjects", *content.classes, *labels]
    return PageTable("site-scores", "ROC AUC of each method at each site", ["site", *numeric], rows, numeric)


def site_summary_table(content: Content) -> PageTable:
    """The random-effects summary over sites."""
    shown = content.table.site_results
    assert shown is not None
    rows = [
        [
            Cell(breakable(label)),
            interval_cell(summary.mean),
            cell(number(summary.deviation), summary.deviation),
            Cell(f"{100 * summary.share:.0f} %", summary.share),
            cell(p_value(summary.p_value), summary.p_value),
            Cell(summary.heterogeneity),
        ]
        for label, summary in shown.summaries.items()
    ]
    numeric = ["mean over sites", "standard deviation of sites", "I²", "p of heterogeneity"]
    return PageTable("site-summary", "Over a population of sites", ["method", *numeric, "in words"], rows, numeric)


def learning_curve_table(content: Content) -> PageTable:
    """The ROC AUC of each method for each share of the training subjects."""
    rows = [
        [
            Cell(breakable(method.label)),
            Cell(f"{point.share:.0%}", point.share),
            Cell(number(point.n_train, 0), point.n_train),
            interval_cell(point.area),
        ]
        for method in content.methods
        for point in method.row.curve
    ]
    numeric = ["share of the training subjects", "training graphs", "ROC AUC"]
    return PageTable("sample-sizes", "ROC AUC by sample size", ["method", *numeric], rows, numeric)


def audit_table(content: Content) -> PageTable:
    """The node-order audit."""
    rows = [
        [
            Cell(breakable(method.label)),
            interval_cell(audit.difference),
            cell(p_value(audit.p_value), audit.p_value),
            Cell(audit.verdict),
        ]
        for method in content.methods
        if (audit := method.row.audit) is not None
    ]
    columns = ["method", "change of ROC AUC", "p", "verdict"]
    return PageTable("audit", "ROC AUC with shuffled nodes minus as given", columns, rows, columns[1:3])


def tuning_table(content: Content) -> PageTable:
    """Parameters, search space and selected settings of each method."""
    rows = []
    for method in content.methods:
        space = [f"{name}: {_values(values)}" for name, values in method.row.space.items()]
        space += [f"{name}: inside each fit" for name in selected_in_fit(method)]
        selected = "; ".join(f"{name} ({count} of {len(method.fits)})" for name, count in method.selected)
        rows.append(
            [
                Cell(breakable(method.label)),
                Cell(describe_parameters(method)),
                Cell("; ".join(space) or "nothing"),
                Cell(selected if method.row.space and selected else MISSING),
            ]
        )
    columns = ["method", "set by the user", "searched", "selected (number of folds)"]
    return PageTable("tuning-table", "Parameters of each method", columns, rows)


def failures_table(content: Content) -> PageTable:
    """Reasons for failed jobs."""
    rows = [
        [Cell(breakable(method.label)), Cell(str(count), count), Cell(reason)]
        for method in content.methods
        for reason, count in method.row.failures.items()
    ]
    return PageTable("failures", "Failed jobs", ["method", "jobs", "reason"], rows, ["jobs"])


def warnings_table(content: Content) -> PageTable:
    """Warnings of fits, each once per method."""
    rows = []
    for method in content.methods:
        for message, count in Counter(message for fit in method.fits for message in fit.warnings).items():
            rows.append([Cell(breakable(method.label)), Cell(str(count), count), Cell(message)])
    return PageTable("warnings", "Warnings", ["method", "fits", "message"], rows, ["fits"])


def _values(values: Any) -> str:
    return ", ".join(map(str, values)) if isinstance(values, list | tuple) else str(values)


def breakable(label: str) -> Markup:
    """A method's label with line breaks allowed before and between its parameters."""
    return escape(label).replace("[", Markup("<wbr>[")).replace(",", Markup(",<wbr>"))


def cell(text: str, value: float) -> Cell:
    """A number, which is sorted last if it is NaN."""
    return Cell(text, "" if np.isnan(value) else value)


def interval_cell(values: Interval) -> Cell:
    return cell(interval(*values), values.mean)
