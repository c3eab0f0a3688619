"""Representations as tables: names of features, set_output, pipelines with transformers of graphs."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from isocapsnet import InputError, transform
from isocapsnet.datasets.connectivity import TRANSFORMS, EdgeScaler, LogTransform, TimeSeriesConnectivity
from isocapsnet.models import MODELS
from tests.models.estimator_checks import fitted, make_data
from tests.models.test_estimator_checks import MAKE

WITH_REPRESENTATION = [name for name, model in MODELS.items() if hasattr(model, "transform")]


@pytest.mark.parametrize("method", WITH_REPRESENTATION)
def test_features_have_names_and_become_a_table_when_asked(method):
    X, y = make_data()
    with pytest.raises(NotFittedError):
        MAKE[method]().get_feature_names_out()
    features = fitted(MAKE[method]).transform(X)
    names = fitted(MAKE[method]).get_feature_names_out()
    assert len(set(names)) == len(names) == features.shape[1]
    assert names[0] == f"{MODELS[method].__name__.lower()}0"
    table = MAKE[method]().set_output(transform="pandas").fit(X, y).transform(X)
    assert isinstance(table, pd.DataFrame) and list(table.columns) == list(names)
    assert_array_equal(table.to_numpy(), features)


def test_a_pipeline_of_graphs_ends_in_a_table():
    X, y = make_data()
    pipeline = make_pipeline(LogTransform(), EdgeScaler(), MAKE["cnn"]()).set_output(transform="pandas").fit(X, y)
    assert isinstance(pipeline[:2].transform(X), np.ndarray), "graphs stay arrays"
    table = pipeline.transform(X)
    assert list(table.columns) == list(pipeline.get_feature_names_out())
    assert_array_equal(
        pipeline.predict_proba(X), make_pipeline(LogTransform(), EdgeScaler(), MAKE["cnn"]()).fit(X, y).predict_proba(X)
    )


def test_the_front_door_gives_one_table_whatever_scikit_learn_is_set_to():
    X, y = make_data()
    model = MAKE["cnn"]().fit(X, y)
    expected = transform(model, (X, y))
    with sklearn.config_context(transform_output="pandas"):
        pd.testing.assert_frame_equal(transform(model, (X, y)), expected)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transformers_of_graphs_have_set_output_and_names_of_nodes(name):
    transformer = TRANSFORMS[name]()
    assert transformer.set_output(transform="pandas") is transformer
    with pytest.raises(NotFittedError):
        transformer.get_feature_names_out()


def test_names_of_nodes_are_those_given():
    X, _ = make_data()
    with sklearn.config_context(transform_output="pandas"):
        scaler = EdgeScaler().fit(X)
        assert isinstance(scaler.transform(X), np.ndarray) and isinstance(EdgeScaler().fit_transform(X), np.ndarray)
    assert scaler.get_feature_names_out()[[0, 11]].tolist() == ["node0", "node11"]
    assert scaler.get_feature_names_out([f"r{i}" for i in range(12)])[3] == "r3"
    with pytest.raises(InputError, match="12 nodes"):
        scaler.get_feature_names_out(["one"])
    series = np.random.default_rng(0).normal(size=(4, 30, 5))
    assert len(TimeSeriesConnectivity().fit(series).get_feature_names_out()) == 5


@pytest.mark.parametrize(
    ("method", "parameters", "named"),
    [
        ("cnn", {"patience": 3}, "patience=3"),
        ("isocapsnet", {"reconstruction_weight": 0, "decoder_sizes": (8,)}, r"decoder_sizes=\(8,\)"),
        ("isocapsnet", {"windows": "neighborhood", "n_templates": 4, "patience": 3}, "patience=3"),
        ("isocapsnet", {"windows": "diagonal", "n_templates": 2}, "n_templates=2"),
        ("isocapsnet", {"windows": "contiguous", "n_motifs": 6}, "n_motifs=6"),
        ("isocapsnet", {"template_init": "windows", "template_scale": 2.0}, "template_scale=2.0"),
        ("isocapsnet", {"routing_iterations": 0, "gamma": 0.5}, "gamma=0.5"),
        ("isocapsnet", {"primary_size": 5, "gamma": 0.5}, "gamma=0.5"),
        ("isocapsnet", {"matching": "spectral", "projection": "none", "gamma": 0.5}, "gamma=0.5"),
        ("isocapsnet", {"calibrate": False, "n_motifs": 6}, "n_motifs=6"),
        ("isocapsnet", {"residual_sizes": (), "residual_per_class": True}, "residual_per_class=True"),
        ("diffpool", {"link_weight": 0, "link_loss": "frobenius"}, "link_loss='frobenius'"),
        ("autoencoder", {"pretraining_epochs": 0, "corruption": 0.5}, "corruption=0.5"),
        ("wl", {"head": "vote", "C": 3.0}, "C=3.0"),
        ("wl", {"preset": "paper", "C": 3.0}, "C=3.0"),
    ],
)
def test_a_setting_without_effect_is_named_in_a_warning(method, parameters, named):
    with pytest.warns(UserWarning, match=f"{named} has no effect") as warned:
        MAKE[method](**parameters).fit(*make_data())
    assert [warning.filename for warning in warned if "no effect" in str(warning.message)] == [__file__]


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        *((method, {}) for method in MODELS),
        ("cnn", {"patience": 3, "validation_fraction": 0.2}),
        ("isocapsnet", {"reconstruction_weight": 0}),
        ("isocapsnet", {"n_motifs": 6, "motif_size": 3}),
        ("isocapsnet", {"matching": "spectral", "gamma": 0.5}),
        ("autoencoder", {"pretraining_epochs": 0}),
        ("wl", {"head": "vote"}),
    ],
)
def test_other_settings_are_not(method, parameters, recwarn):
    MAKE[method](**parameters).fit(*make_data())
    assert not [warning for warning in recwarn if "no effect" in str(warning.message)]
