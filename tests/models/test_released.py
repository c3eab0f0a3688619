"""The released variant against a slow program written from the list of what the published one does."""

import warnings

import numpy as np
import pytest
import torch

from isocapsnet import InputError, IsoCapsNetClassifier, ReleasedIsoCapsNetClassifier, functional
from isocapsnet.functional import isomorphic_match, released, released_match
from isocapsnet.models import _network
from isocapsnet.nn import ReleasedIsoCapsNet
from tests.functional.references import ReleasedProgram

N_NODES, K, N_CLASSES = 6, 3, 2


@pytest.fixture
def pair():
    """The module and the slow program, in float64, from equal initial weights."""
    torch.manual_seed(0)
    module = ReleasedIsoCapsNet(N_NODES, N_CLASSES, kernel_size=K, decoder_sizes=(8, 12)).double()
    return module, ReleasedProgram.like(module)


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(1)
    graphs = torch.randn(5, N_NODES, N_NODES, dtype=torch.float64, generator=generator)
    return graphs, torch.tensor([0, 1, 1, 0, 1])


def test_the_compact_form_of_primary_capsules_is_that_of_the_program(pair, batch):
    module, slow = pair
    distance, permutation = module.isomorphic(batch[0])
    primary = functional.released_primary_capsules(distance, permutation, K).expand()
    torch.testing.assert_close(primary[:, 0].flatten(1, 2), slow.primary(batch[0]))


def random_graphs(seed, n_graphs, n_nodes):
    return torch.randn(n_graphs, n_nodes, n_nodes, generator=torch.Generator().manual_seed(seed)).tanh()


def counts(seed, n_graphs, n_nodes):
    """Streamline counts: zeros, and whole numbers over six decades."""
    rng = np.random.default_rng(seed)
    graphs = np.rint(np.exp(rng.uniform(0, 14.6, size=(n_graphs, n_nodes, n_nodes)))) * (
        rng.random((n_nodes,) * 2) < 0.4
    )
    return torch.from_numpy(np.triu(graphs, 1) + np.triu(graphs, 1).swapaxes(1, 2)).float()


def ties(seed, n_graphs, n_nodes):
    """Sparse graphs of few values: in many windows whole groups of permutations have one distance."""
    graphs = np.random.default_rng(seed).choice([0, 0, 0, 0, 1, 2], size=(n_graphs, n_nodes, n_nodes))
    return torch.from_numpy(np.triu(graphs, 1) + np.triu(graphs, 1).swapaxes(1, 2)).float()


KINDS = {"random": random_graphs, "counts": counts, "ties": ties}
DTYPES = (torch.float32, torch.float64)


