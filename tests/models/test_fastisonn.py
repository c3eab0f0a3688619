"""FastIsoNN: the spectral match inside IsoNN, and eigenvectors that are computed once."""

import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.metrics import roc_auc_score

from isocapsnet import InputError, make_planted_graphs
from isocapsnet.functional import spectral_match, window_eigenvectors
from isocapsnet.models import _spectral_store
from isocapsnet.models.fastisonn import FastIsoNNClassifier
from isocapsnet.models.isonn import IsoNN, normalised_scores
from isocapsnet.nn import SpectralIsomorphicLayer

PROJECTIONS = ["none", "permutation", "orthogonal"]


@pytest.mark.parametrize("projection", PROJECTIONS)
@pytest.mark.parametrize("stride", [1, 2])
def test_eigenvectors_given_and_computed_give_the_same_match(projection, stride):
    graphs, templates = torch.randn(3, 9, 9), torch.randn(2, 4, 4)
    vectors = window_eigenvectors(graphs, 4, stride)
    given = spectral_match(graphs, templates, stride, projection, vectors)
    computed = spectral_match(graphs, templates, stride, projection)
    assert torch.equal(given.distance, computed.distance)
    assert torch.equal(given.matrix, computed.matrix)
    other = spectral_match(graphs, templates, stride, projection, vectors.flip(0))
    assert not torch.equal(other.distance, computed.distance)


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_the_distance_is_taken_with_the_matrix_that_is_returned(projection):
    torch.manual_seed(0)
    graphs, templates = torch.randn(2, 7, 7), torch.randn(3, 3, 3)
    match = spectral_match(graphs, templates, 2, projection)
    for b in range(2):
        for c in range(3):
            for s in range(3):
                for t in range(3):
                    window = graphs[b, 2 * s : 2 * s + 3, 2 * t : 2 * t + 3]
                    matched = match.matrix[b, c, s, t] @ templates[c] @ match.matrix[b, c, s, t].T
                    assert_allclose(match.distance[b, c, s, t], torch.linalg.norm(matched - window), rtol=1e-4)


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_the_module_is_isonn_on_spectral_distances(projection):
    layer = SpectralIsomorphicLayer(2, 3, projection=projection)
    module = IsoNN(8, 2, [layer])
    graphs = torch.randn(3, 8, 8)
    scores = normalised_scores(spectral_match(graphs, layer.templates, 1, projection).distance)
    expected = module.head(module.connected(scores.flatten(1)))
    assert torch.allclose(module(graphs).logits, expected, atol=1e-6)


def test_keeping_eigenvectors_leaves_the_fit_as_it_is(monkeypatch):
    planted = make_planted_graphs(40, 10, random_state=0)
    settings = {"max_epochs": 3, "validation_fraction": 0.2, "random_state": 0}
    kept = FastIsoNNClassifier(**settings).fit(planted.graphs, planted.labels)
    monkeypatch.setattr(_spectral_store, "_KEPT_BYTES", 0)
    anew = FastIsoNNClassifier(**settings).fit(planted.graphs, planted.labels)
    assert_allclose(kept.predict_proba(planted.graphs), anew.predict_proba(planted.graphs), atol=1e-5)
    assert [row["valid_loss"] for row in kept.history_] == pytest.approx([row["valid_loss"] for row in anew.history_])


def test_eigenvectors_of_windows_are_computed_once_however_many_epochs(monkeypatch):
    planted = make_planted_graphs(40, 10, random_state=0)
    sizes = []
    eigh = torch.linalg.eigh

    def counting(matrices):
        sizes.append(len(matrices.reshape(-1, *matrices.shape[-2:])))
        return eigh(matrices)

    monkeypatch.setattr(torch.linalg, "eigh", counting)
    windows = []
    for epochs in (1, 4):
        sizes.clear()
        FastIsoNNClassifier(max_epochs=epochs, device="cpu", random_state=0).fit(planted.graphs, planted.labels)
        windows.append(sum(size for size in sizes if size > 2))  # two templates
    assert windows[0] == windows[1] > 0


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_the_projection_reaches_every_layer(projection):
    module = FastIsoNNClassifier(projection=projection, n_layers=2)._build_module(10, 2)
    assert [layer.projection for layer in module.layers] == [projection] * 2


def test_unknown_projections_are_refused_before_any_work():
    with pytest.raises(InputError, match="projection"):
        FastIsoNNClassifier(projection="sinkhorn")._check_parameters(10)


def test_finds_a_planted_pattern():
    planted = make_planted_graphs(signal_to_noise=4.0, random_state=0)
    model = FastIsoNNClassifier(random_state=0).fit(planted.graphs[:160], planted.labels[:160])
    assert roc_auc_score(planted.labels[160:], model.predict_proba(planted.graphs[160:])[:, 1]) > 0.85
