"""The explanation of a network: refits, tables, files."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import isocapsnet.explanation
from isocapsnet import MODELS, InputError, make_planted_graphs
from isocapsnet.explanation import Explanation, explain
from isocapsnet.explanation.storage import read_explanation
from tests.explanation.conftest import QUICK

PLANTED = make_planted_graphs(60, 12, kernel_size=4, random_state=1)


@pytest.fixture(scope="module")
def explanation() -> Explanation:
    model = MODELS["isocapsnet"](**QUICK, random_state=0).fit(PLANTED.graphs, PLANTED.labels)
    names = [f"s{index}" for index in range(60)]
    networks = ["visual"] * 6 + ["motor"] * 6
    return explain(model, PLANTED.graphs, PLANTED.labels, folds=3, subjects=names, networks=networks, title="a study")


def test_explanation_is_that_of_the_refits(explanation: Explanation) -> None:
    assert (explanation.n_fits, explanation.n_refits) == (3, 3)
    assert [card.n_fits for card in explanation.cards] == [3, 3]
    assert list(explanation.classes) == ["0", "1"]
    assert explanation.reconstructions is not None and explanation.reconstructions.n_available == 60
    assert set(explanation.reconstructions.subjects) <= {f"s{index}" for index in range(60)}
    assert explanation.model is not None and len(explanation.model.codes) == 60


def test_table_has_the_regions_of_cards_and_edges(explanation: Explanation) -> None:
    table = explanation.table
    assert isinstance(table, pd.DataFrame)
    assert list(dict.fromkeys(table["from"])) == ["template 1", "template 2", "edges"]
    edges = table[table["from"] == "edges"]
    assert sorted(edges["index"]) == list(range(12)) and edges["share"].sum() == pytest.approx(1)
    assert table["region"].tolist()[-1].startswith("node ")


def test_saved_files_hold_what_the_object_holds(explanation: Explanation, tmp_path: Path) -> None:
    explanation.save(tmp_path / "new")
    cards = json.loads((tmp_path / "new" / "cards.json").read_text())
    assert (cards["title"], cards["n_refits"], len(cards["node_names"])) == ("a study", 3, 12)
    assert cards["cards"] == [asdict(card) for card in explanation.cards]
    assert len(pd.read_csv(tmp_path / "new" / "edges.csv")) == 66
    assert pd.read_csv(tmp_path / "new" / "networks.csv")["network"].tolist() == ["visual", "motor"]
    assert explanation.model is not None
    assert np.array_equal(read_explanation(tmp_path / "new").edges, explanation.model.edges)


def test_wrong_input_is_refused_before_any_fit() -> None:
    with pytest.raises(InputError, match="LinearClassifier is not a fitted network"):
        explain(MODELS["linear"]().fit(PLANTED.graphs, PLANTED.labels), PLANTED.graphs, PLANTED.labels)
    model = MODELS["cnn"](max_epochs=1, random_state=0).fit(PLANTED.graphs, PLANTED.labels)
    with pytest.raises(InputError, match="networks has 2 entries, but there are 12 nodes"):
        explain(model, PLANTED.graphs, PLANTED.labels, networks=["a", "b"])
    with pytest.raises(InputError, match="folds=31 needs 31 graphs"):
        explain(model, PLANTED.graphs, PLANTED.labels, folds=31)


def test_graphs_are_checked_once_per_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS["isonn"](max_epochs=1, random_state=0).fit(PLANTED.graphs, PLANTED.labels)
    checks = []
    check = type(model)._check_fitted
    monkeypatch.setattr(type(model), "_check_fitted", lambda self, X: checks.append(len(X)) or check(self, X))
    explain(model, PLANTED.graphs, PLANTED.labels, folds=0)
    assert checks.count(60) <= 1 + hasattr(model, "transform")


def test_public_names_are_importable() -> None:
    for name in isocapsnet.explanation.__all__:
        assert getattr(isocapsnet.explanation, name).__name__ == name
