"""Every preset against slow code written from the papers' equations; only weights are taken from the networks."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import softmax

from isocapsnet.models import MODELS
from isocapsnet.models._graph_network import OWN_ENTRY
from isocapsnet.models.sdbn import MAX_MODULES, find_modules

N_NODES = 12


def random_graphs(n_graphs=3, n_nodes=N_NODES, seed=0):
    graphs = np.random.default_rng(seed).normal(size=(n_graphs, n_nodes, n_nodes))
    return (graphs + graphs.swapaxes(1, 2)).astype(np.float32)


def module_of(method, n_nodes=N_NODES, **parameters):
    """The network of the preset in evaluation mode, with batch normalisations that change nothing."""
    torch.manual_seed(0)
    module = MODELS[method](preset="paper", **parameters)._build_module(n_nodes, 2)
    for part in module.modules():
        if isinstance(part, torch.nn.BatchNorm1d):
            part.eps = 1e-30
    return module.eval()


def run(module, graphs):
    with torch.no_grad():
        return module(torch.from_numpy(graphs))


def array(parameter):
    return parameter.detach().double().numpy()


def relu(x):
    return np.maximum(x, 0)


def nodes_and_edges(graph, density):
    """Profiles with a mark at the node's own position, and the strongest positive edges, without weights."""
    n = len(graph)
    weights = np.where(np.eye(n, dtype=bool), 0, relu(graph.astype(np.float64)))
    n_kept = round(density * n * (n - 1))
    edges = ((weights >= np.sort(weights, axis=None)[-n_kept]) & (weights > 0)).astype(np.float64)
    return np.where(np.eye(n, dtype=bool), OWN_ENTRY, graph.astype(np.float64)), edges


# -- GIN ---------------------------------------------------------------------------------------------------------


def test_gin_has_four_layers_summed_nodes_and_one_classifier_per_layer():
    graphs, module = random_graphs(), module_of("gin", density=0.3, hidden_size=5)
    assert len(module.convolutions) == 4
    for i, convolution in enumerate(module.convolutions):
        convolution.eps.data.fill_(0.1 * i)
    output = run(module, graphs)
    for graph, code, logits in zip(graphs, output.code, output.logits, strict=True):
        nodes, edges = nodes_and_edges(graph, 0.3)
        pooled = [nodes.sum(axis=0)]
        for i, convolution in enumerate(module.convolutions):
            inner, outer = (array(convolution.nn[j].weight).T for j in (0, 3))
            nodes = relu(relu(((1 + 0.1 * i) * nodes + edges @ nodes) @ inner) @ outer)
            pooled.append(nodes.sum(axis=0))
        scores = [
            array(layer.weight) @ h + array(layer.bias)
            for layer, h in zip(module.classifier.layers, pooled, strict=True)
        ]
        assert_allclose(code, np.concatenate(pooled), rtol=1e-4, atol=1e-4)
        assert_allclose(logits, np.sum(scores, axis=0), rtol=1e-4, atol=1e-4)


def test_gin_drops_class_scores_and_no_node_features():
    graphs = torch.from_numpy(random_graphs())
    module = MODELS["gin"](preset="paper", density=0.3, dropout=0.5)._build_module(N_NODES, 2).train()
    first, second = module(graphs), module(graphs)
    assert torch.equal(first.code, second.code) and not torch.equal(first.logits, second.logits)


# -- DGCNN -------------------------------------------------------------------------------------------------------


def test_dgcnn_normalises_rows_and_sorts_all_nodes():
    graphs, module = random_graphs(), module_of("dgcnn", density=0.3, hidden_size=4, channels=(3, 2), dense_size=5)
    output = run(module, graphs)
    per_node, between, dense = module.encoder[0], module.encoder[3], module.encoder[6]
    for graph, code in zip(graphs, output.code, strict=True):
        nodes, edges = nodes_and_edges(graph, 0.3)
        looped = edges + np.eye(N_NODES)
        states = []
        for convolution in module.convolutions:
            nodes = np.tanh(looped @ nodes @ array(convolution.lin.weight).T / looped.sum(axis=1, keepdims=True))
            states.append(nodes)
        assert [state.shape[1] for state in states] == [4, 4, 4, 1]
        ordered = np.hstack(states)[np.argsort(-states[-1][:, 0])]  # as many nodes as every graph has
        steps = relu(ordered @ array(per_node.weight)[:, 0].T + array(per_node.bias))
        pairs = np.maximum(steps[0::2], steps[1::2])
        kernel = array(between.weight)  # (2, 3, 5)
        mixed = np.array(
            [
                [np.sum(kernel[c] * pairs[t : t + 5].T) + array(between.bias)[c] for t in range(len(pairs) - 4)]
                for c in range(2)
            ]
        )
        expected = relu(array(dense.weight) @ relu(mixed).ravel() + array(dense.bias))
        assert expected.max() > 0
        assert_allclose(code, expected, rtol=1e-4, atol=1e-5)


