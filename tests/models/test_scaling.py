"""Input scaling: moments gathered chunk by chunk, and edges that are all alike."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from isocapsnet.models import _scaling
from isocapsnet.models._scaling import EdgeScaler, fit_scaler


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


@pytest.mark.parametrize("scaler", [EdgeScaler(False, 2.5), EdgeScaler(True, 0.5)])
def test_inverse_transform_brings_the_graphs_back(scaler):
    X = np.random.default_rng(0).normal(scale=50, size=(4, 5, 5))
    before = X.copy()
    assert_allclose(scaler.inverse_transform(scaler.transform(X)), X, rtol=1e-4)
    assert_array_equal(X, before)
