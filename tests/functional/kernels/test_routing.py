"""Fused routing equals routing over stored votes, in values and gradients."""

import math

import pytest
import torch

from isocapsnet.functional import PermutationCapsules, route, routing
from isocapsnet.functional.kernels import (
    _buffers,
    give_back,
    import_kernel,
    on_large_pages,
    pick_routing,
    reusing_buffers,
    taking_gradients,
    zeros_like,
)

CPU = pytest.mark.skipif(import_kernel("cpu_routing") is None, reason="numba is not installed")
CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
DEVICES = [pytest.param("cpu", marks=CPU), pytest.param("cuda", marks=CUDA)]


def draw_problem(seed, dtype, n_graphs, n_classes, n_templates, n, k, size, device="cpu"):
    generator = torch.Generator().manual_seed(seed)
    shape = (n_graphs, n_templates, n, n)
    value = torch.randn(shape, generator=generator, dtype=dtype)
    permutation = torch.randint(math.factorial(k), shape, generator=generator)
    weight = torch.randn(n_classes, n_templates, n * n, k * k, size, generator=generator, dtype=dtype)
    return move((value, permutation, 0.3 * weight), device)


def move(problem, device):
    value, permutation, weight = (x.detach().to(device) for x in problem)
    return value.requires_grad_(), permutation, weight.requires_grad_()


def capsules_and_gradients(value, permutation, weight, k, iterations, padding):
    capsules = route(PermutationCapsules(value, permutation, padding, k), weight, iterations, scale=0.4)
    upstream = torch.linspace(-1, 1, capsules.numel(), dtype=capsules.dtype, device=capsules.device)
    return capsules.detach(), *torch.autograd.grad(capsules, (value, weight), upstream.view_as(capsules))


def over_stored_votes(monkeypatch, problem, *arguments):
    """The same over stored votes, on the CPU."""
    with monkeypatch.context() as patch:
        patch.setattr(routing, "pick_routing", lambda weight: None)
        return capsules_and_gradients(*move(problem, "cpu"), *arguments)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("iterations", [1, 2, 3])
@pytest.mark.parametrize(
    ("dtype", "size", "kernel_sizes"),
    [
        # Each pair of type and k is compiled, which takes seconds. Up to k = 4, rows of W are summed beforehand.
        (torch.float64, 8, [2, 4, 5]),
        (torch.float32, 16, [1, 3, 4, 6]),
        pytest.param(torch.float64, 8, [1, 3, 6], marks=pytest.mark.slow),
        pytest.param(torch.float64, 16, [1, 2, 3, 4, 5, 6], marks=pytest.mark.slow),
        pytest.param(torch.float32, 16, [2, 5], marks=pytest.mark.slow),
    ],
)
def test_fused_routing_equals_routing_over_stored_votes(monkeypatch, device, iterations, dtype, size, kernel_sizes):
    tolerance = {"atol": 1e-11, "rtol": 1e-8} if dtype == torch.float64 else {"atol": 2e-5, "rtol": 1e-4}
    generator = torch.Generator().manual_seed(iterations)
    for seed in range(40):
        b, y, c, n = (int(torch.randint(1, high, (), generator=generator)) for high in (36, 5, 4, 6))
        k = kernel_sizes[seed % len(kernel_sizes)]
        n += 1  # a single window counts as shared weights, which are routed in another way
        padding = [-0.1, 0.0, -1.0, 0.5][seed % 4]
        problem = draw_problem(seed, dtype, b, y, c, n, k, size, device)
        assert pick_routing(problem[2]) is not None
        fused = capsules_and_gradients(*problem, k, iterations, padding)
        eager = over_stored_votes(monkeypatch, problem, k, iterations, padding)
        for mine, theirs in zip(fused, eager, strict=True):
            torch.testing.assert_close(mine.cpu(), theirs, **tolerance)


@CPU
@pytest.mark.parametrize(
    ("dtype", "size", "k"),
    [
        (torch.float64, 8, 9),
        (torch.float32, 16, 12),
        pytest.param(torch.float64, 8, 17, marks=pytest.mark.slow),
        pytest.param(torch.float32, 16, 20, marks=pytest.mark.slow),
    ],
)
def test_permutations_without_a_table_are_routed_like_those_with_one(monkeypatch, dtype, size, k):
    tolerance = {"atol": 1e-11, "rtol": 1e-8} if dtype == torch.float64 else {"atol": 2e-5, "rtol": 1e-4}
    for seed, (b, y, c, n) in enumerate([(1, 2, 1, 2), (7, 2, 2, 5), (9, 3, 1, 4)]):
        problem = draw_problem(seed, dtype, b, y, c, n, k, size)
        assert pick_routing(problem[2]) is not None
        fused = capsules_and_gradients(*problem, k, 3, -0.1)
        for mine, theirs in zip(fused, over_stored_votes(monkeypatch, problem, k, 3, -0.1), strict=True):
            torch.testing.assert_close(mine, theirs, **tolerance)


