"""formulation="released" against a slow program written from the list of what the published one does."""

import numpy as np
import pytest
import torch

from isocapsnet import InputError, IsoCapsNetClassifier, functional
from isocapsnet.models.isocapsnet import RELEASED
from isocapsnet.nn import CapsuleLoss, ReleasedIsoCapsNet
from tests.core.references import ReleasedProgram

N_NODES, K, N_CLASSES = 6, 3, 2


@pytest.fixture
def pair():
    """The module and the slow program, in float64, from equal initial weights."""
    torch.manual_seed(0)
    module = ReleasedIsoCapsNet(N_NODES, N_CLASSES, kernel_size=K, decoder_sizes=(8, 12)).double()
    linears = [layer for layer in module.decoder.mlp if isinstance(layer, torch.nn.Linear)]
    slow = ReleasedProgram(
        module.isomorphic.templates.detach()[0].clone().requires_grad_(),
        module.weight.detach()[:, 0].clone().requires_grad_(),
        [(m.weight.detach().clone().requires_grad_(), m.bias.detach().clone().requires_grad_()) for m in linears],
    )
    return module, slow


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(1)
    graphs = torch.randn(5, N_NODES, N_NODES, dtype=torch.float64, generator=generator)
    return graphs, torch.tensor([0, 1, 1, 0, 1])


def test_primary_capsules_step_by_step(pair, batch):
    module, slow = pair
    distance, permutation = module.isomorphic(batch[0])
    primary = functional.released_primary_capsules(distance, permutation, K).expand()
    for graph, found in zip(batch[0], primary, strict=True):
        torch.testing.assert_close(found[0].flatten(0, 1), slow.primary(graph))


def test_routing_step_by_step(pair, batch):
    module, slow = pair
    capsules = module(batch[0]).capsules
    for graph, found in zip(batch[0], capsules, strict=True):
        torch.testing.assert_close(found, slow.capsules(graph))


def test_loss_and_weights_after_three_optimiser_steps(pair, batch):
    module, slow = pair
    graphs, targets = batch
    criterion = CapsuleLoss(RELEASED["reconstruction_weight"], squared=True)
    settings = {"lr": RELEASED["learning_rate"], "weight_decay": RELEASED["weight_decay"]}
    ours = torch.optim.Adam(module.parameters(), **settings)
    theirs = torch.optim.Adam(slow.parameters(), **settings)
    for _ in range(3):
        losses = criterion(module(graphs), targets), slow.loss(graphs, targets)
        torch.testing.assert_close(*losses)
        for loss, optimizer in zip(losses, (ours, theirs), strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    torch.testing.assert_close(module.isomorphic.templates[0], slow.template)
    torch.testing.assert_close(module.weight[:, 0], slow.weight)
    linears = [layer for layer in module.decoder.mlp if isinstance(layer, torch.nn.Linear)]
    for layer, (weight, bias) in zip(linears, slow.layers, strict=True):
        torch.testing.assert_close(layer.weight, weight)
        torch.testing.assert_close(layer.bias, bias)


def test_a_perfect_match_is_padded_not_undefined():
    capsules = functional.released_primary_capsules(
        torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1, dtype=torch.long), 2
    )
    assert (capsules.expand() == -1).all()


def planted(n=24):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 8, 8)), np.arange(n) % 2 * 2 - 1


def test_estimator_takes_its_settings_from_one_dict():
    model = IsoCapsNetClassifier(formulation="released", kernel_size=2, random_state=0).fit(*planted())
    group = model.net_.optimizer_.param_groups[0]
    assert isinstance(model.net_.optimizer_, torch.optim.Adam) and not isinstance(
        model.net_.optimizer_, torch.optim.AdamW
    )
    assert (group["lr"], group["weight_decay"]) == (RELEASED["learning_rate"], RELEASED["weight_decay"])
    assert len(model.history_) == RELEASED["max_epochs"]
    assert "valid_loss" not in model.history_[0]
    assert model.scaler_ == (False, 1.0)
    assert model.classes_.tolist() == [-1, 1]


def test_estimator_says_what_it_ignores():
    with pytest.warns(UserWarning, match="has no weight_sharing, gamma: these settings are ignored"):
        IsoCapsNetClassifier(
            formulation="released", gamma=0.3, weight_sharing="template", max_epochs=1, kernel_size=2
        ).fit(*planted())
    with pytest.raises(InputError, match="one template"):
        IsoCapsNetClassifier(formulation="released", n_templates=2).fit(*planted())
