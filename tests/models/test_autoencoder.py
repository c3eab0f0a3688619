"""The stacked denoising autoencoder: its edges, its pretraining without labels, its code."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score, roc_auc_score

from isocapsnet import make_planted_graphs
from isocapsnet.models._base import edge_vectors
from isocapsnet.models._batches import GraphStore
from isocapsnet.models._scaling import fit_scaler
from isocapsnet.models.autoencoder import AutoencoderClassifier, EdgeEncoder


class Snapshot(AutoencoderClassifier):
    """Keeps the encoder's weights as they are between pretraining and the first epoch."""

    def _prepare(self, module, graphs):
        super()._prepare(module, graphs)
        self.weights = [layer.weight.detach().clone() for layer in module.layers]


def low_rank_graphs(rng, n_graphs=80, n_nodes=12, rank=3):
    """Symmetric graphs ``(n_graphs, n_nodes, n_nodes)``: mixtures of ``rank`` patterns, with noise of one quarter."""
    patterns = rng.standard_normal((rank, n_nodes, n_nodes))
    graphs = np.einsum("gr,rij->gij", rng.standard_normal((n_graphs, rank)), patterns)
    graphs += rng.standard_normal(graphs.shape)
    return graphs + graphs.swapaxes(1, 2)


@pytest.mark.parametrize("n_nodes", [1, 2, 7])
@pytest.mark.parametrize("directed", [False, True])
def test_selected_edges_are_the_edge_vector(n_nodes, directed):
    graphs = torch.randn(3, n_nodes, n_nodes, dtype=torch.float64)
    module = EdgeEncoder(n_nodes, 2, (5,), (4,), directed)
    assert_array_equal(module.select(graphs), edge_vectors(graphs.numpy(), directed=directed))


def test_forward_equals_sigmoid_layers_and_an_mlp():
    torch.manual_seed(0)
    module = EdgeEncoder(5, 3, (7, 4), (6,), directed=False).double()
    module.mean.normal_()
    module.deviation.uniform_(0.5, 2)
    graphs = torch.randn(2, 5, 5, dtype=torch.float64)
    code = (edge_vectors(graphs.numpy()) - module.mean.numpy()) / module.deviation.numpy()
    for layer in module.layers:
        code = 1 / (1 + np.exp(-(code @ layer.weight.detach().numpy().T + layer.bias.detach().numpy())))
    hidden, last = (layer for layer in module.head if isinstance(layer, torch.nn.Linear))
    active = np.maximum(code @ hidden.weight.detach().numpy().T + hidden.bias.detach().numpy(), 0)
    output = module(graphs)
    assert_allclose(output.code.detach(), code)
    assert_allclose(output.logits.detach(), active @ last.weight.detach().numpy().T + last.bias.detach().numpy())


def test_edges_are_standardised_over_the_training_graphs():
    graphs = low_rank_graphs(np.random.default_rng(0)) + 5
    graphs[:, 0, 1] = graphs[:, 1, 0] = 3
    model = AutoencoderClassifier(pretraining_epochs=0, max_epochs=1, device="cpu", random_state=0)
    model.fit(graphs, np.arange(80) % 2)
    edges = model.module_.standardise(torch.from_numpy(model.scaler_.transform(graphs))).numpy()
    assert_allclose(edges.mean(axis=0), 0, atol=1e-4)
    assert_allclose(edges[:, 1:].std(axis=0), 1, atol=1e-4)
    assert_allclose(edges[:, 0], 0, atol=1e-4)


def test_pretraining_finds_the_patterns_that_graphs_are_made_of():
    graphs = low_rank_graphs(np.random.default_rng(0))
    edges = edge_vectors(graphs)
    explained = {}
    for epochs in (0, 60):
        model = AutoencoderClassifier(
            hidden_sizes=(3,),
            corruption=0.1,
            pretraining_epochs=epochs,
            learning_rate=0.01,
            max_epochs=1,
            random_state=0,
        ).fit(graphs, np.arange(80) % 2)
        code = model.transform(graphs)
        explained[epochs] = r2_score(edges, LinearRegression().fit(code, edges).predict(code))
    assert explained[60] > 0.5 > explained[0] + 0.1  # three random directions explain little, the best three 0.75


