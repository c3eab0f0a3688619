"""Every kernel equals the eager one: distances, winners, ties, gradients."""

import itertools

import pytest
import torch
from torch import Tensor

from isocapsnet.functional import isomorphic_match, permutation_table
from isocapsnet.functional.kernels import eager, import_kernel, pick_kernel
from isocapsnet.nn import IsomorphicLayer

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
DEVICES = [
    pytest.param("cpu", marks=pytest.mark.skipif(import_kernel("cpu") is None, reason="numba is not installed")),
    pytest.param("cuda", marks=CUDA),
]
# (n_graphs, extra nodes beyond k, n_templates, stride): one window, odd sizes, rows longer than a vector.
SHAPES = [(1, 0, 1, 1), (3, 4, 2, 1), (2, 9, 1, 2), (2, 17, 2, 3), (1, 20, 1, 1)]


def draw(kind: str, shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    values = torch.randn(shape, generator=generator, dtype=dtype)
    return {
        "weighted": values,
        "binary": (values > 0).to(dtype),
        "sparse": torch.where(values.abs() > 1.2, values.round(), 0.0),
        "constant": torch.full_like(values, 0.3),
    }[kind]


def gap(graphs: Tensor, templates: Tensor, stride: int) -> Tensor:
    """(Best - second best correlation) / (‖K‖ ‖A‖) of every window, in float64: ``(B, c, n, n)``."""
    k = templates.shape[-1]
    windows = eager.windows_of(graphs.double(), k, stride).flatten(-2)
    candidates = eager.permuted_templates(templates.double()).flatten(2)
    correlation = torch.einsum("bstx,cpx->bcstp", windows, candidates)
    if correlation.shape[-1] == 1:
        return torch.full(correlation.shape[:-1], torch.inf)
    top = correlation.topk(2, dim=-1).values
    sizes = windows.norm(dim=-1)[:, None] * templates.double().flatten(1).norm(dim=1)[:, None, None]
    return (top[..., 0] - top[..., 1]) / sizes.clamp_min(1e-300)


def assert_equal_search(kernel, graphs: Tensor, templates: Tensor, stride: int, device: str) -> None:
    distance, permutation = eager.search(graphs, templates, stride)
    fused_distance, fused_permutation = kernel.search(graphs.to(device), templates.to(device), stride)
    assert fused_permutation.dtype == torch.int64
    assert fused_distance.shape == distance.shape == fused_permutation.shape
    k = templates.shape[-1]
    sizes = eager.windows_of(graphs, k, stride).flatten(-2).norm(dim=-1)[:, None]
    sizes = sizes + templates.flatten(1).norm(dim=1)[:, None, None]
    assert ((fused_distance.cpu() - distance).abs() <= 1e-5 * sizes).all()
    clear = gap(graphs, templates, stride) > 1e-4
    assert torch.equal(fused_permutation.cpu()[clear], permutation[clear])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("k", "dtype"),
    [
        *itertools.product(range(1, 8), [torch.float32]),
        *itertools.product([1, 2, 3, 4, 6], [torch.float64]),
        pytest.param(5, torch.float64, marks=pytest.mark.slow),  # each pair is compiled, which takes seconds
        pytest.param(7, torch.float64, marks=pytest.mark.slow),
    ],
)
def test_search_equals_eager(device, dtype, k):
    generator = torch.Generator().manual_seed(k)
    for (b, extra, c, stride), kind in itertools.product(SHAPES, ["weighted", "binary", "sparse"]):
        if k == 7 and kind != "weighted" and extra > 9:
            continue
        graphs = draw(kind, (b, k + extra, k + extra), dtype, generator)
        templates = draw("weighted", (c, k, k), dtype, generator)
        assert_equal_search(import_kernel(device), graphs, templates, stride, device)


