"""Edge attribution: exact where the answer is known, sensible for every network, and dependent on what was learned."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from isocapsnet import MODELS, InputError, make_planted_graphs
from isocapsnet.explanation.attribution import (
    attribute_edges,
    is_network,
    randomization_check,
    sum_over_regions,
)
from isocapsnet.explanation.contrasts import separation
from isocapsnet.explanation.networks import sum_over_networks, tabulate_pairs
from isocapsnet.models._network import NetworkClassifier
from tests.explanation.recovery import edge_precision, node_precision

PLANTED = make_planted_graphs(90, 12, kernel_size=3, signal_to_noise=6, random_state=0)
NETWORKS = [name for name, model in MODELS.items() if issubclass(model, NetworkClassifier)]


class _LinearModule(nn.Module):
    def __init__(self, n_nodes: int, n_classes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(n_nodes**2, n_classes)

    def forward(self, graphs: Tensor) -> Tensor:
        return self.layer(graphs.flatten(1))


class _LinearNetwork(NetworkClassifier):
    """A network whose attribution is known: weight times edge."""

    def __init__(
        self, learning_rate: float = 0.05, weight_decay: float = 0.0, batch_size: int = 32, max_epochs: int = 30,
        patience: Any = None, validation_fraction: float = 0.0, class_weight: Any = None, scaling: str = "std",
        device: str = "cpu", random_state: Any = 0, verbose: int = 0, callbacks: Any = None,
    ) -> None:  # fmt: skip
        for name, value in list(locals().items()):
            if name not in ("self", "__class__"):
                setattr(self, name, value)

    def _build_module(self, n_nodes: int, n_classes: int) -> nn.Module:
        return _LinearModule(n_nodes, n_classes)


class _FrozenNetwork(_LinearNetwork):
    """The same weights whatever is learned or drawn."""

    def _build_module(self, n_nodes: int, n_classes: int) -> nn.Module:
        module = _LinearModule(n_nodes, n_classes)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            module.layer.weight.copy_(torch.randn(module.layer.weight.shape, generator=generator))
        return module.requires_grad_(False)


@pytest.fixture(scope="module")
def linear() -> _LinearNetwork:
    return _LinearNetwork().fit(PLANTED.graphs, PLANTED.labels)


@pytest.mark.parametrize("method", ["gradient", "integrated"])
def test_a_linear_network_attributes_weight_times_edge(linear: _LinearNetwork, method: str) -> None:
    if method == "integrated":
        pytest.importorskip("captum")
    found = attribute_edges(linear, PLANTED.graphs, method)
    weight = linear.module_.layer.weight.detach().numpy()
    scaled = linear.scaler_.transform(PLANTED.graphs)
    expected = (weight[1] - weight[0]).reshape(12, 12) * (scaled - scaled.mean(axis=0))
    assert found.shape == (90, 1, 12, 12)
    assert np.allclose(found[:, 0], (expected + expected.swapaxes(1, 2)) / 2, atol=1e-5)


def test_three_classes_have_an_attribution_each() -> None:
    model = _LinearNetwork(max_epochs=2).fit(PLANTED.graphs, np.arange(90) % 3)
    found = attribute_edges(model, PLANTED.graphs)
    assert found.shape == (90, 3, 12, 12)
    assert np.abs(found.sum(axis=1)).max() < 1e-5, "each class is set against the others, so they cancel"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_attributes_to_planted_edges_what_it_learned(name: str) -> None:
    model = MODELS[name](max_epochs=20, random_state=0)
    if name == "isocapsnet":
        model.set_params(learning_rate=3e-3, decoder_sizes=(8,))
    model.fit(PLANTED.graphs[:60], PLANTED.labels[:60])
    held_out = PLANTED.graphs[60:]
    attribution = attribute_edges(model, held_out)
    assert attribution.shape == (30, 1, 12, 12)
    assert np.isfinite(attribution).all()
    assert np.array_equal(attribution, attribution.swapaxes(2, 3))
    if name == "isocapsnet-released":  # learns nothing here: both of its class capsules are saturated
        assert model._scores(held_out).min() > 0.95
        return
    edges = separation(attribution, PLANTED.labels[60:], 2)
    assert node_precision(sum_over_regions(edges), [PLANTED.truth[0].nodes]) >= 2 / 3
    assert randomization_check(model, held_out) < 0.5


def test_an_explanation_that_ignores_what_was_learned_is_found_out(linear: _LinearNetwork) -> None:
    frozen = _FrozenNetwork()
    frozen.n_nodes_in_, frozen.classes_, frozen.scaler_ = 12, linear.classes_, linear.scaler_
    frozen.module_ = frozen._build_module(12, 2)
    assert randomization_check(frozen, PLANTED.graphs) == pytest.approx(1)
    assert randomization_check(linear, PLANTED.graphs) < 0.5


def test_the_check_leaves_the_model_and_the_random_state_alone(linear: _LinearNetwork) -> None:
    before, state = linear.predict_proba(PLANTED.graphs), torch.get_rng_state()
    randomization_check(linear, PLANTED.graphs)
    assert np.array_equal(linear.predict_proba(PLANTED.graphs), before)
    assert torch.equal(torch.get_rng_state(), state)


def test_sums_over_regions_and_networks_of_a_known_example() -> None:
    edges = np.array([[9.0, 1, -2, 0], [1, 9, 3, 4], [-2, 3, 9, 5], [0, 4, 5, 9]])
    assert sum_over_regions(edges - np.diag(np.diag(edges))).tolist() == [3, 8, 10, 9]
    names, sums = sum_over_networks(edges, ["visual", "visual", "motor", "motor"])
    assert names == ["visual", "motor"]
    assert sums.tolist() == [[1, 5], [5, 5]]
    with pytest.raises(InputError, match="3 entries, but there are 4 nodes"):
        sum_over_networks(edges, ["a", "b", "c"])


def test_pairs_of_networks_of_a_known_example() -> None:
    edges = np.array([[9.0, 1, -2, 0], [1, 9, 3, 4], [-2, 3, 9, 5], [0, 4, 5, 9]])
    table = tabulate_pairs(edges, ["visual", "visual", "motor", "motor"], n_strongest=3)
    assert table[["first", "second"]].to_numpy().tolist() == [
        ["visual", "motor"],
        ["motor", "motor"],
        ["visual", "visual"],
    ]
    assert table["edges"].tolist() == [4, 1, 1]
    assert table["strongest"].tolist() == [2, 1, 0]  # 5 within motor; 4 and 3 between them
    np.testing.assert_allclose(table["share"], [9 / 15, 5 / 15, 1 / 15])
    np.testing.assert_allclose(table["expected"], [4 / 6, 1 / 6, 1 / 6])
    np.testing.assert_allclose(table["ratio"], table["share"] / table["expected"])


def test_shares_of_pairs_add_up_for_any_networks() -> None:
    generator = np.random.default_rng(0)
    values = generator.normal(size=(30, 30))
    networks = generator.choice(["a", "b", "c", "none"], size=30).tolist()
    table = tabulate_pairs(values + values.T, networks, n_strongest=50)
    assert table["edges"].sum() == 30 * 29 // 2
    assert table["strongest"].sum() == 50
    np.testing.assert_allclose(table[["share", "expected"]].sum(), 1.0)
    nothing = tabulate_pairs(np.zeros((30, 30)), networks, n_strongest=50)
    assert nothing["strongest"].sum() == 0
    assert nothing["share"].sum() == 0


def test_precision_at_k_of_known_examples() -> None:
    assert node_precision([5, 1, 4, 0, 3], [[0, 2]]) == 1
    assert node_precision([5, 1, 4, 0, 3], [[0, 1], [3]]) == pytest.approx(1 / 3)
    importance = np.zeros((4, 4))
    importance[0, 1] = importance[1, 0] = -3
    importance[2, 3] = importance[3, 2] = 2
    assert edge_precision(importance, [[0, 1]]) == 1
    assert edge_precision(importance, [[2, 3]]) == 0
    assert edge_precision(importance, [[0, 1], [2, 3]]) == 1


def test_what_is_no_network_is_refused() -> None:
    model = MODELS["constant"]().fit(PLANTED.graphs, PLANTED.labels)
    assert not is_network(model)
    assert not is_network(MODELS["cnn"]())
    with pytest.raises(InputError, match="not a fitted network"):
        attribute_edges(model, PLANTED.graphs)
    with pytest.raises(InputError, match="method='saliency' is unknown"):
        attribute_edges(model, PLANTED.graphs, "saliency")
