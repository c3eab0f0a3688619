"""The planted truth is the truth: everything known about the generator, checked on what it returns."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocapsnet._validation import InputError
from isocapsnet.datasets.synthetic import make_planted_graphs

EFFECTS = ("existence", "orientation", "null")


@given(st.sampled_from(EFFECTS), st.integers(2, 30), st.integers(3, 5), st.integers(5, 23), st.integers(0, 2**31))
def test_graphs_are_symmetric_float32_with_two_classes(effect, n_graphs, kernel_size, n_nodes, seed):
    planted = make_planted_graphs(n_graphs, n_nodes, kernel_size=kernel_size, effect=effect, random_state=seed)
    assert planted.graphs.shape == (n_graphs, n_nodes, n_nodes)
    assert planted.graphs.dtype == np.float32
    assert np.array_equal(planted.graphs, planted.graphs.swapaxes(1, 2))
    assert set(planted.labels) == {0, 1}


@given(st.integers(0, 2**31), st.integers(3, 5), st.integers(1, 3))
def test_noise_free_orientation_differs_only_by_permuting_the_planted_blocks(seed, kernel_size, n_patterns):
    planted = make_planted_graphs(
        8,
        17,
        kernel_size=kernel_size,
        n_patterns=n_patterns,
        effect="orientation",
        background="constant",
        signal_to_noise=np.inf,
        random_state=seed,
    )
    first, second = (planted.graphs[planted.labels == c] for c in (0, 1))
    assert (first == first[0]).all()
    assert (second == second[0]).all()
    expected = first[0].copy()
    for nodes, pattern, permutation in planted.truth:
        assert nodes[0] % kernel_size == 0
        block = np.ix_(nodes, nodes)
        expected[block] = first[0][block][permutation][:, permutation]
        assert not np.array_equal(expected[block], first[0][block])
        np.testing.assert_allclose(first[0][block] - pattern, first[0][block][0, 0], atol=1e-6)
    assert np.array_equal(second[0], expected)


@given(st.integers(0, 2**31), st.integers(3, 5))
def test_only_the_identity_maps_a_pattern_onto_itself(seed, kernel_size):
    planted = make_planted_graphs(4, 12, kernel_size=kernel_size, n_patterns=2, random_state=seed)
    for _, pattern, _ in planted.truth:
        order = [p for p in permutations(range(kernel_size)) if np.array_equal(pattern[np.ix_(p, p)], pattern)]
        assert order == [tuple(range(kernel_size))]
        assert np.array_equal(pattern, pattern.T)
        assert np.abs(pattern).max() == 1
        assert pattern.min() < 0 < pattern.max()


def test_existence_adds_the_pattern_to_class_1_only():
    planted = make_planted_graphs(20, 24, n_patterns=3, signal_to_noise=np.inf, random_state=3)
    difference = planted.graphs[planted.labels == 1][0] - planted.graphs[planted.labels == 0][0]
    for nodes, pattern, permutation in planted.truth:
        block = np.ix_(nodes, nodes)
        np.testing.assert_allclose(difference[block], pattern, atol=1e-6)
        difference[block] = 0
        assert permutation.tolist() == [0, 1, 2, 3]
    assert not difference.any()


def test_null_graphs_do_not_depend_on_the_labels():
    planted = make_planted_graphs(10, effect="null", signal_to_noise=np.inf)
    assert (planted.graphs == planted.graphs[0]).all()
    (nodes, pattern, _), background = planted.truth[0], make_planted_graphs(10, signal_to_noise=np.inf)
    without = background.graphs[background.labels == 0][0]
    block = np.ix_(nodes, nodes)
    np.testing.assert_allclose(planted.graphs[0][block] - without[block], pattern, atol=1e-6)


def test_noise_is_the_stated_share_of_the_largest_entry():
    noisy = make_planted_graphs(400, 20, signal_to_noise=5.0).graphs
    clean = make_planted_graphs(400, 20, signal_to_noise=np.inf).graphs
    noise = noisy - clean
    rows, columns = np.triu_indices(20)
    edges = noise[:, rows, columns]
    assert edges.std() == pytest.approx(0.2, rel=0.02)
    assert edges.mean() == pytest.approx(0, abs=0.002)
    correlation = np.corrcoef(edges, rowvar=False)
    np.fill_diagonal(correlation, 0)
    assert np.abs(correlation).max() < 0.3


@pytest.mark.parametrize(("balance", "positives"), [(0.5, 50), (0.25, 25), (0.0, 1), (1.0, 99)])
def test_class_balance_is_exact_and_both_classes_exist(balance, positives):
    assert make_planted_graphs(100, class_balance=balance).labels.sum() == positives


def test_block_background_is_common_to_all_and_has_modules():
    planted = make_planted_graphs(6, 25, signal_to_noise=np.inf)
    graph = planted.graphs[planted.labels == 0][0]
    assert sorted(set(np.round(graph.ravel(), 6).tolist())) == pytest.approx([0.1, 0.2, 0.4, 0.5])


def test_same_seed_same_graphs_and_another_seed_another_truth():
    first, again = (make_planted_graphs(effect="orientation", random_state=5) for _ in range(2))
    assert np.array_equal(first.graphs, again.graphs)
    assert np.array_equal(first.labels, again.labels)
    others = [make_planted_graphs(effect="orientation", random_state=seed).truth[0] for seed in range(8)]
    assert len({truth.pattern.tobytes() for truth in others}) == 8
    assert len({truth.nodes.tobytes() for truth in others}) > 1
    assert len({truth.permutation.tobytes() for truth in others}) > 1


def test_noise_leaves_truth_and_labels_as_they_were():
    quiet, loud = (make_planted_graphs(signal_to_noise=s, effect="orientation") for s in (np.inf, 1.0))
    assert np.array_equal(quiet.labels, loud.labels)
    assert np.array_equal(quiet.truth[0].pattern, loud.truth[0].pattern)


def test_global_random_state_is_untouched():
    before = np.random.get_state()[1].tolist()  # noqa: NPY002 - the global state is what is tested
    make_planted_graphs(10)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_sites_are_even_and_shift_edges_by_the_stated_amount():
    plain = make_planted_graphs(300, 40, n_sites=3, signal_to_noise=np.inf)
    shifted = make_planted_graphs(300, 40, n_sites=3, site_effect=0.5, signal_to_noise=np.inf)
    assert np.bincount(plain.sites).tolist() == [100, 100, 100]
    assert np.array_equal(plain.sites, shifted.sites)
    offsets = shifted.graphs - plain.graphs
    for site in range(3):
        of_site = offsets[shifted.sites == site]
        np.testing.assert_allclose(of_site, of_site[:1].repeat(len(of_site), 0), atol=1e-6)
        assert of_site[0].std() == pytest.approx(0.5, rel=0.1)


def test_extensions_switched_off_change_nothing():
    plain = make_planted_graphs(30)
    assert np.array_equal(plain.graphs, make_planted_graphs(30, n_sites=3, site_effect=0.0, missing_nodes=0).graphs)
    assert plain.sites.tolist() == [0] * 30


def test_missing_nodes_are_rows_and_columns_of_zeros():
    graphs = make_planted_graphs(50, 20, missing_nodes=3).graphs
    assert ((graphs == 0).all(axis=2).sum(axis=1) == 3).all()
    assert ((graphs == 0).all(axis=1).sum(axis=1) == 3).all()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"effect": "size"}, "effect='size' is unknown"),
        ({"background": "noise"}, "background='noise' is unknown"),
        ({"n_graphs": 1}, "n_graphs=1"),
        ({"kernel_size": 1}, "kernel_size=1"),
        ({"kernel_size": 2, "effect": "orientation"}, "kernel_size=2"),
        ({"n_nodes": 3}, "n_nodes=3"),
        ({"n_patterns": 7}, "n_patterns=7"),
        ({"signal_to_noise": 0}, "signal_to_noise=0"),
        ({"class_balance": 1.5}, "class_balance=1.5"),
        ({"n_sites": 0}, "n_sites=0"),
        ({"site_effect": -1}, "site_effect=-1"),
        ({"missing_nodes": 24}, "missing_nodes=24"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        make_planted_graphs(**arguments)
