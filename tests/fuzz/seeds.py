"""A small valid example of everything that is read, made by code: what damage starts from."""

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from scipy.io import savemat

from isocapsnet.datasets.graphs import BrainGraphs
from tests.datasets import writers
from tests.datasets.conftest import make_study

_LOADING = ("load_graphs",) * 7 + ("examine_graphs",) * 2 + ("data check",)


@dataclass(frozen=True)
class Seed:
    """A folder of valid files and how somebody would read it.

    ``source`` is the file that is read, empty for the folder itself; ``targets`` are the files that are damaged (all
    where empty). ``is_sealed``: checksums over all content, so that damage which leaves them alone cannot go unnoticed.
    """

    files: Mapping[str, bytes]
    source: str = ""
    options: tuple[dict[str, Any], ...] = ({},)
    targets: tuple[str, ...] = ()
    ways: tuple[str, ...] = _LOADING
    is_sealed: bool = False


@dataclass
class _Collector:
    """Runs writers in a folder of their own and keeps what they left there."""

    seeds: list[Seed] = field(default_factory=list)

    def add(self, write: Callable[[Path], object], source: str = "", **how: Any) -> None:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "given"
            if source:
                folder.mkdir()
            write(folder)
            files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
        self.seeds.append(Seed(files, source, **how))


def _study(**changes: Any) -> BrainGraphs:
    return make_study(**{"n_graphs": 6, "n_nodes": 5} | changes)


def _large_study() -> BrainGraphs:
    """More than a megabyte, which is where arrays are mapped instead of read."""
    return _study(n_graphs=8, n_nodes=130).replace(covariates=None)


def _series() -> BrainGraphs:
    rng = np.random.default_rng(3)
    study = _study()
    return study.replace(adjacency=None, time_series=[rng.normal(size=(12 + i % 2, 5)).round(3) for i in range(6)])


_STACKED = (
    {}, {}, {"target": "labels"}, {"target": "sex"}, {"covariates": ["age"]}, {"site": "sites"}, {"atlas": "aal90"},
    {"exclude": ["1007"]}, {"target": "nothing"},
)  # fmt: skip
_TABLED = (
    {}, {"target": "diagnosis"}, {"target": "diagnosis"}, {"target": "diagnosis", "site": "site"},
    {"covariates": ["age", "sex"]}, {"target": "sex", "exclude": ["1007"]}, {"kind": "series"},
    {"kind": "graphs", "target": "diagnosis"}, {"target": "@subject"}, {"select": ["10"]}, {"atlas": "dk82"},
    {"n_nodes": 5}, {"kind": "edges"}, {"n_nodes": 10**6},
)  # fmt: skip
_EDGES = (
    {"n_nodes": 5, "index_base": 0}, {"n_nodes": 5, "index_base": 0, "target": "diagnosis"}, {"n_nodes": 5}, {},
    {"kind": "edges"}, {"kind": "graphs"}, {"kind": "series"}, {"index_base": 1}, {"directed": True},
    {"directed": False}, {"n_nodes": 4}, {"n_nodes": 1_000_000},
    {"kind": "edges", "n_nodes": 50_000, "target": "diagnosis"},
)  # fmt: skip
_PLAIN = ({}, {}, {"exclude": ["1"]}, {"atlas": "aal90"}, {"kind": "graphs"}, {"target": "diagnosis"})


def npz() -> list[Seed]:
    made = _Collector()
    how: dict[str, Any] = {"options": _STACKED, "is_sealed": True}
    made.add(lambda f: writers.write_npz(_study(), f / "x.npz"), "x.npz", **how)
    made.add(lambda f: writers.write_npz(_study(), f / "x.npz", compressed=True), "x.npz", **how)
    made.add(lambda f: _write_named(f / "x.npz"), "x.npz", **how)
    made.add(lambda f: writers.write_npz(_large_study(), f / "x.npz"), "x.npz", **how)
    return made.seeds


