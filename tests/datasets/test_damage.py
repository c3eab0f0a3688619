"""Files that are readable and wrong: each is refused, or read as it is meant."""

import io
import os
import struct
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
from click.testing import CliRunner
from scipy.io import savemat

from isocapsnet._validation import InputError
from isocapsnet.cli import main
from isocapsnet.datasets.archive import read_archive, write_archive
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.readers import load_graphs
from tests.datasets.conftest import make_study


def flip(path: Path, content: bytes) -> None:
    """Change one bit of the file where ``content`` begins."""
    data = bytearray(path.read_bytes())
    data[data.index(content)] ^= 1
    path.write_bytes(data)


# -- npz ---------------------------------------------------------------------------------------------------------


def test_a_flipped_bit_in_a_mapped_array_is_refused(tmp_path):
    graphs = np.random.default_rng(0).normal(size=(12, 120, 120))
    path = tmp_path / "study.npz"
    np.savez(path, adjacency=graphs, labels=np.arange(12) % 2)
    assert isinstance(read_archive(path)["adjacency"], np.memmap)
    flip(path, graphs[5].tobytes())
    with pytest.raises(InputError, match=r"study\.npz.*adjacency.*checksum"):
        load_graphs(path)


def edit_saved(path: Path, name: str, change) -> None:
    """Change an array of a saved dataset and write the file again, with right checksums but the old digest."""
    arrays = {key: np.array(array) for key, array in read_archive(path).items()}
    arrays[name] = change(arrays[name])
    write_archive(path, arrays)


