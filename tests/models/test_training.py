"""The training loop: losses, steps, the best epoch, callbacks, interruption, divergence, batches, side effects."""

import random
import signal
import subprocess
import sys
import weakref

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.base import clone
from torch import nn

from isocapsnet._stages import Watcher, watching
from isocapsnet.functional.kernels import _threads, import_kernel
from isocapsnet.models import MODELS, _batches, _optimizer, _training
from isocapsnet.models._batches import GraphStore
from isocapsnet.models._optimizer import Adam
from isocapsnet.models._scaling import InputScaler
from isocapsnet.models._training import TrainingDivergedError, train

CPU = torch.device("cpu")


def make_store(n_graphs=20, seed=0, **parameters):
    """Random graphs ``(n_graphs, 3, 3)`` with random labels: a validation loss soon rises."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n_graphs, 3, 3)).astype(np.float32), rng.integers(2, size=n_graphs)
    return GraphStore(X, y, InputScaler(False, 2.0), CPU, **parameters)


def make_module():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(9, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))


def run(module=None, *, graphs=None, validation=None, learning_rate=0.05, **settings):
    """The module and its history after a short training."""
    module = make_module() if module is None else module
    settings = {"batch_size": 8, "max_epochs": 12} | settings
    optimizer = Adam(module.parameters(), learning_rate, weight_decay=0.01)
    graphs = make_store() if graphs is None else graphs
    return module, train(module, nn.CrossEntropyLoss(), optimizer, graphs, validation, **settings)


class Snapshots:
    """A callback that keeps a copy of the module's state after every epoch."""

    def __init__(self, module):
        self.module, self.states = module, []

    def on_epoch_end(self, history):
        self.states.append({name: tensor.clone() for name, tensor in self.module.state_dict().items()})


# -- steps and losses ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("decoupled", "expected"), [(True, torch.optim.AdamW), (False, torch.optim.Adam)])
def test_steps_are_those_of_torch_to_the_bit(decoupled, expected):
    ours, theirs = (nn.Parameter(torch.linspace(-1, 1, 9)) for _ in range(2))
    without_gradient = nn.Parameter(torch.ones(2))
    optimizers = (
        Adam([ours, without_gradient], 0.1, 0.3, decoupled=decoupled),
        # Without fused=True, Adam is what a program has that does not ask for anything.
        expected([theirs, without_gradient], lr=0.1, weight_decay=0.3, fused=decoupled),
    )
    for _ in range(4):
        for optimizer, parameter in zip(optimizers, (ours, theirs), strict=True):
            optimizer.zero_grad()
            (parameter**3).sum().backward()
            optimizer.step()
        assert torch.equal(ours, theirs)
    assert torch.equal(without_gradient, torch.ones(2))


@pytest.mark.parametrize("n_threads", [1, 3])
def test_steps_of_many_weights_are_those_of_torch_to_the_bit_on_any_number_of_threads(n_threads, monkeypatch):
    monkeypatch.setattr(_threads, "_WORTH_SHARING", 0)
    monkeypatch.setattr(_threads, "kernel_threads", lambda: n_threads)
    monkeypatch.setattr(_threads._Pause, "over", lambda pause: True)
    draw = torch.Generator().manual_seed(0)
    shapes = (_optimizer._BLOCK + 5, 17), (3,), (2, 4 * _optimizer._BLOCK + 1)
    start = [torch.randn(shape, generator=draw) for shape in shapes]
    ours, theirs = ([nn.Parameter(tensor.clone()) for tensor in start] for _ in range(2))
    optimizers = Adam(ours, 0.1, 0.3), torch.optim.AdamW(theirs, lr=0.1, weight_decay=0.3, fused=True)
    for _ in range(3):
        gradients = [torch.randn(shape, generator=draw) for shape in shapes]
        for optimizer, parameters in zip(optimizers, (ours, theirs), strict=True):
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient.clone()
            optimizer.step()
    assert all(torch.equal(*pair) for pair in zip(ours, theirs, strict=True))
    # Weights that do not lie in a row are moved too.
    turned, whole = nn.Parameter(start[0].clone().T), nn.Parameter(start[0].T.contiguous())
    for parameter, kind in ((turned, Adam), (whole, torch.optim.AdamW)):
        parameter.grad = torch.ones_like(parameter)
        kind([parameter], 0.1, weight_decay=0.3).step()
    assert torch.allclose(turned, whole)


