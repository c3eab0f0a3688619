"""The released variant against a slow program written from the list of what the published one does."""

import itertools

import numpy as np
import pytest
import torch

from isocapsnet import InputError, IsoCapsNetClassifier, ReleasedIsoCapsNetClassifier, functional
from isocapsnet.functional import isomorphic_match, released, released_match
from isocapsnet.models import _network
from isocapsnet.nn import CapsuleLoss, ReleasedIsoCapsNet
from tests.functional.references import ReleasedProgram

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
    defaults = ReleasedIsoCapsNetClassifier()
    criterion = CapsuleLoss(defaults.reconstruction_weight, squared=True)
    settings = {"lr": defaults.learning_rate, "weight_decay": defaults.weight_decay}
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


# -- winners ---------------------------------------------------------------------------------------------------


def literal_program(graph, template):
    """The published search, operation by operation, in the dtype it is given: winners and distances ``(n²,)``."""
    k = len(template)
    every = torch.stack([torch.eye(k, dtype=graph.dtype)[list(p)] for p in itertools.permutations(range(k))])
    permuted = torch.matmul(torch.matmul(every, template), every.transpose(1, 2))
    windows = graph.unfold(0, k, 1).unfold(1, k, 1).reshape(-1, 1, k, k)
    feature = -(torch.norm(windows - permuted, p="fro", dim=(2, 3)) ** 2)
    best = torch.max(feature, dim=1)
    return best.indices, -best.values


def counts(seed, n_graphs, n_nodes):
    """Streamline counts: zeros, and whole numbers over six decades."""
    rng = np.random.default_rng(seed)
    graphs = np.rint(np.exp(rng.uniform(0, 14.6, size=(n_graphs, n_nodes, n_nodes)))) * (
        rng.random((n_nodes,) * 2) < 0.4
    )
    return torch.from_numpy(np.triu(graphs, 1) + np.triu(graphs, 1).swapaxes(1, 2)).float()


@pytest.mark.parametrize("kind", ["counts", "correlations"])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_winners_are_those_of_the_published_operations_bit_for_bit(k, kind):
    generator = torch.Generator().manual_seed(k)
    graphs = counts(k, 3, 14) if kind == "counts" else torch.randn(3, 14, 14, generator=generator).tanh()
    template = torch.randn(1, k, k, generator=generator)
    match = released_match(graphs, template)
    for graph, distance, permutation in zip(graphs, match.distance, match.permutation, strict=True):
        winners, squared = literal_program(graph, template[0])
        assert torch.equal(permutation.flatten(), winners)
        assert torch.equal(distance.flatten().square(), squared)


def test_rounding_decides_winners_on_counts_where_the_exact_rule_decides_otherwise():
    graphs, template = counts(0, 4, 30), torch.randn(1, 4, 4, generator=torch.Generator().manual_seed(0))
    differ = released_match(graphs, template).permutation != isomorphic_match(graphs, template).permutation
    assert 0.005 < differ.float().mean().item() < 0.5


def test_chunks_do_not_change_a_bit(monkeypatch):
    graphs, template = counts(1, 5, 12), torch.randn(1, 4, 4, generator=torch.Generator().manual_seed(1))
    whole = released_match(graphs, template)
    for values in (1, 1000, 24 * 16 * 7 + 5):
        monkeypatch.setattr(released, "_CHUNK_VALUES", values)
        assert all(map(torch.equal, released_match(graphs, template), whole))


def test_memory_does_not_grow_with_the_number_of_graphs():
    import resource

    template = torch.randn(1, 6, 6)
    released_match(torch.randn(1, 8, 8), template)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    released_match(torch.randn(8, 40, 40), template)
    # 8·35² windows · 720 permutations · 36 entries would be 1 GB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000


def test_gradients_flow_through_the_winner():
    graphs = torch.randn(2, 6, 6, dtype=torch.float64, requires_grad=True)
    template = torch.randn(1, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: released_match(a, b).distance, (graphs, template))


