"""``isocapsnet benchmark``, ``compare`` and ``sweep``."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from isocapsnet.cli._config import config_options
from isocapsnet.cli._options import evaluation_options, option_of_tests
from isocapsnet.cli.data import reading_options

if TYPE_CHECKING:
    from isocapsnet import Results


@click.command()
@click.argument("data", required=False)
@click.option(
    "--methods",
    default="isocapsnet,linear,constant",
    show_default=True,
    metavar="all|NAME,...",
    help="Methods to compare.",
)
@click.option(
    "--permutations",
    type=click.IntRange(0),
    default=0,
    help="Test against chance with this many permutations of the subjects' data.",
)
@click.option("--audit", type=click.Choice(["node-order"]), help="Also run with shuffled nodes.")
@click.option(
    "--learning-curve",
    default="",
    metavar="SHARE,...",
    help="Also train on these shares of the training subjects, such as 0.25,0.5,0.75.",
)
@click.option("--use-unlabeled", is_flag=True, help="Train on unlabelled graphs too, if a method can.")
@click.option("--save-models/--no-save-models", default=False, help="Save the models of the first repeat.")
@evaluation_options
@reading_options
@config_options
def benchmark(data: str | None, **options: Any) -> None:
    """Compare methods on DATA (a file, a folder or a dataset's name), without leakage.

    Without DATA, the embedded dataset `planted-motif` is used. To continue an interrupted run, repeat the command.
    Parameters of a method are given in brackets: isocapsnet[kernel_size=3]. isonn, fastisonn, sdbn, dgcnn, gin,
    diffpool and wl have a preset with the settings of their papers: gin[preset=paper].

    \b
    Examples
      isocapsnet benchmark
      isocapsnet benchmark study/ --target diagnosis --methods all --out results
      isocapsnet benchmark hiv-dti --protocol paper --methods "isocapsnet,isocapsnet[reconstruction_weight=0]"
      isocapsnet benchmark study.npz --methods "gin,gin[preset=paper],linear,constant"
      isocapsnet benchmark study/ --target diagnosis --site site --protocol leave-site-out --harmonize
      isocapsnet benchmark study.npz --permutations 1000 --scheduler tcp://head:8786
      isocapsnet benchmark study.npz --learning-curve 0.25,0.5,0.75
      isocapsnet benchmark study.npz --dry-run --save-config run.toml
      isocapsnet benchmark --config run.toml --repeats 10
    """
    import isocapsnet
    from isocapsnet.cli._display import audit_table, describe_protocol, escape, make_console, results_table, sites_table

    results = _run(isocapsnet.benchmark, data, **options)
    if options["dry_run"]:
        return
    console = make_console()
    console.print(results_table(results, describe_protocol(results), console.width))
    if (by_site := sites_table(results)) is not None:
        console.print(by_site)
    if options["audit"]:
        console.print(audit_table(results))
    folders = [f"{name}/" for name in ("records", "artifacts") if (Path(options["out"]) / name).is_dir()]
    console.print(f"Results: {escape(str(options['out']))}/{', '.join(['results.csv', 'results.json', *folders])}")
    if all(row.failed == row.jobs for row in results.summary.rows):
        sys.exit(1)


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path, file_okay=False))
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Also merge the folders into this one.")
@option_of_tests("corrected-z")
def compare(folders: tuple[Path, ...], out: Path | None, test: str) -> None:
    """Combine the results of several runs or machines in one table per dataset and protocol.

    \b
    Examples
      isocapsnet compare results-a results-b
      isocapsnet compare results-a results-b --out merged
      isocapsnet compare results --test resampled-t
    """
    import isocapsnet
    from isocapsnet.cli._display import escape, make_console, results_table, sites_table

    console = make_console()
    for results in isocapsnet.compare(*folders, out=out, test=test):
        console.print(results_table(results, escape(results.title), console.width))
        if (by_site := sites_table(results)) is not None:
            console.print(by_site)
    if out is not None:
        console.print(f"Merged: {escape(str(out))}")


@click.command()
@click.argument("data", required=False)
@click.option("--method", default="isocapsnet", show_default=True, help="NAME or NAME[parameter=value,...].")
@click.option("--param", required=True, metavar="NAME=V1,V2,...", help="The parameter and the values to try.")
@evaluation_options
@reading_options
@config_options
def sweep(data: str | None, **options: Any) -> None:
    """Vary one parameter of a method, and show accuracy, F1, time and the learned template for each value.

    \b
    Examples
      isocapsnet sweep hiv-dti --method isocapsnet --param kernel_size=1,2,3,4,5 --protocol paper
    """
    import isocapsnet
    from isocapsnet.cli._display import describe_protocol, escape, make_console, sweep_table

    results = _run(isocapsnet.sweep, data, **options)
    if results.sweep is None or options["dry_run"]:
        return
    console = make_console()
    console.print(sweep_table(results.sweep, f"{escape(options['method'])}, {describe_protocol(results)}"))
    for sentence in results.left_out:
        console.print(escape(sentence), soft_wrap=True)
    console.print(f"Results: {escape(str(options['out']))}/sweep.csv, results.csv, results.json")


def _run(function: Any, data: str | None, **options: Any) -> "Results":
    """Call a function of the front door; Ctrl-C stops the run with a sentence and exit code 130."""
    try:
        results: Results = function(data, command=shlex.join(["isocapsnet", *sys.argv[1:]]), **options)
    except KeyboardInterrupt:
        click.echo("Stopped. Finished jobs are kept; run the same command again to continue.")
        sys.exit(130)
    return results
