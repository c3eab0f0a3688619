"""The Brain Network Transformer against loops written from its equations, its symmetries, and what it finds."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import roc_auc_score
from torch.autograd import gradcheck

from isocapsnet import InputError, make_planted_graphs
from isocapsnet.models._graph_network import OWN_ENTRY
from isocapsnet.models.bnt import (
    BNTClassifier,
    SelfAttention,
    TransformerLayer,
    assign_to_clusters,
    draw_orthonormal_centres,
    read_out_clusters,
)
from tests.models.estimator_checks import make_data

SMALL = {"feedforward_size": 16, "n_clusters": 4, "hidden_sizes": (12, 6)}


def draw(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def arrays_of(module):
    return {name: parameter.detach().numpy() for name, parameter in module.named_parameters()}


# -- known answers ------------------------------------------------------------------------------------------


def softmax(values):
    return np.exp(values) / np.exp(values).sum()


def attention_by_loops(X, weights, n_heads):
    """Equation 1 for one graph, node by node and head by head."""
    n_nodes, size = len(X), -(-X.shape[1] // n_heads)
    queries, keys, values = np.split(X @ weights["inputs.weight"].T + weights["inputs.bias"], 3, axis=1)
    answer = np.zeros((n_nodes, n_heads * size))
    for head in range(n_heads):
        own = slice(head * size, (head + 1) * size)
        for i in range(n_nodes):
            scores = np.array([queries[i, own] @ keys[j, own] / np.sqrt(size) for j in range(n_nodes)])
            for j, share in enumerate(softmax(scores)):
                answer[i, own] += share * values[j, own]
    return answer @ weights["output.weight"].T + weights["output.bias"]


def read_out_by_loops(Z, E):
    """The readout of one graph: each node's softmax over clusters, and each cluster's sum over nodes."""
    answer = np.zeros((len(E), Z.shape[1]))
    for node in Z:
        for k, share in enumerate(softmax(np.array([node @ centre for centre in E]))):
            answer[k] += share * node
    return answer


def layer_by_loops(X, weights, n_heads):
    """Attention and two linear layers, each added to its input and normalised."""

    def normalise(nodes, norm):
        centred = nodes - nodes.mean(axis=1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
        return scaled * weights[f"norms.{norm}.weight"] + weights[f"norms.{norm}.bias"]

    own = {name.removeprefix("attention."): array for name, array in weights.items() if name.startswith("attention.")}
    X = normalise(X + attention_by_loops(X, own, n_heads), 0)
    hidden = np.maximum(X @ weights["feedforward.0.weight"].T + weights["feedforward.0.bias"], 0)
    return normalise(X + hidden @ weights["feedforward.3.weight"].T + weights["feedforward.3.bias"], 1)


@pytest.mark.parametrize(("n_features", "n_heads"), [(8, 4), (7, 3), (2, 4)])
def test_attention_equals_loops_over_its_equation(n_features, n_heads):
    torch.manual_seed(0)
    attention = SelfAttention(n_features, n_heads, dropout=0.5).double().eval()
    attention.inputs.bias.data.normal_()
    nodes = draw(2, 5, n_features)
    with torch.no_grad():
        answer = attention(nodes)
    for graph, own in zip(nodes.numpy(), answer, strict=True):
        assert_allclose(own, attention_by_loops(graph, arrays_of(attention), n_heads), rtol=1e-9)


def test_a_layer_equals_the_transformer_layer_of_torch():
    torch.manual_seed(0)
    ours = TransformerLayer(8, 4, 16, dropout=0.1).double().eval()
    theirs = torch.nn.TransformerEncoderLayer(8, 4, 16, batch_first=True).double().eval()
    names = {
        "self_attn.in_proj_weight": "attention.inputs.weight",
        "self_attn.in_proj_bias": "attention.inputs.bias",
        "self_attn.out_proj.weight": "attention.output.weight",
        "self_attn.out_proj.bias": "attention.output.bias",
        **{f"linear{i}.{part}": f"feedforward.{j}.{part}" for i, j in ((1, 0), (2, 3)) for part in ("weight", "bias")},
        **{f"norm{i + 1}.{part}": f"norms.{i}.{part}" for i in (0, 1) for part in ("weight", "bias")},
    }
    for parameter in ours.parameters():
        parameter.data.normal_()
    own = ours.state_dict()
    theirs.load_state_dict({theirs_name: own[name] for theirs_name, name in names.items()})
    with torch.no_grad():
        assert_allclose(ours(draw(3, 5, 8)), theirs(draw(3, 5, 8)), rtol=1e-9)


def test_the_readout_equals_loops_over_its_equations():
    nodes, centres = draw(2, 5, 4), draw(3, 4, seed=1)
    for graph, answer in zip(nodes.numpy(), read_out_clusters(nodes, centres), strict=True):
        assert_allclose(answer, read_out_by_loops(graph, centres.numpy()), rtol=1e-10)


def test_the_network_equals_loops_over_the_equations():
    torch.manual_seed(0)
    network = BNTClassifier(**SMALL, n_heads=3)._build_module(7, 3).double().eval()
    weights = arrays_of(network)
    graphs = draw(2, 7, 7)

    def leaky(x):
        return np.where(x > 0, x, 0.01 * x)

    def linear(name, x):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    with torch.no_grad():
        output = network(graphs)
    for graph, logits, code in zip(graphs.numpy(), *output[:2], strict=True):
        nodes = graph.copy()
        np.fill_diagonal(nodes, OWN_ENTRY)
        for layer in range(2):
            start = f"layers.{layer}."
            own = {name.removeprefix(start): array for name, array in weights.items() if name.startswith(start)}
            nodes = layer_by_loops(nodes, own, n_heads=3)
        hidden = leaky(linear("reduction.0", read_out_by_loops(nodes, network.centres.numpy()))).ravel()
        for layer in range(2):
            hidden = leaky(linear(f"mlp.{layer}.0", hidden))
        assert_allclose(code, hidden, rtol=1e-8)
        assert_allclose(logits, linear("head", hidden), rtol=1e-8)


def test_centres_are_those_of_the_gram_schmidt_process():
    torch.manual_seed(0)
    vectors = torch.nn.init.xavier_uniform_(torch.empty(5, 9)).double().numpy()
    torch.manual_seed(0)
    centres = draw_orthonormal_centres(5, 9)
    basis = []
    for vector in vectors:
        rest = vector - sum(((vector @ other) * other for other in basis), np.zeros(9))
        basis.append(rest / np.linalg.norm(rest))
    assert_allclose(centres, np.array(basis), atol=1e-6)


@pytest.mark.parametrize(("n_clusters", "n_features"), [(1, 1), (3, 3), (10, 116), (100, 116)])
def test_centres_are_orthonormal(n_clusters, n_features):
    centres = draw_orthonormal_centres(n_clusters, n_features)
    assert_allclose(centres @ centres.T, np.eye(n_clusters), atol=1e-5)


def test_attention_and_readout_pass_gradcheck():
    torch.manual_seed(0)
    attention = SelfAttention(5, 2, dropout=0.0).double()
    nodes, centres = draw(2, 4, 5).requires_grad_(), draw(3, 5, seed=1).requires_grad_()
    assert gradcheck(attention, (nodes,))
    assert gradcheck(read_out_clusters, (nodes, centres))


# -- symmetries ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_readout_is_invariant_to_node_order(seed):
    nodes, centres = draw(2, 6, 5, seed=seed), draw(3, 5, seed=9)
    order = np.random.default_rng(seed).permutation(6)
    assert_allclose(assign_to_clusters(nodes[:, order], centres), assign_to_clusters(nodes, centres)[:, order])
    assert_allclose(read_out_clusters(nodes[:, order], centres), read_out_clusters(nodes, centres), rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_a_layer_is_equivariant_to_node_order(seed):
    torch.manual_seed(seed)
    layer = TransformerLayer(5, 2, 8, dropout=0.1).double().eval()
    nodes, order = draw(2, 6, 5, seed=seed), np.random.default_rng(seed).permutation(6)
    with torch.no_grad():
        assert_allclose(layer(nodes[:, order]), layer(nodes)[:, order], rtol=1e-9)


def test_the_network_depends_on_the_order_of_the_nodes_by_their_features_alone():
    torch.manual_seed(0)
    network = BNTClassifier(**SMALL)._build_module(8, 2).double().eval()
    profiles, order = draw(2, 8, 8), np.random.default_rng(0).permutation(8)

    def answer(nodes):
        return network.reduction(read_out_clusters(network.layers(nodes), network.centres.double()))

    with torch.no_grad():
        assert_allclose(answer(profiles[:, order]), answer(profiles), rtol=1e-8)
        assert (answer(profiles[:, order][:, :, order]) - answer(profiles)).abs().max() > 0.01


def test_the_shares_of_a_node_sum_to_one():
    assert_allclose(assign_to_clusters(draw(2, 6, 5), draw(3, 5)).sum(2), np.ones((2, 6)))


# -- sizes and training -------------------------------------------------------------------------------------


def test_layers_have_the_sizes_of_the_published_program():
    network = BNTClassifier()._build_module(200, 2)
    shapes = {name: tuple(parameter.shape) for name, parameter in network.named_parameters() if parameter.ndim > 1}
    layer = {
        "attention.inputs.weight": (600, 200),
        "attention.output.weight": (200, 200),
        "feedforward.0.weight": (1024, 200),
        "feedforward.3.weight": (200, 1024),
    }
    assert shapes == {f"layers.{i}.{name}": shape for i in (0, 1) for name, shape in layer.items()} | {
        "reduction.0.weight": (8, 200),
        "mlp.0.0.weight": (256, 800),
        "mlp.1.0.weight": (32, 256),
        "head.weight": (2, 32),
    }
    assert network.layers[0].attention.n_heads == 4
    assert network.centres.shape == (100, 200)


def test_there_are_at_most_as_many_clusters_as_nodes():
    assert BNTClassifier()._build_module(12, 2).centres.shape == (12, 12)


def test_every_parameter_receives_a_gradient():
    torch.manual_seed(0)
    network = BNTClassifier(**SMALL)._build_module(12, 2)
    network(torch.randn(8, 12, 12)).logits.square().sum().backward()
    silent = [name for name, p in network.named_parameters() if p.grad is None or not p.grad.abs().max() > 0]
    assert silent == []


def test_training_leaves_the_centres_as_they_were_drawn():
    X, y = make_data()
    untrained, trained = (
        BNTClassifier(**SMALL, learning_rate=rate, max_epochs=3, calibrate=False, device="cpu", random_state=0)
        .fit(X, y)
        .module_
        for rate in (1e-12, 1e-2)
    )
    assert_array_equal(trained.centres, untrained.centres)
    assert (trained.head.weight - untrained.head.weight).abs().max() > 1e-3


@pytest.mark.parametrize("n_nodes", [2, 3, 13])
def test_graphs_whose_size_is_no_multiple_of_the_heads_pass(n_nodes):
    output = BNTClassifier()._build_module(n_nodes, 3)(torch.randn(2, n_nodes, n_nodes))
    assert output.logits.shape == (2, 3)
    assert output.code.shape == (2, 32)


def test_graphs_of_one_node_are_refused():
    with pytest.raises(InputError, match="two nodes"):
        BNTClassifier().fit(np.zeros((4, 1, 1)), [0, 1, 0, 1])


@pytest.mark.parametrize("name", ["n_layers", "n_heads", "feedforward_size", "n_clusters", "cluster_size"])
@pytest.mark.parametrize("value", [0, -1, 2.5, None])
def test_sizes_that_are_no_positive_whole_numbers_are_refused(name, value):
    with pytest.raises(InputError, match=name):
        BNTClassifier(**{name: value}).fit(*make_data())


@pytest.mark.parametrize("effect", ["existence", "orientation", "mean", "hub"])
def test_finds_a_planted_effect(effect):
    planted = make_planted_graphs(160, 16, effect=effect, signal_to_noise=5.0, random_state=0)
    model = BNTClassifier(max_epochs=20, calibrate=False, random_state=0)
    model.fit(planted.graphs[:110], planted.labels[:110])
    assert roc_auc_score(planted.labels[110:], model.predict_proba(planted.graphs[110:])[:, 1]) > 0.85
    assert model.transform(planted.graphs[:3]).shape == (3, 32)
