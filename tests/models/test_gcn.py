"""GCN against graphs worked by hand."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from isocapsnet import InputError
from isocapsnet.models._graph_network import NodesAndEdges
from isocapsnet.models.gcn import GCN, GCNClassifier

# The path 0 - 1 - 2. With self-loops the degrees are 2, 3, 2.
PATH = torch.tensor([[[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]])
SIXTH = 1 / np.sqrt(6)
NORMALISED = np.array([[1 / 2, SIXTH, 0], [SIXTH, 1 / 3, SIXTH], [0, SIXTH, 1 / 2]])


def make_network(n_layers, readout):
    """A network on the path with one-hot nodes, in evaluation mode, whose normalisation changes nothing."""
    torch.manual_seed(0)
    nodes_and_edges = NodesAndEdges(3, "identity", 1.0, "drop", "binary")
    network = GCN(nodes_and_edges, 2, n_layers=n_layers, hidden_size=2, dropout=0.5, readout=readout).eval()
    for norm in network.norms:
        norm.eps = 1e-30
    return network


def set_weights(network, *weights):
    for convolution, weight in zip(network.convolutions, weights, strict=True):
        convolution.lin.weight.data = torch.tensor(weight, dtype=torch.float32).T


def test_one_layer_is_the_normalised_mean_of_neighbours():
    network = make_network(1, "mean")
    set_weights(network, [[1.0, -1.0], [0.0, 1.0], [0.0, 0.0]])
    # Column 1: the first column of the normalised matrix. Column 2: second minus first column, cut at 0.
    nodes = [[1 / 2, 0], [SIXTH, 0], [0, SIXTH]]
    assert 1 / 3 < SIXTH < 1 / 2
    with torch.no_grad():
        output = network(PATH)
    assert_allclose(output.code[0], np.mean(nodes, axis=0), rtol=1e-6)
    weight, bias = network.classifier.weight.detach().numpy(), network.classifier.bias.detach().numpy()
    assert_allclose(output.logits[0], weight @ output.code[0].numpy() + bias, rtol=1e-5)


@pytest.mark.parametrize("readout", ["mean", "max"])
def test_two_layers_equal_the_equation(readout):
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(3, 2)), rng.normal(size=(2, 2))
    network = make_network(2, readout)
    set_weights(network, first, second)
    hidden = np.maximum(NORMALISED @ first, 0)
    nodes = np.maximum(NORMALISED @ hidden @ second, 0)
    assert nodes.max() > 0
    with torch.no_grad():
        code = network(PATH).code[0]
    assert_allclose(code, getattr(nodes, readout)(axis=0), rtol=1e-5)


def test_an_unknown_readout_is_refused():
    with pytest.raises(InputError, match="readout='sum'"):
        GCNClassifier(readout="sum").fit(np.zeros((4, 3, 3)), [0, 1, 0, 1])