@pytest.mark.parametrize("resident", [True, False])
def test_a_mapped_store_has_the_value_of_each_graph_and_its_code(resident, monkeypatch):
    graphs = low_rank_graphs(np.random.default_rng(0), n_graphs=20)
    monkeypatch.setattr("isocapsnet.models._batches.RESIDENT_BYTES", 2**30 if resident else 0)
    scaler, order = fit_scaler(graphs, "none"), np.random.default_rng(1).permutation(20)[:13]
    whole = GraphStore(graphs[:15], np.arange(15), scaler, torch.device("cpu"), graphs[15:])
    store = whole.subset(order).mapped(lambda batch: batch.sum(dim=(1, 2)), batch_size=4)
    ((sums, codes),) = store.batches(13)
    expected = dict(zip([*range(15), *[-1] * 5], graphs.sum(axis=(1, 2)), strict=True))
    assert sorted(codes.tolist()) == sorted(np.where(order < 15, order, -1))
    known = codes >= 0
    assert_allclose(sums[known], [expected[code] for code in codes[known].tolist()], rtol=1e-4)


def test_inputs_that_are_computed_once_are_those_of_every_step(monkeypatch):
    graphs, labels = low_rank_graphs(np.random.default_rng(0)), np.arange(80) % 2
    model = Snapshot(hidden_sizes=(16, 8, 4), max_epochs=1, random_state=0, device="cpu").fit(graphs, labels)

    class Recomputed:
        """Batches of the graphs, each computed when it is needed."""

        def __init__(self, source, function):
            self.source, self.function, self.device = source, function, source.device

        def batches(self, batch_size, *, shuffle):
            for batch, codes in self.source.batches(batch_size, shuffle=shuffle):
                yield self.function(batch).detach(), codes

        def mapped(self, function, batch_size):
            return Recomputed(self, function)

    monkeypatch.setattr("isocapsnet.models._batches.GraphStore.mapped", lambda *args: Recomputed(*args[:2]))
    slow = Snapshot(hidden_sizes=(16, 8, 4), max_epochs=1, random_state=0, device="cpu").fit(graphs, labels)
    for weight, expected in zip(model.weights, slow.weights, strict=True):
        assert_allclose(weight, expected, rtol=1e-4, atol=1e-6)


def test_masking_hides_the_input_from_the_layer():
    graphs, labels = low_rank_graphs(np.random.default_rng(0)), np.arange(80) % 2
    weights = {}
    for corruption in (None, 0.5, 1.0):
        epochs = 0 if corruption is None else 2
        snapshot = Snapshot(
            corruption=corruption or 0.0,
            pretraining_epochs=epochs,
            max_epochs=1,
            weight_decay=0,
            random_state=0,
        ).fit(graphs, labels)
        weights[corruption] = snapshot.weights
    # The first layer sees nothing when all is masked; with less, both layers learn.
    assert torch.equal(weights[1.0][0], weights[None][0])
    assert [torch.equal(*pair) for pair in zip(weights[0.5], weights[None], strict=True)] == [False, False]


def test_unlabelled_graphs_take_part_in_pretraining_alone():
    rng = np.random.default_rng(0)
    graphs, others = low_rank_graphs(rng), low_rank_graphs(rng, n_graphs=200) + 1
    labels = np.arange(80) % 2
    model = AutoencoderClassifier(max_epochs=2, random_state=0, scaling="none").fit(graphs, labels, X_unlabeled=others)
    assert_allclose(model.module_.mean.cpu(), edge_vectors(np.concatenate([graphs, others])).mean(axis=0), atol=1e-4)
    assert all(np.isfinite(row["train_loss"]) for row in model.history_)
    alone = AutoencoderClassifier(max_epochs=2, random_state=0, scaling="none").fit(graphs, labels)
    assert np.abs(model.transform(graphs) - alone.transform(graphs)).max() > 0.01


def test_both_triangles_are_read_when_a_graph_is_not_symmetric():
    graphs, labels = low_rank_graphs(np.random.default_rng(0)), np.arange(80) % 2
    fast = {"max_epochs": 1, "pretraining_epochs": 1, "random_state": 0}
    assert not AutoencoderClassifier(**fast).fit(graphs, labels).directed_
    graphs[3, 0, 1] += 1
    assert AutoencoderClassifier(**fast).fit(graphs, labels).directed_


def test_finds_a_planted_pattern():
    planted = make_planted_graphs(signal_to_noise=4.0, random_state=0)
    model = AutoencoderClassifier(random_state=0).fit(planted.graphs[:160], planted.labels[:160])
    assert roc_auc_score(planted.labels[160:], model.predict_proba(planted.graphs[160:])[:, 1]) > 0.85
    assert model.transform(planted.graphs[:3]).shape == (3, 64)
