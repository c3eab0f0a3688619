"""Options of the front door: what is read as meant, and what is refused before any work is done."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

import isocapsnet as ic
from isocapsnet import _benchmarking, _timing
from isocapsnet._methods import list_methods, parse_value
from isocapsnet._validation import InputError
from isocapsnet.evaluation.engine.execution import Execution
from isocapsnet.evaluation.engine.worker import Limits
from isocapsnet.evaluation.plan import keep_suitable

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
    assert data.exclusions.keys() == {"sub-12"} and list(pd.DataFrame(data.covariates)) == ["age"]
    results = ic.benchmark(study, ["constant"], confounds="age", exclude="12", out=tmp_path / "out", **SMALL)
    assert results.context["preparation"][0]["columns"] == ("age",)
    assert results.data is not None and len(results.data) == 23


def test_columns_that_an_analysis_needs_are_read_from_the_table_of_a_folder(folder: Path, tmp_path: Path) -> None:
    options = {**SMALL, "target": "dx", "confounds": "age", "group": "person", "dry_run": True, "transform": None}
    results = ic.benchmark(folder, ["constant"], out=tmp_path / "out", **options)
    assert results.data is not None and list(pd.DataFrame(results.data.covariates)) == ["age", "person"]


@pytest.mark.parametrize(
    ("methods", "gigabytes", "given", "n_jobs"),
    [
        (["isocapsnet", "linear"], 80, {}, 4),
        (["gin"], 8, {}, 2),
        (["gin"], 2, {}, 1),
        (["gin"], 80, {"device": "cpu"}, 16),
        (["linear"], 80, {}, 16),
        (["gin"], 80, {"jobs": 7}, 7),
        (["gin"], None, {}, 16),
        (["gin"], None, {"device": "cuda"}, 16),
    ],
)
def test_few_jobs_share_a_gpu_unless_their_number_is_given(
    methods: list[str], gigabytes: int | None, given: dict[str, Any], n_jobs: int, study: ic.BrainGraphs,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    properties = SimpleNamespace(total_memory=(gigabytes or 0) * 1024**3)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gigabytes is not None)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(_timing, "count_cores", lambda: 16)
    seen = []
    monkeypatch.setattr(_benchmarking, "describe_jobs", lambda execution, options: seen.append(options.count_slots()))
    monkeypatch.setattr(Execution, "run", lambda self, executor, **others: None)
    options = {**SMALL, "jobs": None, **given}
    ic.benchmark(study, methods, out=tmp_path / "out", **options)
    assert seen == [n_jobs]
    assert ("jobs = " in (tmp_path / "out" / "run.toml").read_text()) == ("jobs" in given)


def test_limits_reach_the_jobs(study: ic.BrainGraphs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(Execution, "run", lambda self, executor, *, limits, **others: seen.append(limits))
    options = {**SMALL, "jobs": 1, "timeout": 60, "memory_limit": 10**9}
    ic.benchmark(study, ["constant"], out=tmp_path / "out", **options)
    assert seen == [Limits(seconds=60, memory=10**9)]


def test_a_method_for_two_classes_is_refused_if_named_and_left_out_of_all() -> None:
    methods = list_methods(["isocapsnet-released", "constant"])
    with pytest.raises(ic.InputError, match=r"isocapsnet-released.* 3"):
        keep_suitable(methods, 3, named=True)
    with pytest.warns(match=r"isocapsnet-released.* 3"):
        assert [method.name for method in keep_suitable(methods, 3, named=False)] == ["constant"]
    assert keep_suitable(methods, 2, named=True) == methods


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
        *({"search": "random"}, {"search": "exhaustive"}),  # the second with candidates=1
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


@pytest.mark.parametrize("option", [{"select": "rest"}, {"kind": "series"}, {"directed": True}, {"index_base": 1}])
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


class SemiSupervised(RowClassifier):
    """A user's own classifier that is given unlabelled graphs."""

    def fit(self, X: np.ndarray, y: np.ndarray, X_unlabeled: np.ndarray | None = None) -> "SemiSupervised":
        self.seen_ = X, X_unlabeled
        super().fit(X, y)
        return self


def test_fit_gives_labelled_and_unlabelled_graphs_to_a_method(study: ic.BrainGraphs) -> None:
    labels = [None if i < 3 else label for i, label in enumerate(study.labels)]
    assert study.adjacency is not None
    model: Any = ic.fit((study.adjacency, labels), SemiSupervised(), use_unlabeled=True)
    assert np.array_equal(model.seen_[0], study.adjacency[3:])
    assert np.array_equal(model.seen_[1], study.adjacency[:3])
    with pytest.raises(ic.InputError, match="RowClassifier"):
        ic.fit((study.adjacency, labels), RowClassifier(), use_unlabeled=True)
    whole: Any = ic.fit(study, SemiSupervised())
    assert np.shares_memory(whole.seen_[0], study.adjacency)  # so that a memory map is not loaded


def test_explanations_leave_out_graphs_without_a_class_of_the_model(study: ic.BrainGraphs) -> None:
    model = ic.fit(study, "cnn[max_epochs=1,calibrate=False]")
    assert study.adjacency is not None
    labels = [None, "other", *study.labels[2:]]
    explanation = ic.explain(model, (study.adjacency, labels), folds=0)
    kept = ic.explain(model, (study.adjacency[2:], study.labels[2:]), folds=0)
    assert np.array_equal(explanation.edges, kept.edges)
    with pytest.raises(ic.InputError, match="other"):
        ic.explain(model, (study.adjacency, ["other"] * 12 + [0] * 12))


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


@pytest.mark.parametrize("method", ["cnn[calibrate=maybe]", "cnn[learning_rate=-1]", "linear[C=0]"])
def test_values_that_no_data_could_make_valid_are_refused_before_a_job_runs(method, study, tmp_path):
    with pytest.raises(InputError, match=method[method.index("[") + 1 : method.index("=")]):
        ic.benchmark(study, methods=method, out=tmp_path, dry_run=True)
    assert not list(tmp_path.iterdir())


def test_true_and_false_may_be_written_as_in_json():
    spellings = [parse_value(text) for text in ("true", "false", "True", " False ", "none", "1e-3")]
    assert spellings == [True, False, True, False, "none", 1e-3]