# -- DiffPool ----------------------------------------------------------------------------------------------------


def sage(gnn, nodes, edges):
    """Mean of the neighbours and own features, scaled to length 1; ReLU between layers."""
    for i, convolution in enumerate(gnn.convolutions):
        nodes = relu(nodes) if i else nodes
        neighbours = edges @ nodes / np.maximum(edges.sum(axis=1, keepdims=True), 1)
        nodes = neighbours @ array(convolution.lin_rel.weight).T + nodes @ array(convolution.lin_root.weight).T
        nodes = nodes / np.maximum(np.linalg.norm(nodes, axis=1, keepdims=True), 1e-12)
    return nodes


def test_diffpool_has_three_layers_two_poolings_maxima_and_the_losses_of_the_paper():
    graphs, module = random_graphs(), module_of("diffpool", density=0.3, hidden_size=16)
    assert {len(gnn.convolutions) for gnn in (*module.embeddings, *module.assignments)} == {3}
    output = run(module, graphs)
    link_losses, entropies = [], []
    for graph, code in zip(graphs, output.code, strict=True):
        nodes, edges = nodes_and_edges(graph, 0.3)
        maxima, link_loss, entropy = [], 0.0, 0.0
        for embed, assign, n_clusters in zip(module.embeddings[:-1], module.assignments, (3, 1), strict=True):
            S = softmax(sage(assign, nodes, edges), axis=1)
            assert S.shape[1] == n_clusters
            embedded = relu(sage(embed, nodes, edges))
            maxima.append(embedded.max(axis=0))
            link_loss += np.linalg.norm(edges - S @ S.T)
            entropy -= (S * np.log(S)).sum(axis=1).mean()
            nodes, edges = S.T @ embedded, S.T @ edges @ S
        maxima.append(relu(sage(module.embeddings[-1], nodes, edges)).max(axis=0))
        assert all(level.max() > 0 for level in maxima)
        assert_allclose(code, np.concatenate(maxima), rtol=1e-4, atol=1e-5)
        link_losses.append(link_loss)
        entropies.append(entropy)
    assert_allclose(output.link_loss, np.mean(link_losses), rtol=1e-5)
    assert_allclose(output.entropy, np.mean(entropies), rtol=1e-4)
    assert module.dropout.p == 0


# -- IsoNN -------------------------------------------------------------------------------------------------------


def dense_head(module, features):
    for layer in module.connected:
        if isinstance(layer, torch.nn.Linear):
            features = relu(array(layer.weight) @ features + array(layer.bias))
    return array(module.head.weight) @ features + array(module.head.bias)


def windows(graph, k):
    n = len(graph) - k + 1
    return [graph[s : s + k, t : t + k].astype(np.float64) for s in range(n) for t in range(n)]


def normalised(squared):
    """Softmax of the negative squared distances over windows, times their number."""
    return softmax(-np.array(squared), axis=1) * len(squared[0])


def test_isonn_normalises_squared_distances_of_three_templates_of_four_nodes():
    graphs, module = random_graphs(2, 6) / 4, module_of("isonn", 6)
    assert [layer.out_features for layer in module.connected if isinstance(layer, torch.nn.Linear)] == [1024, 128]
    templates = array(module.layers[0].templates) / 4
    module.layers[0].templates.data /= 4
    assert templates.shape == (3, 4, 4)
    for graph, logits in zip(graphs, run(module, graphs).logits, strict=True):
        squared = [
            [min(((K[np.ix_(p, p)] - A) ** 2).sum() for p in permutations(range(4))) for A in windows(graph, 4)]
            for K in templates
        ]
        assert_allclose(logits, dense_head(module, normalised(squared).ravel()), rtol=1e-4, atol=1e-5)


def test_fastisonn_takes_the_absolute_eigenvectors_of_raw_matrices():
    graphs, module = random_graphs(2, 6) / 4, module_of("fastisonn", 6)
    module.layers[0].templates.data /= 4
    templates = array(module.layers[0].templates)

    def moduli(matrix):
        return np.abs(np.linalg.eig(matrix.astype(np.float32))[1])

    for graph, logits in zip(graphs, run(module, graphs).logits, strict=True):
        squared = []
        for K in templates:
            squared.append([])
            for A in windows(graph, 4):
                P = moduli(A) @ moduli(K).T
                squared[-1].append(((P @ K @ P.T - A) ** 2).sum())
        assert_allclose(logits, dense_head(module, normalised(squared).ravel()), rtol=1e-4, atol=1e-5)
    module.layers[0].symmetrise = True
    assert not np.allclose(run(module, graphs).logits[-1], logits, atol=1e-4)


