"""Fused kernels of the compared methods against the same operations in plain torch, values and gradients."""

import numpy as np
import pytest
import torch

from isocapsnet.functional import (
    capsule,
    convolution,
    dense_routing,
    edge_sums,
    kernels,
    linear,
    permutation_matrices,
    permutation_number,
    pooling,
    relaxed,
    routing,
    spectral_match,
    squashing,
    upsampling,
)

pytestmark = pytest.mark.skipif(kernels.import_kernel("cpu_relaxed") is None, reason="numba is not installed")

DTYPES = [torch.float32, torch.float64]


def draw(*shape, dtype=torch.float64, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape)).to(dtype).requires_grad_()


def assert_equal(function, reference, inputs, dtype, name, without=()):
    """Values and gradients of the inputs but ``without`` are equal, and a kernel named ``name`` made the first."""
    results = []
    for compute in (function, reference):
        outputs = compute(*inputs)
        outputs = (outputs,) if isinstance(outputs, torch.Tensor) else outputs
        weights = [draw(*output.shape, dtype=dtype, seed=9).detach() for output in outputs]
        total = sum((output * weight).sum() for output, weight in zip(outputs, weights, strict=True))
        wanted = [tensor for i, tensor in enumerate(inputs) if i not in without]
        results.append((outputs, torch.autograd.grad(total, wanted)))
    (outputs, gradients), (expected, expected_gradients) = results
    assert all(name in trace(output.grad_fn) for output in outputs)
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    for one, other in zip([*outputs, *gradients], [*expected, *expected_gradients], strict=True):
        assert torch.allclose(one, other, rtol=0, atol=tolerance * float(other.detach().abs().max()))


def trace(node, depth=6):
    """The names of the functions that a result was made by."""
    if node is None or depth == 0:
        return set()
    return {node.name()}.union(*(trace(before, depth - 1) for before, _ in node.next_functions))


