"""What a file is taken for: nothing is silently a time series that may be something else."""

import numpy as np
import pytest
from click.testing import CliRunner

from isocapsnet._validation import InputError
from isocapsnet.cli import main
from isocapsnet.datasets.readers import examine_graphs, load_graphs

RNG = np.random.default_rng(0)


def write(folder, arrays, suffix="_signal.csv", header=None):
    folder.mkdir()
    for number, array in enumerate(arrays):
        rows = [",".join(f"{value:.10g}" for value in row) for row in np.asarray(array).tolist()]
        (folder / f"s{number}{suffix}").write_text("\n".join([*filter(None, [header]), *rows]) + "\n")
    return folder


def series(n_columns, n_rows=20, n_files=3):
    return [RNG.normal(size=(n_rows, n_columns)) for _ in range(n_files)]


def edge_rows(*more):
    """Rows of source, target, weight and more."""
    pairs = np.array([(i, j) for i in range(6) for j in range(i + 1, 6)])
    return [np.column_stack([pairs, RNG.normal(size=(len(pairs), 1 + len(more)))]) for _ in range(3)]


def test_edge_lists_are_no_time_series(tmp_path):
    data = load_graphs(write(tmp_path / "s", edge_rows()))
    assert data.time_series is None
    assert data.adjacency.shape == (3, 6, 6)
    result = CliRunner().invoke(main, ["data", "check", str(tmp_path / "s")])
    assert "edge lists" in result.output


@pytest.mark.parametrize("n_columns", [1, 2, 3])
def test_few_columns_are_time_series_only_when_asked(tmp_path, n_columns):
    folder = write(tmp_path / "s", series(n_columns))
    with pytest.raises(InputError, match='kind="series"'):
        load_graphs(folder)
    assert load_graphs(folder, kind="series").time_series[0].shape == (20, n_columns)


def test_names_may_say_that_few_columns_are_time_series_but_not_that_edges_are(tmp_path):
    data, findings = examine_graphs(write(tmp_path / "s", series(3), "_timeseries.csv"))
    assert data.n_nodes == 3
    assert any("3 files" in sentence and "by name" in sentence for sentence in findings.warnings)
    with pytest.raises(InputError, match=r"s0_timeseries\.csv.*edge list"):
        load_graphs(write(tmp_path / "e", edge_rows(), "_timeseries.csv"))


@pytest.mark.parametrize(
    ("arrays", "header"),
    [
        (edge_rows("p"), None),
        (edge_rows("p", "q"), "source,target,weight,p,q"),
        ([np.column_stack([np.arange(1, 21), one]) for one in series(4)], None),
        ([np.column_stack([one, np.arange(20)]) for one in series(4)], None),
    ],
    ids=["edges with two values", "edges with a header", "numbered rows", "numbers in the last column"],
)
def test_columns_that_enumerate_nodes_are_no_signals(tmp_path, arrays, header):
    with pytest.raises(InputError, match=r"s0_signal\.csv"):
        load_graphs(write(tmp_path / "s", arrays, header=header))


def test_tables_of_nodes_are_no_time_series(tmp_path):
    folder = tmp_path / "s"
    folder.mkdir()
    for number, values in enumerate(series(5, n_rows=30)):
        rows = [f"region{i}," + ",".join(map(str, row)) for i, row in enumerate(values.tolist())]
        (folder / f"s{number}.csv").write_text("\n".join(["name,degree,strength,x,y,z", *rows]))
    with pytest.raises(InputError, match=r"s0\.csv.*names its rows"):
        load_graphs(folder)


def test_arrays_of_any_numbers_are_judged(tmp_path):
    for dtype in (bool, "uint8", "float16", "int64"):
        folder = tmp_path / np.dtype(dtype).name
        folder.mkdir()
        np.save(folder / "a.npy", (RNG.random((20, 5)) < 0.5).astype(dtype))
        with pytest.raises(InputError, match="whole numbers"):
            load_graphs(folder)


def test_ten_time_points_are_the_fewest(tmp_path):
    assert load_graphs(write(tmp_path / "a", series(5, 10))).time_series[0].shape == (10, 5)
    for kind in ("auto", "series"):
        with pytest.raises(InputError, match=r"s0_signal\.csv has 9 time points; at least 10"):
            load_graphs(write(tmp_path / kind, series(5, 9)), kind=kind)


def test_fewer_time_points_than_nodes_are_worth_a_warning(tmp_path):
    _, findings = examine_graphs(write(tmp_path / "s", series(30, 12)))
    assert any("fewer time points than nodes" in sentence for sentence in findings.warnings)