@CPU
@pytest.mark.parametrize("k", [3, 8, 9, 12, 13, 17])
def test_packed_capsules_are_read_back_as_they_came(k):
    value, permutation, weight = draw_problem(k, torch.float32, 3, 1, 2, 3, k, 16)
    windows = import_kernel("cpu_routing").Windows.of(value, permutation, 0.0, k, weight)
    values, numbers, _ = windows.capsules()
    assert torch.equal(values, value.flatten(1)) and torch.equal(numbers, permutation.flatten(1))


@CPU
def test_gradients_of_routing_without_a_table_are_those_of_the_capsules():
    value, permutation, weight = draw_problem(0, torch.float64, 2, 2, 1, 2, 9, 8)
    assert torch.autograd.gradcheck(
        lambda v, w: route(PermutationCapsules(v, permutation, -0.1, 9), w, 3, scale=0.5),
        (value, weight),
        fast_mode=True,
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("iterations", [1, 3])
def test_gradients_are_those_of_the_capsules(device, iterations):
    value, permutation, weight = draw_problem(0, torch.float64, 3, 2, 1, 2, 2, 8, device)
    assert torch.autograd.gradcheck(
        lambda v, w: route(PermutationCapsules(v, permutation, -0.1, 2), w, iterations, scale=0.5), (value, weight)
    )


@pytest.mark.parametrize("device", DEVICES)
def test_routing_takes_non_contiguous_capsules_and_weights(device):
    value, permutation, weight = draw_problem(1, torch.float64, 4, 2, 2, 3, 4, 8, device)
    expected = capsules_and_gradients(value, permutation, weight, 4, 2, -0.1)
    strided = [
        value.detach().transpose(2, 3).contiguous().transpose(2, 3).requires_grad_(),
        permutation.transpose(2, 3).contiguous().transpose(2, 3),
        weight.detach().transpose(0, 2).contiguous().transpose(0, 2).requires_grad_(),
    ]
    assert not any(x.is_contiguous() for x in strided)
    for mine, theirs in zip(capsules_and_gradients(*strided, 4, 2, -0.1), expected, strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("device", DEVICES)
def test_results_do_not_depend_on_addresses(device):
    value, permutation, weight = draw_problem(7, torch.float32, 4, 2, 1, 3, 3, 16, device)
    storage = torch.cat([weight.new_zeros(1), weight.detach().flatten()])
    shifted = storage[1:].view(weight.shape).requires_grad_()
    assert shifted.is_contiguous() and weight.data_ptr() % 16 == 0 != shifted.data_ptr() % 16
    # Back and forth: what was compiled for one address must not be taken for the other.
    expected, *others = (capsules_and_gradients(value, permutation, w, 3, 3, -0.1) for w in (weight, shifted, weight))
    for other in others:
        for mine, theirs in zip(other, expected, strict=True):
            torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("device", DEVICES)
def test_large_logits_do_not_overflow(monkeypatch, device):
    value, permutation, weight = draw_problem(2, torch.float64, 5, 3, 1, 3, 4, 8, device)
    problem = value, permutation, (weight.detach() * 1e3).requires_grad_()
    fused = capsules_and_gradients(*problem, 4, 2, -0.1)
    for mine, theirs in zip(fused, over_stored_votes(monkeypatch, problem, 4, 2, -0.1), strict=True):
        torch.testing.assert_close(mine.cpu(), theirs)


@pytest.mark.parametrize("device", DEVICES)
def test_capsules_of_length_zero_have_gradient_zero(device):
    value, permutation, weight = draw_problem(6, torch.float32, 3, 2, 1, 3, 3, 16, device)
    problem = value, permutation, torch.zeros_like(weight).requires_grad_()
    assert all((found == 0).all() for found in capsules_and_gradients(*problem, 3, 3, -0.1))


@pytest.mark.parametrize("device", DEVICES)
def test_no_graphs_have_no_capsules_and_no_gradient(device):
    capsules, grad_value, grad_weight = capsules_and_gradients(
        *draw_problem(8, torch.float32, 0, 2, 1, 3, 3, 16, device), 3, 3, -0.1
    )
    assert capsules.shape == (0, 2, 16) and grad_value.shape == (0, 1, 3, 3)
    assert (grad_weight == 0).all()


@pytest.mark.parametrize("device", DEVICES)
def test_nan_stays_with_its_graph(device):
    value, permutation, weight = draw_problem(2, torch.float32, 3, 2, 1, 3, 3, 16, device)
    value = value.detach().clone()
    value[0] = torch.nan
    capsules = route(PermutationCapsules(value, permutation, -0.1, 3), weight, 3, scale=1.0)
    assert capsules[0].isnan().all() and capsules[1:].isfinite().all()


# A capsule must fill whole vectors on the CPU, and those of all classes must stay in registers on a GPU.
@pytest.mark.parametrize(("device", "size"), [pytest.param("cpu", 5, marks=CPU), pytest.param("cuda", 200, marks=CUDA)])
def test_capsules_that_do_not_fit_are_routed_over_stored_votes(device, size):
    value, permutation, weight = draw_problem(3, torch.float32, 2, 2, 1, 3, 3, size, device)
    assert pick_routing(weight) is None
    assert capsules_and_gradients(value, permutation, weight, 3, 3, -0.1)[0].shape == (2, 2, size)


@CUDA
def test_capsules_of_any_size_are_routed_on_a_gpu(monkeypatch):
    for size, n_classes in [(1, 1), (5, 3), (7, 2), (33, 2), (16, 11)]:
        problem = draw_problem(size, torch.float64, 19, n_classes, 2, 3, 3, size, "cuda")
        assert pick_routing(problem[2]) is not None
        fused = capsules_and_gradients(*problem, 3, 3, -0.1)
        for mine, theirs in zip(fused, over_stored_votes(monkeypatch, problem, 3, 3, -0.1), strict=True):
            torch.testing.assert_close(mine.cpu(), theirs)


@CUDA
def test_a_gpu_gives_the_same_bits_on_every_run():
    problem = draw_problem(5, torch.float32, 70, 2, 2, 30, 4, 16, "cuda")
    first, *others = (capsules_and_gradients(*problem, 4, 3, -0.1) for _ in range(3))
    for other in others:
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(other, first, strict=True))


@CPU
def test_results_do_not_depend_on_the_number_of_threads():
    before = torch.get_num_threads()
    problem = draw_problem(4, torch.float32, 20, 2, 1, 9, 4, 16)
    try:
        results = []
        for n_threads in (1, 2, 3):
            torch.set_num_threads(n_threads)
            results.append(capsules_and_gradients(*problem, 4, 3, -0.1))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(other, results[0], strict=True))


