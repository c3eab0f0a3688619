"""What ``isocapsnet benchmark``, ``compare`` and ``sweep`` take; what they do is imported when they are called."""

from pathlib import Path
from typing import Any

import click

from isocapsnet.cli._options import preparation_options, protocol_options, run_options
from isocapsnet.cli.data import reading_options

#: What is compared when nobody says what to compare.
DEFAULT_METHODS = "isocapsnet,linear,constant"


@click.command()
@click.argument("data", required=False)
@click.option("--methods", default=DEFAULT_METHODS, show_default=True, metavar="all|NAME,...")
@click.option("--permutations", type=click.IntRange(0), default=0, help="Draws of the permutation test.")
@click.option("--audit", type=click.Choice(["node-order"]), help="Run again with shuffled nodes.")
@click.option("--use-unlabeled", is_flag=True, help="Give unlabelled graphs to methods that can use them.")
@click.option("--save-models/--no-save-models", default=True, help="Keep the models of the first repeat (default).")
@click.option("--explain/--no-explain", default=True, help="Explain networks on their test graphs (default).")
@protocol_options
@preparation_options
@reading_options
@run_options
def benchmark(data: str | None, **options: Any) -> None:
    """Compare methods on DATA (a file, a folder or a dataset's name), without leakage.

    Without DATA the embedded set `planted` is used. Interrupted, the same command goes on where it stopped.
    A method may be given parameters: isocapsnet[kernel_size=3].

    \b
    Examples
      isocapsnet benchmark
      isocapsnet benchmark study/ --target diagnosis --methods all --out results
      isocapsnet benchmark hiv_dti.npz --protocol paper --methods "isocapsnet,isocapsnet[reconstruction_weight=0]"
      isocapsnet benchmark study/ --target diagnosis --site site --protocol leave-site-out --harmonize
      isocapsnet benchmark study.npz --permutations 1000 --scheduler tcp://head:8786
      isocapsnet benchmark study.npz --dry-run
    """
    from isocapsnet.cli import _benchmark

    _benchmark.run_benchmark(data, options)


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path, file_okay=False))
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Merge the folders into this one.")
def compare(folders: tuple[Path, ...], out: Path | None) -> None:
    """Put the results of several runs (or machines) into one table per dataset and protocol.

    \b
    Examples
      isocapsnet compare results-a results-b
      isocapsnet compare results-a results-b --out merged
    """
    from isocapsnet.cli import _benchmark

    _benchmark.compare_folders(folders, out)


@click.command()
@click.argument("data", required=False)
@click.option("--method", default="isocapsnet", show_default=True, help="NAME or NAME[parameter=value,...].")
@click.option("--param", required=True, metavar="NAME=V1,V2,...", help="The parameter and its values.")
@click.option("--explain/--no-explain", default=True, help="Explain networks on their test graphs (default).")
@protocol_options
@preparation_options
@reading_options
@run_options
def sweep(data: str | None, method: str, param: str, **options: Any) -> None:
    """Vary one parameter of a method: accuracy, F1, seconds and the learned template for each value.

    \b
    Examples
      isocapsnet sweep hiv_dti.npz --method isocapsnet --param kernel_size=1,2,3,4,5 --protocol paper
    """
    from isocapsnet.cli import _benchmark

    _benchmark.run_sweep(data, method, param, options)
