"""Input scaling: moments gathered chunk by chunk, and edges that are all alike."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from isocapsnet import InputError
from isocapsnet.models import MODELS, _scaling
from isocapsnet.models._scaling import InputScaler, check_magnitude, fit_scaler


@pytest.mark.parametrize("value", [0.1, 0.3, 1 / 3, -1e-3, 123.4, 7e5 / 3])
@pytest.mark.parametrize("scaling", ["auto", "std", "log"])
def test_edges_that_are_all_alike_are_not_blown_up(value, scaling):
    """Sums of such values round, and a rounding error is no deviation to divide by."""
    for n_graphs in (3, 23, 121):
        for dtype in (np.float32, np.float64):
            assert fit_scaler(np.full((n_graphs, 10, 10), value, dtype=dtype), scaling).scale == 1.0


def test_auto_takes_the_logarithm_of_counts_alone():
    edges = np.array([[[0.0, 5.0], [99.0, 0.0]], [[0.0, 101.0], [2.0, 0.0]]])
    assert fit_scaler(edges, "auto").logarithm
    assert not fit_scaler(-edges, "auto").logarithm
    assert not fit_scaler(edges[:1], "auto").logarithm
    assert fit_scaler(edges[:1], "log").logarithm


def test_small_deviations_around_a_large_mean_still_count():
    noise = np.random.default_rng(0).normal(size=(20, 8, 8))
    edges = ~np.eye(8, dtype=bool)
    assert_allclose(fit_scaler(1e6 + noise, "std").scale, noise[:, edges].std(), rtol=1e-6)


def test_the_scale_does_not_depend_on_how_the_graphs_are_read(monkeypatch):
    X = np.random.default_rng(0).normal(3, 2, size=(50, 6, 6))
    monkeypatch.setattr(_scaling, "_CHUNK_VALUES", 7 * 36)
    assert_allclose(fit_scaler(X, "std").scale, X[:, ~np.eye(6, dtype=bool)].std(), rtol=1e-12)


@pytest.mark.parametrize("scaler", [InputScaler(False, 2.5), InputScaler(True, 0.5)])
def test_inverse_transform_brings_the_graphs_back(scaler):
    X = np.random.default_rng(0).normal(scale=50, size=(4, 5, 5))
    before = X.copy()
    assert_allclose(scaler.inverse_transform(scaler.transform(X)), X, rtol=1e-4)
    assert_array_equal(X, before)


@pytest.mark.parametrize("unit", [1e-60, 1e-30, 1e30, 1e60])
def test_scaled_graphs_do_not_depend_on_the_unit(unit):
    X = np.random.default_rng(0).normal(size=(6, 5, 5))
    scaler = fit_scaler(unit * X, "std")
    check_magnitude(unit * X, scaler)
    assert_allclose(scaler.transform(unit * X), fit_scaler(X, "std").transform(X), rtol=1e-5)
    assert_allclose(scaler.inverse_transform(scaler.transform(unit * X)), unit * X, rtol=1e-5)


@pytest.mark.parametrize("scaling", ["auto", "std", "log", "none"])
@pytest.mark.parametrize("value", [1e39, -1e200, 1e308])
def test_a_value_that_cannot_be_computed_with_is_refused_by_graph(scaling, value):
    X, y = np.random.default_rng(0).normal(size=(12, 6, 6)), np.arange(12) % 2
    model = MODELS["cnn"](scaling=scaling, max_epochs=1, calibrate=False, random_state=0).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    X[5, 2, 2] = value  # on the diagonal, which has no part in the scale
    for use in (model.predict_proba, model.transform, lambda graphs: MODELS["cnn"](scaling=scaling).fit(graphs, y)):
        with pytest.raises(InputError, match=r"graph 5 .* row 2, column 2"):
            use(X)
    with pytest.raises(InputError, match="X_unlabeled: graph 5"):
        MODELS["sdbn"](scaling=scaling).fit(X[:5], y[:5], X_unlabeled=X)
