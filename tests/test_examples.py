"""The notebooks and the scripts of the gallery in examples run from top to bottom, and show what they promise."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[1] / "examples"
# The tutorial takes a minute or two, so it is a slow test.
SLOW = {"tutorial"}
EXAMPLES = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in SLOW else [])
    for path in sorted(FOLDER.glob("*.ipynb"))
]
GALLERY = sorted(FOLDER.glob("plot_*.py"))


@pytest.mark.parametrize("path", EXAMPLES)
def test_the_notebook_runs(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "notebooks are stored without outputs"
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("<table" in data.get("text/html", "") for data in shown)


def test_there_are_notebooks():
    assert len(EXAMPLES) >= 2


def test_the_tutorial_is_for_one_class():
    cells = nbformat.read(FOLDER / "tutorial.ipynb", as_version=4).cells
    assert 25 <= len(cells) <= 35
    for cell in cells:
        if cell.cell_type == "code":
            compile(cell.source, "tutorial", "exec")


def test_the_gallery_has_examples_with_a_title_and_a_figure():
    assert len(GALLERY) >= 10
    for path in GALLERY:
        text = path.read_text(encoding="utf-8")
        title, line = (ast.get_docstring(ast.parse(text)) or "").splitlines()[:2]
        assert line == "=" * len(title), path.name
        assert "plt.show()" in text or ".plot." in text, path.name


@pytest.mark.slow
@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_the_example_runs(path, tmp_path):
    """`make docs` runs them too, and shows their figures."""
    environment = {**os.environ, "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, path], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
