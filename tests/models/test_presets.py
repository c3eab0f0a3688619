"""Presets: which parameters they set, and that nothing given is ever replaced."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from isocapsnet import InputError, load_model, save_model
from isocapsnet._estimators import changed_parameters
from isocapsnet._methods import list_methods, list_one_method
from isocapsnet.models import MODELS
from tests.models.estimator_checks import make_data
from tests.models.test_estimator_checks import MAKE

WITH_PRESETS = {name: model for name, model in MODELS.items() if model.PRESETS}
GIN = MODELS["gin"]


def test_methods_with_presets():
    assert set(WITH_PRESETS) == {"isonn", "fastisonn", "sdbn", "dgcnn", "gin", "diffpool", "wl"}
    assert all("paper" in model.PRESETS for model in WITH_PRESETS.values())
    assert not any("preset" in model().get_params() for name, model in MODELS.items() if name not in WITH_PRESETS)


@pytest.mark.parametrize("method", WITH_PRESETS)
def test_a_preset_sets_parameters_that_exist_and_differ_from_the_defaults(method):
    model = WITH_PRESETS[method]
    defaults = model().get_params()
    assert defaults["preset"] is None
    for name, parameters in model.PRESETS.items():
        chosen = model(preset=name).get_params()
        assert chosen == defaults | dict(parameters) | {"preset": name}
        assert all(defaults[key] != value for key, value in parameters.items())
        for key in parameters:
            assert f"{key}=" in model.__doc__


@pytest.mark.parametrize("method", WITH_PRESETS)
def test_what_is_given_is_never_replaced_even_if_it_is_the_default(method):
    model = WITH_PRESETS[method]
    defaults = model().get_params()
    for key, value in model.PRESETS["paper"].items():
        assert getattr(model(**{"preset": "paper", key: defaults[key]}), key) == defaults[key]
        assert getattr(model().set_params(**{"preset": "paper", key: defaults[key]}), key) == defaults[key]
        assert getattr(model(preset="paper").set_params(**{key: defaults[key]}), key) == defaults[key] != value


def test_clones_and_searches_keep_what_was_set():
    model = GIN(preset="paper", n_layers=2)
    assert clone(model).get_params() == model.get_params()
    assert clone(model).n_layers == 2 and clone(model).readout == "sum"
    assert model.set_params(preset=None).get_params() == GIN().get_params()
    X, y = make_data()
    search = GridSearchCV(MAKE["gin"](max_epochs=1), {"preset": [None, "paper"]}, cv=2).fit(X, y)
    assert search.best_estimator_.n_layers == (2 if search.best_params_["preset"] is None else 4)


def test_unknown_presets_are_refused_by_fit_and_by_the_front_door():
    with pytest.raises(InputError, match="preset='published'"):
        MAKE["gin"](preset="published").fit(*make_data())
    with pytest.raises(InputError, match="preset"):
        list_methods("gin[preset=published]")
    with pytest.raises(InputError, match="gcn has no parameter 'preset'"):
        list_methods("gcn[preset=paper]")


@pytest.mark.parametrize("method", WITH_PRESETS)
def test_a_preset_fits_predicts_and_is_saved(method, tmp_path):
    X, y = make_data()
    model = MAKE[method](preset="paper")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    loaded = load_model(save_model(model, tmp_path / "model"))
    assert loaded.get_params() == model.get_params()
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert not np.array_equal(model.predict_proba(X), MAKE[method]().fit(X, y).predict_proba(X))


def test_in_a_benchmark_a_preset_has_a_short_label_and_is_not_searched_over():
    text, given = list_one_method("dgcnn[preset=paper]"), list_one_method(MODELS["dgcnn"](preset="paper"))
    assert text.label == given.label == "dgcnn[preset=paper]"
    assert text.parameters == given.parameters == {"preset": "paper"}
    assert set(text.space) == set(given.space) == set(MODELS["dgcnn"].search_space()) - {"kept_nodes"}
    assert list_one_method("dgcnn").label == "dgcnn"
    assert set(list_one_method("dgcnn").space) == set(MODELS["dgcnn"].search_space())


def test_changes_are_those_to_the_preset():
    assert changed_parameters(GIN())[0] == {}
    assert changed_parameters(GIN(preset="paper"))[0] == {"preset": "paper"}
    # Two layers are the default, but not that of the preset.
    assert changed_parameters(GIN(preset="paper", n_layers=2))[0] == {"preset": "paper", "n_layers": 2}
    assert changed_parameters(GIN(n_layers=4, readout="sum"))[0] == {"n_layers": 4, "readout": "sum"}