# -- estimator -------------------------------------------------------------------------------------------------


def planted(n=24, n_classes=2):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 8, 8)), np.arange(n) % n_classes * 2 - 1


@pytest.fixture
def optimizers(monkeypatch):
    """The optimizers of all fits."""
    built = []
    original = _network.Adam
    monkeypatch.setattr(_network, "Adam", lambda *args, **kwargs: built.append(original(*args, **kwargs)) or built[-1])
    return built


def test_defaults_are_those_of_the_published_program(optimizers):
    model = ReleasedIsoCapsNetClassifier(kernel_size=2, random_state=0).fit(*planted())
    [optimizer] = optimizers
    assert (optimizer.decoupled, optimizer.learning_rate, optimizer.weight_decay) == (False, 0.01, 5e-4)
    assert len(model.history_) == 17 and "valid_loss" not in model.history_[0]
    assert model.scaler_ == (False, 1.0) and model.temperature_ == 1
    assert model.classes_.tolist() == [-1, 1]
    assert model.templates_.shape == (1, 2, 2)


def test_every_argument_is_honoured_also_where_it_equals_a_default_of_the_paper_s_own_model(optimizers):
    paper = IsoCapsNetClassifier().get_params()
    given = {name: paper[name] for name in ("learning_rate", "max_epochs", "weight_decay", "batch_size")}
    model = ReleasedIsoCapsNetClassifier(**given, kernel_size=2, decoder_sizes=(4,), random_state=0).fit(*planted())
    assert len(model.history_) == given["max_epochs"] == 100
    assert optimizers[0].learning_rate == given["learning_rate"] == 3e-4


def test_what_the_program_does_not_have_is_no_argument():
    assert set(ReleasedIsoCapsNetClassifier().get_params()) == {
        "kernel_size", "capsule_size", "routing_iterations", "decoder_sizes", "reconstruction_weight",
        "learning_rate", "weight_decay", "batch_size", "max_epochs", "device", "random_state", "verbose", "callbacks",
    }  # fmt: skip
    with pytest.raises(TypeError):
        ReleasedIsoCapsNetClassifier().fit(*planted(), X_unlabeled=planted()[0])


@pytest.mark.parametrize(
    ("parameters", "n_classes", "fact"),
    [
        ({"routing_iterations": 0}, 2, "routing_iterations=0"),
        ({"kernel_size": 9}, 2, "8 nodes"),
        ({"decoder_sizes": (4, 0)}, 2, "decoder_sizes"),
        ({}, 3, "3 classes"),
    ],
)
def test_what_the_program_cannot_do_is_refused(parameters, n_classes, fact):
    with pytest.raises(InputError, match=fact):
        ReleasedIsoCapsNetClassifier(**parameters).fit(*planted(n_classes=n_classes))


def test_the_former_parameter_is_refused_with_the_name_of_the_estimator():
    assert "formulation" not in IsoCapsNetClassifier().get_params()
    for formulation in ("released", "paper"):
        with pytest.raises(InputError, match="ReleasedIsoCapsNetClassifier"):
            IsoCapsNetClassifier(formulation=formulation)


def test_the_gradient_of_the_published_squash_is_undefined_at_distance_zero_and_the_fit_says_so():
    template = torch.randn(K, K, dtype=torch.float64)
    slow = ReleasedProgram(template.clone().requires_grad_(), torch.randn(N_CLASSES, 1, K * K, 16).double(), [])
    slow.capsules(template).sum().backward()
    assert slow.template.grad.isnan().all()
    module = ReleasedIsoCapsNet(K, N_CLASSES, kernel_size=K, decoder_sizes=(4,))
    graph = module.isomorphic.templates.detach().clone()
    with pytest.raises(InputError, match="NaN"):
        module(graph)
    assert module.eval()(graph).capsules.isfinite().all()
