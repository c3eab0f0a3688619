"""``isocapsnet explain`` from a saved model and a file of graphs."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from isocapsnet import MODELS, make_planted_graphs, save_model
from isocapsnet.cli import main
from isocapsnet.datasets.atlas import Atlas
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.explanation.fits import explain_refits
from isocapsnet.explanation.storage import read_explanation
from tests.explanation.conftest import QUICK

PLANTED = make_planted_graphs(120, 12, kernel_size=4, random_state=1)
NAMES = np.array(["control", "patient"])
REGIONS = [f"Area {letter}" for letter in "ABCDEFGHIJKL"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models and datasets to explain."""
    folder = tmp_path_factory.mktemp("explain")
    labels = NAMES[PLANTED.labels]
    rng = np.random.default_rng(0)
    atlas = Atlas(REGIONS, rng.uniform(-50, 50, size=(12, 3)), name="made up")
    BrainGraphs(PLANTED.graphs, labels, name="study", atlas=atlas).save(folder / "study.npz")
    BrainGraphs(PLANTED.graphs, labels, name="bare").save(folder / "bare.npz")
    BrainGraphs(PLANTED.graphs, name="unlabelled").save(folder / "unlabelled.npz")
    BrainGraphs(PLANTED.graphs[:, :8, :8], labels, name="small").save(folder / "small.npz")
    BrainGraphs(PLANTED.graphs, np.where(PLANTED.labels, "cat", "dog"), name="others").save(folder / "others.npz")
    model = MODELS["isocapsnet"](**QUICK, random_state=0).fit(PLANTED.graphs, labels)
    save_model(model, folder / "isocapsnet.safetensors")
    save_model(MODELS["cnn"](max_epochs=5, random_state=0).fit(PLANTED.graphs, labels), folder / "cnn.safetensors")
    save_model(MODELS["linear"]().fit(PLANTED.graphs, labels), folder / "linear.safetensors")
    return folder


def _explain(folder: Path, model: str, data: str, out: str, *options: str) -> Result:
    paths = [str(folder / f"{model}.safetensors"), str(folder / f"{data}.npz"), "--out", str(folder / out)]
    return CliRunner().invoke(main, ["explain", *paths, *options], catch_exceptions=False)


def test_explain_writes_cards_regions_edges_and_figures_with_names_of_the_atlas(folder: Path) -> None:
    networks = folder / "networks.csv"
    pd.DataFrame({"name": REGIONS, "network": ["visual"] * 6 + ["motor"] * 6}).to_csv(networks, index=False)
    result = _explain(folder, "isocapsnet", "study", "full", "--folds", "3", "--networks", str(networks))
    assert result.exit_code == 0, result.output
    out = folder / "full"
    content = json.loads((out / "cards.json").read_text())
    assert content["classes"] == ["control", "patient"]
    assert content["node_names"] == REGIONS
    assert content["n_refits"] == 3
    assert [card["verdict"] for card in content["cards"]] == ["stable", "stable"]
    regions = pd.read_csv(out / "regions.csv")
    planted = {REGIONS[node] for node in PLANTED.truth[0].nodes}
    for source in ("template 1", "template 2", "edges"):
        first = regions[regions["from"] == source].head(4)
        assert len(planted & set(first["region"])) >= 3, source
    edges = pd.read_csv(out / "edges.csv")
    assert len(edges) == 12 * 11 / 2
    assert edges["separation"].abs().is_monotonic_decreasing
    between = pd.read_csv(out / "networks.csv", index_col="network")
    assert between.loc["visual", "motor"] == pytest.approx(
        edges.loc[(edges["first_index"] < 6) & (edges["second_index"] >= 6), "separation"].sum()
    )
    drawn = {path.name for path in (out / "figures").iterdir()}
    assert {"template-1.png", "template-1.svg", "template-1-brain.png", "edges-brain.svg"} <= drawn
    assert {"reconstruction.png", "reconstruction.svg"} <= drawn
    assert read_explanation(out).codes.shape == (120,)
    assert "Stable:" in result.output and "3 refits" in result.output


def test_networks_of_the_atlas_are_used_unless_others_are_named(folder: Path) -> None:
    networks = {"coarse": ["visual"] * 6 + ["motor"] * 6, "fine": ["a", "b", "c"] * 4}
    atlas = Atlas(REGIONS, networks=networks, name="made up")
    BrainGraphs(PLANTED.graphs, NAMES[PLANTED.labels], name="networks", atlas=atlas).save(folder / "networks.npz")
    for options, names in ((), {"visual", "motor"}), (("--networks", "fine"), {"a", "b", "c"}):
        result = _explain(folder, "cnn", "networks", "by-network", "--folds", "0", "--no-figures", *options)
        assert result.exit_code == 0, result.output
        pairs = pd.read_csv(folder / "by-network" / "network-pairs.csv")
        assert {*pairs["first"], *pairs["second"]} == names
        assert pairs["strongest"].sum() == 12 * 11 / 2
        assert f"({'fine' if options else 'coarse'})" in " ".join(result.output.split())
    result = _explain(folder, "cnn", "networks", "wrong", "--networks", "yeo7")
    assert result.exit_code == 2
    assert "coarse, fine" in result.output
    assert not (folder / "wrong").exists()