def _write_named(path: Path) -> None:
    """With names and coordinates of nodes, numbers as labels, texts as bytes."""
    names = np.array([f"region {i}" for i in range(5)])
    graphs = np.asarray(_study(dtype="float32").adjacency)
    text = np.array([b"a", b"b"] * 3)
    np.savez(path, adjacency=graphs, y=np.arange(6) % 2, node_names=names, coordinates=np.zeros((5, 3)), group=text)


def saved() -> list[Seed]:
    made = _Collector()
    covariates = [
        {},
        {},
        {"target": "sex"},
        {"covariates": ["age"]},
        {"site": "sex"},
        {"exclude": ["1007"]},
        {"atlas": "aal90"},
    ]
    for data in (_study(), _study(dtype="int16"), _series(), _large_study()):
        options = covariates if data.covariates is not None else [{}, {"exclude": ["1007"]}]
        for ways in (_LOADING, ("BrainGraphs.load",)):
            how = {"options": tuple(options) if ways is _LOADING else ({},), "ways": ways, "is_sealed": True}
            made.add(lambda f, data=data: data.save(f / "x.npz"), "x.npz", **how)
    return made.seeds


def npy() -> list[Seed]:
    made = _Collector()
    for data in (_study(), _study(dtype="float32", directed=True), _series()):
        targets = tuple(f"{subject}.npy" for subject in data.subjects)
        made.add(lambda f, data=data: writers.write_folder(data, f, ".npy"), options=_TABLED, targets=targets)
    return made.seeds


def text() -> list[Seed]:
    made = _Collector()
    for suffix in (".csv", ".tsv", ".txt"):
        targets = tuple(f"{subject}{suffix}" for subject in _study().subjects)
        made.add(lambda f, s=suffix: writers.write_folder(_study(), f, s), options=_TABLED, targets=targets)
    targets = tuple(f"{subject}.1D" for subject in _study().subjects)
    made.add(lambda f: writers.write_folder(_series(), f, ".1D"), options=_TABLED, targets=targets)
    made.add(lambda f: writers.write_xcp_d(_study(), f), options=_TABLED)
    made.add(lambda f: writers.write_giga_connectome(_study(), f), options=_TABLED)
    for header, suffix in (("source,target,weight\n", ".csv"), ("", ".txt")):
        targets = tuple(f"{subject}{suffix}" for subject in _study().subjects)
        made.add(lambda f, h=header, s=suffix: _write_edge_lists(f, h, s), options=_EDGES, targets=targets)
    return made.seeds


def _write_edge_lists(folder: Path, header: str, suffix: str) -> None:
    data, separator = _study(), "," if header else " "
    folder.mkdir()
    for subject, graph in zip(data.subjects, np.asarray(data.adjacency), strict=True):
        rows = [separator.join((str(i), str(j), repr(float(graph[i, j])))) for i, j in np.argwhere(np.triu(graph))]
        (folder / f"{subject}{suffix}").write_text(header + "\n".join(rows) + "\n")
    writers.write_participants(data, folder / "participants.tsv", prefix="")


def mat5() -> list[Seed]:
    made = _Collector()
    made.add(lambda f: _undated(writers.write_mat_v5(_study(), f / "x.mat")), "x.mat", options=_STACKED)
    made.add(lambda f: _write_mat(f / "x.mat"), "x.mat", options=_STACKED)
    targets = tuple(f"{subject}.mat" for subject in _study().subjects)
    made.add(lambda f: _undated(writers.write_folder(_study(), f, ".mat")), options=_TABLED, targets=targets)
    return made.seeds


def _write_mat(path: Path) -> None:
    """Compressed, with a struct, a sparse matrix, numbers as labels and an array of characters."""
    from scipy.sparse import eye

    content = {
        "adjacency": np.moveaxis(np.asarray(_study().adjacency), 0, 2),
        "labels": np.arange(6)[None] % 2,
        "info": {"task": "rest", "n": 6.0},
        "sparse": eye(5).tocsc(),
        "node_names": np.array([f"region{i}" for i in range(5)]),
        "mask": np.eye(5, dtype=bool),
    }
    savemat(path, content, do_compression=True)
    _undated(path)


