"""The isomorphic match: against brute force, and by its theorems."""

import math
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from isocapsnet import InputError, make_planted_graphs
from isocapsnet.functional import (
    assigned_columns,
    isomorphic_match,
    kernels,
    permutation_at,
    permutation_matrices,
    permutation_number,
    permutation_table,
    permutations,
    routing,
    spectral,
    spectral_match,
    spectral_permutations,
    window_eigenvectors,
)
from isocapsnet.functional.eigenvectors import jacobi_eigenvectors
from isocapsnet.functional.kernels import pick_spectral
from isocapsnet.functional.known_windows import WindowOrders, WindowVectors, distinct_windows
from tests.functional.references import brute_force_match

seeds = st.integers(0, 2**31 - 1)


def random_tensor(seed, *shape, dtype=torch.float64):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape)).to(dtype)


def graph_of(kind, n_nodes, rng):
    graph = rng.normal(size=(n_nodes, n_nodes))
    return {
        "random": lambda: graph,
        "symmetric": lambda: (graph + graph.T) / 2,
        "sparse": lambda: graph * (rng.random(graph.shape) < 0.1),
        "binary": lambda: (graph > 0).astype(float),
        "constant": lambda: np.full_like(graph, 0.7),
        "zero": lambda: np.zeros_like(graph),
        "counts": lambda: rng.integers(0, 300_000, size=graph.shape).astype(float),
    }[kind]()


