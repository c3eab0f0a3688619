"""GIN against a graph worked by hand."""

import numpy as np
import torch
from numpy.testing import assert_allclose

from isocapsnet.models._graph_network import NodesAndEdges
from isocapsnet.models.gin import GIN

# The path 0 - 1 - 2.
PATH = torch.tensor([[[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]])


def make_network(n_layers, node_features, hidden_size=2):
    """A network on the path, in evaluation mode, whose normalisations change nothing."""
    torch.manual_seed(1)
    network = GIN(
        NodesAndEdges(3, node_features, 1.0, "drop", "binary"),
        2,
        n_layers=n_layers,
        hidden_size=hidden_size,
        dropout=0.5,
    )
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.eps = 1e-30
    return network.eval()


def test_one_layer_on_degrees_worked_by_hand():
    network = make_network(1, "degree")
    convolution = network.convolutions[0]
    assert isinstance(convolution.eps, torch.nn.Parameter), "ε is learned"
    convolution.eps.data.fill_(0.5)
    convolution.nn[0].weight.data = torch.tensor([[1.0], [-1.0]])
    convolution.nn[3].weight.data = torch.tensor([[2.0, 0.0], [-1.0, 1.0]])
    # Degrees over their mean: 3/4, 3/2, 3/4. 1.5 h + the neighbours' sum: 21/8, 30/8, 21/8.
    # First layer of the MLP after ReLU: (that, 0). Second: twice that; minus that, cut to 0 by the last ReLU.
    with torch.no_grad():
        code = network(PATH).code[0]
    assert_allclose(code, [1.0, 2 * (21 + 30 + 21) / 8 / 3, 0.0], rtol=1e-6)


def test_two_layers_equal_the_equations():
    network = make_network(2, "identity", hidden_size=5)
    A, nodes = PATH[0].numpy(), np.eye(3)
    means = [nodes.mean(axis=0)]
    for epsilon, convolution in zip((0.3, -0.2), network.convolutions, strict=True):
        convolution.eps.data.fill_(epsilon)
        inner, outer = (convolution.nn[i].weight.detach().numpy().T for i in (0, 3))
        nodes = np.maximum(np.maximum(((1 + epsilon) * nodes + A @ nodes) @ inner, 0) @ outer, 0)
        means.append(nodes.mean(axis=0))
    assert means[-1].max() > 0
    with torch.no_grad():
        output = network(PATH)
    assert_allclose(output.code[0], np.concatenate(means), rtol=1e-5)
    weight, bias = network.classifier.weight.detach().numpy(), network.classifier.bias.detach().numpy()
    assert_allclose(output.logits[0], weight @ np.concatenate(means) + bias, rtol=1e-5)


def test_sums_tell_apart_what_means_of_neighbours_cannot():
    """Regular graphs of different degree: a mean over neighbours is blind to them, the sum of Xu et al. is not."""
    ring = torch.roll(torch.eye(6), 1, 0) + torch.roll(torch.eye(6), -1, 0)
    full = 1 - torch.eye(6)
    network = make_network(1, "degree")
    network.convolutions[0].nn[0].weight.data.fill_(1.0)
    network.convolutions[0].nn[3].weight.data.fill_(1.0)
    with torch.no_grad():
        codes = network(torch.stack([ring, full])).code
    assert_allclose(codes[:, 1], [2 * (1 + 2), 2 * (1 + 5)], rtol=1e-6)
