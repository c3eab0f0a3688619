"""``isocapsnet fit``, ``predict`` and ``transform``: one method, one model file."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from isocapsnet._format import size
from isocapsnet._safe_text import printable, spreadsheet_safe
from isocapsnet._validation import InputError
from isocapsnet.cli._config import config_options
from isocapsnet.cli._options import policy_options, preparation_options
from isocapsnet.cli.data import reading_options

if TYPE_CHECKING:
    from pandas import DataFrame

_FILE = click.Path(dir_okay=False, path_type=Path)


def _in_a_folder(ctx: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    """Refuse a file in a folder that does not exist before any work is done."""
    if path is not None and not path.parent.is_dir():
        raise InputError(f"There is no folder {path.parent} for {path.name}; create it first.")
    return path


def _out(description: str) -> Callable[..., Any]:
    return click.option("--out", type=_FILE, required=True, callback=_in_a_folder, help=description)


@click.command()
@click.argument("data", required=False)
@click.option(
    "--method",
    default="isocapsnet",
    show_default=True,
    help="The method, with optional parameters: NAME[parameter=value,...].",
)
@_out("File of the model.")
@click.option(
    "--like",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="RESULTS",
    help="Fit the pipeline of this benchmark's METHOD to all its data, with the same search.",
)
@preparation_options
@click.option("--decoder/--no-decoder", default=True, help="Keep the decoder of a capsule network (default).")
@click.option(
    "--precision",
    type=click.Choice(["full", "half"]),
    default="full",
    show_default=True,
    help="Precision of stored weights; half is refused if a probability changes by 0.0005 or more.",
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Random seed.")
@click.option("--device", help="Device of a network: cpu, cuda or cuda:1.")
@click.option("--use-unlabeled", is_flag=True, help="Train on unlabelled graphs too.")
@reading_options
@config_options
def fit(data: str | None, method: str, out: Path, **options: Any) -> None:
    """Fit a preparation and one method to all labelled graphs of DATA, and save both in one file.

    With --like DATA can be left out: the results folder has a copy.

    \b
    Examples
      isocapsnet fit study.npz --method linear --out model.safetensors
      isocapsnet fit study.npz --method isocapsnet --no-decoder --precision half --out model.safetensors
      isocapsnet fit study/ --target diagnosis --site centre --harmonize --confounds age,sex --out model.safetensors
      isocapsnet fit series/ --target diagnosis --connectivity tangent --method linear --out model.safetensors
      isocapsnet fit --like results --method linear --out model.safetensors
    """
    import isocapsnet
    from isocapsnet._model_cards import describe_expected

    model = isocapsnet.fit(data, method, out=out, **options)
    click.echo(printable(f"{method} fitted: {out} ({size(out.stat().st_size)})"))
    for sentence in describe_expected(model.card_):
        click.echo(printable(sentence))


@click.command()
@click.argument("model", type=_FILE)
@click.option("--out", type=_FILE, callback=_in_a_folder, help="Write the card as one HTML page.")
def card(model: Path, out: Path | None) -> None:
    """Show the card of a saved MODEL: data, preparation, expected performance, and what it must not be used for.

    \b
    Examples
      isocapsnet card model.safetensors
      isocapsnet card model.safetensors --out card.html
    """
    import isocapsnet
    from isocapsnet._model_cards import list_sections

    loaded = isocapsnet.load_model(model)
    content = isocapsnet.model_card(loaded, out)
    if out is not None:
        click.echo(printable(f"Card: {out}"))
        return
    for title, lines in list_sections(loaded, content).items():
        click.secho(f"\n{title}", bold=True)
        for what, value in lines:
            click.echo(f"  {what:<18} {value}" if what else f"  {value}")


def _model_command(out: str) -> Callable[[Callable[..., None]], click.Command]:
    """A command that applies a saved model to data and writes a table, which ``out`` describes."""

    def make(function: Callable[..., None]) -> click.Command:
        for add in (
            reading_options,
            policy_options,
            _out(out),
            click.argument("data"),
            click.argument("model", type=_FILE),
        ):
            function = add(function)
        return click.command()(function)

    return make


@_model_command(out="CSV file with the predictions and probabilities.")
def predict(out: Path, **arguments: Any) -> None:
    """Predict the class of every graph of DATA with a saved MODEL.

    A model with a preparation takes matrices or time series as they were before it, with the sites and covariates that
    it needs.

    \b
    Examples
      isocapsnet predict model.safetensors study.npz --out predictions.csv
      isocapsnet predict model.safetensors new/ --site centre --out predictions.csv
      isocapsnet predict model.safetensors new/ --site centre --unseen-sites keep --out predictions.csv
    """
    import isocapsnet

    table = isocapsnet.predict(**arguments)
    _write(table, out, f"{len(table)} predictions")


@_model_command(out="CSV file with the features.")
def transform(out: Path, **arguments: Any) -> None:
    """Write the representation that a saved MODEL has of every graph of DATA.

    \b
    Example
      isocapsnet transform model.safetensors study.npz --out features.csv
    """
    import isocapsnet

    table = isocapsnet.transform(**arguments)
    _write(table, out, f"{table.shape[1] - 1} features of {len(table)} graphs")


def _write(table: "DataFrame", out: Path, what: str) -> None:
    spreadsheet_safe(table).to_csv(out, index=False)
    click.echo(printable(f"{what}: {out}"))
