"""Files as other tools write them: names of nodes, variables of MATLAB, names of files. Each is read or refused."""

import h5py
import numpy as np
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


# -- variables of MATLAB -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hide", "name"),
    [(scipy.sparse.csc_matrix, "x"), (lambda matrix: {"fc": matrix}, "x.fc"), (lambda matrix: [[matrix]], "x")],
    ids=["sparse", "structure", "cell"],
)
def test_the_only_plain_matrix_is_not_taken_for_the_graph(tmp_path, hide, name):
    matrices = [np.where(graph() > 0, 1.0, 0.0) for _ in SUBJECTS]

    def write(path, i):
        hidden = hide(matrices[i])
        if isinstance(hidden, list):
            hidden = np.empty((1, 1), dtype=object)
            hidden[0, 0] = matrices[i]
        scipy.io.savemat(path, {"x": hidden, "distance": graph() + 50})

    write_files(tmp_path, SUBJECTS, write, ".mat")
    with pytest.raises(InputError, match=f'array="{name}"'):
        load_graphs(tmp_path)
    assert np.array_equal(load_graphs(tmp_path, array=name).adjacency, matrices)


def test_a_structure_of_smaller_matrices_is_no_rival(tmp_path):
    about = {"affine": np.eye(4), "motion": RNG.normal(size=(90, 6)), "comment": "none"}
    write_files(tmp_path, SUBJECTS, lambda path, _: scipy.io.savemat(path, {"fc": graph(), "info": about}), ".mat")
    assert load_graphs(tmp_path).n_nodes == 6


def test_a_cell_array_of_matrices_is_a_stack(tmp_path):
    matrices = [graph() for _ in SUBJECTS]
    cells = np.empty((1, len(matrices)), dtype=object)
    cells[0, :] = matrices
    scipy.io.savemat(tmp_path / "study.mat", {"FC": cells, "labels": np.arange(8) % 2})
    assert np.array_equal(load_graphs(tmp_path / "study.mat").adjacency, matrices)
    scipy.io.savemat(tmp_path / "study.mat", {"FC": cells, "mask": np.ones((4, 4, 8))})
    with pytest.raises(InputError, match='array="FC"'):
        load_graphs(tmp_path / "study.mat")


