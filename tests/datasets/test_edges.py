"""Edge lists, one file per subject, give the graphs that the matrices give, or are refused."""

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from isocapsnet._validation import InputError
from isocapsnet.cli import main
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.readers import examine_graphs, load_graphs

from . import writers

NAMES = [f"area {letter}{number}" for letter in "ba" for number in (10, 2, 1)]


def sparse_study(n_graphs=8, n_nodes=6, seed=0, *, binary=False, directed=False, loops=False):
    """Sparse graphs, the first complete, so that every node has an edge in some subject."""
    rng = np.random.default_rng(seed)
    graphs = rng.normal(size=(n_graphs, n_nodes, n_nodes)).round(3) * (rng.random((n_graphs, n_nodes, n_nodes)) < 0.4)
    graphs[0] = rng.normal(size=(n_nodes, n_nodes)).round(3) + 5
    graphs[:, 0, 1] = 1.5
    graphs = graphs if directed else np.triu(graphs) + np.triu(graphs, 1).swapaxes(1, 2)
    if not loops:
        graphs[:, range(n_nodes), range(n_nodes)] = 0
    return BrainGraphs((graphs != 0).astype(float) if binary else graphs, [i % 2 for i in range(n_graphs)])


def write(folder, *texts, names=None):
    """Files 1.csv, 2.csv..."""
    folder.mkdir(exist_ok=True)
    for number, text in enumerate(texts, start=1):
        (folder / f"{number}{(names or ['.csv'] * 9)[number - 1]}").write_text(text)
    return folder


WRITINGS = {
    "from 0": {},
    "from 1": {"base": 1},
    "both directions": {"both": True},
    "shuffled": {"order": lambda lines: list(np.random.default_rng(1).permutation(lines))},
    "lower triangle": {"order": lambda lines: [",".join([b, a, *w]) for a, b, *w in (x.split(",") for x in lines)]},
    "tabs": {"separator": "\t", "suffix": ".tsv"},
    "blanks": {"separator": "  ", "suffix": ".txt"},
    "semicolons": {"separator": ";"},
    "header": {"header": "source,target,weight"},
    "other header": {"header": "Region 1,Region 2,r"},
    "edges": {"separator": " ", "suffix": ".edges"},
    "edgelist": {"separator": "\t", "suffix": ".edgelist", "header": "from\tto\tcount"},
    "comments": {"header": "# exported by a tool"},
    "repeated": {"order": lambda lines: [*lines, *lines[:3]]},
    "savetxt": {
        "order": lambda lines: [" ".join(f"{float(cell):.18e}" for cell in line.split(",")) for line in lines],
        "suffix": ".txt",
    },
    "pandas": {
        "header": ",source,target,weight",
        "order": lambda lines: [f"{row},{line}" for row, line in enumerate(lines)],
    },
}


@pytest.mark.parametrize("writing", WRITINGS)
def test_edge_lists_give_the_graphs_of_the_matrices(tmp_path, writing):
    data = sparse_study()
    expected = load_graphs(writers.write_folder(data, tmp_path / "matrices", ".csv"), target="diagnosis")
    read = load_graphs(writers.write_edge_lists(data, tmp_path / "lists", **WRITINGS[writing]), target="diagnosis")
    assert read.digest() == expected.digest()
    assert any("edge lists" in what for what in read.handled)


@settings(max_examples=15, deadline=None)
@given(st.integers(4, 9), st.integers(0, 99), st.booleans(), st.booleans(), st.sampled_from([0, 1]))
def test_graphs_come_back_exactly(tmp_path_factory, n_nodes, seed, directed, loops, base):
    data = sparse_study(4, n_nodes, seed, directed=directed, loops=loops)
    folder = writers.write_edge_lists(data, tmp_path_factory.mktemp("s") / "lists", base=base, both=directed)
    read = load_graphs(folder, n_nodes=n_nodes)
    assert np.array_equal(read.adjacency, data.adjacency)


