"""``isocapsnet data``: list, fetch, describe, check and convert datasets."""

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from isocapsnet._safe_text import printable
from isocapsnet.cli._atlases import atlases, fetch_atlas
from isocapsnet.cli._errors import as_options
from isocapsnet.cli._options import Bytes, NameList

#: The options of :func:`reading_options`, which are keywords of ``load_graphs``.
READING = (
    *("target", "site", "covariates", "participants", "where", "array", "subjects", "select", "exclude"),
    *("skip_refused", "kind", "atlas", "n_nodes", "index_base", "directed", "triangle", "regions", "max_missing"),
    "read_limit",
)
_TABLE = click.Path(exists=True, dir_okay=False, path_type=Path)
_NEW_FILE = click.Path(dir_okay=False, path_type=Path)
_LISTS = click.Path(exists=True, path_type=Path)
_TRIANGLES = click.Choice(["upper", "lower"])
_KINDS = click.Choice(["auto", "graphs", "edges", "series"])
_READING_OPTIONS = (
    click.option("--target", metavar="COL", help="Column or array of the classes, or @subject or @folder."),
    click.option("--site", metavar="COL", help="Column or array of acquisition sites, or @file or @folder."),
    click.option("--covariates", type=NameList(), metavar="COL,...", help="Columns of covariates."),
    click.option("--participants", type=_TABLE, metavar="TABLE", help="Table of subjects, if it is in another folder."),
    click.option("--where", multiple=True, metavar="COL=VALUE", help="Read only subjects with this value; repeatable."),
    click.option("--array", metavar="NAME", help="Array of graphs, if a file has several."),
    click.option("--subjects", metavar="NAME", help="Array, column or file of the subjects' identifiers."),
    click.option(
        "--select",
        type=NameList(),
        default=(),
        metavar="TEXT,...",
        help="Read only files whose paths contain all of these.",
    ),
    click.option(
        "--exclude", type=NameList(), default=(), metavar="SUBJECT,...", help="Subjects to leave out, or @FILE."
    ),
    click.option("--skip-refused", is_flag=True, help="Leave out subjects whose data are refused, and record them."),
    click.option("--kind", type=_KINDS, default="auto", show_default=True, help="What the files contain."),
    click.option("--atlas", metavar="NAME|TABLE", help="Names and coordinates of the nodes: aal116, schaefer200, ..."),
    click.option("--n-nodes", type=click.IntRange(1), metavar="N", help="Number of nodes."),
    click.option("--index-base", type=click.IntRange(0, 1), metavar="0|1", help="Number of the first node or region."),
    click.option("--directed/--undirected", default=None, help="Whether edge lists are directed."),
    click.option("--triangle", type=_TRIANGLES, help="Triangle of the matrix that a row of edges lists, row by row."),
    click.option("--regions", type=_LISTS, metavar="FILE", help="List of the regions of each subject."),
    click.option(
        "--max-missing",
        type=click.FloatRange(0, 1),
        metavar="SHARE",
        help="Share of regions that a subject may lack (default: 0.5).",
    ),
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
@click.option("--list", "out", type=_NEW_FILE, metavar="FILE", help="Write all findings to a CSV file.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON, with complete lists.")
def check(path: str, out: Path | None, as_json: bool, **options: Any) -> None:
    """List the problems of PATH (a file, folder or dataset name): counts, and the first few of each kind.

    Shows why the data would be refused, what would be corrected, and what is unusual. The last line is a command that
    works, if there is one. The exit code is 0 if the data can be used and 2 if they would be refused.

    \b
    Examples
      isocapsnet data check study/ --target diagnosis
      isocapsnet data check study/ --target diagnosis --list problems.csv
      isocapsnet data check study/ --target DX --participants loni.csv --where Modality=fMRI
      isocapsnet data check abide.npy --array corr
      isocapsnet data check derivatives/xcp_d --target group --select seg-Glasser
    """
    from isocapsnet.cli._findings import print_findings, print_next, print_remedies, write_findings
    from isocapsnet.datasets.readers import examine_graphs
    from isocapsnet.datasets.reading import ReadOptions
    from isocapsnet.datasets.remedies import find_remedies

    reading = ReadOptions(**options)
    graphs, findings = examine_graphs(path, reading)
    remedies = find_remedies(path, reading, findings) if graphs is None and not as_json else []
    findings.errors, findings.warnings = (
        [as_options(sentence, READING) for sentence in sentences] for sentences in (findings.errors, findings.warnings)
    )
    findings.refused = {
        source: [as_options(sentence, READING) for sentence in sentences]
        for source, sentences in findings.refused.items()
    }
    if as_json:
        lists = {name: getattr(findings, name) for name in ("errors", "warnings", "handled", "exclusions")}
        click.echo(json.dumps({"path": path, "usable": graphs is not None, **lists}, indent=2))
    else:
        print_findings(findings)
        n = len(findings.errors)
        problems = f"{n:,} problem{'s' * (n != 1)}"
        verdict = f"would be refused: {problems}." if graphs is None else f"can be used ({graphs})"
        click.echo(printable(f"{path} {verdict}"))
    if out is not None:
        n_rows = write_findings(findings, out)
        click.echo(printable(f"{n_rows:,} findings: {out}"), err=as_json)
    if graphs is not None and not as_json:
        print_next(path, options, graphs, findings)
    elif not as_json:
        print_remedies(path, options, remedies)
    if graphs is None:
        sys.exit(2)


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
