"""One thread per process, fixed examples, Ctrl-C, and data outside the repository."""

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


#: Why a test is skipped that needs files which are not part of a clone.
_OUTSIDE = "needs files that are not part of the repository"


def _outside(variable: str, name: str) -> Path:
    """The folder that an environment variable names, else ``../shared/name`` beside the checkout; skips without one."""
    folder = Path(os.environ.get(variable) or Path(__file__).resolve().parents[2] / "shared" / name)
    if not folder.is_dir():
        pytest.skip(f"{_OUTSIDE}; set {variable}")
    return folder


@pytest.fixture
def real_data(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of real datasets, which the test can also open by their names."""
    folder = _outside("ISOCAPSNET_DATA", "data")
    monkeypatch.setenv("ISOCAPSNET_DATA", str(folder))
    return folder


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Damaged files that made readers fail."""
    return _outside("ISOCAPSNET_CORPUS", "corpus")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the tests that were skipped for want of files outside the repository."""
    skipped = [report for report in terminalreporter.stats.get("skipped", ()) if _OUTSIDE in str(report.longrepr)]
    if skipped:
        terminalreporter.section(f"{len(skipped)} skipped: {_OUTSIDE} (ISOCAPSNET_DATA, ISOCAPSNET_CORPUS)")
        for report in skipped:
            terminalreporter.line(report.nodeid)
