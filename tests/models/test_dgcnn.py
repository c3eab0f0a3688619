"""DGCNN: SortPooling keeps the first nodes of the learned order, and small graphs fit through the convolutions."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from isocapsnet import InputError
from isocapsnet.models._graph_network import NodesAndEdges
from isocapsnet.models.dgcnn import DGCNN, DGCNNClassifier


def make_network(n_nodes, n_kept, node_features="degree"):
    torch.manual_seed(0)
    return DGCNN(
        NodesAndEdges(n_nodes, node_features, 1.0, "absolute", "weighted"),
        2,
        n_layers=1,
        hidden_size=2,
        kept_nodes=n_kept / n_nodes,
        channels=(3, 4),
        dense_size=5,
        dropout=0.5,
    ).eval()


def normalised(A):
    A = A + np.eye(len(A))
    root = np.sqrt(A.sum(axis=1))
    return A / root[:, None] / root


def test_forward_equals_the_steps_of_the_paper():
    """Convolutions with tanh, SortPooling and a node-wise convolution, recomputed with numpy."""
    network = make_network(4, 2, "identity")
    graph = np.abs(np.random.default_rng(0).normal(size=(4, 4)))
    graph = np.triu(graph, 1) + np.triu(graph, 1).T
    A = normalised(graph / graph[graph > 0].mean())
    first, second = ((c.lin.weight.detach().numpy().T, c.bias.detach().numpy()) for c in network.convolutions)
    hidden = np.tanh(A @ first[0] + first[1])
    last = np.tanh(A @ hidden @ second[0] + second[1])
    states = np.hstack([hidden, last])
    kept = states[np.argsort(-last[:, 0])[:2]]
    per_node = network.encoder[0]
    nodes = np.maximum(kept @ per_node.weight.detach().numpy()[:, 0].T + per_node.bias.detach().numpy(), 0)
    with torch.no_grad():
        expected = network.encoder[3:](torch.from_numpy(nodes.max(axis=0)).float()[None, :, None])
        output = network(torch.from_numpy(graph).float()[None])
    assert np.abs(expected.numpy()).max() > 0
    assert_allclose(output.code, expected, rtol=1e-5)


def test_relabelling_the_nodes_changes_nothing_when_the_cut_has_no_ties():
    network = make_network(9, 5)
    graphs = np.random.default_rng(0).normal(size=(20, 9, 9))
    graphs = torch.from_numpy(graphs + graphs.swapaxes(1, 2)).float()
    order = torch.randperm(9, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        code, shuffled = network(graphs).code, network(graphs[:, order][:, :, order]).code
    assert code.std(0).max() > 0
    assert_allclose(shuffled, code, atol=1e-6)


@pytest.mark.parametrize("n_nodes", [2, 3, 5, 12])
def test_small_graphs_pass(n_nodes):
    X = np.random.default_rng(0).normal(size=(6, n_nodes, n_nodes))
    model = DGCNNClassifier(max_epochs=1, kept_nodes=0.1, validation_fraction=0.0, random_state=0)
    assert np.isfinite(model.fit(X, [0, 1, 0, 1, 0, 1]).predict_proba(X)).all()


def test_channels_must_be_two():
    with pytest.raises(InputError, match="channels"):
        DGCNNClassifier(channels=(16,)).fit(np.zeros((4, 3, 3)), [0, 1, 0, 1])