class Pair:
    """Our module and the slow program from equal weights, trained side by side."""

    def __init__(self, n_nodes, k, dtype, seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.module = ReleasedIsoCapsNet(n_nodes, N_CLASSES, kernel_size=k, decoder_sizes=(8, 12)).to(dtype)
        self.program, defaults = ReleasedProgram.like(self.module), ReleasedIsoCapsNetClassifier(kernel_size=k)
        self.criterion, self.ours = defaults._build_criterion(torch.ones(2)), defaults._build_optimizer(self.module)
        self.theirs = self.program.optimizer()

    def step(self, graphs, targets):
        """One step of both; winners must be equal bit for bit."""
        winners = self.module.isomorphic(graphs).permutation
        assert torch.equal(winners.flatten(1), self.program.search(graphs)[0])
        self.ours.zero_grad()
        loss = self.criterion(self.module(graphs), targets)
        loss.backward()
        self.ours.step()
        torch.testing.assert_close(loss.detach(), self.program.step(self.theirs, graphs, targets))

    def check_weights(self):
        ours = ReleasedProgram.like(self.module).parameters()
        assert all(map(torch.equal, ours, self.program.parameters()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_winners_and_weights_are_those_of_the_program_after_three_steps_bit_for_bit(k, dtype, kind):
    graphs, pair = KINDS[kind](k, 5, 9).to(dtype), Pair(9, k, dtype, seed=k)
    for _ in range(3):
        pair.step(graphs, torch.tensor([0, 1, 1, 0, 1]))
        pair.check_weights()


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_large_tensors_do_not_change_a_bit(kind, monkeypatch):
    """64 at a time: of the 24 · 16 columns of all permutations, and of the 289 windows."""
    monkeypatch.setattr(released, "_SUMMED_VALUES", 1)
    graphs, pair = KINDS[kind](0, 6, 20), Pair(20, 4, torch.float32, seed=0)
    for _ in range(3):
        pair.step(graphs, torch.tensor([0, 1, 1, 0, 1, 0]))
    pair.check_weights()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_predictions_and_weights_are_those_of_the_program_after_seventeen_epochs(dtype, kind):
    """Two batches per epoch, in a new order each time; from equal initial weights alone."""
    graphs, targets, pair = KINDS[kind](0, 26, 9).to(dtype), torch.arange(26) % 2, Pair(9, 4, dtype, seed=5)
    generator = torch.Generator().manual_seed(0)
    for _ in range(17):
        for batch in torch.randperm(16, generator=generator).split(10):
            pair.step(graphs[batch], targets[batch])
    pair.check_weights()
    with torch.no_grad():
        ours = pair.module.eval()(graphs).capsules.norm(dim=-1)
        theirs = pair.program.lengths(graphs)
    assert torch.equal(ours.argmax(dim=1), theirs.argmax(dim=1))
    assert 0 < theirs.argmax(dim=1).sum() < 26, "both classes are predicted"


@pytest.mark.parametrize("kind", KINDS)
def test_the_estimator_trains_as_the_program_does(kind):
    """Weights after 17 epochs of one batch, in the order of the data, are equal bit for bit."""
    graphs, codes = KINDS[kind](0, 26, 9), np.arange(26) % 2
    model = ReleasedIsoCapsNetClassifier(decoder_sizes=(8, 12), random_state=5, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(graphs[:16].numpy(), codes[:16])
    program = Pair(9, 4, torch.float32, seed=5).program
    optimizer = program.optimizer()
    for _ in range(17):
        program.step(optimizer, graphs[:16], torch.from_numpy(codes[:16]))
    assert all(map(torch.equal, ReleasedProgram.like(model.module_).parameters(), program.parameters()))
    lengths = program.lengths(graphs).detach()
    assert model.predict(graphs.numpy()).tolist() == lengths.argmax(dim=1).tolist()
    assert model.predict_proba(graphs.numpy()) == pytest.approx(lengths.softmax(dim=1).numpy(), abs=1e-6)


def test_another_order_of_sums_changes_what_the_program_learns_from_counts():
    """Why nothing less than equal operations will do: in exact arithmetic, the order of the graphs has no effect."""
    graphs, targets = counts(0, 26, 24), torch.arange(26) % 2
    templates = []
    for order in (torch.arange(26), torch.arange(26).flip(0)):
        program = Pair(24, 4, torch.float32, seed=5).program
        optimizer = program.optimizer()
        for _ in range(6):
            program.step(optimizer, graphs[order], targets[order])
        templates.append(program.template.detach())
    assert (templates[0] - templates[1]).abs().max() > 1e-6  # far more than the rounding of one step


def test_a_perfect_match_is_padded_not_undefined():
    capsules = functional.released_primary_capsules(
        torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1, dtype=torch.long), 2
    )
    assert (capsules.expand() == -1).all()


# -- winners ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_winners_are_those_of_the_published_operations_bit_for_bit(k, kind, dtype):
    graphs = KINDS[kind](k, 3, 14).to(dtype)
    template = torch.randn(1, k, k, generator=torch.Generator().manual_seed(k)).to(dtype)
    match = released_match(graphs, template)
    winners, squared = ReleasedProgram(template[0], None, None).search(graphs)
    assert torch.equal(match.permutation.flatten(1), winners)
    assert torch.equal(match.distance.flatten(1).square(), squared)


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
        ({"routing_iterations": -1}, 2, "routing_iterations=-1"),
        ({"kernel_size": 9}, 2, "8 nodes"),
        ({"decoder_sizes": (4, 0)}, 2, "decoder_sizes"),
        ({}, 3, "3 classes"),
    ],
)
def test_what_the_program_cannot_do_is_refused(parameters, n_classes, fact):
    with pytest.raises(InputError, match=fact):
        ReleasedIsoCapsNetClassifier(**parameters).fit(*planted(n_classes=n_classes))


def test_routing_without_an_iteration_is_refused_also_by_the_module():
    module = ReleasedIsoCapsNet(N_NODES, N_CLASSES, kernel_size=K, routing_iterations=0, decoder_sizes=(4,))
    with pytest.raises(InputError, match="iterations=0"):
        module(torch.randn(1, N_NODES, N_NODES))


def test_the_former_parameter_is_refused_with_the_name_of_the_estimator():
    assert "formulation" not in IsoCapsNetClassifier().get_params()
    for formulation in ("released", "paper"):
        with pytest.raises(InputError, match="ReleasedIsoCapsNetClassifier"):
            IsoCapsNetClassifier(formulation=formulation)


def test_the_gradient_of_the_published_squash_is_undefined_at_distance_zero_and_the_fit_says_so():
    template = torch.randn(K, K, dtype=torch.float64)
    slow = ReleasedProgram(template.clone().requires_grad_(), torch.randn(N_CLASSES, 1, K * K, 16).double(), [])
    slow.capsules(template[None]).sum().backward()
    assert slow.template.grad.isnan().all()
    module = ReleasedIsoCapsNet(K, N_CLASSES, kernel_size=K, decoder_sizes=(4,))
    graph = module.isomorphic.templates.detach().clone()
    with pytest.raises(InputError, match="NaN"):
        module(graph)
    assert module.eval()(graph).capsules.isfinite().all()
