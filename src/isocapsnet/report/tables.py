"""The tables of a page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from isocapsnet.report.content import Content
from isocapsnet.report.evidence import Scene
from isocapsnet.report.prose import (
    METRIC_NAMES,
    chosen_in_fit,
    describe_method,
    duration,
    effect,
    interval,
    number,
    p_value,
)

_LISTED_REGIONS, _LISTED_WINDOWS, _LISTED_EDGES = 8, 6, 8
_ROWS_AT_A_GLANCE = 3


@dataclass(frozen=True)
class Column:
    """A heading; a numeric column is aligned right and sorted by its cells' values."""

    name: str
    numeric: bool = False


@dataclass(frozen=True)
class Cell:
    """What is shown, and for a numeric column what it is sorted by."""

    text: str
    value: float | str = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells, of which the first names the row; ``is_short`` ones have no field to filter them."""

    id: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]] = ()
    is_short: bool = False

    @property
    def is_filterable(self) -> bool:
        return not self.is_short and len(self.rows) > _ROWS_AT_A_GLANCE


def results_table(content: Content) -> Table:
    """The comparison."""
    metrics = ("accuracy", "balanced_accuracy", "weighted_f1")
    columns = [
        Column("method"),
        Column("what it shows"),
        Column("ROC AUC", numeric=True),
        Column("against chance", numeric=True),
        *(Column(METRIC_NAMES[name], numeric=True) for name in metrics),
        Column("time per fold", numeric=True),
    ]
    rows = []
    for method in content.methods:
        row, area = method.row, method.row["metrics"]["roc_auc"]
        rows.append(
            [
                Cell(_breakable(method.label) + (" ★" if row["is_best"] else "")),
                Cell(row["verdict"]),
                Cell(interval(area), _sortable(area["mean"])),
                Cell(p_value(row["p_chance"]), _sortable(row["p_chance"])),
                *(
                    Cell(number(row["metrics"][name]["mean"]), _sortable(row["metrics"][name]["mean"]))
                    for name in metrics
                ),
                Cell(duration(row["seconds"]), _sortable(row["seconds"])),
            ]
        )
    return Table("results", "All methods; choose a heading to sort", columns, rows)


def pairs_table(content: Content) -> Table:
    """Every pair of methods."""
    columns = [
        Column("first"),
        Column("second"),
        Column("first minus second, ROC AUC", numeric=True),
        Column("p, adjusted", numeric=True),
    ]
    rows = [
        [
            Cell(_breakable(pair["first"])),
            Cell(_breakable(pair["second"])),
            Cell(interval(pair["difference"]), _sortable(pair["difference"]["mean"])),
            Cell(p_value(pair["p_adjusted"]), _sortable(pair["p_adjusted"])),
        ]
        for pair in content.results["comparisons"]
    ]
    return Table("pairs", "Differences on the same test folds", columns, rows)


def audit_table(content: Content) -> Table:
    """The node-order audit in words."""
    rows = [
        [
            Cell(_breakable(method.label)),
            Cell(interval(audit["difference"]), _sortable(audit["difference"]["mean"])),
            Cell(p_value(audit["p_value"]), _sortable(audit["p_value"])),
            Cell(audit["verdict"]),
        ]
        for method in content.methods
        if (audit := method.row["audit"])
    ]
    columns = [
        Column("method"),
        Column("change of ROC AUC", numeric=True),
        Column("p", numeric=True),
        Column("verdict"),
    ]
    return Table("audit", "ROC AUC with shuffled nodes minus as given", columns, rows)


def tuning_table(content: Content) -> Table:
    """Each method's parameters, what was searched, and what was chosen how often."""
    rows = []
    for method in content.methods:
        space = [f"{name}: {_values(values)}" for name, values in method.space.items()]
        space += [f"{name}: inside each fit" for name in chosen_in_fit(method)]
        chosen = "; ".join(f"{name} ({count} of {len(method.fits)})" for name, count in method.chosen)
        rows.append(
            [
                Cell(_breakable(method.label)),
                Cell(describe_method(method)),
                Cell("; ".join(space) or "nothing"),
                Cell(chosen if method.space and chosen else "–"),
            ]
        )
    columns = [Column("method"), Column("set by the user"), Column("searched"), Column("chosen, in how many folds")]
    return Table("tuning-table", "Parameters of each method", columns, rows)


