"""Eigenvectors that are kept during a fit are those of every window, and are kept once where windows share them."""

import numpy as np
import pytest
import torch

from isocapsnet.functional import window_eigenvectors
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
