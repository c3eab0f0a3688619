"""Files as other tools write them: names beside matrices, variables of MATLAB, names of files. Each is read or refused."""

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse

from isocapsnet import InputError, load_graphs

RNG = np.random.default_rng(0)
SUBJECTS = [f"sub-{i:02d}" for i in range(1, 9)]
NODES = list("abcdef")


def graph(n_nodes=6):
    return np.corrcoef(RNG.normal(size=(n_nodes, 40)))


def write_files(folder, names, write, suffix):
    """A file for each name, written by ``write(path, i)``."""
    for i, name in enumerate(names):
        path = folder / f"{name}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, i)
    return folder


def write_matrix(path, _i=0):
    np.savetxt(path, graph(), delimiter=",")


# -- names of nodes ------------------------------------------------------------------------------------------------

IGRAPH = (
    '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key id="v" for="node" attr.name="name"/>'
    '<key id="w" for="edge" attr.name="weight"/><graph edgedefault="undirected">{}</graph></graphml>'
)


def write_named(path, matrix, names, key):
    if path.suffix == ".npz":
        np.savez(path, fc=matrix, **{key: names})
    elif path.suffix == ".mat":
        scipy.io.savemat(path, {"fc": matrix, key: np.array(names, dtype=object)})
    else:
        nodes = "".join(f'<node id="n{i}"><data key="v">{name}</data></node>' for i, name in enumerate(names))
        edges = (
            "".join(
                f'<edge source="n{i}" target="n{j}"><data key="w">{matrix[i, j]!r}</data></edge>'
                for i in range(len(names))
                for j in range(i)
            )
            .replace("np.float64(", "")
            .replace(")", "")
        )
        path.write_text(IGRAPH.format(nodes + edges))


@pytest.mark.parametrize("suffix", [".npz", ".mat", ".graphml"])
@pytest.mark.parametrize("key", ["node_names", "names", "labels", "ROI_names", "regions"])
def test_nodes_that_a_file_names_are_brought_into_one_order(tmp_path, suffix, key):
    matrix = graph() - np.eye(6)

    def write(path, i):
        order = RNG.permutation(6) if i else np.arange(6)
        write_named(path, matrix[np.ix_(order, order)], [NODES[k] for k in order], key)

    data = load_graphs(write_files(tmp_path, SUBJECTS, write, suffix))
    assert np.allclose(data.adjacency, matrix)
    assert list(data.atlas.node_names) == NODES


def test_texts_that_repeat_name_no_nodes(tmp_path):
    """Networks of the nodes are in such arrays too."""
    write_files(
        tmp_path, SUBJECTS, lambda path, _: np.savez(path, fc=graph(), labels=["DMN"] * 3 + ["VIS"] * 3), ".npz"
    )
    assert load_graphs(tmp_path).n_nodes == 6


def test_two_lists_of_names_that_differ_are_refused(tmp_path):
    write_files(tmp_path, SUBJECTS, lambda path, _: np.savez(path, fc=graph(), labels=NODES, names=NODES[::-1]), ".npz")
    with pytest.raises(InputError, match="labels, names"):
        load_graphs(tmp_path)
