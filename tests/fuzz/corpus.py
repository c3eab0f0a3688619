"""A folder of damaged files that once made a reader fail; each must be refused in a sentence."""

import json
import time
from collections.abc import Iterable
from pathlib import Path

from tests.fuzz.driver import Tally, Worker


def list_corpus(folder: Path) -> list[Path]:
    """The entries: folders, with options of ``load_graphs`` in NAME.opts beside each."""
    return sorted(path for path in folder.iterdir() if path.is_dir())


def read_corpus(entries: Iterable[Path], worker: Worker) -> Tally:
    """Read every entry; to read one is a failure too, because all are damaged."""
    tally = Tally("corpus")
    started = time.monotonic()
    for number, entry in enumerate(entries):
        files = list(entry.iterdir())
        options = entry.with_name(f"{entry.name}.opts")
        answer = worker.ask(
            folder=str(entry.resolve()),
            source=files[0].name if len(files) == 1 else "",
            way="load_graphs",
            options=json.loads(options.read_text()) if options.exists() else {},
        )
        if answer["outcome"] == "read":
            answer |= {"outcome": "wrong", "detail": "read, though it is damaged"}
        tally.add(number, {**answer, "detail": f"{entry.name}: {answer['detail']}"})
    tally.seconds = time.monotonic() - started
    return tally
