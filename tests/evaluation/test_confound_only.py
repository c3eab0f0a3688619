"""``confound-only``: fed with covariates, fitted on training subjects, and compared with every method."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.special import logit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

import isocapsnet as ic
from isocapsnet._controls import covariates_step
from isocapsnet._validation import InputError
from isocapsnet.cli import main
from isocapsnet.datasets.covariates import CovariateEncoder
from isocapsnet.datasets.fields import is_usual_confound
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.evaluation import Protocol, Samples
from isocapsnet.evaluation.preparation import Preparation
from isocapsnet.models.confounds import ConfoundClassifier

FAST: dict[str, Any] = {"jobs": 0, "progress": False}


def make_study(n: int = 120, *, age_effect: float = 3.0, edge_effect: float = 0.0, sites: bool = True) -> BrainGraphs:
    """Graphs of noise; age tells the class."""
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 2
    X = rng.normal(size=(n, 5, 5))
    X = X + X.swapaxes(1, 2)
    X[:, 0, 1] = X[:, 1, 0] = rng.normal(edge_effect * labels)
    frame = pd.DataFrame(
        {
            "Age": rng.normal(age_effect * labels),
            "sex": rng.choice(["F", "M", "n/a"], n),
            "iq": rng.normal(size=n),
            "person": [f"p{i}" for i in range(n)],
        }
    )
    names = rng.choice(["a", "b", "c"], n) if sites else None
    return BrainGraphs(X, labels, covariates=frame, sites=names, name="study")


def test_it_stands_beside_the_baselines_and_says_what_it_was_given(tmp_path: Path) -> None:
    results = ic.benchmark(make_study(), ["linear", "constant"], repeats=1, out=tmp_path, **FAST)
    row = next(row for row in results.summary.rows if row.method == "confound-only")
    assert list(row.covariates) == ["Age", "sex", "site"]
    assert row.metrics["roc_auc"].mean > 0.95
    assert any("Age, sex, site" in sentence for sentence in results.remarks)
    again = ic.open_results(tmp_path)
    assert again.verdicts == results.verdicts and again.remarks == results.remarks
    content = json.loads((tmp_path / "results.json").read_text())
    assert "confound-only" in {method["method"] for method in content["methods"]}
    assert len(ic.compare(tmp_path)) == 1


@pytest.mark.parametrize(("name", "expected"), [
    ("age", True), ("AGE_AT_SCAN", True), ("Age (years)", True), ("Gender", True), ("meanFD", True),
    ("func_mean_fd", True), ("MeanFD_Jenkinson", True), ("head_motion", True), ("age_at_onset", False),
    ("iq", False), ("dosage", False), ("image", False), ("stage", False), ("site", False), ("", False),
])  # fmt: skip
def test_usual_confounds_are_recognised_by_name(name: str, expected: bool) -> None:
    assert is_usual_confound(name) == expected


def test_columns_are_the_usual_ones_and_those_that_are_named_but_not_the_one_that_groups() -> None:
    data, nested = make_study(), Protocol("nested")
    step = covariates_step(data, nested, named=["iq", "person"], group="person")
    assert step is not None
    assert step.columns == ("Age", "sex", "iq") and step.parameters == {"use_sites": True}
    apart = covariates_step(data, Protocol("leave-site-out"))
    assert apart is not None and apart.parameters == {"use_sites": False}
    assert covariates_step(data.replace(covariates=None), Protocol("leave-site-out")) is None
    alone = covariates_step(data.replace(covariates=None), nested)
    assert alone is not None and alone.columns == () and alone.parameters == {"use_sites": True}


def test_it_never_sees_a_graph() -> None:
    data = make_study()
    step = covariates_step(data, Protocol("nested"))
    assert step is not None
    samples = Samples(data)
    samples.X = None  # type: ignore[assignment]
    preparation, train, test = Preparation((step,)), np.arange(80), np.arange(80, 120)
    assert preparation.fit(samples, train, data.labels[train]).shape == (80, 1 + 1 + 2)
    assert preparation.apply(samples, test).shape == (40, 4)
    with pytest.raises(InputError, match="instead of graphs"):
        ConfoundClassifier().fit(data.X, data.labels)
    with pytest.raises(InputError, match="instead of graphs"):
        ic.fit(data, "confound-only")


def test_coding_is_fitted_to_training_subjects_alone() -> None:
    train = pd.DataFrame({"age": [20.0, 30.0, np.nan, 40.0], "sex": ["F", "M", "F", ""]})
    encoder = CovariateEncoder(use_sites=True).fit(covariates=train, sites=["a", "b", "a", "b"])
    test = pd.DataFrame({"age": [np.nan, 90.0], "sex": ["X", "F"]})
    coded = encoder.transform(covariates=test, sites=["new", "a"])
    # age 30 on average; F is two of the three that are known; a is two of four. What is missing or new is the average.
    assert coded == pytest.approx(np.array([[0, 0, 0], [60, 1 / 3, 0.5]]))
    with pytest.raises(InputError, match="sex"):
        encoder.transform(covariates=test[["age"]], sites=["a", "a"])


def test_up_to_calibration_it_is_the_regression_that_scikit_learn_fits_to_standardised_columns() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)) * [1, 10, 100], np.arange(60) % 2
    X[:, 1] += 8 * y
    ours = logit(ConfoundClassifier(C=0.5).fit(X, y).predict_proba(X)[:, 1])
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    # A standardised row of three columns has a mean squared norm of 3; C is for rows of norm 1.
    theirs = LogisticRegression(C=0.5, tol=1e-10).fit(scaled / 3**0.5, y).decision_function(scaled / 3**0.5)
    slope, offset = np.polyfit(theirs, ours, 1)
    assert slope > 0
    assert ours == pytest.approx(slope * theirs + offset, abs=1e-4)


class Oracle(ClassifierMixin, BaseEstimator):
    """Knows one edge, as noisy as the data make it."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Oracle":
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        p = 1 / (1 + np.exp(-X[:, 0, 1]))
        return np.stack([1 - p, p], axis=1)


