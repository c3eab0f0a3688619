"""Parse the commands that the pages of the documentation show, without running them."""

import argparse
import importlib.util
import re
import runpy
import sys
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import MagicMock

import click
import pytest

from isocapsnet.cli import main

ROOT = Path(__file__).resolve().parents[1]


def parse(arguments: list[str], parent: click.Context | None = None, command: click.Command = main) -> None:
    """Parse a command of the package as the command line does, without running it; its files need not exist."""
    name = command.name if parent else "isocapsnet"
    with command.make_context(name, list(arguments), parent=parent) as context:
        # Until click 8.1, the first words after a group had a public name.
        first = vars(context).get("_protected_args", vars(context).get("protected_args"))
        if isinstance(command, click.Group) and (words := [*first, *context.args]):
            _, child, rest = command.resolve_command(context, words)
            assert child is not None
            parse(rest, context, child)


@contextmanager
def leave_out_files():
    """Nothing happens if a file does not exist, or if the option was ``--help``."""
    try:
        yield
    except click.exceptions.Exit as done:
        assert done.exit_code == 0
    except click.BadParameter as error:
        if "does not exist" not in error.message:
            raise


class Parsed(Exception):  # noqa: N818
    """The program has parsed its arguments."""


def check_program(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that a page names exists and accepts the options that the page gives it."""
    program, *arguments = words
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert {word for word in arguments if "=" not in word} <= set(targets)
    elif program == "python" and arguments[0] != "-c":
        module = arguments[:1] == ["-m"]
        script = ROOT / (arguments[1].replace(".", "/") + ".py" if module else arguments[0])
        if module and arguments[1] in ("isocapsnet", "pytest"):
            files = [word.partition("::")[0] for word in arguments[2:] if word.startswith("tests")]
            assert [word for word in files if not (ROOT / word).exists()] == []
            return
        script = script if script.exists() else script.with_suffix("") / "__main__.py"
        parse_as_script(script, arguments[1 + module :], monkeypatch)
    else:
        assert program in (
            "isocapsnet",
            "python",
            "pip",
            ".venv/bin/pip",
            "conda",
            "docker",
            "dask",
            "eval",
            "for",
            "done",
        )


def parse_as_script(script: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a script up to its options."""
    if "parse_args" not in script.read_text(encoding="utf-8"):
        assert all((ROOT / word).exists() for word in arguments)
        return
    given = argparse.ArgumentParser.parse_args

    def parse_args(parser, *options):
        given(parser, *options)
        raise Parsed

    with monkeypatch.context() as patch, pytest.raises(Parsed):
        patch.setattr(argparse.ArgumentParser, "parse_args", parse_args)
        if importlib.util.find_spec("triton") is None:  # on a computer without a GPU
            for name in ("triton", "triton.language", "triton.testing"):
                patch.setitem(sys.modules, name, MagicMock(__version__="3.0"))
        patch.setattr(sys, "argv", [str(script), *arguments])
        patch.syspath_prepend(str(script.parent))
        runpy.run_path(str(script), run_name="__main__")
