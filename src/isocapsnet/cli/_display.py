"""Tables of results for the terminal."""

import pandas as pd
from rich import box
from rich.console import Group
from rich.table import Table as RichTable

from isocapsnet._format import interval, number, p_value
from isocapsnet._progress import escape as escape
from isocapsnet._progress import make_console as make_console
from isocapsnet._results import Results

_MIN_WIDTH_OF_VERDICTS = 100


def results_table(results: Results, title: str, width: int) -> Group:
    """The comparison of methods, the highest ROC AUC first. In a narrow terminal verdicts follow the numbers."""
    is_narrow = width < _MIN_WIDTH_OF_VERDICTS
    table = RichTable(title=title, title_justify="left", box=box.SIMPLE, padding=(0, 1))
    table.add_column("method", overflow="fold")
    for name in ("ROC AUC", "accuracy", "F1 (w.)", "s/job", "vs chance"):
        table.add_column(name, justify="right", no_wrap=True)
    if not is_narrow:
        table.add_column("verdict")
    for row in results.best_first:
        table.add_row(
            escape(row.method) + (" *" if row.is_best else "") + (" +" if row.use_unlabeled else ""),
            escape(interval(*row.metrics["roc_auc"])),
            number(row.metrics["accuracy"].mean),
            number(row.metrics["weighted_f1"].mean),
            number(row.seconds, digits=2),
            _plain(p_value(row.p_chance)),
            *([] if is_narrow else [escape(row.verdict)]),
            style="bold" if row.is_best else None,
        )
    verdicts = [f"{escape(row.method)}: {escape(row.verdict)}" for row in results.best_first] if is_narrow else []
    sites = [] if results.summary.sites is None else [escape(results.summary.sites.sentence)]
    return Group(table, *verdicts, *([""] if is_narrow else []), f"[dim italic]{_caption(results)}[/]", *sites)


def audit_table(results: Results) -> RichTable:
    """How much each method depends on the order of the nodes."""
    title = "Node-order audit: ROC AUC with shuffled nodes minus as given"
    table = RichTable("method", "difference", "p", "verdict", title=title, title_justify="left")
    for row in results.summary.rows:
        if row.audit is not None:
            difference = escape(interval(*row.audit.difference))
            table.add_row(escape(row.method), difference, _plain(p_value(row.audit.p_value)), row.audit.verdict)
    return table


def sweep_table(frame: pd.DataFrame, title: str) -> RichTable:
    """One row per value of a parameter."""
    table = RichTable(title=title, title_justify="left", show_lines=True)
    for name in frame:
        table.add_column(str(name), overflow="fold", no_wrap=name == "template")
    for _, row in frame.iterrows():
        lines = [" ".join(f"{value:5.2f}" for value in line) for line in row["template"] or ()]
        cells = [number(value) if isinstance(value, float) else escape(str(value)) for value in row]
        cells[list(frame).index("template")] = "\n".join(lines) or "-"
        table.add_row(*cells)
    return table


def describe_protocol(results: Results) -> str:
    """``study: nested, 5 x 3 folds, up to 8 settings tried inside each fold``."""
    protocol, rows = results.context["protocol"], results.summary.rows
    n_folds = max((len({fold for _, fold in row.scores}) for row in rows), default=0)
    words = [f"{results.context['passport']['name']}: {protocol['name']}", f"{protocol['repeats']} x {n_folds} folds"]
    words += [step["name"] for step in results.context["preparation"]]
    n_candidates = protocol.get("n_candidates", 1)
    words += [f"up to {n_candidates} settings tried inside each fold"] if n_candidates > 1 else []
    words += [f"{protocol['permutations']} permutations"] if protocol.get("permutations") else []
    return escape(", ".join(words))


def _caption(results: Results) -> str:
    notes = [
        f"95 % intervals and tests ({results.summary.test}) corrected for shared training subjects (Nadeau-Bengio), "
        "p-values for several methods (Holm)."
    ]
    if any(row.is_best for row in results.summary.rows):
        notes.append("* better than every other method.")
    if any(row.use_unlabeled for row in results.summary.rows):
        notes.append("+ unlabelled graphs took part in training.")
    return " ".join(notes)


def _plain(text: str) -> str:
    """Spaces that a terminal may break."""
    return text.replace("\u00a0", " ")
