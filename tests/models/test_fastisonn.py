"""FastIsoNN: the spectral match inside IsoNN, and eigenvectors that are computed once."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import roc_auc_score

from isocapsnet import InputError, load_model, make_planted_graphs, save_model
from isocapsnet._methods import list_methods
from isocapsnet.functional import permutation_at, spectral_match, window_eigenvectors
from isocapsnet.models import _spectral_store
from isocapsnet.models._scaling import InputScaler
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


# -- the eigenvectors of the published program --------------------------------------------------------------------


def random_graphs(n_graphs, n_nodes, *, symmetric=True, dtype=np.float32, seed=0):
    graphs = np.random.default_rng(seed).normal(size=(n_graphs, n_nodes, n_nodes)).astype(dtype)
    return (graphs + graphs.swapaxes(1, 2)) / 2 if symmetric else graphs


def paper_layer(dtype=torch.float32, **settings):
    """The untrained layer of ``preset="paper"`` for graphs of 11 nodes."""
    torch.manual_seed(0)
    return FastIsoNNClassifier(preset="paper", **settings)._build_module(11, 2).layers[0].to(dtype)


def numpy_moduli(matrix):
    """The absolute values of numpy's eigenvectors of one matrix as it is."""
    return np.abs(np.linalg.eig(matrix)[1])


def windows_by_place(graph, k, stride):
    n = (len(graph) - k) // stride + 1
    for s in range(n):
        for t in range(n):
            yield s, t, graph[s * stride : s * stride + k, t * stride : t * stride + k]


