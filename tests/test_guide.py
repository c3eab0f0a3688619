"""Every code block of README and of the pages in docs runs, in the order of its page, beside a small study.

Networks train for two epochs with their defaults, there are at most two repeats, and the datasets of the package are as
small as the study. A command that a test cannot run, for one of the reasons in ``REASONS``, is parsed instead, so that
no page has an option that does not exist. A Python block that cannot run has the reason above it:
``<!-- not run: needs SLURM -->``.
"""

import ast
import doctest
import re
import shlex
import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest

from isocapsnet import MODELS, LinearClassifier, load_graphs, make_planted_graphs
from isocapsnet import _timing as timing
from isocapsnet._planning import Options
from isocapsnet.cli import main
from isocapsnet.datasets import CATALOG
from isocapsnet.evaluation import Protocol
from isocapsnet.models import _network as network
from tests.commands import check_program, leave_out_files, parse

ROOT = Path(__file__).resolve().parents[1]
PAGES = {str(page.relative_to(ROOT)): page for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])}
BLOCK = re.compile(r"(?:^<!-- not run: ([^\n]+) -->\n\n?)?^```([\w{}-]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"(?<!`)`(?:\$ )?((?:isocapsnet|python|make) [^`]+)`(?!`)")
COMMAND = re.compile(r"^(?:isocapsnet|python|make)( |$)")

#: Why a command of a page is parsed and not run. The first pattern that a command has is its reason.
REASONS = {
    "another program": re.compile(r"^(?!isocapsnet( |$))"),
    "a dataset that a clone does not have": re.compile(
        rf"\b({'|'.join(name for name in CATALOG if not name.startswith('planted'))})(?![\w-])"
    ),
    "a network": re.compile(r" data fetch"),
    "a GPU": re.compile(r" --device cuda"),
    "other machines": re.compile(r" --scheduler "),
    "a method that the reader adds": re.compile(r"\bnearest-mean\b"),
}
#: Commands that are assumed to have been run before the first block of a page.
BEFORE = {
    "docs/benchmark.md": [
        "benchmark study/ --target diagnosis --methods linear,constant --save-config run.toml --out results-a",
        "benchmark study/ --target diagnosis --methods svm,constant --out results-b",
    ],
    "docs/published.md": [
        "sweep study.npz --param kernel_size=2,3 --out isocapsnet-results/hiv_dti_kernel_size",
    ],
    "docs/report.md": ["sweep study.npz --param kernel_size=2,3 --out sweep"],
}


@dataclass(frozen=True)
class Block:
    not_run: str
    language: str
    text: str

    def commands(self) -> list[str]:
        """The commands of a block of the shell, or those in a transcript."""
        lines = self.text.replace("\\\n", " ").splitlines()
        if self.language in ("", "text"):
            return [line.removeprefix("$ ") for line in lines if line.startswith("$ ") or COMMAND.match(line)]
        commands, begun = [], ""
        for line in lines if self.language == "bash" else ():
            begun = f"{begun}\n{line}" if begun else line
            with suppress(ValueError):  # a quotation goes on in the next line
                commands += [begun] if shlex.split(begun, comments=True) else []
                begun = ""
        assert not begun
        return commands


def blocks(page: str) -> list[Block]:
    return [Block(*parts) for parts in BLOCK.findall(PAGES[page].read_text(encoding="utf-8"))]


def reason(command: str) -> str | None:
    return next((why for why, pattern in REASONS.items() if pattern.search(command)), None)


def split(command: str) -> list[str]:
    """The words of a command, without variables that are set for it and without redirection."""
    words = shlex.split(command, comments=True)
    while words and re.match(r"[A-Z_]+=", words[0]):
        words = words[1:]
    return words


def write_study(folder: Path, n_subjects: int, *, seed: int) -> None:
    """Correlation matrices of eight regions with a planted difference, and a table of subjects."""
    folder.mkdir()
    planted = make_planted_graphs(n_subjects, 8, kernel_size=3, background="constant", random_state=seed)
    graphs = np.tanh(planted.graphs / 2)
    subjects = [f"sub-{number:02}" for number in range(100 * seed - 99, 100 * seed - 99 + n_subjects)]
    for subject, graph in zip(subjects, graphs, strict=True):
        np.fill_diagonal(graph, 1)
        np.savetxt(folder / f"{subject}.csv", graph, delimiter=",")
    rng = np.random.default_rng(seed)
    sites = np.array(["north", "south", "west"])[np.arange(n_subjects) % 3]
    table = {
        "participant_id": subjects,
        "diagnosis": np.array(["control", "patient"])[planted.labels],
        "age": rng.integers(20, 70, n_subjects),
        "sex": rng.choice(["f", "m"], n_subjects),
        "centre": sites,
        "site": sites,
        "family": [f"f{number // 2}" for number in range(n_subjects)],
    }
    pd.DataFrame(table).to_csv(folder / "participants.tsv", sep="\t", index=False)


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A folder with ``study/``, ``study.npz``, ``new/`` and ``regions.csv``; all is quick and in this process."""
    check, train = Options.__post_init__, network.train

    def quick_options(options):
        check(options)
        here = options.jobs is None and options.scheduler is None and options.cluster is None
        object.__setattr__(options, "jobs", 0 if here else options.jobs)
        object.__setattr__(options, "repeats", min(options.repeats or 1, 2))

    def quick_train(*arguments, max_epochs, **options):
        return train(*arguments, max_epochs=min(max_epochs, 2), **options)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Options, "__post_init__", quick_options)
    monkeypatch.setattr(Protocol, "n_candidates", 1)
    monkeypatch.setattr(network, "train", quick_train)
    for name in ("_ALL_SECONDS", "_LEAST_SECONDS", "_MOST_SECONDS"):
        monkeypatch.setattr(timing, name, 0.05)
    write_study(tmp_path / "study", 48, seed=1)
    write_study(tmp_path / "new", 4, seed=2)
    load_graphs("study/", target="diagnosis").save("study.npz")
    small = replace(CATALOG["planted"], make=lambda: load_graphs("study.npz"))
    for name in ("planted", "planted-motif"):
        monkeypatch.setitem(CATALOG, name, small)
    names = [f"region {number}" for number in range(8)]
    pd.DataFrame({"name": names, "x": range(8), "y": range(8), "z": range(8)}).to_csv("regions.csv", index=False)


def names_of_the_reader() -> dict[str, object]:
    """What a page leaves to its reader: arrays, tables and a classifier."""

    class MyClassifier(LinearClassifier):
        """A classifier of one's own."""

    data = load_graphs("study/", target="diagnosis", site="site", covariates=["age", "sex"])
    rows, columns = np.triu_indices(data.n_nodes, k=1)
    edges = {f"{row}-{column}": data.adjacency[:, row, column] for row, column in zip(rows, columns, strict=True)}
    return {
        "__name__": "__main__",
        "MyClassifier": MyClassifier,
        "make_planted_graphs": make_planted_graphs,
        "frame": pd.DataFrame({**edges, "dx": data.labels}),
        "train": np.arange(30),
        "test": np.arange(30, 48),
        "new_graphs": data.adjacency[:3],
        "ids": data.subjects,
        "sites": data.sites,
        **dict.fromkeys(("X", "graphs", "matrices"), data.adjacency),
        **dict.fromkeys(("y", "labels"), np.array(data.label_names)[data.labels]),
        **dict.fromkeys(("covariates", "table"), data.covariates),
    }


def run(arguments: list[str]) -> None:
    """Run a command of the package; three methods stand for all of them, and the doctor leaves out its self test."""
    arguments = ["isocapsnet,linear,constant" if word == "all" else word for word in arguments]
    arguments += ["--no-self-test"] if arguments == ["doctor"] else []
    arguments += ["--candidates", "3"] if "--choose-transform" in arguments else []
    try:
        main(arguments, standalone_mode=False)
    except SystemExit as done:
        assert not done.code, arguments


def test_there_are_pages():
    assert {"README.md", "docs/start.md", "docs/benchmark.md", "docs/guide/verdicts.md"} <= set(PAGES)
    assert sum(len(blocks(page)) for page in PAGES) > 100
    assert all(blocks(page) for page in PAGES if page.startswith("docs/guide"))


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_the_blocks_of_a_page_run(page, study):
    for command in BEFORE.get(page, ()):
        run(shlex.split(command))
    scope = names_of_the_reader()
    for block in blocks(page):
        if block.language == "python" and not block.not_run:
            exec(compile(block.text, page, "exec"), scope)
        for command in block.commands() if block.language == "bash" else ():
            if not reason(command):
                run(split(command)[1:])


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_has_options_that_exist(page, monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    shown = [command for block in blocks(page) for command in block.commands()]
    for command in shown:
        words = split(command)
        check_program(words, monkeypatch)
        if words[0] == "isocapsnet":
            with leave_out_files():
                parse(words[1:])
    text = BLOCK.sub("", PAGES[page].read_text(encoding="utf-8"))
    for command in INLINE.findall(" ".join(text.split())):
        words = split(command)
        if words[0] == "isocapsnet" and words[1] not in MODELS:
            with leave_out_files(), suppress(click.MissingParameter):  # a sentence may leave the data out
                parse(words[1:])
        elif words[0] != "isocapsnet":
            check_program(words, monkeypatch)


@pytest.mark.parametrize("page", PAGES)
def test_a_block_is_of_a_language_that_is_tested_or_says_why_not(page):
    tested = {"python", "bash"}
    shown = {"", "text", "toml", "{toctree}", "{include}"}
    assert {block.language for block in blocks(page)} <= tested | shown
    for block in blocks(page):
        assert not block.not_run or (block.language == "python" and block.not_run.startswith("needs "))


def examples():
    """The examples of every docstring of the package, by file."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if ">>>" in text else ():
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and ">>>" in (ast.get_docstring(node) or ""):
                yield f"{path.stem}.{node.name}", doctest.DocTestParser().get_examples(ast.get_docstring(node) or "")


def test_the_examples_of_docstrings_run(study, capsys):
    """Output that an example shows is compared; an example that cannot run says what it needs."""
    run(shlex.split("benchmark study/ --target diagnosis --methods isocapsnet,linear,constant --out results"))
    run(shlex.split("benchmark study/ --target diagnosis --methods linear,constant --out results-a"))
    run(shlex.split("benchmark study/ --target diagnosis --methods svm,constant --out results-b"))
    run(shlex.split("fit --like results --method isocapsnet --out network.safetensors"))
    found = dict(examples())
    assert len(found) >= 15
    for name, each in found.items():
        shutil.copy("network.safetensors", "model.safetensors")
        scope: dict[str, object] = {}
        for example in each:
            if "# needs a network" in example.source:
                continue
            assert not example.options, name
            capsys.readouterr()
            exec(compile(example.source, name, "single"), scope)
            shown = capsys.readouterr().out
            assert not example.want or doctest.OutputChecker().check_output(example.want, shown, 0), (name, shown)
