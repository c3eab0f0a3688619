"""A process that reads cases, one after the other, and says what came of each.

Jobs come as JSON lines and so do the answers. The driver watches from outside: a worker may die, hang or grow.
"""

import faulthandler
import json
import os
import resource
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

#: Folders beside the given one in which nothing may be left.
OUTSIDE = ("cache", "tmp", "home", "cwd")
_LONGEST_SENTENCE = 2000
#: Ways that may write into the folder they are given.
_WRITING = ("Store", "compare", "two folders", "read_results", "report")


def main(area: Path) -> None:
    """Answer jobs from standard input until it ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    crash = (area / "crash").open("w")
    faulthandler.enable(crash)
    faulthandler.register(signal.SIGUSR1, crash)
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        try:
            answer = _answer(json.loads(line), area)
        except Exception:
            answer = {"outcome": "fault of the suite", "detail": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")


def _answer(job: Mapping[str, Any], area: Path) -> dict[str, Any]:
    from tests.fuzz import cases, formats

    given = area / "given"
    if "prepare" in job:
        _read_seeds(formats.seeds_of(job["prepare"]), given, area)
        return {"outcome": "ready"}
    if "folder" in job:
        shutil.rmtree(given, ignore_errors=True)
        shutil.copytree(job["folder"], given, symlinks=True)
        return _read(given, job["source"], job["way"], job["options"], area)
    case = formats.case(job["format"], job["number"], job.get("only"))
    cases.write_case(case.files, given)
    answer = _read(given, case.source, case.way, case.options, area)
    if case.must_match and answer["outcome"] == "read":
        cases.write_case(case.seed.files, given)
        whole = _read(given, case.source, case.way, case.options, area)
        if set(answer["value"].splitlines()) - set(whole["value"].splitlines()):
            answer |= {"outcome": "wrong", "detail": f"{case.way} read other data than were written, in silence"}
    return {**answer, "n_damages": case.n_damages}


def _read_seeds(seeds: list[Any], given: Path, area: Path) -> None:
    """Read what is whole, in every way: what is imported on first use is then no part of a case, and damage counts."""
    from tests.fuzz.cases import write_case

    for seed in seeds:
        write_case(seed.files, given)
        for way in dict.fromkeys(seed.ways):
            answer = _read(given, seed.source, way, seed.options[0], area)
            if answer["outcome"] != "read":
                raise ValueError(f"{way} does not read {list(seed.files)[:5]} before it is damaged: {answer}")


def _read(given: Path, source: str, way: str, options: Mapping[str, Any], area: Path) -> dict[str, Any]:
    """Read in one way, and see what it left behind."""
    from tests.fuzz.ways import WAYS, InputError, UnclearError, WrongError, strange_characters

    read = WAYS.get(way) or resolve_name(way)
    before = _names(given)
    answer: dict[str, Any] = {"detail": "", "value": ""}
    try:
        answer |= {"outcome": "read", "value": read(given / source if source else given, options)}
    except InputError as error:
        sentence = str(error)
        answer |= {"outcome": "refused", "detail": sentence[:300]}
        is_strange = bool(strange_characters(sentence))
        if is_strange or not 0 < len(sentence) <= _LONGEST_SENTENCE:
            fact = "strange characters in a sentence" if is_strange else "a sentence that is empty or too long"
            answer |= {
                "outcome": "unclear",
                "detail": f"{fact} at {_place(error)}",
                "traceback": f"{sentence!r}"[:1000],
            }
    except UnclearError as error:
        answer |= {"outcome": "unclear", "detail": str(error)}
    except WrongError as error:
        answer |= {"outcome": "wrong", "detail": str(error)}
    except BaseException as error:
        answer |= {"outcome": "traceback", "detail": f"{type(error).__name__} at {_place(error)}"}
        answer["traceback"] = "".join(traceback.format_exception(error, limit=-12))[-6000:]
    left = [f"{folder}/{name}" for folder in OUTSIDE for name in _names(area / folder)]
    left += sorted(_names(given) - before) if way not in _WRITING else []
    if left and answer["outcome"] in ("read", "refused"):
        answer |= {"outcome": "left", "detail": f"{way}: {', '.join(left[:3])}"}
    for folder in OUTSIDE if left else ():
        empty(area / folder)
    return {**answer, "way": way, "peak": _peak()}


def _names(folder: Path) -> set[str]:
    start = len(str(folder)) + 1
    return {f"{at}/{name}"[start:] for at, _, names in os.walk(folder) for name in names}


def empty(folder: Path) -> None:
    """Remove what is in a folder; the folder stays, because somebody may stand in it."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _place(error: BaseException) -> str:
    """The last line of the package in a traceback, and where the error was raised if that was elsewhere."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{frame.filename.rpartition('/src/isocapsnet/')[2]}:{frame.lineno}" for frame in frames]
    ours = [place for place, frame in zip(places, frames, strict=True) if "/src/isocapsnet/" in frame.filename]
    last = "/".join(places[-1].rsplit("/", 3)[-3:])
    return f"{ours[-1]}" + (f" ({last})" if ours[-1] != places[-1] else "") if ours else last


def _peak() -> int:
    """The most memory that this process or one of its living children ever had, in bytes.

    From /proc where it is: what ``getrusage`` says begins with the memory of the process that started this one.
    """
    kilobytes = [] if Path("/proc/self/status").exists() else [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]
    waiting = ["self"]
    while waiting:
        process = Path("/proc", waiting.pop())
        with suppress(OSError):  # it has ended since
            status = (process / "status").read_text()
            kilobytes += [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")]
            for task in process.glob("task/*/children"):
                waiting += task.read_text().split()
    return 1024 * max(kilobytes)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
