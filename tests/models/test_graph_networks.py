"""What GCN, GIN, DiffPool and DGCNN share: nodes and edges from weighted graphs, gradients, symmetry, refusals."""

import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from isocapsnet import InputError, load_model, save_model
from isocapsnet.models._batches import GraphStore
from isocapsnet.models._binarise import NEGATIVE_EDGES, binarise
from isocapsnet.models._graph_network import OWN_ENTRY, EdgeStore, describe_nodes, select_edges
from isocapsnet.models._scaling import InputScaler
from isocapsnet.models.dgcnn import DGCNNClassifier
from isocapsnet.models.diffpool import DiffPoolClassifier
from isocapsnet.models.gcn import GCNClassifier
from isocapsnet.models.gin import GINClassifier

NETWORKS = (GCNClassifier, GINClassifier, DiffPoolClassifier, DGCNNClassifier)
every_network = pytest.mark.parametrize("network", NETWORKS)

# Whole numbers, so that ties at the last kept edge are common.
small_graphs = st.integers(2, 6).flatmap(
    lambda n: hnp.arrays(np.float32, (2, n, n), elements=st.integers(-3, 3).map(float))
)


def signed_graphs(n_graphs=6, n_nodes=10, seed=0):
    """Symmetric normal weights ``(n_graphs, n_nodes, n_nodes)``, all different."""
    graphs = np.random.default_rng(seed).normal(size=(n_graphs, n_nodes, n_nodes)).astype(np.float32)
    return graphs + graphs.swapaxes(1, 2)


# -- edges that are kept during a fit ---------------------------------------------------------------------


@pytest.mark.parametrize("is_resident", [True, False])
def test_edges_of_a_batch_are_those_of_its_graphs(is_resident, monkeypatch):
    monkeypatch.setattr("isocapsnet.models._batches.RESIDENT_BYTES", 2**30 if is_resident else 0)
    graphs, index = signed_graphs(n_graphs=150), np.random.default_rng(1).permutation(150)[:90]
    select = partial(select_edges, density=0.2, negative_edges="absolute", edge_weights="weighted")
    store = EdgeStore(select, graphs, np.arange(150), InputScaler(False, 1.0), torch.device("cpu")).subset(index)
    for inputs, codes in store.batches(16, shuffle=True):
        chosen = torch.from_numpy(graphs[codes])
        if not is_resident:
            assert torch.equal(inputs, chosen)
            continue
        assert torch.equal(inputs["graphs"], chosen)
        assert torch.equal(inputs["edges"], select(chosen))


@every_network
def test_a_fit_with_kept_edges_equals_one_that_selects_them_in_every_step(network, monkeypatch):
    graphs, labels = signed_graphs(n_graphs=60), np.arange(60) % 2
    settings = {"edge_weights": "weighted", "negative_edges": "absolute", "density": 0.3}
    model = network(random_state=0, max_epochs=2, device="cpu", **settings)
    kept = model.fit(graphs, labels).predict_proba(graphs)
    monkeypatch.setattr(EdgeStore, "batch", GraphStore.batch)
    assert_array_equal(model.fit(graphs, labels).predict_proba(graphs), kept)

    def full(*arguments):
        inputs, codes = GraphStore.batch(*arguments)
        return {"graphs": inputs, "edges": torch.ones_like(inputs)}, codes

    monkeypatch.setattr(EdgeStore, "batch", full)  # the edges of the store are used
    assert np.abs(model.fit(graphs, labels).predict_proba(graphs) - kept).max() > 0


# -- edges --------------------------------------------------------------------------------------------------


@given(small_graphs, st.sampled_from([0.1, 0.4, 1.0]), st.sampled_from(NEGATIVE_EDGES))
def test_binary_edges_are_those_of_the_numpy_selection(graphs, density, negative_edges):
    edges = select_edges(torch.from_numpy(graphs), density, negative_edges, "binary").numpy()
    assert_array_equal(edges, binarise(graphs, density, negative_edges))


@given(small_graphs, st.sampled_from([0.1, 0.4, 1.0]), st.sampled_from(NEGATIVE_EDGES))
def test_weighted_edges_are_proportional_to_the_weights_with_mean_one(graphs, density, negative_edges):
    tensor = torch.from_numpy(graphs)
    kept = select_edges(tensor, density, negative_edges, "binary").numpy() > 0
    edges = select_edges(tensor, density, negative_edges, "weighted").numpy()
    assert_array_equal(edges > 0, kept)
    for edge, graph, where in zip(edges, graphs, kept, strict=True):
        if where.any():
            assert_allclose(edge[where].mean(), 1, rtol=1e-5)
            assert_allclose(edge[where] * np.abs(graph[where]).mean(), np.abs(graph[where]), rtol=1e-5)


