"""Eigenvectors that are kept during a fit are those of every window, and are kept once where windows share them."""

import numpy as np
import pytest
import torch

from isocapsnet import make_planted_graphs
from isocapsnet.functional import spectral, spectral_permutations, window_eigenvectors
from isocapsnet.functional.eigenvectors import STEPS
from isocapsnet.models import isocapsnet
from isocapsnet.models._scaling import InputScaler
from isocapsnet.models._spectral_store import SpectralStore


@pytest.mark.parametrize(
    ("is_symmetric", "stride", "n_kept"), [(False, 1, 64), (False, 2, 16), (True, 1, 36), (True, 2, 10)]
)
def test_kept_eigenvectors_are_those_of_the_windows_bit_for_bit(is_symmetric, stride, n_kept):
    graphs = np.random.default_rng(0).normal(size=(5, 11, 11)).astype(np.float32)
    graphs = (graphs + graphs.swapaxes(1, 2)) / 2 if is_symmetric else graphs
    arguments = graphs, np.zeros(5, dtype=np.int64), InputScaler(False, 1.0), torch.device("cpu")
    store = SpectralStore(4, stride, True, *arguments)
    assert store.vectors.tensor.shape == (5, n_kept, 4, 4)
    inputs, _ = store.subset(np.array([4, 3, 1])).batch(np.array([1, 2]))
    expected = window_eigenvectors(torch.from_numpy(graphs[[3, 1]]), 4, stride)
    assert torch.equal(inputs["window_vectors"][:, :], expected)
    assert torch.equal(inputs["window_vectors"][1:, 1:3], expected[1:, 1:3])
    windows = torch.tensor([0, 2, 3]), torch.tensor([3, 1, 3])
    assert torch.equal(inputs["window_vectors"][1:, *windows], expected[1:, *windows])
    too_large = SpectralStore(4, stride, True, *arguments, kept_bytes=store.vectors.tensor.nbytes - 1)
    assert too_large.vectors is None
    assert torch.equal(too_large.batch(np.array([2]))[0], torch.from_numpy(graphs[[2]]))


@pytest.mark.parametrize("is_symmetric", [False, True])
def test_large_windows_are_kept_in_half_of_the_memory_and_match_as_if_they_were_computed_again(is_symmetric):
    graphs = np.random.default_rng(0).normal(size=(5, 16, 16)).astype(np.float32)
    graphs = (graphs + graphs.swapaxes(1, 2)) / 2 if is_symmetric else graphs
    graphs[2, :12, :12] = 0  # any eigenvectors will do
    arguments = graphs, np.zeros(5, dtype=np.int64), InputScaler(False, 1.0), torch.device("cpu")
    store = SpectralStore(12, 1, True, *arguments, n_templates=2)
    assert store.vectors.tensor.dtype == torch.int16 and store.orders.tensor.shape[2:] == (2, 12)
    inputs, _ = store.subset(np.array([4, 3, 2])).batch(np.array([1, 2]))
    vectors = window_eigenvectors(torch.from_numpy(graphs[[3, 2]]), 12).abs()
    assert torch.allclose(inputs["window_vectors"][:, :], vectors, rtol=0, atol=1 / STEPS)
    templates = torch.from_numpy(np.random.default_rng(1).normal(size=(2, 12, 12))).float()
    kept = spectral_permutations(templates=templates, **inputs)
    for given in ({}, {"window_vectors": vectors}, {"window_orders": inputs["window_orders"]}):
        computed = spectral_permutations(inputs["graphs"], templates, **given)
        assert all(map(torch.equal, kept, computed))
    bare = SpectralStore(12, 1, True, *arguments, n_templates=2, kept_bytes=100)
    assert bare.vectors is None and bare.orders is None


@pytest.mark.parametrize("is_compiled", [False, True])
def test_kept_windows_change_no_fit(is_compiled, monkeypatch):
    """Whether eigenvectors and permutations are kept or not, and with numba or without, a fit is the same."""
    planted = make_planted_graphs(n_graphs=20, n_nodes=16, random_state=0)
    if not is_compiled:
        monkeypatch.setattr(spectral, "pick_spectral", lambda tensor: None)
    probabilities = []
    for kept in (2**26, 0):
        monkeypatch.setattr(isocapsnet, "_KEPT_BYTES", kept)
        model = isocapsnet.IsoCapsNetClassifier(
            kernel_size=10, matching="spectral", windows="contiguous", max_epochs=6, calibrate=False, random_state=0
        )
        probabilities.append(model.fit(planted.graphs, planted.labels).predict_proba(planted.graphs))
    assert np.array_equal(*probabilities)
