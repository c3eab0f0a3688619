"""Fits like a benchmark, cards of models, and the size of their files."""

import json
import warnings
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import isocapsnet as ic
from isocapsnet._format import interval
from isocapsnet._methods import list_one_method
from isocapsnet._model_cards import describe_expected, make_card
from isocapsnet._refitting import plan_refit
from isocapsnet.cli import main
from isocapsnet.datasets.atlas import Atlas
from isocapsnet.datasets.connectivity import FisherZ
from isocapsnet.evaluation.estimation import build_estimator, list_candidates
from isocapsnet.evaluation.metrics import roc_auc
from isocapsnet.evaluation.naming import seed_from
from isocapsnet.evaluation.protocol import inner_folds
from isocapsnet.models import MODELS
from tests.test_pipelines import make_study, quiet_fit, read_file, write_file, write_folder

CAPSULES = "isocapsnet[max_epochs=3,decoder_sizes=(64,),n_templates=1,kernel_size=3,n_motifs=2,motif_size=3]"
CNN = "cnn[max_epochs=4,channels=(2,2),calibrate=False]"


@pytest.fixture(scope="module")
def study() -> ic.BrainGraphs:
    return make_study().replace(time_series=None)


@pytest.fixture(scope="module")
def results(study: ic.BrainGraphs, tmp_path_factory: pytest.TempPathFactory) -> ic.Results:
    """A benchmark with a search over the learning rate of a small network."""
    folder = tmp_path_factory.mktemp("run") / "results"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ic.benchmark(
            study, [CNN, "linear", "constant"], out=folder, transform="fisher-z,confounds", confounds="age", repeats=1,
            candidates=4, search="exhaustive", jobs=0, explain=False, progress=False,
        )  # fmt: skip


# -- like a benchmark ---------------------------------------------------------------------------------------------


