"""One fit over two processes (gloo, loopback) is the fit of one process."""

import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from isocapsnet._validation import InputError
from isocapsnet.models import _distributed
from tests.models import distributed_fits
from tests.models.distributed_fits import FITS, OTHERS

PROCESSES = 2


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """Name of a fit to what it has led to in each of two processes."""
    folder = tmp_path_factory.mktemp("fits")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"]
    done = subprocess.run(
        [*launcher, f"--nproc-per-node={PROCESSES}", distributed_fits.__file__, str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return {
        name: [dict(np.load(folder / f"{name} {rank}.npz")) for rank in range(PROCESSES)] for name in (*FITS, *OTHERS)
    }


@pytest.mark.parametrize("name", FITS)
def test_two_processes_have_the_loss_curve_of_one(together, name):
    alone, (first, _) = distributed_fits.outcome(FITS[name]()), together[name]
    assert len(alone["losses"]) > 1
    assert_allclose(first["losses"], alone["losses"], rtol=1e-4)
    assert_allclose(first["gradients"], alone["gradients"], rtol=1e-2)
    assert_array_equal(first["names"], alone["names"])
    assert_allclose(first["proba"], alone["proba"], atol=1e-3)
    assert alone["temperature"] != 1
    assert_allclose(first["temperature"], alone["temperature"], rtol=0.05)


@pytest.mark.parametrize("name", [*FITS, "diffpool", "dropout", "no seed"])
def test_processes_agree_bit_for_bit(together, name):
    first, second = together[name]
    for key in ("losses", "weights", "proba", "temperature"):
        assert_array_equal(first[key], second[key])


def test_early_stopping_ends_both_fits(together):
    losses = together["early stopping"][0]["losses"]
    assert losses[:, 1].argmin() + 1 < len(losses) < 30


def test_tolerance_ends_both_fits(together):
    assert len(together["tolerance"][0]["losses"]) < 60


def test_without_synchronised_gradients_processes_drift_apart(together):
    alone, (first, second) = distributed_fits.outcome(FITS["capsules"]()), together["no synchronisation"]
    assert np.abs(first["weights"] - second["weights"]).max() > 1e-4
    with pytest.raises(AssertionError):
        assert_allclose(first["losses"], alone["losses"], rtol=1e-4)


def test_each_process_draws_its_own_dropout(together):
    first, second = together["dropout"]
    assert first["seed"] == 0 != second["seed"]


def test_a_missing_extra_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(_distributed, "n_processes", lambda: 2)
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(ImportError, match=r'2 processes .* pip install "isocapsnet\[distributed\]"'):
        FITS["capsules"]()


def test_processes_that_accelerate_does_not_see_are_refused(monkeypatch):
    monkeypatch.setattr(_distributed, "n_processes", lambda: 2)
    with pytest.raises(InputError, match="2 processes but Accelerate sees 1"):
        FITS["capsules"]()


def test_the_environment_of_a_launcher_changes_nothing_without_a_process_group(monkeypatch):
    expected = distributed_fits.outcome(FITS["capsules"]())
    for name, value in {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1", "SLURM_NTASKS": "2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(sys.modules, "accelerate", None)
    found = distributed_fits.outcome(FITS["capsules"]())
    assert_array_equal(found["weights"], expected["weights"])
