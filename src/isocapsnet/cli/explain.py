"""``isocapsnet explain``: what a saved network uses, and whether other fits use it too."""

from pathlib import Path
from typing import Any

import click

from isocapsnet.cli.data import reading_options


@click.command()
@click.argument("model", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("data")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder of the results.")
@click.option(
    "--folds",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    help="Refit the model's settings on so many folds, each explained on the fold it did not see; 0: no refits.",
)
@click.option(
    "--attribution",
    type=click.Choice(["gradient", "integrated"]),
    default="gradient",
    show_default=True,
    help="How edges are attributed; integrated needs captum.",
)
@click.option(
    "--networks",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="TABLE",
    help="CSV with a column `network`, one row per node.",
)
@click.option("--figures/--no-figures", default=True, help="Draw templates and, with coordinates, the brain (default).")
@click.option("--seed", type=int, default=0, show_default=True)
@reading_options
def explain(model: Path, data: str, out: Path, **options: Any) -> None:
    """Explain a saved MODEL on DATA: learned templates, where they match, whether they are stable, which edges count.

    A model cannot be judged on graphs that it trained on, nor by one fit alone. Its settings are therefore fitted again
    on folds of DATA; effects and verdicts come from the graphs that each refit did not see.

    \b
    Examples
      isocapsnet explain model.safetensors study.npz --out explained
      isocapsnet explain model.safetensors study/ --target diagnosis --atlas aal116 --out explained
      isocapsnet explain model.safetensors unseen.npz --folds 0 --out explained
    """
    from isocapsnet.cli import _explain

    _explain.run_explain(model, data, out, options)
