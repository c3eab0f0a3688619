"""A field of the dataset takes two files: graphs.py checks it and storage.py saves it."""

import shutil
import subprocess
import sys
from pathlib import Path

import isocapsnet

#: What a commit that adds the field ``sessions``, one text per graph, changes: file to (line, lines in its place).
COMMIT = {
    "datasets/graphs.py": [
        (
            "    time_series: tuple[NDArray[Any], ...] | None\n",
            "    sessions: NDArray[np.str_] | None\n    time_series: tuple[NDArray[Any], ...] | None\n",
        ),
        (
            "        covariates: pd.DataFrame | None = None,\n",
            "        sessions: Sequence[str] | None = None,\n        covariates: pd.DataFrame | None = None,\n",
        ),
        (
            "            atlas=atlas,\n",
            '            sessions=None if sessions is None else fields.check_texts("sessions", sessions, n_graphs),\n'
            "            atlas=atlas,\n",
        ),
        (
            "            exclusions=exclusions,\n",
            "            sessions=None if self.sessions is None else self.sessions[index],\n"
            "            exclusions=exclusions,\n",
        ),
    ],
    "datasets/storage.py": [
        (
            "    if data.sites is not None:\n",
            '    if data.sessions is not None:\n        arrays["sessions"] = data.sessions\n'
            "    if data.sites is not None:\n",
        ),
        (
            '        "sites": arrays.get("sites"),\n',
            '        "sites": arrays.get("sites"),\n        "sessions": arrays.get("sessions"),\n',
        ),
    ],
}

USE = """
import numpy as np
import isocapsnet as ic

data = ic.BrainGraphs(np.zeros((3, 2, 2)), sessions=["1", "2", "1"])
assert data[1:].sessions.tolist() == ["2", "1"]
assert data.replace(name="x").sessions.tolist() == ["1", "2", "1"]
data.save("study.npz")
assert ic.load_graphs("study.npz").sessions.tolist() == ["1", "2", "1"]
assert ic.BrainGraphs(np.zeros((3, 2, 2))).sessions is None
try:
    data.replace(sessions=["1"])
except ic.InputError as error:
    print(error)
"""


def test_a_field_is_added_in_two_files(tmp_path, monkeypatch):
    copied = tmp_path / "src" / "isocapsnet"
    shutil.copytree(Path(isocapsnet.__file__).parent, copied, ignore=shutil.ignore_patterns("__pycache__"))
    for file, changes in COMMIT.items():
        text = (copied / file).read_text()
        for line, lines in changes:
            assert text.count(line) == 1, f"{file} has {line.strip()!r} {text.count(line)} times"
            text = text.replace(line, lines)
        (copied / file).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(copied.parent))
    done = subprocess.run([sys.executable, "-c", USE], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "3 graphs but 1 sessions" in done.stdout
