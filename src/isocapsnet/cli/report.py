"""``isocapsnet report``: a results folder as one HTML page, and its figures as files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from isocapsnet._format import size
from isocapsnet._safe_text import printable
from isocapsnet._validation import InputError
from isocapsnet.cli._config import config_options
from isocapsnet.cli._options import option_of_tests


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="The page (default: DIR/report.html).")
@click.option(
    "--figures", type=click.Path(path_type=Path, file_okay=False), help="Also write every figure as PNG and SVG here."
)
@click.option("--title", help="The title of the page (default: the name of the dataset).")
@click.option(
    "--positive-class",
    metavar="NAME",
    help="The class that sensitivity, precision and ROC curves are about (default: the last of two).",
)
@option_of_tests(None)
@config_options
def report(
    folder: Path,
    out: Path | None,
    figures: Path | None,
    title: str | None,
    positive_class: str | None,
    test: str | None,
) -> None:
    """Write one self-contained HTML page about the results in DIR.

    Only DIR is read. The page needs no network and can be sent or archived as a single file.

    \b
    Examples
      isocapsnet report isocapsnet-results
      isocapsnet report results --out paper/supplement.html --figures paper/figures
      isocapsnet report results --title "Autism in ABIDE, site NYU" --positive-class autism
    """
    from isocapsnet._progress import show_stages
    from isocapsnet._results_folders import open_results

    if not folder.is_dir():
        raise InputError(f"There is no folder {folder}; give the folder of `isocapsnet benchmark --out`.")
    target = out or folder / "report.html"
    with show_stages(f"Drawing {folder}"):
        results = open_results(folder, test=test)
        with writing(target):
            results.report(target, figures=figures, title=title, positive_class=positive_class)
    click.echo(printable(f"Report: {target} ({size(target.stat().st_size)})"))
    if figures is not None:
        click.echo(printable(f"Figures: {len(list(figures.iterdir()))} files in {figures}"))


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Raise InputError if a file cannot be written."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{error.filename or target} cannot be written: {error.strerror}.") from error