@pytest.mark.parametrize("device", DEVICES)
def test_search_equals_eager_for_eight_nodes(device):
    generator = torch.Generator().manual_seed(8)
    graphs, templates = torch.randn(1, 12, 12, generator=generator), torch.randn(1, 8, 8, generator=generator)
    assert_equal_search(import_kernel(device), graphs, templates, 1, device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("k", range(1, 8))
def test_ties_go_to_the_first_permutation_in_table_order(device, k):
    generator = torch.Generator().manual_seed(k)
    kernel = import_kernel(device)
    for graph_kind, template_kind in itertools.product(["binary", "sparse", "constant"], ["binary", "sparse"]):
        # Sums of small whole numbers are exact, so ties are exact and the winner is the same whatever the order
        # of summation.
        graphs = draw(graph_kind, (2, k + 5, k + 5), torch.float32, generator).ceil()
        templates = draw(template_kind, (2, k, k), torch.float32, generator)
        _, expected = eager.search(graphs, templates, 1)
        _, found = kernel.search(graphs.to(device), templates.to(device), 1)
        assert torch.equal(found.cpu(), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_a_correlation_just_below_the_best_wins_when_it_comes_first(device):
    # Two nodes: the identity gives K·A = 1, the swap 1 + δ. Within 16 eps ‖K‖ ‖A‖ the identity wins, beyond it loses.
    for dtype, (steps, winner) in itertools.product([torch.float32, torch.float64], [(8, 0), (64, 1)]):
        graphs = torch.tensor([[[1.0, 0.0], [0.0, 0.0]]], dtype=dtype)
        delta = steps * torch.finfo(dtype).eps
        templates = torch.tensor([[[1.0, 0.0], [0.0, 1.0 + delta]]], dtype=dtype)
        _, expected = eager.search(graphs, templates, 1)
        _, found = import_kernel(device).search(graphs.to(device), templates.to(device), 1)
        assert found.item() == expected.item() == winner


@pytest.mark.parametrize("device", DEVICES)
def test_the_winner_may_lie_between_the_first_candidate_and_the_best(device):
    # The correlation is the diagonal entry of the node at the first place. Ties reach 27 eps below the best here, so
    # node 0 ties with node 1, and node 1 with node 2, but not node 0 with node 2: the winner is node 1.
    diagonal = 1 + torch.finfo(torch.float32).eps * torch.tensor([0.0, 20.0, 40.0])
    templates = torch.diag(torch.cat([diagonal, torch.tensor([0.1, 0.0])]))[None]
    graphs = torch.zeros(1, 5, 5)
    graphs[0, 0, 0] = 1
    _, expected = eager.search(graphs, templates, 1)
    _, found = import_kernel(device).search(graphs.to(device), templates.to(device), 1)
    assert found.item() == expected.item() == 24  # the first permutation that begins with node 1


@pytest.mark.parametrize("device", DEVICES)
def test_rounding_does_not_break_true_ties(device):
    # Every permutation of a constant window ties, but rounding tells their float sums apart.
    for k in range(1, 8):
        templates = torch.randn(3, k, k, generator=torch.Generator().manual_seed(k))
        graphs = torch.full((1, k + 2, k + 2), 0.1)
        _, found = import_kernel(device).search(graphs.to(device), templates.to(device), 1)
        assert (found == 0).all()


@pytest.mark.parametrize("device", DEVICES)
def test_input_need_not_be_contiguous(device):
    base = torch.randn(4, 24, 24)
    graphs, templates = base[::2, ::2, ::2].transpose(1, 2), torch.randn(5, 5, 6).permute(2, 1, 0)[::3]
    assert not graphs.is_contiguous() and not templates.is_contiguous()
    assert_equal_search(import_kernel(device), graphs, templates, 1, device)
    largest = torch.randn(8, 8, 2).permute(2, 0, 1)  # its rows are as long as those of the kernel's own table
    assert_equal_search(import_kernel(device), graphs[:, :9, :9], largest, 1, device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("n_graphs", "n_templates"), [(0, 2), (3, 0)])
def test_nothing_to_match_gives_nothing_and_no_gradient(device, n_graphs, n_templates):
    graphs, templates = torch.randn(n_graphs, 9, 9, device=device), torch.randn(n_templates, 4, 4, device=device)
    for kernel in (import_kernel(device), eager):
        distance, permutation = kernel.search(graphs, templates, 1)
        assert distance.shape == permutation.shape == (n_graphs, n_templates, 6, 6)
        for grad, of in zip(
            kernel.backward(distance, distance, permutation, graphs, templates, 1, True, True),
            (graphs, templates),
            strict=True,
        ):
            assert torch.equal(grad, torch.zeros_like(of))


@CUDA
def test_a_layer_captured_as_a_graph_gives_the_same_bits():
    for k in (3, 4, 5):
        layer = IsomorphicLayer(2, k).cuda()
        graphs, upstream = torch.randn(4, 16, 16).cuda(), torch.randn(4, 2, 17 - k, 17 - k).cuda()

        def match_and_differentiate(layer=layer, graphs=graphs, upstream=upstream):
            distance, permutation = layer(graphs)
            return distance.detach(), permutation, *torch.autograd.grad(distance, layer.templates, upstream)

        expected = match_and_differentiate()
        torch.cuda.make_graphed_callables(layer, (torch.randn_like(graphs),))
        assert all(map(torch.equal, match_and_differentiate(), expected))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("k", [*range(1, 6), pytest.param(6, marks=pytest.mark.slow)])
@pytest.mark.parametrize("needs", [(True, True), (True, False), (False, True)])
def test_backward_equals_eager(device, k, needs):
    generator = torch.Generator().manual_seed(k)
    for b, extra, c, stride in SHAPES:
        graphs = draw("weighted", (b, k + extra, k + extra), torch.float64, generator)
        templates = draw("weighted", (c, k, k), torch.float64, generator)
        distance, permutation = eager.search(graphs, templates, stride)
        arguments = (distance, permutation, graphs, templates)
        for shape in (distance.shape, distance.shape[1:], ()):
            upstream = torch.randn(shape, generator=generator, dtype=torch.float64)
            expected = eager.backward(upstream.expand_as(distance), *arguments, stride, *needs)
            on_device = (upstream.to(device).expand_as(distance), *(x.to(device) for x in arguments))
            found = import_kernel(device).backward(*on_device, stride, *needs)
            for mine, theirs in zip(found, expected, strict=True):
                assert (mine is None) == (theirs is None)
                if mine is not None:
                    torch.testing.assert_close(mine.cpu(), theirs)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("k", [pytest.param(7, marks=pytest.mark.slow), 8])
def test_backward_equals_eager_at_the_largest_sizes(device, k):
    # Any winner has a gradient, so none needs to be sought among thousands of permutations.
    generator = torch.Generator().manual_seed(k)
    graphs = draw("weighted", (2, k + 17, k + 17), torch.float64, generator)
    templates = draw("weighted", (2, k, k), torch.float64, generator)
    permutation = torch.randint(len(permutation_table(k)), (2, 2, 18, 18), generator=generator)
    distance, upstream = torch.rand(2, 2, 2, 18, 18, generator=generator, dtype=torch.float64)
    arguments = (upstream, distance, permutation, graphs, templates)
    expected = eager.backward(*arguments, 1, True, True)
    found = import_kernel(device).backward(*(x.to(device) for x in arguments), 1, True, True)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("k", "stride"), [(1, 1), (2, 1), (3, 2), (4, 1)])
def test_gradients_are_those_of_the_distance(device, k, stride):
    generator = torch.Generator().manual_seed(k)
    graphs = torch.randn(2, k + 3, k + 3, generator=generator, dtype=torch.float64).to(device).requires_grad_()
    templates = torch.randn(2, k, k, generator=generator, dtype=torch.float64).to(device).requires_grad_()
    assert pick_kernel(graphs, templates) is import_kernel(device)
    assert torch.autograd.gradcheck(lambda a, b: isomorphic_match(a, b, stride).distance, (graphs, templates))


@pytest.mark.parametrize("device", DEVICES)
def test_a_perfect_match_has_distance_zero_and_gradient_zero(device):
    template = torch.randn(5, 5, generator=torch.Generator().manual_seed(0))
    table = permutation_table(5)
    graphs = template[table[:, :, None], table[:, None, :]].to(device).requires_grad_()  # (120, 5, 5)
    templates = template[None].to(device).requires_grad_()
    match = isomorphic_match(graphs, templates)
    assert torch.equal(match.permutation.cpu().flatten(), torch.arange(120))
    assert (match.distance == 0).all()
    match.distance.sum().backward()
    assert (graphs.grad == 0).all() and (templates.grad == 0).all()


@pytest.mark.parametrize("device", DEVICES)
def test_nan_input_neither_crashes_nor_yields_a_bad_index(device):
    graphs = torch.full((1, 6, 6), torch.nan, device=device)
    distance, permutation = import_kernel(device).search(graphs, torch.randn(1, 4, 4, device=device), 1)
    assert distance.isnan().all() and (permutation == 0).all()
