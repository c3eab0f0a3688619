"""``isocapsnet report``: a results folder as one HTML page, and its figures as files."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import click

from isocapsnet._safe_text import printable
from isocapsnet._validation import InputError


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="The page (default: DIR/report.html).")
@click.option(
    "--figures", type=click.Path(path_type=Path, file_okay=False), help="Also write every figure as PNG and SVG here."
)
def report(folder: Path, out: Path | None, figures: Path | None) -> None:
    """Write one self-contained HTML page about the results in DIR.

    Only DIR is read. The page needs no network and can be sent or archived as a single file.

    \b
    Examples
      isocapsnet report isocapsnet-results
      isocapsnet report results --out paper/supplement.html --figures paper/figures
    """
    from isocapsnet._reporting import read_content
    from isocapsnet.cli._display import make_console
    from isocapsnet.report.figures.drawing import Drawing
    from isocapsnet.report.figures.style import save_figure
    from isocapsnet.report.page import render

    if not folder.is_dir():
        raise InputError(f"There is no folder {folder}; give the folder of `isocapsnet benchmark --out`.")
    target = out or folder / "report.html"
    saved: list[Path] = []

    def save(drawing: Drawing) -> None:
        if figures is not None:
            with writing(figures):
                saved.extend(save_figure(drawing.figure, figures, drawing.name))

    with writing(target):  # before the work, which would be lost
        target.parent.mkdir(parents=True, exist_ok=True)
    with make_console().status(f"Drawing {folder}"):
        page = render(read_content(folder, created=date.today().isoformat()), save)
    with writing(target):
        target.write_text(page, encoding="utf-8")
    click.echo(printable(f"Report: {target} ({target.stat().st_size / 1e6:.1f} MB)"))
    if figures is not None:
        click.echo(printable(f"Figures: {len(saved)} files in {figures}"))


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Raise InputError if a file cannot be written."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{error.filename or target} cannot be written: {error.strerror}.") from error
