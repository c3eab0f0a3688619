"""Readers that do what no reader may do: the driver must notice each."""

import functools
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from isocapsnet import InputError
from tests.fuzz.seeds import Seed
from tests.fuzz.ways import UnclearError, WrongError

_WHOLE = b"[1, 2]"


def read(path: Path, options: Mapping[str, Any]) -> str:
    """Do what the options say, unless the file is whole."""
    conduct = options["conduct"]
    content = (path / "x.json").read_bytes()
    if content == _WHOLE:
        return ""
    if conduct == "refuses":
        raise InputError("x.json is damaged.")
    if conduct == "says_too_much":
        raise UnclearError("printed 100000 characters")
    if conduct == "crashes":
        os.kill(os.getpid(), signal.SIGSEGV)
    if conduct == "exits":
        os._exit(3)
    if conduct == "hangs":
        time.sleep(600)
    if conduct == "allocates":
        np.ones(options["n_values"])
    if conduct == "leaves_a_process":
        subprocess.Popen(["sleep", "600"], start_new_session=True)
    if conduct == "raises":
        return {}["missing"]
    if conduct == "leaves_a_file":
        Path("canary").touch()
    if conduct == "leaves_a_file_with_the_input":
        (path / "canary").touch()
    if conduct == "leaves_a_file_in_the_cache":
        (Path(os.environ["ISOCAPSNET_CACHE"]) / "part").touch()
    if conduct == "is_wrong":
        raise WrongError("a label of somebody else")
    if conduct == "does_not_notice":
        return content.hex()
    return ""


def seeds(conduct: str) -> list[Seed]:
    options = {"conduct": conduct, "n_values": 60_000_000}
    return [Seed({"x.json": _WHOLE}, options=(options,), ways=("tests.fuzz.misbehaving:read",), is_sealed=True)]


def make_unreadable() -> list[Seed]:
    return [Seed({"x.json": b"[1, 3]"}, options=({"conduct": "refuses"},), ways=("tests.fuzz.misbehaving:read",))]


#: What a reader does, and as what it must be counted.
CONDUCTS = {
    "reads": "read", "refuses": "refused", "says_too_much": "unclear", "crashes": "signal", "exits": "signal",
    "hangs": "hang", "allocates": "memory", "raises": "traceback", "leaves_a_file": "left",
    "leaves_a_file_with_the_input": "left", "leaves_a_file_in_the_cache": "left", "is_wrong": "wrong",
    "does_not_notice": "wrong",
}  # fmt: skip
#: Formats of one conduct each: ``tests.fuzz.misbehaving:formats.hangs``.
formats = SimpleNamespace(**{name: functools.partial(seeds, name) for name in (*CONDUCTS, "leaves_a_process")})