def _undated(path: Path) -> None:
    """Without the time that scipy writes into each file, which would make every run another one."""
    for file in path.glob("*.mat") if path.is_dir() else [path]:
        file.write_bytes(b"MATLAB 5.0 MAT-file".ljust(116) + file.read_bytes()[116:])


def mat73() -> list[Seed]:
    made = _Collector()
    made.add(lambda f: writers.write_mat_v73(_study(), f / "x.mat"), "x.mat", options=_STACKED)
    made.add(lambda f: _write_matlab_folder(f), options=_TABLED, targets=tuple(f"{s}.mat" for s in _study().subjects))
    return made.seeds


def _write_matlab_folder(folder: Path) -> None:
    """One file per subject, as ``save -v7.3`` writes it, characters and flags included."""
    data = _study()
    folder.mkdir()
    for subject, graph in zip(data.subjects, np.asarray(data.adjacency), strict=True):
        with h5py.File(folder / f"{subject}.mat", "w", userblock_size=512) as file:
            file.create_dataset("matrix", data=graph).attrs["MATLAB_class"] = np.bytes_("double")
            codes = np.array([[ord(c)] for c in "rest"], dtype=np.uint16)
            file.create_dataset("task", data=codes).attrs["MATLAB_class"] = np.bytes_("char")
    writers.write_participants(data, folder / "participants.tsv", prefix="")


def hdf5() -> list[Seed]:
    made = _Collector()
    made.add(lambda f: _write_hdf5(f / "x.mat"), "x.mat", options=_STACKED)
    made.add(
        lambda f: _write_hdf5(f / "x.mat", chunks=(5, 5, 2), compression="gzip", fletcher32=True),
        "x.mat",
        options=_STACKED,
    )
    made.add(lambda f: _write_hdf5(f / "x.mat", libver="latest"), "x.mat", options=_STACKED)
    return made.seeds


def _write_hdf5(path: Path, libver: str | None = None, **storage: Any) -> None:
    data = _study()
    with h5py.File(path, "w", libver=libver) as file:
        file.create_dataset("adjacency", data=np.moveaxis(np.asarray(data.adjacency), 0, 2), **storage)
        file.create_dataset("labels", data=np.arange(6) % 2)
        file.create_dataset("sex", data=np.array([b"f", b"m"] * 3))
        file.create_dataset("names", data=["a", "b"], dtype=h5py.string_dtype())
        file.create_group("more").create_dataset("age", data=np.arange(6.0))


def graphml() -> list[Seed]:
    made = _Collector()
    targets = tuple(f"sub-{subject}.graphml" for subject in _study().subjects)
    made.add(lambda f: writers.write_graphml(_study(), f), options=_TABLED, targets=targets)
    return made.seeds


def tudataset() -> list[Seed]:
    made = _Collector()
    data = _study()
    made.add(lambda f: writers.write_tudataset(data.subset(data.is_labelled), f), options=_PLAIN)
    return made.seeds


def pickles() -> list[Seed]:
    made = _Collector()
    for protocol in (0, 2, 4, 5):
        made.add(lambda f, p=protocol: writers.write_folds(_study(n_nodes=3), f, p), options=_PLAIN)
    return made.seeds


def participants() -> list[Seed]:
    made = _Collector()
    data = _study(n_nodes=3)
    for suffix, separator in ((".tsv", "\t"), (".csv", ","), (".csv", ";")):
        table = f"participants{suffix}"

        def write(folder: Path, table: str = table, separator: str = separator) -> None:
            writers.write_folder(data, folder, ".npy")
            (folder / "participants.tsv").unlink()
            writers.write_participants(data, folder / table, prefix="", sep=separator)

        made.add(write, options=(*_TABLED, {"participants": table, "target": "diagnosis"}), targets=(table,))

    def write_bids(folder: Path) -> None:
        writers.write_giga_connectome(data, folder)
        (folder / "dataset_description.json").write_text(json.dumps({"Name": "toy"}))

    made.add(write_bids, options=_TABLED, targets=("participants.tsv",))
    return made.seeds
