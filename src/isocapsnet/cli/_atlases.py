"""``isocapsnet data atlases`` and ``isocapsnet data fetch-atlas``."""

from pathlib import Path

import click


@click.command()
def atlases() -> None:
    """List the atlases that can be given by name.

    \b
    Example
      isocapsnet data atlases
    """
    from isocapsnet.datasets.atlas import ATLASES
    from isocapsnet.datasets.atlas_download import DOWNLOADS

    click.echo(f"built in (with regions): {', '.join(f'{name} ({n})' for name, (_, n) in ATLASES.items())}")
    click.echo(f"after data fetch-atlas NAME: {', '.join(DOWNLOADS)}")


@click.command("fetch-atlas")
@click.argument("name")
@click.option("--cache", type=click.Path(file_okay=False, path_type=Path), help="Folder for downloads.")
def fetch_atlas(name: str, cache: Path | None) -> None:
    """Download the atlas NAME (once), so that --atlas NAME can be used.

    \b
    Examples
      isocapsnet data fetch-atlas schaefer1000
      isocapsnet data fetch-atlas schaefer200-17
    """
    from isocapsnet.datasets.atlas_download import DOWNLOADS
    from isocapsnet.datasets.atlas_download import fetch_atlas as fetch_one

    atlas = fetch_one(name, cache=cache)
    entry = DOWNLOADS[name]
    click.echo(f"{atlas!r}\n{entry.title}\nlicence: {entry.licence}")