def test_one_model_alone_is_not_assessed_and_nodes_without_names_have_numbers(folder: Path) -> None:
    result = _explain(folder, "isocapsnet", "bare", "alone", "--folds", "0")
    assert result.exit_code == 0, result.output
    content = json.loads((folder / "alone" / "cards.json").read_text())
    assert [card["verdict"] for card in content["cards"]] == ["not assessed"] * 2
    assert pd.read_csv(folder / "alone" / "regions.csv")["region"].str.fullmatch(r"node \d+").all()
    assert "no coordinates" in result.output
    assert "unseen" not in result.output, "nothing says that the model did not train on these graphs"
    assert "too large if it trained on these graphs" in " ".join(result.output.split())
    assert {path.suffix for path in (folder / "alone" / "figures").iterdir()} == {".png", ".svg"}


def test_a_network_without_templates_has_its_edges_explained(folder: Path) -> None:
    result = _explain(folder, "cnn", "study", "cnn", "--folds", "2", "--no-figures")
    assert result.exit_code == 0, result.output
    assert json.loads((folder / "cnn" / "cards.json").read_text())["cards"] == []
    assert set(pd.read_csv(folder / "cnn" / "regions.csv")["from"]) == {"edges"}
    assert not (folder / "cnn" / "figures").exists()


@pytest.mark.parametrize(
    ("model", "data", "options", "sentence"),
    [
        ("isocapsnet", "small", [], "graphs of 8 nodes, but"),
        ("isocapsnet", "unlabelled", [], "have no labels"),
        ("isocapsnet", "others", [], "classes control, patient, but"),
        ("isocapsnet", "study", ["--folds", "90"], "needs 90 graphs of each class"),
        ("linear", "study", [], "LinearClassifier is not a fitted network"),
        ("missing", "study", [], "does not exist"),
        ("isocapsnet", "missing", [], "missing"),
    ],
)
def test_wrong_input_is_one_sentence(folder: Path, model: str, data: str, options: list[str], sentence: str) -> None:
    result = _explain(folder, model, data, "wrong", *options)
    assert result.exit_code == 2
    assert sentence in result.output
    assert "Traceback" not in result.output
    assert not (folder / "wrong").exists()


def test_a_place_that_cannot_be_written_is_refused_before_any_fit(folder: Path) -> None:
    (folder / "a file").write_text("")
    result = _explain(folder, "isocapsnet", "study", "a file/out")
    assert result.exit_code == 2
    assert "cannot be written: Not a directory" in result.output


def test_a_table_of_networks_must_fit_the_nodes(folder: Path) -> None:
    table = folder / "short.csv"
    table.write_text("network\nvisual\n")
    result = _explain(folder, "cnn", "study", "wrong", "--networks", str(table))
    assert result.exit_code == 2
    assert "1 entries, but there are 12 nodes" in result.output


def test_refits_see_no_test_graph_and_leave_the_model_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS["isonn"](max_epochs=1, random_state=0).fit(PLANTED.graphs, PLANTED.labels)
    before, seen = model.predict_proba(PLANTED.graphs), []
    fit = type(model).fit
    monkeypatch.setattr(type(model), "fit", lambda self, X, y: seen.append(X) or fit(self, X, y))
    with np.errstate(all="raise"):
        found = [test for _, test in explain_refits(model, PLANTED.graphs, PLANTED.labels, folds=3)]
    assert np.array_equal(np.sort(np.concatenate(found)), np.arange(120))
    for training, test in zip(seen, found, strict=True):
        assert not np.isin(PLANTED.graphs[test][:, 0, 1], training[:, 0, 1]).any()
    assert np.array_equal(model.predict_proba(PLANTED.graphs), before)


def test_explain_shows_motifs_and_their_carriers(folder: Path) -> None:
    planted = make_planted_graphs(90, 12, kernel_size=4, effect="motif", signal_to_noise=8, random_state=0)
    atlas = Atlas(REGIONS, np.random.default_rng(0).uniform(-50, 50, size=(12, 3)), name="made up")
    BrainGraphs(planted.graphs, NAMES[planted.labels], name="motifs", atlas=atlas).save(folder / "motifs.npz")
    model = MODELS["isocapsnet"](
        windows="neighborhood", n_motifs=8, max_epochs=40, calibrate=False, random_state=0
    ).fit(planted.graphs, NAMES[planted.labels])
    save_model(model, folder / "motifs.safetensors")
    result = _explain(folder, "motifs", "motifs", "found", "--folds", "0")
    assert result.exit_code == 0, result.output
    assert "motif 1" in result.output and "template 1" not in result.output
    carriers = pd.read_csv(folder / "found" / "motifs.csv")
    first = carriers[carriers["motif"] == 1]
    assert (first["class"] == "patient").mean() > 0.9
    assert set("; ".join(first["regions"]).split("; ")) <= set(REGIONS)
    figures = {path.name for path in (folder / "found" / "figures").iterdir()}
    assert {"motif-1.png", "motif-1-learned.svg", "motif-1-brain.png", "motif-1-carriers.png"} <= figures
    assert not any(name.startswith(("template", "reconstruction")) for name in figures)