def write_v73(path, cells, **variables):
    """As MATLAB's -v7.3 writes cell arrays and variables, given as ``(values, class)``."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for key, (values, kind) in variables.items():
            file[key] = values
            file[key].attrs["MATLAB_class"] = np.bytes_(kind)
        for key, (contents, kind) in cells.items():
            references = []
            for i, content in enumerate(contents):
                item = file.create_dataset(f"#refs#/{key}{i}", data=content)
                item.attrs["MATLAB_class"] = np.bytes_(kind)
                references.append(item.ref)
            cell = file.create_dataset(key, data=np.array([references], dtype=h5py.ref_dtype))
            cell.attrs["MATLAB_class"] = np.bytes_("cell")
    return path


def test_cells_and_strings_of_version_73(tmp_path):
    matrices = [graph() for _ in SUBJECTS]
    labels = [np.array([[i % 2 + 1]], dtype=np.uint8) for i in range(8)]
    path = write_v73(tmp_path / "study.mat", {"FC": (matrices, "double"), "labels": (labels, "uint8")})
    data = load_graphs(path)
    assert np.allclose(data.adjacency, matrices)
    assert data.label_names == ("1", "2")
    string = np.array([[0xDD000000, 2, 1, 1, 1, 1, 1, 1]], dtype=np.uint32)
    write_v73(path, {"FC": (matrices, "double")}, labels=(string, "string"))
    with pytest.raises(InputError, match="labels is a MATLAB string"):
        load_graphs(path)


def test_structures_and_sparse_matrices_of_version_73(tmp_path):
    matrix = scipy.sparse.csc_array(np.where(graph() > 0, 1.0, 0.0))

    def write(path, _):
        write_v73(path, {}, distance=(graph(), "double"), **{"results/fc": (graph(), "double")})
        with h5py.File(path, "a") as file:
            group = file.create_group("sc")
            group.attrs["MATLAB_sparse"] = np.uint64(6)
            group["data"], group["ir"], group["jc"] = matrix.data, matrix.indices, matrix.indptr
            file["results/loop"] = file["results"]

    write_files(tmp_path, SUBJECTS, write, ".mat")
    with pytest.raises(InputError, match=r"results\.fc"):
        load_graphs(tmp_path)
    assert np.array_equal(load_graphs(tmp_path, array="sc").adjacency[0], matrix.toarray())


# -- labels --------------------------------------------------------------------------------------------------------

STACK = np.stack([graph() for _ in range(12)])


@pytest.mark.parametrize("source", ["tuple", "mapping", "npz"])
def test_a_class_that_is_called_none_is_on_record(tmp_path, source):
    labels = ["none", "mild", "severe"] * 4
    if source == "npz":
        np.savez(tmp_path / "study.npz", adjacency=STACK, labels=labels)
    sources = {"tuple": (STACK, labels), "mapping": {"adjacency": STACK, "labels": labels}}
    data = load_graphs(sources.get(source, tmp_path / "study.npz"))
    assert data.label_names == ("mild", "severe")
    assert [where for what, where in data.handled.items() if "'none'" in what] == [("4 subjects",)]


@pytest.mark.parametrize(
    "labels", [("1_1", "11"), ("3e4", "30000"), ("12345678901234567", "12345678901234568"), (b"a", b"b")]
)
def test_labels_that_differ_stay_two_classes(labels):
    data = load_graphs((STACK, np.array([*labels] * 6, dtype=object)))
    assert {*data.label_names} == {label.decode() if isinstance(label, bytes) else label for label in labels}
    assert load_graphs((STACK, ["1", "2.0"] * 6)).label_names == ("1", "2")


@pytest.mark.parametrize("word", ["-", "\u2013", "n.a.", "N. A."])
def test_signs_for_a_missing_label_are_no_class(word):
    with pytest.raises(InputError, match="missing"):
        load_graphs((STACK, [word, "ASD", "TC"] * 4))


def test_codes_of_labels_do_not_become_classes():
    """-1 is the code of a missing label; -1 and 1 are two classes."""
    data = load_graphs((STACK, [None, "ASD", "TC"] * 4))
    with pytest.raises(InputError, match="-1, 0, 1"):
        load_graphs((data.adjacency, data.labels))
    assert load_graphs((STACK, [-1, 1] * 6)).label_names == ("-1", "1")


# -- what is set aside, and codes of missing values ----------------------------------------------------------------


def test_subjects_whose_names_start_as_files_of_motion_are_read(tmp_path):
    """RP_01.txt and a matrix rp_01.txt are subjects; rp_01.txt that is not square is SPM's."""
    write_files(
        tmp_path / "upper", [f"{group}_{i:02d}" for group in ("HC", "RP") for i in range(6)], write_matrix, ".txt"
    )
    data = load_graphs(tmp_path / "upper", target="@subject")
    assert data.label_names == ("HC", "RP")
    assert len(data) == 12
    for n_nodes in (6, 7):
        folder = tmp_path / f"lower{n_nodes}"
        write_files(folder, [f"rp_{i}" for i in range(6)], lambda p, _, n=n_nodes: np.savetxt(p, graph(n)), ".txt")
        assert load_graphs(folder).n_nodes == n_nodes
    write_files(tmp_path / "spm", [f"s{i}" for i in range(6)], write_matrix, ".txt")
    for i in range(6):
        np.savetxt(tmp_path / "spm" / f"rp_s{i}.txt", RNG.normal(size=(40, 6)))
    data = load_graphs(tmp_path / "spm")
    assert len(data) == 6
    assert any("motion" in what for what in data.handled)