@pytest.mark.parametrize("command", ["fit", "predict", "describe", "check"])
def test_every_command_refuses_data_that_were_edited_after_saving(tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = make_study(12, 6)
    study.save("study.npz")
    run = CliRunner().invoke(main, ["fit", "study.npz", "--method", "constant", "--out", "model.safetensors"])
    assert run.exit_code == 0
    edit_saved(Path("study.npz"), "labels", lambda labels: labels[::-1].copy())
    arguments = {
        "fit": ["fit", "study.npz", "--method", "constant", "--out", "other.safetensors"],
        "predict": ["predict", "model.safetensors", "study.npz", "--out", "predictions.csv"],
        "describe": ["data", "describe", "study.npz"],
        "check": ["data", "check", "study.npz"],
    }[command]
    run = CliRunner().invoke(main, arguments)
    assert run.exit_code != 0
    assert "changed after it was saved" in run.output + str(run.exception)
    assert not Path("other.safetensors").exists()


def test_an_array_that_is_there_twice_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        for value in (0, 1):
            member = io.BytesIO()
            np.save(member, np.full((4, 3, 3), value))
            archive.writestr("adjacency.npy", member.getvalue())
    with pytest.raises(InputError, match="adjacency twice"):
        load_graphs(tmp_path / "x.npz")


def test_saved_data_that_lost_their_metadata_are_not_taken_for_foreign_ones(tmp_path):
    make_study(12, 6).save(tmp_path / "study.npz")
    content = (tmp_path / "study.npz").read_bytes()
    (tmp_path / "study.npz").write_bytes(content.replace(b"metadata.npy", b"metadata.npx"))
    with pytest.raises(InputError, match=r"metadata\.npx"):
        load_graphs(tmp_path / "study.npz")


def test_an_archive_whose_directory_lost_members_is_refused(tmp_path):
    np.savez(tmp_path / "x.npz", adjacency=np.zeros((4, 3, 3)), labels=[0, 1, 0, 1], subjects=["a", "b", "c", "d"])
    content = bytearray((tmp_path / "x.npz").read_bytes())
    last = content.rindex(b"PK\x01\x02")
    entry, length = content.rindex(b"PK\x01\x02", 0, last), content.rindex(b"PK\x05\x06") - last
    content[entry + 32 : entry + 34] = struct.pack("<H", length)  # the last entry becomes a comment of the one before
    (tmp_path / "x.npz").write_bytes(content)
    assert "subjects" not in np.load(tmp_path / "x.npz")
    with pytest.raises(InputError, match="does not list"):
        load_graphs(tmp_path / "x.npz")


def test_a_member_that_expands_beyond_the_limit_is_refused_before_it_is_read(tmp_path):
    np.savez_compressed(tmp_path / "bomb.npz", adjacency=np.zeros((400, 100, 100)))
    with pytest.raises(InputError, match=r"adjacency needs 32 MB.* read limit of 30 MB"):
        load_graphs(tmp_path / "bomb.npz", read_limit=30_000_000)
    assert len(load_graphs(tmp_path / "bomb.npz", read_limit=100_000_000)) == 400


def test_an_archive_that_cannot_be_unpacked_leaves_nothing_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ISOCAPSNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("isocapsnet.datasets.archive._COMPRESSED_IN_MEMORY_BYTES", 1000)
    path = tmp_path / "packed.npz"
    np.savez_compressed(path, adjacency=np.random.default_rng(0).normal(size=(12, 120, 120)))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"packed\.npz"):
        load_graphs(path)
    assert [file for file in (tmp_path / "cache").rglob("*") if file.is_file()] == []


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '|O', 'fortran_order': False, 'shape': (4, 3, 3), }",
        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (4, 3, 3), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 3, 3), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (4, 3, 4), }",
        "{'descr': '<f8', 'descr': '<f8', 'shape': (4, 3, 3), }",
        "{'descr': '<f16', 'fortran_order': False, 'shape': (2, 3, 3), }",
        "{'descr': '<f8', 'fortran_order': __import__('os'), 'shape': (4, 3, 3), }",
        "[" * 300,
    ],
)
def test_npy_headers_that_do_not_fit_are_refused(tmp_path, header):
    data = np.zeros((4, 3, 3)).tobytes()
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("adjacency.npy", content)
    with pytest.raises(InputError, match="adjacency"):
        load_graphs(tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("metadata", lambda a: np.frombuffer(a.tobytes().replace(b'"handled": {}', b'"handled": 17'), dtype=np.uint8)),
        ("metadata", lambda a: np.frombuffer(a.tobytes()[:-4] + b"[[[[", dtype=np.uint8)),
        ("labels", lambda a: a.astype(np.float64) + 0.5),
        ("labels", lambda a: a + 7),
        ("subjects", lambda a: a[:, None]),
        ("subjects", lambda a: a.astype("S")),
        ("sites", lambda a: np.frombuffer(b"\xff\xff\xff\xff" * len(a), dtype="<U1")),
        ("covariates/age", lambda a: a[:3]),
        ("test_index_fold_1", lambda a: a.astype(str)),
    ],
)
def test_saved_data_with_a_part_of_another_kind_are_refused(tmp_path, name, change):
    make_study(12, 6).save(tmp_path / "study.npz")
    edit_saved(tmp_path / "study.npz", name, change)
    with pytest.raises(InputError):
        load_graphs(tmp_path / "study.npz")


def test_time_series_whose_lengths_do_not_add_up_are_refused(tmp_path):
    series = [np.random.default_rng(i).normal(size=(20, 5)) for i in range(4)]
    BrainGraphs(time_series=series).save(tmp_path / "series.npz")
    edit_saved(tmp_path / "series.npz", "time_series_lengths", lambda lengths: lengths + 1)
    with pytest.raises(InputError, match="80 time points"):
        load_graphs(tmp_path / "series.npz")


# -- GraphML -----------------------------------------------------------------------------------------------------

NODES = '<node id="1"/><node id="2"/><node id="3"/>'


def graphml(key: str, edges: str, default: str = "undirected") -> str:
    return f'<graphml>{key}<graph edgedefault="{default}">{NODES}{edges}</graph></graphml>'


EDGE = '<edge source="1" target="2"><data key="d">0.25</data></edge>'