KINDS = ("random", "symmetric", "sparse", "binary", "constant", "zero", "counts")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_match_equals_brute_force(k, kind, dtype):
    rng = np.random.default_rng(10 * k + KINDS.index(kind))
    graph = graph_of(kind, k + 3, rng)
    template = graph_of("counts" if kind == "counts" else "random", k, rng)
    match = isomorphic_match(torch.tensor(graph, dtype=dtype)[None], torch.tensor(template, dtype=dtype)[None])
    expected = brute_force_match(graph, template)
    largest = np.linalg.norm(template) + max(
        np.linalg.norm(graph[s : s + k, t : t + k]) for s in range(4) for t in range(4)
    )
    np.testing.assert_allclose(match.distance[0, 0].numpy(), expected, rtol=0, atol=1e-5 * largest)


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_windows_follow_the_stride(stride):
    graph, template = random_tensor(0, 11, 11), random_tensor(1, 3, 3)
    match = isomorphic_match(graph[None], template[None], stride)
    assert match.distance.shape == (1, 1, (11 - 3) // stride + 1, (11 - 3) // stride + 1)
    np.testing.assert_allclose(match.distance[0, 0], brute_force_match(graph, template, stride), atol=1e-12)


@given(seeds, st.integers(1, 5))
def test_distance_is_that_of_the_reported_permutation(seed, k):
    graphs, templates = random_tensor(seed, 2, 7, 7), random_tensor(seed + 1, 2, k, k)
    match = isomorphic_match(graphs, templates)
    P = permutation_matrices(match.permutation, k).to(graphs.dtype)
    windows = graphs.unfold(1, k, 1).unfold(2, k, 1)[:, None]
    distance = (P @ templates[None, :, None, None] @ P.mT - windows).flatten(-2).norm(dim=-1)
    torch.testing.assert_close(match.distance, distance)


@given(seeds, st.integers(2, 5))
def test_match_is_invariant_to_permuting_the_template(seed, k):
    graphs, template = random_tensor(seed, 1, 7, 7), random_tensor(seed + 1, k, k)
    shuffled = template[(p := torch.randperm(k, generator=torch.Generator().manual_seed(seed)))][:, p]
    torch.testing.assert_close(
        isomorphic_match(graphs, template[None]).distance, isomorphic_match(graphs, shuffled[None]).distance
    )


@given(seeds, st.integers(2, 5))
def test_permuting_a_window_keeps_its_distance_and_composes_its_winner(seed, k):
    window, template = random_tensor(seed, k, k), random_tensor(seed + 1, k, k)
    q = np.random.default_rng(seed).permutation(k)
    Q = torch.eye(k, dtype=window.dtype)[q]  # Q A Qᵀ = A[q][:, q]
    before = isomorphic_match(window[None], template[None])
    after = isomorphic_match((Q @ window @ Q.T)[None], template[None])
    torch.testing.assert_close(before.distance, after.distance)
    P = permutation_matrices(before.permutation, k).to(window.dtype)[0, 0, 0, 0]
    found = permutation_matrices(after.permutation, k).to(window.dtype)[0, 0, 0, 0]
    torch.testing.assert_close(found, Q @ P)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_perfect_match_is_zero_with_a_finite_gradient(k, dtype):
    template = random_tensor(k, k, k, dtype=dtype) * 1e3
    perm = torch.randperm(k, generator=torch.Generator().manual_seed(k))
    graph = template[perm][:, perm].clone().requires_grad_()
    template = template.clone().requires_grad_()
    match = isomorphic_match(graph[None], template[None])
    assert match.distance.item() == 0.0
    assert permutation_table(k)[match.permutation.item()].tolist() == perm.tolist()
    match.distance.sum().backward()
    assert torch.isfinite(graph.grad).all()
    assert torch.isfinite(template.grad).all()


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_gradcheck_of_templates_and_graphs(k):
    graphs = random_tensor(k, 2, 6, 6).requires_grad_()
    templates = random_tensor(k + 9, 2, k, k).requires_grad_()
    assert gradcheck(lambda g, t: isomorphic_match(g, t).distance, (graphs, templates))
    assert gradcheck(lambda g, t: isomorphic_match(g, t, 2).distance, (graphs, templates))


@pytest.mark.parametrize("value", [0.0, 1.0, -3.5])
def test_ties_go_to_the_first_permutation_in_table_order(value):
    graphs = torch.full((1, 6, 6), value)
    match = isomorphic_match(graphs, random_tensor(0, 1, 4, 4, dtype=torch.float32))
    assert (match.permutation == 0).all()


def test_near_ties_within_the_tolerance_go_to_the_first():
    # Swapping the nodes of K changes the correlation by less than 16 eps ‖K‖ ‖A‖, in favour of the second permutation.
    template = torch.tensor([[1.0, 0.0], [0.0, 1.0 + 2e-7]])
    graph = torch.tensor([[1.0 + 2e-7, 0.0], [0.0, 1.0]])
    assert isomorphic_match(graph[None], template[None]).permutation.item() == 0
    assert isomorphic_match(graph[None].double(), template[None].double()).permutation.item() == 1


def test_memory_does_not_grow_with_the_number_of_permutations():
    import resource

    graphs, template = torch.randn(2, 40, 40), torch.randn(1, 7, 7)
    isomorphic_match(graphs[:1, :8, :8], template)  # tables and compiled code
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    isomorphic_match(graphs, template)
    # 2·34² windows · 5040 permutations · 49 entries would be 2.3 GB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000


@pytest.mark.parametrize("background", ["constant"])
def test_scores_cannot_see_orientation_but_permutations_can(background):
    """The paper's Figure 1 as a theorem: noise-free orientation data, windows that do not overlap."""
    planted = make_planted_graphs(
        20, 16, kernel_size=4, effect="orientation", signal_to_noise=np.inf, background=background, random_state=3
    )
    graphs = torch.from_numpy(planted.graphs).double()
    template = torch.from_numpy(planted.truth[0].pattern).double()[None]
    match = isomorphic_match(graphs, template, stride=4)
    zero, one = (match.distance[planted.labels == label] for label in (0, 1))
    torch.testing.assert_close(zero[0], one[0])
    at = planted.truth[0].nodes[0] // 4
    zero, one = (match.permutation[planted.labels == label][0, 0, at, at] for label in (0, 1))
    assert zero != one
    for other in (random_tensor(seed, 1, 4, 4) for seed in range(20)):
        distance = isomorphic_match(graphs, other, stride=4).distance
        torch.testing.assert_close(distance[planted.labels == 0][0], distance[planted.labels == 1][0])


# -- spectral -------------------------------------------------------------------------------------------------


@given(seeds, st.integers(1, 5))
def test_spectral_permutation_is_exact_at_a_perfect_match_whose_eigenvectors_differ_in_absolute_values(seed, k):
    template = random_tensor(seed, k, k)
    template = template + template.T
    perm = torch.randperm(k, generator=torch.Generator().manual_seed(seed))
    match = spectral_match(template[perm][:, perm][None], template[None])
    assert match.distance.item() < 1e-9


def test_spectral_permutation_misses_a_perfect_match_that_only_signs_tell_apart():
    # Eigenvalues are distinct, but the eigenvectors' entries at nodes 0 and 1 differ in signs alone.
    template = torch.tensor([[0.0, 0.7, 1.3], [0.7, 0.0, -1.3], [1.3, -1.3, 0.4]], dtype=torch.float64)
    values, vectors = torch.linalg.eigh(template)
    assert values.diff().min() > 0.5
    torch.testing.assert_close(vectors[0].abs(), vectors[1].abs())
    profit = vectors.abs() @ vectors.abs().T
    torch.testing.assert_close(profit[0, 0] + profit[1, 1], profit[0, 1] + profit[1, 0])
    # The two nodes are as good in either order, and rounding decides which is taken: the right one or one at 5.2.
    swapped = template[[1, 0, 2]][:, [1, 0, 2]]
    assert (swapped - template).norm().item() == pytest.approx(5.2)
    for window in (template, swapped):
        assert spectral_match(window[None], template[None]).distance.item() in (0, pytest.approx(5.2))


@given(seeds, st.integers(1, 5))
def test_orthogonal_projection_of_symmetric_matrices_has_the_distance_of_the_eigenvalues(seed, k):
    window, template = (m + m.T for m in random_tensor(seed, 2, k, k))
    match = spectral_match(window[None], template[None], projection="orthogonal")
    gap = (torch.linalg.eigvalsh(window) - torch.linalg.eigvalsh(template)).norm()
    torch.testing.assert_close(match.distance.squeeze(), gap)
    P = match.matrix.squeeze((0, 1, 2, 3))
    torch.testing.assert_close(P @ P.T, torch.eye(k, dtype=P.dtype))


@given(seeds, st.integers(2, 5))
def test_orthogonal_projection_has_the_signs_nearest_to_the_identity(seed, k):
    window, template = (m + m.T for m in random_tensor(seed, 2, k, k))
    P = spectral_match(window[None], template[None], projection="orthogonal").matrix.squeeze((0, 1, 2, 3))
    # ‖P - I‖² = 2k - 2 tr P, and tr P = Σ s_i u₁ᵢ·u₂ᵢ is largest with every term positive.
    u1, u2 = torch.linalg.eigh(template).eigenvectors, torch.linalg.eigh(window).eigenvectors
    torch.testing.assert_close(P.trace(), (u1 * u2).sum(0).abs().sum())


def test_the_relaxation_is_not_zero_at_a_perfect_match():
    template = random_tensor(0, 4, 4)
    template = template + template.T
    assert spectral_match(template[None], template[None], projection="none").distance.item() > 0.5


@given(seeds, st.integers(1, 5))
def test_spectral_is_never_better_than_exact(seed, k):
    graphs, templates = random_tensor(seed, 1, 7, 7), random_tensor(seed + 1, 2, k, k)
    exact = isomorphic_match(graphs, templates).distance
    assert (spectral_match(graphs, templates).distance >= exact - 1e-9).all()


@pytest.mark.parametrize("projection", ["permutation", "none", "orthogonal"])
def test_spectral_is_finite_at_repeated_eigenvalues(projection):
    graphs = torch.stack([torch.zeros(6, 6), torch.eye(6), torch.ones(6, 6)]).double().requires_grad_()
    templates = torch.eye(3, dtype=torch.float64)[None].requires_grad_()
    match = spectral_match(graphs, templates, projection=projection)
    match.distance.sum().backward()
    for tensor in (match.distance, match.matrix, graphs.grad, templates.grad):
        assert torch.isfinite(tensor).all()


@pytest.mark.parametrize("projection", ["permutation", "none", "orthogonal"])
def test_spectral_shapes(projection):
    match = spectral_match(torch.randn(3, 10, 10), torch.randn(2, 4, 4), stride=2, projection=projection)
    assert match.distance.shape == (3, 2, 4, 4)
    assert match.matrix.shape == (3, 2, 4, 4, 4, 4)


@given(seeds, st.integers(1, 20))
def test_jacobi_rotations_diagonalise(seed, k):
    matrices = random_tensor(seed, 5, k, k)
    matrices = torch.cat([matrices + matrices.mT, torch.zeros(1, k, k), torch.ones(1, k, k), torch.eye(k)[None]])
    vectors = jacobi_eigenvectors(matrices)
    torch.testing.assert_close(vectors.mT @ vectors, torch.eye(k, dtype=vectors.dtype).expand_as(vectors))
    eigenvalues = torch.linalg.eigvalsh(matrices)
    torch.testing.assert_close(vectors.mT @ matrices @ vectors, torch.diag_embed(eigenvalues))


@given(seeds, st.integers(1, 20), st.sampled_from(["distinct", "ties", "constant"]))
def test_assigned_columns_equal_those_of_scipy(seed, k, kind):
    from scipy.optimize import linear_sum_assignment

    profit = random_tensor(seed, 3, k, k)
    profit = {"distinct": profit, "ties": profit.round(), "constant": torch.ones_like(profit)}[kind]
    for assigned, scores in zip(assigned_columns(profit), profit, strict=True):
        rows, columns = linear_sum_assignment(scores.numpy(), maximize=True)
        assert sorted(assigned.tolist()) == list(range(k))
        assert scores[range(k), assigned].sum().item() == pytest.approx(scores[rows, columns].sum().item())


def test_assigned_columns_are_a_permutation_whatever_the_input():
    profit = torch.tensor([torch.nan, torch.inf, -torch.inf, 1e300]).repeat(16).reshape(4, 4, 4)
    assert assigned_columns(profit).sort().values.eq(torch.arange(4)).all()
    assert assigned_columns(torch.empty(0, 4, 4)).shape == (0, 4)


@pytest.mark.parametrize("kind", ["distinct", "ties", "constant", "not finite"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("k", [1, 2, 4, 9, 12, 20])
def test_compiled_assignment_equals_the_plain_one_also_where_several_are_best(k, dtype, kind):
    profit = random_tensor(k, 300, k, k).to(dtype)
    profit = {"distinct": profit, "ties": profit.round(), "constant": torch.ones_like(profit)}.get(kind, profit)
    if kind == "not finite":
        profit[profit < -1], profit[profit > 1.5] = torch.nan, torch.inf
    kernel = kernels.import_kernel("cpu_assignment")
    assert kernel is not None
    assert torch.equal(kernel.assigned_columns(profit), assigned_columns(profit))


@pytest.mark.parametrize("is_symmetric", [False, True])
@pytest.mark.parametrize("values", [1, 400, 3000, 10**9])
def test_neither_parts_nor_symmetry_change_the_spectral_match(values, is_symmetric, monkeypatch):
    """In symmetric graphs, a permutation is found once for two windows."""
    graphs, templates = random_tensor(0, 3, 9, 9), random_tensor(1, 2, 4, 4)
    graphs = graphs + graphs.mT if is_symmetric else graphs
    vectors = window_eigenvectors(graphs, 4)
    monkeypatch.setattr(spectral, "pick_spectral", lambda tensor: None)
    monkeypatch.setattr(spectral, "_CHUNK_VALUES", {"cpu": values})
    match = spectral_permutations(graphs, templates)
    assert all(map(torch.equal, spectral_permutations(graphs, templates, window_vectors=vectors), match))
    for b, c, s, t in product(range(3), range(2), range(6), range(6)):
        alone = spectral_match(graphs[b : b + 1, s : s + 4, t : t + 4], templates[c : c + 1])
        assert match.distance[b, c, s, t] == pytest.approx(alone.distance.item())
        assert permutation_matrices(match.permutation[b, c, s, t], 4).equal(alone.matrix[0, 0, 0, 0].bool())


@pytest.mark.parametrize("is_symmetric", [False, True])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("k", [1, 4, 9, 12, 20])
def test_the_compiled_spectral_match_equals_the_plain_one_in_values_and_gradients(k, stride, is_symmetric, monkeypatch):
    graphs, templates = random_tensor(0, 3, k + 5, k + 5), random_tensor(1, 2, k, k)
    if is_symmetric:
        graphs, templates[0] = graphs + graphs.mT, templates[0] + templates[0].mT
    graphs[0, :k, :k] = templates[0]

    def match_and_gradients():
        inputs = graphs.clone().requires_grad_(), templates.clone().requires_grad_()
        match = spectral_permutations(*inputs, stride)
        weights = random_tensor(2, *match.distance.shape)
        return *match, *torch.autograd.grad((weights * match.distance).sum(), inputs)

    assert pick_spectral(graphs) is kernels.import_kernel("cpu_spectral")
    compiled = match_and_gradients()
    monkeypatch.setattr(spectral, "pick_spectral", lambda tensor: None)
    assert compiled[0][0, 0, 0, 0] == 0
    for mine, theirs in zip(compiled, match_and_gradients(), strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("kind", ["random", "symmetric", "sparse", "binary", "constant", "zero"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("k", [1, 3, 9, 12, 20])
def test_permutations_that_are_tried_first_change_nothing(k, dtype, kind):
    """Neither those of the last step, nor of a step before, nor any others: also where several are equally good."""
    rng = np.random.default_rng(k)
    graphs = torch.from_numpy(np.stack([graph_of(kind, k + 6, rng) for _ in range(3)])).to(dtype)
    templates = random_tensor(1, 2, k, k, dtype=dtype)
    distinct = distinct_windows(graphs, k, 1)[1]
    orders = WindowOrders.unknown(3, 2, k, distinct)
    for step in range(4):
        templates = templates + 0.01 * step * random_tensor(step, 2, k, k, dtype=dtype)
        if step == 2:
            orders.tensor.copy_(torch.from_numpy(rng.random(orders.tensor.shape)).argsort(dim=-1))
        first, tried = spectral_permutations(graphs, templates), None
        for own in (torch.tensor([2, 0]), torch.tensor([1])):
            some = WindowOrders(orders.tensor, own, distinct)
            tried = spectral_permutations(graphs[own], templates, window_orders=some)
            assert torch.equal(tried.distance, first.distance[own])
            assert torch.equal(tried.permutation, first.permutation[own])
        found = permutation_at(first.permutation[:, 1, 0, 3], k)
        assert torch.equal(orders.tensor[:, distinct[0, 3], 1].long(), found)


@pytest.mark.parametrize("k", [4, 12])
def test_what_is_known_of_other_windows_is_refused(k):
    graphs, templates = random_tensor(0, 3, k + 4, k + 4), random_tensor(1, 2, k, k)
    vectors, distinct = window_eigenvectors(graphs, k), distinct_windows(graphs, k, 1)[1]
    kept = WindowVectors(vectors.flatten(1, 2), torch.arange(3), distinct)
    wrong_vectors = [
        vectors[:1],
        vectors[:, :-1],
        window_eigenvectors(graphs, k - 1),
        WindowVectors(kept.tensor, torch.arange(2), distinct),
        WindowVectors(kept.tensor, torch.arange(3) + 1, distinct),
        WindowVectors(kept.tensor[:, 1:], torch.arange(3), distinct),
        WindowVectors(kept.tensor, torch.arange(3), distinct[1:, 1:]),
    ]
    for wrong in wrong_vectors:
        for match in (spectral_permutations, partial(spectral_match, projection="none")):
            with pytest.raises(InputError, match="window_vectors"):
                match(graphs, templates, window_vectors=wrong)
    for n_templates, size in ((1, k), (2, k - 1)):
        orders = WindowOrders.unknown(3, n_templates, size, distinct)
        with pytest.raises(InputError, match="window_orders"):
            spectral_permutations(graphs, templates, window_orders=orders)
    with pytest.raises(InputError, match="symmetrise"):
        orders = WindowOrders.unknown(3, 2, k, distinct)
        spectral_permutations(graphs, templates, symmetrise=False, window_orders=orders)


def test_an_assignment_is_kept_only_if_it_is_best():
    """Bellman and Ford's test of optimality against the solver, and against the second best permutation."""
    from isocapsnet.functional.kernels import cpu_spectral

    k, lanes = 5, 8
    every = permutation_table(k)
    for seed in range(60):
        profit = random_tensor(seed, k, k).abs() / 4
        totals = profit[torch.arange(k), every].sum(dim=1)
        best = totals.argsort(descending=True)[:2]
        gap = (totals[best[0]] - totals[best[1]]).item()
        padded = torch.nn.functional.pad(profit, [0, lanes - k])
        for number, expected in zip(best.tolist(), (gap > 5e-5, False), strict=True):
            work = np.zeros(2 * lanes), np.zeros(k)
            assert cpu_spectral.is_best(padded.flatten().numpy(), every[number].numpy(), 1, *work) == expected
        tied = torch.ones_like(padded)
        assert not cpu_spectral.is_best(tied.flatten().numpy(), every[0].numpy(), 1, *work)


def test_gradients_of_the_spectral_match_are_those_of_its_distances():
    inputs = random_tensor(0, 2, 12, 12).requires_grad_(), random_tensor(1, 1, 10, 10).requires_grad_()
    assert torch.autograd.gradcheck(lambda *tensors: spectral_permutations(*tensors).distance, inputs)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_permutation_matrices_have_the_columns_of_their_number(k):
    every = torch.arange(len(permutation_table(k)))
    matrices = permutation_matrices(every, k)
    assert matrices.sum(dim=(1, 2)).eq(k).all()
    assert torch.equal(permutation_number(matrices.to(torch.uint8).argmax(dim=-1)), every)


@given(seeds, st.integers(1, 20))
def test_permutations_and_their_numbers_are_inverse(seed, k):
    orders = torch.stack([torch.randperm(k, generator=torch.Generator().manual_seed(seed + i)) for i in range(5)])
    numbers = permutation_number(orders)
    assert torch.equal(permutation_at(numbers, k), orders)
    assert torch.equal(kernels.import_kernel("cpu_permutations").permutation_at(numbers, k).long(), orders)
    # Lexicographic order of the arrays is the order of their numbers.
    assert sorted(orders.tolist()) == orders[numbers.argsort()].tolist()
    last = torch.arange(k - 1, -1, -1)
    assert permutation_number(last).item() == math.factorial(k) - 1


def test_permutation_table_convention():
    assert permutation_table(3).tolist() == [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]
    K, P = random_tensor(0, 3, 3), permutation_matrices(torch.tensor(3), 3).double()
    perm = permutation_table(3)[3]
    torch.testing.assert_close(P @ K @ P.T, K[perm][:, perm])


@pytest.mark.parametrize(
    ("graphs", "templates", "stride", "sentence"),
    [
        (torch.zeros(4, 4), torch.zeros(1, 2, 2), 1, "graphs have shape"),
        (torch.zeros(1, 4, 4), torch.zeros(2, 2), 1, "templates have shape"),
        (torch.zeros(1, 4, 4), torch.zeros(1, 5, 5), 1, "kernel_size=5 do not fit graphs of 4 nodes"),
        (torch.zeros(1, 4, 4), torch.zeros(1, 2, 2), 0, "stride=0"),
        (torch.zeros(1, 4, 4), torch.zeros(1, 2, 2).double(), 1, "one dtype"),
        (torch.zeros(1, 4, 4).half(), torch.zeros(1, 2, 2).half(), 1, "float32 and float64"),
    ],
)
def test_bad_input_gets_one_sentence(graphs, templates, stride, sentence):
    for match in (isomorphic_match, spectral_match):
        with pytest.raises(InputError, match=sentence):
            match(graphs, templates, stride)


def test_exact_match_refuses_a_size_that_cannot_work_and_names_what_would():
    with pytest.raises(InputError, match=r"kernel_size=10 .* at most 9, or use spectral_match"):
        isomorphic_match(torch.zeros(1, 12, 12), torch.zeros(1, 10, 10))
    with pytest.raises(InputError, match="kernel_size=21"):
        spectral_match(torch.zeros(1, 22, 22), torch.zeros(1, 21, 21))


@pytest.mark.parametrize("k", [10, 20])
def test_spectral_match_of_large_templates_makes_no_table_over_permutations(k, monkeypatch):
    def refuse(kernel_size):
        raise AssertionError(f"a table of {kernel_size}! permutations")

    for module in (permutations, kernels.eager, routing):
        monkeypatch.setattr(module, "permutation_table", refuse)
    graphs, templates = random_tensor(0, 2, k + 2, k + 2), random_tensor(1, 2, k, k).requires_grad_()
    match = spectral_match(graphs, templates)
    matrix, windows = match.matrix, graphs.unfold(1, k, 1).unfold(2, k, 1)
    torch.testing.assert_close(matrix.sum(-1), torch.ones_like(matrix[..., 0]))
    expected = torch.linalg.matrix_norm(matrix @ templates[:, None, None] @ matrix.mT - windows[:, None])
    torch.testing.assert_close(match.distance, expected)
    (grad,) = torch.autograd.grad(match.distance.sum(), templates)
    (expected_grad,) = torch.autograd.grad(expected.sum(), templates)
    torch.testing.assert_close(grad, expected_grad)
