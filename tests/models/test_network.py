"""What the networks share: stopping, memory, warnings."""

import multiprocessing
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError

from isocapsnet import InputError, load_model, save_model
from isocapsnet.functional import margin_loss
from isocapsnet.models import MODELS, _batches
from isocapsnet.models._seeding import seeded

SMALL = {"kernel_size": 3, "decoder_sizes": (16,), "tolerance": 0, "random_state": 0}


def make_data(n_graphs=40, n_nodes=9):
    """Random graphs ``(n_graphs, n_nodes, n_nodes)`` and random labels: a validation loss soon rises."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(n_graphs, n_nodes, n_nodes)).astype(np.float32), rng.integers(2, size=n_graphs)


def make_learnable_data():
    """Data on which the validation loss falls for many epochs."""
    X, y = make_data()
    X[:, 2:5, 2:5] += 2 * y[:, None, None]
    return X, y


def test_the_epoch_that_reaches_the_margin_is_kept():
    X, y = make_learnable_data()
    settings = {**SMALL, "validation_fraction": 0.3, "learning_rate": 1e-3, "max_epochs": 60}
    model = MODELS["isocapsnet"](
        **{**settings, "tolerance": 0.4, "reconstruction_weight": 0, "windows": "contiguous"}
    ).fit(X, y)
    losses = [row["valid_loss"] for row in model.history_]
    assert 1 < len(losses) < 60
    assert np.argmin(losses) == len(losses) - 1
    _, validation = model._split(y, seed=0)
    lengths = np.linalg.norm(model.transform(X[validation]).reshape(-1, 2, 16), axis=2)
    reached = margin_loss(torch.from_numpy(lengths), torch.from_numpy(y[validation])).mean().item()
    assert reached == pytest.approx(losses[-1], rel=1e-4) != pytest.approx(losses[-2], rel=1e-2)


def test_half_a_fit_is_none():
    X, y = make_data()
    model = MODELS["isocapsnet"](max_epochs=2, **SMALL).fit(X, y)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(callbacks=[lambda history: signal.raise_signal(signal.SIGINT)]).fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_a_callback_may_stop_a_fit():
    X, y = make_data()
    model = MODELS["isocapsnet"](max_epochs=9, **SMALL, callbacks=[lambda history: len(history) == 2]).fit(X, y)
    assert [row["epoch"] for row in model.history_] == [1, 2]
    assert len(model.predict(X)) == len(X)


@pytest.mark.parametrize("callback", [("name", print), 3])
def test_what_is_no_callback_is_refused(callback):
    with pytest.raises(InputError, match="callbacks"):
        MODELS["cnn"](callbacks=[callback]).fit(*make_data())


def test_refused_unlabelled_graphs_leave_an_earlier_fit_as_it_was():
    X, y = make_data()
    model = MODELS["isocapsnet"](max_epochs=1, **SMALL).fit(X, y)
    predicted = model.predict(X)
    with pytest.raises(InputError, match="X_unlabeled"):
        model.fit(X, np.where(y == 0, "a", "b"), X_unlabeled=X[:, :8, :8])
    assert_array_equal(model.predict(X), predicted)


class Watched(np.memmap):
    """A memory map that notes what it was asked for."""

    keys = ()

    def __getitem__(self, key):
        Watched.keys.append(key)
        return super().__getitem__(key)


@pytest.mark.parametrize("method", ["isocapsnet", "cnn", "autoencoder", "fastisonn"])
def test_a_memory_map_is_read_batch_by_batch(monkeypatch, tmp_path, method):
    monkeypatch.setattr(_batches, "RESIDENT_BYTES", 0)
    X, y = make_data()
    X.tofile(tmp_path / "graphs")
    mapped = np.memmap(tmp_path / "graphs", mode="r", dtype=np.float32, shape=X.shape).view(Watched)
    Watched.keys = []
    MODELS[method](batch_size=7, max_epochs=2, validation_fraction=0.3, random_state=0).fit(mapped, y).predict(mapped)
    rows = [len(np.atleast_1d(np.arange(len(X))[key])) for key in Watched.keys if isinstance(key, int | np.ndarray)]
    assert max(rows) == 7 and rows.count(1) >= 2 * len(X)  # graph by graph in fit, in batches to predict


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


@pytest.mark.parametrize("method", ["cnn", "gin"])
def test_fits_in_two_threads_are_as_reproducible_as_one_after_the_other(method):
    graphs = np.random.default_rng(0).normal(size=(24, 8, 8)).astype(np.float32)
    labels = np.arange(24) % 2

    def fit(seed):
        model = MODELS[method](max_epochs=20, batch_size=4, dropout=0.5, calibrate=False, random_state=seed)
        return model.fit(graphs, labels).predict_proba(graphs)

    expected = [fit(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for at_once, alone in zip(pool.map(fit, range(4)), expected, strict=True):
            assert_array_equal(at_once, alone)


def test_a_callback_may_fit_another_network():
    graphs, labels = np.random.default_rng(0).normal(size=(12, 8, 8)), np.arange(12) % 2
    settings = {"max_epochs": 3, "calibrate": False, "random_state": 0}

    def fit_another(history):
        MODELS["cnn"](**settings | {"random_state": 1}).fit(graphs, labels)

    alone = MODELS["cnn"](**settings).fit(graphs, labels)
    both = MODELS["cnn"](**settings, callbacks=[fit_another]).fit(graphs, labels)
    assert_array_equal(both.predict_proba(graphs), alone.predict_proba(graphs))


@pytest.mark.parametrize("method", ["cnn", "autoencoder", "bnt"])
def test_a_model_is_read_while_another_thread_trains_and_no_numbers_are_drawn(method, tmp_path):
    graphs, labels = np.random.default_rng(0).normal(size=(12, 8, 8)), np.arange(12) % 2
    model = MODELS[method](max_epochs=1, calibrate=False, random_state=0).fit(graphs, labels)
    save_model(model, tmp_path / "model.safetensors")
    with seeded(1), ThreadPoolExecutor(1) as pool:
        before = torch.get_rng_state()
        loaded = pool.submit(load_model, tmp_path / "model.safetensors").result(timeout=60)
        assert torch.equal(torch.get_rng_state(), before)
    assert_array_equal(loaded.predict_proba(graphs), model.predict_proba(graphs))
    assert not any(tensor.is_meta for tensor in [*loaded.module_.parameters(), *loaded.module_.buffers()])


def test_seeds_are_those_of_torch_and_the_generator_is_restored():
    before = torch.get_rng_state()
    with seeded(7):
        drawn = torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        assert torch.equal(drawn, torch.rand(3))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_forked_during_a_fit_of_another_thread_does_not_wait_for_it():
    inside, may_leave = threading.Event(), threading.Event()

    def fit():
        with seeded(1):
            inside.set()
            may_leave.wait(60)

    thread = threading.Thread(target=fit)
    thread.start()
    inside.wait(60)
    child = multiprocessing.get_context("fork").Process(target=lambda: seeded(2).__enter__())
    child.start()
    child.join(30)
    is_alive = child.is_alive()
    child.kill()
    may_leave.set()
    thread.join()
    assert not is_alive


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_fit_on_the_cpu_leaves_the_generator_of_the_gpu_alone():
    before = torch.cuda.get_rng_state()
    with seeded(7):
        torch.rand(3)
    assert torch.equal(torch.cuda.get_rng_state(), before)
    with seeded(7, torch.device("cuda")):
        drawn = torch.rand(3, device="cuda")
    assert torch.equal(torch.cuda.get_rng_state(), before)
    with torch.random.fork_rng(devices=["cuda"]):
        torch.manual_seed(7)
        assert torch.equal(drawn, torch.rand(3, device="cuda"))
