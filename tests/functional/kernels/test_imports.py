"""What the kernels need to be importable, and what happens where it is missing."""

import subprocess
import sys

import pytest
import torch

from isocapsnet.functional import kernels

BLOCK = """
import sys
from importlib.abc import MetaPathFinder

class Block(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Block())
"""


def run_without(blocked: set[str], code: str) -> subprocess.CompletedProcess:
    script = f"BLOCKED = {blocked!r}\n{BLOCK}\n{code}"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)


def test_without_a_folder_for_compiled_code_the_match_is_eager_and_says_so(monkeypatch):
    def fail(name):
        raise RuntimeError("no locator available")

    monkeypatch.setattr(kernels, "import_module", fail)
    kernels.import_kernel.cache_clear()
    try:
        with pytest.warns(UserWarning, match="NUMBA_CACHE_DIR"):
            assert kernels.pick_kernel(torch.zeros(1, 5, 5), torch.zeros(1, 3, 3)) is kernels.eager
    finally:
        kernels.import_kernel.cache_clear()


@pytest.mark.parametrize("package", ["isocapsnet.functional", "isocapsnet.nn"])
def test_functional_and_nn_need_torch_and_numpy_alone(package):
    heavy = {"numba", "triton", "sklearn", "scipy", "pandas", "joblib", "matplotlib", "nilearn"}
    done = run_without(heavy, f"import {package}")
    assert done.returncode == 0, done.stderr


def test_numba_is_not_imported_before_it_is_needed():
    done = run_without(set(), "import isocapsnet.functional, isocapsnet.nn, sys; assert 'numba' not in sys.modules")
    assert done.returncode == 0, done.stderr


def test_without_numba_the_match_is_eager_and_the_same():
    code = """
import torch
from isocapsnet.functional import isomorphic_match
from isocapsnet.functional.kernels import eager, pick_kernel
torch.manual_seed(0)
graphs, templates = torch.randn(2, 9, 9), torch.randn(1, 4, 4, requires_grad=True)
match = isomorphic_match(graphs, templates)
match.distance.sum().backward()
print(pick_kernel(graphs, templates).__name__.rsplit(".")[-1])
print(match.permutation.sum().item(), round(templates.grad.abs().sum().item(), 3))
"""
    without, with_numba = run_without({"numba"}, code), run_without(set(), code)
    assert without.returncode == 0, without.stderr
    name, result = without.stdout.split("\n", 1)
    assert name == "eager"
    assert result == with_numba.stdout.split("\n", 1)[1]
