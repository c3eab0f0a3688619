"""The documentation is finished: no page ships a mark of something to be put in later."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
# A line that is one word in capitals (BENCHTABLE), or a note to oneself.
PLACEHOLDER = re.compile(r"^\s*[A-Z][A-Z_]{3,}\s*$|\b(?:TODO|FIXME|TBD|XXX)\b")


def test_there_are_pages():
    assert {"README.md", "explain.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_has_a_placeholder(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [(number, line) for number, line in enumerate(lines, 1) if PLACEHOLDER.search(line)] == []