# -- SDBN --------------------------------------------------------------------------------------------------------


def modularity(strength, modules):
    """Newman's Q by its definition."""
    links = strength + strength.T
    np.fill_diagonal(links, 0)
    degrees, total = links.sum(axis=1), links.sum()
    value = 0.0
    for i in range(len(links)):
        for j in range(len(links)):
            if modules[i] == modules[j]:
                value += links[i, j] / total - degrees[i] * degrees[j] / total**2
    return value


@pytest.mark.parametrize("sizes", [(5, 4, 6), (3, 3, 3, 3), (8, 7)])
def test_modules_are_found(sizes):
    rng = np.random.default_rng(0)
    planted = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    strength = np.where(planted[:, None] == planted, 0.9, 0.1) + 0.05 * rng.random((len(planted),) * 2)
    modules = find_modules(strength)
    assert len({*zip(planted.tolist(), modules.tolist(), strict=True)}) == len(sizes) == len(set(modules.tolist()))
    for other in (np.zeros_like(planted), np.arange(len(planted)), rng.permutation(planted)):
        assert modularity(strength, modules) > modularity(strength, other)


@pytest.mark.parametrize("n_nodes", [1, 2, 3, 40])
def test_graphs_without_modules_have_few(n_nodes):
    for strength in (np.zeros((n_nodes, n_nodes)), np.ones((n_nodes, n_nodes))):
        assert find_modules(strength).shape == (n_nodes,) and find_modules(strength).max() == 0
    assert find_modules(np.random.default_rng(0).random((n_nodes, n_nodes))).max() < MAX_MODULES


def test_sdbn_gives_the_convolutions_the_edges_inside_modules():
    rng = np.random.default_rng(0)
    planted = rng.permutation(np.repeat([0, 1, 2], 4))
    graphs = np.where(planted[:, None] == planted, 1.0, 0.2) * rng.choice([-1, 1], size=(12, 12, 12))
    graphs = np.triu(graphs, 1) + np.triu(graphs, 1).swapaxes(1, 2)
    model = MODELS["sdbn"](preset="paper", max_epochs=1, calibrate=False, device="cpu", random_state=0)
    model.fit(graphs, np.arange(12) % 2)
    assert len({*zip(planted.tolist(), model.modules_.tolist(), strict=True)}) == 3
    inputs = np.zeros((12, 2, 12, 12), dtype=np.float32)
    scaled = model.scaler_.transform(graphs)
    for i, a in enumerate(model.order_):
        for j, b in enumerate(model.order_):
            inputs[:, 0, i, j] = scaled[:, a, b]
            inputs[:, 1, i, j] = scaled[:, a, b] if planted[a] == planted[b] else 0
    with torch.no_grad():
        maps = model.module_.convolutions(torch.from_numpy(inputs))
        expected = model.module_.head(model.module_.connected(maps.flatten(1)))
        output = model.module_(torch.from_numpy(scaled))
    assert_allclose(output.logits, expected, rtol=1e-5)
    assert torch.equal(output.graphs, torch.from_numpy(inputs[:, 0])), (
        "the graph is reconstructed, not the augmentation"
    )
    assert output.reconstruction.shape == output.graphs.shape


# -- WL ----------------------------------------------------------------------------------------------------------


def subtree_counts(edges, n_iterations):
    """Counts of labels over all iterations; a label is the whole subtree, written out."""
    labels = [str(node) for node in range(len(edges))]
    counts = Counter((0, label) for label in labels)
    for iteration in range(1, n_iterations + 1):
        labels = [
            f"{labels[node]}({','.join(sorted(labels[other] for other in np.flatnonzero(edges[node])))})"
            for node in range(len(edges))
        ]
        counts.update((iteration, label) for label in labels)
    return counts


def test_wl_sums_the_labels_of_the_training_graphs_weighted_by_the_kernel():
    graphs, labels = random_graphs(14), np.arange(14) % 2
    model = MODELS["wl"](preset="paper", density=0.2, random_state=0).fit(graphs[:10], labels[:10])
    counts = [subtree_counts(nodes_and_edges(graph, 0.2)[1], 1) for graph in graphs]

    def kernel(a, b):
        def dot(x, y):
            return sum(x[key] * y[key] for key in x)

        return dot(a, b) / np.sqrt(dot(a, a) * dot(b, b))

    for i, proba in enumerate(model.predict_proba(graphs[10:]), start=10):
        votes = [sum(kernel(counts[i], counts[j]) for j in range(10) if labels[j] == c) for c in (0, 1)]
        assert_allclose(proba, np.array(votes) / np.sum(votes), rtol=1e-6)
