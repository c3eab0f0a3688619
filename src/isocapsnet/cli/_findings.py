"""What ``isocapsnet data check`` prints: counts and the first few of each kind, and the command that would work."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from isocapsnet._safe_text import list_some, printable, spreadsheet_safe

if TYPE_CHECKING:
    from isocapsnet.datasets.findings import Findings
    from isocapsnet.datasets.graphs import BrainGraphs
    from isocapsnet.datasets.remedies import Remedy

_LISTED = 3
_KINDS = 10
#: What columns of classes are usually called.
_TARGET = re.compile(r"dx|diagnos|group|label|class|target|status|condition", re.IGNORECASE)


def print_findings(findings: "Findings") -> None:
    """Print the first findings of each kind, and the number of the others."""
    for title, color, sentences in (("refused", "red", findings.errors), ("warning", "yellow", findings.warnings)):
        kinds = _group(sentences, findings.refused)
        for group in kinds[:_KINDS]:
            for sentence in group[:_LISTED]:
                click.secho(f"{title:<8}  {printable(sentence)}", fg=color)
            if (more := len(group) - _LISTED) > 0:
                click.secho(f"{title:<8}  ... and {more:,} more of this kind; --list FILE writes all.", fg=color)
        if (more := sum(map(len, kinds[_KINDS:]))) > 0:
            click.secho(f"{title:<8}  ... and {more:,} more of other kinds; --list FILE writes all.", fg=color)
    for what, where in findings.handled.items():
        number = f"{len(where):,} (" if len(where) > _LISTED else ""
        click.echo(printable(f"handled   {what}: {number}{list_some(where, _LISTED)}{')' if number else ''}"))
    reasons: dict[str, list[str]] = {}
    for subject, reason in findings.exclusions.items():
        reasons.setdefault(re.sub(r"\d+", "#", reason.replace(subject, "")), []).append(subject)
    for subjects in list(reasons.values())[:_KINDS]:
        reason = findings.exclusions[subjects[0]]
        who = subjects[0] if len(subjects) == 1 else f"{len(subjects):,} subjects ({list_some(subjects, _LISTED)})"
        click.echo(printable(f"excluded  {who}: {reason}"))


def _group(sentences: Sequence[str], refused: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Sentences that differ in the file and in numbers only are of one kind."""
    sources = {sentence: source for source, several in refused.items() for sentence in several}
    kinds: dict[str, list[str]] = {}
    for sentence in sentences:
        kinds.setdefault(re.sub(r"\d+", "#", sentence.replace(sources.get(sentence, "\0"), "")), []).append(sentence)
    return list(kinds.values())


def write_findings(findings: "Findings", path: Path) -> int:
    """Write all findings as a CSV table of kind, file or subject, and sentence; returns their number."""
    import pandas as pd

    sources = {sentence: source for source, several in findings.refused.items() for sentence in several}
    rows = [("refused", sources.get(sentence, ""), sentence) for sentence in findings.errors]
    rows += [("warning", "", sentence) for sentence in findings.warnings]
    rows += [("handled", where, what) for what, several in findings.handled.items() for where in several]
    rows += [("excluded", subject, reason) for subject, reason in findings.exclusions.items()]
    table = pd.DataFrame(rows, columns=["kind", "where", "what"])
    spreadsheet_safe(table).to_csv(path, index=False)
    return len(table)


def print_next(path: str, given: Mapping[str, Any], graphs: "BrainGraphs", findings: "Findings") -> None:
    """Print the command that comes next for data that can be used."""
    if not graphs.label_names:
        targets = sorted(findings.targets, key=lambda column: _TARGET.search(column) is None)
        if not targets:
            click.echo("A benchmark needs classes: add a table of subjects with --participants and --target.")
            return
        if _TARGET.search(targets[0]) is None:
            click.echo(printable(f"Columns that may have the classes: {list_some(targets)}."))
        given = {**given, "target": targets[0]}
    if unused := [column for column in findings.unused if column != given["target"]]:
        add = shlex.join(["--covariates", ",".join([*(given["covariates"] or ()), *unused])])
        click.echo(
            printable(
                f"not read  {list_some(unused, 6)} in the table of subjects; {add} adds a model without graphs to the "
                "benchmark"
            )
        )
    click.echo(printable(f"next      {_command('benchmark', path, given)}"))


# What only the user can know, if these options make refused data readable.
_ASSUMED = {
    "subjects": "only if the rows of the table are in the order of the graphs",
    "triangle": "only if the values are in this order",
    "index_base": "only if the first node has this number",
}


def print_remedies(path: str, given: Mapping[str, Any], remedies: Sequence["Remedy"]) -> None:
    """Print the commands with which refused data would be read; several if only the user knows which is right."""
    if not remedies:
        click.echo("No option makes the data readable; correct what is refused above.")
    for title, remedy in zip(["works", *["or"] * len(remedies)], remedies, strict=False):
        name = "benchmark" if remedy.data.label_names else "data check"
        n_excluded = len(remedy.data.exclusions)
        size = f"{len(remedy.data)} subjects" + (f", {n_excluded} left out" if n_excluded else "")
        notes = "; ".join([size, *(note for option, note in _ASSUMED.items() if option in remedy.changes)])
        click.echo(printable(f"{title:<8}  {_command(name, path, {**given, **remedy.changes})}   ({notes})"))


def _command(name: str, path: str, given: Mapping[str, Any]) -> str:
    return f"isocapsnet {name} {shlex.join([path, *_as_arguments(given)])}"


def _as_arguments(given: Mapping[str, Any]) -> Iterable[str]:
    """Options that were given, as they are written on the command line."""
    for name, value in given.items():
        flag = f"--{name.replace('_', '-')}"
        if value is None or value == () or value == "auto" or (value is False and name != "directed"):
            continue
        if value is False:
            yield "--undirected"
        elif value is True:
            yield flag
        elif name == "where":
            for condition in [value] if isinstance(value, str) else value:
                yield from (flag, condition)
        else:
            yield from (flag, ",".join(value) if isinstance(value, tuple) else str(value))
