"""The motif network: what it computes, where it looks, and what does not change it."""

from itertools import combinations, permutations

import numpy as np
import pytest
import torch

from isocapsnet.nn import MotifNetwork
from isocapsnet.nn.motifs import MOTIF_WINDOWS, distances_along


def make_graphs(n_graphs=6, n_nodes=9, seed=0):
    graphs = torch.randn(n_graphs, n_nodes, n_nodes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return graphs + graphs.mT


def make_network(graphs, seed=0, **settings):
    """A network that started from graphs, with a head that is not zero."""
    torch.manual_seed(seed)
    network = MotifNetwork(graphs.shape[1], 2, **{"n_templates": 5, "kernel_size": 3, **settings}).double()
    network.start_from(graphs.mean(dim=0), graphs)
    torch.nn.init.normal_(network.head.weight)
    return network.eval()


def shuffle(graphs, order):
    return graphs[..., order, :][..., :, order]


@pytest.mark.parametrize("deviation_from", ["mean_graph", "mean_edge"])
def test_shuffling_the_nodes_of_all_graphs_changes_nothing(deviation_from):
    graphs, order = make_graphs(), torch.randperm(9, generator=torch.Generator().manual_seed(1))
    network, other = (make_network(some, deviation_from=deviation_from) for some in (graphs, shuffle(graphs, order)))
    before = network(graphs).logits
    assert before.std() > 0.1
    torch.testing.assert_close(other(shuffle(graphs, order)).logits, before, atol=1e-10, rtol=0)


def test_ranges_of_neighbouring_nodes_depend_on_the_order_of_the_nodes_alone():
    graphs, order = make_graphs(), torch.arange(9).flip(0)
    network = make_network(graphs, windows="diagonal", deviation_from="mean_edge")
    nodes = network.take(graphs)[1]
    assert nodes.tolist() == 6 * [[[i, i + 1, i + 2] for i in range(7)]]
    before = network(graphs).logits
    torch.testing.assert_close(network(shuffle(graphs, order)).logits, before, atol=1e-10, rtol=0)  # the same ranges
    assert (network(shuffle(graphs, torch.randperm(9))).logits - before).abs().max() > 1e-3


def test_shuffling_each_graph_in_its_own_way_changes_nothing_if_deviations_are_from_one_number():
    graphs = make_graphs()
    shuffled = torch.stack([shuffle(graph, torch.randperm(9)) for graph in graphs])
    same, other = (make_network(graphs, deviation_from=mean) for mean in ("mean_edge", "mean_graph"))
    torch.testing.assert_close(same(shuffled).logits, same(graphs).logits, atol=1e-10, rtol=0)
    assert (other(shuffled).logits - other(graphs).logits).abs().max() > 1e-3


@pytest.mark.parametrize("windows", MOTIF_WINDOWS)
def test_no_parameter_belongs_to_a_node(windows):
    small, large = (MotifNetwork(n_nodes, 2, windows=windows) for n_nodes in (10, 30))
    assert [p.shape for p in small.parameters()] == [p.shape for p in large.parameters()]


@pytest.mark.parametrize("windows", MOTIF_WINDOWS)
def test_scores_are_the_standardised_soft_minimum_of_the_distances_to_all_windows(windows):
    graphs = make_graphs()
    network = make_network(graphs, softness=0.5, windows=windows)
    nodes = network.take(graphs)[1].numpy()
    expected = np.zeros((6, 5))
    deviations = ((graphs - network.center) / network.scale).numpy()
    for i, template in np.ndindex(6, 5):
        pattern = network.templates[template].detach().numpy()
        distances = []
        for window in nodes[i]:
            block = deviations[i][np.ix_(window, window)] * (1 - np.eye(3))
            distances.append(
                min(np.linalg.norm(pattern[np.ix_(p, p)] - block) for p in map(list, permutations(range(3))))
            )
        expected[i, template] = 0.5 * np.log(np.mean(np.exp(-np.array(distances) / 0.5)))
    expected = (expected - network.mean.numpy()) / np.sqrt(network.variance.numpy() + 1e-5)
    np.testing.assert_allclose(network(graphs).scores.detach().numpy(), expected, atol=1e-9)


@pytest.mark.parametrize("windows", MOTIF_WINDOWS)
def test_located_nodes_are_in_the_order_of_the_template(windows):
    graphs = make_graphs()
    network = make_network(graphs, windows=windows)
    distances, nodes = network.locate(graphs)
    deviations = (graphs - network.center) / network.scale
    for i, template in np.ndindex(6, 5):
        found = nodes[i, template]
        block = shuffle(deviations[i], found) * (1 - torch.eye(3))
        assert len(set(found.tolist())) == 3
        torch.testing.assert_close((block - network.templates[template]).norm(), distances[i, template])


def test_a_planted_template_is_located_where_it_was_planted():
    graphs = 0.01 * make_graphs()
    network = make_network(graphs)
    places = [torch.tensor(nodes) for nodes in list(combinations(range(9), 3))[5:65:11]]
    pattern = torch.tensor([[0.0, 3.0, 2.0], [3.0, 0.0, -1.0], [2.0, -1.0, 0.0]], dtype=torch.float64)
    for graph, nodes in zip(graphs, places, strict=True):
        graph[nodes[:, None], nodes] += pattern
    with torch.no_grad():
        network.templates[0] = pattern / network.scale
    assert network.locate(graphs)[1][:, 0].tolist() == [nodes.tolist() for nodes in places]


def test_the_distance_is_0_at_the_pattern_1_at_the_others_and_the_log_likelihood_ratio_between():
    graphs = make_graphs(20)
    network = make_network(graphs)
    network.describe(network.take(graphs)[0], torch.arange(20) % 2)
    patterns, others = network.patterns, network.others
    ends = torch.stack([patterns, others, 2 * patterns - others])
    expected = torch.tensor([0.0, 1.0, -1.0], dtype=torch.float64)[:, None].expand(-1, 5)
    torch.testing.assert_close(distances_along(ends, patterns, others), expected)
    windows = torch.randn(50, 5, 3, 3, dtype=torch.float64)
    squares = [(windows - mean).square().sum(dim=(2, 3)) for mean in (patterns, others)]
    ratio, found = squares[0] - squares[1], distances_along(windows, patterns, others)
    for template in range(5):
        assert np.corrcoef(ratio[:, template], found[:, template])[0, 1] == pytest.approx(1)


def test_patterns_are_what_carriers_share_and_others_what_the_other_class_has_in_its_place():
    graphs, codes = 0.1 * make_graphs(40), torch.arange(40) % 2
    pattern = torch.tensor([[0.0, 3.0, 2.0], [3.0, 0.0, -1.0], [2.0, -1.0, 0.0]], dtype=torch.float64)
    rng, places = np.random.default_rng(0), {}
    for index in range(1, 40, 4):  # half of class 1
        places[index] = torch.from_numpy(rng.permutation(9)[:3])
        graphs[index][places[index][:, None], places[index]] += pattern
    network = make_network(graphs, deviation_from="mean_edge", n_templates=1)
    with torch.no_grad():
        network.templates[0] = pattern / network.scale
        network.head.weight[1] = network.head.weight[0] + 1
    network.describe(network.take(graphs)[0], codes)
    assert (network.patterns[0] * network.scale - pattern).abs().max() < 0.2
    distances, nodes = network.locate_patterns(graphs)
    is_carrier = distances[:, 0] <= network.thresholds[0]
    assert is_carrier.nonzero()[:, 0].tolist() == list(places)
    assert [nodes[index, 0].tolist() for index in places] == [nodes.tolist() for nodes in places.values()]


def test_gradients_of_templates_and_head_equal_differences():
    graphs = make_graphs(3, 7)
    network = make_network(graphs, n_templates=2)

    def logits(templates, weight):
        return torch.func.functional_call(network, {"templates": templates, "head.weight": weight}, graphs).logits

    inputs = (network.templates.detach().requires_grad_(), network.head.weight.detach().requires_grad_())
    assert torch.autograd.gradcheck(logits, inputs)


@pytest.mark.parametrize("windows", MOTIF_WINDOWS)
def test_templates_start_from_strong_windows_and_have_unit_size(windows):
    graphs = make_graphs(20)
    network = make_network(graphs, windows=windows)
    windows = (network.take(graphs)[0]).reshape(-1, 3, 3)
    assert network.templates.square().sum().item() == pytest.approx(5 * 3 * 2)
    for template in network.templates:
        closest = (windows - template).flatten(1).norm(dim=1).argmin()
        torch.testing.assert_close(windows[closest], template.detach())
        assert (windows.flatten(1).norm(dim=1) > windows[closest].norm()).double().mean() <= 0.1


def test_graphs_that_are_all_alike_give_finite_scores():
    graphs = make_graphs(1).expand(4, -1, -1)
    network = make_network(graphs)
    assert torch.isfinite(network(graphs).logits).all()
    assert torch.isfinite(network.train()(graphs[:1]).logits).all()
