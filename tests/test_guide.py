"""Every code block of the start page and of the guide runs, in the order of the page, beside a small study."""

import re
import shlex
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from isocapsnet import _timing, make_planted_graphs
from isocapsnet._planning import Options
from isocapsnet.cli import main
from isocapsnet.evaluation import InProcessExecutor

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = [DOCS / "start.md", *sorted(DOCS.glob("guide/*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
# Commands that a test cannot run: they need a network, a GPU, or other machines.
ELSEWHERE = re.compile(r"\$ (pip|dask) |\$ isocapsnet .*(cuda|tcp://)")


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def write_study(folder: Path, n_subjects: int, *, seed: int) -> None:
    """Correlation matrices of eight regions with a planted difference, and a table of subjects."""
    folder.mkdir()
    planted = make_planted_graphs(n_subjects, 8, kernel_size=3, background="constant", random_state=seed)
    graphs = np.tanh(planted.graphs / 2)
    subjects = [f"sub-{seed}{number:02}" for number in range(n_subjects)]
    for subject, graph in zip(subjects, graphs, strict=True):
        np.fill_diagonal(graph, 1)
        np.savetxt(folder / f"{subject}.csv", graph, delimiter=",")
    rng = np.random.default_rng(seed)
    table = {
        "participant_id": subjects,
        "diagnosis": np.array(["control", "patient"])[planted.labels],
        "age": rng.integers(20, 70, n_subjects),
        "sex": rng.choice(["f", "m"], n_subjects),
        "centre": np.array(["north", "south", "west"])[np.arange(n_subjects) % 3],
        "family": [f"f{number // 2}" for number in range(n_subjects)],
    }
    pd.DataFrame(table).to_csv(folder / "participants.tsv", sep="\t", index=False)


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A folder with ``study/`` and ``new/``; without ``--jobs``, jobs run in this process, as with ``--jobs 0``."""
    given = Options.executor

    def executor(options):
        return nullcontext(InProcessExecutor()) if options.jobs is None else given(options)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Options, "executor", executor)
    for name, value in {"_ALL_SECONDS": 2.0, "_LEAST_SECONDS": 0.1, "_MOST_SECONDS": 0.5}.items():
        monkeypatch.setattr(_timing, name, value)  # a dry run makes short trials
    write_study(tmp_path / "study", 48, seed=1)
    write_study(tmp_path / "new", 4, seed=2)


def test_there_are_pages():
    assert len(PAGES) >= 10
    assert all(blocks(page) for page in PAGES if page.stem != "index")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run(page, study):
    scope = {"__name__": "__main__"}
    for language, text in blocks(page):
        if language == "python":
            exec(compile(text, page.name, "exec"), scope)
        for line in text.splitlines() if language == "bash" else ():
            program, *arguments = shlex.split(line, comments=True)
            assert program == "isocapsnet"
            in_process = ["--jobs", "0"] if "--dry-run" in arguments else []
            main([*arguments, *in_process], standalone_mode=False)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_only_commands_that_a_test_cannot_run_are_not_run(page):
    kinds = dict.fromkeys(language for language, _ in blocks(page))
    assert set(kinds) <= {"python", "bash", "console", "text"}
    shown = [line for language, text in blocks(page) if language == "console" for line in text.splitlines()]
    assert [line for line in shown if not ELSEWHERE.match(line)] == []
