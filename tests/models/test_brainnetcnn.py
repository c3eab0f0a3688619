"""BrainNetCNN against loops written from its equations, its symmetries, and the planted effects that it finds."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.metrics import roc_auc_score
from torch.autograd import gradcheck

from isocapsnet import make_planted_graphs
from isocapsnet.models.brainnetcnn import (
    BrainNetCNN,
    BrainNetCNNClassifier,
    CrossFilters,
    edge_to_edge,
    edge_to_node,
    node_to_graph,
)

N_GRAPHS, N_IN, N_OUT, N_NODES = 2, 3, 4, 5


def draw(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def draw_edges_and_filters(seed=0):
    """Directed edges, filters for rows and columns, and biases, in double precision."""
    filters = (draw(N_OUT, N_IN, N_NODES, seed=seed + 1), draw(N_OUT, N_IN, N_NODES, seed=seed + 2))
    return draw(N_GRAPHS, N_IN, N_NODES, N_NODES, seed=seed), *filters, draw(N_OUT, seed=seed + 3)


def permuted(edges, order):
    return edges[..., order, :][..., order]


# -- known answers ------------------------------------------------------------------------------------------


def edge_to_edge_by_loops(A, r, c, bias):
    """Equation 1 for one graph, with a sum over input channels and over the nodes that share i or j."""
    n_out, n_in, n_nodes = r.shape
    B = np.zeros((n_out, n_nodes, n_nodes))
    for n in range(n_out):
        for i in range(n_nodes):
            for j in range(n_nodes):
                B[n, i, j] = bias[n]
                for m in range(n_in):
                    for k in range(n_nodes):
                        B[n, i, j] += r[n, m, k] * A[m, i, k] + c[n, m, k] * A[m, k, j]
    return B


def edge_to_node_by_loops(A, r, c, bias):
    """Equation 2 for one graph."""
    n_out, n_in, n_nodes = r.shape
    b = np.zeros((n_out, n_nodes))
    for n in range(n_out):
        for i in range(n_nodes):
            b[n, i] = bias[n]
            for m in range(n_in):
                for k in range(n_nodes):
                    b[n, i] += r[n, m, k] * A[m, i, k] + c[n, m, k] * A[m, k, i]
    return b


def node_to_graph_by_loops(b, w, bias):
    """Equation 3 for one graph."""
    n_out, n_in, n_nodes = w.shape
    return np.array(
        [bias[n] + sum(w[n, m, i] * b[m, i] for m in range(n_in) for i in range(n_nodes)) for n in range(n_out)]
    )


def test_edge_layers_equal_loops_over_their_equations():
    edges, *filters = draw_edges_and_filters()
    to_edges, to_nodes = edge_to_edge(edges, *filters), edge_to_node(edges, *filters)
    arrays = [weights.numpy() for weights in filters]
    for i, graph in enumerate(edges.numpy()):
        assert_allclose(to_edges[i], edge_to_edge_by_loops(graph, *arrays), rtol=1e-10)
        assert_allclose(to_nodes[i], edge_to_node_by_loops(graph, *arrays), rtol=1e-10)


def test_the_node_layer_equals_loops_over_its_equation():
    nodes, weights, bias = draw(N_GRAPHS, N_IN, N_NODES), draw(N_OUT, N_IN, N_NODES, seed=1), draw(N_OUT, seed=2)
    for graph, answer in zip(nodes, node_to_graph(nodes, weights, bias), strict=True):
        assert_allclose(answer, node_to_graph_by_loops(graph.numpy(), weights.numpy(), bias.numpy()), rtol=1e-10)


def test_edge_to_edge_equals_convolutions_with_filters_as_long_as_a_row_and_a_column():
    edges, rows, columns, bias = draw_edges_and_filters()
    convolved = torch.conv2d(edges, rows[:, :, None, :], bias) + torch.conv2d(edges, columns[:, :, :, None])
    assert_allclose(edge_to_edge(edges, rows, columns, bias), convolved, rtol=1e-10)


def test_the_network_equals_loops_over_the_equations():
    torch.manual_seed(0)
    network = BrainNetCNN(N_NODES, 3, channels=(2, 3), node_channels=4, hidden_sizes=(6, 5, 4)).double().eval()
    for parameter in network.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)  # so that biases are not zero
    weights = {name: parameter.detach().numpy() for name, parameter in network.named_parameters()}
    graphs = draw(2, N_NODES, N_NODES)

    def leaky(x):
        return np.where(x > 0, x, 0.33 * x)

    def filters(name):
        return (weights[f"{name}.{part}"] for part in ("rows", "columns", "bias"))

    with torch.no_grad():
        output = network(graphs)
    for graph, logits, code in zip(graphs.numpy(), *output[:2], strict=True):
        edges = graph[None]
        for layer in range(2):
            edges = leaky(edge_to_edge_by_loops(edges, *filters(f"edge_layers.{layer}")))
        nodes = leaky(edge_to_node_by_loops(edges, *filters("node_layer")))
        hidden = leaky(node_to_graph_by_loops(nodes, weights["graph_layer.weights"], weights["graph_layer.bias"]))
        for layer in range(2):
            name = f"hidden_layers.{layer}"
            hidden = leaky(weights[f"{name}.weight"] @ hidden + weights[f"{name}.bias"])
        assert_allclose(code, hidden, rtol=1e-9)
        assert_allclose(logits, weights["head.weight"] @ hidden + weights["head.bias"], rtol=1e-9)


def test_layers_pass_gradcheck():
    tensors = [tensor.requires_grad_() for tensor in draw_edges_and_filters()]
    assert gradcheck(edge_to_edge, tensors)
    assert gradcheck(edge_to_node, tensors)
    assert gradcheck(node_to_graph, (tensors[0][:, :, 0], *tensors[1::2]))


# -- symmetries ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_edge_layers_are_equivariant_to_node_permutation_if_their_weights_are_permuted_along(seed):
    edges, rows, columns, bias = draw_edges_and_filters(seed)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(N_NODES))
    moved = permuted(edges, order), rows[..., order], columns[..., order], bias
    assert_allclose(edge_to_edge(*moved), permuted(edge_to_edge(edges, rows, columns, bias), order), rtol=1e-9)
    assert_allclose(edge_to_node(*moved), edge_to_node(edges, rows, columns, bias)[..., order], rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_node_layer_is_invariant_to_node_permutation_if_its_weights_are_permuted_along(seed):
    nodes, weights, bias = draw(N_GRAPHS, N_IN, N_NODES, seed=seed), draw(N_OUT, N_IN, N_NODES, seed=9), draw(N_OUT)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(N_NODES))
    moved = node_to_graph(nodes[..., order], weights[..., order], bias)
    assert_allclose(moved, node_to_graph(nodes, weights, bias), rtol=1e-9)


def test_no_layer_is_equivariant_to_node_permutation_if_its_weights_stay():
    edges, rows, columns, bias = draw_edges_and_filters()
    order = torch.arange(N_NODES).roll(1)
    moved = permuted(edges, order), rows, columns, bias
    stayed = edges, rows, columns, bias
    assert (edge_to_edge(*moved) - permuted(edge_to_edge(*stayed), order)).abs().min(0).values.max() > 0.1
    assert (edge_to_node(*moved) - edge_to_node(*stayed)[..., order]).abs().max() > 0.1
    nodes = edges[:, :, 0]
    assert (node_to_graph(nodes[..., order], rows, bias) - node_to_graph(nodes, rows, bias)).abs().max() > 0.1


def test_equal_filters_for_rows_and_columns_keep_an_undirected_graph_undirected():
    edges, rows, columns, bias = draw_edges_and_filters()
    undirected = edges + edges.transpose(2, 3)
    same = edge_to_edge(undirected, rows, rows, bias)
    assert_allclose(same, same.transpose(2, 3), rtol=1e-9)
    different = edge_to_edge(undirected, rows, columns, bias)
    assert (different - different.transpose(2, 3)).abs().max() > 0.1


# -- sizes and training -------------------------------------------------------------------------------------


def test_layers_have_the_sizes_of_the_paper():
    shapes = [tuple(parameter.shape) for parameter in BrainNetCNN(90, 2).parameters() if parameter.ndim > 1]
    assert shapes == [
        *[(32, 1, 90)] * 2, *[(32, 32, 90)] * 2, *[(64, 32, 90)] * 2, (256, 64, 90), (128, 256), (30, 128), (2, 30),
    ]  # fmt: skip


def test_the_number_of_weights_grows_linearly_with_the_number_of_nodes():
    def count(n_nodes):
        return sum(parameter.numel() for parameter in BrainNetCNN(n_nodes, 2).parameters())

    assert count(30) - count(20) == count(20) - count(10)


def test_initial_weights_are_uniform_with_a_variance_of_one_over_the_number_of_inputs():
    rows = CrossFilters(32, 32, 90).rows
    assert rows.var().item() == pytest.approx(1 / (32 * 90), rel=0.02)
    assert rows.abs().max().item() == pytest.approx((3 / (32 * 90)) ** 0.5, rel=0.02)


def test_every_parameter_receives_a_gradient():
    torch.manual_seed(0)
    network = BrainNetCNN(12, 2)
    network(torch.randn(8, 12, 12)).logits.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in network.parameters())


@pytest.mark.parametrize("effect", ["existence", "orientation", "mean", "hub"])
def test_finds_a_planted_effect(effect):
    planted = make_planted_graphs(160, 16, effect=effect, signal_to_noise=5.0, random_state=0)
    model = BrainNetCNNClassifier(max_epochs=15, calibrate=False, random_state=0)
    model.fit(planted.graphs[:110], planted.labels[:110])
    assert roc_auc_score(planted.labels[110:], model.predict_proba(planted.graphs[110:])[:, 1]) > 0.9
    assert model.transform(planted.graphs[:3]).shape == (3, 30)
