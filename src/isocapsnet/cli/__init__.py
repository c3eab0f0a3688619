"""The command line: parses options, calls the front door and prints.

Sub-commands are loaded when they are called, so that ``isocapsnet --help`` imports neither torch nor scikit-learn.
"""

import errno
import sys
import warnings
from importlib import import_module
from typing import Any

import click

from isocapsnet import __version__
from isocapsnet._safe_text import printable
from isocapsnet._validation import InputError
from isocapsnet.cli._errors import as_options

#: Sub-command to its module and its line in ``--help``.
_COMMANDS = {
    "benchmark": ("isocapsnet.cli.benchmark", "Compare methods on a dataset, without leakage."),
    "card": ("isocapsnet.cli.models", "Show the card of a saved model: data, performance, limits."),
    "compare": ("isocapsnet.cli.benchmark", "Combine the results of several folders in one table."),
    "data": ("isocapsnet.cli.data", "List, fetch, describe, check and convert datasets."),
    "doctor": ("isocapsnet.cli.doctor", "Check the installation, and say what to do about problems."),
    "explain": ("isocapsnet.cli.explain", "Explain a saved network: templates, regions, stability."),
    "fit": ("isocapsnet.cli.models", "Fit one method and save the model."),
    "predict": ("isocapsnet.cli.models", "Predict with a saved model."),
    "report": ("isocapsnet.cli.report", "Write an HTML page about a results folder."),
    "sweep": ("isocapsnet.cli.benchmark", "Vary one parameter of a method (the paper's Table 2)."),
    "transform": ("isocapsnet.cli.models", "Write the features of each graph in a saved model."),
}


def _show_warning(message: Warning | str, *where: Any, **options: Any) -> None:
    """Print a warning as a sentence, without the line of code that raised it."""
    click.echo(printable(f"Warning: {message}"), err=True)


class _LazyGroup(click.Group):
    """Imports a sub-command when it is called, and prints warnings and errors as sentences."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _ = _COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(module), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_text) for name, (_, help_text) in sorted(_COMMANDS.items())])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                return super().invoke(ctx)
        except click.ClickException as error:
            error.message = printable(error.message)  # type: ignore[misc]
            raise
        except InputError as error:
            click.echo(printable(f"Error: {self._with_options(ctx, str(error))}"), err=True)
            sys.exit(2)
        except OSError as error:
            if error.errno in (None, errno.EPIPE):  # click handles a closed pipe
                raise
            where = f"{error.filename} cannot be read or written: " if error.filename else ""
            click.echo(printable(f"Error: {where}{error.strerror}."), err=True)
            sys.exit(2)

    def _with_options(self, ctx: click.Context, sentence: str) -> str:
        """A sentence about arguments (``n_nodes=90``) as one about options (``--n-nodes 90``)."""
        command = self.get_command(ctx, ctx.invoked_subcommand or "")
        commands = filter(None, [command, *getattr(command, "commands", {}).values()])
        return as_options(
            sentence, [str(p.name) for each in commands for p in each.params if isinstance(p, click.Option)]
        )


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="isocapsnet")
def main() -> None:
    """Classification of brain graphs, evaluated without leakage.

    \b
    Examples
      isocapsnet benchmark                           three methods on an embedded dataset
      isocapsnet data check study/ --target diagnosis
      isocapsnet benchmark study/ --target diagnosis --methods all --out results
      isocapsnet sweep study.npz --method isocapsnet --param kernel_size=1,2,3,4,5
    """
