"""The tables of a page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isocapsnet.report import gallery
from isocapsnet.report.content import Content
from isocapsnet.report.prose import METRIC_NAMES, describe_method, duration, effect, interval, number, p_value

_LISTED_REGIONS, _LISTED_WINDOWS = 8, 6


@dataclass(frozen=True)
class Column:
    name: str
    numeric: bool = False


@dataclass(frozen=True)
class Cell:
    """What is shown, and for a numeric column what it is sorted by."""

    text: str
    value: float | str = ""


@dataclass(frozen=True)
class Table:
    id: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]] = ()


def results_table(content: Content) -> Table:
    """The comparison, the highest mean ROC AUC first."""
    metrics = ("roc_auc", "balanced_accuracy", "accuracy", "weighted_f1", "mcc", "brier")
    columns = [
        Column("method"),
        *(Column(METRIC_NAMES[name], numeric=True) for name in metrics),
        Column("time per fold", numeric=True),
        Column("against chance", numeric=True),
        Column("what it shows"),
    ]
    rows = []
    for method in gallery.by_area(content):
        row = method.row
        cells = [Cell(method.label + (" ★" if row["is_best"] else ""))]
        for name in metrics:
            values = row["metrics"][name]
            shown = interval(values) if name == "roc_auc" else number(values["mean"])
            cells.append(Cell(shown, _sortable(values["mean"])))
        cells.append(Cell(duration(row["seconds"]), _sortable(row["seconds"])))
        cells.append(Cell(p_value(row["p_chance"]), _sortable(row["p_chance"])))
        rows.append([*cells, Cell(row["verdict"])])
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
            Cell(pair["first"]),
            Cell(pair["second"]),
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
            Cell(method.label),
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
        space = "; ".join(f"{name}: {_values(values)}" for name, values in method.space.items())
        chosen = "; ".join(f"{name} ({count} of {len(method.fits)})" for name, count in method.chosen)
        rows.append(
            [
                Cell(method.label),
                Cell(describe_method(method)),
                Cell(space or "nothing"),
                Cell(chosen if method.space and chosen else "–"),
            ]
        )
    columns = [Column("method"), Column("set by the user"), Column("searched"), Column("chosen, in how many folds")]
    return Table("tuning-table", "Parameters of each method", columns, rows)


def failures_table(content: Content) -> Table:
    """Reasons for failed jobs."""
    rows = [
        [Cell(method.label), Cell(str(count), count), Cell(reason)]
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
            rows.append([Cell(method.label), Cell(str(count), count), Cell(message)])
    return Table("warnings", "Warnings", [Column("method"), Column("fits", numeric=True), Column("message")], rows)


def regions_table(content: Content, card: Mapping[str, Any], name: str) -> Table:
    rows = [
        [
            Cell(content.node_name(region["node"])),
            Cell(f"{region['share']:.1%}", region["share"]),
            Cell(effect(region["effect"]), _sortable(region["effect"]["value"])),
            Cell(content.classes[region["favours"]]),
        ]
        for region in card["regions"][:_LISTED_REGIONS]
    ]
    columns = [
        Column("region"),
        Column("share of the evidence", numeric=True),
        Column("effect d", numeric=True),
        Column("matches better in"),
    ]
    return Table(f"{name}-regions", f"The {len(rows)} regions with the largest shares", columns, rows)


def windows_table(content: Content, card: Mapping[str, Any], name: str) -> Table:
    size = len(card["matrix"])
    rows = []
    for window in card["windows"][:_LISTED_WINDOWS]:
        row_nodes, column_nodes = (
            f"{content.node_name(start)} to {content.node_name(start + size - 1)}"
            for start in (window["row"], window["column"])
        )
        found = window["orientations"][window["favours"]]
        orientation = " ".join(str(node + 1) for node in found["permutation"])
        rows.append(
            [
                Cell(row_nodes if window["row"] == window["column"] else f"{row_nodes} × {column_nodes}"),
                Cell(f"{window['share']:.1%}", window["share"]),
                Cell(effect(window["effect"]), _sortable(window["effect"]["value"])),
                Cell(
                    ", ".join(
                        f"{class_name} {number(score, 2)}"
                        for class_name, score in zip(content.classes, window["scores"], strict=True)
                    )
                ),
                Cell(f"{orientation} ({found['share']:.0%} of {content.classes[window['favours']]})"),
            ]
        )
    columns = [
        Column("window"),
        Column("share", numeric=True),
        Column("effect d", numeric=True),
        Column("mean match score"),
        Column("template nodes in order of the regions"),
    ]
    return Table(f"{name}-windows", "Windows of the matrix where the template matters most", columns, rows)


def _values(values: Any) -> str:
    return ", ".join(map(str, values)) if isinstance(values, list | tuple) else str(values)


def _sortable(value: float | None) -> float | str:
    return "" if value is None else value