@pytest.mark.parametrize(
    "key", ['<key id="d" attr.name="weight"/>', '<key id="d" for="all" attr.name="weight"/>'], ids=["no for", "all"]
)
def test_a_graphml_key_without_for_is_a_weight_of_edges(tmp_path, key):
    (tmp_path / "sub-1.graphml").write_text(graphml(key, EDGE))
    assert load_graphs(tmp_path).adjacency[0, 0, 1] == 0.25


@pytest.mark.parametrize(
    ("key", "edges", "fact"),
    [
        ("", EDGE, "'d'"),
        ('<key id="d" for="graph" attr.name="weight"/>', EDGE, "'d'"),
        ('<key id="d" for="node" attr.name="weight"/>', EDGE, "'d'"),
        ('<key id="d" for="edge" attr.name="weight"/>', EDGE + EDGE.replace("0.25", "0.5"), "two weights"),
        ('<key id="d" for="edge" attr.name="weight"/>', EDGE + '<edge source="1" target="3"/>', "1 - 3"),
        ('<key id="d" for="edge" attr.name="weight"/>', EDGE.replace("0.25", "2_5"), "2_5"),
    ],
)
def test_graphml_weights_that_are_not_clear_are_refused(tmp_path, key, edges, fact):
    (tmp_path / "sub-1.graphml").write_text(graphml(key, edges))
    with pytest.raises(InputError, match=rf"sub-1\.graphml.*{fact}"):
        load_graphs(tmp_path)


def test_graphml_defaults_and_single_directed_edges_are_respected(tmp_path):
    key = '<key id="d" for="edge" attr.name="weight"><default>3</default></key>'
    edges = EDGE + '<edge source="2" target="3" directed="true"/>'
    (tmp_path / "sub-1.graphml").write_text(graphml(key, edges))
    expected = [[0, 0.25, 0], [0.25, 0, 3], [0, 0, 0]]
    assert load_graphs(tmp_path).adjacency[0].tolist() == expected


def test_graphml_of_more_nodes_than_the_limit_is_refused_before_the_matrix_is_made(tmp_path):
    nodes = "".join(f'<node id="{i}"/>' for i in range(2000))
    (tmp_path / "sub-1.graphml").write_text(f"<graphml><graph>{nodes}</graph></graphml>")
    with pytest.raises(InputError, match=r"32 MB"):
        load_graphs(tmp_path, read_limit=60_000_000)


# -- MATLAB and HDF5 ---------------------------------------------------------------------------------------------


def hdf5(path: Path) -> h5py.File:
    file = h5py.File(path, "w", userblock_size=512)
    file["adjacency"] = np.random.default_rng(0).normal(size=(6, 3, 3))
    return file


def link_outside(file: h5py.File, folder: Path) -> None:
    with h5py.File(folder / "other.h5", "w") as other:
        other["labels"] = np.arange(6)
    file["labels"] = h5py.ExternalLink("other.h5", "labels")


def declare_only(file: h5py.File, folder: Path) -> None:
    file.create_dataset("labels", shape=(6,), chunks=(3,), dtype="f8", fillvalue=1.0)


def declare_too_much(file: h5py.File, folder: Path) -> None:
    file.create_dataset("labels", shape=(1 << 40,), chunks=(3,), dtype="f8")


def store_outside(file: h5py.File, folder: Path) -> None:
    file.create_dataset("labels", shape=(6,), dtype="f8", external=[(str(folder / "raw"), 0, 48)])
    (folder / "raw").write_bytes(bytes(48))


@pytest.mark.parametrize("change", [link_outside, declare_only, declare_too_much, store_outside])
def test_hdf5_that_takes_values_from_elsewhere_or_nowhere_is_refused(tmp_path, change):
    with hdf5(tmp_path / "study.mat") as file:
        change(file, tmp_path)
    with pytest.raises(InputError, match=r"study\.mat: labels"):
        load_graphs(tmp_path / "study.mat")


