"""The tables of a page."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape

from isocapsnet._format import MISSING, interval, number, p_value, seconds
from isocapsnet.evaluation.inference import MARGIN
from isocapsnet.evaluation.metrics import METRICS
from isocapsnet.evaluation.statistics import Interval
from isocapsnet.report.content import Content
from isocapsnet.report.evidence import Scene, effect
from isocapsnet.report.prose import describe_parameters, selected_in_fit

if TYPE_CHECKING:
    from isocapsnet.explanation.cards import EvidenceCard, MotifCard

_LISTED_REGIONS, _LISTED_WINDOWS, _LISTED_EDGES, _LISTED_CARRIERS = 8, 6, 8, 50
_MANY_ROWS = 4
_SHOWN_METRICS = ("accuracy", "balanced_accuracy", "weighted_f1")


@dataclass(frozen=True)
class Cell:
    """The text of a cell, and in a numeric column the value to sort by."""

    text: str
    value: float | str = ""


@dataclass(frozen=True)
class PageTable:
    """Rows of cells, of which the first is the name of the row.

    ``numeric`` columns are aligned to the right and sorted by value.
    """

    id: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]] = ()
    numeric: Sequence[str] = ()
    can_filter: bool = True

    @property
    def has_filter(self) -> bool:
        return self.can_filter and len(self.rows) >= _MANY_ROWS


def results_table(content: Content) -> PageTable:
    """All methods with their scores and verdicts."""
    rows = [
        [
            Cell(_breakable(method.label) + (" ★" if method.row.is_best else "")),
            Cell(method.row.verdict),
            _interval_cell(method.row.metrics["roc_auc"]),
            _cell(p_value(method.row.p_chance), method.row.p_chance),
            *(_cell(number(mean), mean) for mean in (method.row.metrics[name].mean for name in _SHOWN_METRICS)),
            _cell(seconds(method.row.seconds), method.row.seconds),
        ]
        for method in content.methods
    ]
    numeric = ["ROC AUC", "p against chance", *(METRICS[name].label for name in _SHOWN_METRICS), "time per fold"]
    return PageTable("results", "All methods; click a heading to sort", ["method", "verdict", *numeric], rows, numeric)


def pairs_table(content: Content) -> PageTable:
    """Every pair of methods."""
    has_equivalence = any(not np.isnan(pair.p_equivalent) for pair in content.table.comparisons)
    rows = [
        [
            Cell(_breakable(pair.first)),
            Cell(_breakable(pair.second)),
            _interval_cell(pair.difference),
            _cell(p_value(pair.p_adjusted), pair.p_adjusted),
            *([_cell(p_value(pair.p_equivalent), pair.p_equivalent)] if has_equivalence else []),
        ]
        for pair in content.table.comparisons
    ]
    numeric = ["first minus second, ROC AUC", "p of a difference, adjusted"]
    numeric += [f"p of less than ±{MARGIN}, adjusted"] if has_equivalence else []
    return PageTable("pairs", "Differences on the same test folds", ["first", "second", *numeric], rows, numeric)


def sites_table(content: Content) -> PageTable:
    """The ROC AUC of each method at each site."""
    shown = content.table.site_results
    assert shown is not None
    labels = [method.label for method in content.methods if method.fits]
    nothing = Interval(*[float("nan")] * 3)
    rows = [
        [
            Cell(", ".join(site.sites)),
            Cell(str(site.n_subjects), site.n_subjects),
            *(Cell(str(count), count) for count in site.counts),
            *(_interval_cell(site.areas.get(label, nothing)) for label in labels),
        ]
        for site in shown.sites
    ]
    numeric = ["subjects", *content.classes, *labels]
    return PageTable("site-scores", "ROC AUC of each method at each site", ["site", *numeric], rows, numeric)


def site_summary_table(content: Content) -> PageTable:
    """The random-effects summary over sites."""
    shown = content.table.site_results
    assert shown is not None
    rows = [
        [
            Cell(_breakable(label)),
            _interval_cell(summary.mean),
            _cell(number(summary.deviation), summary.deviation),
            Cell(f"{100 * summary.share:.0f} %", summary.share),
            _cell(p_value(summary.p_value), summary.p_value),
            Cell(summary.heterogeneity),
        ]
        for label, summary in shown.summaries.items()
    ]
    numeric = ["mean over sites", "standard deviation of sites", "I²", "p of heterogeneity"]
    return PageTable("site-summary", "Over a population of sites", ["method", *numeric, "in words"], rows, numeric)


def audit_table(content: Content) -> PageTable:
    """The node-order audit."""
    rows = [
        [
            Cell(_breakable(method.label)),
            _interval_cell(audit.difference),
            _cell(p_value(audit.p_value), audit.p_value),
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
                Cell(_breakable(method.label)),
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
        [Cell(_breakable(method.label)), Cell(str(count), count), Cell(reason)]
        for method in content.methods
        for reason, count in method.row.failures.items()
    ]
    return PageTable("failures", "Failed jobs", ["method", "jobs", "reason"], rows, ["jobs"])


def warnings_table(content: Content) -> PageTable:
    """Warnings of fits, each once per method."""
    rows = []
    for method in content.methods:
        for message, count in Counter(message for fit in method.fits for message in fit.warnings).items():
            rows.append([Cell(_breakable(method.label)), Cell(str(count), count), Cell(message)])
    return PageTable("warnings", "Warnings", ["method", "fits", "message"], rows, ["fits"])


def regions_table(content: Content, card: "EvidenceCard", id: str) -> PageTable:
    """The regions of an evidence card."""
    rows = [
        [
            Cell(content.node_name(region.node)),
            Cell(f"{region.share:.1%}", region.share),
            _cell(effect(region.effect), region.effect.value),
            Cell(f"{region.n_fits} of {card.n_fits}", region.n_fits),
            Cell(content.classes[region.favours]),
        ]
        for region in card.regions[:_LISTED_REGIONS]
    ]
    numeric = ["share of the separation", "effect d", f"fits with it among the first {len(card.matrix)}"]
    caption = f"The {len(rows)} regions that separate the classes most"
    return PageTable(f"{id}-regions", caption, ["region", *numeric, "matches better in"], rows, numeric, False)


def motif_regions_table(content: Content, card: "MotifCard", id: str) -> PageTable:
    """The most frequent regions of a motif."""
    shares = np.array(card.region_shares)
    rows = [
        [Cell(content.node_name(int(node))), Cell(f"{shares[node]:.1%}", float(shares[node]))]
        for node in np.argsort(-shares, kind="stable")[:_LISTED_REGIONS]
    ]
    by_chance = len(card.matrix) / max(len(shares), 1)
    caption = f"Regions of the motif in its {len(card.carriers)} carriers; {by_chance:.1%} by chance"
    return PageTable(
        f"{id}-regions", caption, ["region", "share of the carriers"], rows, ["share of the carriers"], False
    )


def carriers_table(content: Content, card: "MotifCard", id: str) -> PageTable:
    """The regions of the motif in each of its clearest carriers."""
    columns = [f"node {node}" for node in range(1, len(card.matrix) + 1)]
    rows = [
        [
            Cell(carrier.subject),
            Cell(content.classes[carrier.label]),
            Cell(number(carrier.distance, 2), carrier.distance),
            *(Cell(content.node_name(node)) for node in carrier.nodes),
        ]
        for carrier in card.carriers[:_LISTED_CARRIERS]
    ]
    caption = (
        f"The {len(rows)} clearest of {len(card.carriers)} carriers, and the region of each node of the motif. The "
        "distance is 0 at the mean of the carriers, and 1 at the mean of the graphs of other classes"
    )
    return PageTable(f"{id}-carriers", caption, ["subject", "class", "distance", *columns], rows, ["distance"])


def edges_table(content: Content, scene: Scene) -> PageTable:
    """The strongest edges of an attribution."""
    upper = np.triu(scene.edges)
    order = np.argsort(-np.abs(upper), axis=None)[:_LISTED_EDGES]
    rows = [
        [
            Cell(content.node_name(int(a))),
            Cell(content.node_name(int(b))),
            Cell(f"{upper[a, b]:+.3g}".replace("-", "−"), float(upper[a, b])),
        ]
        for a, b in zip(*np.unravel_index(order, upper.shape), strict=True)
        if upper[a, b]
    ]
    caption = f"The {len(rows)} edges that separate the classes most"
    return PageTable(f"{scene.id}-edges", caption, ["region", "region", "separation"], rows, ["separation"], False)


def windows_table(content: Content, card: "EvidenceCard", id: str) -> PageTable:
    """The windows of an evidence card."""
    size = len(card.matrix)
    rows = []
    for window in card.windows[:_LISTED_WINDOWS]:
        row_nodes, column_nodes = (
            f"{content.node_name(start)} to {content.node_name(start + size - 1)}"
            for start in (window.row, window.column)
        )
        scores = zip(content.classes, window.scores, strict=True)
        orders = zip(content.classes, window.orientations, strict=True)
        rows.append(
            [
                Cell(row_nodes if window.row == window.column else f"{row_nodes} × {column_nodes}"),
                Cell(f"{window.share:.1%}", window.share),
                _cell(effect(window.effect), window.effect.value),
                Cell(", ".join(f"{name}\u00a0{number(score, 2)}" for name, score in scores)),
                Cell(", ".join(f"{name}\u00a0{_order(o.permutation)}\u00a0({o.share:.0%})" for name, o in orders)),
            ]
        )
    numeric = ["share of the separation", "effect d"]
    columns = ["window", *numeric, "mean match score", "most frequent order (share of graphs)"]
    caption = (
        "Windows of the matrix with the largest influence. The match score is 1 at a perfect match and lower "
        "otherwise. An order lists the nodes of the template, as numbered in the drawing, in the order of the regions"
    )
    return PageTable(f"{id}-windows", caption, columns, rows, numeric, False)


def _order(permutation: Sequence[int]) -> str:
    """The numbers of the template's nodes, as drawn, in the order of the regions of the window."""
    return "\u2011".join(str(node + 1) for node in permutation) or MISSING


def _values(values: Any) -> str:
    return ", ".join(map(str, values)) if isinstance(values, list | tuple) else str(values)


def _breakable(label: str) -> Markup:
    """A method's label with line breaks allowed before and between its parameters."""
    return escape(label).replace("[", Markup("<wbr>[")).replace(",", Markup(",<wbr>"))


def _cell(text: str, value: float) -> Cell:
    """A number, which is sorted last if it is NaN."""
    return Cell(text, "" if np.isnan(value) else value)


def _interval_cell(values: Interval) -> Cell:
    return _cell(interval(*values), values.mean)