@pytest.mark.parametrize("silent", [np.nan, -np.inf])
def test_a_silent_node_hides_no_code(tmp_path, silent):
    def write(path, _):
        series = RNG.normal(size=(40, 6))
        series[:, 2], series[3, 4] = silent, -9999
        np.savetxt(path, series, delimiter=",")

    with pytest.raises(InputError, match="-9999"):
        load_graphs(write_files(tmp_path, [f"{name}_timeseries" for name in SUBJECTS], write, ".csv"))


def test_a_code_among_texts_is_a_missing_value():
    hand = ["L", "R", "-9999", "r"] * 3
    data = load_graphs({"adjacency": STACK, "labels": [0, 1] * 6, "hand": hand}, covariates="hand")
    assert data.covariates["hand"].tolist() == ["L", "R", "", "r"] * 3
    assert [where for what, where in data.handled.items() if "-9999" in what] == [("3 subjects",)]


# -- folders and names of files ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["{0}/sub-{1}/sub-{1}_fc", "{0}/{1}/{1}", "{0}/sub-{1}/ses-1/func/sub-{1}_ses-1", "{0}/{1}"]
)
def test_the_folder_is_not_that_of_the_subject(tmp_path, name):
    names = [name.format("AB"[i % 2], f"{i + 1:02d}") for i in range(12)]
    write_files(tmp_path, names, write_matrix, ".csv")
    data = load_graphs(tmp_path, site="@folder", target="@folder")
    assert {site: data.sites.tolist().count(site) for site in "AB"} == {"A": 6, "B": 6}
    assert data.label_names == ("A", "B")


def test_a_class_may_be_called_as_a_subject(tmp_path):
    write_files(tmp_path, [f"{i % 2}/{i}" for i in range(12)], write_matrix, ".csv")
    assert load_graphs(tmp_path, target="@folder").label_names == ("0", "1")


def test_folders_of_subjects_alone_are_no_sites(tmp_path):
    write_files(tmp_path, [f"{name}/{name}_fc" for name in SUBJECTS], write_matrix, ".csv")
    with pytest.raises(InputError, match="@folder"):
        load_graphs(tmp_path, site="@folder")


@pytest.mark.parametrize("name", ["{1}_{0}", "{0}/{1}", "{1}_{0}_matrix"])
@pytest.mark.parametrize("kinds", [("fc", "sc"), ("Pearson", "Partial")])
def test_two_kinds_of_connectivity_are_refused(tmp_path, name, kinds):
    write_files(tmp_path, [name.format(kinds[i % 2], f"P{i:02d}") for i in range(12)], write_matrix, ".csv")
    with pytest.raises(InputError, match="select="):
        load_graphs(tmp_path)
    assert len(load_graphs(tmp_path, select=kinds[1])) == 6


def test_initials_are_no_kind_of_connectivity(tmp_path):
    names = [f"{group}_{i:02d}" for group in ("FC", "SC") for i in range(6)]
    write_files(tmp_path / "names", names, write_matrix, ".csv")
    assert load_graphs(tmp_path / "names", target="@subject").label_names == ("FC", "SC")
    write_files(tmp_path / "folders", [f"{'FS'[i % 2]}C/{i}" for i in range(12)], write_matrix, ".csv")
    assert load_graphs(tmp_path / "folders", target="@folder").label_names == ("FC", "SC")


def test_an_order_of_nodes_that_is_assumed_is_on_record(tmp_path):
    def write(path, i):
        np.savetxt(path, graph(), delimiter=",", header=",".join(NODES) if i % 2 else "", comments="")

    data = load_graphs(write_files(tmp_path, SUBJECTS, write, ".csv"))
    assert [where for what, where in data.handled.items() if "order" in what] == [("4 of 8 files",)]


@pytest.mark.parametrize("names", [["DK{:03d}"], ["Power{:02d}"], ["HO_{:03d}", "TT_{:03d}"], ["sub-EZ{}", "sub-DK{}"]])
def test_initials_are_no_atlases(tmp_path, names):
    write_files(tmp_path, [names[i % len(names)].format(i) for i in range(12)], write_matrix, ".csv")
    assert len(load_graphs(tmp_path)) == 12


