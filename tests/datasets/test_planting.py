"""Patterns without a fixed place: what the truth says of each graph is what the graph holds, and nothing else."""

import hashlib
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocapsnet._validation import InputError
from isocapsnet.datasets.planting import EFFECTS, MOVABLE
from isocapsnet.datasets.synthetic import make_planted_graphs

SEEDS = st.integers(0, 2**31)
#: Settings and the digests of what they gave before patterns without a fixed place existed.
BEFORE = {
    "e914078c878b139d": {},
    "b20a7d0b2d814924": {"effect": "orientation", "kernel_size": 5, "n_patterns": 3, "random_state": 7},
    "ed165f8bae1a818a": {"effect": "null", "n_patterns": 2, "class_balance": 0.3, "random_state": 1},
    "623bfffab3e64387": {
        "n_graphs": 50, "n_nodes": 17, "kernel_size": 3, "n_patterns": 2, "n_sites": 3, "site_effect": 0.2,
        "missing_nodes": 2, "random_state": 3,
    },
    "55cf317c5f365428": {
        "n_graphs": 9, "effect": "orientation", "background": "constant", "signal_to_noise": np.inf, "random_state": 11,
    },
}  # fmt: skip


def carriers_of(planted):
    """Which graph carries which pattern ``(n_patterns, n_graphs)``."""
    return np.array([places[:, 0] >= 0 for places in planted.occurrences])


def without_patterns(planted):
    """The graphs with every pattern subtracted where the truth says that it is, entry by entry."""
    graphs = planted.graphs.astype(float)
    for (_, pattern, _), places in zip(planted.truth, planted.occurrences, strict=True):
        for graph, nodes in zip(graphs, places, strict=True):
            for a, first in enumerate(nodes):
                for b, second in enumerate(nodes):
                    graph[first, second] -= 0 if first < 0 else pattern[a, b]
    return graphs


def isomorphic_distance(first, second):
    """min over permutations of ‖P first Pᵀ - second‖, one permutation at a time."""
    orders = permutations(range(len(first)))
    return min(float(np.linalg.norm(first[np.ix_(order, order)] - second)) for order in orders)


@pytest.mark.parametrize("digest", BEFORE)
def test_effects_of_earlier_versions_are_the_same_bit_for_bit(digest):
    planted = make_planted_graphs(**BEFORE[digest])
    found = hashlib.sha256()
    for array in (planted.graphs, planted.labels, planted.sites, *(part for p in planted.truth for part in p)):
        found.update(np.ascontiguousarray(array).tobytes())
    assert found.hexdigest()[:16] == digest


@pytest.mark.parametrize("effect", [*EFFECTS, ("existence", "motif"), ("hub", "wiring")])
@pytest.mark.parametrize("placement", ["fixed", "slot", "free"])
@given(seed=SEEDS, kernel_size=st.integers(4, 6), n_patterns=st.integers(1, 2), prevalence=st.floats(0.1, 1))
def test_only_the_background_is_left_without_the_patterns(effect, placement, seed, kernel_size, n_patterns, prevalence):
    effects = [effect] if isinstance(effect, str) else effect
    planted = make_planted_graphs(
        12,
        26,
        effect=effect,
        placement=placement if set(effects) & set(MOVABLE) else None,
        kernel_size=kernel_size,
        n_patterns=n_patterns,
        prevalence=prevalence,
        signal_to_noise=np.inf,
        random_state=seed,
    )
    left = without_patterns(planted)
    background = make_planted_graphs(2, 26, signal_to_noise=np.inf)
    expected = np.broadcast_to(background.graphs[background.labels == 0], left.shape)
    np.testing.assert_allclose(left, expected, atol=1e-6)


@pytest.mark.parametrize("effect", ["motif", "wiring", "mean", "hub"])
def test_without_the_patterns_both_classes_are_background_and_the_same_noise(effect):
    planted = make_planted_graphs(400, 12, effect=effect, signal_to_noise=2.0, background="constant")
    upper = np.triu_indices(12, k=1)
    first, second = (without_patterns(planted)[planted.labels == label][:, *upper] for label in (0, 1))
    assert first.mean() == pytest.approx(second.mean(), abs=0.02)
    assert first.std() == pytest.approx(0.5, rel=0.02)
    assert second.std() == pytest.approx(0.5, rel=0.02)


