"""Workers are separate processes: they find the toy methods of this folder through their import path."""

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _importable_toys(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
