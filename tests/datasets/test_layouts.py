"""A realistic study folder of each layout is read by one command with no option beyond the target column."""

import pickle

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.io import savemat

from isocapsnet.cli import main
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.readers import load_graphs

from . import writers
from .conftest import make_study


def convert(source, tmp_path, *options: str) -> BrainGraphs:
    out = tmp_path / "out.npz"
    result = CliRunner().invoke(main, ["data", "convert", str(source), str(out), *options])
    assert result.exit_code == 0, result.output
    return BrainGraphs.load(out)


def plain_csv(data, root):
    return writers.write_folder(data, root / "study", ".csv")


def plain_mat(data, root):
    return writers.write_folder(data, root / "study", ".mat")


def excel_export(data, root):
    """Semicolons, decimal commas, a header and an index column; ids with a prefix in the file names only."""
    folder = root / "study"
    folder.mkdir()
    for subject, graph in zip(data.subjects, data.adjacency, strict=True):
        frame = pd.DataFrame(graph, index=data.atlas.node_names, columns=data.atlas.node_names)
        frame.to_csv(folder / f"connectome_{int(subject):07}_final.csv", sep=";", decimal=",")
    writers.write_participants(data, folder / "participants.csv", prefix="", sep=";")
    return folder


def xcp_d(data, root):
    return writers.write_xcp_d(data, root / "bids")


def giga_connectome(data, root):
    return writers.write_giga_connectome(data, root / "giga")


def graphml(data, root):
    return writers.write_graphml(data, root / "graphml")


def auckland_collection(data, root):
    """One folder per subject with several atlases and time series, and a metadata table."""
    folder = root / "taowu"
    for subject, graph in zip(data.subjects, data.adjacency, strict=True):
        place = folder / f"sub-{subject}"
        place.mkdir(parents=True)
        savemat(place / f"sub-{subject}_AAL116_correlation_matrix.mat", {"data": graph})
        savemat(place / f"sub-{subject}_AAL116_features_timeseries.mat", {"data": np.ones((9, len(graph)))})
    writers.write_participants(data, folder / "metadata.csv", prefix="", sep=",")
    return folder


@pytest.mark.parametrize(
    "layout",
    [plain_csv, plain_mat, excel_export, xcp_d, giga_connectome, graphml, auckland_collection],
    ids=lambda layout: layout.__name__,
)
def test_study_folder_needs_only_the_target_column(tmp_path, study, layout):
    read = convert(layout(study, tmp_path), tmp_path, "--target", "diagnosis")
    order = [read.subjects.tolist().index(subject) for subject in study.subjects]
    np.testing.assert_allclose(read.adjacency[order], study.adjacency, atol=1e-12)
    assert read.labels[order].tolist() == study.labels.tolist()
    assert not read.exclusions


def abide_series(root):
    """ABIDE's preprocessed time series: .1D files with commented headers, sites in their names, ids as numbers."""
    rng = np.random.default_rng(0)
    folder = root / "abide"
    folder.mkdir()
    rows = []
    for i in range(8):
        site, number = ("NYU", "UM_1")[i % 2], 50950 + i
        series = rng.normal(size=(20 + i, 5))
        lines = ["\t".join(f"#{2001 + c}" for c in range(5)), *("\t".join(map(repr, row)) for row in series.tolist())]
        (folder / f"{site}_00{number}_rois_aal.1D").write_text("\n".join(lines))
        rows.append({"SITE_ID": site, "SUB_ID": number, "FILE_ID": f"{site}_00{number}", "DX_GROUP": 1 + i % 2})
    rows.append({"SITE_ID": "NYU", "SUB_ID": 50999, "FILE_ID": "no_filename", "DX_GROUP": 1})
    pd.DataFrame(rows).to_csv(folder / "Phenotypic_V1_0b_preprocessed1.csv")
    return folder


def test_folder_of_time_series_needs_only_the_target_column(tmp_path):
    read = convert(abide_series(tmp_path), tmp_path, "--target", "DX_GROUP")
    assert read.adjacency is None
    assert [len(series) for series in read.time_series] == [20, 22, 24, 26, 21, 23, 25, 27]
    assert read.subjects.tolist() == [str(50950 + i) for i in (0, 2, 4, 6, 1, 3, 5, 7)]
    assert read.labels.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert read.exclusions == {"50999": "no matrix for this row of Phenotypic_V1_0b_preprocessed1.csv"}


def test_files_with_all_subjects_need_no_option(tmp_path, study):
    numbered = study.replace(subjects=None, labels=np.arange(12) % 2)
    sources = [
        writers.write_npz(numbered, tmp_path / "a.npz"),
        writers.write_mat_v5(numbered, tmp_path / "b.mat"),
        writers.write_mat_v73(numbered, tmp_path / "c.mat"),
        writers.write_tudataset(numbered, tmp_path / "TU"),
        writers.write_folds(numbered, tmp_path / "HIV_DTI"),
    ]
    for source in sources:
        read = convert(source, tmp_path)
        assert np.array_equal(read.adjacency, study.adjacency), source
        assert read.labels.tolist() == numbered.labels.tolist()


def test_classes_in_subject_ids_and_folder_names(tmp_path, study):
    ids = [f"{('patient', 'control')[i % 2]}{i:03}" for i in range(12)]
    for subject, graph in zip(ids, study.adjacency, strict=True):
        folder = tmp_path / "study" / subject[:7]
        folder.mkdir(parents=True, exist_ok=True)
        writers.write_matrix(graph, folder / f"sub-{subject}_AAL116_correlation_matrix.csv")
    for target in ("@subject", "@folder"):
        read = load_graphs(tmp_path / "study", target=target)
        assert read.label_names == ("control", "patient")
        assert read.class_counts.tolist() == [6, 6]


