"""Training with each kernel lands on the same predictions."""

import pytest
import torch

from isocapsnet.datasets.synthetic import make_planted_graphs
from isocapsnet.functional import isomorphic, routing, safe_norm
from isocapsnet.functional.kernels import eager, import_kernel
from isocapsnet.nn import CapsuleLoss, IsoCapsNet

pytestmark = pytest.mark.skipif(import_kernel("cpu") is None, reason="numba is not installed")


def train_and_predict(graphs, labels):
    torch.manual_seed(0)
    network, criterion = IsoCapsNet(graphs.shape[1], 2, kernel_size=4, decoder_sizes=(32,)), CapsuleLoss()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = criterion(network(graphs), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    lengths = safe_norm(network(graphs).capsules).detach()
    return torch.tensor(losses), lengths


def test_training_with_either_kernel_lands_on_the_same_predictions(monkeypatch):
    planted = make_planted_graphs(n_graphs=40, random_state=0)
    graphs = torch.as_tensor(planted.graphs, dtype=torch.float32)
    labels = torch.as_tensor(planted.labels)
    losses, lengths = train_and_predict(graphs, labels)
    monkeypatch.setattr(isomorphic, "pick_kernel", lambda graphs, templates: eager)
    monkeypatch.setattr(routing, "pick_routing", lambda weight: None)
    eager_losses, eager_lengths = train_and_predict(graphs, labels)
    assert losses[-1] < 0.9 * losses[0]  # something was learned, so there is something to compare
    torch.testing.assert_close(losses, eager_losses, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(lengths, eager_lengths, rtol=1e-2, atol=1e-3)
    assert torch.equal(lengths.argmax(dim=1), eager_lengths.argmax(dim=1))
