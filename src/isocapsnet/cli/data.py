"""``isocapsnet data``: list, fetch, describe, check and convert datasets."""

import dataclasses
import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from isocapsnet._safe_text import list_some, printable
from isocapsnet.cli._atlases import atlases, fetch_atlas
from isocapsnet.cli._errors import as_options
from isocapsnet.cli._options import Bytes, NameList

if TYPE_CHECKING:
    from isocapsnet.datasets.reading import Findings

#: The options of :func:`reading_options`, which are keywords of ``load_graphs``.
READING = (
    *("target", "site", "covariates", "participants", "select", "exclude", "kind", "atlas"),
    *("n_nodes", "index_base", "directed", "read_limit"),
)
_LISTED = 10
_TABLE = click.Path(exists=True, dir_okay=False, path_type=Path)
_KINDS = click.Choice(["auto", "graphs", "edges", "series"])
_READING_OPTIONS = (
    click.option("--target", metavar="COL", help="Column or array of the classes, or @subject or @folder."),
    click.option("--site", metavar="COL", help="Column of acquisition sites."),
    click.option("--covariates", type=NameList(), metavar="COL,...", help="Columns of covariates."),
    click.option("--participants", type=_TABLE, metavar="TABLE", help="Table of subjects, if it is in another folder."),
    click.option("--select", type=NameList(), default=(), metavar="TEXT,...", help="Parts that file names must have."),
    click.option("--exclude", type=NameList(), default=(), metavar="SUBJECT,...", help="Subjects to leave out."),
    click.option("--kind", type=_KINDS, default="auto", show_default=True, help="What the files contain."),
    click.option("--atlas", metavar="NAME|TABLE", help="Names and coordinates of the nodes: aal116, schaefer200, ..."),
    click.option("--n-nodes", type=click.IntRange(1), metavar="N", help="Number of nodes."),
    click.option("--index-base", type=click.IntRange(0, 1), metavar="0|1", help="First node number of edge lists."),
    click.option("--directed/--undirected", default=None, help="Whether edge lists are directed."),
    click.option("--read-limit", type=Bytes(), help="Memory that reading may use (default: free memory)."),
)


@click.group()
def data() -> None:
    """List, fetch, describe, check and convert datasets.

    \b
    Examples
      isocapsnet data list
      isocapsnet data fetch hiv-dti
      isocapsnet data check study/ --target diagnosis
      isocapsnet data convert study/ study.npz --target diagnosis --site site --covariates age,sex
      isocapsnet data describe study.npz
    """


data.add_command(atlases)
data.add_command(fetch_atlas)


def reading_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for reading data, which are keywords of ``load_graphs``."""
    for option in reversed(_READING_OPTIONS):
        command = option(command)
    return command


@data.command("list")
def list_datasets() -> None:
    """List the datasets that can be given by name.

    \b
    Example
      isocapsnet data list
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Column, Table

    from isocapsnet.datasets.catalog import CATALOG, local_file

    columns = (Column("name", no_wrap=True), Column("source", no_wrap=True), "nodes", "classes", "title (licence)")
    table = Table(*columns, box=SIMPLE_HEAD)
    for name, entry in CATALOG.items():
        classes = ", ".join(f"{label}: {count}" for label, count in entry.class_counts.items())
        how = "local file" if (path := local_file(name)) and path.exists() else entry.how
        table.add_row(name, how, str(entry.n_nodes), classes, f"{entry.title} ({entry.licence})")
    Console().print(table)


@data.command()
@click.argument("name")
@click.option("--cache", type=click.Path(file_okay=False, path_type=Path), help="Folder for downloads.")
def fetch(name: str, cache: Path | None) -> None:
    """Download the dataset NAME (once) and print its passport.

    \b
    Examples
      isocapsnet data fetch hiv-dti
      isocapsnet data fetch planted
    """
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from isocapsnet.datasets.catalog import CATALOG, dataset_folder, fetch_graphs
    from isocapsnet.datasets.download import recorded_checksum

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, disable=not sys.stderr.isatty()) as bars:
        task = functools.cache(lambda file_name: bars.add_task(file_name, total=None))

        def show(file_name: str, done: int, total: int | None) -> None:
            bars.update(task(file_name), completed=done, total=total)

        graphs = fetch_graphs(name, cache=cache, progress=show)
    click.echo(graphs.describe())
    entry = CATALOG[name]
    click.echo(f"\nlicence   {entry.licence}\ncitation  {entry.citation}")
    for file in entry.files:
        if checksum := recorded_checksum(file, dataset_folder(name, cache)):
            click.echo(f"{file.path} has no published checksum; later downloads will be compared with {checksum}.")


@data.command()
@click.argument("path")
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Print the whole passport as JSON.")
def describe(path: str, as_json: bool, **options: Any) -> None:
    """Print the passport of PATH (a file, folder or dataset name).

    \b
    Examples
      isocapsnet data describe study.npz
      isocapsnet data describe planted --json
    """
    from isocapsnet import load_graphs

    graphs = load_graphs(path, **options)
    click.echo(json.dumps(graphs.passport, indent=2) if as_json else graphs.describe())


@data.command()
@click.argument("path")
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON, with complete lists.")
def check(path: str, as_json: bool, **options: Any) -> None:
    """List all problems of PATH (a file, folder or dataset name).

    Shows why the data would be refused, what would be corrected, and what is unusual. The exit code is 0 if the data
    can be used and 2 if they would be refused.

    \b
    Examples
      isocapsnet data check study/ --target diagnosis
      isocapsnet data check study/ --target diagnosis --json > problems.json
      isocapsnet data check derivatives/xcp_d --target group --select seg-Glasser
    """
    from isocapsnet.datasets.readers import examine_graphs
    from isocapsnet.datasets.reading import ReadOptions

    graphs, findings = examine_graphs(path, ReadOptions(**options))
    findings.errors, findings.warnings = (
        [as_options(sentence, READING) for sentence in sentences] for sentences in (findings.errors, findings.warnings)
    )
    if as_json:
        click.echo(json.dumps({"path": path, "usable": graphs is not None, **dataclasses.asdict(findings)}, indent=2))
    else:
        _print_findings(findings)
        verdict = (
            f"would be refused: {len(findings.errors)} problem(s)." if graphs is None else f"can be used: {graphs!r}"
        )
        click.echo(printable(f"{path} {verdict}"))
    if graphs is None:
        sys.exit(2)


def _print_findings(findings: "Findings") -> None:
    """Print the first findings of each kind, and the number of the others."""
    for title, color, sentences in (
        ("refused", "red", findings.errors),
        ("warning", "yellow", findings.warnings),
        ("handled", None, [f"{what}: {list_some(where)}" for what, where in findings.handled.items()]),
        ("excluded", None, [f"{subject}: {reason}" for subject, reason in findings.exclusions.items()]),
    ):
        for sentence in sentences[:_LISTED]:
            click.secho(f"{title:<8}  {printable(sentence)}", fg=color)
        if (more := len(sentences) - _LISTED) > 0:
            click.secho(f"{title:<8}  ... and {more:,} more; --json lists all.", fg=color)


@data.command()
@click.argument("path")
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@reading_options
def convert(path: str, out: Path, **options: Any) -> None:
    """Convert PATH to OUT, one .npz file with a passport.

    \b
    Examples
      isocapsnet data convert study/ study.npz --target diagnosis
      isocapsnet data convert study/ study.npz --target dx --site centre --covariates age,sex
    """
    from isocapsnet import load_graphs

    graphs = load_graphs(path, **options)
    graphs.save(out)
    click.echo(graphs.describe())
    click.echo(printable(f"written to {out}"))
