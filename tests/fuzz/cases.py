"""Case NUMBER of a format: a seed, what was done to it, and how it is read."""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from random import Random
from typing import Any

from tests.fuzz.damage import damage
from tests.fuzz.damage.records import place_of
from tests.fuzz.seeds import Seed


@dataclass(frozen=True)
class Odd:
    """What lies where a file should be: a ``folder``, a ``link``, a ``pipe``, or a ``hole`` of many bytes."""

    kind: str
    value: str = ""


Content = bytes | Odd


@dataclass(frozen=True)
class Case:
    """Files, and how they are read. ``must_match``: only a refusal or what the undamaged files give is right."""

    seed: Seed
    files: Mapping[str, Content]
    source: str
    options: Mapping[str, Any]
    way: str
    n_damages: int
    must_match: bool


def make_case(name: str, number: int, seeds: list[Seed], only: int | None = None) -> Case:
    """The case of a format's seeds with this number; with ``only``, that one of its damages alone."""
    rng = Random(f"{name} {number}")
    seed = rng.choice(seeds)
    options, way = rng.choice(seed.options), rng.choice(seed.ways)
    targets = list(seed.targets or seed.files)
    chosen = rng.sample(targets, min(len(targets), rng.choice((1, 1, 1, 2, 3))))
    files: dict[str, Content] = dict(seed.files)
    are_noticed = []
    for i, target in enumerate(chosen):
        # Each damage has its own random numbers, so that it is the same without the others.
        own = Random(f"{name} {number} {i}")
        if only is None or only == i:
            if own.random() < 0.05:
                own.choice(_DAMAGES_TO_FILES)(files, target, own)
                are_noticed.append(False)
            else:
                content, is_noticed = damage(kind_of(target), seed.files[target], own)
                del files[target]
                files[place_of(content, target) if kind_of(target) == ".record" else target] = content
                are_noticed.append(is_noticed)
    return Case(seed, files, seed.source, options, way, len(chosen), seed.is_sealed and all(are_noticed))


def kind_of(path: str) -> str:
    """The suffix that says what a file holds; records and folds have none."""
    place = PurePosixPath(path)
    if place.name.startswith("fold_"):
        return ".pickle"
    return ".record" if place.parts[0] in ("records", "errors") else place.suffix


def write_case(files: Mapping[str, Content], folder: Path) -> None:
    """Put the files into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in files.items():
        path = folder / name
        if "/" in name:
            path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif content.kind == "folder":
            path.mkdir()
        elif content.kind == "link":
            path.symlink_to(content.value)
        elif content.kind == "pipe":
            os.mkfifo(path)
        else:
            with path.open("wb") as file:
                file.truncate(int(content.value))


Files = dict[str, Content]
_STEMS = (
    "\x1b[31mred", "a b", "é", "x" * 200, "a\nb", "=cmd()", "-rf", "participants", "sub-", "..x", "\u202e", "1",
    "fold_1",
)  # fmt: skip
_MORE = ("notes.csv", ".DS_Store", "participants.csv", "timeseries_1.csv")


def _remove(files: Files, target: str, rng: Random) -> None:
    del files[target]


def _empty(files: Files, target: str, rng: Random) -> None:
    files[target] = b""


def _take_another(files: Files, target: str, rng: Random) -> None:
    files[target] = files[rng.choice(list(files))]


def _rename(files: Files, target: str, rng: Random) -> None:
    place = PurePosixPath(target)
    name = rng.choice(_STEMS) + rng.choice((place.suffix, place.suffix, "", ".csv", ".mat", ".npy"))
    files[str(place.parent / name)] = files.pop(target)


def _add(files: Files, target: str, rng: Random) -> None:
    place = PurePosixPath(target)
    name = rng.choice((f"copy of {place.name}", f"more/{place.name}", *_MORE))
    files[str(place.parent / name)] = rng.choice((files[target], b"", b"a,b\n1,2\n", bytes(9)))


def _become_odd(files: Files, target: str, rng: Random) -> None:
    if rng.random() < 0.7:
        files[target] = rng.choice(
            (Odd("folder"), Odd("link", "nowhere"), Odd("link", PurePosixPath(target).name), Odd("link", "/dev/null"))
        )
    else:
        files[target] = rng.choice((Odd("pipe"), Odd("hole", str(5 << 30)), Odd("link", "/dev/zero")))


_DAMAGES_TO_FILES: tuple[Callable[[Files, str, Random], None], ...] = (
    _remove, _empty, _take_another, _rename, _add, _become_odd,
)  # fmt: skip
