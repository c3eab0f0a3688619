"""What the networks share: the best epoch, memory, imports."""

import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError
from skorch.callbacks import Callback

from isocapsnet._validation import InputError
from isocapsnet.functional import margin_loss
from isocapsnet.models import MODELS, _batches, _callbacks, _network

SMALL = {"kernel_size": 3, "decoder_sizes": (16,), "tolerance": 0, "random_state": 0}


def make_data(n_graphs=40, n_nodes=9):
    """Random graphs ``(n_graphs, n_nodes, n_nodes)`` and random labels: a validation loss soon rises."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(n_graphs, n_nodes, n_nodes)).astype(np.float32), rng.integers(2, size=n_graphs)


class Snapshots(Callback):
    """Keeps the module's state after every epoch."""

    def on_train_begin(self, net, **_):
        self.states = []

    def on_epoch_end(self, net, **_):
        self.states.append({name: tensor.clone() for name, tensor in net.module_.state_dict().items()})


@pytest.mark.parametrize("bytes_in_memory", [0, 10**9])
@pytest.mark.parametrize("method", ["isocapsnet", "gin"])
def test_a_fit_ends_with_the_weights_of_its_best_epoch(monkeypatch, method, bytes_in_memory):
    monkeypatch.setattr(_callbacks, "_WEIGHTS_IN_MEMORY", bytes_in_memory)
    snapshots = Snapshots()
    settings = {"patience": 3, "validation_fraction": 0.3, "learning_rate": 0.03, "max_epochs": 40, "random_state": 0}
    settings |= SMALL if method == "isocapsnet" else {}
    model = MODELS[method](**settings, callbacks=[snapshots]).fit(*make_data())
    best = int(np.argmin([row["valid_loss"] for row in model.history_]))
    assert len(model.history_) - best == 4  # three epochs without a better one, and the module went back
    for name, tensor in model.module_.state_dict().items():
        assert_array_equal(tensor.cpu(), snapshots.states[best][name].cpu())


class StopAt(Callback):
    """Ends a fit in an epoch, at its end or in the middle of it."""

    def __init__(self, epoch, event):
        self.epoch, self.event = epoch, event

    def on_epoch_end(self, net, **_):
        self.stop_if_due(net, "epoch end")

    def on_batch_end(self, net, training=False, **_):
        self.stop_if_due(net, "batch end" if training else None)

    def stop_if_due(self, net, event):
        if event == self.event and len(net.history) == self.epoch:
            raise KeyboardInterrupt


def make_learnable_data():
    """Data on which the validation loss falls for many epochs."""
    X, y = make_data()
    X[:, 2:5, 2:5] += 2 * y[:, None, None]
    return X, y


@pytest.mark.parametrize(("event", "best"), [("epoch end", 6), ("batch end", 5)])
def test_the_best_epoch_is_restored_whichever_callback_ends_the_fit(monkeypatch, event, best):
    snapshots = Snapshots()
    settings = {**SMALL, "patience": 9, "validation_fraction": 0.3, "learning_rate": 1e-3, "max_epochs": 9}
    model = MODELS["isocapsnet"](**settings)
    # In front of early stopping, where the method's own callbacks stand.
    monkeypatch.setattr(model, "_own_callbacks", lambda: [snapshots, StopAt(6, event)])
    model.fit(*make_learnable_data())
    losses = [row["valid_loss"] for row in model.history_ if "valid_loss" in row]
    assert len(model.history_) == 6
    assert np.argmin(losses) == len(losses) - 1 == best - 1  # still falling when the fit ended
    for name, tensor in model.module_.state_dict().items():
        assert_array_equal(tensor.cpu(), snapshots.states[best - 1][name].cpu())


def test_the_epoch_that_reaches_the_margin_is_kept():
    X, y = make_learnable_data()
    settings = {**SMALL, "validation_fraction": 0.3, "learning_rate": 1e-3, "max_epochs": 60}
    model = MODELS["isocapsnet"](**{**settings, "tolerance": 0.4, "reconstruction_weight": 0}).fit(X, y)
    losses = [row["valid_loss"] for row in model.history_]
    assert 1 < len(losses) < 60
    assert np.argmin(losses) == len(losses) - 1
    _, validation = model._split(y, seed=0)
    lengths = np.linalg.norm(model.transform(X[validation]).reshape(-1, 2, 16), axis=2)
    reached = margin_loss(torch.from_numpy(lengths), torch.from_numpy(y[validation])).mean().item()
    assert reached == pytest.approx(losses[-1], rel=1e-4) != pytest.approx(losses[-2], rel=1e-2)


class AtEveryEpoch(Callback):
    """Calls a function when an epoch ends."""

    def __init__(self, function):
        self.function = function

    def on_epoch_end(self, net, **_):
        self.function()


def raise_interrupt():
    raise KeyboardInterrupt


def press_ctrl_c():
    signal.raise_signal(signal.SIGINT)


def test_half_a_fit_is_none():
    X, y = make_data()
    model = MODELS["isocapsnet"](max_epochs=2, **SMALL).fit(X, y)
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(callbacks=[AtEveryEpoch(press_ctrl_c)]).fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert signal.getsignal(signal.SIGINT) is handler