def test_real_sparse_graphs(tmp_path, real_data):
    """85 x 190 binary graphs with empty rows, as matrices and as three kinds of edge lists."""
    data = load_graphs("peking-1").replace(subjects=[f"{i:03}" for i in range(85)])
    expected = load_graphs(writers.write_folder(data, tmp_path / "matrices", ".csv"), target="diagnosis")
    for number, writing in enumerate(
        ({}, {"base": 1, "both": True}, {"base": 1, "weighted": False, "suffix": ".edges"})
    ):
        folder = writers.write_edge_lists(data, tmp_path / f"lists{number}", **writing)
        assert load_graphs(folder, target="diagnosis").digest() == expected.digest()
    kept = data.adjacency.copy()
    kept[:, 189] = kept[:, :, 189] = 0
    folder = writers.write_edge_lists(data.replace(adjacency=kept), tmp_path / "without the last")
    assert load_graphs(folder).n_nodes == 189
    assert np.array_equal(load_graphs(folder, n_nodes=190).adjacency, kept)


# -- nodes ------------------------------------------------------------------------------------------------------


def test_named_nodes_are_sorted_naturally(tmp_path):
    data = sparse_study()
    order = [5, 4, 3, 2, 1, 0]  # area a1, a2, a10, b1, b2, b10
    read = load_graphs(writers.write_edge_lists(data, tmp_path / "lists", nodes=NAMES))
    assert read.atlas.node_names == tuple(NAMES[i] for i in order)
    assert np.array_equal(read.adjacency, data.adjacency[:, order][:, :, order])


def test_codes_of_an_atlas_are_names(tmp_path):
    data, codes = sparse_study(), ["2001", "2002", "2101", "2102", "9001", "9170"]
    read = load_graphs(writers.write_edge_lists(data, tmp_path / "lists", nodes=codes))
    assert read.atlas.node_names == tuple(codes)
    assert np.array_equal(read.adjacency, data.adjacency)


def test_an_atlas_gives_names_their_order_and_their_number(tmp_path):
    from isocapsnet.datasets.atlas import load_atlas

    names = list(load_atlas("aal90").node_names)
    folder = write(tmp_path / "s", f"{names[3]},{names[1]},2\n{names[1]},{names[80]},3\n", f"{names[1]},{names[5]},1\n")
    read = load_graphs(folder, atlas="aal90", directed=False)
    assert read.adjacency.shape == (2, 90, 90)
    assert np.argwhere(np.triu(read.adjacency[0])).tolist() == [[1, 3], [1, 80]]
    (folder / "2.csv").write_text("Elsewhere,Nowhere,1\n")
    with pytest.raises(InputError, match=r"2.csv.*(Elsewhere|Nowhere)"):
        load_graphs(folder, atlas="aal90", directed=False)


EDGES = "1,2,.5\n2,3,.25\n1,3,.125\n3,4,1\n2,4,7\n"


@pytest.mark.parametrize(
    ("options", "shape", "first"),
    [
        ({}, 4, [0, 1]),
        ({"n_nodes": 4}, 4, [0, 1]),
        ({"index_base": 1}, 4, [0, 1]),
        ({"index_base": 0}, 5, [1, 2]),
        ({"index_base": 0, "n_nodes": 7}, 7, [1, 2]),
        ({"index_base": 1, "n_nodes": 6}, 6, [0, 1]),
    ],
)
def test_the_base_and_the_number_of_nodes(tmp_path, options, shape, first):
    read = load_graphs(write(tmp_path / "s", EDGES, EDGES), **options)
    assert read.adjacency.shape == (2, shape, shape)
    assert np.argwhere(np.triu(read.adjacency[0])).tolist()[0] == first
    assert any(f"{shape} nodes" in what for what in read.handled)


def test_a_single_0_makes_all_files_count_from_0(tmp_path):
    read = load_graphs(write(tmp_path / "s", EDGES, "0,1,1\n0,4,1\n"))
    assert np.argwhere(np.triu(read.adjacency[0])).tolist() == [[1, 2], [1, 3], [2, 3], [2, 4], [3, 4]]
    assert np.argwhere(np.triu(read.adjacency[1])).tolist() == [[0, 1], [0, 4]]


