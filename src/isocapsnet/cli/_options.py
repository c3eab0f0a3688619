"""Options that several commands share."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


class NameList(click.ParamType):
    """Names separated by commas, as a tuple."""

    name = "A,B,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        return tuple(part.strip() for part in value.split(",") if part.strip())


class Bytes(click.ParamType):
    """An amount of memory: 500MB, 4GB."""

    name = "500MB|4GB"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = re.fullmatch(r"\s*([\d.]+)\s*([KMGT]?)(?:I?B)?\s*", str(value).upper())
        if match is None:
            self.fail(f"{value!r} is not an amount of memory; write 500MB or 4GB.", param, ctx)
        return int(float(match[1]) * 1000 ** " KMGT".index(match[2] or " "))


def option_of_tests(default: str | None) -> Callable[[Any], Any]:
    """``--test``, with the default of a command."""
    return click.option(
        "--test",
        default=default,
        metavar="NAME",
        help=f"Intervals and p-values: corrected-z or resampled-t (default: {default or 'as in the run'}).",
    )


_FOLDER = click.Path(path_type=Path, file_okay=False)
_PREPARATION_OPTIONS = (
    click.option(
        "--connectivity",
        metavar="KIND",
        help="Graphs from time series: correlation (default), partial correlation, tangent, ...",
    ),
    click.option(
        "--transform",
        default="",
        metavar="NAME,...",
        help="Transforms of the graphs, in this order: fisher-z, density, tangent, ...",
    ),
    click.option("--harmonize", is_flag=True, help="Harmonize sites with ComBat, fitted to training subjects."),
    click.option("--confounds", type=NameList(), default=(), help="Covariates to regress out."),
)
_EVALUATION_OPTIONS = (
    # How methods are judged
    click.option(
        "--protocol",
        default="nested",
        show_default=True,
        metavar="NAME",
        help="How data are split: nested, paper, leave-site-out.",
    ),
    click.option(
        "--repeats", type=click.IntRange(1), help="Repeats of the cross-validation (default: 5 for nested, else 1)."
    ),
    click.option("--folds", type=click.IntRange(2), help="Number of folds, unless the data define them (default: 3)."),
    click.option(
        "--candidates", type=click.IntRange(1), help="Settings tried by the inner search (default: 8); 1: no search."
    ),
    click.option(
        "--search",
        default="halving",
        show_default=True,
        metavar="NAME",
        help="halving: keep the better half of the settings after each inner fold; exhaustive: try all in all folds.",
    ),
    option_of_tests("corrected-z"),
    click.option("--explain/--no-explain", default=True, help="Explain every network on its test graphs (default)."),
    # What happens between data and method, inside each fold
    *_PREPARATION_OPTIONS,
    click.option(
        "--choose-transform",
        default="",
        metavar="NAME,...",
        help="Transforms from which the search of each method may choose one.",
    ),
    click.option(
        "--group", metavar="COL", help="Column that identifies the person; all graphs of a person are in one fold."
    ),
    # Where and how jobs run
    click.option(
        "--jobs", type=click.IntRange(0), help="Worker processes (default: one per core, on a GPU at most 4); 0: none."
    ),
    click.option("--scheduler", metavar="ADDRESS", help="Run on the Dask cluster of this scheduler."),
    click.option("--cluster", metavar="local:N", help="Run on a new Dask cluster of N workers on this machine."),
    click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="Time limit per job."),
    click.option("--memory-limit", type=Bytes(), help="Memory limit per job."),
    click.option("--device", help="Device of the networks: cpu, cuda or cuda:1."),
    click.option("--out", type=_FOLDER, default="isocapsnet-results", show_default=True, help="The results folder."),
    click.option("--retry-failed/--no-retry-failed", default=True, help="Run failed jobs again (default)."),
    click.option("--dry-run", is_flag=True, help="Count the jobs and estimate their time in short trials."),
)


def evaluation_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of every evaluation, which are keywords of ``isocapsnet.benchmark``."""
    for option in reversed(_EVALUATION_OPTIONS):
        command = option(command)
    return command


def preparation_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of a preparation; they arrive as keywords of ``isocapsnet.fit``."""
    for option in reversed(_PREPARATION_OPTIONS):
        command = option(command)
    return command


def policy_options(command: Callable[..., None]) -> Callable[..., None]:
    """What becomes of subjects that a saved preparation does not fit."""
    sites = click.option(
        "--unseen-sites",
        type=click.Choice(["keep", "refuse"]),
        help="Subjects of sites without training subjects: refuse them (default), or do not harmonise them.",
    )
    covariates = click.option(
        "--missing-covariates",
        type=click.Choice(["average", "refuse"]),
        default="refuse",
        show_default=True,
        help="Subjects without a covariate: refuse them, or use the average of the training subjects.",
    )
    return sites(covariates(command))