def test_a_matlab_variable_that_is_there_twice_is_refused(tmp_path):
    savemat(tmp_path / "a.mat", {"adjacency": np.zeros((3, 3, 4)), "labels": [0, 1, 0, 1]})
    savemat(tmp_path / "b.mat", {"labels": [1, 1, 0, 0]})
    content = (tmp_path / "a.mat").read_bytes() + (tmp_path / "b.mat").read_bytes()[128:]
    (tmp_path / "a.mat").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.mat holds the variable labels twice"):
        load_graphs(tmp_path / "a.mat")


# -- TUDataset ---------------------------------------------------------------------------------------------------


def write_tudataset(folder: Path, **files: str) -> None:
    content = {
        "A": "1,2\n2,1\n3,4\n4,3\n",
        "graph_indicator": "1\n1\n2\n2\n",
        "graph_labels": "0\n1\n",
    } | files
    for name, text in content.items():
        (folder / f"T_{name}.txt").write_text(text)


@pytest.mark.parametrize(
    ("files", "fact"),
    [
        ({"A": "1,2\n2,3\n"}, "edge 2 joins"),
        ({"A": "1,1.9\n"}, r"1\.9 in row 1"),
        ({"A": "1,2,3\n"}, "3 columns"),
        ({"A": "1,2\n1,2\n", "edge_attributes": "1\n2\n"}, "edge 1 .* another weight"),
        ({"A": "1,nan\n"}, "nan"),
        ({"A": "1,7\n"}, "does not have"),
        ({"graph_indicator": "1\n1\n3\n3\n"}, "graph_indicator"),
        ({"graph_indicator": "1\n2\n1\n2\n"}, "graph_indicator"),
        ({"node_labels": "1\n"}, "1 labels for 4 nodes"),
        ({"node_labels": "1\n2\n1\n900000000\n"}, "limit"),
        ({"graph_labels": ""}, "empty"),
    ],
)
def test_a_tudataset_that_does_not_fit_together_is_refused(tmp_path, files, fact):
    write_tudataset(tmp_path, **files)
    with pytest.raises(InputError, match=fact):
        load_graphs(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_in_place_of_a_file_is_refused(tmp_path):
    write_tudataset(tmp_path)
    (tmp_path / "T_graph_labels.txt").unlink()
    os.mkfifo(tmp_path / "T_graph_labels.txt")
    with pytest.raises(InputError, match="T_graph_labels"):
        load_graphs(tmp_path)


# -- pickled folds -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02}(K\x01K\x02\x86" + b"2\x86" * 40 + b"K\x01u.",
        b"\x80\x02]r" + struct.pack("<I", 250_000_000) + b".",
        b"\x80\x02]q\x00" + b"]q\x01(h\x00h\x00e0]q\x00(h\x01h\x01e" * 40 + b".",
    ],
    ids=["tuples", "memo", "shared lists"],
)
def test_a_pickle_bomb_is_refused(tmp_path, content):
    (tmp_path / "fold_1").write_bytes(content)
    with pytest.raises(InputError, match="fold_1"):
        load_graphs(tmp_path)


# -- text --------------------------------------------------------------------------------------------------------


def test_a_text_file_that_would_not_fit_into_memory_is_refused_before_it_is_read(tmp_path):
    with (tmp_path / "p1.csv").open("wb") as file:
        file.truncate(1 << 34)
    with pytest.raises(InputError, match=r"p1\.csv needs"):
        load_graphs(tmp_path, read_limit=2_000_000_000)


def test_a_refusal_is_one_line_of_what_can_be_seen(tmp_path):
    (tmp_path / "a\x1b[31m\n.npy").write_bytes(b"no array")
    with pytest.raises(InputError) as caught:
        load_graphs(tmp_path)
    assert str(caught.value).isprintable()
    assert len(str(InputError("x" * 10**6))) < 2000
