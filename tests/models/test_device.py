"""A fit that has no room is refused before it begins, by an estimate that is near what fits need."""

import gc
import math
import subprocess
import sys
import weakref

import numpy as np
import psutil
import pytest
import torch

from isocapsnet import InputError
from isocapsnet.functional.kernels import import_kernel
from isocapsnet.models import MODELS, _device, _spectral_store
from isocapsnet.models._device import available_bytes, check_room
from isocapsnet.models._recording import cached_bytes
from isocapsnet.nn.capsule import DigitCapsules

# Graphs and batches so large that what else the process holds does not count. Two steps: the moments of the optimizer
# are made in the first, and lie beside the activations of the second.
MEASURED = """
import logging, sys, warnings
from pathlib import Path
import numpy as np
from isocapsnet.models import MODELS, _spectral_store

def memory(key):
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) * 1024

class Estimates(logging.Handler):
    def emit(self, record):
        estimates.append(sum(record.args[2:4]) * 1e6)

method, n_nodes, parameters, estimates = sys.argv[1], int(sys.argv[2]), eval(sys.argv[3]), []
warnings.simplefilter("ignore")
settings = {"max_epochs": 2, "batch_size": 64, "calibrate": False, "random_state": 0, "device": "cpu", **parameters}
X = np.random.default_rng(0).normal(size=(64, n_nodes, n_nodes)).astype(np.float32)
y = np.arange(64) % 2
MODELS[method](**settings).fit(X[:, :12, :12], y)  # compiles, loads libraries
_spectral_store._KEPT_BYTES = 2**20  # eigenvectors are computed for every batch
logger = logging.getLogger("isocapsnet")
logger.addHandler(Estimates())
logger.setLevel(logging.INFO)
Path("/proc/self/clear_refs").write_text("5")
before = memory("VmRSS")
module = MODELS[method](**settings).fit(X, y).module_
taken = memory("VmHWM") - before - X.nbytes
in_place = 4 * sum(parameter.numel() for parameter in module.parameters())
print(estimates[-1] + in_place, taken)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak of a process is read from /proc")
@pytest.mark.parametrize(
    ("method", "n_nodes", "parameters"),
    [
        ("isocapsnet", 100, {}),
        pytest.param("isocapsnet", 160, {"decoder_sizes": (16,), "residual_sizes": (8,)}, marks=pytest.mark.slow),
        pytest.param("fastisonn", 150, {"kernel_size": 8}, marks=pytest.mark.slow),
        pytest.param(
            "isocapsnet", 90, {"matching": "spectral", "kernel_size": 12, "n_templates": 1}, marks=pytest.mark.slow
        ),
        ("cnn", 300, {}),
        ("autoencoder", 200, {"pretraining_epochs": 1, "hidden_sizes": (2048,)}),
    ],
)
def test_the_estimate_is_near_the_peak_of_a_fit(method, n_nodes, parameters):
    command = [sys.executable, "-c", MEASURED, method, str(n_nodes), repr(parameters)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    estimated, taken = map(float, done.stdout.split())
    assert taken > 300e6  # large enough to be told from what else goes on
    assert 1 / 1.5 < estimated / taken < 1.5


def test_eigenvectors_that_are_not_kept_are_counted(monkeypatch):
    X, y = np.random.default_rng(0).normal(size=(12, 9, 9)).astype(np.float32), np.arange(12) % 2
    model = MODELS["fastisonn"](kernel_size=3, max_epochs=1, calibrate=False, device="cpu", random_state=0).fit(X, y)
    sizes = []
    for kept in (2**20, 0):
        monkeypatch.setattr(_spectral_store, "_KEPT_BYTES", kept)
        graphs = model._build_store(X, y, torch.device("cpu"), None)
        sizes.append(_device.bytes_of_batch(model.module_, model._build_criterion(torch.ones(2)), graphs, 10))
    assert sizes[1] - sizes[0] == 10 * 7 * 7 * 3 * 3 * 4
    monkeypatch.undo()
    monkeypatch.setattr(_spectral_store, "available_bytes", lambda device: 2 * 12 * 7 * 7 * 3 * 3 * 4 - 2)
    assert model._build_store(X, y, torch.device("cpu"), None).vectors is None


def test_couplings_are_counted_as_they_are_kept(monkeypatch):
    kernel = import_kernel("cpu_routing")
    if kernel is None:
        pytest.skip("numba is not installed")
    weight = torch.randn(2, 3, 25, 9, 16)
    value, permutation = torch.randn(10, 3, 5, 5), torch.zeros(10, 3, 5, 5, dtype=torch.int64)
    *_, factors = kernel.iterate(kernel.Windows.of(value, permutation, 0.0, 3, weight), 3, 0.1, keep=True)
    assert kernel.bytes_of_couplings(weight, 3, 10) == factors.nbytes > 0
    assert kernel.bytes_of_couplings(weight, 1, 10) == 0
    monkeypatch.setattr(kernel, "_KEPT_BYTES", factors.nbytes // 20)
    *_, factors = kernel.iterate(kernel.Windows.of(value, permutation, 0.0, 3, weight), 3, 0.1, keep=True)
    assert len(factors) == 0
    assert kernel.bytes_of_couplings(weight, 3, 1000) == kernel.bytes_of_couplings(weight, 3, 8)
    layer = DigitCapsules(2, 3, 25, 9)
    assert layer.bytes_in_passing(torch.empty(0), 8) == kernel.bytes_of_couplings(weight, 3, 8)


def test_batches_are_counted_before_the_first_of_them(monkeypatch):
    X, y = np.random.default_rng(0).normal(size=(64, 40, 40)), np.arange(64) % 2
    parameters = 16 * sum(parameter.numel() for parameter in MODELS["cnn"]()._build_module(40, 2).parameters())
    monkeypatch.setattr(_device, "available_bytes", lambda device: int(1.05 * parameters))
    MODELS["cnn"](batch_size=1, max_epochs=1, random_state=0).fit(X, y)
    with pytest.raises(InputError, match=r"GB for a batch.* smaller batch_size"):
        MODELS["cnn"](batch_size=64, max_epochs=1, random_state=0).fit(X, y)


def test_the_probe_leaves_the_module_and_its_statistics_alone():
    X, y = np.random.default_rng(0).normal(size=(12, 10, 10)).astype(np.float32), np.arange(12) % 2
    model = MODELS["gin"](max_epochs=1, density=0.3, calibrate=False, device="cpu", random_state=0).fit(X, y)
    before = {name: tensor.clone() for name, tensor in model.module_.state_dict().items()}
    graphs = _device.GraphStore(X, y, model.scaler_, torch.device("cpu"))
    criterion = model._build_criterion(torch.ones(2))
    one, many = (_device.bytes_of_batch(model.module_, criterion, graphs, n) for n in (1, 100))
    assert 0 < one < many < 101 * one
    assert not model.module_.training
    for name, tensor in model.module_.state_dict().items():
        assert torch.equal(tensor, before[name]), name


@pytest.mark.parametrize("method", ["isocapsnet", "capsnet", "cnn", "gcn"])
def test_a_model_that_is_deleted_leaves_no_weights(method):
    X, y = np.random.default_rng(0).normal(size=(12, 10, 10)).astype(np.float32), np.arange(12) % 2
    model = MODELS[method](max_epochs=1, calibrate=False, device="cpu", random_state=0).fit(X, y)
    weights = [weakref.ref(parameter) for parameter in model.module_.parameters()]
    del model
    gc.collect()
    assert not any(weight() is not None for weight in weights)


def test_a_400_node_fit_is_refused_where_there_is_no_room(monkeypatch):
    monkeypatch.setattr(_device, "available_bytes", lambda device: int(6e9))
    with pytest.raises(InputError, match=r"7\.\d GB to train .* 6\.0 GB free; use weight_sharing"):
        MODELS["isocapsnet"](device="cpu").fit(np.zeros((4, 400, 400), dtype=np.float32), [0, 1, 0, 1])


def test_a_module_that_is_in_place_needs_room_for_the_rest_alone(monkeypatch):
    module = torch.nn.Linear(1000, 1000)
    monkeypatch.setattr(_device, "available_bytes", lambda device: 13_000_000)
    check_room("Model", torch.device("cpu"), module, hint="")
    with pytest.raises(InputError, match="Model needs"), torch.device("meta"):
        check_room("Model", torch.device("cpu"), torch.nn.Linear(1000, 1000), hint="")


def test_memory_that_torch_keeps_for_recordings_is_not_free(monkeypatch):
    gpu = torch.device("cuda", 1)
    segments = [
        {"device": 1, "segment_pool_id": (0, 0), "total_size": 100, "allocated_size": 60},
        {"device": 1, "segment_pool_id": (0, 3), "total_size": 700, "allocated_size": 1},
        {"device": 1, "segment_pool_id": (0, 4), "total_size": 5000, "allocated_size": 0},
        {"device": 0, "segment_pool_id": (0, 0), "total_size": 90000, "allocated_size": 0},
    ]
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: segments)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 5800)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 61)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1_000_000, 2_000_000))
    assert available_bytes(gpu) == 1_000_040
    assert cached_bytes(gpu, (0, 3)) == 699


def make_groups(root, files):
    """Files of control groups under ``root``, by their path."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