def test_frozen_parameters_stay_as_they_are():
    module = make_module()
    module[1].requires_grad_(False)
    before = [parameter.clone() for parameter in module.parameters()]
    run(module)
    assert [torch.equal(*pair) for pair in zip(before, module.parameters(), strict=True)] == [True] * 2 + [False] * 4


def test_losses_are_means_over_graphs_and_not_over_batches():
    module = nn.Sequential(nn.Flatten(), nn.Linear(9, 2))
    graphs, validation = make_store(20), make_store(11, seed=1)
    _, history = run(module, graphs=graphs, validation=validation, learning_rate=0.0, max_epochs=1)
    for name, store in (("train_loss", graphs), ("valid_loss", validation)):
        inputs, codes = store.batch(np.arange(len(store)))
        assert history[0][name] == pytest.approx(nn.CrossEntropyLoss()(module(inputs), codes).item(), rel=1e-5)
    assert list(history[0]) == ["epoch", "train_loss", "valid_loss", "dur"]
    assert history[0]["epoch"] == 1 and history[0]["dur"] > 0


def test_without_a_validation_part_there_is_no_validation_loss():
    _, history = run(max_epochs=3, patience=1)
    assert [row["epoch"] for row in history] == [1, 2, 3]
    assert all("valid_loss" not in row for row in history)


def test_validation_does_not_change_the_statistics_of_the_module():
    seen = []
    module = make_module()
    module[2].register_forward_hook(lambda layer, *_: seen.append(layer.training))
    _, history = run(module, validation=make_store(9, seed=1), max_epochs=2)
    assert seen == [True, True, True, False, False] * 2
    assert int(module[2].num_batches_tracked) == 3 * len(history)


def test_tensors_of_a_step_are_gone_when_the_next_one_begins():
    """Functions with gradients of their own hold tensors until their output is gone, not until the backward pass."""
    outputs, n_alive = [], []
    module = make_module()
    module.register_forward_pre_hook(lambda *_: n_alive.append(sum(output() is not None for output in outputs)))
    module.register_forward_hook(lambda _, __, output: outputs.append(weakref.ref(output)))
    run(module, max_epochs=2)
    assert n_alive == [0] * 6