def test_matrices_and_edge_lists_in_one_folder_are_refused_naming_both(tmp_path):
    matrices = [one + one.T for one in RNG.normal(size=(3, 6, 6))]
    folder = write(tmp_path / "s", [*matrices, edge_rows()[0]])
    with pytest.raises(InputError, match=r"s3_signal\.csv is an edge list.*s0_signal\.csv"):
        load_graphs(folder)
    folder = write(tmp_path / "t", [*edge_rows(), matrices[0]])
    with pytest.raises(InputError, match=r"s3_signal\.csv is a square matrix.*s0_signal\.csv"):
        load_graphs(folder)


def test_files_that_may_be_matrices_or_edge_lists_are_refused_unless_asked(tmp_path):
    folder = write(tmp_path / "s", [[[0, 1, 1], [0, 2, 2], [1, 2, 1]], [[0, 1, 5], [0, 2, 1], [2, 3, 1]]])
    with pytest.raises(InputError, match='kind="graphs" or kind="edges"'):
        load_graphs(folder)
    assert load_graphs(folder, kind="edges").adjacency[0].tolist() == [
        [0, 1, 2, 0],
        [1, 0, 1, 0],
        [2, 1, 0, 0],
        [0] * 4,
    ]
    assert load_graphs(folder, kind="graphs").adjacency[0].tolist() == [[0, 1, 1], [0, 2, 2], [1, 2, 1]]


@pytest.mark.parametrize(
    ("files", "what"),
    [("matrices", "adjacency matrices"), ("lists", "edge lists"), ("series", "time series")],
)
def test_what_files_were_taken_for_is_on_record(tmp_path, files, what):
    arrays = {
        "matrices": [one + one.T for one in RNG.normal(size=(3, 6, 6))],
        "lists": edge_rows(),
        "series": series(5),
    }
    data = load_graphs(write(tmp_path / "s", arrays[files]))
    assert [where for key, where in data.passport["handled"].items() if key.startswith(f"files read as {what}")]


def test_options_for_edge_lists_are_refused_for_other_files(tmp_path):
    folder = write(tmp_path / "s", [one + one.T for one in RNG.normal(size=(3, 6, 6))])
    for options in ({"index_base": 0}, {"directed": False}, {"kind": "edges"}, {"index_base": 0, "kind": "graphs"}):
        with pytest.raises(InputError):
            load_graphs(folder, **options)
    with pytest.raises(InputError, match="6 nodes, but 7"):
        load_graphs(folder, n_nodes=7)


def test_triangles_are_mirrored_unless_the_study_has_a_direction(tmp_path):
    full = RNG.normal(size=(4, 5, 5))
    symmetric = full + full.swapaxes(1, 2)
    mixed = [np.triu(symmetric[0]), *symmetric[1:]]
    assert np.array_equal(load_graphs(write(tmp_path / "a", np.round(mixed, 3))).adjacency, np.round(symmetric, 3))
    directed = np.round([np.triu(full[0]), *full[1:]], 3)
    data = load_graphs(write(tmp_path / "b", directed))
    assert np.array_equal(data.adjacency, directed)
    assert data.handled["triangular matrix kept, because other graphs have a direction"] == ("s0_signal.csv",)
    np.savez(tmp_path / "c.npz", adjacency=directed)
    assert np.array_equal(load_graphs(tmp_path / "c.npz").adjacency, directed)
    np.savez(tmp_path / "d.npz", adjacency=np.round(mixed, 3))
    assert np.array_equal(load_graphs(tmp_path / "d.npz").adjacency, np.round(symmetric, 3))


def test_triangles_are_told_in_the_order_of_their_own_file(tmp_path):
    """Files that name their nodes in different orders: what is a triangle in a file is none in the common order."""
    full = np.round(RNG.normal(size=(4, 4)), 3)
    graph = full + full.T
    for number, order in enumerate(([0, 1, 2, 3], [3, 0, 2, 1], [2, 1, 3, 0])):
        rows = np.triu(graph[np.ix_(order, order)])
        names = [f"region{i}" for i in order]
        lines = [",".join([name, *map(str, row)]) for name, row in zip(names, rows.tolist(), strict=True)]
        (tmp_path / f"{number}.csv").write_text("\n".join([",".join(["", *names]), *lines]))
    assert np.array_equal(load_graphs(tmp_path).adjacency, np.stack([graph] * 3))