# Every type, size and number of rows is compiled for itself, which takes seconds.
@pytest.mark.parametrize(
    ("kernel_size", "stride", "dtype"),
    [
        (3, 1, torch.float32),
        (4, 2, torch.float32),
        (1, 1, torch.float32),
        (3, 2, torch.float64),
        pytest.param(4, 2, torch.float64, marks=pytest.mark.slow),
        pytest.param(1, 1, torch.float64, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("is_symmetric", [True, False])
def test_relaxed_distances_equal_those_of_the_spectral_match(dtype, kernel_size, stride, is_symmetric):
    graphs, templates = draw(3, 21, 21, dtype=dtype).detach(), draw(2, kernel_size, kernel_size, dtype=dtype, seed=1)
    graphs = graphs + graphs.transpose(1, 2) if is_symmetric else graphs

    def expected(graphs, templates):
        return spectral_match(graphs, templates, stride, projection="none").distance

    def fused(graphs, templates):
        return relaxed.relaxed_distances(graphs, templates, stride)

    assert_equal(fused, expected, (graphs, templates), dtype, "_RelaxedDistanceBackward", without=[0])


def test_relaxed_distances_have_gradients_for_graphs():
    graphs, templates = draw(2, 9, 9), draw(2, 3, 3, seed=1)
    expected = spectral_match(graphs, templates, projection="none").distance
    (gradient,) = torch.autograd.grad(relaxed.relaxed_distances(graphs, templates).sum(), graphs)
    assert torch.equal(gradient, torch.autograd.grad(expected.sum(), graphs)[0])


@pytest.mark.parametrize("over", ["classes", "classes without leak"])
@pytest.mark.parametrize(
    ("n_graphs", "n_classes", "size", "dtype"),
    [
        (16, 2, 16, torch.float32),
        (5, 3, 16, torch.float32),
        (19, 2, 32, torch.float32),
        (16, 2, 16, torch.float64),
        (5, 3, 16, torch.float64),
        pytest.param(19, 2, 32, torch.float64, marks=pytest.mark.slow),
    ],
)
def test_routing_of_dense_capsules_equals_that_in_plain_torch(dtype, over, n_graphs, n_classes, size):
    capsules = draw(n_graphs, 2, 7, 7, 8, dtype=dtype)
    weight = draw(n_classes, 2, 49, 8, size, dtype=dtype, seed=1)
    settings = {"iterations": 3, "scale": 0.1, "over": over}

    def plain(capsules, weight):
        return routing._route_plainly(capsules, weight, **settings)

    def fused(capsules, weight):
        return routing.route(capsules, weight, **settings)

    assert_equal(fused, plain, (capsules, weight), dtype, "DenseRoutingBackward")


def projected(table, n_graphs=2, n=3, seed=0):
    """Capsules of one template whose permutations are drawn at random."""
    k = int(len(table) ** 0.5)
    orders = torch.from_numpy(np.random.default_rng(seed).random((n_graphs, 1, n, n, k))).argsort(dim=-1)
    value = draw(n_graphs, 1, n, n, dtype=table.dtype, seed=seed)
    return capsule.ProjectedCapsules(value, permutation_number(orders), table)


@pytest.mark.parametrize("part", [1, 3000, 2**21])
@pytest.mark.parametrize("over", ["classes", "classes without leak"])
@pytest.mark.parametrize(
    ("n_graphs", "k", "primary_size", "dtype"),
    [(19, 12, 16, torch.float32), (5, 3, 5, torch.float64), (9, 20, 3, torch.float64)],
)
def test_routing_of_projected_capsules_equals_that_in_plain_torch(
    n_graphs, k, primary_size, dtype, over, part, monkeypatch
):
    monkeypatch.setattr(dense_routing, "_PART_BYTES", part)
    table = draw(k * k, primary_size, dtype=dtype, seed=2)
    _, permutation, _ = projected(table, n_graphs, n=7)
    value, weight = draw(n_graphs, 1, 7, 7, dtype=dtype), draw(2, 1, 49, primary_size, 16, dtype=dtype, seed=1)
    settings = {"iterations": 3, "scale": 0.1, "over": over}

    def plain(value, table, weight):
        capsules = capsule.ProjectedCapsules(value, permutation, table).expand()
        return routing._route_plainly(capsules, weight, **settings)

    def fused(value, table, weight):
        return routing.route(capsule.ProjectedCapsules(value, permutation, table), weight, **settings)

    assert_equal(fused, plain, (value, table, weight), dtype, "ProjectedRoutingBackward")


def test_projected_capsules_are_images_of_permutation_matrices():
    table, k = draw(25, 4).detach(), 5
    capsules = projected(table)
    images = permutation_matrices(capsules.permutation, k).flatten(-2).to(table.dtype) @ table
    expected = images / images.norm(dim=-1, keepdim=True) * capsules.value[..., None]
    assert torch.allclose(capsules.expand(), expected)


def test_a_map_that_is_not_learned_leaves_the_other_gradients_as_they_are():
    learned, weight = projected(draw(16, 4), 5), draw(2, 1, 9, 4, 16)
    fixed = learned._replace(table=learned.table.detach())
    of_learned, of_fixed = (
        torch.autograd.grad(routing.route(capsules, weight, 3, 0.1).square().sum(), (learned.value, weight))
        for capsules in (learned, fixed)
    )
    assert all(map(torch.equal, of_learned, of_fixed))


def test_no_graphs_are_routed_to_no_capsules():
    capsules, weight = projected(draw(9, 4), n_graphs=0), draw(2, 1, 9, 4, 16)
    routed = routing.route(capsules, weight, 3, 0.1)
    assert routed.shape == (0, 2, 16) and "ProjectedRoutingBackward" in trace(routed.grad_fn)
    assert not torch.autograd.grad(routed.sum(), weight)[0].any()


def test_an_image_of_length_zero_has_no_entries_and_no_gradient():
    table = torch.zeros(9, 4, dtype=torch.float64, requires_grad=True)
    capsules, weight = projected(table), draw(2, 1, 9, 4, 16)
    routed = routing.route(capsules, weight, 3, 0.1)
    assert "ProjectedRoutingBackward" in trace(routed.grad_fn) and not routed.any()
    for gradient in torch.autograd.grad(routed.sum(), (capsules.value, table, weight)):
        assert not gradient.any()


def test_the_gradient_of_weights_of_projected_capsules_that_is_taken_in_parts_is_the_same(monkeypatch):
    monkeypatch.setattr(dense_routing, "_PART_BYTES", 5000)
    table, weight = draw(16, 4, dtype=torch.float32), draw(2, 1, 49, 4, 16, dtype=torch.float32)
    capsules = projected(table, 5, n=7)
    routed = routing.route(capsules, weight, 3, 0.1).square().sum()
    whole = torch.autograd.grad(routed, (capsules.value, table, weight))
    taken, n_parts = torch.full_like(weight, torch.nan), []

    def take_part(part, gradient):
        part(taken.detach()).copy_(gradient)
        n_parts.append(len(gradient))

    with kernels.taking_gradients({weight: take_part}):
        routed = routing.route(capsules, weight, 3, 0.1).square().sum()
        *others, nothing = torch.autograd.grad(routed, (capsules.value, table, weight), allow_unused=True)
    assert nothing is None and len(n_parts) > 2
    assert all(map(torch.equal, [*others, taken], whole))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("k", [1, 2, 9, 12, 20])
def test_compiled_rotations_diagonalise(k, dtype):
    kernel = kernels.import_kernel("cpu_eigenvectors")
    special = torch.stack([torch.zeros(k, k), torch.ones(k, k), torch.eye(k)]).to(dtype)
    random = draw(37, k, k, dtype=dtype).detach()
    matrices = torch.cat([random, 1e30 * random[:3], 1e-30 * random[:3], (random[:5] > 1).to(dtype), special])
    vectors = kernel.eigenvectors(matrices).double()
    symmetric = ((matrices + matrices.mT) / 2).double()
    size = symmetric.abs().amax(dim=(1, 2), keepdim=True).clamp_min(1e-300)
    tolerance = 2e-5 if dtype == torch.float32 else 1e-13
    unit = torch.eye(k, dtype=torch.float64)
    assert torch.allclose(vectors.mT @ vectors, unit.expand_as(vectors), rtol=0, atol=tolerance)
    diagonal = vectors.mT @ (symmetric / size) @ vectors
    assert torch.allclose(diagonal, diagonal * unit, rtol=0, atol=tolerance)
    assert (diagonal.diagonal(dim1=1, dim2=2).diff() >= -tolerance).all()  # ascending


def test_the_eigenvectors_of_a_matrix_do_not_depend_on_the_others():
    kernel, matrices = kernels.import_kernel("cpu_eigenvectors"), draw(40, 12, 12, dtype=torch.float32).detach()
    matrices[1:5] = 0  # neighbours that need no rotation
    together = kernel.eigenvectors(matrices)
    assert all(torch.equal(kernel.eigenvectors(matrices[i]), together[i]) for i in range(40))


@pytest.mark.parametrize(("n_graphs", "n_in", "n_out"), [(1, 64, 4), (4, 128, 33), (19, 64, 130)])
def test_a_wide_linear_layer_equals_that_of_torch(n_graphs, n_in, n_out, monkeypatch):
    monkeypatch.setattr(kernels.import_kernel("cpu_linear"), "_LEAST_WEIGHTS", 1)
    shapes = [(n_graphs, n_in), (n_out, n_in), (n_out,)]
    inputs = [draw(*shape, dtype=torch.float32, seed=seed) for seed, shape in enumerate(shapes)]
    assert_equal(linear.wide_linear, torch.nn.functional.linear, inputs, torch.float32, "_WideLinearBackward")


@pytest.mark.parametrize(("n_in", "dtype"), [(63, torch.float32), (64, torch.float64)])
def test_other_linear_layers_are_left_to_torch(n_in, dtype, monkeypatch):
    monkeypatch.setattr(kernels.import_kernel("cpu_linear"), "_LEAST_WEIGHTS", 1)
    inputs = draw(3, n_in, dtype=dtype), draw(5, n_in, dtype=dtype, seed=1), draw(5, dtype=dtype, seed=2)
    assert torch.equal(linear.wide_linear(*inputs), torch.nn.functional.linear(*inputs))


@pytest.mark.parametrize("n_out", [4, 67, 1030])
@pytest.mark.parametrize("n_bytes", [1, 64 * 512, 2**30])
def test_the_gradient_of_a_wide_layer_that_is_taken_in_parts_is_the_same(n_bytes, n_out, monkeypatch):
    kernel = kernels.import_kernel("cpu_linear")
    monkeypatch.setattr(kernel, "_LEAST_WEIGHTS", 1)
    monkeypatch.setattr(kernel, "_TAKEN_BYTES", n_bytes)
    inputs, weight, bias = (
        draw(*shape, dtype=torch.float32).requires_grad_() for shape in [(7, 128), (n_out, 128), (n_out,)]
    )
    whole = torch.autograd.grad(linear.wide_linear(inputs, weight, bias).square().sum(), (inputs, weight))
    taken = torch.full_like(weight, torch.nan)

    def take_part(part, gradient):
        part(taken).copy_(gradient)
        part(weight.data).zero_()  # nothing may need these weights any more

    with kernels.taking_gradients({weight: take_part}):
        linear.wide_linear(inputs, weight, bias).square().sum().backward()
    assert weight.grad is None
    assert torch.equal(taken, whole[1]) and torch.equal(inputs.grad, whole[0])


def test_the_gradient_of_a_wide_layer_with_transposed_weights_is_not_taken(monkeypatch):
    monkeypatch.setattr(kernels.import_kernel("cpu_linear"), "_LEAST_WEIGHTS", 1)
    inputs, weight, bias = (draw(*s, dtype=torch.float32).requires_grad_() for s in [(7, 128), (128, 128), (128,)])
    taken = []
    with kernels.taking_gradients({weight: lambda part, gradient: taken.append(gradient)}):
        linear.wide_linear(inputs, weight.T, bias).square().sum().backward()
    (expected,) = torch.autograd.grad((inputs @ weight + bias).square().sum(), weight)
    assert taken == []
    torch.testing.assert_close(weight.grad, expected, rtol=1e-4, atol=1e-3)


def test_wide_products_do_not_depend_on_the_number_of_threads(monkeypatch):
    kernel = kernels.import_kernel("cpu_linear")
    inputs, weight, bias, grad = (
        draw(*shape, dtype=torch.float32).detach() for shape in [(9, 64), (70, 64), (70,), (9, 70)]
    )

    def run():
        return kernel.apply(inputs, weight, bias), kernel.grad_inputs(grad, weight), kernel.grad_weight(grad, inputs)

    expected = run()

    def one_by_one(task, n):
        for i in reversed(range(n)):
            task(i, i + 1)

    monkeypatch.setattr(kernel, "parallel_ranges", one_by_one)
    assert all(torch.equal(one, other) for one, other in zip(run(), expected, strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n_in", "n_out", "n_nodes"), [(1, 6, 20), (6, 16, 11), (3, 2, 1), (2, 5, 37)])
def test_a_pooled_convolution_equals_pooling_after_relu(dtype, n_in, n_out, n_nodes):
    inputs = (
        draw(3, n_in, n_nodes, n_nodes, dtype=dtype),
        draw(n_out, n_in, 5, 5, dtype=dtype),
        draw(n_out, dtype=dtype),
    )

    def plain(graphs, weight, bias):
        return torch.max_pool2d(torch.conv2d(graphs, weight, bias, padding=2).relu(), 2, ceil_mode=True)

    assert_equal(pooling.pooled_convolution, plain, inputs, dtype, "_PooledConvolutionBackward")


def test_of_equal_outputs_the_same_one_has_the_gradient_as_in_torch():
    """Binary graphs have many equal patches, and maps of small whole numbers many equal outputs."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randint(2, (3, 2, 12, 12), generator=generator).double().requires_grad_()
    weight = torch.randint(-1, 2, (4, 2, 5, 5), generator=generator).double().requires_grad_()

    def plain(graphs, weight, bias):
        return torch.max_pool2d(torch.conv2d(graphs, weight, bias, padding=2).relu(), 2)

    bias = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    assert_equal(pooling.pooled_convolution, plain, (inputs, weight, bias), torch.float64, "_PooledConvolutionBackward")


def test_a_pooled_nan_stays_nan():
    for place in range(4):
        maps = torch.ones(1, 1, 2, 2)
        maps.view(-1)[place] = torch.nan
        assert pooling.pooled_convolution(maps, torch.ones(1, 1, 1, 1), torch.zeros(1)).isnan().all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n_in", "n_out", "n_nodes"), [(16, 6, 5), (6, 1, 17), (1, 2, 1)])
def test_a_doubling_convolution_equals_the_transposed_convolution(dtype, n_in, n_out, n_nodes):
    inputs = (
        draw(3, n_in, n_nodes, n_nodes, dtype=dtype),
        draw(n_in, n_out, 4, 4, dtype=dtype, seed=1),
        draw(n_out, dtype=dtype, seed=2),
    )

    def plain(maps, weight, bias):
        return torch.conv_transpose2d(maps, weight, bias, stride=2, padding=1)

    assert_equal(upsampling.doubling_convolution, plain, inputs, dtype, "_DoublingConvolutionBackward")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n_in", "n_out", "n_nodes"), [(4, 32, 20), (3, 5, 7), (1, 1, 1)])
def test_sums_over_leaky_edges_equal_those_over_all_edges(dtype, n_in, n_out, n_nodes):
    numbers = draw(3, n_in, n_nodes, dtype=dtype), draw(3, n_in, n_nodes, dtype=dtype, seed=1)
    filters = draw(n_out, n_in, n_nodes, dtype=dtype, seed=2), draw(n_out, n_in, n_nodes, dtype=dtype, seed=3)

    def fused(*inputs):
        return edge_sums.leaky_edge_sums(*inputs, 0.33)

    def plain(*inputs):
        return edge_sums._sum_plainly(*inputs, 0.33)

    assert_equal(fused, plain, (*numbers, *filters), dtype, "_RectifiedSumsBackward")


def test_edges_at_the_corner_of_the_rectifier_count_as_in_torch():
    """Numbers of which many pairs sum to exactly 0, where max(0, x) has a corner; the gradient there is 0."""
    generator = torch.Generator().manual_seed(0)
    numbers = [torch.randint(-2, 3, (2, 3, 8), generator=generator).double().requires_grad_() for _ in range(2)]
    filters = draw(4, 3, 8, seed=2), draw(4, 3, 8, seed=3)

    def fused(*inputs):
        return edge_sums.leaky_edge_sums(*inputs, 0.33)

    def plain(*inputs):
        return edge_sums._sum_plainly(*inputs, 0.33)

    assert_equal(fused, plain, (*numbers, *filters), torch.float64, "_RectifiedSumsBackward")


@pytest.mark.parametrize(
    ("dtype", "n_out", "k", "stride", "n_nodes"),
    [(torch.float32, 16, 5, 2, 37), (torch.float64, 16, 3, 1, 9), (torch.float64, 8, 4, 3, 20)],
)
def test_a_convolution_of_graphs_equals_that_of_torch(dtype, n_out, k, stride, n_nodes):
    graphs = draw(3, 1, n_nodes, n_nodes, dtype=dtype).detach()
    inputs = draw(n_out, 1, k, k, dtype=dtype, seed=1), draw(n_out, dtype=dtype, seed=2)

    def plain(weight, bias):
        return torch.nn.functional.conv2d(graphs, weight, bias, stride, k // 2).relu()

    def fused(weight, bias):
        return convolution.graph_convolution(graphs, weight, bias, stride, k // 2)

    assert_equal(fused, plain, inputs, dtype, "_GraphConvolutionBackward")
    assert fused(*inputs).is_contiguous(memory_format=torch.channels_last)
    apart = draw(2 * n_out, dtype=dtype)[::2]
    torch.testing.assert_close(fused(inputs[0], apart), plain(inputs[0], apart))


@pytest.mark.parametrize("n_out", [16, 5])
def test_graphs_with_gradients_and_other_filters_are_convolved_by_torch(n_out):
    inputs = draw(2, 1, 8, 8), draw(n_out, 1, 5, 5, seed=1), draw(n_out, seed=2)
    graphs = inputs[0] if n_out == 16 else inputs[0].detach()
    maps = convolution.graph_convolution(graphs, *inputs[1:], 2, 2)
    assert torch.equal(maps, torch.nn.functional.conv2d(*inputs, 2, 2).relu())
    assert "_GraphConvolutionBackward" not in trace(maps.grad_fn)


def test_a_convolved_nan_stays_nan():
    graphs = torch.full((1, 1, 6, 6), torch.nan)
    assert convolution.graph_convolution(graphs, torch.ones(16, 1, 3, 3), torch.zeros(16), 1, 1).isnan().all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [8, 5])
def test_many_squashed_vectors_equal_those_of_the_equation(dtype, size, monkeypatch):
    monkeypatch.setattr(kernels.import_kernel("cpu_squash"), "_LEAST_ENTRIES", 1)
    maps = draw(3, 7, 7, 2 * size, dtype=dtype)

    # The primary capsules of a convolution whose channels come last in memory.
    def apart(function):
        return lambda maps: function(maps.permute(0, 3, 1, 2).unflatten(1, (2, size)).movedim(2, -1))

    assert_equal(apart(squashing.squash_many), apart(capsule.squash), (maps,), dtype, "_SquashBackward")


def test_squashed_zeros_have_the_gradient_zero_and_nan_stays_nan(monkeypatch):
    monkeypatch.setattr(kernels.import_kernel("cpu_squash"), "_LEAST_ENTRIES", 1)
    x = torch.zeros(3, 4, dtype=torch.float64)
    x[1], x[2, 0] = 1.0, torch.nan
    x.requires_grad_()
    squashed = squashing.squash_many(x)
    (grad,) = torch.autograd.grad(squashed.sum(), x)
    assert squashed[2].isnan().all()
    assert (squashed[0] == 0).all()
    assert (grad[0] == 0).all()
    assert torch.allclose(grad[1], torch.autograd.grad(capsule.squash(x).sum(), x)[0][1])


@pytest.mark.parametrize("scale", [1e13, 1e18])
def test_the_gradient_of_squashed_long_vectors_is_finite(scale, monkeypatch):
    monkeypatch.setattr(kernels.import_kernel("cpu_squash"), "_LEAST_ENTRIES", 1)
    x = (scale * draw(6, 8, dtype=torch.float32)).detach().requires_grad_()
    weights = draw(6, 8, dtype=torch.float32, seed=1).detach()
    (grad,) = torch.autograd.grad((squashing.squash_many(x) * weights).sum(), x)
    assert grad.isfinite().all()


def test_vectors_that_are_no_rows_in_memory_are_squashed_by_torch(monkeypatch):
    monkeypatch.setattr(kernels.import_kernel("cpu_squash"), "_LEAST_ENTRIES", 1)
    for x in (draw(8, 5).T, draw(5, 8)[:, :4], draw(6)):
        assert torch.equal(squashing.squash_many(x), capsule.squash(x))


FAILING = [
    ("cpu_squash", lambda: squashing.squash_many(draw(2, 4096, 8))),
    (
        "cpu_convolution",
        lambda: convolution.graph_convolution(
            draw(2, 1, 8, 8).detach(), draw(16, 1, 5, 5, seed=1), draw(16, seed=2), 2, 2
        ),
    ),
    ("cpu_relaxed", lambda: relaxed.relaxed_distances(draw(2, 9, 9).detach(), draw(2, 3, 3, seed=1))),
    ("cpu_dense_routing", lambda: routing.route(draw(2, 1, 3, 3, 8), draw(2, 1, 9, 8, 16, seed=1), 2, 0.1)),
    (
        "cpu_linear",
        lambda: linear.wide_linear(*(draw(*s, dtype=torch.float32) for s in [(2, 1024), (1024, 1024), (1024,)])),
    ),
    ("cpu_pooling", lambda: pooling.pooled_convolution(draw(2, 1, 8, 8), draw(3, 1, 5, 5, seed=1), draw(3, seed=2))),
    ("cpu_upsampling", lambda: upsampling.doubling_convolution(draw(2, 3, 4, 4), draw(3, 1, 4, 4), draw(1, seed=2))),
    (
        "cpu_edge_sums",
        lambda: torch.stack(
            edge_sums.leaky_edge_sums(draw(2, 1, 5), draw(2, 1, 5), draw(3, 1, 5, seed=1), draw(3, 1, 5, seed=2), 0.3)
        ),
    ),
]


@pytest.mark.parametrize("part", ["forward", "backward"])
@pytest.mark.parametrize(("name", "compute"), FAILING)
def test_a_failing_kernel_leaves_the_result_to_plain_torch(name, compute, part, monkeypatch):
    monkeypatch.setattr(kernels, "_failed", set())
    kernel = kernels.import_kernel(name)
    functions = {
        "cpu_squash": ("squash", "backward"),
        "cpu_convolution": ("convolve", "backward"),
        "cpu_relaxed": ("distances", "backward"),
        "cpu_dense_routing": ("attend", "scatter"),
        "cpu_linear": ("apply", "grad_weight"),
        "cpu_pooling": ("convolve", "backward"),
        "cpu_upsampling": ("double", "backward"),
        "cpu_edge_sums": ("sums", "backward"),
    }[name]

    def run():
        result = compute()
        leaves, nodes, seen = [], [result.grad_fn], set()
        while nodes:
            node = nodes.pop()
            if node in seen:
                continue
            seen.add(node)
            if hasattr(node, "variable"):
                leaves.append(node.variable)
            nodes += [before for before, _ in node.next_functions if before is not None]
        return result, *torch.autograd.grad(result.square().sum(), leaves)

    expected = run()
    monkeypatch.setattr(kernel, functions[part == "backward"], lambda *_: getattr(torch, "what_we_use"))  # noqa: B009
    with pytest.warns(UserWarning, match="fused kernels"):
        results = run()
    totals = [sorted(float(tensor.detach().abs().sum()) for tensor in tensors) for tensors in (expected, results)]
    assert totals[0] == pytest.approx(totals[1], rel=1e-5 if name == "cpu_linear" else 1e-9)  # of single numbers


BAD_INPUT = {
    "channels": lambda: pooling.pooled_convolution(draw(2, 2, 8, 8), draw(3, 1, 5, 5), draw(3)),
    "types": lambda: pooling.pooled_convolution(draw(2, 1, 8, 8), draw(3, 1, 5, 5, dtype=torch.float32), draw(3)),
    "filters": lambda: edge_sums.leaky_edge_sums(draw(2, 1, 5), draw(2, 1, 5), draw(3, 1, 4), draw(3, 1, 5), 0.3),
    "numbers": lambda: edge_sums.leaky_edge_sums(draw(2, 1, 5), draw(2, 1, 6), draw(3, 1, 5), draw(3, 1, 5), 0.3),
    "types of filters": lambda: edge_sums.leaky_edge_sums(
        draw(2, 1, 5), draw(2, 1, 5), draw(3, 1, 5), draw(3, 1, 5, dtype=torch.float32), 0.3
    ),
    "types of templates": lambda: relaxed.relaxed_distances(draw(2, 9, 9).detach(), draw(2, 3, 3, dtype=torch.float32)),
    "windows": lambda: routing.route(draw(2, 1, 3, 3, 4), draw(2, 1, 7, 4, 8), 2, 0.1),
    "templates": lambda: routing.route(draw(2, 3, 3, 3, 4), draw(2, 1, 9, 4, 8), 2, 0.1),
    "capsules": lambda: routing.route(draw(2, 1, 3, 3, 5), draw(2, 1, 9, 4, 8), 2, 0.1),
    "windows of permutations": lambda: routing.route(
        capsule.PermutationCapsules(draw(2, 1, 3, 3), torch.zeros(2, 1, 3, 3, dtype=torch.int64), 0.0, 2),
        draw(2, 1, 7, 4, 8), 2, 0.1,
    ),
    "permutations": lambda: routing.route(
        capsule.PermutationCapsules(draw(2, 1, 3, 3), torch.zeros(2, 1, 3, 2, dtype=torch.int64), 0.0, 2),
        draw(2, 1, 9, 4, 8), 2, 0.1,
    ),
    "tables": lambda: routing.route(projected(draw(3, 4)), draw(2, 1, 9, 4, 8), 2, 0.1),
    "sizes of tables": lambda: routing.route(projected(draw(4, 5)), draw(2, 1, 9, 4, 8), 2, 0.1),
    "biases of pooling": lambda: pooling.pooled_convolution(draw(2, 1, 8, 8), draw(3, 1, 5, 5), draw(4)),
    "graphs below the size of a filter": lambda: convolution.graph_convolution(
        draw(2, 1, 3, 3).detach(), draw(16, 1, 5, 5), draw(16), 1, 0
    ),
    "maps to double": lambda: upsampling.doubling_convolution(draw(2, 3, 4, 4), draw(2, 1, 4, 4), draw(1)),
    "types of maps to double": lambda: upsampling.doubling_convolution(
        draw(2, 3, 4, 4), draw(3, 1, 4, 4, dtype=torch.float32), draw(1)
    ),
    "inputs of a wide layer": lambda: linear.wide_linear(
        *(draw(*s, dtype=torch.float32) for s in [(2, 960), (1024, 1024), (1024,)])
    ),
    "biases of a wide layer": lambda: linear.wide_linear(
        *(draw(*s, dtype=torch.float32) for s in [(2, 1024), (1024, 1024), (900,)])
    ),
}  # fmt: skip


@pytest.mark.parametrize("compute", BAD_INPUT.values(), ids=BAD_INPUT)
def test_bad_input_is_an_error_of_torch_and_no_failure_of_a_kernel(compute, monkeypatch):
    monkeypatch.setattr(kernels, "_failed", set())
    with pytest.raises((RuntimeError, ValueError, IndexError)):
        compute()
    assert not kernels._failed


def test_transforms_of_torch_func_leave_the_kernels_in_use(monkeypatch):
    monkeypatch.setattr(kernels, "_failed", set())
    inputs, weight, bias = (draw(*s, dtype=torch.float32).detach() for s in [(2, 1024), (1024, 1024), (1024,)])
    grad = torch.func.grad(lambda w: linear.wide_linear(inputs, w, bias).sum())(weight)
    assert torch.allclose(grad, inputs.sum(dim=0).expand_as(grad))
    assert not kernels._failed


def test_a_lack_of_memory_is_no_failure_of_a_kernel(monkeypatch):
    monkeypatch.setattr(kernels, "_failed", set())
    with pytest.raises(RuntimeError, match="memory"):
        kernels.run_fused(torch.device("cpu"), lambda: torch.empty(1 << 50), lambda: torch.empty(1))
    assert not kernels._failed


def test_an_error_of_torch_after_a_failed_kernel_names_both(monkeypatch):
    monkeypatch.setattr(kernels, "_failed", set())
    with pytest.raises(RuntimeError, match="memory") as raised:
        kernels.run_fused(torch.device("cpu"), lambda: [][1], lambda: torch.empty(1 << 50))
    assert "IndexError" in raised.value.__notes__[0]


def test_a_wide_layer_may_have_no_bias_and_its_output_may_be_changed():
    inputs, weight, bias = (draw(*s, dtype=torch.float32) for s in [(3, 1024), (1024, 1024), (1024,)])
    assert torch.equal(linear.wide_linear(inputs, weight, None), torch.nn.functional.linear(inputs, weight))
    changed = linear.wide_linear(inputs, weight, bias).add_(1)
    assert torch.allclose(changed, torch.nn.functional.linear(inputs, weight, bias) + 1, atol=1e-3)


def test_filters_with_an_even_side_are_pooled_as_in_torch():
    inputs = draw(2, 1, 6, 6), draw(3, 1, 2, 2, seed=1), draw(3, seed=2)
    assert torch.equal(pooling.pooled_convolution(*inputs), pooling._pool_plainly(*inputs))


def test_graphs_that_are_not_square_are_pooled_as_in_torch():
    inputs = draw(2, 1, 6, 9), draw(3, 1, 5, 5, seed=1), draw(3, seed=2)
    assert torch.equal(pooling.pooled_convolution(*inputs), pooling._pool_plainly(*inputs))


@pytest.mark.parametrize("n_nodes", [5, 6])
def test_the_winner_of_pooled_nans_is_inside_of_the_map(n_nodes):
    kernel = kernels.import_kernel("cpu_pooling")
    if kernel is None:
        pytest.skip("numba is not installed")
    maps = torch.full((1, 1, n_nodes, n_nodes), torch.nan)
    pooled, winner = kernel.convolve(maps, torch.ones(1, 1, 1, 1), torch.zeros(1))
    assert pooled.isnan().all()
    if n_nodes % 2:  # the last row and column have no second one
        assert (winner[..., -1, :] < 2).all() and (winner[..., :, -1] % 2 == 0).all()
