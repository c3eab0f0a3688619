"""Models that hold their preparation: fitted to training subjects alone, saved in one file, applied to raw data."""

import copy
import json
import random
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.base import BaseEstimator, TransformerMixin

import isocapsnet as ic
from isocapsnet._explaining import describe_edges
from isocapsnet._methods import list_one_method, list_steps, list_transforms
from isocapsnet.cli import main
from isocapsnet.datasets.atlas import Atlas
from isocapsnet.datasets.connectivity import TRANSFORMS
from isocapsnet.evaluation.estimation import Fitter
from isocapsnet.evaluation.inner_scores import InnerScores
from isocapsnet.evaluation.preparation import NO_TRANSFORM, TRANSFORM, Preparation
from isocapsnet.evaluation.protocol import Protocol
from isocapsnet.evaluation.samples import Samples
from isocapsnet.models import _persistence
from isocapsnet.models._base import GraphClassifier
from tests.models.test_untrusted_files import mutate

N, NODES = 36, 6
METHODS = {
    "linear": "linear",
    "isocapsnet": "isocapsnet[max_epochs=2,decoder_sizes=(8,),n_templates=1,kernel_size=3,n_motifs=2,motif_size=3]",
    "gin": "gin[max_epochs=2,hidden_size=4]",
}
#: Options of a preparation of graphs, by a name.
GRAPHS: dict[str, dict[str, Any]] = {
    "none": {},
    "tangent": {"transform": "tangent"},
    "fisher-z": {"transform": "fisher-z[limit=0.99]"},
    "density": {"transform": "density[density=0.5]"},
    "threshold": {"transform": "threshold[quantile=0.3]"},
    "log": {"transform": "log"},
    "scale": {"transform": "scale"},
    "scale per edge": {"transform": "scale[per_edge=True]"},
    "signs": {"transform": "signs[policy=positive]"},
    "confounds": {"confounds": ("age", "sex")},
    "harmonize": {"harmonize": True},
    "all": {"transform": "fisher-z,scale,density", "harmonize": True, "confounds": ("age", "sex")},
}
SERIES: dict[str, dict[str, Any]] = {
    kind: {"connectivity": kind} for kind in ("correlation", "partial correlation", "covariance", "tangent")
} | {"tangent, confounds": {"connectivity": "tangent", "confounds": ("age",), "harmonize": True}}


def make_study(seed: int = 0, n: int = N, nodes: int = NODES) -> ic.BrainGraphs:
    """Time series with their correlations, a class, two sites with effects, age and sex."""
    rng = np.random.default_rng(seed)
    labels, sites = np.arange(n) % 2, np.where(np.arange(n) % 3 == 0, "north", "south")
    series = []
    for label, site in zip(labels, sites, strict=True):
        own = rng.normal(size=(60, nodes))
        own[:, 1] += (0.4 + label) * own[:, 0]
        own[:, 2] += (site == "north") * own[:, 3]
        series.append(own)
    covariates = pd.DataFrame({"age": rng.uniform(20, 60, n), "sex": rng.choice(["f", "m"], n)})
    return ic.BrainGraphs(
        np.stack([np.corrcoef(own.T) for own in series]),
        np.array(["control", "patient"])[labels],
        subjects=[f"s{i:02}" for i in range(n)],
        sites=sites,
        covariates=covariates,
        time_series=series,
        name="study",
    )


@pytest.fixture(scope="module")
def study() -> ic.BrainGraphs:
    return make_study()


def write_folder(data: ic.BrainGraphs, folder: Path, *, series: bool = False, decimals: int = 17) -> Path:
    """Raw files of a study: one matrix or time series per subject and a table."""
    folder.mkdir()
    for i, subject in enumerate(data.subjects):
        values = data.time_series[i] if series else data.adjacency[i]  # type: ignore[index]
        name = f"sub-{subject}_timeseries.tsv" if series else f"sub-{subject}.csv"
        np.savetxt(folder / name, values, delimiter="\t" if series else ",", fmt=f"%.{decimals}g")
    table = pd.DataFrame(data.covariates).reset_index(drop=True).assign(centre=data.sites)
    table.insert(0, "participant_id", [f"sub-{subject}" for subject in data.subjects])
    table["dx"] = np.array(data.label_names)[data.labels]
    table.to_csv(folder / "participants.tsv", sep="\t", index=False)
    return folder