def test_a_method_that_is_not_better_than_covariates_is_said_not_to_be(tmp_path: Path) -> None:
    methods = [("oracle", Oracle()), "confound-only[C=1.0]"]
    weak = ic.benchmark(make_study(180, edge_effect=2.0), methods, out=tmp_path / "weak", repeats=1, **FAST)
    assert weak.verdicts["oracle"].startswith("above chance, ") and "confound-only" in weak.verdicts["oracle"]
    rows = {row.method: row for row in weak.summary.rows}
    assert list(rows["oracle"].not_better_than) == ["confound-only[C=1.0]"] and not rows["oracle"].is_best
    assert rows["confound-only[C=1.0]"].verdict.startswith("above chance from Age")
    page = weak.report(tmp_path / "report.html").read_text()
    assert "Not shown to be better than confound-only[C=1.0]: oracle" in page
    assert "the test against chance" in page and "the comparisons with confound-only" in page
    study = make_study(180, age_effect=0.0, edge_effect=4.0)
    strong = ic.benchmark(study, methods, out=tmp_path / "strong", repeats=1, **FAST)
    rows = {row.method: row for row in strong.summary.rows}
    assert "better than confound-only" in rows["oracle"].verdict and not rows["oracle"].not_better_than
    assert "Not better than" not in strong.report(tmp_path / "report.html").read_text()


def test_it_changes_no_test_of_the_other_methods(tmp_path: Path) -> None:
    data = make_study(edge_effect=1.0)
    methods = ["linear[C=1.0]", ("oracle", Oracle()), "constant"]
    with_control = ic.benchmark(data, methods, out=tmp_path, repeats=1, **FAST)
    without = ic.benchmark(data.replace(covariates=None, sites=None), methods, out=tmp_path / "b", repeats=1, **FAST)
    pairs = [[(c.first, c.second) for c in results.summary.comparisons] for results in (with_control, without)]
    assert pairs[0] == pairs[1] and len(pairs[0]) == 3
    assert any(row.covariates for row in with_control.summary.rows)
    assert not any(row.covariates for row in without.summary.rows)