def test_several_atlases_and_sessions_are_chosen_by_a_part_of_the_name(tmp_path, study):
    root = writers.write_giga_connectome(study, tmp_path / "giga")
    for path in sorted(root.rglob("*_relmat.tsv")):
        path.with_name(path.name.replace("ses-1", "ses-2")).write_text(path.read_text())
        path.with_name(path.name.replace("Toy7", "Other17")).write_text("1\t0\n0\t1\n")
    result = CliRunner().invoke(main, ["data", "convert", str(root), str(tmp_path / "o.npz"), "--target", "diagnosis"])
    assert result.exit_code == 2
    assert "several matrices each" in result.output
    assert "--select" in result.output
    read = convert(root, tmp_path, "--target", "diagnosis", "--select", "ses-1,Toy7")
    assert np.array_equal(read.adjacency, study.adjacency)


def test_graphs_and_time_series_beside_each_other_are_chosen_by_kind(tmp_path, study):
    root = writers.write_xcp_d(study, tmp_path / "bids")
    assert load_graphs(root).handled["time series not read, because there are graphs"] == ("12 files",)
    series = load_graphs(root, kind="series", target="diagnosis")
    assert series.adjacency is None
    assert series.time_series[0].shape == (12, 6)


def test_options_apply_to_converted_files_too(tmp_path, study):
    study.save(tmp_path / "study.npz")
    by_sex = load_graphs(tmp_path / "study.npz", target="sex", site="sex", covariates=["age"], exclude=["1000"])
    assert by_sex.label_names == ("f", "m")
    assert by_sex.exclusions == {"1000": "excluded on request"}
    assert by_sex.covariates.columns.tolist() == ["age"]
    assert by_sex.sites.tolist()[:2] == ["m", ""]
    with pytest.raises(ValueError, match="toy has no covariate 'iq'; it has age, sex"):
        load_graphs(tmp_path / "study.npz", target="iq")
    large = make_study(4, 90).replace(atlas=None)
    large.save(tmp_path / "large.npz")
    assert load_graphs(tmp_path / "large.npz", atlas="aal90").atlas.coordinates.shape == (90, 3)


def test_excluding_keeps_folds_and_columns_in_step(tmp_path, study):
    data = load_graphs(writers.write_npz(study, tmp_path / "a.npz"), exclude=study.subjects[:4].tolist())
    assert np.array_equal(data.adjacency, study.adjacency[4:])
    assert [fold.tolist() for fold in data.folds] == [[], [0, 1, 2, 3], [4, 5, 6, 7]]
    pd.testing.assert_frame_equal(data.covariates, study.covariates.iloc[4:])
    bids = load_graphs(writers.write_xcp_d(study, tmp_path / "bids"), exclude=[f"sub-{study.subjects[0]}"])
    assert bids.exclusions == {f"sub-{study.subjects[0]}": "excluded on request"}


def test_texts_as_bytes_are_texts(tmp_path, study):
    np.savez(tmp_path / "a.npz", adjacency=study.adjacency, labels=np.array([b"hc", b"ad"] * 6))
    assert load_graphs(tmp_path / "a.npz").label_names == ("ad", "hc")


def test_node_labels_of_a_tudataset_say_which_region_a_node_is(tmp_path):
    """The collection's brain graphs leave out nodes without edges."""
    folder = tmp_path / "KKI"
    folder.mkdir()
    content = {
        "A": ["1, 2", "2, 1", "3, 4", "4, 3", "4, 5", "5, 4"],
        "graph_indicator": ["1", "1", "2", "2", "2"],
        "graph_labels": ["-1", "1"],
        "node_labels": ["7", "3", "3", "5", "9"],
    }
    for name, lines in content.items():
        (folder / f"KKI_{name}.txt").write_text("\n".join(lines))
    read = load_graphs(folder)
    assert read.adjacency.shape == (2, 7, 7)
    assert np.argwhere(read.adjacency[0]).tolist() == [[0, 4], [4, 0]]
    assert np.argwhere(np.triu(read.adjacency[1])).tolist() == [[0, 2], [2, 6]]
    (folder / "KKI_node_labels.txt").unlink()
    with pytest.raises(ValueError, match="2 to 3 nodes and no node labels"):
        load_graphs(folder)


def test_folds_as_lists_and_flat_rows(tmp_path, study):
    """Graphs as nested lists or as (1, n, n) arrays, and a training subject that no fold tests."""
    graphs = study.adjacency.tolist()
    folder = tmp_path / "BP"
    folder.mkdir()
    for number, test in enumerate([[0, 1], [2, 3]], start=1):
        train = [i for i in range(5) if i not in test]
        fold = {
            "train": {"X": [graphs[i] for i in train], "y": [i % 2 for i in train]},
            "test": {"X": [np.array([graphs[i]]) for i in test], "y": np.array([i % 2 for i in test])},
        }
        (folder / f"fold_{number}").write_bytes(pickle.dumps(fold))
    read = load_graphs(folder)
    assert np.array_equal(read.adjacency, study.adjacency[:5])
    assert [fold.tolist() for fold in read.folds] == [[0, 1], [2, 3]]
    assert "training subjects that no fold tests" in read.handled