@pytest.mark.parametrize(
    ("texts", "options", "fact"),
    [
        ((EDGES,), {"n_nodes": 5}, "index_base="),
        ((EDGES.replace("1,", "5,"),), {}, "index_base="),
        ((EDGES,), {"n_nodes": 3}, "index_base="),
        ((EDGES + "0,1,1\n",), {"n_nodes": 4}, "node 4"),
        ((EDGES + "0,1,1\n",), {"index_base": 1}, "node 0"),
        ((EDGES,), {"index_base": 1, "n_nodes": 3}, "1.csv has the node 4"),
        ((EDGES + "1,40,1\n",), {}, "n_nodes="),
        ((EDGES + "1,100000,1\n",), {"n_nodes": 100_000}, "too large"),
        (("a,b,1\nb,c,1\na,c,1\n",), {"index_base": 0}, "index_base="),
        (("a,b,1\nb,c,1\na,c,1\n",), {"n_nodes": 5}, "n_nodes="),
    ],
)
def test_nodes_that_stay_open_are_refused(tmp_path, texts, options, fact):
    with pytest.raises(InputError, match=fact):
        load_graphs(write(tmp_path / "s", *texts), **options)


# -- direction, repetitions, loops ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "options", "edges", "is_directed"),
    [
        (("0,1,1\n1,2,3\n", "0,2,1\n"), {}, [[0, 1], [1, 2]], False),
        (("1,0,1\n2,1,3\n", "2,0,1\n"), {}, [[0, 1], [1, 2]], False),
        (("0,1,1\n1,2,3\n1,0,1\n2,1,3\n",), {}, [[0, 1], [1, 2]], False),
        (("0,1,1\n1,2,3\n1,0,2\n0,3,1\n",), {}, [[0, 1], [0, 3], [1, 0], [1, 2]], True),
        (("0,1,1\n1,2,3\n", "1,0,2\n0,1,3\n"), {}, [[0, 1], [1, 2]], True),
        (("0,1,1\n1,2,3\n",), {"directed": True}, [[0, 1], [1, 2]], True),
        (("0,1,1\n2,1,3\n",), {"directed": False}, [[0, 1], [1, 2]], False),
        (("0,1,1\n2,1,3\n1,0,1\n",), {"directed": False}, [[0, 1], [1, 2]], False),
    ],
)
def test_direction(tmp_path, texts, options, edges, is_directed):
    read = load_graphs(write(tmp_path / "s", *texts), **options)
    graph = read.adjacency[0]
    assert np.argwhere(graph if is_directed else np.triu(graph)).tolist() == edges
    assert any(what.startswith(f"edge lists: {'directed' if is_directed else 'undirected'}") for what in read.handled)
    if not is_directed:
        assert np.array_equal(graph, graph.T)


@pytest.mark.parametrize(
    ("texts", "options"),
    [
        (("0,1,1\n2,1,3\n",), {}),
        (("0,1\n1,0\n1,2\n",), {}),
        (("0,1,1\n1,0,1\n1,2,1\n2,1,1\n", "0,1,1\n1,2,1\n"), {}),
        (("a,b,1\nb,c,1\nc,a,1\n",), {}),
        (("0,1,1\n1,2,3\n1,0,2\n",), {"directed": False}),
    ],
    ids=["both triangles", "some in both directions", "files differ", "a circle of names", "two weights"],
)
def test_directions_that_stay_open_are_refused(tmp_path, texts, options):
    with pytest.raises(InputError, match=r"1\.csv"):
        load_graphs(write(tmp_path / "s", *texts), **options)


def test_pairs_of_names_in_one_order_are_undirected_with_a_warning(tmp_path):
    folder = write(tmp_path / "s", "z,b,1\nb,a,2\n", "z,a,3\n")
    data, findings = examine_graphs(folder)
    assert np.array_equal(data.adjacency, data.adjacency.swapaxes(1, 2))
    assert any("directed=" in sentence for sentence in findings.warnings)


