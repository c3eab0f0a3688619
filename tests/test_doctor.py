"""The doctor finds what is broken, slow or absent, and says what to do."""

import json
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner

import isocapsnet
from isocapsnet import _doctor
from isocapsnet._doctor import EXTRAS, Diagnosis, Finding
from isocapsnet._self_test import compare_kernels
from isocapsnet.cli import main
from isocapsnet.functional import kernels, routing


def find(diagnosis: Diagnosis, section: str, name: str) -> Finding:
    return next(f for f in diagnosis.findings if (f.section, f.name) == (section, name))


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOCAPSNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ISOCAPSNET_DATA", raising=False)


@pytest.fixture
def versions(monkeypatch):
    """Set versions of packages, None for one that is not installed."""
    real = metadata.version

    def change(**changed):
        def version(name):
            if changed.get(name, "") is None:
                raise metadata.PackageNotFoundError(name)
            return changed.get(name) or real(name)

        monkeypatch.setattr(metadata, "version", version)

    return change


def test_a_good_installation_is_healthy():
    diagnosis = isocapsnet.doctor()
    assert diagnosis
    assert {f.section for f in diagnosis.findings} == {
        *("versions", "extras", "devices", "kernels", "folders", "self test"),
    }
    assert {f.name for f in diagnosis.findings if f.section == "extras"} == set(EXTRAS)
    assert "IsoCapsNet" in find(diagnosis, "self test", "model on cpu").details
    assert "Nothing is broken" in str(diagnosis)


def test_every_extra_of_the_package_is_explained():
    offered = set(metadata.metadata("isocapsnet").get_all("Provides-Extra") or ())
    assert set(EXTRAS) <= offered
    assert offered - set(EXTRAS) <= {"all", "dev", "docs"}


def test_an_absent_extra_is_no_fault(versions):
    versions(captum=None)
    diagnosis = isocapsnet.doctor(self_test=False)
    finding = find(diagnosis, "extras", "attribution")
    assert finding.status == "absent"
    assert "integrated gradients" in finding.advice and "isocapsnet[attribution]" in finding.advice
    assert diagnosis


@pytest.mark.parametrize(("version", "fact"), [(None, "not installed"), ("0.1.0", "older than")])
def test_a_missing_or_old_package_is_a_fault_with_a_command(versions, version, fact):
    versions(rich=version)
    result = CliRunner().invoke(main, ["doctor", "--no-self-test", "--json"])
    assert result.exit_code == 1
    content = json.loads(result.output)
    assert content["healthy"] is False
    (broken,) = [finding for finding in content["findings"] if finding["status"] == "broken"]
    assert broken["name"] == "rich" and fact in broken["details"] and "pip install" in broken["advice"]


def test_kernels_that_compute_something_else_are_found(monkeypatch):
    plain = routing._route_plainly
    monkeypatch.setattr(routing, "_route_plainly", lambda *arguments: 1.001 * plain(*arguments))
    (finding,) = compare_kernels()
    assert finding.status == "broken"
    assert "do not trust" in finding.advice


def test_a_fallback_to_plain_kernels_is_slow_not_broken(monkeypatch):
    monkeypatch.setattr(kernels, "_failed", {"cpu"})
    diagnosis = isocapsnet.doctor(self_test=False)
    finding = find(diagnosis, "kernels", "cpu")
    assert finding.status == "slow" and "plain" in finding.details and "numba" in finding.advice
    assert diagnosis


def test_a_cache_that_cannot_be_written_to_is_found(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ISOCAPSNET_CACHE", str(tmp_path / "file" / "cache"))
    finding = find(isocapsnet.doctor(self_test=False), "folders", "cache")
    assert finding.status == "broken" and "ISOCAPSNET_CACHE" in finding.advice


def test_the_size_of_the_cache_and_a_missing_folder_of_data(tmp_path, monkeypatch):
    (tmp_path / "cache" / "datasets").mkdir(parents=True)
    (tmp_path / "cache" / "datasets" / "one.npz").write_bytes(bytes(2_500_000))
    monkeypatch.setenv("ISOCAPSNET_DATA", str(tmp_path / "nowhere"))
    diagnosis = isocapsnet.doctor(self_test=False)
    assert "1 files, 2.5 MB" in find(diagnosis, "folders", "cache").details
    assert find(diagnosis, "folders", "data").status == "broken"


def test_threads_beyond_the_cores_are_slow(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 10_000)
    finding = find(isocapsnet.doctor(self_test=False), "devices", "cpu")
    assert finding.status == "slow" and "OMP_NUM_THREADS" in finding.advice


def test_a_check_that_fails_is_a_finding_and_the_others_go_on(monkeypatch):
    def _check_devices():
        raise ImportError("libtorch.so: cannot open\nshared object file")
        yield

    monkeypatch.setattr(_doctor, "_check_devices", _check_devices)
    result = CliRunner().invoke(main, ["doctor", "--no-self-test"])
    assert result.exit_code == 1
    line = next(line for line in result.output.splitlines() if "libtorch.so" in line)
    assert line.split()[0] == "broken"
    assert str(Path("cache")) in result.output
