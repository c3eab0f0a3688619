"""The front door for Python: a benchmark in one call, with a user's own classifiers, and what comes out of it."""

import importlib.util
import json
import linecache
import os
import subprocess
import sys
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import zscore
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC

import isocapsnet as ic
from isocapsnet._code_versions import source_version
from isocapsnet._methods import list_methods, list_one_method
from isocapsnet.evaluation import Store
from isocapsnet.evaluation.estimation import build_estimator

SMALL: dict[str, Any] = {"repeats": 1, "candidates": 1, "explain": False, "progress": False}


class MyClassifier(ClassifierMixin, BaseEstimator):
    """A user's own classifier: logistic regression on the rows of some nodes."""

    def __init__(self, n_rows: int = 2, random_state: int | None = None) -> None:
        self.n_rows, self.random_state = n_rows, random_state

    def fit(self, X: np.ndarray, y: np.ndarray) -> "MyClassifier":
        self.model_ = LogisticRegression().fit(X[:, : self.n_rows].reshape(len(X), -1), y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.model_.predict_proba(X[:, : self.n_rows].reshape(len(X), -1))


def flatten(X: np.ndarray) -> np.ndarray:
    return X.reshape(len(X), -1)


@pytest.fixture(scope="module")
def study() -> ic.BrainGraphs:
    planted = ic.make_planted_graphs(30, 6, signal_to_noise=4.0, random_state=0)
    labels = np.array(["control", "case"])[planted.labels]
    return ic.BrainGraphs(planted.graphs, labels, subjects=[f"sub-{i:02}" for i in range(30)], name="small")


@pytest.fixture(scope="module")
def results(study: ic.BrainGraphs, tmp_path_factory: pytest.TempPathFactory) -> ic.Results:
    """Three methods, one of them the user's own, in a worker process."""
    return ic.benchmark(
        study,
        methods=["linear", "constant", MyClassifier(n_rows=3)],
        protocol="nested",
        out=tmp_path_factory.mktemp("run") / "results",
        jobs=1,
        **SMALL,
    )


def test_a_benchmark_is_one_call(results: ic.Results, study: ic.BrainGraphs, tmp_path: Path) -> None:
    assert results.table["method"].tolist() == ["linear", "constant", "MyClassifier[n_rows=3]"]
    assert results.table["failed"].tolist() == [0, 0, 0]
    assert {"roc_auc", "roc_auc_low", "roc_auc_high", "accuracy", "p_chance", "verdict"} <= set(results.table)
    assert results.table["roc_auc"].between(0, 1).all()
    frame = results.predictions
    assert len(frame) == 3 * 30 and not frame.duplicated(["method", "repeat", "subject"]).any()
    truth = dict(zip(study.subjects, np.array(study.label_names)[study.labels], strict=True))
    assert (frame["label"] == frame["subject"].map(truth)).all()
    assert np.allclose(frame["p_case"] + frame["p_control"], 1)
    assert ((frame["p_case"] >= 0.5) == (frame["prediction"] == "case")).all()
    page = results.report(tmp_path / "report.html")
    assert "MyClassifier" in page.read_text()


def test_results_open_from_their_folder(results: ic.Results) -> None:
    opened = ic.open_results(results.folders[0])
    by_method = [r.table.sort_values("method").reset_index(drop=True) for r in (results, opened)]
    pd.testing.assert_frame_equal(*by_method)
    assert opened.verdicts == results.verdicts
    assert opened.context["passport"]["name"] == "small"
    assert opened.notes == []
    keys = ["method", "repeat", "subject"]
    frames = [r.predictions.sort_values(keys).reset_index(drop=True) for r in (results, opened)]
    pd.testing.assert_frame_equal(*frames)


def test_results_show_themselves_and_their_figures(results: ic.Results) -> None:
    shown = results._repr_html_()
    assert all(f"<th>{method}" in shown for method in ("linear", "constant"))
    assert results.verdicts["constant"] in shown
    assert "comparison" in dir(results.plot)
    assert results.plot.comparison().axes
    with pytest.raises(AttributeError, match="comparison"):
        results.plot.nothing()


def test_arrays_and_a_dataset_give_the_same_numbers(study: ic.BrainGraphs, tmp_path: Path) -> None:
    assert study.adjacency is not None
    labels = np.array(study.label_names)[study.labels]
    given = {"dataset": study, "arrays": (study.adjacency, labels)}
    tables = {
        name: ic.benchmark(data, ["linear"], out=tmp_path / name, jobs=0, **SMALL).table for name, data in given.items()
    }
    assert tables["arrays"]["failed"].tolist() == [0]
    assert len(tables["arrays"]) == len(tables["dataset"]) == 1


def test_progress_goes_to_a_function_or_nowhere(
    study: ic.BrainGraphs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes: list[Any] = []
    options = {**SMALL, "out": tmp_path, "jobs": 0}
    ic.benchmark(study, ["constant"], **{**options, "progress": outcomes.append})
    assert [outcome.error for outcome in outcomes] == [None] * 3
    ic.benchmark(study, ["constant"], **{**options, "repeats": 2})
    assert capsys.readouterr().out == ""
    ic.benchmark(study, ["constant"], **{**options, "progress": True})
    assert "3 jobs: 3 done" in capsys.readouterr().out


def test_a_dry_run_writes_nothing(study: ic.BrainGraphs, tmp_path: Path) -> None:
    results = ic.benchmark(study, ["linear"], out=tmp_path / "run", dry_run=True, **SMALL)
    assert results.table.empty
    assert not (tmp_path / "run").exists()


# -- a user's own methods -----------------------------------------------------------------------------------------


def _n_run(study: ic.BrainGraphs, method: Any, out: Path) -> int:
    """The jobs that a benchmark of this method has to run."""
    outcomes: list[Any] = []
    ic.benchmark(study, [method], out=out, jobs=0, **{**SMALL, "progress": outcomes.append})
    assert not [outcome.error for outcome in outcomes if outcome.error]
    return len(outcomes)


def test_stored_results_are_reused_for_the_same_source_and_parameters_alone(
    study: ic.BrainGraphs, tmp_path: Path
) -> None:
    assert _n_run(study, MyClassifier, tmp_path) == 3
    assert _n_run(study, MyClassifier(), tmp_path) == 0
    assert _n_run(study, MyClassifier(n_rows=1), tmp_path) == 3

    class MyChangedClassifier(MyClassifier):
        def predict_proba(self, X: np.ndarray) -> np.ndarray:
            return super().predict_proba(X)[:, ::-1]

    assert _n_run(study, ("MyClassifier", MyChangedClassifier()), tmp_path) == 3
    assert _n_run(study, ("MyClassifier", MyChangedClassifier()), tmp_path) == 0


def test_a_folder_shows_the_method_as_it_was_in_the_last_run(study: ic.BrainGraphs, tmp_path: Path) -> None:
    class Changed(MyClassifier):
        def predict_proba(self, X: np.ndarray) -> np.ndarray:
            return super().predict_proba(X)[:, ::-1]

    first, second = ("mine", MyClassifier()), ("mine", Changed())
    areas = [
        ic.benchmark(study, [method], out=tmp_path, jobs=0, **SMALL).table["roc_auc"].tolist()
        for method in (first, second)
    ]
    assert areas[0] != areas[1]
    for method, expected in ((second, areas[1]), ("constant", areas[1]), (first, areas[0])):
        ic.benchmark(study, [method], out=tmp_path, jobs=0, **SMALL)
        opened = ic.open_results(tmp_path)
        assert opened.table.set_index("method").loc[["mine"], "roc_auc"].tolist() == expected
        [note] = [note for note in opened.notes if "mine" in note]
        assert note in opened._repr_html_()
    [both] = ic.compare(tmp_path)
    assert len(both.table) == 3
    assert len([method for method in both.table["method"] if method.startswith("mine")]) == 2


def test_a_pipeline_is_told_apart_by_the_estimators_in_it(study: ic.BrainGraphs, tmp_path: Path) -> None:
    for C in (1.0, 2.0):
        pipeline = make_pipeline(FunctionTransformer(flatten), LogisticRegression(C=C))
        assert _n_run(study, ("flat", pipeline), tmp_path) == 3
    assert _n_run(study, ("flat", pipeline), tmp_path) == 0


def test_a_built_in_estimator_is_the_method_of_its_name(study: ic.BrainGraphs, tmp_path: Path) -> None:
    assert _n_run(study, "linear[C=1.0]", tmp_path) == 3
    assert _n_run(study, ic.LinearClassifier(C=1.0), tmp_path) == 0


def test_a_class_of_a_notebook_is_known_by_its_functions() -> None:
    """Python does not find the source of such a class, but that of its functions."""

    def run_cell(number: int, text: str) -> Any:
        name = f"<cell {number}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        scope: dict[str, Any] = {"__name__": "__main__", "BaseEstimator": BaseEstimator}
        exec(compile(text, name, "exec"), scope)
        return scope["Mine"]()

    text = "class Mine(BaseEstimator):\n    size = 3\n    def fit(self, X, y):\n        return self\n"
    first, again = run_cell(1, text), run_cell(2, text)
    other = run_cell(3, text.replace("return self", "return  self"))
    attribute = run_cell(4, text.replace("3", "4"))
    assert source_version(first) == source_version(again)
    assert len({source_version(e) for e in (first, other, attribute)}) == 3


def _on_epoch(*args: Any) -> None:
    """A callback that does nothing."""


def _rebuild(method: Any, seed: int = 0, **tuned: Any) -> Any:
    """The estimator that a worker builds after its task went through JSON."""
    spec = list_one_method(method)
    parameters = json.loads(json.dumps({**spec.parameters, **tuned, **spec.runtime}))
    return build_estimator(spec.factory, parameters, seed)


class Bare:
    """A classifier without the base classes of scikit-learn."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Bare":
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))


class Untagged(Bare, BaseEstimator):
    """One that is no ClassifierMixin."""


class Demanding(MyClassifier):
    """One that needs an argument."""

    def __init__(self, n_rows: int) -> None:
        super().__init__(n_rows)


class MyLinear(ic.LinearClassifier):
    """A user's own version of a method of the package."""


class MyNetwork(ic.IsoCapsNetClassifier):
    """A user's own network."""


def test_classifiers_without_tags_are_run(study: ic.BrainGraphs, tmp_path: Path) -> None:
    assert [_n_run(study, method, tmp_path) for method in (Bare(), Untagged)] == [3, 3]
    assert list_one_method(Bare()).is_multiclass and list_one_method(Untagged()).is_multiclass


def test_a_plugin_that_needs_arguments_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isocapsnet._methods.load_plugins", lambda: {"demanding": Demanding})
    with pytest.raises(ic.InputError, match="Demanding"):
        list_one_method("demanding")


def test_the_name_of_a_method_of_the_package_is_for_that_method_alone() -> None:
    for taken in (("linear", MyClassifier()), ("linear", MyLinear())):
        with pytest.raises(ic.InputError, match="linear"):
            list_one_method(taken)
    with pytest.raises(ic.InputError, match="3"):
        list_one_method((3, MyClassifier()))
    assert list_one_method(("linear", ic.LinearClassifier(C=1.0))) == list_one_method("linear[C=1.0]")


def test_one_method_needs_no_list() -> None:
    assert [spec.name for spec in list_methods(MyClassifier())] == ["MyClassifier"]
    assert [spec.name for spec in list_methods(MyClassifier)] == ["MyClassifier"]
    assert [spec.name for spec in list_methods(("mine", MyClassifier()))] == ["mine"]
    assert [spec.name for spec in list_methods(("linear", MyClassifier()))] == ["linear", "MyClassifier"]
    pipeline = make_pipeline(FunctionTransformer(flatten), LogisticRegression())
    assert [spec.name for spec in list_methods(pipeline)] == ["Pipeline"]


def test_the_device_of_a_network_is_no_part_of_the_key() -> None:
    for make in (MyNetwork, lambda **options: ("mine", ic.IsoCapsNetClassifier(**options))):
        plain, silent = list_one_method(make()), list_one_method(make(device="cpu", verbose=1))
        assert (plain.version, plain.parameters) == (silent.version, silent.parameters)
        assert silent.runtime["device"] == "cpu" and silent.runtime["verbose"] == 1
        assert list_one_method(make(), device="cpu").runtime["device"] == "cpu"
        assert _rebuild(make(device="cpu")).device == "cpu"
    assert list_one_method(("mine", ic.LinearClassifier())).can_be_saved
    assert not list_one_method(MyNetwork()).can_be_saved


def test_no_parameter_of_a_built_in_estimator_is_lost() -> None:
    plain = list_one_method(ic.LinearClassifier(C=np.float64(1.0)))
    assert plain == list_one_method("linear[C=1.0]") and type(plain.parameters["C"]) is float
    network = ic.IsoCapsNetClassifier(decoder_sizes=np.array([4, 4]))
    assert list_one_method(network).parameters == {"decoder_sizes": [4, 4]}
    assert _rebuild(network).decoder_sizes == (4, 4)
    assert _rebuild(ic.IsoCapsNetClassifier(callbacks=[_on_epoch])).callbacks == [_on_epoch]
    seeded = _rebuild(ic.LinearClassifier(random_state=np.random.RandomState(3)), seed=5)
    assert seeded.random_state.randint(1000) == np.random.RandomState(3).randint(1000)


def test_only_what_tuning_chose_is_set_on_a_pickled_estimator() -> None:
    weighted = LogisticRegression(class_weight={0: 1, 1: 2}, C=np.float64(2.0))
    assert _rebuild(weighted).get_params()["class_weight"] == {0: 1, 1: 2}
    assert _rebuild(weighted).C == 2.0 and _rebuild(weighted, C=3.0).C == 3.0


def test_numbers_of_numpy_reach_worker_processes(study: ic.BrainGraphs, tmp_path: Path) -> None:
    methods = [MyClassifier(n_rows=np.int64(1)), ic.LinearClassifier(C=np.float64(0.5))]
    results = ic.benchmark(study, methods, out=tmp_path, jobs=1, **SMALL)
    assert results.table["method"].tolist() == ["MyClassifier[n_rows=1]", "linear[C=0.5]"]
    assert results.table["failed"].tolist() == [0, 0]


def test_every_step_without_a_seed_gets_one() -> None:
    forest = RandomForestClassifier()
    pipeline = make_pipeline(FunctionTransformer(flatten), PCA(random_state=1), forest)
    built = _rebuild(pipeline, seed=7).get_params()
    assert built["randomforestclassifier__random_state"] == 7 and built["pca__random_state"] == 1
    assert forest.random_state is None
    assert _rebuild(MyClassifier(), seed=7).random_state == 7
    assert _rebuild(MyClassifier(random_state=2), seed=7).random_state == 2


def _factory(k: int) -> Any:
    class Made(BaseEstimator):
        def fit(self, X: np.ndarray, y: np.ndarray) -> "Made":
            self.k_ = k
            return self

    return Made()


def _scale(k: int) -> Any:
    return lambda X: X * k


class _Scaler:
    def __init__(self, k: int) -> None:
        self.k = k

    def scale(self, X: np.ndarray) -> np.ndarray:
        return X * self.k


@dataclass
class _Options:
    k: int

    def scale(self, X: np.ndarray) -> np.ndarray:
        return zscore(X) * self.k


@pytest.mark.parametrize(
    "make",
    [
        _factory,
        lambda k: FunctionTransformer(_Options(k).scale),
        lambda k: FunctionTransformer(_scale(k)),
        lambda k: FunctionTransformer(_Scaler(k).scale),
        lambda k: FunctionTransformer(partial(np.multiply, k)),
        lambda k: FunctionTransformer(flatten, kw_args={k: 1}),
    ],
)
def test_values_behind_functions_are_part_of_the_version(make: Any) -> None:
    assert source_version(make(2)) == source_version(make(2)) != source_version(make(3))


def test_global_variables_and_the_code_in_memory_are_part_of_the_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    text = "K = 2\ndef helper(X):\n    return X * K\ndef scale(X):\n    return [helper(x) for x in X]\n"
    (tmp_path / "scaling.py").write_text(text)
    module = importlib.import_module("scaling")
    estimator = FunctionTransformer(module.scale)
    first = source_version(estimator)
    assert source_version(estimator) == first
    monkeypatch.setattr(module, "K", 3)
    assert source_version(estimator) != first
    monkeypatch.setattr(module, "K", 2)
    assert source_version(estimator) == first
    module.helper.__code__ = (lambda X: X + K).__code__  # type: ignore[name-defined] # noqa: F821
    assert source_version(estimator) != first
    monkeypatch.delitem(sys.modules, "scaling")


def test_a_module_that_is_used_by_attribute_is_part_of_the_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "helpers").mkdir()
    (tmp_path / "helpers" / "__init__.py").write_text("from . import scaling\n")
    (tmp_path / "user.py").write_text("import helpers\ndef scale(X):\n    return helpers.scaling.scale(X)\n")
    versions = []
    for factor in (2, 2, 3):
        (tmp_path / "helpers" / "scaling.py").write_text(f"def scale(X):\n    return X * {factor}\n")
        linecache.clearcache()
        for name in ("user", "helpers", "helpers.scaling"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        versions.append(source_version(FunctionTransformer(importlib.import_module("user").scale)))
    assert versions[0] == versions[1] != versions[2]


def test_without_source_nothing_stored_is_reused() -> None:
    scope: dict[str, Any] = {"BaseEstimator": BaseEstimator, "__name__": "__main__"}
    exec("class Mine(BaseEstimator):\n    def fit(self, X, y):\n        return self\n", scope)
    assert source_version(scope["Mine"]()) != source_version(scope["Mine"]())


_SCRIPT = """
import sys
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
import isocapsnet as ic

class Scripted(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self
    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))

planted = ic.make_planted_graphs(24, 6, random_state=0)
n_run = []
results = ic.benchmark((planted.graphs, planted.labels), [Scripted()], out=sys.argv[1], repeats=1, jobs=1,
                       progress=n_run.append)
print(len(n_run), results.table["failed"].tolist())
"""


def test_a_class_of_a_script_runs_in_worker_processes_and_its_results_are_reused(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT)
    for expected in ("3 [0]", "0 [0]"):
        command = [sys.executable, str(script), str(tmp_path / "results")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected, done.stderr
    assert not [path for path in (tmp_path / "results").rglob("*") if b"cloudpickle" in _content(path)]


_STEPS = """
from sklearn.base import BaseEstimator, TransformerMixin

class Flatten(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self
    def transform(self, X):
        return scale(X.reshape(len(X), -1))

def scale(X):
    return 2 * X
"""


def test_steps_of_modules_that_a_worker_cannot_import_run_in_worker_processes(
    study: ic.BrainGraphs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(name: str) -> Any:
        (tmp_path / f"{name}.py").write_text(_STEPS)
        spec = importlib.util.spec_from_file_location(name, tmp_path / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "shadowed_steps.py").write_text("raise RuntimeError('this file is not the one in use')")
    monkeypatch.syspath_prepend(str(tmp_path / "path"))
    methods = [
        (name, make_pipeline(FunctionTransformer(np.abs), load(name).Flatten(), LogisticRegression()))
        for name in ("loaded_steps", "shadowed_steps")
    ]
    results = ic.benchmark(study, methods, out=tmp_path / "run", jobs=1, **SMALL)
    assert results.table["failed"].tolist() == [0, 0]


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


@pytest.mark.parametrize(
    ("method", "fact"),
    [
        (SVC(), "predict_proba"),
        (object(), "scikit-learn"),
        ("lasso", "'lasso'"),
        ("linear[depth=3]", "depth"),
        (Demanding, "Demanding"),
        (MyClassifier(n_rows=(row for row in ())), "MyClassifier"),  # type: ignore[arg-type]
        (("a", "b", MyClassifier()), "tuple"),
    ],
)
def test_methods_that_cannot_be_used_are_refused(method: Any, fact: str, study: ic.BrainGraphs, tmp_path: Path) -> None:
    with pytest.raises(ic.InputError, match=fact):
        ic.benchmark(study, [method], out=tmp_path, **SMALL)


def test_errors_speak_of_arguments(study: ic.BrainGraphs, tmp_path: Path) -> None:
    for options, fact in (({"jobs": 2, "cluster": "local:2"}, "jobs= and cluster="), ({"harmonize": True}, "site=")):
        with pytest.raises(ic.InputError, match=fact):
            ic.benchmark(study, ["constant"], out=tmp_path, **{**SMALL, **options})


# -- plugins ------------------------------------------------------------------------------------------------------

_PLUGIN = """
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

class Edge(ClassifierMixin, BaseEstimator):
    def __init__(self, row=0):
        self.row = row
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.cut_ = np.median(X[:, self.row, 1])
        return self
    def predict_proba(self, X):
        above = np.where(X[:, self.row, 1] > self.cut_, 0.8, 0.2)
        return np.c_[1 - above, above]
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with a method, a broken one, and one with the name of a built-in method."""
    folder = tmp_path / "site"
    info = folder / "edge_plugin-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "edge_plugin.py").write_text(_PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: edge-plugin\nVersion: 1.0\n")
    entries = "edge = edge_plugin:Edge\nbroken = edge_plugin:Nothing\nlinear = edge_plugin:Edge\n"
    (info / "entry_points.txt").write_text(f"[isocapsnet.methods]\n{entries}")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
    return folder


@pytest.mark.usefixtures("plugin")
def test_a_method_of_another_package_is_used_by_its_name(study: ic.BrainGraphs, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="plugin") as caught:
        results = ic.benchmark(study, ["edge[row=1]", "constant"], out=tmp_path / "run", jobs=1, **SMALL)
    assert results.table.set_index("method")["failed"].to_dict() == {"edge[row=1]": 0, "constant": 0}
    warned = {name for name in ("broken", "linear") for message in caught if f"'{name}'" in str(message.message)}
    assert warned == {"broken", "linear"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ic.benchmark(study, ["linear"], out=tmp_path / "own", jobs=0, dry_run=True, **SMALL)
    study.save(tmp_path / "study.npz")
    command = [sys.executable, "-m", "isocapsnet", "benchmark", str(tmp_path / "study.npz"), "--methods", "edge"]
    options = ["--repeats", "1", "--jobs", "0", "--out", str(tmp_path / "cli")]
    done = subprocess.run([*command, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert pd.read_csv(tmp_path / "cli" / "results.csv")["failed"].tolist() == [0]


_DERIVED = """
import numpy as np
from isocapsnet.models import GraphClassifier

class Edge(GraphClassifier):
    def _fit(self, X, codes):
        pass
    def _predict_proba(self, X):
        return np.tile([0.5, 0.5], (len(X), 1))
"""


def test_an_edited_method_of_another_package_runs_again(
    study: ic.BrainGraphs, tmp_path: Path, plugin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_jobs = []
    for source in (_DERIVED, _DERIVED, _DERIVED.replace("[0.5, 0.5]", "[0.4, 0.6]")):
        (plugin / "edge_plugin.py").write_text(source)
        linecache.clearcache()
        monkeypatch.delitem(sys.modules, "edge_plugin", raising=False)
        outcomes: list[Any] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ic.benchmark(study, ["edge"], out=tmp_path / "run", jobs=0, **{**SMALL, "progress": outcomes.append})
        n_jobs.append(len(outcomes))
    assert n_jobs == [3, 0, 3]


# -- other doors --------------------------------------------------------------------------------------------------


def test_a_folder_of_an_earlier_version_opens_and_is_continued(study: ic.BrainGraphs, tmp_path: Path) -> None:
    options = {**SMALL, "out": tmp_path, "jobs": 0}
    before = ic.benchmark(study, ["linear", "constant"], **options)
    paths = list(tmp_path.glob("records/??/*.json"))
    assert len(paths) == 6
    for path in paths:
        path.rename(path.with_suffix(""))
    opened = ic.open_results(tmp_path)
    assert opened.verdicts == before.verdicts and len(opened.predictions) == 60
    outcomes: list[Any] = []
    after = ic.benchmark(study, ["linear", "constant"], **{**options, "progress": outcomes.append, "repeats": 2})
    assert len(outcomes) == 6
    assert after.table["jobs"].tolist() == [6, 6]
    assert len(list(Store(tmp_path).records())) == 12
    assert sorted(path.suffix for path in tmp_path.glob("records/??/*")) == [""] * 6 + [".json"] * 6


def test_a_sweep_knows_that_it_is_one(study: ic.BrainGraphs, tmp_path: Path) -> None:
    options = {key: value for key, value in SMALL.items() if key != "candidates"}
    results = ic.sweep(study, "linear", {"C": [0.1, 1.0]}, out=tmp_path, protocol="paper", jobs=0, **options)
    assert results.sweep is not None and results.sweep["C"].tolist() == [0.1, 1.0]
    opened = ic.open_results(tmp_path)
    assert opened.context["sweep"]["parameter"] == "C"
    assert opened.sweep is not None and opened.sweep["roc_auc"].tolist() == results.sweep["roc_auc"].tolist()
    assert (tmp_path / "sweep.csv").exists()


def test_compare_reads_folders_together_and_merges_them(study: ic.BrainGraphs, tmp_path: Path) -> None:
    for name in ("linear", "constant"):
        ic.benchmark(study, [name], out=tmp_path / name, jobs=0, **SMALL)
    [together] = ic.compare(tmp_path / "linear", tmp_path / "constant", out=tmp_path / "both")
    assert set(together.table["method"]) == {"linear", "constant"}
    assert ic.open_results(tmp_path / "both").verdicts == together.verdicts
    assert len(together.predictions) == 60


def test_fit_predict_and_transform(study: ic.BrainGraphs, tmp_path: Path) -> None:
    model = ic.fit(study, "linear", out=tmp_path / "model.safetensors")
    tables = [ic.predict(given, study) for given in (model, tmp_path / "model.safetensors")]
    pd.testing.assert_frame_equal(*tables)
    assert tables[0]["subject"].tolist() == study.subjects.tolist()
    with pytest.raises(ic.InputError, match="representation"):
        ic.transform(ic.fit(study, "constant"), study)
    study.save(tmp_path / "study.npz")
    assert ic.check_data(tmp_path / "study.npz").errors == []
    assert ic.check_data(tmp_path / "nothing.npz").errors


def test_results_json_names_the_call(results: ic.Results) -> None:
    content = json.loads((results.folders[0] / "results.json").read_text())
    assert content["command"].startswith("isocapsnet.benchmark(")