# -- nodes --------------------------------------------------------------------------------------------------


def test_node_features_of_a_graph_worked_by_hand():
    graph = torch.tensor([[[9.0, 2.0, -1.0], [2.0, 9.0, 0.0], [-1.0, 0.0, 9.0]]])
    edges = select_edges(graph, 1.0, "absolute", "binary")
    profile = [[OWN_ENTRY, 2, -1], [2, OWN_ENTRY, 0], [-1, 0, OWN_ENTRY]]
    assert_array_equal(describe_nodes(graph, edges, "profile")[0], profile)
    assert_array_equal(describe_nodes(graph, edges, "identity")[0], np.eye(3))
    assert_allclose(describe_nodes(graph, edges, "degree")[0], np.array([[2], [1], [1]]) / (4 / 3), rtol=1e-6)


def test_a_graph_without_edges_has_degrees_of_zero():
    empty = torch.zeros(1, 3, 3)
    assert_array_equal(describe_nodes(empty, empty, "degree"), np.zeros((1, 3, 1)))


# -- networks -----------------------------------------------------------------------------------------------


@every_network
@pytest.mark.parametrize("node_features", ["profile", "degree", "identity"])
def test_every_parameter_receives_a_gradient(network, node_features):
    torch.manual_seed(0)
    model = network(node_features=node_features, density=0.3, n_layers=2, dropout=0.0)
    module = model._build_module(10, 3)
    output = module(torch.from_numpy(signed_graphs()))
    model._build_criterion(torch.ones(3))(output, torch.tensor([0, 1, 2, 0, 1, 2])).backward()
    silent = [name for name, p in module.named_parameters() if p.grad is None or not p.grad.abs().max() > 1e-9]
    assert silent == []


@every_network
@pytest.mark.parametrize("negative_edges", NEGATIVE_EDGES)
@pytest.mark.parametrize("edge_weights", ["binary", "weighted"])
def test_negative_edges_give_finite_output_and_gradients(network, negative_edges, edge_weights):
    torch.manual_seed(0)
    model = network(density=0.3, negative_edges=negative_edges, edge_weights=edge_weights)
    module = model._build_module(10, 2)
    graphs = torch.from_numpy(np.stack([*signed_graphs(3), *-np.abs(signed_graphs(2)), np.zeros((10, 10), np.float32)]))
    output = module(graphs)
    model._build_criterion(torch.ones(2))(output, torch.tensor([0, 1, 0, 1, 0, 1])).backward()
    assert output.logits.isfinite().all()
    assert all(p.grad.isfinite().all() for p in module.parameters())


@every_network
def test_degree_features_make_the_answer_invariant_to_the_order_of_the_nodes(network):
    X, y = signed_graphs(12, 15), np.arange(12) % 2
    order = np.random.default_rng(1).permutation(15)
    settings = {"edge_weights": "weighted", "density": 0.3, "max_epochs": 3, "random_state": 0}
    for node_features, invariant in (("degree", True), ("profile", False)):
        model = network(node_features=node_features, **settings).fit(X, y)
        code, shuffled = model.transform(X), model.transform(X[:, order][:, :, order])
        assert np.allclose(shuffled, code, atol=1e-4) == invariant


@every_network
def test_graphs_of_one_node_are_refused(network):
    with pytest.raises(InputError, match="two nodes"):
        network().fit(np.zeros((4, 1, 1)), [0, 1, 0, 1])


@every_network
@pytest.mark.parametrize("name, value", [("density", 0.0), ("density", 1.5), ("n_layers", 0), ("dropout", 1.0)])
def test_settings_out_of_range_are_refused(network, name, value):
    with pytest.raises(InputError, match=name):
        network(**{name: value}).fit(signed_graphs(4), [0, 1, 0, 1])


# -- PyTorch Geometric --------------------------------------------------------------------------------------


def test_the_models_can_be_imported_without_torch_geometric():
    code = "import sys; sys.modules['torch_geometric'] = None; import isocapsnet.models"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@every_network
def test_missing_torch_geometric_is_said_with_the_command_that_installs_it(network, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_geometric.nn", None)
    with pytest.raises(InputError, match=r'pip install "isocapsnet\[methods\]"'):
        network().fit(signed_graphs(4), [0, 1, 0, 1])


def test_loading_a_network_without_torch_geometric_says_what_to_install_and_no_more(monkeypatch, tmp_path):
    model = GCNClassifier(max_epochs=1, validation_fraction=0.0).fit(signed_graphs(4), [0, 1, 0, 1])
    path = save_model(model, tmp_path / "model")
    monkeypatch.setitem(sys.modules, "torch_geometric.nn", None)
    with pytest.raises(InputError, match=r'Graph neural networks need .*pip install "isocapsnet\[methods\]"\.$'):
        load_model(path)
