"""Windows that follow strong edges: against slow references, and invariant to the order of the nodes."""

from itertools import permutations

import numpy as np
import pytest
import torch

from isocapsnet._validation import InputError
from isocapsnet.functional import (
    diagonal_windows,
    grown_windows,
    nearest_windows,
    shared_patterns,
    soft_minimum,
    strongest_windows,
    take_windows,
    turn_windows,
)


def random_graphs(seed, n_graphs=3, n_nodes=7, directed=False):
    graphs = torch.randn(n_graphs, n_nodes, n_nodes, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return graphs if directed else (graphs + graphs.mT) / 2


def slow_growth(graph, k, n_windows):
    strength = ((abs(graph) + abs(graph).T) / 2) ** 2
    n = len(graph)
    edges = sorted(((i, j) for i in range(n) for j in range(i + 1, n)), key=lambda e: -strength[e])
    sets = []
    for edge in edges[:n_windows]:
        nodes = list(edge)
        while len(nodes) < k:
            rest = [j for j in range(n) if j not in nodes]
            nodes.append(max(rest, key=lambda j: sum(strength[i, j] for i in nodes)))
        sets.append(nodes)
    return sets


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("k", "n_windows"), [(2, 21), (3, 5), (4, 9), (7, 1)])
def test_windows_grow_one_strongest_node_at_a_time(k, n_windows, directed):
    graphs = random_graphs(1, directed=directed)
    nodes = grown_windows(graphs, k, n_windows)
    for b, graph in enumerate(graphs.numpy()):
        assert nodes[b].tolist() == slow_growth(graph, k, n_windows)


def test_the_diagonal_is_never_strong():
    graphs = random_graphs(2)
    marked = graphs.clone()
    marked.diagonal(dim1=1, dim2=2).fill_(1e6)
    assert torch.equal(grown_windows(graphs, 4, 6), grown_windows(marked, 4, 6))


def test_shuffling_the_nodes_shuffles_the_windows():
    graphs = random_graphs(3)
    order = torch.from_numpy(np.random.default_rng(0).permutation(7))
    shuffled = graphs[:, order][:, :, order]
    expected = sorted(map(sorted, grown_windows(graphs, 4, 8).flatten(0, 1).tolist()))
    found = order[grown_windows(shuffled, 4, 8)]
    assert sorted(map(sorted, found.flatten(0, 1).tolist())) == expected


def test_diagonal_windows_are_all_ranges_of_neighbouring_nodes():
    assert diagonal_windows(5, 3).tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert diagonal_windows(4, 4).tolist() == [[0, 1, 2, 3]]


def test_taken_windows_are_sub_matrices_without_diagonal():
    graphs = random_graphs(4, directed=True)
    nodes = grown_windows(graphs, 3, 7)
    windows = take_windows(graphs, nodes)
    for b, w in np.ndindex(3, 7):
        index = nodes[b, w].numpy()
        expected = graphs[b].numpy()[np.ix_(index, index)].copy()
        np.fill_diagonal(expected, 0)
        np.testing.assert_array_equal(windows[b, w].numpy(), expected)


def test_taking_windows_has_the_gradient_of_its_edges():
    graphs = random_graphs(5).requires_grad_()
    nodes = grown_windows(graphs, 3, 4)
    assert torch.autograd.gradcheck(lambda g: take_windows(g, nodes), graphs)


