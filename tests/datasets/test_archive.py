"""The npz files: numpy reads them, the operating system maps them, nothing in them is executed."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from isocapsnet._validation import InputError
from isocapsnet.datasets import archive
from isocapsnet.datasets.archive import read_archive, write_archive
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.readers import load_graphs


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return {
        "names": np.array(["a", "bc"]),
        "large": rng.normal(size=(50, 60, 60)),
        "transposed": np.asfortranarray(rng.normal(size=(400, 500))),
        "empty": np.zeros((0, 3)),
        "scalar": np.array(3.5),
    }


def test_numpy_reads_what_is_written_and_large_arrays_are_mapped(tmp_path, arrays):
    write_archive(tmp_path / "a.npz", arrays)
    read = read_archive(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as by_numpy:
        for name, array in arrays.items():
            assert np.array_equal(by_numpy[name], array)
            assert np.array_equal(read[name], array)
            assert read[name].dtype == array.dtype
    assert isinstance(read["large"], np.memmap)
    assert isinstance(read["transposed"], np.memmap)
    assert not isinstance(read["names"], np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        read["large"][0] = 0


def test_every_member_starts_at_a_multiple_of_64_bytes(tmp_path, arrays):
    write_archive(tmp_path / "a.npz", arrays)
    assert zipfile.ZipFile(tmp_path / "a.npz").testzip() is None
    assert all(
        array.offset % 64 == 0 for array in read_archive(tmp_path / "a.npz").values() if hasattr(array, "offset")
    )
    assert read_archive(tmp_path / "a.npz")["large"].flags.aligned


def test_equal_arrays_give_equal_files(tmp_path, arrays):
    for name in ("a.npz", "b.npz"):
        write_archive(tmp_path / name, arrays)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.npz"
    write_archive(path, {"x": np.arange(3)})
    before = path.read_bytes()
    with pytest.raises(ValueError, match="allow_pickle"):
        write_archive(path, {"x": np.arange(4), "bad": np.array([{}], dtype=object)})
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.npz"]  # noqa: PTH208 - hidden files count


def test_foreign_archives_are_mapped_where_they_are_stored(tmp_path, arrays):
    np.savez(tmp_path / "plain.npz", **arrays)
    assert isinstance(read_archive(tmp_path / "plain.npz")["large"], np.memmap)
    assert np.array_equal(read_archive(tmp_path / "plain.npz")["large"], arrays["large"])


def test_a_large_compressed_archive_is_unpacked_once_into_the_cache(tmp_path, arrays, monkeypatch):
    monkeypatch.setenv("ISOCAPSNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(archive, "_COMPRESSED_IN_MEMORY_BYTES", 1000)
    np.savez_compressed(tmp_path / "packed.npz", **arrays)
    read = read_archive(tmp_path / "packed.npz")
    assert isinstance(read["large"], np.memmap)
    assert all(np.array_equal(read[name], array) for name, array in arrays.items())
    (twin,) = (tmp_path / "cache" / "unpacked").iterdir()
    written = twin.stat().st_mtime_ns
    read_archive(tmp_path / "packed.npz")
    assert twin.stat().st_mtime_ns == written


def test_small_compressed_archives_stay_out_of_the_cache(tmp_path, arrays, monkeypatch):
    monkeypatch.setenv("ISOCAPSNET_CACHE", str(tmp_path / "cache"))
    np.savez_compressed(tmp_path / "packed.npz", **arrays)
    assert np.array_equal(read_archive(tmp_path / "packed.npz")["large"], arrays["large"])
    assert not (tmp_path / "cache").exists()


def test_saved_data_that_were_compressed_are_refused_before_they_are_unpacked(tmp_path):
    BrainGraphs(np.zeros((2, 3, 3)), [0, 1]).save(tmp_path / "saved.npz")
    with (
        zipfile.ZipFile(tmp_path / "saved.npz") as saved,
        zipfile.ZipFile(tmp_path / "packed.npz", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for name in saved.namelist():
            packed.writestr(name, saved.read(name))
    assert len(BrainGraphs.load(tmp_path / "saved.npz")) == 2
    with pytest.raises(InputError, match=r"packed\.npz"):
        BrainGraphs.load(tmp_path / "packed.npz")


def test_pickled_members_and_damaged_files_are_refused(tmp_path, arrays):
    np.savez(tmp_path / "objects.npz", adjacency=np.array([{"a": 1}] * 200_000, dtype=object))
    np.savez(tmp_path / "few.npz", adjacency=np.array([{"a": 1}], dtype=object))
    write_archive(tmp_path / "whole.npz", arrays)
    (tmp_path / "half.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:100_000])
    (tmp_path / "text.npz").write_text("no zip at all")
    for name, sentence in (
        ("objects", "adjacency holds values of type"),
        ("few", "adjacency holds values of type"),
        ("half", "not a readable .npz"),
        ("text", "not a readable .npz"),
    ):
        with pytest.raises(InputError, match=sentence):
            load_graphs(tmp_path / f"{name}.npz")


_MEASURE = """
import resource, sys, time
import numpy as np
from isocapsnet.datasets.readers import load_graphs

def anonymous_megabytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) / 1024

start = time.perf_counter()
data = load_graphs(sys.argv[1])
data.describe()
seconds = time.perf_counter() - start
print(anonymous_megabytes(), seconds, type(data.adjacency).__name__)
"""


def measure(path: Path) -> tuple[float, float, str]:
    """Anonymous memory (MB) after loading and describing in a fresh process, seconds, and the type of the array."""
    command = [sys.executable, "-c", _MEASURE, str(path)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(output[0]), float(output[1]), output[2]


def write_large(path: Path, n_graphs: int, n_nodes: int) -> None:
    rng = np.random.default_rng(0)
    graphs = np.lib.format.open_memmap(path.with_suffix(".npy"), "w+", np.float32, (n_graphs, n_nodes, n_nodes))
    for start in range(0, n_graphs, 100):
        block = rng.standard_normal((min(100, n_graphs - start), n_nodes, n_nodes), dtype=np.float32)
        graphs[start : start + 100] = block + block.swapaxes(1, 2)
    BrainGraphs(graphs, np.arange(n_graphs) % 2, name="large").save(path)
    path.with_suffix(".npy").unlink()


needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")


@needs_proc
def test_mapped_graphs_do_not_count_as_memory(tmp_path):
    write_large(tmp_path / "small.npz", 20, 100)
    write_large(tmp_path / "large.npz", 2000, 100)
    small, _, _ = measure(tmp_path / "small.npz")
    large, _, kind = measure(tmp_path / "large.npz")
    assert kind == "memmap"
    assert large - small < 40, "80 MB of graphs must not become 80 MB of memory"


@needs_proc
@pytest.mark.slow
def test_5000_subjects_of_200_nodes_in_300_megabytes_and_10_seconds(tmp_path):
    write_large(tmp_path / "study.npz", 5000, 200)
    megabytes, seconds, kind = measure(tmp_path / "study.npz")
    print(f"anonymous memory {megabytes:.0f} MB, {seconds:.1f} s")
    assert kind == "memmap"
    assert megabytes < 300
    assert seconds < 10
