"""Studies as they lie around: mixed files, damaged tables, codes for missing values. Each is read or refused."""

import shutil

import numpy as np
import pandas as pd
import pytest

from isocapsnet import BrainGraphs, InputError, load_graphs
from isocapsnet.datasets.formats.text import is_value
from isocapsnet.datasets.readers import examine_graphs
from isocapsnet.datasets.reading import ReadOptions

RNG = np.random.default_rng(0)


def graph(n_nodes=6):
    return np.corrcoef(RNG.normal(size=(n_nodes, 40)))


def write_study(folder, names=None, **columns):
    """A matrix for each name, and a table of subjects s0, s1... if there are columns."""
    folder.mkdir(exist_ok=True)
    for name in names or [f"s{i}" for i in range(8)]:
        np.save(folder / f"{name}.npy", graph())
    if columns:
        table = pd.DataFrame({"participant_id": [f"s{i}" for i in range(8)]} | columns)
        table.to_csv(folder / "participants.csv", index=False)
    return folder


# -- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("sub-{}_task-rest_relmat", "sub-{}_task-nback_relmat"),
        ("sub-{}_meas-PearsonCorrelation_relmat", "sub-{}_meas-PartialCorrelation_relmat"),
        ("{}_rois_aal", "{}_rois_ho"),
        ("s{}_Schaefer100", "s{}_Schaefer200"),
    ],
)
def test_files_of_two_kinds_are_refused(tmp_path, first, second):
    """Three subjects have files of one kind, the others have files of the same size and of another kind."""
    write_study(tmp_path, [(first if i < 3 else second).format(i) for i in range(6)])
    if first.endswith("relmat"):
        for path in tmp_path.iterdir():
            np.savetxt(path.with_suffix(".tsv"), np.load(path), delimiter="\t")
            path.unlink()
    with pytest.raises(InputError, match="select="):
        load_graphs(tmp_path)
    part = first.format("_").split("_")[-2 if first.endswith("relmat") else -1]
    assert len(load_graphs(tmp_path, select=part)) == 3


def test_two_names_of_one_file_are_refused(tmp_path):
    (tmp_path / "s9.npy").symlink_to(write_study(tmp_path) / "s0.npy")
    with pytest.raises(InputError, match=r"s0\.npy and s9\.npy"):
        load_graphs(tmp_path)


@pytest.mark.parametrize("copy", ["s0 (1)", "s0_copy", "Copy of s0", "s0 - Copy"])
def test_copies_of_a_file_are_refused(tmp_path, copy):
    shutil.copy(write_study(tmp_path) / "s0.npy", tmp_path / f"{copy}.npy")
    with pytest.raises(InputError, match="one person"):
        load_graphs(tmp_path)


def test_what_is_not_read_is_on_record(tmp_path):
    folder = write_study(tmp_path / "study")
    (folder / "s8.csv.gz").write_bytes(b"")
    np.savez(folder / "s9.npz", fc=graph())
    (folder / "more").symlink_to(write_study(tmp_path / "more", ["s10"]))
    data, findings = examine_graphs(folder)
    record = " ".join(f"{what}: {where}" for what, where in data.handled.items())
    for name in ("s8.csv.gz", "more", ".npz"):
        assert name in record
    assert sum("not read" in sentence or "not followed" in sentence for sentence in findings.warnings) == 2
    bids = tmp_path / "bids"
    bids.mkdir()
    for i, suffix in enumerate(["relmat"] * 4 + ["connectivity"]):
        np.savetxt(bids / f"sub-{i}_{suffix}.tsv", graph(), delimiter="\t")
    assert any("not read" in what for what in load_graphs(bids).handled)


def test_edge_lists_of_two_bases_are_refused(tmp_path):
    for i in range(6):
        rows = [(a + i % 2, b + i % 2, round(RNG.normal(), 3)) for a in range(8) for b in range(a + 1, 8)]
        pd.DataFrame(rows, columns=["source", "target", "weight"]).to_csv(tmp_path / f"s{i}.csv", index=False)
    with pytest.raises(InputError, match=r"some may count from 0 and others from 1"):
        load_graphs(tmp_path)
    assert load_graphs(tmp_path, index_base=0).n_nodes == 9


@pytest.mark.parametrize("title", ["p", "p-value", "pval", "FDR", "p_fdr"])
def test_p_values_are_no_weights(tmp_path, title):
    for i in range(4):
        rows = [(a, b, 0.5) for a in range(6) for b in range(a + 1, 6)]
        pd.DataFrame(rows, columns=["source", "target", title]).to_csv(tmp_path / f"s{i}.csv", index=False)
    with pytest.raises(InputError, match=title):
        load_graphs(tmp_path)


