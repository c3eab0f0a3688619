"""Every format written from one BrainGraphs comes back equal."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.readers import load_graphs

from . import writers
from .conftest import make_study

STUDY = st.builds(
    make_study,
    n_graphs=st.integers(6, 9),
    n_nodes=st.integers(3, 7),
    dtype=st.sampled_from(["float64", "float32", "int32"]),
    seed=st.integers(0, 99),
    directed=st.booleans(),
)
UNDIRECTED = STUDY.filter(lambda data: np.array_equal(data.adjacency, data.adjacency.swapaxes(1, 2)))
quick = settings(max_examples=8, deadline=None)


def assert_same_graphs(read: BrainGraphs, data: BrainGraphs, *, same_dtype: bool = False) -> None:
    """Subjects may come in another order; their graphs and labels may not change."""
    assert sorted(read.subjects.tolist()) == sorted(data.subjects.tolist())
    order = [read.subjects.tolist().index(subject) for subject in data.subjects]
    # Text of a float32 is the shortest that names it among float32 numbers, so it is compared as one.
    assert np.array_equal(read.adjacency[order].astype(data.adjacency.dtype), data.adjacency)
    assert read.labels[order].tolist() == data.labels.tolist()
    assert read.label_names == data.label_names
    if same_dtype:
        assert read.adjacency.dtype == data.adjacency.dtype


def numbered(data: BrainGraphs) -> BrainGraphs:
    """For formats that do not name subjects."""
    return data.replace(subjects=None)


@quick
@given(STUDY, st.sampled_from([".csv", ".tsv", ".txt", ".npy", ".mat"]))
def test_folder_of_matrices(tmp_path_factory, data, suffix):
    folder = writers.write_folder(data, tmp_path_factory.mktemp("study") / "folder", suffix)
    read = load_graphs(folder, target="diagnosis", site="site", covariates=["age", "sex"])
    assert_same_graphs(read, data, same_dtype=suffix in (".npy", ".mat"))
    assert read.sites.tolist() == data.sites.tolist()
    pd.testing.assert_frame_equal(read.covariates, data.covariates)


@quick
@given(
    st.integers(2, 6), st.lists(st.integers(10, 14), min_size=3, max_size=6), st.sampled_from([".csv", ".1D", ".npy"])
)
def test_folder_of_time_series(tmp_path_factory, n_nodes, lengths, suffix):
    rng = np.random.default_rng(0)
    series = [rng.normal(size=(length, n_nodes)) for length in lengths]
    data = BrainGraphs(time_series=series, labels=[i % 2 for i in range(len(lengths))])
    folder = writers.write_folder(data, tmp_path_factory.mktemp("study") / "folder", suffix)
    read = load_graphs(folder, target="diagnosis", kind="series" if n_nodes < 4 else "auto")
    assert read.adjacency is None
    assert all(np.array_equal(a, b) for a, b in zip(read.time_series, series, strict=True))
    assert read.labels.tolist() == data.labels.tolist()


@quick
@given(STUDY)
def test_bids_derivatives(tmp_path_factory, data):
    root = tmp_path_factory.mktemp("bids")
    read = load_graphs(writers.write_xcp_d(data, root / "xcp"), target="diagnosis")
    assert_same_graphs(read, data)
    assert read.atlas.node_names == data.atlas.node_names
    assert read.atlas.name == "Toy"
    read = load_graphs(writers.write_giga_connectome(data, root / "giga"), target="diagnosis")
    assert_same_graphs(read, data)


@quick
@given(STUDY, st.booleans())
def test_npz(tmp_path_factory, data, compressed):
    path = writers.write_npz(data, tmp_path_factory.mktemp("npz") / "study.npz", compressed=compressed)
    read = load_graphs(path)
    assert_same_graphs(read, data, same_dtype=True)
    assert [fold.tolist() for fold in read.folds] == [fold.tolist() for fold in data.folds]
    assert read.sites.tolist() == data.sites.tolist()
    pd.testing.assert_frame_equal(read.covariates, data.covariates)


@pytest.mark.parametrize("write", [writers.write_mat_v5, writers.write_mat_v73])
@example(make_study(directed=True))
@quick
@given(STUDY.filter(lambda data: len(data) != data.n_nodes))  # the axis of the graphs would not be known
def test_mat(tmp_path_factory, write, data):
    read = load_graphs(write(data, tmp_path_factory.mktemp("mat") / "study.mat"))
    assert_same_graphs(read, data, same_dtype=True)


@quick
@given(UNDIRECTED)
def test_graphml(tmp_path_factory, data):
    read = load_graphs(writers.write_graphml(data, tmp_path_factory.mktemp("graphml") / "study"), target="diagnosis")
    assert_same_graphs(read, data)
    assert list(read.handled) == ["files read as adjacency matrices (all are square)"]


@quick
@given(STUDY)
def test_tudataset(tmp_path_factory, data):
    data = numbered(data).replace(labels=np.arange(len(data)) % 2)
    read = load_graphs(writers.write_tudataset(data, tmp_path_factory.mktemp("tu") / "TOY"))
    assert_same_graphs(read, data)


@quick
@given(STUDY)
def test_geometric_lists_by_duck_typing(data):
    assert_same_graphs(load_graphs(writers.as_geometric(data)), numbered(data), same_dtype=True)


def test_real_geometric_data(study):
    torch = pytest.importorskip("torch")
    pyg_data = pytest.importorskip("torch_geometric.data")
    items = [
        pyg_data.Data(
            edge_index=torch.from_numpy(item.edge_index),
            edge_attr=torch.from_numpy(item.edge_attr.copy()).requires_grad_(),
            num_nodes=item.num_nodes,
            y=None if item.y is None else torch.from_numpy(item.y),
        )
        for item in writers.as_geometric(study)
    ]
    assert_same_graphs(load_graphs(items), numbered(study))


@quick
@given(STUDY, st.integers(2, 5))
def test_pickled_folds(tmp_path_factory, data, protocol):
    data = numbered(data).replace(labels=np.arange(len(data)) % 2)
    read = load_graphs(writers.write_folds(data, tmp_path_factory.mktemp("folds") / "HIV", protocol))
    assert_same_graphs(read, data, same_dtype=True)
    assert [fold.tolist() for fold in read.folds] == [fold.tolist() for fold in data.folds]


@pytest.mark.parametrize("write", ["folder", "npz"])
def test_converting_twice_changes_nothing(tmp_path, study, write):
    source = (
        writers.write_folder(study, tmp_path / "study", ".csv")
        if write == "folder"
        else writers.write_npz(study, tmp_path / "study.npz")
    )
    target = "diagnosis" if write == "folder" else None
    once = load_graphs(source, target=target)
    once.save(tmp_path / "once.npz")
    assert load_graphs(tmp_path / "once.npz").digest() == once.digest()
