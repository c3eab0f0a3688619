"""The isomorphic match on a GPU, fused, in Triton: one window per thread, everything in registers, float32 throughout.

As on the CPU, permutations that begin alike share what they have in common. For every prefix of k - 4 nodes the
template is read with its nodes in the order "prefix, then the four free nodes"; the 24 permutations below it then
differ in the last four positions only and are evaluated together, in about a dozen operations each instead of k².
"""

# Triton compiles a subset of Python without types, in which tuples grow by addition only.
# mypy: disallow-untyped-defs=False, disable-error-code="assignment"
# ruff: noqa: RUF005, RET505

from functools import lru_cache
from math import factorial

import torch
import triton
import triton.language as tl
from torch import Tensor

from isocapsnet.functional.kernels._cuda_tree import leaves_below, permute
from isocapsnet.functional.kernels._launch import launch
from isocapsnet.functional.kernels.eager import TIE_TOLERANCE
from isocapsnet.functional.permutations import permutation_table

_FREE = 4
_LEAVES = 24
_BLOCK = 128
# Up to this size the kernel itself puts a template's nodes into the order of a prefix; for larger ones, with more
# prefixes, it pays to do so beforehand.
_MAX_ORDERED_INSIDE = 5
# Template gradients are summed in this many parts, added up in order: the same result on every run.
_PARTS = 1024


@lru_cache(maxsize=32)
def _prefixed_entries(kernel_size: int, device: torch.device) -> Tensor:
    """Entries of a template, its nodes in the order of each prefix: int64 ``(n_prefixes * k²,)``."""
    order = permutation_table(kernel_size)[::_LEAVES]
    return (order[:, :, None] * kernel_size + order[:, None, :]).flatten().to(device)