@pytest.mark.parametrize(
    ("membership", "files", "left"),
    [
        ("0::/a\n", {"a/memory.max": "1000\n", "a/memory.current": "300", "a/memory.stat": "inactive_file 50\n"}, 750),
        ("0::/job\n", {"job/memory.max": "max\n", "job/memory.current": "300", "job/memory.stat": ""}, math.inf),
        # A limit of the group above, and a path that is the host's.
        ("0::/job/step\n", {"job/memory.max": "900", "job/memory.current": "100", "job/memory.stat": ""}, 800),
        ("0::/host/path\n", {"memory.max": "900", "memory.current": "1000", "memory.stat": ""}, 0),
        (
            "4:memory:/job\n1:cpu:/\n0::/\n",
            {
                "memory/job/memory.limit_in_bytes": "1000",
                "memory/job/memory.usage_in_bytes": "600",
                "memory/job/memory.stat": "inactive_file 1\ntotal_inactive_file 100\n",
            },
            500,
        ),
        ("0::/\n", {"memory.max": "a mess", "memory.current": "1", "memory.stat": ""}, math.inf),
        ("0::/\n", {}, math.inf),
    ],
)  # fmt: skip
def test_the_limit_of_a_control_group_counts(tmp_path, membership, files, left):
    (tmp_path / "membership").write_text(membership)
    make_groups(tmp_path / "groups", files)
    assert _device._left_in_cgroup(tmp_path / "membership", tmp_path / "groups") == left
    assert _device._left_in_cgroup(tmp_path / "no such file", tmp_path / "groups") == math.inf


def test_no_more_is_available_than_the_machine_has():
    assert 0 < available_bytes(torch.device("cpu")) <= psutil.virtual_memory().total
