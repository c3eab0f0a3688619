"""IsoNN: its module against the equations written as loops, several layers, the permutations it cannot see."""

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.metrics import roc_auc_score

from isocapsnet import InputError, make_planted_graphs
from isocapsnet.models.isonn import IsoNN, IsoNNClassifier, normalised_scores
from isocapsnet.nn import IsomorphicLayer


def reference_maps(graph, templates, stride):
    """Normalised scores of one graph by enumeration ``(n_templates, n, n)``, in float64."""
    k = templates.shape[-1]
    n = (len(graph) - k) // stride + 1
    maps = np.empty((len(templates), n, n))
    for i, template in enumerate(templates):
        for s in range(n):
            for t in range(n):
                window = graph[s * stride : s * stride + k, t * stride : t * stride + k]
                maps[i, s, t] = min(
                    np.linalg.norm(template[np.ix_(p, p)] - window) for p in map(list, permutations(range(k)))
                )
        weights = np.exp(-maps[i])
        maps[i] = weights / weights.sum() * n * n
    return maps


@pytest.mark.parametrize(("n_layers", "stride"), [(1, 1), (1, 2), (2, 1)])
def test_scores_are_those_of_the_equations(n_layers, stride):
    torch.manual_seed(0)
    layers = [IsomorphicLayer(2, 3, stride) for _ in range(n_layers)]
    module = IsoNN(9, 2, layers, hidden_sizes=(5,))
    graphs = torch.randn(3, 9, 9)
    seen = []
    module.connected.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    module(graphs)
    for graph, row in zip(graphs.numpy().astype(np.float64), seen[0], strict=True):
        maps = graph[None]
        for layer in layers:
            templates = layer.templates.detach().numpy().astype(np.float64)
            maps = np.concatenate([reference_maps(channel, templates, stride) for channel in maps])
        assert_allclose(row.detach(), maps.ravel(), rtol=1e-3, atol=1e-4)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_permuting_every_window_alike_goes_unseen_without_overlap(seed):
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    module = IsoNN(12, 2, [IsomorphicLayer(2, 4, stride=4)])
    graphs = torch.from_numpy(rng.standard_normal((2, 12, 12)).astype(np.float32))
    within = rng.permutation(4)
    order = np.concatenate([start + within for start in (0, 4, 8)])
    with torch.no_grad():
        assert_allclose(module(graphs[:, order][:, :, order]).logits, module(graphs).logits, atol=1e-5)


def test_scores_of_each_template_have_mean_one_and_rise_with_the_match():
    distance = torch.rand(2, 3, 4, 4)
    scores = normalised_scores(distance)
    assert_allclose(scores.mean(dim=(2, 3)), 1, rtol=1e-5)
    assert torch.equal(scores.flatten(2).argmax(dim=2), distance.flatten(2).argmin(dim=2))


@pytest.mark.parametrize("n_layers", [1, 2])
def test_every_parameter_receives_a_gradient(n_layers):
    torch.manual_seed(0)
    module = IsoNN(10, 2, [IsomorphicLayer(2, 3) for _ in range(n_layers)])
    module(torch.randn(8, 10, 10)).logits.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in module.parameters())


def test_templates_are_those_of_the_first_layer():
    planted = make_planted_graphs(20, 10, random_state=0)
    model = IsoNNClassifier(n_layers=2, max_epochs=1, random_state=0).fit(planted.graphs, planted.labels)
    assert_allclose(model.templates_, model.module_.layers[0].templates.detach().cpu())


def test_graphs_too_small_for_the_layers_are_refused():
    planted = make_planted_graphs(20, 8, random_state=0)
    IsoNNClassifier(kernel_size=3, n_layers=3, max_epochs=1).fit(planted.graphs, planted.labels)
    with pytest.raises(InputError, match="n_layers=4"):
        IsoNNClassifier(kernel_size=3, n_layers=4).fit(planted.graphs, planted.labels)


def test_finds_a_planted_pattern():
    planted = make_planted_graphs(signal_to_noise=4.0, random_state=0)
    model = IsoNNClassifier(random_state=0).fit(planted.graphs[:160], planted.labels[:160])
    assert roc_auc_score(planted.labels[160:], model.predict_proba(planted.graphs[160:])[:, 1]) > 0.85
