"""Options of the front door: what is read as meant, and what is refused before any work is done."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

import isocapsnet as ic

SMALL: dict[str, Any] = {"repeats": 1, "candidates": 1, "explain": False, "progress": False, "jobs": 0}


@pytest.fixture
def study() -> ic.BrainGraphs:
    planted = ic.make_planted_graphs(24, 6, signal_to_noise=4.0, random_state=0)
    covariates = pd.DataFrame({"age": np.linspace(20, 60, 24), "person": [f"p{i}" for i in range(24)]})
    subjects = [str(i) for i in range(1, 25)]
    return ic.BrainGraphs(planted.graphs, planted.labels, subjects=subjects, covariates=covariates, name="small")


@pytest.fixture
def folder(study: ic.BrainGraphs, tmp_path: Path) -> Path:
    """The study as a folder of matrices with a table of participants."""
    folder = tmp_path / "study"
    folder.mkdir()
    assert study.adjacency is not None and study.covariates is not None
    for subject, graph in zip(study.subjects, study.adjacency, strict=True):
        np.savetxt(folder / f"sub-{subject}_task-rest.csv", graph, delimiter=",")
    table = study.covariates.assign(participant_id=[f"sub-{s}" for s in study.subjects], dx=study.labels)
    table.to_csv(folder / "participants.tsv", sep="\t", index=False)
    return folder


def test_one_name_is_one_name_and_not_its_letters(study: ic.BrainGraphs, folder: Path, tmp_path: Path) -> None:
    data = ic.load_graphs(folder, target="dx", exclude="12", select="task-rest", covariates="age")
    assert data.exclusions.keys() == {"12"} and list(pd.DataFrame(data.covariates)) == ["age"]
    results = ic.benchmark(study, ["constant"], confounds="age", exclude="12", out=tmp_path / "out", **SMALL)
    assert results.context["preparation"][0]["columns"] == ("age",)
    assert results.data is not None and len(results.data) == 23


def test_data_are_checked_with_the_options_they_are_read_with(study: ic.BrainGraphs, folder: Path) -> None:
    table = folder / "participants.tsv"
    moved = table.rename(folder.parent / "table.tsv")
    assert ic.check_data(folder, target="dx", participants=str(moved), exclude="12", like=study).errors == []
    [error] = ic.check_data(folder, target="dx", participants=str(moved), like=study.subset([0]), n_nodes=7).errors
    assert "7" in error


@pytest.mark.parametrize(
    "option",
    [
        *({"memory_limit": "4GB", "jobs": 1}, {"timeout": "60", "jobs": 1}, {"timeout": 0, "jobs": 1}),
        *({"folds": 0}, {"folds": 1}, {"candidates": 0}, {"jobs": -1}, {"jobs": 1.5}, {"permutations": -1}),
        *({"timeout": 60, "jobs": 0}, {"memory_limit": 10**9, "jobs": 0}, {"repeats": 0}),
        *({"transform": "harmonize"}, {"transform": ["log", "harmonize"]}),
    ],
)
def test_options_that_cannot_be_followed_are_refused_before_anything_is_written(
    option: dict[str, Any], study: ic.BrainGraphs, tmp_path: Path
) -> None:
    [name, *_] = option
    with pytest.raises(ic.InputError, match="site=" if name == "transform" else f"{name}="):
        ic.benchmark(study, ["constant"], out=tmp_path / "out", **{**SMALL, **option})
    assert not (tmp_path / "out").exists()


def test_numbers_of_numpy_are_numbers(study: ic.BrainGraphs, tmp_path: Path) -> None:
    options = {**SMALL, "folds": np.int64(2), "candidates": np.int32(1)}
    results = ic.benchmark(study, ["constant"], out=tmp_path / "out", **options)
    assert results.summary.rows[0].jobs == 2 and type(results.context["protocol"]["n_folds"]) is int


@pytest.mark.parametrize("option", [{"select": "rest"}, {"kind": "series"}, {"participants": "t"}, {"index_base": 1}])
def test_options_of_folders_are_refused_for_data_in_memory(option: dict[str, Any], study: ic.BrainGraphs) -> None:
    [name] = option
    for data in (study, (study.adjacency, study.labels)):
        with pytest.raises(ic.InputError, match=f"{name}="):
            ic.fit(data, "constant", **option)
        [error] = ic.check_data(data, **option).errors
        assert f"{name}=" in error


def test_data_in_memory_are_checked(study: ic.BrainGraphs) -> None:
    assert study.adjacency is not None
    assert ic.check_data(study, exclude="12").exclusions.keys() == {"12"}
    copied = np.concatenate([study.adjacency, study.adjacency[:1]])
    findings = ic.check_data((copied, [*study.labels, 0]))
    assert findings.errors == [] and any("same person" in sentence for sentence in findings.warnings)
    assert len(ic.check_data((study.adjacency[:, :3], study.labels)).errors) == 1


def test_a_misspelt_keyword_is_refused_with_the_names_that_exist(study: ic.BrainGraphs, tmp_path: Path) -> None:
    with pytest.raises(ic.InputError, match=r"'repeat';.*repeats.*target"):
        ic.benchmark(study, ["constant"], repeat=1, out=tmp_path / "out")
    for function in (ic.check_data, ic.fit):
        with pytest.raises(ic.InputError, match=r"'targt';.*target"):
            function(study, targt="dx")
    assert not (tmp_path / "out").exists()


def test_folders_that_do_not_exist_are_refused(study: ic.BrainGraphs, tmp_path: Path) -> None:
    ic.benchmark(study, ["constant"], out=tmp_path / "out", **SMALL)
    assert len(ic.compare(tmp_path / "out")) == 1
    with pytest.raises(ic.InputError, match="nowhere"):
        ic.compare(tmp_path / "out", tmp_path / "nowhere")
    with pytest.raises(ic.InputError, match="folder"):
        ic.compare()


class RowClassifier(ClassifierMixin, BaseEstimator):
    """A user's own classifier, which counts its fits."""

    n_fits = 0

    def fit(self, X: np.ndarray, y: np.ndarray) -> "RowClassifier":
        type(self).n_fits += 1
        self.model_ = LogisticRegression().fit(X[:, 0], y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.model_.predict_proba(X[:, 0])

    def transform(self, X: np.ndarray) -> np.ndarray:
        return X[:, 0]


def test_a_users_own_estimator_predicts_after_fit(study: ic.BrainGraphs) -> None:
    assert study.adjacency is not None
    model = ic.fit(study, RowClassifier())
    assert np.allclose(ic.predict(model, study)[["p_0", "p_1"]], model.predict_proba(study.adjacency))
    assert ic.transform(model, study).shape == (24, 7)
    with pytest.raises(ic.InputError, match="6"):
        ic.predict(model, (np.zeros((2, 5, 5)), [0, 1]))
    with pytest.raises(ic.InputError, match="RowClassifier"):
        ic.explain(model, study)
    by_hand = RowClassifier().fit(study.adjacency, study.labels)
    assert ic.predict(by_hand, study)["p_1"].equals(ic.predict(model, study)["p_1"])


@pytest.mark.parametrize("model", [RowClassifier(), ic.MODELS["linear"]()])
def test_an_estimator_that_is_not_fitted_says_so(model: Any, study: ic.BrainGraphs) -> None:
    for function in (ic.predict, ic.transform, ic.explain):
        with pytest.raises(NotFittedError):
            function(model, study)


def test_what_cannot_be_saved_is_not_fitted_first(study: ic.BrainGraphs, tmp_path: Path) -> None:
    before = RowClassifier.n_fits
    with pytest.raises(ic.InputError, match="RowClassifier"):
        ic.fit(study, RowClassifier(), out=tmp_path / "model.safetensors")
    assert RowClassifier.n_fits == before


def test_nothing_to_run_is_refused_before_anything_is_written(study: ic.BrainGraphs, tmp_path: Path) -> None:
    with pytest.raises(ic.InputError, match="methods="):
        ic.benchmark(study, [], out=tmp_path / "out", **SMALL)
    with pytest.raises(ic.InputError, match="twice"):
        ic.benchmark(study, ["constant", "constant"], out=tmp_path / "out", **SMALL)
    with pytest.raises(ic.InputError, match="C has no values"):
        ic.sweep(study, "linear", {"C": []}, out=tmp_path / "out", **SMALL)
    assert not (tmp_path / "out").exists()


def test_values_of_a_sweep_may_be_numbers_of_numpy(study: ic.BrainGraphs, tmp_path: Path) -> None:
    results = ic.sweep(study, "linear", {"C": np.array([0.5, 2.0])}, out=tmp_path, **SMALL)
    assert results.sweep is not None and results.sweep["C"].tolist() == [0.5, 2.0]
    assert all(type(value) is float for value in results.context["sweep"]["methods"].values())


def test_figures_of_one_method_take_its_name(study: ic.BrainGraphs, tmp_path: Path) -> None:
    results = ic.benchmark(study, ["constant", "linear"], out=tmp_path, **SMALL)

    def curve(figure: Any) -> list[list[float]]:
        return [line.get_ydata().tolist() for axis in figure.axes for line in axis.lines]

    linear = curve(results.plot.roc("linear"))
    assert linear == curve(results.plot.roc(method="linear")) != curve(results.plot.roc("constant"))
    for draw in (results.plot.roc, results.plot.comparison):
        with pytest.raises(ic.InputError, match="nothing-like-it"):
            draw("nothing-like-it")


def test_the_readme_names_every_method() -> None:
    text = (Path(__file__).parents[1] / "README.md").read_text()
    assert " ".join(ic.MODELS) in " ".join(text.split())
