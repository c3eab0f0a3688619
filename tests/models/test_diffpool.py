"""DiffPool against a graph worked by hand, and its losses against their definitions."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from isocapsnet.models._graph_network import NodesAndEdges
from isocapsnet.models.diffpool import DiffPool, DiffPoolClassifier, DiffPoolLoss, DiffPoolOutput

# The path 0 - 1 - 2 - 3.
PATH = torch.diag(torch.ones(3), 1) + torch.diag(torch.ones(3), -1)


def make_network(n_pools=1, n_layers=1):
    """A network on the path with one-hot nodes, in evaluation mode, whose normalisations change nothing."""
    torch.manual_seed(0)
    network = DiffPool(
        NodesAndEdges(4, "identity", 1.0, "drop", "binary"),
        2,
        n_layers=n_layers,
        hidden_size=3,
        n_pools=n_pools,
        pool_ratio=0.5,
        dropout=0.5,
    )
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.eps = 1e-30
    return network.eval()


def sage(gnn, nodes, edges):
    """GraphSAGE layers, by their definition: own features and the mean of the neighbours', with ReLU in between."""
    for layer, convolution in enumerate(gnn.convolutions):
        neighbours, own = (getattr(convolution, name).weight.detach().numpy().T for name in ("lin_rel", "lin_root"))
        nodes = np.maximum(nodes, 0) if layer else nodes
        nodes = (edges @ nodes / np.maximum(edges.sum(axis=1, keepdims=True), 1)) @ neighbours + nodes @ own
    return nodes


def test_hard_clusters_worked_by_hand():
    """Nodes 0, 1 are one cluster and 2, 3 the other: the next level has two nodes, each with the sum of its own, two
    half-edges inside and one edge between."""
    network = make_network()
    assignment = network.assignments[0].convolutions[0]
    assignment.lin_rel.weight.data.zero_()
    assignment.lin_root.weight.data = torch.tensor([[100.0, 100.0, 0.0, 0.0], [0.0, 0.0, 100.0, 100.0]])
    first, second = (gnn.convolutions[0] for gnn in network.embeddings)
    first.lin_rel.weight.data.zero_()
    first.lin_root.weight.data = torch.tensor([[1.0, 2.0, 3.0, 4.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    second.lin_root.weight.data.zero_()
    second.lin_rel.weight.data = torch.eye(3)
    with torch.no_grad():
        output = network(PATH[None])
    # Embedded nodes: (1,1,0), (2,0,0), (3,0,0), (4,0,1). Clusters: (3,1,0), (7,0,1). Coarse edges [[2, 1], [1, 2]].
    coarse = [[13 / 3, 2 / 3, 1 / 3], [17 / 3, 1 / 3, 2 / 3]]
    assert_allclose(output.code[0], [2.5, 0.25, 0.25, *np.mean(coarse, axis=0)], rtol=1e-5)
    # S Sᵀ has 1 at the 8 pairs of a cluster; the path has 1 at 4 of them and at the 2 entries of edge 1 - 2.
    assert_allclose(output.link_loss, np.sqrt(6) / 4, rtol=1e-6)
    assert_allclose(output.entropy, 0, atol=1e-6)


@pytest.mark.parametrize("n_layers", [1, 2])
def test_soft_clusters_equal_the_equations_through_two_poolings(n_layers):
    network = make_network(n_pools=2, n_layers=n_layers)
    nodes, edges = np.eye(4), PATH.numpy()
    means, link_loss, entropy = [], 0.0, 0.0
    for embed, assign in zip(network.embeddings[:-1], network.assignments, strict=True):
        scores = np.exp(sage(assign, nodes, edges))
        S = scores / scores.sum(axis=1, keepdims=True)
        embedded = np.maximum(sage(embed, nodes, edges), 0)
        means.append(embedded.mean(axis=0))
        link_loss += np.linalg.norm(edges - S @ S.T) / len(edges)
        entropy -= (S * np.log(S)).sum(axis=1).mean()
        nodes, edges = S.T @ embedded, S.T @ edges @ S
    assert edges.shape == (1, 1)
    means.append(np.maximum(sage(network.embeddings[-1], nodes, edges), 0).mean(axis=0))
    with torch.no_grad():
        output = network(PATH[None])
    assert_allclose(output.code[0], np.concatenate(means), rtol=1e-5)
    assert_allclose(output.link_loss, link_loss, rtol=1e-5)
    assert_allclose(output.entropy, entropy, rtol=1e-5)


def test_loss_is_cross_entropy_plus_weighted_link_and_entropy_losses():
    logits = torch.tensor([[0.0, 0.0], [0.0, 3.0]])
    output = DiffPoolOutput(logits, logits, torch.tensor(0.5), torch.tensor(0.25))
    loss = DiffPoolLoss(torch.tensor([1.0, 4.0]), link_weight=2.0, entropy_weight=3.0)
    cross_entropy = (np.log(2) + 4 * np.log(1 + np.exp(-3))) / 5
    assert_allclose(loss(output, torch.tensor([0, 1])), cross_entropy + 2 * 0.5 + 3 * 0.25, rtol=1e-6)


def test_entropy_loss_sharpens_the_assignments():
    X = np.random.default_rng(0).normal(size=(16, 8, 8))
    X, y = X + X.swapaxes(1, 2), np.arange(16) % 2
    entropies = []
    for entropy_weight in (0.0, 5.0):
        settings = {"density": 0.3, "max_epochs": 40, "learning_rate": 0.02, "validation_fraction": 0.0}
        model = DiffPoolClassifier(entropy_weight=entropy_weight, random_state=0, **settings).fit(X, y)
        entropies.append(next(model._forward(X)).entropy.item())
    assert entropies[1] < 0.5 * entropies[0]