@CPU
@pytest.mark.parametrize("k", [4, 5])
def test_couplings_that_are_too_large_are_computed_again_for_some_graphs_at_a_time(monkeypatch, k):
    kernel = import_kernel("cpu_routing")
    problem = draw_problem(9, torch.float64, 19, 2, 1, 5, k, 8)
    kept = capsules_and_gradients(*problem, k, 3, -0.1)
    monkeypatch.setattr(kernel, "_KEPT_BYTES", 0)
    computed = capsules_and_gradients(*problem, k, 3, -0.1)
    for mine, theirs in zip(computed, kept, strict=True):
        torch.testing.assert_close(mine, theirs)


@CPU
def test_memory_that_is_used_again_changes_no_result(monkeypatch):
    monkeypatch.setattr(_buffers, "_NEVER_KEPT", 0)
    problems = [draw_problem(seed, torch.float64, n_graphs, 2, 1, 5, 4, 8) for seed, n_graphs in enumerate((9, 5, 9))]
    expected = [capsules_and_gradients(*problem, 4, 3, -0.1) for problem in problems]
    with reusing_buffers():
        addresses = set()
        for problem, result in zip(problems, expected, strict=True):
            found = capsules_and_gradients(*problem, 4, 3, -0.1)
            assert all(torch.equal(mine, theirs) for mine, theirs in zip(found, result, strict=True))
            addresses.add(found[2].data_ptr())
            give_back(found[2])
        assert len(addresses) == 1


def take_gradient(k, iterations):
    """The gradient that reaches ``.grad``, the parts that are taken, put together, and the gradient of the values."""
    value, permutation, weight = draw_problem(0, torch.float64, 9, 3, 2, 5, k, 8)
    taken = torch.zeros_like(weight)

    def take_part(part, gradient):
        part(taken).add_(gradient)
        part(weight.data).zero_()  # nothing may need these weights any more

    with taking_gradients({weight: take_part}):
        capsules = PermutationCapsules(value, permutation, -0.1, k)
        route(capsules, weight, iterations, 0.4).square().sum().backward()
    return weight.grad, taken, value.grad


