"""Compiled code of other sources is forgotten, and nothing else."""

import subprocess
import sys

import pytest

from isocapsnet.functional.kernels import _stale

LOOK = """
import os, torch
from pathlib import Path
from isocapsnet import functional
from isocapsnet.functional.kernels import cpu_routing, cpu_spectral, import_kernel
n_stamps = len(list(Path(os.environ["NUMBA_CACHE_DIR"]).rglob("isocapsnet-kernels.txt")))
"""
# For each kernel, something that it compiles, and how to have it compiled.
USES = {
    "cpu_routing": (
        "pack_tiles",
        "kernel.Windows.of(torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 2, 2).long(), 0.0, 1, torch.ones(1, 1, 4, 1, 16))",
    ),
    "cpu_spectral": (
        "_search",
        "functional.spectral_permutations(torch.ones(1, 2, 2), torch.ones(1, 2, 2))",
    ),
}


def test_only_indices_of_the_kernels_are_removed_and_only_once(tmp_path):
    ours, theirs = tmp_path / "cpu.backward-1.py311.nbi", tmp_path / "cpu_other.f-1.py311.nbi"
    for path in (ours, theirs):
        path.touch()
    _stale.remove_stale_code(tmp_path)
    assert not ours.exists() and theirs.exists()
    ours.touch()
    _stale.remove_stale_code(tmp_path)
    assert ours.exists()


@pytest.mark.parametrize("name", USES)
def test_code_is_compiled_anew_when_any_source_has_changed(name, tmp_path, monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    compiled, use = USES[name]
    show = f"stats = kernel.{compiled}.stats; print(stats.cache_path, sum(stats.cache_hits.values()), n_stamps)"
    script = "\n".join([LOOK, f"kernel = import_kernel('{name}')", use, show])

    def look():
        done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
        folder, hits, n_stamps = done.stdout.split()
        return folder, int(hits), int(n_stamps)

    folder, hits, n_stamps = look()
    assert (hits, n_stamps) == (0, 0)  # an import writes and removes nothing
    assert look() == (folder, 1, 1)
    (stamp,) = tmp_path.rglob("isocapsnet-kernels.txt")
    stamp.write_text("of another version")
    assert look() == (folder, 0, 1)
