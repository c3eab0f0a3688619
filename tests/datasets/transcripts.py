"""From nothing to a report: writes ``docs/datasets-transcripts.md`` by running its commands on small sets.

python -m tests.datasets.transcripts docs/datasets-transcripts.md
"""

import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isocapsnet.datasets.graphs import BrainGraphs

from . import layouts

_MOST_LINES = 30


@dataclass(frozen=True)
class Transcript:
    """A study, what ``write(data, folder)`` makes of forty subjects, and at most three commands to its report."""

    title: str
    about: str
    write: Callable[[BrainGraphs, Path], Any]
    commands: tuple[str, ...]


def _three(check: str, benchmark: str) -> tuple[str, ...]:
    run = f"isocapsnet benchmark {benchmark} --methods linear,constant --out results"
    return f"isocapsnet data check {check}", run, "isocapsnet report results"


def _cc200(data: BrainGraphs, root: Path) -> Path:
    folder: Path = layouts.smaller_with_table(data, root)
    (root / "lists.csv").rename(folder / "regions.csv")
    return folder


TRANSCRIPTS = (
    Transcript(
        "Edge lists and a phenotype table",
        "`study/` has one file of source, target and weight per subject, and `phenotypic.csv`.",
        layouts.LAYOUTS["edge lists"].write,
        _three("study", "study --target diagnosis"),
    ),
    Transcript(
        "The dictionary of BrainNetworkTransformer",
        "`abide.npy` is a pickled dictionary of arrays. It has two arrays of graphs, so the check refuses it and\n"
        "names both commands that work; only you know which of the arrays you want.",
        layouts.bnt_dictionary,
        _three("abide.npy", "abide.npy --array corr"),
    ),
    Transcript(
        "CC200 matrices without empty regions",
        "`study/` has one `.npy` per subject with 7 or 8 of 8 regions, a table, and `regions.csv` with the regions\n"
        "of each subject.",
        _cc200,
        _three("study --target diagnosis", "study --target diagnosis"),
    ),
    Transcript(
        "XCP-D output",
        "`bids/derivatives/xcp_d` has `*_relmat.tsv` files, and `bids/participants.tsv` is the table.",
        layouts.xcp_d,
        _three("bids/derivatives/xcp_d", "bids/derivatives/xcp_d --target diagnosis"),
    ),
    Transcript(
        "A `.mat` with a stack",
        "`stack.mat` has two arrays that may be graphs, and `ID` has the subjects of one of them; `phenotypic.csv`\n"
        "has their classes.",
        layouts.mat_other_names,
        _three(
            "stack.mat --array netmats --subjects ID --participants phenotypic.csv",
            "stack.mat --array netmats --subjects ID --participants phenotypic.csv --target diagnosis",
        ),
    ),
)  # fmt: skip


def write_page(path: Path) -> None:
    """Run all commands and write what they print."""
    parts = [_HEAD]
    for transcript in TRANSCRIPTS:
        with tempfile.TemporaryDirectory() as folder:
            transcript.write(layouts.make_forty(), Path(folder))
            blocks, seconds = [], 0.0
            for command in transcript.commands:
                started = time.monotonic()
                text = _run(command, Path(folder))
                seconds += time.monotonic() - started
                blocks.append(f"$ {command}\n{text}")
        parts.append(
            f"## {transcript.title}\n\n{transcript.about}\n\n```\n" + "\n".join(blocks) + f"```\n\n{seconds:.0f} s.\n"
        )
    path.write_text("\n".join(parts))


def _run(command: str, folder: Path) -> str:
    result = subprocess.run(
        [sys.executable, "-m", *shlex.split(command)], cwd=folder, capture_output=True, text=True, check=False
    )
    if result.returncode not in (0, 2):
        raise RuntimeError(f"{command}: {result.stderr}")
    lines = [re.sub(r"\s+$", "", line) for line in result.stdout.splitlines()]
    lines = [line for line in lines if line and not re.match(r"\d+/\d+ jobs", line)]  # progress
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], "..."]
    return "".join(f"{line}\n" for line in lines)


_HEAD = """# From nothing to a report

Five studies in common layouts, each of 40 subjects and 8 regions, from files to a report in three commands. The output
is complete except for the lines of progress. The graphs are random, so no method can find anything. Times are the
wall-clock seconds of all three commands on two cores. This command writes the page:

```bash
python -m tests.datasets.transcripts docs/datasets-transcripts.md
```

`data check` reads the data, says what would be corrected or refused, and ends with a command that works, if there is
one. It can be left out. [datasets.md](datasets.md) explains the options. Real studies take longer in the second
command: see `--dry-run` in [benchmark.md](benchmark.md).
"""

if __name__ == "__main__":
    write_page(Path(sys.argv[1]))
