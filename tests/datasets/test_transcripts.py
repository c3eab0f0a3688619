"""The commands of the page of transcripts lead from the files of a study to its report."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from isocapsnet.cli import main

from . import layouts
from .transcripts import TRANSCRIPTS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "datasets-transcripts.md"


def test_the_page_has_these_commands():
    listed = re.findall(r"^\$ (isocapsnet .*)$", PAGE.read_text(), re.MULTILINE)
    assert listed == [command for transcript in TRANSCRIPTS for command in transcript.commands]
    assert all(len(transcript.commands) <= 3 for transcript in TRANSCRIPTS)


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda transcript: transcript.title)
def test_three_commands_lead_to_a_report(transcript, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    transcript.write(layouts.make_forty(), tmp_path)
    check, benchmark, report = (shlex.split(command)[1:] for command in transcript.commands)
    next_command = CliRunner().invoke(main, check).output.strip().splitlines()
    proposed = next(line for line in next_command if line.startswith(("next", "works")))
    assert {*benchmark[:-4]} <= {*shlex.split(proposed)}  # what the check ends with, and the methods
    small = ["--repeats", "1", "--folds", "2", "--candidates", "1", "--jobs", "0"]
    for command in ([*benchmark, *small], report):
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 0, result.output
    assert (tmp_path / "results" / "report.html").stat().st_size > 10_000
