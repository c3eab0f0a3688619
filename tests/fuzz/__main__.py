"""``python -m tests.fuzz``: run cases of formats, count outcomes, keep the inputs of failures."""

import argparse
import json
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.fuzz.cases import write_case
from tests.fuzz.corpus import list_corpus, read_corpus
from tests.fuzz.driver import BAD, GOOD, ROOT, Limits, Tally, Worker, fuzz, workplace
from tests.fuzz.formats import FORMATS, case

#: Of failures that look alike, how many inputs are kept.
_KEPT_ALIKE = 3


def main() -> int:
    options = _parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that workers are ended and folders removed
    limits = Limits(options.seconds, int(options.memory * 2**30))
    with workplace() as place, ExitStack() as stack:
        workers = [stack.enter_context(Worker(place, limits)) for _ in range(options.workers)]
        if options.case:
            return _show_case(options.case, workers[0], options.failures)
        tallies = []
        print(_row("format", "cases", *GOOD, *BAD, "seconds", "cases/s"), flush=True)
        for name in options.formats.split(",") if options.formats != "none" else ():
            numbers = range(options.first, options.first + options.cases)
            tallies.append(fuzz(name, numbers, workers, _keeper(name, options.failures)))
            print(_describe(tallies[-1]), flush=True)
        if options.corpus:
            tallies.append(read_corpus(list_corpus(options.corpus), workers[0]))
            print(_describe(tallies[-1]), flush=True)
        orphans = [name for worker in workers for name in worker.close()]
    for tally in tallies:
        for (outcome, detail), numbers in sorted(tally.examples.items(), key=lambda item: -len(item[1])):
            print(f"{len(numbers):6} {tally.name:12} {outcome:9} {detail}   (case {', '.join(map(str, numbers[:3]))})")
    for name in orphans:
        print(f"a process outlived its worker: {name}")
    n_failures = sum(tally.n_failures for tally in tallies) + len(orphans)
    print(f"{n_failures} failures" + (f"; inputs in {options.failures}" if n_failures else ""))
    return int(n_failures > 0)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--formats", default=",".join(FORMATS), help="which, with commas between them (default: all)")
    parser.add_argument("--cases", type=int, default=10_000, help="of each format")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=Limits.seconds, help="that one case may take")
    parser.add_argument("--memory", type=float, default=2.0, help="GB that one process may take")
    parser.add_argument("--failures", type=Path, default=ROOT / "fuzz-failures", help="folder for inputs of failures")
    parser.add_argument("--corpus", type=Path, help="folder of damaged files that must all be refused")
    parser.add_argument("--case", metavar="FORMAT:NUMBER", help="run one case, show what it did and keep its input")
    return parser.parse_args()


def _row(*cells: object) -> str:
    return " ".join(f"{cell!s:>{13 if i == 0 else 9}}" for i, cell in enumerate(cells))


def _describe(tally: Tally) -> str:
    total = sum(tally.outcomes.values())
    counts = [tally.outcomes[name] for name in (*GOOD, *BAD)]
    return _row(tally.name, total, *counts, f"{tally.seconds:.0f}", f"{total / max(tally.seconds, 1e-9):.0f}")


def _keeper(name: str, folder: Path) -> Callable[[Worker, int, Mapping[str, Any], int], None]:
    """Keeps the inputs of the first failures of each kind."""

    def keep(worker: Worker, number: int, answer: Mapping[str, Any], known: int) -> None:
        if known < _KEPT_ALIKE:
            _write(folder, name, number, _reduce(worker, name, number, answer), answer)

    return keep


def _reduce(worker: Worker, name: str, number: int, answer: Mapping[str, Any]) -> int | None:
    """The one damage of a case that is enough for its failure, if there is one."""
    n_damages = answer.get("n_damages", 1)
    for only in range(n_damages) if n_damages > 1 else ():
        again = worker.ask(format=name, number=number, only=only)
        if (again["outcome"], again.get("detail")) == (answer["outcome"], answer.get("detail")):
            return only
    return None


def _write(folder: Path, name: str, number: int, only: int | None, answer: Mapping[str, Any]) -> Path:
    """The input as a folder, as in a corpus, and what is known of it beside it."""
    target, made = folder / f"{name}_{number}", case(name, number, only)
    shutil.rmtree(target, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    write_case(made.files, target)
    target.with_suffix(".opts").write_text(json.dumps(dict(made.options)))
    about = {
        "reproduce": f"python -m tests.fuzz --case {name}:{number}",
        "way": made.way,
        "source": made.source,
        **{key: answer.get(key) for key in ("outcome", "detail", "traceback")},
    }
    target.with_suffix(".json").write_text(json.dumps(about, indent=1))
    return target


def _show_case(text: str, worker: Worker, folder: Path) -> int:
    name, _, number = text.partition(":")
    answer = worker.ask(format=name, number=int(number))
    made = case(name, int(number))
    changed = [file for file, content in made.files.items() if made.seed.files.get(file) != content]
    print(f"{made.way} with {dict(made.options)}; damaged: {', '.join(changed) or 'nothing'}")
    print(f"{answer['outcome']}: {answer['detail']}")
    print(answer.get("traceback", ""), end="")
    print(f"Input: {_write(folder, name, int(number), None, answer)}")
    return int(answer["outcome"] in BAD)


if __name__ == "__main__":
    sys.exit(main())
