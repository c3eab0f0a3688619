"""One toy folder and its page for all tests of this folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from isocapsnet._reporting import read_content
from isocapsnet.cli import main
from isocapsnet.report.content import Content
from tests.report.browsing import Visit, start_browser
from tests.report.toys import make_folder


@pytest.fixture(scope="session")
def toy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with three methods, one failed job, an audit and explanations."""
    return make_folder(tmp_path_factory.mktemp("toy") / "results")


@pytest.fixture(scope="session")
def toy_content(toy_folder: Path) -> Content:
    return read_content(toy_folder, created="2026-01-31")


@pytest.fixture(scope="session")
def toy_page(toy_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder's report, as the command line writes it."""
    page = tmp_path_factory.mktemp("page") / "report.html"
    result = CliRunner().invoke(main, ["report", str(toy_folder), "--out", str(page)])
    assert result.exit_code == 0, result.output
    return page


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with start_browser() as started:
        yield started


@pytest.fixture
def visit(browser: Any, toy_page: Path) -> Iterator[Visit]:
    visited = Visit(browser, toy_page, 1280)
    yield visited
    visited.context.close()
