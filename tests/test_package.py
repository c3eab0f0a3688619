"""The package as a whole: what importing it costs, and that the architecture holds."""

import subprocess
import sys

import pytest

import isocapsnet

HEAVY = ("torch", "sklearn", "scipy", "pandas", "numba", "nilearn", "matplotlib", "dask")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_public_name_resolves():
    for name in isocapsnet.__all__:
        assert getattr(isocapsnet, name) is not None


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        isocapsnet.nothing


@pytest.mark.parametrize(
    "code", ["import isocapsnet", "from isocapsnet.cli import main; main(['--help'], standalone_mode=False)"]
)
def test_import_and_help_load_nothing_heavy(code):
    loaded = run(f"{code}\nimport sys\nprint('LOADED', *[m for m in {HEAVY!r} if m in sys.modules])")
    assert loaded.strip().endswith("LOADED")


def test_functional_and_nn_need_torch_and_numpy_alone():
    run(
        """
import sys
sys.modules.update(dict.fromkeys(('sklearn', 'scipy', 'pandas', 'joblib', 'numba', 'triton', 'click', 'rich')))
import torch
import isocapsnet.functional, isocapsnet.nn
output = isocapsnet.nn.IsoCapsNet(8, 2, kernel_size=3)(torch.randn(2, 8, 8))
output.capsules.sum().backward()
"""
    )


def test_command_line_prints_one_sentence_and_exits_with_two(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "isocapsnet", "data", "describe", str(tmp_path / "nowhere.npz")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "nowhere.npz" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
