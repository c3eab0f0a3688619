"""A compiler that no longer fits our kernels costs speed, not the fit: plain torch takes over, with one warning."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

from isocapsnet import InputError, IsoCapsNetClassifier
from isocapsnet.functional import PermutationCapsules, isomorphic_match, kernels, route

MATCH, ROUTING = kernels.import_kernel("cpu"), kernels.import_kernel("cpu_routing")
pytestmark = pytest.mark.skipif(MATCH is None or ROUTING is None, reason="numba is not installed")

GRAPHS = np.random.default_rng(0).normal(size=(12, 9, 9))
LABELS = np.arange(12) % 2


@pytest.fixture(autouse=True)
def forget_failures(monkeypatch):
    """Each test begins with kernels that work, and leaves none behind that do not."""
    monkeypatch.setattr(kernels, "_failed", set())
    kernels.import_kernel.cache_clear()
    yield
    kernels.import_kernel.cache_clear()


def match_and_gradients():
    generator = torch.Generator().manual_seed(0)
    graphs = torch.randn(3, 9, 9, generator=generator).requires_grad_()
    templates = torch.randn(2, 4, 4, generator=generator).requires_grad_()
    match = isomorphic_match(graphs, templates)
    return match.permutation, match.distance.detach(), *torch.autograd.grad(match.distance.sum(), (graphs, templates))


def capsules_and_gradients():
    generator = torch.Generator().manual_seed(0)
    value = torch.randn(3, 2, 4, 4, generator=generator).requires_grad_()
    permutation = torch.randint(24, (3, 2, 4, 4), generator=generator)
    weight = torch.randn(2, 2, 16, 16, 16, generator=generator).requires_grad_()
    routed = route(PermutationCapsules(value, permutation, -0.1, 4), weight, 3, scale=0.2)
    return routed.detach(), *torch.autograd.grad(routed.square().sum(), (value, weight))


def fail(*arguments, **settings):
    raise AttributeError("module 'numba.core' has no attribute 'what_we_use'")


def with_one_warning(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = function()
    assert ["fused kernels" in str(warning.message) for warning in caught] == [True]
    return results


@pytest.mark.parametrize(
    ("module", "function", "compute"),
    [
        (MATCH, "search", match_and_gradients),
        (MATCH, "search_tiles", match_and_gradients),
        (MATCH, "backward", match_and_gradients),
        (ROUTING, "iterate", capsules_and_gradients),
        (ROUTING, "pack_tiles", capsules_and_gradients),
        (ROUTING, "sum_chunks", capsules_and_gradients),
        (ROUTING, "backward", capsules_and_gradients),
        (ROUTING, "scatter_tiles", capsules_and_gradients),
    ],
)
def test_a_kernel_that_fails_when_called_is_replaced_and_not_tried_again(monkeypatch, module, function, compute):
    expected = compute()
    calls = []
    monkeypatch.setattr(module, function, lambda *arguments, **settings: calls.append(1) or fail())
    found = with_one_warning(compute)
    assert len(calls) == 1
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compute()
    assert len(calls) == 1


@pytest.mark.parametrize(
    "error",
    [
        AttributeError("module 'numba.extending' has no attribute 'models'"),
        ImportError("cannot import name 'cgutils' from 'numba.core'"),
        ModuleNotFoundError("No module named 'numba.core.cgutils'", name="numba.core.cgutils"),
        TypeError("register_model() takes 2 arguments"),
        OSError("libLLVM.so: cannot open shared object file"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_kernel_that_cannot_be_imported_is_replaced_in_a_whole_fit(monkeypatch, error):
    settings = {"max_epochs": 2, "n_templates": 2, "random_state": 0, "device": "cpu"}
    expected = IsoCapsNetClassifier(**settings).fit(GRAPHS, LABELS).predict_proba(GRAPHS)

    def fail_to_import(name):
        raise error

    kernels.import_kernel.cache_clear()
    monkeypatch.setattr(kernels, "import_module", fail_to_import)

    def fit():
        assert kernels.pick_kernel(torch.zeros(1, 5, 5), torch.zeros(1, 3, 3)) is kernels.eager
        return IsoCapsNetClassifier(**settings).fit(GRAPHS, LABELS).predict_proba(GRAPHS)

    np.testing.assert_allclose(with_one_warning(fit), expected, atol=1e-4)


def test_a_fit_survives_kernels_that_fail_in_the_middle(monkeypatch):
    settings = {"max_epochs": 3, "n_templates": 2, "random_state": 0, "device": "cpu"}
    expected = IsoCapsNetClassifier(**settings).fit(GRAPHS, LABELS).predict_proba(GRAPHS)
    calls, backward = [], MATCH.backward

    def fail_at_the_second_call(*arguments):
        calls.append(1)
        return backward(*arguments) if len(calls) < 2 else fail()

    monkeypatch.setattr(MATCH, "backward", fail_at_the_second_call)
    found = with_one_warning(lambda: IsoCapsNetClassifier(**settings).fit(GRAPHS, LABELS).predict_proba(GRAPHS))
    assert len(calls) == 2
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize(
    "error",
    [
        InputError("bad input"),
        KeyboardInterrupt(),
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("Triton Error [CUDA]: out of memory"),
    ],
    ids=["input", "interrupt", "memory", "GPU memory", "Triton memory"],
)
@pytest.mark.parametrize(
    ("module", "function", "compute"),
    [(MATCH, "search", match_and_gradients), (ROUTING, "iterate", capsules_and_gradients)],
    ids=["match", "routing"],
)
def test_errors_that_are_not_the_kernels_own_are_raised(monkeypatch, module, function, compute, error):
    def refuse(*arguments):
        raise error

    monkeypatch.setattr(module, function, refuse)
    with pytest.raises(type(error)):
        compute()
    assert not kernels._failed


def test_a_damaged_cache_of_compiled_code_costs_speed_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    script = """
import warnings, torch
from isocapsnet.functional import isomorphic_match
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    match = isomorphic_match(torch.arange(49.0).reshape(1, 7, 7).sin(), torch.arange(4.0).reshape(1, 2, 2).cos())
print(match.permutation.sum().item(), len(caught))
"""

    def run():
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        return [int(word) for word in done.stdout.split()]

    total, n_warnings = run()
    assert n_warnings == 0
    for kept in [*tmp_path.rglob("*.nbi"), *tmp_path.rglob("*.nbc")]:
        kept.write_bytes(b"damaged")
    assert run() == [total, 1]
