"""``--config`` and ``--save-config``: the options of a command in a file."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from isocapsnet._validation import InputError

_OWN = ("config", "save_config")


def config_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add options that read all others from a file and write them to one; those on the command line come first."""

    @click.option(
        "--config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=_read,
        help="Read options from this TOML file; those on the command line take precedence.",
    )
    @click.option(
        "--save-config",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Write all options to this TOML file, then run.",
    )
    @functools.wraps(command)
    def run(*, save_config: Path | None, **options: Any) -> None:
        if save_config is not None:
            from isocapsnet._run_files import write_config

            context = click.get_current_context()
            write_config(save_config, str(context.info_name), {name: options[name] for name in _names(context.command)})
        command(**options)

    return run


def _names(command: click.Command) -> list[str]:
    """The parameters of a command that a file can have."""
    return [str(param.name) for param in command.params if param.name not in (*_OWN, "help")]


def _read(context: click.Context, parameter: click.Parameter, path: Path | None) -> None:
    """Use the options in a file as defaults."""
    if path is None:
        return
    from isocapsnet._run_files import read_config

    command = context.command
    options = read_config(path, str(context.info_name), _names(command))
    parameters = {str(param.name): param for param in command.params}
    context.default_map = {name: _as_option(path, value, parameters[name]) for name, value in options.items()}


def _as_option(path: Path, value: Any, parameter: click.Parameter) -> Any:
    """A value of a file as the command line would give it: lists of names as text, unless the option is repeatable."""
    is_flag = isinstance(parameter.type, click.types.BoolParamType)
    if isinstance(value, bool) != is_flag:
        expected = "true or false" if is_flag else "a value, not true or false"
        raise InputError(
            f"{path}: {str(parameter.name).replace('_', '-')} = {value!r} cannot be used; write {expected}."
        )
    if parameter.multiple:
        return value if isinstance(value, list) else [value]
    return ",".join(map(str, value)) if isinstance(value, list) else value