def failures_table(content: Content) -> Table:
    """Reasons for failed jobs."""
    rows = [
        [Cell(_breakable(method.label)), Cell(str(count), count), Cell(reason)]
        for method in content.methods
        for reason, count in method.row["failures"].items()
    ]
    return Table("failures", "Failed jobs", [Column("method"), Column("jobs", numeric=True), Column("reason")], rows)


def warnings_table(content: Content) -> Table:
    """Warnings of fits, each once per method."""
    rows = []
    for method in content.methods:
        messages = [message for fit in method.fits for message in fit.warnings]
        for message in dict.fromkeys(messages):
            count = messages.count(message)
            rows.append([Cell(_breakable(method.label)), Cell(str(count), count), Cell(message)])
    return Table("warnings", "Warnings", [Column("method"), Column("fits", numeric=True), Column("message")], rows)


def regions_table(content: Content, card: Mapping[str, Any], name: str) -> Table:
    """The regions of an evidence card."""
    rows = [
        [
            Cell(content.node_name(region["node"])),
            Cell(f"{region['share']:.1%}", region["share"]),
            Cell(effect(region["effect"]), _sortable(region["effect"]["value"])),
            Cell(f"{region['n_fits']} of {card['n_fits']}", region["n_fits"]),
            Cell(content.classes[region["favours"]]),
        ]
        for region in card["regions"][:_LISTED_REGIONS]
    ]
    columns = [
        Column("region"),
        Column("share of the separation", numeric=True),
        Column("effect d", numeric=True),
        Column(f"fits with it among the first {len(card['matrix'])}", numeric=True),
        Column("matches better in"),
    ]
    return Table(
        f"{name}-regions", f"The {len(rows)} regions that separate the classes most", columns, rows, is_short=True
    )


def edges_table(content: Content, scene: Scene, name: str) -> Table:
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
    columns = [Column("region"), Column("region"), Column("separation", numeric=True)]
    return Table(f"{name}-edges", f"The {len(rows)} edges that separate the classes most", columns, rows, is_short=True)


def windows_table(content: Content, card: Mapping[str, Any], name: str) -> Table:
    """The windows of an evidence card."""
    size = len(card["matrix"])
    rows = []
    for window in card["windows"][:_LISTED_WINDOWS]:
        row_nodes, column_nodes = (
            f"{content.node_name(start)} to {content.node_name(start + size - 1)}"
            for start in (window["row"], window["column"])
        )
        rows.append(
            [
                Cell(row_nodes if window["row"] == window["column"] else f"{row_nodes} × {column_nodes}"),
                Cell(f"{window['share']:.1%}", window["share"]),
                Cell(effect(window["effect"]), _sortable(window["effect"]["value"])),
                Cell(
                    ", ".join(
                        f"{class_name}\u00a0{number(score, 2)}"
                        for class_name, score in zip(content.classes, window["scores"], strict=True)
                    )
                ),
                Cell(
                    ", ".join(
                        f"{class_name}\u00a0{_order(found['permutation'])}\u00a0({found['share']:.0%})"
                        for class_name, found in zip(content.classes, window["orientations"], strict=True)
                    )
                ),
            ]
        )
    columns = [
        Column("window"),
        Column("share of the separation", numeric=True),
        Column("effect d", numeric=True),
        Column("mean match score"),
        Column("most frequent order, in how many graphs"),
    ]
    caption = (
        "Windows of the matrix where the template matters most. A match score is 1 at a perfect match and lower "
        "elsewhere; an order lists the template’s nodes, as numbered in the drawing, along the regions of the window"
    )
    return Table(f"{name}-windows", caption, columns, rows, is_short=True)


def _order(permutation: Sequence[int]) -> str:
    """The template's node numbers, as drawn, in the order of the window's regions."""
    return "\u2011".join(str(node + 1) for node in permutation) or "–"


def _values(values: Any) -> str:
    return ", ".join(map(str, values)) if isinstance(values, list | tuple) else str(values)


def _breakable(label: str) -> Markup:
    """A method's name that may be broken before and between its parameters."""
    return escape(label).replace("[", Markup("<wbr>[")).replace(",", Markup(",<wbr>"))


def _sortable(value: float | None) -> float | str:
    return "" if value is None else value