@lru_cache(maxsize=32)
def _orders(kernel_size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The node at each position and the position of each node, for every permutation: both uint8 ``(k!, k)``."""
    table = permutation_table(kernel_size)
    return table.to(device, torch.uint8), table.argsort(dim=1).to(device, torch.uint8)


def search(graphs: Tensor, templates: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Distance and winning permutation of Eq. 1, both ``(n_graphs, n_templates, n, n)``."""
    graphs, templates = graphs.contiguous(), templates.contiguous()
    n_graphs, n_nodes, _ = graphs.shape
    n_templates, k, _ = templates.shape
    n = (n_nodes - k) // stride + 1
    n_total = n_graphs * n * n
    distance = graphs.new_empty(n_graphs, n_templates, n, n)
    permutation = torch.empty_like(distance, dtype=torch.int64)
    nodes, _ = _orders(k, graphs.device)
    n_prefixes, tolerance = max(1, factorial(k) // _LEAVES), TIE_TOLERANCE * torch.finfo(graphs.dtype).eps
    prefixed = None
    if k > _MAX_ORDERED_INSIDE:
        prefixed = templates.view(n_templates, k * k).index_select(1, _prefixed_entries(k, graphs.device))
    launch(
        _search_kernel,
        (-(-n_total // _BLOCK), n_templates, 1),
        (graphs, templates, prefixed, nodes, distance, permutation),
        (n_total, n_nodes, n, stride, n_prefixes, tolerance, k, max(0, _FREE - k), _BLOCK),
    )
    return distance, permutation


def backward(
    grad_distance: Tensor,
    distance: Tensor,
    permutation: Tensor,
    graphs: Tensor,
    templates: Tensor,
    stride: int,
    needs_graphs: bool,
    needs_templates: bool,
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients through the winning permutation alone, for graphs and for templates."""
    graphs, templates = graphs.contiguous(), templates.contiguous()
    n_graphs, n_nodes, _ = graphs.shape
    n_templates, k, _ = templates.shape
    n = distance.shape[2]
    nodes, positions = _orders(k, graphs.device)
    # The gradient of a plain sum is one number that is expanded to the whole shape: it is read in place, not copied.
    step = 1 if any(grad_distance.stride()) else 0
    shared = (grad_distance.contiguous() if step else grad_distance, distance, permutation, graphs, templates)
    grad_graphs = grad_templates = None
    if needs_graphs:
        grad_graphs = torch.empty_like(graphs)
        n_entries = graphs.numel()
        launch(
            _graph_gradient_kernel,
            (-(-n_entries // _BLOCK), 1, 1),
            (*shared, nodes, grad_graphs),
            (n_entries, n_templates, n_nodes, n, stride, step, k, _BLOCK),
        )
    if needs_templates:
        grad_templates = torch.empty_like(templates)
        parts = templates.new_empty(n_templates, k * k, _PARTS, dtype=torch.float64)
        entries = 1 << (k * k - 1).bit_length()
        launch(
            _template_gradient_kernel,
            (_PARTS, n_templates, 1),
            (*shared, positions, parts),
            (n_graphs * n * n, n_nodes, n, stride, step, k, entries, max(1, 2048 // entries)),
        )
        launch(_sum_parts_kernel, (n_templates * k * k, 1, 1), (parts, grad_templates), (_PARTS,))
    return grad_graphs, grad_templates


@triton.jit
def _locate(window, n, n_nodes, stride):
    """Of a window counted over the batch: its graph, its number in the graph, and where its first entry is."""
    graph = window // (n * n)
    number = window % (n * n)
    corner = graph.to(tl.int64) * n_nodes * n_nodes + (number // n) * stride * n_nodes + (number % n) * stride
    return graph, number, corner


@triton.jit
def _sqrt(x):
    """The square root, rounded to nearest; Triton has it under two names."""
    if x.dtype == tl.float64:
        return tl.sqrt(x)
    else:
        return tl.sqrt_rn(x)


@triton.jit
def _entry(graphs, corner, n_nodes, zero, SIZE: tl.constexpr, PADDING: tl.constexpr, ENTRY: tl.constexpr):
    """One entry of the windows, which lie behind their padding."""
    A: tl.constexpr = ENTRY // SIZE - PADDING
    B: tl.constexpr = ENTRY % SIZE - PADDING
    if A < 0 or B < 0:
        return zero
    else:
        return tl.load(graphs + corner + A * n_nodes + B)


@triton.jit
def _search_kernel(
    graphs,
    templates,
    prefixed,
    nodes,
    distance,
    permutation,
    n_total,
    n_nodes,
    n,
    stride,
    n_prefixes,
    tolerance,
    K: tl.constexpr,
    PADDING: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Winner and distance of BLOCK windows for one template.

    The floor under the ties rises with the best correlation seen so far. The first permutation above the old floor
    stays the first as long as it is above the new one; when it no longer is, the first is in the 24 that raised the
    floor, unless something between the two was above the new floor already: then the windows are searched again.
    """
    SIZE: tl.constexpr = K + PADDING
    template = tl.program_id(1)
    window = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = window < n_total
    graph, number, corner = _locate(tl.minimum(window, n_total - 1), n, n_nodes, stride)
    templates += template * K * K
    if prefixed is not None:
        prefixed += template * n_prefixes * K * K
    zero = tl.zeros([BLOCK], dtype=graphs.dtype.element_ty)

    entries = ()
    squared = zero
    for i in tl.static_range(SIZE * SIZE):
        entry = _entry(graphs, corner, n_nodes, zero, SIZE, PADDING, i)
        entries = entries + (entry,)
        squared += entry * entry
    template_squared = 0.0
    for i in tl.static_range(K * K):
        weight = tl.load(templates + i)
        template_squared += weight * weight
    slack = tolerance * tl.sqrt(template_squared) * tl.sqrt(squared)

    best = tl.full([BLOCK], float("-inf"), zero.dtype)
    chosen_value = best
    chosen = tl.zeros([BLOCK], dtype=tl.int32)
    unsure = chosen
    for prefix in range(n_prefixes):
        leaves = leaves_below(permute(templates, prefixed, nodes, prefix, SIZE, PADDING), entries, SIZE, PADDING)
        peak = best
        for i in tl.static_range(24):
            peak = tl.maximum(peak, leaves[i])
        floor = peak - slack
        value = chosen_value
        first = chosen
        for i in tl.static_range(23, -1, -1):
            reaches = leaves[i] >= floor
            value = tl.where(reaches, leaves[i], value)
            first = tl.where(reaches, prefix * 24 + i, first)
        fallen = chosen_value < floor
        unsure = tl.where(fallen & (best >= floor), 1, unsure)
        chosen = tl.where(fallen, first, chosen)
        chosen_value = tl.where(fallen, value, chosen_value)
        best = peak

    if tl.max(unsure, axis=0) > 0:
        chosen = tl.full([BLOCK], 2147483647, dtype=tl.int32)
        floor = best - slack
        for prefix in range(n_prefixes):
            leaves = leaves_below(permute(templates, prefixed, nodes, prefix, SIZE, PADDING), entries, SIZE, PADDING)
            for i in tl.static_range(24):
                chosen = tl.where(leaves[i] >= floor, tl.minimum(chosen, prefix * 24 + i), chosen)
        chosen = tl.where(chosen == 2147483647, 0, chosen)

    squared = zero
    for a in tl.static_range(K):
        x = tl.load(nodes + chosen * K + a).to(tl.int32)
        for b in tl.static_range(K):
            y = tl.load(nodes + chosen * K + b).to(tl.int32)
            difference = tl.load(templates + x * K + y) - entries[(a + PADDING) * SIZE + b + PADDING]
            squared += difference * difference
    target = (graph.to(tl.int64) * tl.num_programs(1) + template) * n * n + number
    tl.store(distance + target, _sqrt(squared), mask=inside)
    tl.store(permutation + target, chosen.to(tl.int64), mask=inside)


@triton.jit
def _slope(grad_distance, distance, target, step, mask):
    """grad / distance; at a perfect match, the zero sub-gradient."""
    length = tl.load(distance + target, mask=mask, other=0.0)
    grad = tl.load(grad_distance + target * step, mask=mask, other=0.0)
    return tl.where(length > 0, grad / tl.where(length > 0, length, 1.0), 0.0)


@triton.jit
def _template_gradient_kernel(
    grad_distance,
    distance,
    permutation,
    graphs,
    templates,
    positions,
    parts,
    n_total,
    n_nodes,
    n,
    stride,
    step,
    K: tl.constexpr,
    ENTRIES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One part of one template's gradient: Σ slope · (K - PᵀAP) over every ``n_parts``-th block of windows."""
    template = tl.program_id(1)
    entry = tl.arange(0, ENTRIES)
    real = entry < K * K
    x, y = entry // K, entry % K
    weight = tl.load(templates + template * K * K + entry, mask=real, other=0.0)
    total = tl.zeros([BLOCK, ENTRIES], dtype=weight.dtype)
    for start in range(tl.program_id(0) * BLOCK, n_total, tl.num_programs(0) * BLOCK):
        window = start + tl.arange(0, BLOCK)
        inside = window < n_total
        graph, number, corner = _locate(window, n, n_nodes, stride)
        target = (graph.to(tl.int64) * tl.num_programs(1) + template) * n * n + number
        slope = _slope(grad_distance, distance, target, step, inside)
        order = tl.load(permutation + target, mask=inside, other=0) * K
        both = inside[:, None] & real[None, :]
        row = tl.load(positions + order[:, None] + x[None, :], mask=both, other=0).to(tl.int64)
        column = tl.load(positions + order[:, None] + y[None, :], mask=both, other=0).to(tl.int64)
        matched = tl.load(graphs + corner[:, None] + row * n_nodes + column, mask=both, other=0.0)
        total += slope[:, None] * (weight[None, :] - matched)
    offset = (template * K * K + entry) * tl.num_programs(0) + tl.program_id(0)
    tl.store(parts + offset, tl.sum(total.to(tl.float64), axis=0), mask=real)


@triton.jit
def _sum_parts_kernel(parts, sums, PARTS: tl.constexpr):
    """One entry of the templates' gradient from its parts."""
    entry = tl.program_id(0)
    tl.store(sums + entry, tl.sum(tl.load(parts + entry * PARTS + tl.arange(0, PARTS)), axis=0))


@triton.jit
def _graph_gradient_kernel(
    grad_distance,
    distance,
    permutation,
    graphs,
    templates,
    nodes,
    grad_graphs,
    n_entries,
    n_templates,
    n_nodes,
    n,
    stride,
    step,
    K: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """BLOCK entries of the graphs' gradient; each sums over the windows that contain it."""
    entry = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = entry < n_entries
    value = tl.load(graphs + entry, mask=inside, other=0.0)
    graph = entry // (n_nodes * n_nodes)
    row, column = entry // n_nodes % n_nodes, entry % n_nodes
    total = tl.zeros_like(value)
    for template in range(n_templates):
        for a in tl.static_range(K):
            s = (row - a) // stride
            for b in tl.static_range(K):
                t = (column - b) // stride
                mask = inside & (row >= a) & (column >= b) & ((row - a) % stride == 0) & ((column - b) % stride == 0)
                mask = mask & (s < n) & (t < n)
                target = (graph.to(tl.int64) * n_templates + template) * n * n + s * n + t
                slope = _slope(grad_distance, distance, target, step, mask)
                order = tl.load(permutation + target, mask=mask, other=0) * K
                x = tl.load(nodes + order + a, mask=mask, other=0).to(tl.int32)
                y = tl.load(nodes + order + b, mask=mask, other=0).to(tl.int32)
                weight = tl.load(templates + (template * K + x) * K + y, mask=mask, other=0.0)
                total -= slope * (weight - value)
    tl.store(grad_graphs + entry, total, mask=inside)