def test_soft_minimum_lies_between_minimum_and_mean():
    distances = torch.rand(5, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(soft_minimum(distances, 1e-4), distances.amin(1), atol=1e-3, rtol=0)
    torch.testing.assert_close(soft_minimum(distances, 1e4), distances.mean(1), atol=1e-3, rtol=0)
    soft = soft_minimum(distances, 0.3)
    assert ((soft > distances.amin(1)) & (soft < distances.mean(1))).all()
    assert torch.autograd.gradcheck(lambda d: soft_minimum(d, 0.3), distances.requires_grad_())


@pytest.mark.parametrize(
    "call",
    [
        lambda g: grown_windows(g, 8, 3),
        lambda g: grown_windows(g, 1, 3),
        lambda g: grown_windows(g, 3, 0),
        lambda g: grown_windows(g, 3, 22),
        lambda g: diagonal_windows(7, 8),
        lambda g: diagonal_windows(7, 0),
    ],
)
def test_windows_that_cannot_be_are_refused(call):
    with pytest.raises(InputError, match="out of range"):
        call(random_graphs(0))


def all_orders(k):
    return [list(order) for order in permutations(range(k))]


def test_the_nearest_window_is_that_of_a_search_over_all_windows_and_orders():
    graphs = random_graphs(8, directed=True)
    windows = take_windows(graphs, grown_windows(graphs, 4, 5))
    templates = random_graphs(9, n_graphs=2, n_nodes=4, directed=True)
    distance, window, order = nearest_windows(windows, templates)
    for b, t in np.ndindex(3, 2):
        slow = [(windows[b, w][p][:, p] - templates[t]).norm() for w in range(5) for p in all_orders(4)]
        assert float(distance[b, t]) == pytest.approx(float(min(slow)))
        nearest, rows = windows[b, window[b, t]], order[b, t]
        assert float((nearest[rows][:, rows] - templates[t]).norm()) == pytest.approx(float(min(slow)))


def test_the_strongest_window_is_that_of_a_search_over_all_windows_and_orders():
    graphs = random_graphs(8, directed=True)
    windows = take_windows(graphs, grown_windows(graphs, 4, 5))
    templates = random_graphs(9, n_graphs=2, n_nodes=4, directed=True) * (1 - torch.eye(4))
    best = strongest_windows(windows, templates)
    turned = turn_windows(windows, best)
    is_nearest = nearest_windows(windows, templates).window == best.window
    assert not is_nearest.all()
    for b, t in np.ndindex(3, 2):
        slow = max(float((windows[b, w][p][:, p] * templates[t]).sum()) for w in range(5) for p in all_orders(4))
        assert float((turned[b, t] * templates[t]).sum()) == pytest.approx(slow)
        rows = best.order[b, t]
        assert torch.equal(turned[b, t], windows[b, best.window[b, t]][rows][:, rows])
        assert float((turned[b, t] - templates[t]).norm()) == pytest.approx(float(best.distance[b, t]))


def test_the_shared_pattern_of_one_carrier_is_its_best_window():
    graphs = random_graphs(10)
    windows = take_windows(graphs, grown_windows(graphs, 4, 5))
    templates = random_graphs(11, n_graphs=1, n_nodes=4)
    carriers = torch.tensor([[False], [True], [False]])
    pattern = shared_patterns(windows, templates, carriers, n_steps=1)
    assert torch.equal(pattern, turn_windows(windows, strongest_windows(windows, templates))[1])
    assert nearest_windows(windows[1:2], pattern).distance == 0


@pytest.mark.parametrize("seed", range(5))
def test_a_step_towards_the_shared_pattern_never_makes_it_weaker_in_the_carriers(seed):
    graphs = random_graphs(20 + seed, n_graphs=70, n_nodes=9)
    windows = take_windows(graphs, grown_windows(graphs, 4, 6))
    templates = random_graphs(seed, n_graphs=3, n_nodes=4) * (1 - torch.eye(4))
    carriers = torch.rand(70, 3, generator=torch.Generator().manual_seed(seed)) < 0.5
    totals = []
    for n_steps in range(5):
        patterns = shared_patterns(windows, templates, carriers, n_steps)
        products = (turn_windows(windows, strongest_windows(windows, patterns)) * patterns).sum(dim=(2, 3))
        totals.append(((products - patterns.square().sum(dim=(1, 2)) / 2) * carriers).sum(dim=0))
    gains = torch.stack(totals).diff(dim=0)
    assert (gains >= -1e-9).all()
    assert (gains[0] > 1e-3).all()


def test_a_template_without_carriers_stays():
    graphs = random_graphs(12)
    windows = take_windows(graphs, grown_windows(graphs, 4, 5))
    templates = random_graphs(13, n_graphs=2, n_nodes=4)
    assert torch.equal(shared_patterns(windows, templates, torch.zeros(3, 2, dtype=torch.bool)), templates)
