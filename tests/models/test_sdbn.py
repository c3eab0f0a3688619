"""SDBN: the node order shows modules, the decoder mirrors the encoder, unlabelled graphs are reconstructed."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from isocapsnet import make_planted_graphs
from isocapsnet.models._encoder import EncoderLoss, EncoderOutput
from isocapsnet.models.sdbn import SDBN, SDBNClassifier, module_order


def shuffled_modules(rng, sizes):
    """Signed graphs ``(10, n, n)`` with strong edges inside modules, nodes in random order, and each node's module."""
    module = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    strength = np.where(module[:, None] == module, 0.5, 0.2) + 0.08 * rng.standard_normal((len(module), len(module)))
    graphs = strength * rng.choice([-1, 1], size=(10, *strength.shape))
    return np.triu(graphs, 1) + np.triu(graphs, 1).swapaxes(1, 2), module


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), sizes=st.lists(st.integers(3, 9), min_size=1, max_size=6))
def test_order_recovers_shuffled_modules(seed, sizes):
    graphs, module = shuffled_modules(np.random.default_rng(seed), sizes)
    order = module_order(np.abs(graphs).mean(axis=0))
    assert sorted(order) == list(range(len(module)))
    assert np.count_nonzero(np.diff(module[order])) == len(sizes) - 1


@pytest.mark.parametrize("n_nodes", [1, 2, 3, 5])
def test_order_of_graphs_without_structure_is_a_permutation(n_nodes):
    for strength in (np.zeros((n_nodes, n_nodes)), np.ones((n_nodes, n_nodes))):
        assert sorted(module_order(strength)) == list(range(n_nodes))


def test_fit_learns_the_order_and_the_network_sees_it():
    graphs, module = shuffled_modules(np.random.default_rng(0), [5, 4, 6])
    model = SDBNClassifier(max_epochs=1, device="cpu", random_state=0).fit(graphs, np.arange(10) % 2)
    assert np.count_nonzero(np.diff(module[model.order_])) == 2
    ordered = torch.from_numpy(model.scaler_.transform(graphs[:, model.order_][:, :, model.order_]))
    assert torch.equal(model.module_(torch.from_numpy(model.scaler_.transform(graphs))).graphs, ordered)


@pytest.mark.parametrize("n_nodes", [1, 9, 10, 11, 12])
def test_reconstruction_has_the_shape_of_the_graph(n_nodes):
    output = SDBN(n_nodes, 2)(torch.randn(3, n_nodes, n_nodes))
    assert output.reconstruction.shape == output.graphs.shape == (3, n_nodes, n_nodes)


def test_every_parameter_receives_a_gradient():
    module = SDBN(12, 2)
    output = module(torch.randn(8, 12, 12))
    EncoderLoss(torch.ones(2), 1.0)(output, torch.arange(8) % 2).backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in module.parameters())


def test_loss_is_weighted_cross_entropy_of_the_labelled_and_squared_error_of_all():
    logits, weights = torch.tensor([[2.0, 0.0], [0.0, 1.0], [5.0, 5.0]]), torch.tensor([1.0, 3.0])
    graphs, reconstruction = torch.zeros(3, 2, 2), torch.full((3, 2, 2), 2.0)
    output = EncoderOutput(logits, logits, reconstruction, graphs)
    entropy = -torch.log_softmax(logits, dim=1)
    expected = (1 * entropy[0, 0] + 3 * entropy[1, 1]) / 4 + 0.5 * 4
    assert torch.isclose(EncoderLoss(weights, 0.5)(output, torch.tensor([0, 1, -1])), expected)
    assert EncoderLoss(weights, 0.5)(output, torch.full((3,), -1)) == 0.5 * 4


def test_without_reconstruction_there_is_no_decoder():
    assert SDBNClassifier(reconstruction_weight=0)._build_module(12, 2).decoder is None


def test_training_lowers_the_reconstruction_error_of_unlabelled_graphs():
    planted = make_planted_graphs(90, 16, random_state=0)
    labelled, labels, others = planted.graphs[:10], planted.labels[:10], planted.graphs[10:]

    def error(model):
        output = model.module_(torch.from_numpy(model.scaler_.transform(others)))
        return float((output.reconstruction - output.graphs).square().mean())

    settings = {
        "reconstruction_weight": 1.0,
        "learning_rate": 1e-3,
        "max_epochs": 15,
        "device": "cpu",
        "random_state": 0,
    }
    with_others = SDBNClassifier(**settings).fit(labelled, labels, X_unlabeled=others)
    assert error(with_others) < 0.8 * error(SDBNClassifier(**settings).fit(labelled, labels))


def test_finds_a_planted_pattern():
    planted = make_planted_graphs(signal_to_noise=4.0, random_state=0)
    model = SDBNClassifier(random_state=0).fit(planted.graphs[:160], planted.labels[:160])
    assert roc_auc_score(planted.labels[160:], model.predict_proba(planted.graphs[160:])[:, 1]) > 0.9
