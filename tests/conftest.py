"""One thread per process, fixed examples, Ctrl-C, and folders beside the checkout."""

import os
import signal
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("isocapsnet", deadline=None, derandomize=True, max_examples=30)
settings.load_profile("isocapsnet")
# A suite that is started in the background ignores Ctrl-C, and so would all that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def _beside(name: str) -> Path:
    """A folder of files that are not part of a clone; tests that need it skip where it is not there."""
    folder = Path(__file__).resolve().parents[1].parent / "shared" / name
    if not folder.is_dir():
        pytest.skip(f"the folder shared/{name} is not beside this checkout")
    return folder


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Real datasets."""
    return _beside("data")


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Damaged files that made readers fail."""
    return _beside("corpus")
