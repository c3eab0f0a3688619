"""LeNet on the adjacency matrix: its shape, its convolutions, its dependence on the node order."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.metrics import roc_auc_score

from isocapsnet import InputError, make_planted_graphs
from isocapsnet.models.cnn import CNNClassifier, LeNet, convolutions, pooled_size


@pytest.mark.parametrize("n_nodes", [1, 2, 7, 8, 12, 116, 117])
def test_graphs_of_any_size_pass(n_nodes):
    output = LeNet(n_nodes, 3)(torch.randn(2, n_nodes, n_nodes))
    assert output.logits.shape == (2, 3)
    assert output.code.shape == (2, 84)


def test_layers_have_the_sizes_of_lenet_5():
    weights = [tuple(p.shape) for p in LeNet(28, 10).parameters() if p.ndim > 1]
    assert weights == [(6, 1, 5, 5), (16, 6, 5, 5), (120, 16 * 7 * 7), (84, 120), (10, 84)]


@pytest.mark.parametrize("n_nodes", [8, 11])
def test_convolutions_that_copy_their_input_leave_the_pooled_graph(n_nodes):
    layers = convolutions([1, 1])
    for layer in layers:
        if isinstance(layer, torch.nn.Conv2d):
            torch.nn.init.zeros_(layer.weight)
            torch.nn.init.zeros_(layer.bias)
            with torch.no_grad():
                layer.weight[0, 0, 2, 2] = 1
    graph = torch.rand(n_nodes, n_nodes)
    side = pooled_size(n_nodes, 2)
    expected = [[graph[4 * i : 4 * i + 4, 4 * j : 4 * j + 4].max() for j in range(side)] for i in range(side)]
    assert_allclose(layers(graph[None, None])[0, 0].detach(), np.array(expected))


def test_every_parameter_receives_a_gradient():
    module = LeNet(12, 2)
    module(torch.randn(8, 12, 12)).logits.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in module.parameters())


def test_answer_depends_on_the_order_of_the_nodes():
    planted = make_planted_graphs(60, 16, random_state=0)
    model = CNNClassifier(max_epochs=5, random_state=0).fit(planted.graphs, planted.labels)
    order = np.random.default_rng(0).permutation(16)
    permuted = planted.graphs[:, order][:, :, order]
    assert np.abs(model.predict_proba(permuted) - model.predict_proba(planted.graphs)).max() > 0.01


def test_finds_a_planted_pattern():
    planted = make_planted_graphs(signal_to_noise=4.0, random_state=0)
    model = CNNClassifier(random_state=0).fit(planted.graphs[:160], planted.labels[:160])
    assert roc_auc_score(planted.labels[160:], model.predict_proba(planted.graphs[160:])[:, 1]) > 0.9
    assert model.transform(planted.graphs[:3]).shape == (3, 84)


@pytest.mark.parametrize("sizes", [(), "12", 12, (0,), (4, 2.5), None])
def test_layer_sizes_that_are_none_are_refused(sizes):
    planted = make_planted_graphs(8, 8, random_state=0)
    for name in ("channels", "hidden_sizes"):
        with pytest.raises(InputError, match=name):
            CNNClassifier(**{name: sizes}).fit(planted.graphs, planted.labels)