def test_it_is_absent_with_a_sentence_where_no_covariates_are_known(tmp_path: Path) -> None:
    data = make_study().replace(covariates=None)
    results = ic.benchmark(data, "linear[C=1.0]", protocol="leave-site-out", out=tmp_path, **FAST)
    assert [row.name for row in results.summary.rows] == ["linear"]
    assert any("no row confound-only" in sentence for sentence in results.remarks)
    assert "no row confound-only" in results.report(tmp_path / "report.html").read_text()
    with pytest.raises(InputError, match="covariates="):
        ic.benchmark(data, "confound-only", protocol="leave-site-out", out=tmp_path, **FAST)


def test_a_sweep_and_a_list_without_baselines_stay_as_they_are(tmp_path: Path) -> None:
    options = {"folds": 2, "repeats": 1, "out": tmp_path, **FAST}
    swept = ic.sweep(make_study(), "linear", {"C": [0.1, 1.0]}, **options)
    assert [row.name for row in swept.summary.rows] == ["linear", "linear"]
    own = ic.benchmark(make_study(), [("oracle", Oracle())], **options)
    assert [row.method for row in own.summary.rows] == ["oracle"]


def test_permutations_move_covariates_and_an_audit_of_nodes_leaves_it_out(tmp_path: Path) -> None:
    options = {"folds": 2, "repeats": 1, "out": tmp_path, **FAST}
    results = ic.benchmark(make_study(60), "confound-only[C=1.0]", permutations=19, audit="node-order", **options)
    [row] = results.summary.rows
    assert row.jobs == 2 * (1 + 19) and row.audit is None
    assert row.p_chance == pytest.approx(0.05)


def test_the_command_line_takes_it_by_name_with_named_covariates(tmp_path: Path) -> None:
    path = tmp_path / "study.npz"
    make_study(60).save(path)
    out = tmp_path / "out"
    command = ["benchmark", str(path), "--methods", "confound-only[C=1.0]", "--covariates", "iq,Age", "--folds", "2"]
    shown = CliRunner().invoke(main, [*command, "--repeats", "1", "--jobs", "0", "--out", str(out)])
    assert shown.exit_code == 0, shown.output
    [row] = ic.open_results(out).summary.rows
    assert row.method == "confound-only[C=1.0]" and set(row.covariates) == {"iq", "Age", "site"}


class NearestAge(ClassifierMixin, BaseEstimator):
    """A control of a user: its first column against its mean in each class."""

    input = "covariates"

    def fit(self, X: np.ndarray, y: np.ndarray) -> "NearestAge":
        self.classes_ = np.unique(y)
        self.means_ = np.array([X[y == label, 0].mean() for label in self.classes_])
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        nearness = np.exp(-np.abs(X[:, :1] - self.means_))
        return nearness / nearness.sum(axis=1, keepdims=True)


def test_a_class_can_declare_that_it_is_given_covariates(tmp_path: Path) -> None:
    methods = [NearestAge, ("oracle", Oracle())]
    results = ic.benchmark(make_study(60), methods, folds=2, repeats=1, out=tmp_path, **FAST)
    rows = {row.method: row for row in results.summary.rows}
    assert rows["NearestAge"].metrics["roc_auc"].mean > 0.9 and list(rows["NearestAge"].covariates)
    assert list(rows["oracle"].not_better_than) == ["NearestAge"]


@pytest.mark.parametrize("name", ["sex", "Gender"])
def test_the_target_is_never_a_confound(name: str) -> None:
    study = make_study()
    assert study.covariates is not None
    frame = study.covariates.drop(columns="sex").assign(**{name: np.array(["F", "M"])[study.labels]})
    told = BrainGraphs(study.X, study.labels, covariates=frame, name="study")
    step = covariates_step(told, Protocol("nested"))
    assert step is not None and step.columns == ("Age",)
