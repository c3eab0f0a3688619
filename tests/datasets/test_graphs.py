"""BrainGraphs keeps what it is given, refuses what does not belong together, and cannot be changed."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import isocapsnet
from isocapsnet import load_graphs
from isocapsnet._validation import InputError
from isocapsnet.datasets.atlas import Atlas, load_atlas
from isocapsnet.datasets.fields import encode_labels
from isocapsnet.datasets.graphs import BrainGraphs

from .conftest import make_study


def assert_equal(first: BrainGraphs, second: BrainGraphs) -> None:
    assert first.digest() == second.digest()
    assert np.array_equal(first.adjacency, second.adjacency)
    assert first.adjacency.dtype == second.adjacency.dtype
    assert np.array_equal(first.labels, second.labels)
    assert first.label_names == second.label_names
    assert first.subjects.tolist() == second.subjects.tolist()
    assert first.sites.tolist() == second.sites.tolist()
    pd.testing.assert_frame_equal(first.covariates, second.covariates)
    assert [fold.tolist() for fold in first.folds] == [fold.tolist() for fold in second.folds]
    assert first.atlas.node_names == second.atlas.node_names


@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 9),
    st.integers(1, 7),
    st.sampled_from(["float32", "float64", "float16", "int16", "uint8", "bool", ">f4"]),
    st.integers(0, 99),
)
def test_what_is_saved_is_loaded(tmp_path_factory, n_graphs, n_nodes, dtype, seed):
    data = make_study(n_graphs, n_nodes, dtype, seed)
    path = tmp_path_factory.mktemp("saved") / "study.npz"
    data.save(path)
    assert_equal(BrainGraphs.load(path), data)


def test_time_series_of_different_length_are_saved_and_loaded(tmp_path):
    rng = np.random.default_rng(0)
    series = [rng.normal(size=(length, 5)).astype(np.float32) for length in (10, 7, 12)]
    data = BrainGraphs(time_series=series, labels=["a", "b", "a"])
    data.save(tmp_path / "series.npz")
    loaded = BrainGraphs.load(tmp_path / "series.npz")
    assert loaded.adjacency is None
    assert all(np.array_equal(a, b) for a, b in zip(series, loaded.time_series, strict=True))
    assert loaded.digest() == data.digest()
    assert loaded.subset([2, 0]).time_series[0].shape == (12, 5)


def test_nothing_can_be_changed(study):
    with pytest.raises(AttributeError, match="immutable; use replace"):
        study.labels = [0]
    for array in (study.adjacency, study.labels, study.subjects, study.sites, *study.folds):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[0]
    with pytest.raises(TypeError):
        study.exclusions["x"] = "y"
    before = study.digest()
    frame = study.covariates
    frame["age"] = 0
    study.passport["digest"] = "changed"
    assert study.covariates["age"].iloc[0] != 0
    assert study.passport["digest"] == before


def test_labels_without_a_value_are_kept_as_unlabelled(study):
    assert study.labels.tolist()[:3] == [-1, 1, 0]
    assert study.label_names == ("-1", "1")
    assert study.passport["n_unlabelled"] == 1
    assert study.class_counts.tolist() == [5, 6]


@pytest.mark.parametrize(
    ("values", "codes", "names"),
    [
        ([1, -1, 1], [1, 0, 1], ("-1", "1")),
        (["10", "9", "n/a"], [1, 0, -1], ("9", "10")),
        (["patient", "control", ""], [1, 0, -1], ("control", "patient")),
        ([1.0, 2.0, np.nan], [0, 1, -1], ("1", "2")),
        ([True, False, None], [1, 0, -1], ("False", "True")),
        (np.array([0, 2], dtype=np.uint8), [0, 1], ("0", "2")),
        (np.array([["b"], ["a"]]), [1, 0], ("a", "b")),
        (pd.DataFrame({"dx": [0, 1, 0]}), [0, 1, 0], ("0", "1")),
        (pd.Series(["b", pd.NA, "a"], dtype="string"), [1, -1, 0], ("a", "b")),
        (pd.Series([2, None, 1], dtype="Int64"), [1, -1, 0], ("1", "2")),
    ],
)
def test_labels_are_coded_in_the_order_of_their_values(values, codes, names):
    got_codes, got_names = encode_labels(values)
    assert got_codes.tolist() == codes
    assert got_names == names


def test_fractional_labels_are_refused():
    with pytest.raises(InputError, match=r"0\.5.*regression is not supported"):
        encode_labels([0.5, 1])


@pytest.mark.parametrize(
    "labels",
    [
        [["a"], ["b", "c"]],
        [["a", "b"], ["a", "c"]],
        [(1, 2), (3,)],
        [{"a": 1}, {"b": 1}],
        [{"a"}, {"b"}],
        ["a", np.array([1, 2])],
        "ab",
        5,
    ],
)
def test_labels_that_are_not_one_value_per_graph_are_refused(labels):
    with pytest.raises(InputError, match="one label per graph"):
        BrainGraphs(np.zeros((2, 3, 3)), labels)


def test_subset_takes_everything_along(study):
    part = study.subset([4, 0, 7], reason="movement")
    assert part.subjects.tolist() == study.subjects[[4, 0, 7]].tolist()
    assert np.array_equal(part.adjacency, study.adjacency[[4, 0, 7]])
    assert part.covariates.index.tolist() == part.subjects.tolist()
    assert part.sites.tolist() == study.sites[[4, 0, 7]].tolist()
    assert [fold.tolist() for fold in part.folds] == [[1], [0, 2], []]
    assert len(part.exclusions) == 9
    assert part.exclusions[study.subjects[1]] == "movement"
    mask = np.zeros(12, dtype=bool)
    mask[[4, 7]] = True
    assert study.subset(mask).subjects.tolist() == study.subjects[[4, 7]].tolist()


def test_passport_states_what_a_slow_look_finds():
    graphs = make_study(5, 6).adjacency.copy()
    graphs[2, 3] = graphs[2, :, 3] = 0
    graphs[4, 0, 1] += 0.5
    passport = BrainGraphs(graphs, [0, 0, 1, 1, None], name="known").passport
    edges = graphs[:, ~np.eye(6, dtype=bool)]
    facts = passport["graphs"]
    assert facts["min"] == graphs.min()
    assert facts["max"] == graphs.max()
    assert facts["largest_asymmetry"] == pytest.approx(0.5)
    assert facts["symmetric"] is False
    assert facts["diagonal"] == {"min": graphs.diagonal(0, 1, 2).min(), "max": graphs.diagonal(0, 1, 2).max()}
    assert facts["density"]["mean"] == pytest.approx((edges != 0).mean())
    assert facts["negative_share"] == pytest.approx((edges < 0).mean())
    assert facts["n_nodes_without_signal"] == 1
    assert facts["n_graphs_with_nodes_without_signal"] == 1
    assert passport["classes"] == {"0": 2, "1": 2}
    assert json.loads(json.dumps(passport)) == passport


def test_digest_depends_on_content_and_on_nothing_else(study):
    graphs = np.array(study.adjacency)
    assert study.replace(name="other", atlas=None, handled={"x": ["y"]}).digest() == study.digest()
    assert study.replace(adjacency=np.asfortranarray(graphs)).digest() == study.digest()
    assert study.replace(adjacency=graphs.astype(">f8")).digest() == study.digest()
    graphs[3, 2, 1] += 1e-9
    changed = [
        study.replace(adjacency=graphs),
        study.replace(labels=np.zeros(12, dtype=int)),
        study.replace(label_names=("a", "b")),
        study.replace(subjects=[f"s{i}" for i in range(12)]),
        study.replace(sites=None),
        study.replace(covariates=study.covariates.assign(age=1.0)),
        study.replace(folds=()),
        study.subset(np.arange(11)),
    ]
    assert len({data.digest() for data in [study, *changed]}) == 9


@pytest.mark.parametrize("n_nodes", [6, 120], ids=["read", "mapped"])
def test_a_file_changed_after_saving_is_noticed(tmp_path, n_nodes):
    study = make_study(12, n_nodes)
    path = tmp_path / "study.npz"
    study.save(path)
    content = bytearray(path.read_bytes())
    content[content.find(study.adjacency[5].tobytes())] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"checksum|Bad CRC"):
        BrainGraphs.load(path).describe()


def test_describe_and_representations_are_short(study):
    text = study.describe()
    assert "12 of 6 nodes" in text
    assert "-1: 5, 1: 6" in text
    assert "unlabelled        1" in text
    assert "<script" not in study.replace(name="<script>")._repr_html_()


def test_a_notebook_shows_a_small_escaped_table(study):
    shown = study.replace(sites=["<b>north</b>"] * 12)._repr_html_()
    for fact in ("<td>12</td>", "<td>6</td>", "-1: 5, 1: 6", "&lt;b&gt;north", "Toy"):
        assert fact in shown
    assert len(shown) < 600
    assert "time series" in BrainGraphs(time_series=[np.zeros((9, 4))] * 3)._repr_html_()


def test_indexing_gives_a_dataset(study):
    subjects = study.subjects.tolist()
    mask = np.arange(12) % 3 == 0
    for selection, expected in (
        (slice(3, 10), subjects[3:10]),
        (slice(None, None, -1), subjects[::-1]),
        (mask, subjects[::3]),
        (mask.tolist(), subjects[::3]),
        (np.array([4, 0]), [subjects[4], subjects[0]]),
        ([-1], subjects[-1:]),
        (5, subjects[5:6]),
        (subjects[7], subjects[7:8]),
        ([subjects[2], subjects[1]], [subjects[2], subjects[1]]),
    ):
        part = study[selection]
        assert isinstance(part, BrainGraphs)
        assert part.subjects.tolist() == expected
        assert np.array_equal(part.adjacency, study.adjacency[[subjects.index(subject) for subject in expected]])
    assert [one.subjects[0] for one in study] == subjects
    assert np.shares_memory(study[3:10].adjacency, study.adjacency)


@pytest.mark.parametrize("selection", ["nobody", ["1000", "nobody"], [], [0.5], [True], [[0, 1]]])
def test_selections_that_mean_nothing_are_refused(study, selection):
    with pytest.raises(InputError):
        study[selection]


def test_to_dataframe_has_a_row_per_subject(study):
    frame = study.to_dataframe()
    assert frame.columns.tolist() == ["subject", "label", "site", "age", "sex"]
    assert frame["subject"].tolist() == study.subjects.tolist()
    assert frame["label"].isna().tolist() == [True, *[False] * 11]
    assert frame["label"].tolist()[1:3] == ["1", "-1"]
    assert frame["site"].tolist() == study.sites.tolist()
    assert np.array_equal(frame["age"], study.covariates["age"], equal_nan=True)
    assert BrainGraphs(np.zeros((2, 3, 3))).to_dataframe()["label"].isna().all()


def test_what_a_pipeline_is_fitted_to(study):
    assert study.X is study.adjacency
    assert not study.is_time_series
    for lengths in ((9, 7), (9, 9)):
        data = BrainGraphs(time_series=[np.ones((length, 4)) for length in lengths])
        assert data.is_time_series
        assert data.X.shape == (2,)
        assert [one.shape for one in data.X] == [(length, 4) for length in lengths]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"labels": [1, 2]}, "12 graphs but 2 labels"),
        ({"labels": np.full(12, 5)}, "indices into the 2 label names"),
        ({"subjects": ["a"] * 12}, "'a' occurs 12 times"),
        ({"sites": ["x"]}, "12 graphs but 1 sites"),
        ({"covariates": pd.DataFrame({"age": [1]})}, "12 graphs but 1 rows of covariates"),
        ({"folds": [[0, 99]]}, "Fold 1 names graph 99"),
        ({"folds": [[0], [5, -1]]}, "Fold 2 names graph -1"),
        ({"folds": [[0, 0]]}, "Fold 1 must list each"),
        ({"atlas": Atlas(["one"], name="small")}, "'small' has 1 nodes but the graphs have 6"),
        ({"adjacency": None}, "needs graphs or time series"),
        ({"adjacency": np.zeros((12, 6, 5))}, "must be square"),
        ({"time_series": [np.zeros((9, 4))] * 12}, "Graphs have 6 nodes but time series have 4"),
        ({"time_series": [np.zeros((9, 6))] * 3}, "12 graphs but 3 time series"),
        ({"time_series": [np.full((9, 6), np.nan)] * 12}, "missing or infinite"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(study, changes, sentence):
    with pytest.raises(InputError, match=sentence):
        study.replace(**changes)


def test_atlases_have_names_and_plausible_coordinates():
    for name, n_nodes in (("aal90", 90), ("aal116", 116), ("dk82", 82)):
        atlas = load_atlas(name)
        assert len(atlas) == n_nodes == len(set(atlas.node_names))
        assert np.abs(atlas.coordinates).max() < 110
    left = [name.endswith(".L") for name in load_atlas("aal90").node_names]
    assert (load_atlas("aal90").coordinates[left, 0] < 0).all()
    with pytest.raises(InputError, match="atlas='aal' is unknown"):
        load_atlas("aal")


def test_atlas_tables_agree_with_their_source(real_data):
    for name in ("aal90", "aal116", "dk82"):
        with np.load(real_data / f"coords_{name}.npz") as source:
            assert load_atlas(name).node_names == tuple(source["names"])
            np.testing.assert_allclose(load_atlas(name).coordinates, source["coordinates"], atol=0.0051)


def test_a_node_that_only_receives_edges_has_signal():
    graphs = np.ones((2, 4, 4))
    graphs[0, 2, [0, 1, 3]] = 0
    assert BrainGraphs(graphs).passport["graphs"]["n_nodes_without_signal"] == 0


def test_tables_of_predictions_have_the_identifiers_of_the_user_and_digests_do_not(tmp_path):
    """01 and sub-01 are one subject; a study that is called by the other name has the same digest, so the same jobs."""
    rng = np.random.default_rng(0)
    data = {}
    for prefix in ("", "sub-"):
        folder = tmp_path / f"study{prefix}"
        folder.mkdir()
        for number, graph in enumerate(np.random.default_rng(1).normal(size=(12, 5, 5)), start=1):
            np.save(folder / f"{prefix}{number:02}.npy", graph + graph.T)
        names = [f"{prefix}{number:02}" for number in range(1, 13)]
        frame = pd.DataFrame({"participant_id": names, "dx": ["a", "b"] * 6})
        frame.to_csv(folder / "participants.tsv", sep="\t", index=False)
        data[prefix] = load_graphs(folder, target="dx")
        assert data[prefix].identifiers.tolist() == names == load_graphs(folder).identifiers.tolist()
    plain, bids = data.values()
    assert bids.subjects.tolist() == plain.subjects.tolist() == plain.identifiers.tolist()
    assert bids.digest() == plain.digest()
    assert bids[["sub-02", "01"]].identifiers.tolist() == ["sub-02", "sub-01"]
    assert bids.replace(subjects=rng.permutation(12)).identifiers.tolist() != bids.identifiers.tolist()
    bids.save(tmp_path / "bids.npz")
    again = load_graphs(tmp_path / "bids.npz")
    assert again.identifiers.tolist() == bids.identifiers.tolist() and again.digest() == bids.digest()
    (tmp_path / "studysub-" / "participants.tsv").unlink()
    assert load_graphs(tmp_path / "studysub-").identifiers[0] == "sub-01"  # of the file
    model = isocapsnet.fit(bids, "linear")
    assert isocapsnet.predict(model, again).subject.tolist() == bids.identifiers.tolist()
    options = {"repeats": 1, "candidates": 1, "jobs": 0, "progress": False, "out": tmp_path / "results"}
    results = isocapsnet.benchmark(bids, ["constant"], **options)
    assert {*results.predictions.subject} == {*bids.identifiers.tolist()}
    assert {*isocapsnet.open_results(tmp_path / "results").predictions.subject} == {*bids.identifiers.tolist()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        isocapsnet.benchmark(plain, ["constant"], **options)  # nothing new is computed, and the copy is not damaged
    assert {*isocapsnet.open_results(tmp_path / "results").predictions.subject} == {*plain.subjects.tolist()}


def test_the_prefix_of_a_row_of_edges_is_kept_too(tmp_path):
    edges = pd.DataFrame(np.random.default_rng(0).normal(size=(6, 10)), columns=[f"e{i}" for i in range(10)])
    edges.insert(0, "participant_id", [f"sub-{i}" for i in range(6)])
    edges.to_csv(tmp_path / "edges.csv", index=False)
    data = load_graphs(tmp_path / "edges.csv", triangle="upper", n_nodes=5)
    assert data.subjects[0] == "0" and data.identifiers[0] == "sub-0"


def test_every_table_has_one_spelling_of_subjects(tmp_path):
    data = BrainGraphs(
        np.random.default_rng(0).normal(size=(12, 5, 5)), ["a", "b"] * 6, subjects=[f"{i:02}" for i in range(1, 13)],
        identifiers=[f"sub-{i:02}" for i in range(1, 13)], covariates=pd.DataFrame({"age": np.arange(12)}),
    )  # fmt: skip
    predictions = isocapsnet.predict(isocapsnet.fit(data, "constant"), data)
    assert len(predictions.merge(data.to_dataframe(), on="subject")) == 12
    assert len(predictions.set_index("subject").join(data.covariates, how="inner")) == 12
    assert data.subset([3, 5]).covariates.index.tolist() == ["sub-04", "sub-06"]
    assert {*data[:11].subset(np.arange(10), reason="motion").exclusions} == {"sub-11"}
    with pytest.raises(InputError, match="'sub-01'"):
        data["sub-99"]
    data.save(tmp_path / "data.npz")
    for source in (data, tmp_path / "data.npz"):
        read = load_graphs(source, exclude=["03", "sub-04"])
        assert {*read.exclusions} == {"sub-03", "sub-04"} and read.covariates.index[2] == "sub-05"
        assert {*load_graphs(read, exclude=["03", "05"]).exclusions} == {"sub-03", "sub-04", "sub-05"}
        with pytest.raises(InputError, match="'sub-01'"):
            load_graphs(source, exclude="99")


def test_exclusions_of_a_folder_have_the_spelling_of_its_table(tmp_path):
    for number, graph in enumerate(np.random.default_rng(1).normal(size=(8, 5, 5)), start=1):
        np.save(tmp_path / f"sub-{number:02}.npy", graph[:4, :4] if number == 4 else graph + graph.T)
    names = [f"sub-{number:02}" for number in range(1, 10)]
    pd.DataFrame({"participant_id": names, "dx": [*"ababababa"]}).to_csv(
        tmp_path / "participants.tsv", sep="\t", index=False
    )
    data = load_graphs(tmp_path, target="dx", exclude="01", skip_refused=True)
    assert {*data.exclusions} == {"sub-01", "sub-04", "sub-09"} and data.subjects[0] == "02"
    assert "set aside" in data.exclusions["sub-04"]


@pytest.mark.parametrize("prefixes", [("sub-", ""), ("", "sub-")], ids=["files", "table"])
def test_subjects_without_a_row_are_spelled_like_the_table(tmp_path, prefixes):
    graphs = np.random.default_rng(1).normal(size=(12, 5, 5))
    graphs += graphs.swapaxes(1, 2)
    names, rows = ([f"{prefix}{number:02}" for number in range(1, 13)] for prefix in prefixes)
    folder = tmp_path / "study"
    folder.mkdir()
    for name, graph in zip(names, graphs, strict=True):
        np.save(folder / f"{name}.npy", graph)
    table = pd.DataFrame({"participant_id": rows, "dx": ["a", "b"] * 6})[:8]
    table.to_csv(folder / "participants.tsv", sep="\t", index=False)
    edges = pd.DataFrame(graphs[:, *np.triu_indices(5, 1)], columns=[f"e{i}" for i in range(10)])
    edges.insert(0, "participant_id", names)
    edges.to_csv(tmp_path / "edges.csv", index=False)
    options = {"triangle": "upper", "n_nodes": 5, "participants": folder / "participants.tsv"}
    for source, reading in ((folder, {}), (tmp_path / "edges.csv", options)):
        data = load_graphs(source, target="dx", exclude="12", **reading)
        assert data.identifiers.tolist() == rows[:11] and {*data.exclusions} == {rows[11]}
        assert data.subjects.tolist() == [f"{number:02}" for number in range(1, 12)]
