"""Capsules: compact and fused forms against the direct form, routing against an explicit loop."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from isocapsnet import functional
from isocapsnet.functional import PermutationCapsules
from tests.functional import references

seeds = st.integers(0, 2**31 - 1)


def random_capsules(seed, k=3, n_graphs=2, n_templates=2, n=3, padding=-0.1):
    generator = torch.Generator().manual_seed(seed)
    shape = (n_graphs, n_templates, n, n)
    n_permutations = math.factorial(k)
    value = torch.randn(shape, dtype=torch.float64, generator=generator)
    permutation = torch.randint(n_permutations, shape, generator=generator)
    return PermutationCapsules(value, permutation, padding, k)


def random_weight(seed, capsules, n_windows, n_classes=3, capsule_size=4):
    generator = torch.Generator().manual_seed(seed)
    shape = (n_classes, capsules.value.shape[1], n_windows, capsules.kernel_size**2, capsule_size)
    return torch.randn(shape, dtype=torch.float64, generator=generator)


@given(seeds, st.floats(1e-3, 1e3))
def test_squash_keeps_the_direction_and_brings_the_length_below_one(seed, size):
    x = size * torch.randn(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    y = functional.squash(x)
    torch.testing.assert_close(y, references.squash(x))
    assert (y.norm(dim=-1) < 1).all()
    torch.testing.assert_close(y / y.norm(dim=-1, keepdim=True), x / x.norm(dim=-1, keepdim=True))


def test_squash_is_zero_with_a_finite_gradient_at_zero():
    x = torch.zeros(2, 3, requires_grad=True)
    y = functional.squash(x)
    y.sum().backward()
    assert (y == 0).all()
    assert torch.isfinite(x.grad).all()


def test_an_undefined_length_stays_undefined():
    assert functional.safe_norm(torch.tensor([[float("nan"), 1.0]])).isnan().all()
    assert functional.safe_norm(torch.tensor([[float("inf"), 1.0]])).isinf().all()


@given(seeds, st.floats(0, 200))
def test_leaky_softmax_is_softmax_with_a_zero_logit(seed, size):
    logits = size * torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    expected = torch.cat([logits, torch.zeros(4, 1, dtype=torch.float64)], dim=1).softmax(dim=1)[:, :3]
    torch.testing.assert_close(functional.leaky_softmax(logits, dim=1), expected)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_primary_capsules_are_the_scaled_permutation_padded_with_gamma(k):
    scores = torch.tensor([[[[0.5, -2.0], [0.0, 1.0]]]], dtype=torch.float64)
    permutation = torch.tensor([[[[0, 1], [0, 1]]]]) % len(functional.permutation_table(k))
    dense = functional.primary_capsules(scores, permutation, k, gamma=-0.1).expand()
    for s in range(2):
        for t in range(2):
            P = functional.permutation_matrices(permutation[0, 0, s, t], k).double().flatten()
            expected = torch.where(P == 1, P / P.norm() * scores[0, 0, s, t], -0.1)  # γ stays where F = 0
            torch.testing.assert_close(dense[0, 0, s, t], expected)


def test_dense_primary_capsules_agree_with_the_compact_form_on_permutations():
    capsules = random_capsules(0)
    poses = functional.permutation_matrices(capsules.permutation, 3).double().flatten(-2)
    scores = capsules.value * 3**0.5
    dense = functional.dense_primary_capsules(scores, poses, gamma=-0.1)
    torch.testing.assert_close(dense, capsules.expand())


@given(seeds, st.sampled_from([1, 2, 3, 4, 8, 13, 20]))
def test_votes_from_selected_rows_equal_the_direct_product(seed, k):
    capsules = random_capsules(seed, k=k)
    weight = random_weight(seed + 1, capsules, n_windows=9)
    torch.testing.assert_close(
        functional.permutation_votes(capsules, weight), functional.dense_votes(capsules.expand(), weight)
    )


def test_direct_product_is_the_sum_over_entries():
    capsules = random_capsules(4).expand()
    weight = random_weight(5, random_capsules(4), n_windows=9)
    votes = functional.dense_votes(capsules, weight).unflatten(2, (2, 9))
    b, y, c, n = 1, 2, 1, 5
    expected = sum(capsules[b, c].flatten(0, 1)[n, p] * weight[y, c, n, p] for p in range(9))
    torch.testing.assert_close(votes[b, y, c, n], expected)


@given(seeds, st.sampled_from([1, 2, 3, 4, 8, 13, 20]))
def test_shared_weights_summed_per_permutation_equal_the_direct_form(seed, k):
    capsules = random_capsules(seed, k=k)
    weight = random_weight(seed + 1, capsules, n_windows=1)
    context = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    direct = functional.attend_to_votes(functional.dense_votes(capsules.expand(), weight), context)
    torch.testing.assert_close(functional.attend_to_shared(capsules, weight, context), direct)


@pytest.mark.parametrize("n_windows", [1, 9])
@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_routing_equals_the_loop_with_explicit_logits(n_windows, iterations):
    capsules = random_capsules(7)
    weight = random_weight(8, capsules, n_windows)
    expected = references.leaky_routing(functional.dense_votes(capsules.expand(), weight), iterations, scale=0.3)
    for form in (capsules, capsules.expand()):
        torch.testing.assert_close(functional.route(form, weight, iterations, scale=0.3), expected)


@pytest.mark.parametrize("over", ["classes", "windows"])
@pytest.mark.parametrize("n_windows", [1, 4])
def test_gradients_of_routing(n_windows, over):
    capsules = random_capsules(1, k=2, n_graphs=2, n_templates=1, n=2)
    weight = 0.3 * random_weight(2, capsules, n_windows, n_classes=2, capsule_size=3)

    def run(value, weight):
        return functional.route(capsules._replace(value=value), weight, iterations=3, scale=0.5, over=over)

    assert gradcheck(run, (capsules.value.requires_grad_(), weight.requires_grad_()))


def test_gradients_of_the_compact_and_the_direct_form_agree():
    capsules = random_capsules(3)
    for n_windows in (1, 9):
        grads = []
        for expand in (False, True):
            value = capsules.value.clone().requires_grad_()
            weight = random_weight(5, capsules, n_windows).requires_grad_()
            form = capsules._replace(value=value)
            output = functional.route(form.expand() if expand else form, weight, 3, 0.2)
            (output * torch.arange(output.numel()).view_as(output)).sum().backward()
            grads.append((value.grad, weight.grad))
        for compact, direct in zip(*grads, strict=True):
            torch.testing.assert_close(compact, direct)


def test_margin_loss_by_hand():
    lengths = torch.tensor([[0.95, 0.3], [0.2, 0.05], [0.5, 0.5]])
    loss = functional.margin_loss(lengths, torch.tensor([0, 0, -1]))
    torch.testing.assert_close(loss, torch.tensor([0.5 * 0.2**2, 0.7**2, 0.0]))


def test_margin_loss_weighs_graphs_by_their_class():
    lengths = torch.tensor([[0.2, 0.7], [0.2, 0.7]])
    plain = functional.margin_loss(lengths, torch.tensor([0, 1]))
    weighted = functional.margin_loss(lengths, torch.tensor([0, 1]), torch.tensor([2.0, 3.0]))
    torch.testing.assert_close(weighted, plain * torch.tensor([2.0, 3.0]))


def test_reconstruction_loss_by_hand():
    graphs, drawn = torch.zeros(2, 2, 2), torch.tensor([[[3.0, 0.0], [0.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]]])
    torch.testing.assert_close(functional.reconstruction_loss(graphs, drawn), torch.tensor([5.0, 0.0]))
    torch.testing.assert_close(functional.reconstruction_loss(graphs, drawn, squared=True), torch.tensor([25.0, 0.0]))
    drawn.requires_grad_()
    functional.reconstruction_loss(graphs, drawn).sum().backward()
    assert torch.isfinite(drawn.grad).all()


def test_symmetric_matrices_have_each_entry_of_the_upper_triangle_on_both_sides():
    entries = torch.arange(1.0, 7.0)[None]
    expected = torch.tensor([[[1.0, 2, 3], [2, 4, 5], [3, 5, 6]]])
    torch.testing.assert_close(functional.symmetric_matrices(entries, 3), expected)
    entries = torch.randn(2, 10, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: functional.symmetric_matrices(x, 4), entries)


@pytest.mark.parametrize("k", [1, 3, 4, 10, 12, 20])
def test_blocks_count_the_nodes_of_a_permutation(k):
    table, n_blocks = functional.block_table(k), min(4, k)
    assert table.shape == (k * k, n_blocks**2) and table.sum(dim=1).eq(1).all()
    order = torch.randperm(k, generator=torch.Generator().manual_seed(k))
    expected = torch.zeros(n_blocks, n_blocks)
    for a, b in enumerate(order.tolist()):
        expected[a * n_blocks // k, b * n_blocks // k] += 1
    number = functional.permutation_number(order)
    capsules = functional.ProjectedCapsules(torch.ones(1, 1, 1, 1), number.view(1, 1, 1, 1), table).expand()
    torch.testing.assert_close(capsules.flatten(), expected.flatten() / expected.norm())