def test_rounded_matrices_that_are_named_like_time_series_are_graphs(tmp_path):
    graphs = [graph(12) * (1 + 1e-9 * RNG.normal(size=(12, 12))) for _ in range(4)]
    for i, one in enumerate(graphs):
        np.save(tmp_path / f"s{i}_rois_aal.npy", one)
    read = load_graphs(tmp_path)
    assert not read.is_time_series
    assert np.array_equal(read.adjacency, graphs)


@pytest.mark.parametrize("name", ["sub-{}_task-rest_desc-confounds_timeseries.tsv", "rp_s{}.txt"])
def test_confounds_are_no_time_series_of_regions(tmp_path, name):
    for i in range(6):
        titles = ["csf", "white_matter", "global_signal", "trans_x", "rot_x"]
        frame = pd.DataFrame(RNG.normal(size=(60, 5)), columns=titles)
        frame.to_csv(tmp_path / name.format(i), sep="\t", index=False)
    with pytest.raises(InputError, match="no matrices"):
        load_graphs(tmp_path)


@pytest.mark.parametrize("step", [0.72, 1, 2, 2000])
def test_a_column_of_times_is_no_node(tmp_path, step):
    for i in range(4):
        times = step * np.arange(40) + 0.5
        np.savetxt(tmp_path / f"s{i}_timeseries.csv", np.c_[RNG.normal(size=(40, 4)), times], delimiter=",", fmt="%.1f")
    with pytest.raises(InputError, match="column 5"):
        load_graphs(tmp_path)


# -- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [-99, -999, -9999])
def test_codes_for_missing_edges_are_refused(tmp_path, code):
    write_study(tmp_path)
    matrix = graph()
    matrix[2] = matrix[:, 2] = code
    np.save(tmp_path / "s3.npy", matrix)
    with pytest.raises(InputError, match=rf"s3\.npy has the value {code} at row 1, column 3"):
        load_graphs(tmp_path)
    assert len(load_graphs(tmp_path, skip_refused=True)) == 7
    np.save(tmp_path / "s3.npy", np.linspace(code, 1000, 36).reshape(6, 6))  # a range of numbers, not a code
    assert load_graphs(tmp_path).adjacency[3].min() == code
    series = [np.array([*RNG.normal(size=(30, 4))]) for _ in range(3)]
    series[1][4, 2] = code
    (folder := tmp_path / "series").mkdir()
    for i, one in enumerate(series):
        np.savetxt(folder / f"s{i}_timeseries.csv", one, delimiter=",")
    with pytest.raises(InputError, match=rf"value {code} at row 5, column 3"):
        load_graphs(folder)


def test_codes_for_missing_covariates_are_missing_on_record(tmp_path):
    write_study(tmp_path, iq=[100, -9999, 110, -999, 90, 95, 105, 100], score=[-3, -99, 2, 1, 0, -5, 4, 2])
    read = load_graphs(tmp_path, covariates=["iq", "score"])
    assert np.flatnonzero(read.covariates["iq"].isna()).tolist() == [1, 3]
    assert np.flatnonzero(read.covariates["score"].isna()).tolist() == [1]
    assert sum("taken for a missing value" in what for what in read.handled) == 3
    signed = [-100, -99, -60, -80, 0, 40, 99, 100]  # handedness
    stack = load_graphs({"adjacency": np.stack([graph() for _ in range(8)]), "hand": signed})
    assert stack.covariates["hand"].tolist() == signed


@pytest.mark.parametrize("value", ["-9", "-999", "#REF!", "?", ".", "--", "unknown", "Pending", "withheld"])
def test_what_may_mean_a_missing_label_is_no_class(tmp_path, value):
    labels = ["1", "2", "1", "2", "1", value, "1", "2"]
    with pytest.raises(InputError, match="may mean that it is missing"):
        load_graphs(write_study(tmp_path, dx=labels), target="dx")
    read = load_graphs(tmp_path, target="dx", where=f"dx!={value}")
    assert read.label_names == ("1", "2")
    assert read.is_labelled.all()
    with pytest.raises(InputError):
        BrainGraphs(np.stack([graph() for _ in range(8)]), labels)


def test_plus_and_minus_are_classes():
    assert BrainGraphs(np.stack([graph() for _ in range(4)]), ["+", "-", "+", "-"]).label_names == ("+", "-")
    assert BrainGraphs(np.stack([graph() for _ in range(4)]), [-1, 1, 1, -1]).label_names == ("-1", "1")


@pytest.mark.parametrize(("one", "other"), [("Control", "control"), ("TRUE", "True"), ("mild  AD", "mild AD")])
def test_two_spellings_of_a_class_are_refused(tmp_path, one, other):
    with pytest.raises(InputError, match="may be one class"):
        load_graphs(write_study(tmp_path, dx=["case", one, "case", other, "case", one, "case", other]), target="dx")


@pytest.mark.parametrize("text", ["30y", "#DIV/0!", "about 40"])
def test_a_text_among_numbers_is_no_category(tmp_path, text):
    with pytest.raises(InputError, match=r"column 'age'"):
        load_graphs(write_study(tmp_path, age=[20, 30, text, 40, 50, 60, 70, 80]), covariates="age")


