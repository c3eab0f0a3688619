"""CapsNet: routing against Procedure 1 of Sabour et al. written as loops, primary capsules, reconstruction."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.metrics import roc_auc_score

from isocapsnet import InputError, make_planted_graphs
from isocapsnet.models.capsnet import CapsNet, CapsNetClassifier


def squashed(vector):
    squared = vector @ vector
    return squared / (1 + squared) * vector / np.sqrt(squared)


def routed(primary, weight, iterations):
    """Procedure 1 for one graph.

    ``primary`` ``(n_capsules, primary_size)`` and ``weight`` ``(n_classes, n_capsules, primary_size, capsule_size)`` to
    class capsules ``(n_classes, capsule_size)``; sums are divided by the square root of the number of capsules.
    """
    n_classes, n_capsules = weight.shape[:2]
    votes = np.array([[primary[i] @ weight[j, i] for i in range(n_capsules)] for j in range(n_classes)])
    logits = np.zeros((n_capsules, n_classes))
    for _ in range(iterations):
        coupling = np.array([np.exp(row) / np.exp(row).sum() for row in logits])
        capsules = []
        for j in range(n_classes):
            total = sum(coupling[i, j] * votes[j, i] for i in range(n_capsules))
            capsules.append(squashed(total / np.sqrt(n_capsules)))
        for i in range(n_capsules):
            for j in range(n_classes):
                logits[i, j] += votes[j, i] @ capsules[j]
    return np.array(capsules)


def make_module(n_nodes=10, **settings):
    torch.manual_seed(0)
    module = CapsNet(n_nodes, 3, n_channels=4, n_primary=2, primary_size=5, capsule_size=6, **settings).double()
    torch.nn.init.normal_(module.digit.weight)  # large votes, so that routing has something to decide
    return module


@pytest.mark.parametrize("iterations", [1, 2, 3, 5])
def test_routing_equals_the_procedure_of_the_paper(iterations):
    module = make_module(routing_iterations=iterations)
    graphs = torch.randn(4, 10, 10, dtype=torch.float64)
    seen = []
    module.digit.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    capsules = module(graphs).capsules.detach().numpy()
    weight = module.digit.weight.detach().numpy().reshape(3, -1, 5, 6)
    for primary, found in zip(seen[0].detach().numpy(), capsules, strict=True):
        assert_allclose(found, routed(primary.reshape(-1, 5), weight, iterations), rtol=1e-9)


def test_a_primary_capsule_is_a_group_of_channels_at_one_place_squashed():
    module = make_module()
    graphs = torch.randn(2, 10, 10, dtype=torch.float64)
    seen = []
    module.digit.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    module(graphs)
    maps = module.primary(module.features(graphs[:, None]).relu()).detach().numpy()
    assert seen[0].shape == (2, 2, 3, 3, 5)
    for kind in range(2):
        group = maps[1, 5 * kind : 5 * kind + 5, 2, 1]
        assert_allclose(seen[0][1, kind, 2, 1].detach(), squashed(group))


@pytest.mark.parametrize("n_nodes", [1, 2, 8, 11, 12])
@pytest.mark.parametrize(("kernel_size", "stride"), [(5, 2), (4, 1), (9, 3)])
def test_graphs_of_any_size_pass(n_nodes, kernel_size, stride):
    output = make_module(n_nodes, kernel_size=kernel_size, stride=stride)(torch.randn(2, n_nodes, n_nodes).double())
    assert output.capsules.shape == (2, 3, 6)
    assert output.reconstruction.shape == (2, n_nodes, n_nodes)


def test_every_parameter_receives_a_gradient():
    module = make_module()
    output = module(torch.randn(8, 10, 10, dtype=torch.float64))
    (output.capsules.square().sum() + output.reconstruction.square().sum()).backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in module.parameters())


def test_reconstruction_is_in_original_units_and_absent_without_its_weight():
    planted = make_planted_graphs(40, 10, random_state=0)
    graphs = 100 * planted.graphs
    settings = {"decoder_sizes": (32,), "max_epochs": 40, "random_state": 0}
    model = CapsNetClassifier(reconstruction_weight=0.1, **settings).fit(graphs, planted.labels)
    error = np.abs(model.reconstruct(graphs) - graphs).mean()
    assert error < 0.9 * np.abs(graphs).mean()
    without = CapsNetClassifier(reconstruction_weight=0, **settings).fit(graphs, planted.labels)
    assert without.module_.decoder is None
    with pytest.raises(InputError, match="reconstruction_weight=0"):
        without.reconstruct(graphs)


def test_finds_a_planted_pattern():
    planted = make_planted_graphs(signal_to_noise=4.0, random_state=0)
    model = CapsNetClassifier(random_state=0).fit(planted.graphs[:160], planted.labels[:160])
    assert roc_auc_score(planted.labels[160:], model.predict_proba(planted.graphs[160:])[:, 1]) > 0.9