def test_repeated_edges_with_two_weights_are_refused_by_line(tmp_path):
    with pytest.raises(InputError, match=r"2.csv.*1 in line 2 and 5 in line 4"):
        load_graphs(write(tmp_path / "s", EDGES, "# two weights\n1,2,1\n2,3,1\n1,2,5\n"))


def test_loops_stay_on_the_diagonal_and_isolated_nodes_on_record(tmp_path):
    read = load_graphs(write(tmp_path / "s", "0,1,1\n1,2,2\n1,1,7\n", "0,1,1\n"), n_nodes=4)
    assert np.diag(read.adjacency[0]).tolist() == [0, 7, 0, 0]
    assert read.handled["edge lists: edges of nodes to themselves kept on the diagonal"] == ("1.csv",)
    assert read.handled["edge lists: nodes without an edge in any file (node 3)"] == ("1 node",)


def test_a_subject_without_edges_has_a_header_alone(tmp_path):
    read = load_graphs(write(tmp_path / "s", "source,target,weight\n", f"source,target,weight\n{EDGES}"))
    assert read.adjacency.any(axis=(1, 2)).tolist() == [False, True]
    with pytest.raises(InputError, match=r"1\.csv is empty"):
        load_graphs(write(tmp_path / "t", "", EDGES))
    with pytest.raises(InputError, match="no edges"):
        load_graphs(write(tmp_path / "u", "source,target\n"))


@pytest.mark.parametrize("weight", ["", "n/a", "inf"])
def test_weights_that_are_missing_are_refused_by_line(tmp_path, weight):
    with pytest.raises(InputError, match=r"1.csv.*line 2"):
        load_graphs(write(tmp_path / "s", f"0,1,1\n1,2,{weight}\n0,2,1\n2,3,1\n"))


def test_arrays_of_edges(tmp_path):
    for number, rows in enumerate(([[0, 1, 0.5], [1, 2, 3]], [[0, 1, 1], [0, 2, 2], [1, 2, 3], [2, 3, 1]])):
        np.save(tmp_path / f"{number}.npy", np.array(rows))
    read = load_graphs(tmp_path)
    assert read.adjacency.shape == (2, 4, 4)
    assert read.adjacency[0, 2, 1] == 3


# -- fitted models ----------------------------------------------------------------------------------------------


def invoke(*arguments):
    return CliRunner().invoke(main, [*map(str, arguments)])


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("nodes", [None, NAMES], ids=["numbers", "names"])
def test_a_model_knows_nodes_and_direction_of_a_single_sparse_subject(tmp_path, nodes, directed):
    data = sparse_study(20, seed=3, directed=directed)
    graphs = data.adjacency.copy()
    graphs[1:6] = np.triu(graphs[1:6]) if directed else graphs[1:6]  # one triangle, and yet with a direction
    data = data.replace(adjacency=graphs)
    folder = writers.write_edge_lists(data, tmp_path / "lists", nodes=nodes, base=1, both=directed)
    model, out = tmp_path / "m.safetensors", tmp_path / "p.csv"
    assert invoke("fit", folder, "--target", "diagnosis", "--method", "linear", "--out", model).exit_code == 0
    assert invoke("predict", model, folder, "--out", out).exit_code == 0
    expected = dict(line.split(",", 1) for line in out.read_text().splitlines())
    for subject in data.subjects[1:6]:
        single = tmp_path / f"single{subject}"
        single.mkdir()
        (single / f"sub-{subject}.csv").write_bytes((folder / f"sub-{subject}.csv").read_bytes())
        result = invoke("predict", model, single, "--out", out)
        assert result.exit_code == 0, result.output
        predicted = dict(line.split(",", 1) for line in out.read_text().splitlines())
        assert predicted[f"sub-{subject}"] == expected[f"sub-{subject}"]