@CPU
@pytest.mark.parametrize("n_bytes", [1, 100_000, 2**30])
@pytest.mark.parametrize(("k", "iterations"), [(4, 3), (4, 1), (5, 3), (9, 2)])
def test_gradients_that_are_taken_in_parts_are_those_that_are_not(monkeypatch, k, iterations, n_bytes):
    kernel = import_kernel("cpu_routing")
    monkeypatch.setattr(kernel, "_TAKEN_BYTES", n_bytes)
    nothing, taken, of_values = take_gradient(k, iterations)
    assert nothing is None
    monkeypatch.setattr(kernel, "taker_of", lambda weight: None)
    whole, nothing, expected = take_gradient(k, iterations)
    assert not nothing.any()
    assert torch.equal(taken, whole) and torch.equal(of_values, expected)


@CPU
@pytest.mark.parametrize("iterations", [1, 3])
def test_gradients_of_weights_that_are_used_twice_are_not_taken(iterations):
    value, permutation, weight = draw_problem(1, torch.float64, 4, 2, 1, 3, 4, 8)
    capsules = PermutationCapsules(value, permutation, -0.1, 4)
    taken = []

    def note(part, gradient):
        taken.append(part)

    with taking_gradients({weight: note}):
        sum(route(capsules, weight, iterations, scale).square().sum() for scale in (0.4, 0.2)).backward()
        assert weight.grad.abs().sum() > 0
    with taking_gradients({weight: note}):  # a part of the weights, and other weights
        route(capsules, 2 * weight, iterations, 0.4).square().sum().backward()
        part = weight[:1]
        assert part.data_ptr() == weight.data_ptr()
        route(capsules, part, iterations, 0.4).square().sum().backward()
    with taking_gradients({weight: note}):  # by a kernel, and in plain torch
        plain = routing._route_plainly(capsules, weight, iterations, 0.4, "windows")
        routed = route(capsules, weight, iterations, 0.4, over="windows")
        assert torch.equal(plain, routed)
        (routed + route(capsules, weight, iterations, 0.4)).square().sum().backward()
    with taking_gradients({weight: note}):  # whose gradient is not asked for
        route(capsules, weight.detach(), iterations, 0.4).square().sum().backward()
    assert taken == []
    weight.grad = None
    with taking_gradients({weight: lambda part, gradient: taken.append(gradient)}):  # asked for in one of two uses
        fixed = PermutationCapsules(value.detach(), permutation, -0.1, 4)
        (route(fixed, weight, iterations, 0.4) + route(capsules, weight.detach(), iterations, 0.2)).sum().backward()
    assert weight.grad is None and sum(map(torch.numel, taken)) == weight.numel()


@CPU
def test_two_layers_in_one_network_do_not_share_memory(monkeypatch):
    monkeypatch.setattr(_buffers, "_NEVER_KEPT", 0)
    value, permutation, weight = draw_problem(0, torch.float64, 4, 2, 1, 3, 4, 8)

    def route_twice():
        capsules = PermutationCapsules(value, permutation, -0.1, 4)
        total = sum(route(capsules, factor * weight, 3, scale=0.4).square().sum() for factor in (1, 2))
        return torch.autograd.grad(total, (value, weight))

    expected = route_twice()
    with reusing_buffers():
        found = route_twice()
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(found, expected, strict=True))


def test_memory_is_used_again_only_if_it_was_taken_and_given_back_inside():
    like = torch.empty(0)
    size = _buffers._NEVER_KEPT // like.element_size() + 1000
    with reusing_buffers():
        first, other = _buffers.take(like, size), torch.empty(size)
        give_back(other)
        second = _buffers.take(like, 2, size // 2)
        assert len({first.data_ptr(), second.data_ptr(), other.data_ptr()}) == 3
        assert second.fill_(1.0).sum(dtype=torch.float64) == second.numel()
        give_back(first)
        assert _buffers.take(like, size).data_ptr() == first.data_ptr()
    give_back(second)
    with reusing_buffers():
        assert _buffers.take(like, size).data_ptr() not in (first.data_ptr(), second.data_ptr())


def test_tensors_on_large_pages_have_the_values_and_the_order_of_the_others():
    for shape in [(1500, 1000), (3, 5)]:
        tensor = torch.randn(shape).T
        moved, zeros = on_large_pages(tensor), zeros_like(tensor)
        assert (moved is tensor) == (tensor.nbytes < _buffers._LARGE)
        assert torch.equal(moved, tensor)
        assert moved.stride() == zeros.stride() == tensor.stride()
        assert not zeros.any()


@pytest.mark.filterwarnings("error")
def test_training_works_after_a_prediction_of_the_same_size():
    kernel = pytest.importorskip("isocapsnet.functional.kernels.cpu_routing")
    kernel._rows_of_all.cache_clear()
    problem = draw_problem(0, torch.float32, 2, 2, 1, 5, 3, 16)
    with torch.inference_mode():
        value, permutation, weight = problem
        route(PermutationCapsules(value, permutation, -0.1, 3), weight, 2, scale=0.4)
    capsules_and_gradients(*problem, 3, 2, -0.1)