def test_a_column_that_counts_rows_from_another_number_is_refused(tmp_path):
    """Files 1 to 8 and rows 0 to 7: each subject would get the label of the next."""
    write_study(tmp_path, [str(i) for i in range(1, 9)])
    table = tmp_path / "participants.csv"
    pd.DataFrame({"id": range(8), "dx": list("abababab")}).to_csv(table, index=False)
    with pytest.raises(InputError, match=r"counts from 0 to 7, and 8"):
        load_graphs(tmp_path, target="dx")
    pd.DataFrame({"id": range(12), "dx": list("abababababab")}).to_csv(table, index=False)
    assert len(load_graphs(tmp_path, target="dx").exclusions) == 4  # more rows than files


def test_arrays_of_labels_are_not_chosen_or_dropped_in_silence(tmp_path):
    graphs = np.stack([graph() for _ in range(8)])
    with pytest.raises(InputError, match="'label' and 'y'"):
        load_graphs({"fc": graphs, "label": [0, 1] * 4, "y": [1, 1, 0, 0] * 2})
    assert load_graphs({"fc": graphs, "label": [0, 1] * 4, "y": [1, 0] * 4}, target="y").labels.tolist() == [1, 0] * 4
    with pytest.raises(InputError, match=r"shape \(8, 2\)"):
        load_graphs({"fc": graphs, "labels": np.eye(2)[[0, 1] * 4]})


def test_a_sorted_frame_is_not_in_the_order_of_the_graphs():
    """Its labels would be those of other graphs, unless the graphs were sorted in the same way."""
    frame = pd.DataFrame({"dx": list("aaaabbbb"), "age": [3, 1, 4, 2, 8, 5, 7, 6]})
    graphs = np.stack([graph() for _ in range(8)])
    with pytest.raises(InputError, match="sort_index"):
        load_graphs(graphs, participants=frame.sort_values("age"), target="dx")
    read = load_graphs(graphs, participants=frame.sort_values("age").sort_index(), target="dx")
    assert read.labels.tolist() == [0] * 4 + [1] * 4


def test_a_subject_has_a_name(tmp_path):
    upper = np.triu_indices(6, 1)
    frame = pd.DataFrame(
        [graph()[upper] for _ in range(5)], columns=[f"r{i}~r{j}" for i, j in zip(*upper, strict=True)]
    )
    frame.insert(0, "subject_id", ["s1", None, "s3", "s4", "s5"])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(InputError, match="identifier"):
        load_graphs(tmp_path / "rows.csv")


def test_numbers_of_thousands_of_digits_are_names(tmp_path):
    """Python refuses to convert them. They were a traceback."""
    long = "7" * 5000
    lines = [f"n 1 {long}\nn 2 5\nn 3 10\ne 1 2 1\ne 2 3 1\ng s{i}\nx {'ab'[i % 2]}\n" for i in range(4)]
    (tmp_path / "x.nel").write_text("".join(lines))
    assert load_graphs(tmp_path / "x.nel").atlas.node_names == ("5", "10", long)
    folder = tmp_path / "edges"
    folder.mkdir()
    for i in range(4):
        (folder / f"s{i}.csv").write_text(f"source,target\na{long},a1\na1,a2\na10,a{long}\na10,a2\n")
    assert load_graphs(folder, directed=False).atlas.node_names == ("a1", "a2", "a10", f"a{long}")


def test_a_decimal_comma_in_a_nel_file_is_refused(tmp_path):
    (tmp_path / "x.nel").write_text("n 1 1\nn 2 2\ne 1 2 0,25\ng s1\nx a\n")
    with pytest.raises(InputError, match=r"line 3.*'0,25'"):
        load_graphs(tmp_path / "x.nel")


def test_long_cells_take_linear_time():
    """Half a million digits and a letter took hours."""
    assert not is_value("9" * 500_000 + "x")
    assert all(map(is_value, ("9" * 500_000, "1.", "1.5", ".5", "-1,5", "1e5", "inf")))


def test_the_title_of_a_list_is_no_subject(tmp_path):
    (tmp_path / "ids.txt").write_text("participant_id\n" + "\n".join(f"p{i}" for i in range(4)))
    np.savez(tmp_path / "s.npz", fc=np.stack([graph() for _ in range(5)]))
    with pytest.raises(InputError, match="4 subjects"):
        load_graphs(tmp_path / "s.npz", subjects=tmp_path / "ids.txt")


def test_graphs_of_another_unit_are_reported(tmp_path):
    write_study(tmp_path)
    np.save(tmp_path / "s5.npy", 1000 * graph())
    assert any(
        "s5" in sentence and "unit" in sentence for sentence in examine_graphs(tmp_path, ReadOptions())[1].warnings
    )
