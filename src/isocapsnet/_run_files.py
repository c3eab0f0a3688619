"""The options of a run as a TOML file: ``run.toml`` in a results folder, ``--save-config`` and ``--config``."""

import json
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from isocapsnet import __version__
from isocapsnet._files import write_whole
from isocapsnet._validation import InputError
from isocapsnet.evaluation.plan import MethodSpec

#: The file in a results folder.
RUN_FILE = "run.toml"
# Part of how a command is called, not of what it does.
_LEFT_OUT = ("dry_run", "config", "save_config", "command", "progress")


def format_config(command: str, options: Mapping[str, Any]) -> str:
    """The options of a command as TOML, by their long names.

    Options that are not set, and objects that exist in Python only, are named in comments.
    """
    lines, unset, objects = [], [], []
    for name, value in options.items():
        key = name.replace("_", "-")
        if name in _LEFT_OUT:
            continue
        if value is None:
            unset.append(key)
        elif (text := _format_value(value)) is None:
            objects.append(key)
        else:
            lines.append(f"{key} = {text}")
    notes = [f"# The options of a run: isocapsnet {command}, version {__version__}."]
    notes += [f"# Not set: {', '.join(unset)}"] if unset else []
    notes += [f"# Given in Python as objects, which a file cannot hold: {', '.join(objects)}"] if objects else []
    return "\n".join([*notes, "", *lines, ""])


def write_config(path: Path, command: str, options: Mapping[str, Any]) -> None:
    """Write the options of a command to a file."""
    write_whole(path, format_config(command, options).encode())


def read_config(path: Path, command: str, names: list[str]) -> dict[str, Any]:
    """The options in a file, by the names of their parameters; those not among ``names`` are refused."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as TOML: {error}.") from error
    options = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        if name not in names:
            near = get_close_matches(name, names, 1, cutoff=0)
            hint = f"; the nearest is {near[0].replace('_', '-')!r}" if near else ""
            raise InputError(f"{path}: `isocapsnet {command}` has no option {key!r}{hint}.")
        if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(v, dict | list) for v in value)):
            raise InputError(f"{path}: {key} is a table or a list of lists; write a value or a list of values.")
        options[name] = value
    return options


def _format_value(value: Any) -> str | None:
    """A value as TOML; None if TOML has no such value."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, MethodSpec):
        value = value.label
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str | Path):
        # The escapes of JSON are those of TOML, which has one more.
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        items = [_format_value(item) for item in value]
        return None if None in items else f"[{', '.join(filter(None, items))}]"
    return None