def test_a_fit_like_a_benchmark_chooses_what_its_search_chooses(results: ic.Results, study: ic.BrainGraphs) -> None:
    """The search by hand: prepare each inner fold, fit each candidate, take the best mean ROC AUC."""
    model = quiet_fit(like=results.folders[0], method=CNN)
    pipeline = plan_refit(results.folders[0], CNN, None, {})
    assert pipeline.protocol is not None and pipeline.protocol.search == "exhaustive"
    spec = list_one_method(CNN)
    assert spec.space
    seed = lambda purpose: seed_from(purpose, study.digest(), "cnn", 0)  # noqa: E731
    defaults = build_estimator(spec.factory, spec.parameters, 0).get_params()
    candidates = list_candidates(spec.space, defaults, 4, seed("candidates"))
    age = np.array(study.covariates["age"])  # type: ignore[index]
    edges = FisherZ().fit_transform(np.array(study.adjacency)).reshape(len(study), -1)
    scores = np.zeros((len(candidates), 3))
    for column, (inside, outside) in enumerate(inner_folds(study.labels, None, 3, seed("inner folds"))):
        centred = age - age[inside].mean()
        slopes = centred[inside] @ (edges[inside] - edges[inside].mean(axis=0)) / (centred[inside] ** 2).sum()
        graphs = (edges - np.outer(centred, slopes)).reshape(study.adjacency.shape)  # type: ignore[union-attr]
        for row, settings in enumerate(candidates):
            estimator = build_estimator(spec.factory, {**spec.parameters, **settings, "calibrate": False}, 0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                estimator.fit(graphs[inside], study.labels[inside])
            scores[row, column] = roc_auc(study.labels[outside], estimator.predict_proba(graphs[outside]))
    means = scores.mean(axis=1)
    chosen = candidates[int(means.argmax())]
    found = {name: getattr(model.model, name) for name in spec.space}
    assert found == {name: chosen.get(name, defaults[name]) for name in spec.space}
    assert model.card_["model"]["settings"] == {name: repr(value) for name, value in chosen.items()}
    assert [step.name for step in model.steps] == ["fisher-z", "confounds"] and model.columns == ["age"]


def test_the_expected_performance_is_that_of_the_table(results: ic.Results, tmp_path: Path) -> None:
    out = tmp_path / "model.safetensors"
    arguments = ["fit", "--like", str(results.folders[0]), "--method", "linear", "--out", str(out)]
    printed = CliRunner().invoke(main, arguments)
    assert printed.exit_code == 0, printed.output
    row = results.table.set_index("method").loc["linear"]
    for name in ("roc_auc", "accuracy"):
        assert interval(row[name], row[f"{name}_low"], row[f"{name}_high"]) in printed.output
    card = ic.model_card(out)
    for name, values in card["expected"]["metrics"].items():
        assert_allclose(values, [row[name], row[f"{name}_low"], row[f"{name}_high"]])
    assert card["expected"]["verdict"] == row["verdict"]
    python = ic.fit(like=results.folders[0], method="linear")
    loaded = ic.load_model(out)
    assert loaded.card_ == python.card_
    assert_array_equal(loaded.predict_proba(results.data), python.predict_proba(results.data))


def test_what_a_benchmark_cannot_say_is_refused(results: ic.Results, study: ic.BrainGraphs, tmp_path: Path) -> None:
    folder = results.folders[0]
    other = study.subset(np.arange(30))
    cases: dict[str, dict[str, Any]] = {
        "'gin'": {"method": "gin"},
        "confound-only": {"method": "confound-only"},
        "transform=": {"method": "linear", "transform": "log"},
        "not the data": {"method": "linear", "data": other},
        "target=": {"method": "linear", "target": "dx"},
        "no folder": {"method": "linear", "like": tmp_path / "nothing"},
    }
    for fact, options in cases.items():
        with pytest.raises(ic.InputError, match=fact):
            ic.fit(**{"like": folder} | options)
    with pytest.raises(ic.InputError, match="like="):
        ic.fit(method="linear")
    same = ic.fit(study, "linear", like=folder)
    assert_array_equal(same.predict_proba(study), ic.fit(like=folder, method="linear").predict_proba(study))


def test_a_benchmark_with_confounds_accepts_its_own_folder(study: ic.BrainGraphs, tmp_path: Path) -> None:
    folder, options = write_folder(study, tmp_path / "study"), {"target": "dx", "site": "centre"}
    ic.benchmark(
        folder, "constant", out=tmp_path / "r", confounds="age", repeats=1, folds=3, jobs=0, progress=False,
        explain=False, **options,
    )  # fmt: skip
    assert ic.fit(folder, "constant", like=tmp_path / "r", **options).columns == ["age"]
    with pytest.raises(ic.InputError, match="same options"):
        ic.fit(folder, "constant", like=tmp_path / "r", target="dx")


def test_results_of_changed_code_say_nothing_about_a_model(
    results: ic.Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MODELS["linear"], "version", 99)
    with pytest.raises(ic.InputError, match="changed"):
        ic.fit(like=results.folders[0], method="linear")


# -- cards --------------------------------------------------------------------------------------------------------


class Text(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_card_is_one_page_with_all_that_it_must_say(results: ic.Results, tmp_path: Path) -> None:
    ic.fit(like=results.folders[0], method="linear", out=tmp_path / "m.safetensors")
    run = CliRunner().invoke(main, ["card", str(tmp_path / "m.safetensors"), "--out", str(tmp_path / "card.html")])
    assert run.exit_code == 0, run.output
    page = Text((tmp_path / "card.html").read_text())
    assert all(link.startswith(("#", "data:")) for link in page.links) and "script" not in page.tags
    row = results.table.set_index("method").loc["linear"]
    wanted = (
        interval(row["roc_auc"], row["roc_auc_low"], row["roc_auc_high"]), results.context["passport"]["digest"],
        "fisher-z", "age", "control: 18", "must not be used", "single people", "Brier", "are calibrated",
    )  # fmt: skip
    assert [fact for fact in wanted if fact not in page.text] == []
    shown = CliRunner().invoke(main, ["card", str(tmp_path / "m.safetensors")])
    assert shown.exit_code == 0 and interval(row["roc_auc"], row["roc_auc_low"], row["roc_auc_high"]) in shown.output


@pytest.mark.parametrize(
    ("verdict", "may_claim"),
    [
        ("above chance, better than linear", True),
        ("above chance, not distinguishable from linear, not shown to be better than confound-only", True),
        ("not distinguishable from chance (over 1 of 2 sites)", False),
        ("a single test fold allows no comparison, only its own interval", False),
        ("ROC AUC is not defined: every test fold holds one class", False),
    ],
)
def test_a_card_forbids_the_claim_that_a_model_predicts_unless_it_was_above_chance(
    results: ic.Results, study: ic.BrainGraphs, verdict: str, may_claim: bool
) -> None:
    pipeline = plan_refit(results.folders[0], "linear", None, {})
    assert pipeline.expected is not None
    measured = replace(pipeline, expected={**pipeline.expected, "verdict": verdict, "n_folds": 1})
    card = make_card(ic.fit(study, "linear"), measured, {})
    assert any("predicts anything" in limit for limit in card["limits"]) != may_claim
    first, last = describe_expected(card)
    assert "over 1 test fold with" in first and last == f"Verdict of the benchmark on linear: {verdict}."


#: Methods that calibrate, and small settings of those that are slow.
CALIBRATING = {
    *("isocapsnet", "isonn", "fastisonn", "capsnet", "cnn", "dgcnn", "autoencoder", "gcn", "gin", "diffpool"),
    *("brainnetcnn", "bnt", "wl", "shortest-path", "linear", "cpm", "svm", "riemann", "sdbn"),
}
SMALL = {"isocapsnet": {"n_templates": 1, "kernel_size": 3, "windows": "contiguous"}, "isonn": {"kernel_size": 3}}


@pytest.mark.parametrize("method", MODELS)
def test_the_card_says_whether_probabilities_were_calibrated(
    method: str, study: ic.BrainGraphs, tmp_path: Path
) -> None:
    parameters = MODELS[method]().get_params()
    settings = {"max_epochs": 1, "pretraining_epochs": 1, "decoder_sizes": (8,)}
    short = {name: value for name, value in settings.items() if name in parameters}
    estimator = MODELS[method](**short | SMALL.get(method, {}))
    model = quiet_fit(study, estimator, out=tmp_path / "model")
    assert model.is_calibrated_ == ic.load_model(tmp_path / "model").is_calibrated_ == (method in CALIBRATING)
    assert ("not calibrated" not in ic.model_card(model)["calibration"]) == (method in CALIBRATING)
    if "calibrate" in parameters and method in CALIBRATING:
        plain = quiet_fit(study, estimator.set_params(calibrate=False))
        assert plain.is_calibrated_ is False and "not calibrated" in plain.card_["calibration"]


def test_a_calibration_that_was_skipped_is_not_claimed(study: ic.BrainGraphs, tmp_path: Path) -> None:
    few = study.subset(np.r_[0:30:2, [1, 3, 5]])  # three patients
    with pytest.warns(UserWarning, match="not calibrated"):
        model = ic.fit(few, "gin[max_epochs=1,hidden_size=4]", out=tmp_path / "model")
    assert model.is_calibrated_ is False and "not calibrated" in model.card_["calibration"]
    content, arrays = read_file(tmp_path / "model")
    with pytest.raises(ic.InputError, match="calibrated"):
        ic.load_model(write_file(tmp_path / "forged", {**content, "calibrated": "yes"}, arrays))
    del content["calibrated"]
    assert ic.load_model(write_file(tmp_path / "old", content, arrays)).is_calibrated_ is None


def test_the_card_of_another_estimator_does_not_say_that_it_is_calibrated(study: ic.BrainGraphs) -> None:
    edges = FunctionTransformer(lambda graphs: graphs.reshape(len(graphs), -1))
    model = quiet_fit(study, make_pipeline(edges, GaussianNB()))
    assert "not known" in model.card_["calibration"]


def test_a_card_names_no_subject_and_says_when_nothing_was_measured(study: ic.BrainGraphs, tmp_path: Path) -> None:
    data = study.subset(np.arange(30), reason="moved too much")
    path = tmp_path / "model"
    model = ic.fit(data, "linear", confounds="age", out=path)
    text = json.dumps(read_file(path)[0])
    assert not [subject for subject in study.subjects if f'"{subject}"' in text or f"{subject}:" in text]
    card = ic.model_card(model)
    assert card["expected"] is None and any("performance" in limit for limit in card["limits"])
    shown = CliRunner().invoke(main, ["card", str(path)]).output
    assert "not measured" in shown and "like=" not in shown
    assert "moved too much" in json.dumps(card["data"])
    assert card == ic.model_card(path) == json.loads(json.dumps(card))


def test_a_card_is_not_written_where_there_is_no_folder(study: ic.BrainGraphs, tmp_path: Path) -> None:
    model = ic.fit(study, "constant")
    for out, fact in ((tmp_path, "folder"), (tmp_path / "nowhere" / "card.html", "nowhere")):
        with pytest.raises(ic.InputError, match=fact):
            ic.model_card(model, out=out)
    assert list(tmp_path.iterdir()) == []


def test_hostile_cards_are_shown_as_text_or_refused(study: ic.BrainGraphs, tmp_path: Path) -> None:
    path = tmp_path / "model"
    ic.fit(study, "linear", out=path)
    content, arrays = read_file(path)
    content["card"]["limits"] = ["<script>alert(1)</script>"]
    ic.model_card(write_file(path, content, arrays), out=tmp_path / "card.html")
    assert "script" not in Text((tmp_path / "card.html").read_text()).tags
    for key, value in (("data", 5), ("limits", 3), ("model", []), ("expected", {"metrics": 1}), ("nodes", None)):
        changed = {**content, "card": {**content["card"], key: value}}
        with pytest.raises(ic.InputError, match="card"):
            ic.model_card(write_file(path, changed, arrays), out=tmp_path / "other.html")
    del content["card"]
    with pytest.raises(ic.InputError, match="no card"):
        ic.model_card(write_file(path, content, arrays))
    assert not (tmp_path / "other.html").exists()


# -- size ---------------------------------------------------------------------------------------------------------


def test_a_model_without_its_decoder_predicts_the_same_and_does_not_reconstruct(
    study: ic.BrainGraphs, tmp_path: Path
) -> None:
    graphs = np.array(study.adjacency)
    for method in (CAPSULES, "isocapsnet-released[max_epochs=1,decoder_sizes=(64,)]", "capsnet[max_epochs=1]"):
        model = quiet_fit(study, method, out=tmp_path / "full")
        quiet_fit(study, method, out=tmp_path / "small", decoder=False)
        assert (tmp_path / "small").stat().st_size < 0.9 * (tmp_path / "full").stat().st_size
        small = ic.load_model(tmp_path / "small")
        assert_array_equal(small.predict_proba(graphs), model.predict_proba(graphs))
        assert model.reconstruct(graphs).shape == graphs.shape
        with pytest.raises(ic.InputError, match="decoder=True"):
            small.reconstruct(graphs)
        ic.save_model(small, tmp_path / "again")
        assert (tmp_path / "again").stat().st_size == (tmp_path / "small").stat().st_size
        assert ic.explain(small, study, folds=0).reconstructions is None
    with pytest.raises(ic.InputError, match="decoder=False"):
        quiet_fit(study, "linear", out=tmp_path / "no", decoder=False)
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("method", [CAPSULES, "gin[max_epochs=3]", "linear"])
def test_half_precision_keeps_three_digits_and_halves_the_file(
    method: str, study: ic.BrainGraphs, tmp_path: Path
) -> None:
    model = quiet_fit(study, method, transform="fisher-z", out=tmp_path / "full")
    quiet_fit(study, method, transform="fisher-z", out=tmp_path / "half", precision="half")
    loaded = ic.load_model(tmp_path / "half")
    assert np.abs(loaded.predict_proba(study) - model.predict_proba(study)).max() < 5e-4
    weights = [sum(a.nbytes for a in read_file(tmp_path / name)[1].values()) for name in ("half", "full")]
    assert weights[0] <= 0.6 * weights[1]


def test_half_precision_that_shows_is_refused(study: ic.BrainGraphs, tmp_path: Path) -> None:
    model = ic.fit(study, "linear[C=0.001]")
    with pytest.raises(ic.InputError, match="graphs="):
        ic.save_model(model, tmp_path / "model", precision="half")
    model.intercept_ = model.intercept_ + np.array([300.1, 300.2])  # steps of 0.25 in half precision
    with pytest.raises(ic.InputError, match="three digits"):
        ic.save_model(model, tmp_path / "model", precision="half", graphs=study)
    model.intercept_ = model.intercept_ + 1e6
    with pytest.raises(ic.InputError, match="three digits"):  # beyond the range of half precision
        ic.save_model(model, tmp_path / "model", precision="half", graphs=study)
    assert not (tmp_path / "model").exists()


def test_a_tampered_half_is_refused(study: ic.BrainGraphs, tmp_path: Path) -> None:
    path = tmp_path / "model"
    quiet_fit(study, "linear", out=path, precision="half")
    content, arrays = read_file(path)
    for half in ({"coef": "<f8"}, {"coef": "|O"}, [], {**content["half"], "other": "<f4"}, {"coef": [1]}):
        with pytest.raises(ic.InputError):
            ic.load_model(write_file(path, {**content, "half": half}, arrays))
    with pytest.raises(ic.InputError, match="not in half precision"):
        ic.load_model(write_file(path, content, {**arrays, "coef": arrays["coef"].astype(np.float64)}))


def test_a_benchmark_keeps_models_only_if_asked(results: ic.Results, study: ic.BrainGraphs, tmp_path: Path) -> None:
    assert not list(results.folders[0].rglob("*.safetensors"))
    common: dict[str, Any] = {"repeats": 2, "candidates": 1, "jobs": 0, "progress": False, "explain": False}
    ic.benchmark(study, ["linear"], out=tmp_path / "r", save_models=True, **common)
    assert len(list((tmp_path / "r").rglob("model.safetensors"))) == 3


@pytest.mark.parametrize("transform", ["", "fisher-z"])
def test_a_model_of_a_fold_knows_its_nodes_its_classes_and_its_values(
    transform: str, study: ic.BrainGraphs, tmp_path: Path
) -> None:
    names = [f"region {i}" for i in range(study.n_nodes)]
    data = study.replace(atlas=Atlas(names))
    ic.benchmark(
        data, "linear", out=tmp_path / "r", transform=transform, repeats=1, folds=3, jobs=0, progress=False,
        explain=False, save_models=True,
    )  # fmt: skip
    order, graphs = np.arange(study.n_nodes)[::-1], np.array(data.adjacency)
    shuffled = data.replace(adjacency=graphs[:, order][:, :, order], atlas=Atlas(names[::-1]))
    for path in (tmp_path / "r").rglob("model.safetensors"):
        model = ic.load_model(path)
        assert model.classes_.tolist() == ["control", "patient"] and list(model.node_names_in_) == names
        probabilities = ic.predict(path, data)["p_patient"]
        assert_allclose(ic.predict(path, shuffled)["p_patient"], probabilities, atol=1e-12)
        with pytest.raises(ic.InputError, match="kind"):
            ic.predict(path, data.replace(adjacency=50 * graphs))