def test_a_model_of_matrices_gives_edge_lists_their_number_of_nodes(tmp_path):
    data = sparse_study(20, seed=3)
    data.save(tmp_path / "study.npz")
    model, out = tmp_path / "m.safetensors", tmp_path / "p.csv"
    assert invoke("fit", tmp_path / "study.npz", "--method", "linear", "--out", model).exit_code == 0
    folder = write(tmp_path / "s", "2,3,1\n3,4,2\n2,4,1\n2,5,1\n")
    result = invoke("predict", model, folder, "--out", out)
    assert result.exit_code == 2
    assert "--index-base" in result.output
    assert "1 predictions" in invoke("predict", model, folder, "--out", out, "--index-base", 1).output
    assert "5 nodes" in invoke("predict", model, folder, "--out", out, "--n-nodes", 5).output


def test_new_data_are_like_the_old(tmp_path):
    data = load_graphs(writers.write_edge_lists(sparse_study(), tmp_path / "lists", base=1))
    single = write(tmp_path / "s", "4,2,1\n")
    read = load_graphs(single, like=data)
    assert read.adjacency.shape == (1, 6, 6)
    assert np.argwhere(read.adjacency[0]).tolist() == [[1, 3], [3, 1]]
    assert read.atlas.node_names == data.atlas.node_names
    with pytest.raises(InputError, match="node 7"):
        load_graphs(write(tmp_path / "t", "4,7,1\n"), like=data)
    from_0 = write(tmp_path / "z", "3,1,1\n")
    assert np.array_equal(load_graphs(from_0, like=data, index_base=0).adjacency, read.adjacency)
    directed = load_graphs(writers.write_edge_lists(sparse_study(directed=True), tmp_path / "d", base=1, both=True))
    assert np.argwhere(load_graphs(single, like=directed).adjacency[0]).tolist() == [[3, 1]]
    np.savez(tmp_path / "m.npz", adjacency=np.triu(np.ones((2, 6, 6))))
    assert np.array_equal(load_graphs(tmp_path / "m.npz", like=directed).adjacency[0], np.triu(np.ones((6, 6))))
    assert np.array_equal(load_graphs(tmp_path / "m.npz", like=data).adjacency[0], np.ones((6, 6)))


def test_numbers_in_a_header_do_not_tell_what_numbers_in_edge_lists_mean(tmp_path):
    """A matrix under 0, 1, 2... as pandas writes it, and edge lists that count from 1 but lack the last node."""
    (tmp_path / "m").mkdir()
    for number, graph in enumerate(sparse_study().adjacency):
        rows = [",".join(map(str, row)) for row in graph.tolist()]
        (tmp_path / "m" / f"{number}.csv").write_text("\n".join(["0,1,2,3,4,5", *rows]))
    data = load_graphs(tmp_path / "m")
    single = write(tmp_path / "s", "1,2,1\n3,4,1\n")
    with pytest.raises(InputError, match="index_base="):
        load_graphs(single, like=data)
    read = load_graphs(single, like=data, index_base=1)
    assert np.argwhere(np.triu(read.adjacency[0])).tolist() == [[0, 1], [2, 3]]


def test_nodes_of_new_data_stand_in_the_models_order(tmp_path, study):
    """Matrices that name their nodes in another order than the training data."""
    labelled = study.replace(labels=[i % 2 for i in range(12)], label_names=("a", "b"))
    root = writers.write_xcp_d(labelled, tmp_path / "train")
    order = [3, 1, 0, 2, 5, 4]
    from isocapsnet.datasets.atlas import Atlas

    other = labelled.replace(
        adjacency=labelled.adjacency[:, order][:, :, order], atlas=Atlas([labelled.atlas.node_names[i] for i in order])
    )
    model, out = tmp_path / "m.safetensors", tmp_path / "p.csv"
    assert invoke("fit", root, "--target", "diagnosis", "--method", "linear", "--out", model).exit_code == 0
    assert invoke("predict", model, root, "--out", out).exit_code == 0
    expected = out.read_text()
    assert invoke("predict", model, writers.write_xcp_d(other, tmp_path / "new"), "--out", out).exit_code == 0
    assert out.read_text() == expected
    stranger = other.replace(atlas=Atlas([f"elsewhere{i}" for i in range(6)]))
    result = invoke("predict", model, writers.write_xcp_d(stranger, tmp_path / "else"), "--out", out)
    assert result.exit_code == 2
    assert "elsewhere0" in result.output