def test_verbose_prints_one_line_per_epoch(capsys):
    _, history = run(validation=make_store(9, seed=1), max_epochs=2, verbose=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all(f"{history[1][name]:.4f}" in lines[1] for name in ("train_loss", "valid_loss"))
    run(max_epochs=2)
    assert capsys.readouterr().out == ""


# -- early stopping and callbacks ------------------------------------------------------------------------------


@pytest.mark.parametrize("bytes_in_memory", [0, 10**9])
def test_training_ends_with_the_weights_of_the_best_epoch(monkeypatch, bytes_in_memory):
    files = []
    temporary_file = _training.TemporaryFile
    monkeypatch.setattr(_training, "TemporaryFile", lambda: files.append(temporary_file()) or files[-1])
    monkeypatch.setattr(_training, "_WEIGHTS_IN_MEMORY", bytes_in_memory)
    module = make_module()
    snapshots = Snapshots(module)
    settings = {"patience": 3, "max_epochs": 60, "callbacks": [snapshots]}
    _, history = run(module, validation=make_store(30, seed=1), **settings)
    best = int(np.argmin([row["valid_loss"] for row in history]))
    assert len(history) - best == 4  # three epochs without a lower loss
    assert [file.closed for file in files] == ([True] if bytes_in_memory == 0 else [])
    for name, tensor in module.state_dict().items():
        assert_array_equal(tensor, snapshots.states[best][name])


def test_without_patience_the_last_epoch_is_kept():
    module = make_module()
    snapshots = Snapshots(module)
    _, history = run(module, validation=make_store(30, seed=1), callbacks=[snapshots])
    assert len(history) == 12 > 1 + np.argmin([row["valid_loss"] for row in history])
    for name, tensor in module.state_dict().items():
        assert_array_equal(tensor, snapshots.states[-1][name])


def test_a_validation_loss_that_is_no_number_is_never_the_best():
    validation = make_store(4, seed=1)
    validation.resident[0, 0, 0] = torch.nan
    module, history = run(validation=validation, patience=2)
    assert len(history) == 2
    assert all(tensor.isfinite().all() for tensor in module.state_dict().values())


class StopAfter:
    def __init__(self, epoch):
        self.epoch = epoch

    def on_epoch_end(self, history):
        return len(history) == self.epoch


@pytest.mark.parametrize("callback", [StopAfter(4), lambda history: np.bool_(history[-1]["epoch"] == 4)])
def test_a_callback_that_returns_true_stops_the_training(callback):
    calls = []
    _, history = run(callbacks=[callback, lambda history: calls.append(len(history))])
    assert len(history) == 4
    assert calls == [1, 2, 3, 4]  # the others are called in the last epoch, too


def test_the_best_epoch_is_restored_if_a_callback_stops_the_training():
    module = make_module()
    snapshots = Snapshots(module)
    settings = {"patience": 50, "callbacks": [snapshots, StopAfter(11)]}
    _, history = run(module, validation=make_store(30, seed=1), **settings)
    best = int(np.argmin([row["valid_loss"] for row in history]))
    assert len(history) == 11 > best + 1
    for name, tensor in module.state_dict().items():
        assert_array_equal(tensor, snapshots.states[best][name])


def test_a_callback_sees_output_and_codes_of_every_training_batch():
    class Watch:
        def __init__(self):
            self.sizes = []

        def on_batch_end(self, output, codes):
            assert output.shape == (len(codes), 2)
            self.sizes.append(len(codes))

        def on_epoch_end(self, history):
            pass

    watch = Watch()
    run(validation=make_store(9, seed=1), callbacks=[watch], max_epochs=2)
    assert watch.sizes == [8, 8, 4] * 2


class Witness(Watcher):
    """Keeps what is reported after each epoch, and stops the training after ``last`` of them."""

    def __init__(self, last=0):
        self.last, self.epochs, self.stoppable, self.histories = last, [], set(), set()

    def on_epoch(self, history, max_epochs, *, may_stop):
        self.epochs.append((len(history), max_epochs))
        self.stoppable.add(may_stop)
        self.histories.add(id(history))
        return len(history) == self.last


def test_a_watcher_sees_every_epoch_and_changes_nothing_unless_it_stops_the_training():
    plain, plain_history = run()
    witness = Witness()
    with watching(witness):
        module, history = run()
    assert witness.epochs == [(epoch, 12) for epoch in range(1, 13)] and len(witness.histories) == 1
    assert [row["train_loss"] for row in history] == [row["train_loss"] for row in plain_history]
    for name, tensor in plain.state_dict().items():
        assert torch.equal(tensor, module.state_dict()[name])
    with watching(Witness(last=3)):
        assert len(run()[1]) == 3


@pytest.mark.parametrize(
    ("settings", "may_stop"),
    [
        ({}, False),
        ({"validation": make_store(seed=1)}, False),
        ({"validation": make_store(seed=1), "patience": 50}, True),
        ({"callbacks": [lambda history: None]}, True),
    ],
)
def test_a_watcher_is_told_whether_a_training_can_stop_early(settings, may_stop):
    witness = Witness()
    with watching(witness):
        run(**settings)
    assert witness.stoppable == {may_stop}


def test_ctrl_c_ends_the_training_with_keyboard_interrupt():
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(callbacks=[lambda history: signal.raise_signal(signal.SIGINT)])
    assert signal.getsignal(signal.SIGINT) is handler


def test_divergence_is_refused_in_the_batch_in_which_it_happens():
    steps = []

    def criterion(output, codes):
        steps.append(len(codes))
        return output.sum() * (torch.inf if len(steps) == 5 else 1.0)

    module = make_module()
    with pytest.raises(TrainingDivergedError, match=r"epoch 2.*learning_rate \(now 0\.25\)"):
        train(module, criterion, Adam(module.parameters(), 0.25, 0.0), make_store(), batch_size=8, max_epochs=9)
    assert len(steps) == 5  # three batches in the first epoch, two in the second


# -- batches ---------------------------------------------------------------------------------------------------


@pytest.fixture
def stores(monkeypatch):
    """The same graphs kept on the device, and read from the array."""
    extra = {"X_unlabeled": np.random.default_rng(5).normal(size=(3, 3, 3))}
    resident = make_store(**extra)
    monkeypatch.setattr(_batches, "RESIDENT_BYTES", 0)
    streamed = make_store(**extra)
    assert resident.resident is not None and streamed.resident is None
    return resident, streamed


def contents(store, **settings):
    """The graphs and codes of each batch of four."""
    torch.manual_seed(1)
    batches = store.batches(4, **settings)
    return [{(graph.numpy().tobytes(), int(code)) for graph, code in zip(*batch, strict=True)} for batch in batches]


def test_graphs_are_scaled_a_few_at_a_time(monkeypatch):
    """A second copy of all graphs would double the peak of memory."""
    monkeypatch.setattr(_batches, "_CHUNK_VALUES", 30)
    sizes = []

    class Watched(InputScaler):
        def transform(self, X):
            sizes.append(len(X))
            return super().transform(X)

    X, X_unlabeled = np.random.default_rng(0).normal(size=(2, 7, 3, 3))
    store = GraphStore(X, np.arange(7) % 2, Watched(True, 2.0), CPU, X_unlabeled=X_unlabeled)
    assert sizes == [3, 3, 1] * 2
    expected = InputScaler(True, 2.0).transform(np.concatenate([X, X_unlabeled]))
    assert_array_equal(store.resident.numpy(), expected)


def test_batches_cover_every_graph_once_and_streamed_ones_are_the_resident_ones(stores):
    resident, streamed = stores
    for shuffle in (False, True):
        seen = contents(resident, shuffle=shuffle)
        assert seen == contents(streamed, shuffle=shuffle)
        assert [len(batch) for batch in seen] == [4] * 5 + [3]
        assert len(set.union(*seen)) == 23
    assert contents(resident, shuffle=True) != contents(resident)


def test_streamed_batches_share_one_buffer_and_codes_stay_beside_their_graphs(stores):
    _, streamed = stores
    places = {graphs.data_ptr() for graphs, _ in streamed.batches(4)}
    assert len(places) == 1
    alone = dict(zip((streamed.batch(np.array([i]))[0].numpy().tobytes() for i in range(23)), range(23), strict=True))
    for graphs, codes in streamed.batches(4, shuffle=True):
        index = [alone[graph.numpy().tobytes()] for graph in graphs]
        assert_array_equal(codes, streamed.codes[index])


def test_a_subset_has_the_graphs_at_its_index(stores):
    for store in stores:
        part = store.subset(np.array([2, 5, 21])).subset(np.array([0, 2]))
        graphs, codes = part.batch(np.arange(2))
        assert_array_equal(graphs, torch.cat([store.batch(np.array([i]))[0] for i in (2, 21)]))
        assert codes.tolist() == [store.codes[2].item(), -1]


# -- side effects ----------------------------------------------------------------------------------------------

FIT = """
import os, sys
import torch
called, loaded = set(), set(sys.modules)
sys.addaudithook(lambda event, arguments: called.add(arguments[1]) if event == "ctypes.dlsym" else None)
environment = dict(os.environ)
import numpy as np
from isocapsnet.models import MODELS, _batches
_batches.RESIDENT_BYTES = 0
X, y = np.random.default_rng(0).normal(size=(8, 9, 9)), np.arange(8) % 2
MODELS["isocapsnet"](max_epochs=2, validation_fraction=0.25, patience=1).fit(X, y).predict(X)
MODELS["autoencoder"](max_epochs=1, pretraining_epochs=1).fit(X, y)
unwanted = {"torch._dynamo", "torch_geometric", "skorch"} & (set(sys.modules) - loaded)
assert not unwanted, unwanted
assert "mallopt" not in called, "the allocator was changed"
assert dict(os.environ) == environment
"""


def test_a_fit_loads_no_compiler_and_leaves_the_process_as_it_was():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FIT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_fit_leaves_the_global_random_states_alone():
    X, y = np.random.default_rng(0).normal(size=(12, 6, 6)), np.arange(12) % 2
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    MODELS["cnn"](max_epochs=1, dropout=0.5, random_state=0).fit(X, y)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    assert random.getstate() == before[2]


@pytest.mark.parametrize("settings", [{}, {"matching": "spectral", "kernel_size": 9}, {"batch_size": 7}])
def test_weights_that_move_part_by_part_move_as_whole_ones_do_bit_for_bit(monkeypatch, settings):
    X, y = np.random.default_rng(0).normal(size=(20, 14, 14)), np.arange(20) % 2
    model = MODELS["isocapsnet"](
        device="cpu", windows="contiguous", calibrate=False, max_epochs=4, random_state=0, **settings
    )
    monkeypatch.setattr(import_kernel("cpu_linear"), "_LEAST_WEIGHTS", 1)
    expected = clone(model).fit(X, y)
    moved, move_part = set(), Adam._move_part
    monkeypatch.setattr(_optimizer, "_LARGE", 1)
    monkeypatch.setattr(_threads, "_WORTH_SHARING", 0)  # parts move on several threads
    monkeypatch.setattr(_threads._Pause, "over", lambda self: True)
    for name in ("cpu_linear", "cpu_routing"):
        monkeypatch.setattr(import_kernel(name), "_TAKEN_BYTES", 1)
    monkeypatch.setattr(Adam, "_move_part", lambda *a: moved.add(a[1].ndim) or move_part(*a))
    found = clone(model).fit(X, y)
    assert moved == {2, 5}  # the weights of the decoder and of routing
    for name, tensor in found.module_.state_dict().items():
        assert torch.equal(tensor, expected.module_.state_dict()[name])
    assert [row["train_loss"] for row in found.history_] == [row["train_loss"] for row in expected.history_]


def make_weights():
    torch.manual_seed(0)
    return nn.Parameter(torch.randn(6, 32))


def test_steps_in_parts_and_whole_steps_may_alternate(monkeypatch):
    monkeypatch.setattr(_optimizer, "_LARGE", 1)
    gradients = torch.randn(6, 6, 32, generator=torch.Generator().manual_seed(1))
    weights = {"whole": make_weights(), "both": make_weights()}
    optimizers = {name: Adam([weight], 0.1, 0.01) for name, weight in weights.items()}
    for step, gradient in enumerate(gradients):
        for name, optimizer in optimizers.items():
            optimizer.zero_grad()
            if name == "both" and step % 3:
                for rows in (slice(0, 2), slice(2, 6)):
                    optimizer.takers()[weights[name]](lambda whole, rows=rows: whole[rows], gradient[rows])
            else:
                weights[name].grad = gradient.clone()
            optimizer.step()
    assert torch.equal(weights["both"], weights["whole"])


def test_weights_that_have_moved_in_parts_are_not_moved_again_in_the_same_step(monkeypatch):
    monkeypatch.setattr(_optimizer, "_LARGE", 1)
    weight = make_weights()
    optimizer = Adam([weight], 0.1, 0.01)
    optimizer.takers()[weight](lambda whole: whole, torch.ones(6, 32))
    weight.grad = torch.ones(6, 32)
    with pytest.raises(RuntimeError, match="had moved"):
        optimizer.step()


def test_only_weights_that_lie_in_rows_are_moved_in_parts(monkeypatch):
    monkeypatch.setattr(_optimizer, "_LARGE", 1)
    weight, transposed = make_weights(), nn.Parameter(make_weights().detach().T)
    assert list(Adam([weight, transposed], 0.1, 0.01).takers()) == [weight]