@given(
    SEEDS,
    st.sampled_from(["fixed", "slot", "free"]),
    st.sampled_from(["fixed", "random"]),
    st.sampled_from([("motif",), ("wiring",), ("existence", "motif")]),
)
def test_no_two_patterns_share_a_node(seed, placement, orientation, effect):
    planted = make_planted_graphs(
        10, 17, effect=effect, placement=placement, orientation=orientation, n_patterns=2, random_state=seed
    )
    for nodes in np.concatenate(planted.occurrences, axis=1):
        carried = nodes[nodes >= 0]
        assert len(set(carried.tolist())) == len(carried)


def test_slots_are_diagonal_blocks_and_free_patterns_are_anywhere():
    slot, free = (make_planted_graphs(effect="motif", placement=p).occurrences[0] for p in ("slot", "free"))
    in_slot, in_free = (np.sort(places[places[:, 0] >= 0]) for places in (slot, free))
    assert (in_slot[:, 0] % 4 == 0).all()
    assert (np.diff(in_slot) == 1).all()
    assert np.bincount(in_slot[:, 0] // 4, minlength=6).min() > 0
    assert (np.diff(in_free) > 0).all()
    assert (np.diff(in_free) == 1).all(axis=1).mean() < 0.1
    assert np.bincount(in_free.ravel(), minlength=24).min() > 0


def test_a_fixed_place_is_the_same_in_all_graphs_and_is_in_the_truth():
    planted = make_planted_graphs(effect="wiring", placement="fixed")
    places = np.concatenate([places[places[:, 0] >= 0] for places in planted.occurrences])
    assert len(places) == 240
    assert (np.sort(places) == planted.truth[0].nodes).all()
    assert planted.truth[1].nodes.tolist() == planted.truth[0].nodes.tolist()
    assert make_planted_graphs(effect="wiring").truth[0].nodes.size == 0


@pytest.mark.parametrize("placement", ["fixed", "slot", "free"])
def test_random_orientation_has_every_order_and_fixed_orientation_that_of_the_nodes(placement):
    orders = {}
    for orientation in ("fixed", "random"):
        planted = make_planted_graphs(
            1200, effect="motif", placement=placement, orientation=orientation, random_state=1
        )
        places = planted.occurrences[0][planted.labels == 1]
        orders[orientation] = np.unique(np.argsort(places), axis=0, return_counts=True)
    assert orders["fixed"][0].tolist() == [[0, 1, 2, 3]]
    assert len(orders["random"][0]) == 24
    assert orders["random"][1].min() > 5


@given(SEEDS, st.integers(4, 6))
def test_wirings_have_equal_weights_and_are_far_from_isomorphic(seed, kernel_size):
    planted = make_planted_graphs(4, 12, effect="wiring", kernel_size=kernel_size, n_patterns=2, random_state=seed)
    assert len(planted.truth) == 4
    for first, second in zip(planted.truth[::2], planted.truth[1::2], strict=True):
        assert np.array_equal(np.sort(first.pattern, axis=None), np.sort(second.pattern, axis=None))
        assert isomorphic_distance(first.pattern, second.pattern) > 1.2


def test_wiring_gives_every_graph_the_pattern_of_its_class():
    planted = make_planted_graphs(effect="wiring")
    assert np.array_equal(carriers_of(planted), np.array([planted.labels == 0, planted.labels == 1]))
    some = make_planted_graphs(effect="wiring", prevalence=0.25)
    first, second = carriers_of(some)
    assert second.sum() == 30
    assert (some.labels[second] == 1).all()
    assert np.array_equal(first, ~second)


@given(
    SEEDS,
    st.integers(20, 60),
    st.floats(0.05, 1.0),
    st.sampled_from(["existence", "orientation", "motif", "wiring", "hub"]),
)
def test_the_share_of_carriers_is_the_prevalence(seed, n_graphs, prevalence, effect):
    arguments = {"effect": effect, "signal_to_noise": np.inf, "random_state": seed}
    planted = make_planted_graphs(n_graphs, 8, prevalence=prevalence, **arguments)
    everyone = make_planted_graphs(n_graphs, 8, **arguments)
    # The others of class 1 are as class 0: where places are fixed the graphs are the same, otherwise the patterns are.
    if effect in ("existence", "orientation", "hub"):
        has_effect = (planted.graphs != planted.graphs[planted.labels == 0][0]).any(axis=(1, 2))
    else:
        has_effect = carriers_of(planted)[-1]
    assert not has_effect[planted.labels == 0].any()
    assert has_effect.sum() == max(1, round(prevalence * planted.labels.sum()))
    assert np.array_equal(planted.labels, everyone.labels)
    assert np.array_equal(planted.graphs[has_effect], everyone.graphs[has_effect])


def test_null_deals_its_patterns_to_both_classes_alike():
    planted = make_planted_graphs(effect="null", placement="free", orientation="random", prevalence=0.5)
    [carries] = carriers_of(planted)
    assert carries.sum() == 120
    assert 40 < planted.labels[carries].sum() < 80


@pytest.mark.parametrize("n_graphs", [240, 242])
def test_a_fixed_pattern_and_a_motif_are_each_in_another_half_of_class_1(n_graphs):
    planted = make_planted_graphs(n_graphs, effect=("existence", "motif"), prevalence=0.5)
    fixed, motif = carriers_of(planted)
    assert np.array_equal(fixed ^ motif, planted.labels == 1)
    assert not (fixed & motif).any()
    assert abs(int(fixed.sum()) - int(motif.sum())) <= 1
    assert planted.truth[0].nodes.size == 4
    assert planted.truth[1].nodes.size == 0


def test_two_motifs_in_seven_of_ten_leave_no_graph_without_one():
    planted = make_planted_graphs(200, effect="motif", n_patterns=2, prevalence=0.7)
    carries = carriers_of(planted)
    assert carries.sum(axis=1).tolist() == [70, 70]
    assert np.bincount(carries.sum(axis=0)[planted.labels == 1]).tolist() == [0, 60, 40]
    assert isomorphic_distance(planted.truth[0].pattern, planted.truth[1].pattern) > 0


def test_the_order_of_effects_does_not_matter():
    first, second = (
        make_planted_graphs(30, effect=effect) for effect in (("motif", "existence"), ["existence", "motif"])
    )
    assert np.array_equal(first.graphs, second.graphs)


@pytest.mark.parametrize("effect", ["mean", "hub"])
def test_shifts_are_as_large_as_a_pattern(effect):
    arguments = {"kernel_size": 5, "signal_to_noise": np.inf, "random_state": 2}
    shifted, usual = (make_planted_graphs(effect=name, **arguments) for name in (effect, "existence"))
    sizes = []
    for planted in (shifted, usual):
        difference = planted.graphs[planted.labels == 1][0] - planted.graphs[planted.labels == 0][0]
        sizes.append(np.linalg.norm(difference))
    assert sizes[0] == pytest.approx(sizes[1], rel=1e-5)


def test_mean_shifts_all_edges_alike_and_a_hub_those_of_one_node():
    for effect, n_shifted in (("mean", 24 * 23), ("hub", 2 * 23)):
        planted = make_planted_graphs(effect=effect, signal_to_noise=np.inf)
        difference = planted.graphs[planted.labels == 1][0] - planted.graphs[planted.labels == 0][0]
        shifted = np.abs(difference) > 1e-6
        assert shifted.sum() == n_shifted
        assert difference[shifted].std() == pytest.approx(0, abs=1e-6)
        assert not np.diag(difference).any()
        assert effect == "mean" or shifted[planted.truth[0].nodes[0]].sum() == 23


def test_places_and_patterns_do_not_depend_on_noise_and_prevalence():
    plain = make_planted_graphs(effect="motif", signal_to_noise=5.0)
    rare = make_planted_graphs(effect="motif", signal_to_noise=1.0, prevalence=0.3)
    [carries] = carriers_of(rare)
    assert np.array_equal(plain.occurrences[0][carries], rare.occurrences[0][carries])
    assert np.array_equal(plain.truth[0].pattern, rare.truth[0].pattern)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"effect": ()}, "effect"),
        ({"effect": ("motif", "motif")}, "effect"),
        ({"effect": ("motif", "null")}, "null alone"),
        ({"effect": ("motif", "size")}, "effect='size'"),
        ({"effect": "motif", "placement": "there"}, "placement='there'"),
        ({"effect": "motif", "orientation": "up"}, "orientation='up'"),
        ({"effect": "existence", "placement": "free"}, "placement='free'"),
        ({"effect": "hub", "orientation": "random"}, "orientation='random'"),
        ({"effect": "wiring", "kernel_size": 3}, "kernel_size=3"),
        ({"effect": "wiring", "kernel_size": 8}, "kernel_size=8"),
        ({"effect": ("existence", "motif"), "n_patterns": 4}, "n_patterns=4"),
        ({"prevalence": 0}, "prevalence=0"),
        ({"prevalence": 1.2}, "prevalence=1.2"),
    ],
)
def test_bad_arguments_are_refused(arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        make_planted_graphs(**arguments)