def program_distances(graphs, templates, stride=1):
    """The distances of every window, one at a time: P = |U₂||U₁|ᵀ of the window and the template as they are."""
    k = templates.shape[-1]
    n = (graphs.shape[1] - k) // stride + 1
    distances = np.empty((len(graphs), len(templates), n, n))
    for b, graph in enumerate(graphs):
        for c, template in enumerate(templates):
            for s, t, window in windows_by_place(graph, k, stride):
                P = numpy_moduli(window) @ numpy_moduli(template).T
                distances[b, c, s, t] = np.linalg.norm(P @ template @ P.T - window)
    return distances


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_preset_takes_the_moduli_of_raw_matrices_in_the_order_of_numpy(dtype, symmetric, stride):
    layer = paper_layer(dtype, stride=stride)
    graphs = torch.from_numpy(random_graphs(3, 11, symmetric=symmetric)).to(dtype)
    expected = program_distances(graphs.numpy(), layer.templates.detach().numpy(), stride)
    assert expected.shape == (3, 3, 8 // stride, 8 // stride)
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    assert_allclose(layer.distances(graphs).detach(), expected, rtol=tolerance)  # by the kernel
    assert_allclose(layer(graphs).distance.detach(), expected, rtol=tolerance)  # in plain torch
    vectors = window_eigenvectors(graphs, 4, stride, symmetrise=False)
    assert vectors.dtype == dtype
    for s, t, window in windows_by_place(graphs[1].numpy(), 4, stride):
        assert_allclose(vectors[1, s, t], numpy_moduli(window), rtol=1e-6)


def test_the_preset_keeps_the_eigenvectors_of_every_window_of_symmetric_graphs():
    layer, graphs, model = paper_layer(), random_graphs(4, 11), FastIsoNNClassifier(preset="paper")
    model.scaler_ = InputScaler(False, 1.0)
    store = model._build_store(graphs, np.zeros(4, dtype=np.int64), torch.device("cpu"), None)
    inputs, _ = store.batch(np.array([2, 0]))
    assert inputs["window_vectors"].tensor.shape == (4, 64, 4, 4)  # and not the 36 with s >= t
    given, plain = layer.distances(**inputs).detach(), layer(**inputs).distance.detach()
    expected = program_distances(graphs[[2, 0]], layer.templates.detach().numpy())
    assert_allclose(given, expected, rtol=1e-4)
    assert_allclose(plain, expected, rtol=1e-4)
    # Symmetrised windows and templates have other eigenvectors.
    layer.symmetrise = True
    other = layer.distances(torch.from_numpy(graphs[[2, 0]])).detach().numpy()
    assert np.mean(~np.isclose(other, expected, rtol=1e-3)) > 0.95


@pytest.mark.parametrize("symmetric", [True, False])
def test_gradients_of_the_preset_are_those_of_the_distances_with_constant_eigenvectors(symmetric):
    layer = paper_layer(torch.float64)
    graphs = torch.from_numpy(random_graphs(2, 11, symmetric=symmetric, dtype=np.float64))
    weights = torch.rand(2, 3, 8, 8, dtype=torch.float64)
    templates = layer.templates.detach().clone().requires_grad_()
    total = torch.zeros((), dtype=torch.float64)
    for b, graph in enumerate(graphs.numpy()):
        for c, template in enumerate(templates):
            for s, t, window in windows_by_place(graph, 4, 1):
                P = torch.from_numpy(numpy_moduli(window) @ numpy_moduli(template.detach().numpy()).T)
                total = total + weights[b, c, s, t] * torch.linalg.norm(P @ template @ P.T - torch.from_numpy(window))
    (expected,) = torch.autograd.grad(total, templates)
    for distances in (layer.distances(graphs), layer(graphs).distance):
        (gradient,) = torch.autograd.grad((weights * distances).sum(), layer.templates)
        assert_allclose(gradient, expected, rtol=1e-8)


@pytest.mark.parametrize("given", [False, True])
def test_permutations_from_raw_matrices_are_the_best_assignments(given):
    layer = paper_layer(torch.float64, projection="permutation")
    graphs, templates = random_graphs(2, 11, dtype=np.float64), layer.templates.detach().numpy()
    inputs = torch.from_numpy(graphs)
    match = layer(inputs, window_eigenvectors(inputs, 4, symmetrise=False) if given else None)
    for b, graph in enumerate(graphs):
        for c, template in enumerate(templates):
            for s, t, window in windows_by_place(graph, 4, 1):
                profit = numpy_moduli(window) @ numpy_moduli(template).T
                order = permutation_at(match.permutation[b, c, s, t], 4).numpy()
                assert profit[range(4), order].sum() == pytest.approx(
                    profit[linear_sum_assignment(profit, maximize=True)].sum()
                )
                matched = template[np.ix_(order, order)]
                assert match.distance[b, c, s, t].item() == pytest.approx(np.linalg.norm(matched - window))
    assert (match.permutation != match.permutation.transpose(2, 3)).any()  # a window and its transpose differ


@pytest.mark.parametrize("settings", [{}, {"n_layers": 2}, {"projection": "permutation"}])
def test_a_fit_with_the_preset_uses_these_distances_and_can_be_saved(settings, tmp_path, monkeypatch):
    planted = make_planted_graphs(30, 11, random_state=0)
    settings = {"preset": "paper", "max_epochs": 2, "calibrate": False, "device": "cpu", "random_state": 0, **settings}
    model = FastIsoNNClassifier(**settings).fit(planted.graphs, planted.labels)
    probabilities = model.predict_proba(planted.graphs)
    loaded = load_model(save_model(model, tmp_path / "fastisonn.model"))
    assert loaded.symmetrise is False
    assert_array_equal(loaded.predict_proba(planted.graphs), probabilities)
    monkeypatch.setattr(_spectral_store, "_KEPT_BYTES", 0)
    anew = FastIsoNNClassifier(**settings).fit(planted.graphs, planted.labels)
    assert_allclose(anew.predict_proba(planted.graphs), probabilities, atol=1e-5)
    if model.projection == "none":
        scaled = model.scaler_.transform(planted.graphs[:2])
        expected = program_distances(scaled, model.templates_)
        layer = model.module_.layers[0]
        assert_allclose(layer.distances(torch.from_numpy(scaled)).detach(), expected, rtol=1e-4)


def test_matrices_that_are_not_finite_have_no_eigenvectors_and_leave_the_others_alone():
    graphs = torch.from_numpy(random_graphs(2, 6))
    expected = window_eigenvectors(graphs, 3, symmetrise=False)
    graphs[1, 0, 5] = torch.inf
    vectors = window_eigenvectors(graphs, 3, symmetrise=False)
    assert vectors[1, 0, 3].isnan().all() and vectors.isnan().sum() == 9
    assert torch.equal(torch.where(vectors.isnan(), expected, vectors), expected)


def test_the_signs_of_raw_eigenvectors_are_not_known():
    with pytest.raises(InputError, match=r"projection=\"orthogonal\" needs .* symmetrise=True"):
        FastIsoNNClassifier(preset="paper", projection="orthogonal")._check_parameters(10)
    with pytest.raises(InputError, match="orthogonal"):
        spectral_match(torch.randn(1, 5, 5), torch.randn(1, 3, 3), projection="orthogonal", symmetrise=False)


def test_files_with_the_former_parameter_keep_their_match_or_are_refused():
    for preset in (None, "paper"):  # the preset would set symmetrise=False
        parameters = FastIsoNNClassifier.update_parameters({"preset": preset, "sort_eigenvalues": True}, 1)
        assert FastIsoNNClassifier(**parameters).symmetrise is True
    with pytest.raises(InputError, match="fit it again"):
        FastIsoNNClassifier.update_parameters({"preset": "paper", "sort_eigenvalues": False}, 1)
    assert FastIsoNNClassifier.update_parameters({"symmetrise": False}, 1) == {"symmetrise": False}


def test_records_of_the_former_match_are_computed_again_and_others_are_kept():
    names = ["fastisonn", "fastisonn[projection=permutation]", "fastisonn[preset=paper]", "fastisonn[symmetrise=False]"]
    former = FastIsoNNClassifier.version
    assert [method.version for method in list_methods(names)] == [former, former, former + 1, former + 1]