def quiet_fit(*arguments: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ic.fit(*arguments, **options)


# -- round trips --------------------------------------------------------------------------------------------------

_PREDICT = """
import json, sys
import isocapsnet as ic
folders, requests = json.loads(sys.stdin.read())
options = {"site": "centre", "covariates": ["age", "sex"]}
data = {kind: ic.load_graphs(folder, **options) for kind, folder in folders.items()}
for model, kind, out in requests:
    ic.predict(model, data[kind]).to_csv(out, index=False, float_format="%.17g")
"""


@pytest.mark.parametrize("method", METHODS)
def test_a_saved_pipeline_predicts_raw_files_in_another_process_with_equal_probabilities(
    method: str, study: ic.BrainGraphs, tmp_path: Path
) -> None:
    new = make_study(seed=1, n=12)
    kinds = ("graphs", "series")
    folders = {kind: str(write_folder(new, tmp_path / kind, series=kind == "series")) for kind in kinds}
    expected, requests = {}, []
    graphs, series = study.replace(time_series=None), study.replace(adjacency=None)
    new_data = {"graphs": new.replace(time_series=None), "series": new.replace(adjacency=None)}
    cases = [("graphs", graphs, name, options) for name, options in GRAPHS.items()]
    cases += [("series", series, name, options) for name, options in SERIES.items()]
    if method != "linear":  # the preparation does not depend on the method
        cases = [case for case in cases if case[2] in ("none", "all", "tangent", "tangent, confounds")]
    for kind, data, name, options in cases:
        path = tmp_path / f"{kind}-{name}.safetensors"
        model = quiet_fit(data, METHODS[method], out=path, **options)
        assert isinstance(model, ic.PreparedModel) == (name != "none")
        expected[kind, name] = ic.predict(model, new_data[kind])
        again = ic.predict(ic.load_model(path), new_data[kind])
        pd.testing.assert_frame_equal(again, expected[kind, name], check_exact=True)
        requests.append([str(path), kind, str(path.with_suffix(".csv"))])
    subprocess.run([sys.executable, "-c", _PREDICT], input=json.dumps([folders, requests]), text=True, check=True)
    for (path, *_), ((kind, name), frame) in zip(requests, expected.items(), strict=True):
        other = pd.read_csv(Path(path).with_suffix(".csv"), dtype={"subject": str})
        assert other["subject"].tolist() == [f"sub-{subject}" for subject in frame["subject"]], name  # as the files
        probabilities = [f"p_{label}" for label in study.label_names]
        assert_allclose(other[probabilities], frame[probabilities], rtol=0, atol=1e-12, err_msg=f"{kind} {name}")


def test_every_transform_has_a_round_trip() -> None:
    named = " ".join(str(options) for options in GRAPHS.values())
    assert [name for name in TRANSFORMS if name not in named] == []


# -- one preparation, fitted to training subjects only ------------------------------------------------------------


def change_subjects(data: ic.BrainGraphs, who: np.ndarray) -> ic.BrainGraphs:
    """The data with other graphs, series, sites and covariates of some subjects."""
    rng = np.random.default_rng(5)
    other = make_study(seed=9)
    graphs, series, sites = np.array(data.adjacency), list(data.time_series or ()), np.array(data.sites, dtype="U20")
    covariates = pd.DataFrame(data.covariates).copy()
    for index in who:
        graphs[index], series[index] = other.adjacency[index] * 0.5, other.time_series[index] * 3  # type: ignore[index]
        sites[index] = f"elsewhere {index}"
        covariates.iloc[index, 0] = rng.uniform(200, 300)
        covariates.iloc[index, 1] = "unknown"
    return data.replace(adjacency=graphs, time_series=series, sites=sites, covariates=covariates)


@pytest.mark.parametrize("name", [*GRAPHS, *SERIES])
def test_the_fitted_state_is_bit_equal_when_test_subjects_change(name: str, study: ic.BrainGraphs) -> None:
    options = {"connectivity": None, "transform": "", "harmonize": False, "confounds": ()}
    options |= (GRAPHS | SERIES)[name]
    use_series = name in SERIES
    steps = list_steps(**options, has_series=use_series)
    train, test = np.arange(24), np.arange(24, N)
    states, graphs = [], []
    for data in (study, change_subjects(study, test)):
        samples, preparation = Samples(data, use_series=use_series), Preparation(steps)
        graphs.append(preparation.fit(samples, train, data.labels[train]))
        states.append(preparation.get_state())
    (values, arrays), (other_values, other_arrays) = states
    assert values == other_values and arrays.keys() == other_arrays.keys()
    for key, array in arrays.items():
        assert_array_equal(array, other_arrays[key])
    assert_array_equal(*graphs)
    # The spy sees something: the state depends on the training subjects.
    changed = Preparation(steps)
    changed.fit(Samples(change_subjects(study, np.arange(12)), use_series=use_series), train, study.labels[train])
    if arrays or any(values):
        assert str(changed.get_state()) != str((values, arrays))


@pytest.mark.parametrize("method", ["linear", "cpm", "gin[max_epochs=2,hidden_size=4]"])
def test_the_search_and_the_model_are_bit_equal_when_test_subjects_change(method: str, study: ic.BrainGraphs) -> None:
    """From raw graphs to weights: a search for transform and settings, then the fits of preparation and model."""
    spec, choices = list_one_method(method), list_transforms(["scale", "density"])
    steps = list_steps(connectivity=None, transform="", harmonize=True, confounds=("age", "sex"), has_series=False)
    space, protocol = {**spec.space, TRANSFORM: [NO_TRANSFORM, *choices]}, Protocol(n_candidates=4)

    def fit_all(data: ic.BrainGraphs) -> tuple[Any, ...]:
        samples, train = Samples(data), np.arange(24)
        labels, scores = data.labels[train], InnerScores()
        fitter = Fitter(spec.factory, spec.parameters, Preparation(steps, choices=choices), samples, np.arange(0), 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            settings = fitter.search(space, protocol, train, labels, None, lambda purpose: 0, scores)
            model = fitter.fit(settings, fitter.preparation.fit(samples, train, labels), labels)
        tried = {key: score for key, (score, _) in scores._scores.items()}
        values, arrays = model._get_state()
        values.pop("history", None)  # has seconds
        return settings, tried, *fitter.preparation.get_state(), values, arrays

    def compare(states: tuple[Any, ...], others: tuple[Any, ...]) -> None:
        for part, other in zip(states, others, strict=True):
            if isinstance(part, dict):
                assert part.keys() == other.keys()
                for key, value in part.items():
                    assert_array_equal(value, other[key], err_msg=key)
            else:
                assert part == other

    data = study.replace(time_series=None)
    fitted = fit_all(data)
    compare(fitted, fit_all(change_subjects(study, np.arange(24, N)).replace(time_series=None)))
    with pytest.raises(AssertionError):
        compare(fitted, fit_all(change_subjects(study, np.arange(3)).replace(time_series=None)))


@pytest.mark.parametrize("name", ["all", "tangent"])
def test_a_fold_of_a_benchmark_and_a_fit_prepare_alike(name: str, study: ic.BrainGraphs, tmp_path: Path) -> None:
    data = study.replace(time_series=None, folds=[np.arange(12), np.arange(12, 24), np.arange(24, N)])
    options: dict[str, Any] = {"progress": False, "jobs": 0, "explain": False, "save_models": True}
    results = ic.benchmark(data, ["linear"], protocol="paper", out=tmp_path / "r", **options, **GRAPHS[name])
    for (_, fold), key in results.summary.rows[0].keys.items():
        test = results.records[key]["test"]
        train = np.setdiff1d(np.arange(N), test)
        fitted = quiet_fit(data.subset(train), "linear", **GRAPHS[name])
        saved = ic.load_model(tmp_path / "r" / "artifacts" / key / "model.safetensors")
        assert_array_equal(saved.prepare(data.subset(test)), fitted.prepare(data.subset(test)), err_msg=str(fold))
        assert_allclose(saved.predict_proba(data.subset(test)), results.records[key]["probabilities"], atol=1e-15)


# -- refusals -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(study: ic.BrainGraphs) -> Any:
    return quiet_fit(study.replace(time_series=None), "linear", **GRAPHS["all"])


def test_subjects_that_cannot_be_prepared_are_refused(model: Any, study: ic.BrainGraphs) -> None:
    data = study.replace(time_series=None)
    graphs, covariates = np.array(data.adjacency), pd.DataFrame(data.covariates)
    elsewhere = np.array(["moon", *np.array(data.sites)[1:]])
    gap, level = covariates.copy(), covariates.copy()
    gap.iloc[4, 0] = np.nan
    level.iloc[5, 1] = "x"
    text = covariates.astype({"age": object})
    text.iloc[6, 0] = "unknown"
    cases = {
        "'moon'.*1 of 36 subjects": data.replace(sites=elsewhere),
        "site=": data.replace(sites=None),
        "'sex'": data.replace(covariates=covariates[["age"]]),
        "covariates=": data.replace(covariates=None),
        "s04": data.replace(covariates=gap),
        "s05": data.replace(covariates=level),
        "s06": data.replace(covariates=text),
        "5 nodes": data.replace(adjacency=graphs[:, :5, :5]),
        "time series": study.replace(adjacency=None),
        "at most 1": data.replace(adjacency=1.5 * graphs),
        "no negative edge": data.replace(adjacency=np.abs(graphs)),
        "diagonal of 0": data.replace(adjacency=graphs * ~np.eye(NODES, dtype=bool)),
        "directed edges": data.replace(adjacency=graphs + np.triu(np.full((NODES, NODES), 0.01), 1) * (graphs < 0.9)),
        "on average": data.replace(adjacency=graphs * np.where(np.eye(NODES, dtype=bool), 1, 1e-3)),
    }
    for fact, changed in cases.items():
        with pytest.raises(ic.InputError, match=fact) as caught:
            ic.predict(model, changed)
        assert str(caught.value).endswith(".") and "\n" not in str(caught.value)
    assert len(ic.predict(model, data)) == N


def test_policies_for_sites_and_covariates_are_stated_or_refused(model: Any, study: ic.BrainGraphs) -> None:
    data = study.replace(time_series=None)
    covariates = pd.DataFrame(data.covariates).copy()
    covariates.iloc[4, 0] = np.nan
    gap = data.replace(covariates=covariates)
    average = ic.predict(model, gap, missing_covariates="average")
    mean = pd.DataFrame(data.covariates)["age"].mean()
    covariates.iloc[4, 0] = mean
    assert_allclose(average["p_patient"], ic.predict(model, data.replace(covariates=covariates))["p_patient"])
    moved = data.replace(sites=["moon", *np.array(data.sites)[1:]])
    with pytest.warns(UserWarning, match="moon"):
        kept = ic.predict(model, moved, unseen_sites="keep")
    assert_array_equal(kept["p_patient"][1:], ic.predict(model, data)["p_patient"][1:])
    stated = quiet_fit(data, "linear", transform="harmonize[unseen=keep]")
    with pytest.warns(UserWarning, match="moon"):
        ic.predict(stated, moved)
    with pytest.raises(ic.InputError, match="moon"):
        ic.predict(stated, moved, unseen_sites="refuse")
    strict = quiet_fit(data, "linear", transform="harmonize[unseen=refuse]")
    with pytest.raises(ic.InputError, match="moon"):
        ic.predict(strict, moved)
    with pytest.warns(UserWarning, match="moon"):
        assert_array_equal(strict.prepare(moved, unseen_sites="keep")[0], np.array(data.adjacency)[0])
    for option in ({"unseen_sites": "keep"}, {"missing_covariates": "average"}):
        for other in ({}, {"confounds": "age"} if "unseen_sites" in option else {"harmonize": True}):
            with pytest.raises(ic.InputError, match=f"{next(iter(option))}="):
                ic.predict(quiet_fit(data, "linear", **other), data, **option)
    with pytest.raises(ic.InputError, match="unseen_sites="):
        ic.predict(model, data, unseen_sites="drop")


def test_series_are_needed_by_a_model_that_makes_its_graphs(study: ic.BrainGraphs) -> None:
    model = quiet_fit(study, "linear", connectivity="tangent")
    assert model.needs_series
    with pytest.raises(ic.InputError, match="time series"):
        ic.predict(model, study.replace(time_series=None))
    series = list(study.time_series or ())
    assert_array_equal(model.predict_proba(series), model.predict_proba(study))


@pytest.mark.parametrize("options", [{}, {"transform": "scale"}])
def test_time_series_are_refused_by_a_model_of_graphs(options: dict[str, Any], study: ic.BrainGraphs) -> None:
    model = quiet_fit(study.replace(time_series=None), "linear", **options)
    with pytest.raises(ic.InputError, match="time series"):
        ic.predict(model, study.replace(adjacency=None))


def test_the_range_of_values_is_that_of_the_graphs_that_trained(study: ic.BrainGraphs) -> None:
    graphs = np.array(study.adjacency)
    names = [*np.array(study.label_names)[study.labels], None]
    data = ic.BrainGraphs(np.concatenate([graphs, 50 * graphs[:1]]), names)
    assert quiet_fit(data, "linear").input_range_ == quiet_fit(data.subset(np.arange(N)), "linear").input_range_
    with pytest.raises(ic.InputError, match="kind"):
        ic.predict(quiet_fit(data, "linear"), ic.BrainGraphs(50 * graphs))
    used = quiet_fit(data, "autoencoder[max_epochs=1,pretraining_epochs=0,calibrate=False]", use_unlabeled=True)
    assert used.input_range_["largest"][1] == 50 * np.abs(graphs[0][~np.eye(NODES, dtype=bool)]).max()


def test_weights_below_one_are_not_taken_for_correlations() -> None:
    weights = np.abs(np.random.default_rng(0).normal(size=(N, NODES, NODES))) * ~np.eye(NODES, dtype=bool)
    weights = (weights + weights.swapaxes(1, 2)) / (2.1 * weights.max())
    model = quiet_fit(ic.BrainGraphs(weights, np.arange(N) % 2), "linear")
    assert len(ic.predict(model, ic.BrainGraphs(2 * weights))) == N
    signed = weights * np.where(np.arange(N) % 2, 1, -1)[:, None, None] / weights.max() * 0.99
    for training in (weights + np.eye(NODES), signed):
        with pytest.raises(ic.InputError, match="correlations"):
            ic.predict(quiet_fit(ic.BrainGraphs(training, np.arange(N) % 2), "linear"), ic.BrainGraphs(2 * training))


def test_levels_that_look_like_numbers_are_the_same_as_texts_and_as_numbers(study: ic.BrainGraphs) -> None:
    data = study.replace(time_series=None, covariates=pd.DataFrame({"arm": ["1", "2", "x"] * (N // 3)}))
    model, new = quiet_fit(data, "linear", confounds="arm"), data.subset(np.flatnonzero(np.arange(N) % 3 < 2))
    numbers = new.replace(covariates=pd.DataFrame({"arm": [1, 2] * (N // 3)}))
    assert_array_equal(model.predict_proba(numbers), model.predict_proba(new))


def test_what_cannot_be_saved_is_refused_before_the_training(
    study: ic.BrainGraphs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Halves(TransformerMixin, BaseEstimator):
        def fit(self, X: np.ndarray, y: Any = None) -> "Halves":
            return self

        def transform(self, X: np.ndarray) -> np.ndarray:
            return X / 2

    monkeypatch.setattr(sys.modules[__name__], "Halves", Halves, raising=False)
    Halves.__module__, Halves.__qualname__ = __name__, "Halves"
    monkeypatch.setitem(TRANSFORMS, "halves", Halves)  # type: ignore[arg-type]
    fits: list[Any] = []
    monkeypatch.setattr(GraphClassifier, "_fit_checked", lambda self, *arguments: fits.append(self) or self)
    data, out = study.replace(time_series=None), tmp_path / "model"
    cases: dict[str, dict[str, Any]] = {
        "decoder=False": {"method": "linear", "decoder": False},
        "no decoder": {"method": "isocapsnet[reconstruction_weight=0]", "decoder": False},
        "nowhere": {"method": "linear", "out": tmp_path / "nowhere" / "model"},
        "folder": {"method": "linear", "out": tmp_path},
        "halves": {"method": "linear", "transform": "halves"},
    }
    for fact, options in cases.items():
        with pytest.raises(ic.InputError, match=fact):
            quiet_fit(data, **{"out": out} | options)
    assert fits == [] and list(tmp_path.iterdir()) == []


def test_options_of_a_preparation_are_checked_before_the_fit(study: ic.BrainGraphs) -> None:
    graphs = study.replace(time_series=None)
    cases: dict[str, dict[str, Any]] = {
        "'speed'": {"transform": "speed"},
        "site=": {"harmonize": True, "data": graphs.replace(sites=None)},
        "'height'": {"confounds": "height"},
        "connectivity=": {"connectivity": "correlation"},
        "precision=": {"precision": "double"},
    }
    for fact, options in cases.items():
        with pytest.raises(ic.InputError, match=fact):
            ic.fit(**{"data": graphs, "method": "linear"} | options)


def test_raw_arrays_with_sites_and_covariates_are_prepared(model: Any, study: ic.BrainGraphs) -> None:
    data = study.replace(time_series=None)
    found = model.predict_proba(np.array(data.adjacency), sites=data.sites, covariates=data.covariates)
    assert_array_equal(found, model.predict_proba(data))
    assert_array_equal(model.classes_[found.argmax(axis=1)], model.predict(data))


# -- files --------------------------------------------------------------------------------------------------------


def read_file(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    with safe_open(path, framework="np") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return json.loads(file.metadata()["isocapsnet"]), arrays


def write_file(path: Path, content: dict[str, Any], arrays: dict[str, np.ndarray]) -> Path:
    """A file with this content and a digest that fits."""
    text = {"isocapsnet": json.dumps(content), "sha256": _persistence._digest(content, arrays)}
    save_file({name: np.asarray(array, order="C") for name, array in arrays.items()}, path, text)
    return path


def change(value: Any, *path: Any, to: Any) -> Any:
    """A copy of JSON with another value at a path; encoded mappings are searched by key."""
    if not path:
        return to
    first, *rest = path
    if isinstance(value, dict) and "dict" in value:
        return {"dict": [[k, change(v, *rest, to=to) if k == first else v] for k, v in value["dict"]]}
    copied = list(value) if isinstance(value, list) else dict(value)
    copied[first] = change(value[first], *rest, to=to)
    return copied


def test_a_tampered_pipeline_is_refused(model: Any, tmp_path: Path) -> None:
    path = ic.save_model(model, tmp_path / "model")
    content, arrays = read_file(path)
    steps = [step.name for step in model.steps]
    number = {name: str(steps.index(name)) for name in steps}
    where = ("preparation", "steps")
    scale = f"preparation/{number['harmonize']}/scale"
    assert scale in arrays
    old_digest = {"isocapsnet": json.dumps(content), "sha256": _persistence._digest(content, arrays)}
    save_file({**arrays, scale: arrays[scale] * 1.01}, path, old_digest)
    with pytest.raises(ic.InputError, match="digest"):
        ic.load_model(path)
    changes: dict[str, Any] = {
        "os:system": change(content, *where, 0, "name", to="os:system"),
        "'command'": change(content, *where, 0, "parameters", to={"dict": [["command", "ls"]]}),
        "unseen": change(content, *where, steps.index("harmonize"), "parameters", to={"dict": [["unseen", "x"]]}),
        "columns": change(content, *where, steps.index("fisher-z"), "columns", to=["age"]),
        "not the first": change(content, *where, 1, "name", to="connectivity"),
        "sorted": change(content, "preparation", "values", steps.index("harmonize"), "sites", to=["south", "north"]),
        "coefficients|means": change(content, "preparation", "values", steps.index("confounds"), "columns", to=["a"]),
        "training graphs": {**content, "input": {"size": [0, 1]}},
        "card": {**content, "card": "free text"},
    }
    for fact, other in changes.items():
        with pytest.raises(ic.InputError, match=fact):
            ic.load_model(write_file(path, other, arrays))
    others = {
        "not finite": {**arrays, scale: np.full_like(arrays[scale], np.nan)},
        "not positive": {**arrays, scale: -arrays[scale]},
        "shape": {**arrays, scale: arrays[scale][:, :5, :5]},
        "float32": {**arrays, scale: arrays[scale].astype(np.float32)},
        "no array|KeyError": {name: array for name, array in arrays.items() if name != scale},
        "unexpected": {**arrays, "preparation/9/scale": np.ones(3)},
    }
    for fact, changed in others.items():
        with pytest.raises(ic.InputError, match=fact):
            ic.load_model(write_file(path, content, changed))
    assert isinstance(ic.load_model(write_file(path, content, arrays)), ic.PreparedModel)


def test_an_earlier_version_refuses_a_file_with_a_preparation(
    model: Any, study: ic.BrainGraphs, tmp_path: Path
) -> None:
    plain = quiet_fit(study.replace(time_series=None), "linear", out=tmp_path / "plain")
    assert read_file(tmp_path / "plain")[0]["format"] == 1
    assert read_file(ic.save_model(model, tmp_path / "model"))[0]["format"] == 2
    content, arrays = read_file(tmp_path / "plain")
    for key in ("input", "card"):  # as before there were cards
        del content[key]
    loaded = ic.load_model(write_file(tmp_path / "old", content, arrays))
    assert loaded.card_ is None
    X = np.array(study.adjacency)
    assert_array_equal(loaded.predict_proba(X), plain.predict_proba(X))


def test_a_transform_that_does_not_say_what_it_learns_is_not_saved(
    study: ic.BrainGraphs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Centred(TRANSFORMS["log"]):  # type: ignore[misc, valid-type, name-defined]
        def _fit(self, X: np.ndarray) -> None:
            self.mean_ = X.mean(axis=0)

        def _transform(self, X: np.ndarray) -> np.ndarray:
            return X - self.mean_

    monkeypatch.setattr(sys.modules[__name__], "Centred", Centred, raising=False)
    Centred.__module__, Centred.__qualname__ = __name__, "Centred"
    monkeypatch.setitem(TRANSFORMS, "centre", Centred)
    with pytest.raises(ic.InputError, match="mean_"):
        quiet_fit(study.replace(time_series=None), "linear", transform="centre", out=tmp_path / "model")
    assert not (tmp_path / "model").exists()


# -- the command line ---------------------------------------------------------------------------------------------


def run(*arguments: Any) -> str:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_command_line_and_python_give_the_same_figures(study: ic.BrainGraphs, tmp_path: Path) -> None:
    folder, new = write_folder(study, tmp_path / "study"), write_folder(make_study(3, 8), tmp_path / "new")
    reading = {"target": "dx", "site": "centre"}
    options = ["--target", "dx", "--site", "centre", "--harmonize", "--confounds", "age,sex", "--transform", "fisher-z"]
    run("fit", folder, "--method", "linear", *options, "--out", tmp_path / "cli.safetensors")
    run("predict", tmp_path / "cli.safetensors", new, "--site", "centre", "--out", tmp_path / "cli.csv")
    model = ic.fit(
        folder, "linear", harmonize=True, confounds=["age", "sex"], transform="fisher-z", **reading,
        out=tmp_path / "python.safetensors",
    )  # fmt: skip
    frame = ic.predict(model, new, site="centre")
    found = pd.read_csv(tmp_path / "cli.csv", dtype={"subject": str})
    assert_allclose(found["p_patient"], frame["p_patient"], rtol=0, atol=1e-15)
    (content, arrays), (other, other_arrays) = (read_file(tmp_path / f"{way}.safetensors") for way in ("cli", "python"))
    assert content == other and _persistence._digest(content, arrays) == _persistence._digest(other, other_arrays)


def test_refusals_on_the_command_line_name_options(study: ic.BrainGraphs, tmp_path: Path) -> None:
    folder = write_folder(study, tmp_path / "study")
    common = ("--target", "dx", "--site", "centre", "--harmonize", "--method", "linear")
    run("fit", folder, *common, "--out", tmp_path / "m")
    result = CliRunner().invoke(main, ["predict", str(tmp_path / "m"), str(folder), "--out", str(tmp_path / "p.csv")])
    assert result.exit_code == 2 and "--site" in result.output and not (tmp_path / "p.csv").exists()


# -- explanations -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in GRAPHS if name not in ("none", "all")])
def test_what_a_transform_says_about_edges_is_true(name: str, study: ic.BrainGraphs) -> None:
    """Linear: steps add up; monotone: no step goes down; all but mixed: no other edge changes."""
    data = study.replace(time_series=None)
    [(_, transformer)] = quiet_fit(data, "constant", **GRAPHS[name]).preparation.fitted
    [step] = quiet_fit(data, "constant", **GRAPHS[name]).steps
    rng, prepared = np.random.default_rng(0), Preparation([step])
    prepared.fitted = [(step, transformer)]
    values = np.sort(np.concatenate([rng.uniform(-0.9, 0.9, 20), [-0.5, 0.0, 0.5]]))
    i, j = 1, 4
    answers = []
    for value in values:
        graphs = np.array(data.adjacency)
        graphs[0, i, j] = graphs[0, j, i] = value
        answers.append(prepared.apply(Samples(data.replace(adjacency=graphs)), np.arange(1))[0])
    found = np.array(answers)
    elsewhere = found.copy()
    elsewhere[:, i, j] = elsewhere[:, j, i] = 0
    is_mixed = np.ptp(elsewhere, axis=0).max() > 1e-12
    assert is_mixed == (transformer.on_edges == "mixed") == (name == "tangent")
    curve = found[:, i, j]
    if transformer.on_edges == "linear":
        assert_allclose(curve, np.polyval(np.polyfit(values, curve, 1), values), atol=1e-9)
    if transformer.on_edges in ("linear", "monotone"):
        assert (np.diff(curve) >= -1e-12).all()
        assert (abs(curve[values == 0][0]) > 1e-9) == transformer.shifts_edges


def test_explanations_are_about_the_edges_of_the_data_where_the_preparation_is_linear(study: ic.BrainGraphs) -> None:
    """A network scales its edges itself, so that scaling all by one number first must not change any attribution."""
    data, method = study.replace(time_series=None), "cnn[max_epochs=3,calibrate=False]"
    plain = ic.explain(quiet_fit(data, method), data, folds=2)
    scaled = ic.explain(quiet_fit(data, method, transform="scale"), data, folds=2)
    assert_allclose(scaled.edges, plain.edges, atol=1e-5 * np.abs(plain.edges).max())
    assert plain.notes == [] and "those of the data" in scaled.notes[0] and "linear" in scaled.notes[1]


def test_explanations_say_where_edges_are_not_those_of_the_data(study: ic.BrainGraphs, tmp_path: Path) -> None:
    method, graphs = "cnn[max_epochs=1,calibrate=False]", study.replace(time_series=None)
    facts = {
        "not about edges of the data": (graphs, {"transform": "tangent"}),
        "not about edges": (study, {"connectivity": "tangent"}),
        "partial correlation": (study.replace(adjacency=None), {"connectivity": "partial correlation"}),
        "monotone": (graphs, {"transform": "fisher-z"}),
        "sign": (graphs, {"transform": "signs"}),
    }
    for fact, (data, options) in facts.items():
        explanation = ic.explain(quiet_fit(data, method, **options), data, folds=0)
        assert any(fact in note for note in explanation.notes)
    explanation.save(tmp_path)
    assert json.loads((tmp_path / "cards.json").read_text())["notes"] == list(explanation.notes)


def test_notes_about_signs_are_true(study: ic.BrainGraphs) -> None:
    data = study.replace(time_series=None)
    for options in ({}, {"harmonize": True}, {"confounds": "age"}, {"transform": "scale[per_edge=True],log"}):
        model = quiet_fit(data, "constant", **{"transform": "scale,log"} | options)
        notes, keeps = " ".join(describe_edges(model)), (np.sign(model.prepare(data)) == np.sign(data.adjacency)).all()
        assert ("signs are those of the data" in notes) == keeps == (not options)
    both = quiet_fit(data, "constant", harmonize=True, transform="scale")
    assert any(note.startswith("harmonize, scale are linear") for note in describe_edges(both))


def test_refits_of_an_explanation_prepare_with_their_training_part_only(
    study: ic.BrainGraphs, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted: list[int] = []
    fit = Preparation.fit
    monkeypatch.setattr(
        Preparation,
        "fit",
        lambda self, samples, train, labels: fitted.append(len(train)) or fit(self, samples, train, labels),
    )
    data = study.replace(time_series=None)
    model = quiet_fit(data, "cnn[max_epochs=1,calibrate=False]", harmonize=True, confounds="age")
    ic.explain(model, data, folds=3)
    assert fitted == [N, *[N - N // 3] * 3]


def test_nodes_are_put_into_the_order_of_the_model_by_their_names(study: ic.BrainGraphs) -> None:
    names = [f"region {i}" for i in range(NODES)]
    data = study.replace(time_series=None, atlas=Atlas(names))
    model, order = quiet_fit(data, "linear", transform="tangent"), np.arange(NODES)[::-1]
    shuffled = data.replace(adjacency=np.array(data.adjacency)[:, order][:, :, order], atlas=Atlas(names[::-1]))
    assert_allclose(model.predict_proba(shuffled), model.predict_proba(data), atol=1e-12)
    assert_allclose(ic.predict(model, shuffled)["p_patient"], ic.predict(model, data)["p_patient"], atol=1e-12)
    with pytest.raises(ic.InputError, match="other 0"):
        model.predict_proba(data.replace(atlas=Atlas([f"other {i}" for i in range(NODES)])))


def test_checking_data_does_not_wait_for_torch() -> None:
    code = "import sys, isocapsnet as ic; ic.check_data, ic.load_graphs; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", ["all", "tangent, confounds"])
def test_random_changes_of_a_file_are_refused_or_answered_with_probabilities(
    name: str, study: ic.BrainGraphs, tmp_path: Path
) -> None:
    path = tmp_path / "model"
    data = study.replace(adjacency=None) if name in SERIES else study.replace(time_series=None)
    model = quiet_fit(data, "linear", out=path, **(GRAPHS | SERIES)[name])
    assert isinstance(model, ic.PreparedModel)
    whole, rng = read_file(path), random.Random(name)
    n_refused = 0
    for _ in range(250):
        content, arrays = copy.deepcopy(whole)
        mutate(content, arrays, rng)
        write_file(path, content, arrays)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                assert np.isfinite(ic.load_model(path).predict_proba(data[:4])).all()
            except ic.InputError:
                n_refused += 1
    assert n_refused > 100
