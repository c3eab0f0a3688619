"""Compiled code of other sources is forgotten, and nothing else."""

import subprocess
import sys

import pytest

from isocapsnet.functional.kernels import _stale

LOOK = """
from pathlib import Path
import torch
from isocapsnet.functional.kernels import cpu
cpu.search(torch.zeros(1, 3, 3), torch.zeros(1, 1, 1), 1)
print(cpu.search_tiles.stats.cache_path, sum(cpu.search_tiles.stats.cache_hits.values()))
"""


def test_only_indices_of_the_kernels_are_removed_and_only_once(tmp_path):
    ours, theirs = tmp_path / "cpu.backward-1.py311.nbi", tmp_path / "cpu_other.f-1.py311.nbi"
    for path in (ours, theirs):
        path.touch()
    _stale.remove_stale_code(tmp_path)
    assert not ours.exists() and theirs.exists()
    ours.touch()
    _stale.remove_stale_code(tmp_path)
    assert ours.exists()


def test_code_is_compiled_anew_when_any_source_has_changed(tmp_path, monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    subprocess.run([sys.executable, "-c", "import isocapsnet.functional.kernels.cpu_routing"], check=True)
    assert not list(tmp_path.rglob("isocapsnet-kernels.txt"))  # an import writes and removes nothing

    def look():
        done = subprocess.run([sys.executable, "-c", LOOK], check=True, capture_output=True, text=True)
        folder, hits = done.stdout.split()
        return folder, int(hits)

    folder, hits = look()
    assert hits == 0
    assert look() == (folder, 1)
    (stamp,) = tmp_path.rglob("isocapsnet-kernels.txt")
    stamp.write_text("of another version")
    assert look() == (folder, 0)