@pytest.mark.parametrize(
    "names", [("{}_aal116", "{}_power264"), ("aal_{}", "ho_{}"), ("HO_{}_dk68", "{}_aal90"), ("HO_{}_aal", "TT_{}_ho")]
)
def test_different_atlases_are_refused(tmp_path, names):
    write_files(tmp_path, [names[i % 2].format(100 + i) for i in range(12)], write_matrix, ".csv")
    with pytest.raises(InputError, match="atlases"):
        load_graphs(tmp_path)


def test_a_list_of_regions_beside_time_series_is_no_graph(tmp_path):
    def write(path, _):
        np.savetxt(path, RNG.normal(size=(40, 6)), delimiter=",")

    write_files(tmp_path, [f"{name}_timeseries" for name in SUBJECTS], write, ".csv")
    (tmp_path / "roi_labels.csv").write_text("index,name\n1,a\n2,b\n")
    table = "".join(f"{name},{'AB'[i % 2]}\n" for i, name in enumerate(SUBJECTS))
    (tmp_path / "participants.csv").write_text("participant_id,dx\n" + table)
    data = load_graphs(tmp_path, target="dx")
    assert len(data.time_series) == 8
    assert ("roi_labels.csv",) in data.handled.values()


@pytest.mark.parametrize("name", ["sub-{}/fc", "sub-{}/ses-1/func/fc", "A/{}/fc"])
def test_folders_name_the_subjects_of_files_with_one_name(tmp_path, name):
    numbers = [f"{i:02d}" for i in range(1, 9)]
    write_files(tmp_path, [name.format(number) for number in numbers], write_matrix, ".csv")
    if name.startswith("sub-"):
        assert load_graphs(tmp_path).subjects.tolist() == numbers
    table = "".join(f"sub-{number},{'AB'[i % 2]}\n" for i, number in enumerate(numbers))
    (tmp_path / "participants.csv").write_text("participant_id,dx\n" + table)
    data = load_graphs(tmp_path, target="dx")
    assert data.subjects.tolist() == numbers
    assert data.labels.tolist() == [0, 1] * 4


def test_sessions_of_files_with_one_name_are_of_one_person(tmp_path):
    write_files(tmp_path, [f"{name}/ses-{k}/fc" for name in SUBJECTS for k in (1, 2)], write_matrix, ".csv")
    with pytest.raises(InputError, match="select="):
        load_graphs(tmp_path)
    assert len(load_graphs(tmp_path, select="ses-1")) == 8


def test_files_of_one_name_in_two_classes_may_be_of_one_person(tmp_path):
    write_files(tmp_path, [f"{group}/{i:02d}" for group in ("HC", "PT") for i in range(6)], write_matrix, ".csv")
    with pytest.raises(InputError, match="HC/00"):
        load_graphs(tmp_path, target="@folder")


# -- several sessions in a file ------------------------------------------------------------------------------------


def test_a_stack_of_sessions_beside_a_matrix_is_refused(tmp_path):
    def write(path, i):
        np.savez(path, fc=np.stack([graph(), graph()], axis=-1), distance=graph())

    folder = write_files(tmp_path, SUBJECTS, write, ".npz")
    with pytest.raises(InputError, match=r"several matrices.*fc \(6, 6, 2\)"):
        load_graphs(folder)
    assert load_graphs(folder, array="distance").n_nodes == 6


def test_a_volume_beside_a_matrix_is_no_stack(tmp_path):
    folder = write_files(
        tmp_path, SUBJECTS, lambda path, _: np.savez(path, fc=graph(), mask=np.ones((9, 11, 9))), ".npz"
    )
    assert load_graphs(folder).n_nodes == 6


@pytest.mark.parametrize(
    "values", [[[1, 2], [3]] * 4, np.array([[1, 2], [3]] * 4, dtype=object)], ids=["lists", "objects"]
)
def test_rows_of_different_lengths_are_refused(values):
    graphs = np.stack([graph() for _ in SUBJECTS])
    with pytest.raises(InputError, match="'notes'"):
        load_graphs({"adjacency": graphs, "labels": np.arange(8) % 2, "notes": values})
