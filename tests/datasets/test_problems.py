"""Whatever can be wrong with a study is either mended and on record, or refused with a sentence that names the file."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from isocapsnet._validation import InputError
from isocapsnet.cli import main
from isocapsnet.datasets.duplicates import find_duplicates
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.readers import examine_graphs, load_graphs
from isocapsnet.datasets.reading import ReadOptions

from . import writers
from .conftest import make_study

TARGET = ReadOptions(target="diagnosis")


@pytest.fixture
def folder(tmp_path, study):
    return writers.write_folder(study, tmp_path / "study", ".csv")


def change(folder, subject, function):
    path = folder / f"{subject}.csv"
    matrix = np.loadtxt(path, delimiter=",")
    matrix = function(matrix)
    np.savetxt(path, matrix, delimiter=",")
    return path.name


def edit_table(folder, function):
    path = folder / "participants.tsv"
    function(pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False)).to_csv(path, sep="\t", index=False)


def assert_refused(folder, *parts, **options):
    with pytest.raises(InputError) as refusal:
        load_graphs(folder, **({"target": "diagnosis"} | options))
    for part in parts:
        assert part in str(refusal.value)


# -- refused ----------------------------------------------------------------------------------------------------


def test_other_node_count(folder, study):
    name = change(folder, study.subjects[3], lambda m: m[:5, :5])
    assert_refused(folder, name, "5 nodes but most graphs have 6")


def test_not_square(folder, study):
    name = change(folder, study.subjects[3], lambda m: m[:4])
    assert_refused(folder, name, "4 x 6 values", "must be square")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_gap_in_the_middle(folder, study, value):
    def gap(matrix):
        matrix[1, 2] = value
        return matrix

    name = change(folder, study.subjects[3], gap)
    assert_refused(folder, name, f"the value {value} at row 2, column 3", "exclude=")
    data = load_graphs(folder, target="diagnosis", exclude=[study.subjects[3]])
    assert len(data) == 11
    assert data.exclusions == {study.subjects[3]: "excluded on request"}


def test_unreadable_file(folder, study):
    (folder / f"{study.subjects[2]}.csv").write_text("1,2\n3\n")
    assert_refused(folder, f"{study.subjects[2]}.csv", "in line 2")
    assert len(load_graphs(folder, exclude=[study.subjects[2]])) == 11


def test_duplicate_rows_in_the_table(folder, study):
    edit_table(folder, lambda t: pd.concat([t, t.iloc[[4]]]))
    read = load_graphs(folder, target="diagnosis")
    assert read.labels.tolist() == study.labels.tolist()
    assert [where for what, where in read.handled.items() if "several rows" in what] == [("1 subjects",)]
    edit_table(folder, lambda t: t.assign(diagnosis=[*t["diagnosis"][:-1], "other"]))
    assert_refused(folder, "participants.tsv", f"lists '{study.subjects[4]}' 2 times, in lines 6, 14", "where=")


def test_two_matrices_of_one_subject(folder, study):
    (folder / f"{study.subjects[4]}_again.csv").write_bytes((folder / f"{study.subjects[4]}.csv").read_bytes())
    assert_refused(folder, f"'{study.subjects[4]}' has 2 matrices", "_again.csv")


def test_a_file_that_could_be_two_subjects(folder, study):
    first, second = study.subjects[:2]
    (folder / f"{first}.csv").rename(folder / f"{first}_{second}.csv")
    assert_refused(folder, f"{first}_{second} could belong to", "rename the file")


def test_numbers_that_all_file_names_share_are_no_subjects(tmp_path, study):
    numbered = study.replace(subjects=None)
    folder = writers.write_folder(numbered, tmp_path / "numbered", ".csv")
    for path in sorted(folder.glob("*.csv")):
        path.rename(folder / f"{path.stem}_atlas12.csv")
    data = load_graphs(folder, target="diagnosis")
    assert sorted(data.subjects.tolist()) == sorted(numbered.subjects.tolist())
    assert not data.exclusions


def test_target_column_that_is_not_there(folder):
    assert_refused(folder, "no column 'dx'", "participant_id, diagnosis, site, age, sex", target="dx")


def test_target_without_a_table(folder):
    (folder / "participants.tsv").unlink()
    assert_refused(folder, "no participants.tsv", "'diagnosis'")
    assert len(load_graphs(folder)) == 12


AGES = {
    "fractions": [20 + 1.5 * i for i in range(12)],
    "fractions of few values": [18.5, 20.5] * 6,
    "as many whole numbers as subjects": [20 + i for i in range(12)],
    "nearly as many whole numbers as subjects": [20 + i % 8 for i in range(12)],
    "whole numbers, some of one subject": [20 + round(14 * (i / 200) ** 2) for i in range(200)] + [70],
    "whole numbers of many subjects": [20 + i % 25 for i in range(500)],
    "decimal commas": [f"{20 + i % 4},5" for i in range(12)],
}


@pytest.mark.parametrize("ages", AGES.values(), ids=AGES)
def test_continuous_targets_are_refused_wherever_they_come_from(tmp_path, ages):
    data = make_study(len(ages), 4).replace(labels=[i % 2 for i in range(len(ages))], label_names=("0", "1"), folds=())
    folder = writers.write_folder(data.subset(range(12)), tmp_path / "study", ".npy")
    if len(ages) == 12:
        edit_table(folder, lambda t: t.assign(score=[str(age) for age in ages]))
        assert_refused(folder, "regression is not supported", "12 subjects", target="score")
    np.savez(tmp_path / "study.npz", adjacency=data.adjacency, labels=np.arange(len(ages)) % 2, score=np.array(ages))
    assert_refused(tmp_path / "study.npz", "regression is not supported", target="score")
    with pytest.raises(InputError, match="regression is not supported"):
        BrainGraphs(data.adjacency, ages)


@pytest.mark.parametrize(
    "classes", [[0, 1, 2] * 4, [1.0, 2.0] * 6, [10 * i for i in range(11)] * 3, ["1", "a", "2"] * 4]
)
def test_numbers_that_name_classes_are_labels(classes):
    assert len(BrainGraphs(np.zeros((len(classes), 3, 3)), classes).label_names) == len(set(classes))


def test_target_of_many_texts(folder):
    edit_table(folder, lambda t: t.assign(score=[f"x{i}" for i in range(12)]))
    assert_refused(folder, "12 different values for 12 subjects", target="score")


def test_table_about_other_people(folder):
    edit_table(folder, lambda t: t.assign(participant_id=[f"x{i}" for i in range(12)]))
    assert_refused(folder, "No column of participants.tsv names the subjects")


def test_nodes_of_another_atlas(tmp_path, study):
    root = writers.write_xcp_d(study, tmp_path / "bids")
    path = next(root.rglob(f"sub-{study.subjects[5]}*relmat.tsv"))
    path.write_text(path.read_text().replace("region2", "elsewhere"))
    assert_refused(root, path.name, "elsewhere", "same atlas")


def test_empty_folder_unknown_format_and_missing_path(tmp_path):
    (tmp_path / "notes.docx").write_text("hello")
    with pytest.raises(InputError, match="holds no matrices"):
        load_graphs(tmp_path)
    with pytest.raises(InputError, match=r"notes\.docx is not supported"):
        load_graphs(tmp_path / "notes.docx")
    with pytest.raises(InputError, match="There is no file"):
        load_graphs(tmp_path / "nothing")


@pytest.mark.parametrize("suffix", [".pt", ".pkl"])
def test_pickles_of_other_tools(tmp_path, suffix):
    (tmp_path / f"graphs{suffix}").write_bytes(b"\x80\x04.")
    with pytest.raises(InputError, match="can run any code"):
        load_graphs(tmp_path / f"graphs{suffix}")


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"matrices": np.zeros((3, 4))}, "no array of graphs .* it has matrices"),
        ({"a": np.zeros((3, 2, 2)), "b": np.ones((3, 2, 2))}, 'several arrays .* array="a"'),
        ({"adjacency": np.zeros((3, 2, 4))}, r"shape \(3, 2, 4\)"),
        ({"adjacency": np.array([[["a"]]])}, "numbers of shape"),
        ({"adjacency": np.zeros((0, 2, 2))}, r"shape \(0, 2, 2\)"),
    ],
)
def test_npz_without_graphs(tmp_path, arrays, sentence):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError, match=sentence):
        load_graphs(tmp_path / "a.npz")


def test_npz_with_an_unknown_target_or_covariate(tmp_path, study):
    path = writers.write_npz(study, tmp_path / "a.npz")
    with pytest.raises(InputError, match=r"'dx'.*labels, subjects"):
        load_graphs(path, target="dx")
    with pytest.raises(InputError, match="no array 'iq'"):
        load_graphs(path, covariates=["iq"])
    with pytest.raises(InputError, match="no subject 'nobody' to exclude"):
        load_graphs(path, exclude=["nobody"])


def test_options_that_would_be_ignored_are_refused(tmp_path, study):
    numbered = study.replace(subjects=None, labels=np.arange(12) % 2)
    study.save(tmp_path / "saved.npz")
    foreign = writers.write_npz(study, tmp_path / "foreign.npz")
    folds = writers.write_folds(numbered, tmp_path / "folds")
    for source in (tmp_path / "saved.npz", foreign, folds, writers.as_geometric(numbered)):
        for option in ({"select": ["ses-1"]}, {"kind": "series"}, {"directed": True}):
            with pytest.raises(InputError, match=f"{next(iter(option))}= does not apply to"):
                load_graphs(source, **option)
    for source in (folds, writers.write_tudataset(numbered, tmp_path / "TU"), writers.as_geometric(numbered)):
        with pytest.raises(InputError, match="target= does not apply to"):
            load_graphs(source, target="diagnosis")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"y": np.array([1, 2])}, "Graph 1 has 2 labels"),
        ({"num_nodes": None}, "set num_nodes"),
        ({"edge_index": np.array([[0, 9], [1, 2]])}, "does not fit 6 nodes"),
        ({"edge_attr": np.zeros((3, 2))}, "one weight per edge"),
        ({"num_nodes": 7}, "7 nodes but most graphs have 6"),
    ],
)
def test_geometric_data_that_do_not_fit(study, change, sentence):
    items = writers.as_geometric(study)
    items[1] = SimpleNamespace(**(vars(items[1]) | change))
    with pytest.raises(InputError, match=sentence):
        load_graphs(items)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("<graphml><graph>", "not readable as GraphML"),
        ("<graphml></graphml>", "holds 0 graphs"),
        ("<graphml><graph/></graphml>", "no nodes"),
        ('<graphml><graph><node id="1"/><edge source="1" target="2"/></graph></graphml>', "node '2'"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><graphml><graph><node id="&a;"/></graph></graphml>', "not readable as GraphML"),
        (
            '<graphml><key id="d" for="edge" attr.name="length"/><graph><node id="1"/></graph></graphml>',
            "length but none of weight",
        ),
    ],
)
def test_graphml_that_is_none(tmp_path, text, sentence):
    (tmp_path / "sub-1.graphml").write_text(text)
    with pytest.raises(InputError, match=sentence):
        load_graphs(tmp_path)


# -- mended and on record ---------------------------------------------------------------------------------------


def test_nodes_without_signal(folder, study):
    def silence(matrix):
        matrix[2] = matrix[:, 2] = np.nan
        matrix[2, 2] = 1
        return matrix

    name = change(folder, study.subjects[3], silence)
    data = load_graphs(folder, target="diagnosis")
    assert data.handled["nodes without signal (missing values) set to 0"] == (name,)
    assert np.array_equal(np.delete(data.adjacency[3], 2, axis=1)[2], np.zeros(5))
    assert np.array_equal(
        np.delete(np.delete(data.adjacency[3], 2, 0), 2, 1), np.delete(np.delete(study.adjacency[3], 2, 0), 2, 1)
    )
    assert data.passport["graphs"]["n_nodes_without_signal"] == 1


def test_infinite_diagonal(folder, study):
    name = change(folder, study.subjects[3], lambda m: m + np.diag(np.full(6, np.inf)))
    data = load_graphs(folder)
    assert data.handled["missing or infinite diagonal set to 0"] == (name,)
    assert not np.diag(data.adjacency[3]).any()


def test_triangular_matrices(folder, study):
    for subject in study.subjects:
        change(folder, subject, np.triu)
    data = load_graphs(folder)
    assert np.array_equal(data.adjacency, study.adjacency)
    assert len(data.handled["triangular matrix mirrored"]) == 12


def test_asymmetric_matrices_are_kept_and_reported(folder, study):
    def tilt(matrix):
        matrix[0, 1] += 0.5
        return matrix

    change(folder, study.subjects[3], tilt)
    data, findings = examine_graphs(folder, TARGET)
    assert data.passport["graphs"]["symmetric"] is False
    assert any("not symmetric (by up to 0.5)" in sentence for sentence in findings.warnings)


def test_rows_without_matrices_and_matrices_without_rows(folder, study):
    (folder / f"{study.subjects[1]}.csv").unlink()
    edit_table(folder, lambda t: t[t["participant_id"] != study.subjects[6]])
    data = load_graphs(folder, target="diagnosis")
    assert len(data) == 11
    assert data.exclusions == {study.subjects[1]: "no matrix for this row of participants.tsv"}
    assert data.labels[data.subjects.tolist().index(study.subjects[6])] == -1
    assert data.handled["matrix without a row in participants.tsv kept as unlabelled"] == (f"{study.subjects[6]}.csv",)
    assert data.passport["exclusions"] == dict(data.exclusions)


def test_reordered_and_missing_named_nodes(tmp_path, study):
    root = writers.write_xcp_d(study, tmp_path / "bids")
    reordered = next(root.rglob(f"sub-{study.subjects[5]}*relmat.tsv"))
    frame = pd.read_csv(reordered, sep="\t", index_col=0, float_precision="round_trip")
    order = frame.columns[::-1]
    frame.loc[order, order].to_csv(reordered, sep="\t")
    smaller = next(root.rglob(f"sub-{study.subjects[6]}*relmat.tsv"))
    pd.read_csv(smaller, sep="\t", index_col=0, float_precision="round_trip").iloc[:4, :4].to_csv(smaller, sep="\t")
    data = load_graphs(root)
    assert np.array_equal(data.adjacency[5], study.adjacency[5])
    assert np.array_equal(data.adjacency[6][:4, :4], study.adjacency[6][:4, :4])
    assert not data.adjacency[6][4:].any()
    assert any(reordered.name in where for where in data.handled["nodes reordered"])
    assert any(smaller.name in where for where in data.handled["nodes absent from the file kept without edges"])


def test_silent_columns_and_gaps_of_time_series(tmp_path):
    rng = np.random.default_rng(0)
    series = [rng.normal(size=(12, 4)) for _ in range(4)]
    series[1][:, 2] = np.nan
    data = BrainGraphs(time_series=[np.nan_to_num(one) for one in series], labels=[0, 1, 0, 1])
    folder = writers.write_folder(data, tmp_path / "study", ".npy")
    np.save(folder / "2.npy", series[1])
    read = load_graphs(folder, target="diagnosis")
    assert not read.time_series[1][:, 2].any()
    assert read.handled["nodes without signal (missing values) set to 0"] == ("2.npy",)
    series[3][5, 1] = np.nan
    np.save(folder / "4.npy", series[3])
    assert_refused(folder, "4.npy", "time point 6, node 2")


def test_known_node_names_bring_their_coordinates(tmp_path):
    from isocapsnet.datasets.atlas import load_atlas

    data = make_study(3, 90).replace(atlas=load_atlas("aal90"))
    read = load_graphs(writers.write_xcp_d(data, tmp_path / "bids"))
    assert read.atlas.name == "aal90"
    assert read.atlas.coordinates.shape == (90, 3)


# -- all at once ------------------------------------------------------------------------------------------------


def test_check_lists_all_problems_and_exits_with_2(folder, study):
    names = [
        change(folder, study.subjects[0], lambda m: m[:5, :5]),
        change(folder, study.subjects[1], lambda m: m[:, :4]),
    ]
    (folder / f"{study.subjects[2]}.csv").write_text("what,is,it\nthis,now,then\n")
    edit_table(folder, lambda t: pd.concat([t, t.iloc[[4]].assign(participant_id="01028")]))
    first, second = study.subjects[5:7]
    (folder / f"{first}.csv").rename(folder / f"{first}_{second}.csv")
    result = CliRunner().invoke(main, ["data", "check", str(folder), "--target", "dx"])
    assert result.exit_code == 2
    refused = [line for line in result.output.splitlines() if line.startswith("refused")]
    expected = (
        *names,
        f"{study.subjects[2]}.csv",
        "lists '01028' and '1028' 2 times",
        f"{first}_{second}",
        "no column 'dx'",
    )
    assert len(refused) == len(expected)
    for part in expected:
        assert sum(part in line for line in refused) == 1, part
    with pytest.raises(InputError, match=r"\(5 more .*check_data"):
        load_graphs(folder, target="dx")


def test_check_exits_with_0_when_there_are_only_warnings(folder, study):
    result = CliRunner().invoke(main, ["data", "check", str(folder), "--target", "diagnosis"])
    assert result.exit_code == 0
    assert "1 of 12 subjects have no label" in result.output
    assert "can be used" in result.output
    result = CliRunner().invoke(main, ["data", "check", str(folder)])
    assert result.exit_code == 0
    assert "name the column of classes with --target" in result.output


def test_check_warns_about_classes_too_small_for_folds(folder):
    edit_table(folder, lambda t: t.assign(diagnosis=["a"] * 10 + ["b"] * 2))
    _, findings = examine_graphs(folder, TARGET)
    assert any("Class 'b' has 2 subject(s)" in sentence for sentence in findings.warnings)
    edit_table(folder, lambda t: t.assign(diagnosis="a"))
    _, findings = examine_graphs(folder, TARGET)
    assert any("All labels are 'a'" in sentence for sentence in findings.warnings)


def test_the_same_person_twice_is_reported(folder, study):
    """A second scan of the same brain: equal up to noise and scale."""
    original = np.loadtxt(folder / f"{study.subjects[7]}.csv", delimiter=",")
    change(folder, study.subjects[2], lambda m: 3 * original + 0.001 * m)
    _, findings = examine_graphs(folder, TARGET)
    (sentence,) = [s for s in findings.warnings if "same person" in s]
    assert study.subjects[7] in sentence
    assert study.subjects[2] in sentence


def test_duplicates_are_found_across_blocks(monkeypatch):
    from isocapsnet.datasets import duplicates

    monkeypatch.setattr(duplicates, "_BLOCK", 4)
    graphs = np.random.default_rng(0).normal(size=(11, 9, 9))
    graphs[9] = graphs[1]
    graphs[3] = graphs[2]
    graphs[5] = 1.0
    graphs[6] = 1.0
    found, n_pairs = find_duplicates(BrainGraphs(graphs))
    assert n_pairs == 2
    assert {(a, b) for a, b, _ in found} == {("2", "10"), ("3", "4")}
    series = [np.random.default_rng(i % 3).normal(size=(30, 9)) for i in range(4)]
    assert [(a, b) for a, b, _ in find_duplicates(BrainGraphs(time_series=series))[0]] == [("1", "4")]


def test_a_file_that_the_system_will_not_read(tmp_path, study, monkeypatch):
    study.save(tmp_path / "study.npz")

    def deny(*arguments, **options):
        raise PermissionError(13, "Permission denied", "study.npz")

    monkeypatch.setattr("isocapsnet.datasets.formats.stacked.read_archive", deny)
    with pytest.raises(InputError, match=r"study.npz cannot be read \(Permission denied\)"):
        load_graphs(tmp_path / "study.npz")