class ThenBreaksDown(AtEveryEpoch):
    """Presses the key, and cannot cope with a fit that ended early."""

    def on_train_end(self, net, **_):
        raise RuntimeError("a consequence")


def test_a_key_that_was_pressed_is_not_hidden_by_what_came_of_it():
    with pytest.raises(KeyboardInterrupt):
        MODELS["isocapsnet"](max_epochs=9, **SMALL, callbacks=[ThenBreaksDown(press_ctrl_c)]).fit(*make_data())


def test_a_handler_of_the_users_own_decides_whether_a_fit_goes_on():
    pressed = []
    before = signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
    try:
        model = MODELS["isocapsnet"](max_epochs=2, calibrate=False, **SMALL, callbacks=[AtEveryEpoch(press_ctrl_c)])
        model.fit(*make_data())
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(pressed) == len(model.history_) == 2


def test_refused_unlabelled_graphs_leave_an_earlier_fit_as_it_was():
    X, y = make_data()
    model = MODELS["isocapsnet"](max_epochs=1, **SMALL).fit(X, y)
    predicted = model.predict(X)
    with pytest.raises(InputError, match="X_unlabeled"):
        model.fit(X, np.where(y == 0, "a", "b"), X_unlabeled=X[:, :8, :8])
    assert_array_equal(model.predict(X), predicted)


def test_a_callback_may_end_a_fit_as_in_skorch():
    X, y = make_data()
    model = MODELS["isocapsnet"](max_epochs=9, **SMALL, callbacks=[AtEveryEpoch(raise_interrupt)]).fit(X, y)
    assert len(model.history_) == 1
    assert len(model.predict(X)) == len(X)


class Watched(np.memmap):
    """A memory map that notes the most graphs that were read at once, by index."""

    most = 0

    def __getitem__(self, index):
        if isinstance(index, np.ndarray):
            Watched.most = max(Watched.most, len(index))
        return super().__getitem__(index)


@pytest.mark.parametrize("method", ["isocapsnet", "cnn", "autoencoder", "fastisonn"])
def test_a_memory_map_is_read_batch_by_batch(monkeypatch, tmp_path, method):
    monkeypatch.setattr(_batches, "RESIDENT_BYTES", 0)
    X, y = make_data()
    X.tofile(tmp_path / "graphs")
    mapped = np.memmap(tmp_path / "graphs", mode="r", dtype=np.float32, shape=X.shape).view(Watched)
    Watched.most = 0
    MODELS[method](batch_size=7, max_epochs=2, validation_fraction=0.3, random_state=0).fit(mapped, y).predict(mapped)
    assert Watched.most == 7


def test_a_fitted_model_holds_no_gradients():
    model = MODELS["isocapsnet"](max_epochs=1, **SMALL).fit(*make_data())
    assert all(parameter.grad is None for parameter in model.module_.parameters())


def test_a_network_that_answers_alike_is_warned_about_and_another_is_not(recwarn):
    X, y = make_data()
    MODELS["cnn"](max_epochs=1, learning_rate=1e-9, random_state=0).fit(X * 0, y)
    said = [warning for warning in recwarn if "predicts class" in str(warning.message)]
    assert [warning.filename for warning in said] == [__file__]  # the line of the user's own program
    recwarn.clear()
    X[:, 2:5, 2:5] += 4 * y[:, None, None]
    model = MODELS["isocapsnet"](max_epochs=20, learning_rate=0.01, **SMALL).fit(X, y)
    assert len(np.unique(model.predict(X))) == 2
    assert not any("predicts class" in str(warning.message) for warning in recwarn)


IMPORTS = """
import sys
import numpy as np
from isocapsnet.models import MODELS
X, y = np.random.default_rng(0).normal(size=(8, 9, 9)), np.arange(8) % 2
MODELS["isocapsnet"](max_epochs=2, validation_fraction=0.25).fit(X, y).predict(X)
assert not {"torch_geometric", "torch._dynamo", "sympy"} & set(sys.modules), "loaded for nothing"

import torch
from skorch.utils import to_tensor
from torch_geometric.data import Data
graph = Data(x=torch.ones(2, 1))
assert to_tensor(graph, "cpu") is graph
"""


def test_a_fit_loads_no_compiler_and_skorch_still_knows_data_of_pytorch_geometric():
    pytest.importorskip("torch_geometric")
    subprocess.run([sys.executable, "-c", IMPORTS], check=True, capture_output=True)


def test_batches_cover_every_graph_once_in_an_order_drawn_from_torch(monkeypatch):
    X, y = make_data(10)
    scaler = _network.fit_scaler(X, "none")
    for resident in (10**9, 0):
        monkeypatch.setattr(_batches, "RESIDENT_BYTES", resident)
        store = _batches.GraphStore(X, y, scaler, torch.device("cpu"), X_unlabeled=X[:3])
        seen = [*_batches.Batches(store, 4, shuffle=True)]
        assert [len(codes) for _, codes in seen] == [4, 4, 4, 1]
        graphs, codes = (torch.cat(parts).numpy() for parts in zip(*seen, strict=True))
        expected = {(graph.tobytes(), code) for graph, code in zip([*X, *X[:3]], [*y, -1, -1, -1], strict=True)}
        assert {(graph.tobytes(), code) for graph, code in zip(graphs, codes, strict=True)} == expected
