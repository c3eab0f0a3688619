"""The Triton kernels of routing on a GPU; :mod:`~isocapsnet.functional.kernels.cuda_routing` launches them."""

# Triton compiles a subset of Python without types.
# mypy: disallow-untyped-defs=False

import triton
import triton.language as tl


@triton.jit
def attend_kernel(
    values,
    permutations,
    columns,
    weight,
    row_sum,
    context,
    grad,
    parts,
    n_graphs,
    n_windows,
    per_part,
    K: tl.constexpr,
    PADDING: tl.constexpr,
    N_CLASSES: tl.constexpr,
    SIZE: tl.constexpr,
    CLASSES: tl.constexpr,
    ENTRIES: tl.constexpr,
    GRAPHS: tl.constexpr,
):
    """One part of the sum over windows for one block of graphs; ``cuda_routing._attend`` says of what."""
    graph = tl.program_id(0) * GRAPHS + tl.arange(0, GRAPHS)
    y, entry, real = _axes(N_CLASSES, SIZE, CLASSES, ENTRIES)
    valid = real & (graph < n_graphs)[:, None, None]
    offset = (graph[:, None, None] * N_CLASSES + y) * SIZE + entry
    if context is not None:
        current_context = tl.load(context + offset, mask=valid, other=0.0)
    if grad is not None:
        slope = tl.load(grad + offset, mask=valid, other=0.0)
    total = tl.zeros([GRAPHS, CLASSES, ENTRIES], dtype=weight.dtype.element_ty)
    first = tl.program_id(1) * per_part
    for window in range(first, tl.minimum(first + per_part, n_windows)):
        value, selection = _load_capsules(values, permutations, columns, graph, window, n_graphs, n_windows)
        number = y.to(tl.int64) * n_windows + window
        selected = _sum_selected(weight + number * (K * K * SIZE) + entry, real, selection, K, SIZE)
        from_all_rows = PADDING * tl.load(row_sum + number * SIZE + entry, mask=real, other=0.0)
        votes = (value - PADDING)[:, None, None] * selected + from_all_rows
        if context is None:
            total += votes / (N_CLASSES + 1)
        else:
            factor = _couple(votes, current_context, y < N_CLASSES)
            if grad is not None:
                factor = _differentiate(votes, slope, factor)
            total += factor * votes
    part = tl.program_id(1).to(tl.int64) * n_graphs * N_CLASSES * SIZE
    tl.store(parts + part + offset, total, mask=valid)


@triton.jit
def squash_kernel(
    parts,
    context,
    sums,
    capsules,
    following,
    scale,
    n_parts,
    length,
    SIZE: tl.constexpr,
    ENTRIES: tl.constexpr,
    PARTS: tl.constexpr,
):
    """The sum of the parts of one class capsule, the capsule itself (Eq. 6), and the context that comes next."""
    offset, real, total = _sum_parts(parts, n_parts, length, SIZE, ENTRIES, PARTS)
    tl.store(sums + offset, total, mask=real)
    x = tl.load(scale) * total
    squared = tl.sum(x * x, axis=0)
    capsule = x * (tl.sqrt(squared) / (1 + squared))
    tl.store(capsules + offset, capsule, mask=real)
    if context is not None:
        capsule += tl.load(context + offset, mask=real, other=0.0)
    tl.store(following + offset, capsule, mask=real)


@triton.jit
def unsquash_kernel(
    parts,
    grad_later,
    sums,
    grads,
    grad_context,
    scale,
    n_parts,
    length,
    SIZE: tl.constexpr,
    ENTRIES: tl.constexpr,
    PARTS: tl.constexpr,
):
    """The gradient for one class capsule, the sum of the parts and ``grad_later``, and that for its own sum.

    With s = ‖x‖², squash(x) = x √s / (1 + s); its derivative is √s / (1 + s) along all but x, 2 √s / (1 + s)² along x.
    """
    offset, real, grad = _sum_parts(parts, n_parts, length, SIZE, ENTRIES, PARTS)
    if grad_later is not None:
        grad += tl.load(grad_later + offset, mask=real, other=0.0)
    tl.store(grad_context + offset, grad, mask=real)
    scale = tl.load(scale)
    x = scale * tl.load(sums + offset, mask=real, other=0.0)
    squared = tl.sum(x * x, axis=0)
    factor = scale * tl.sqrt(squared) / (1 + squared)
    along = tl.sum(x * grad, axis=0) / tl.where(squared == 0, 1.0, squared)
    tl.store(grads + offset, factor * (grad + x * (along * (1 - squared) / (1 + squared))), mask=real)


@triton.jit
def _sum_parts(parts, n_parts, length, SIZE: tl.constexpr, ENTRIES: tl.constexpr, PARTS: tl.constexpr):
    """Where the program's capsule is, which of its entries there are, and the sum of their parts."""
    entry = tl.arange(0, ENTRIES)
    offset = tl.program_id(0) * SIZE + entry
    total = tl.zeros([PARTS, ENTRIES], dtype=parts.dtype.element_ty)
    for first in range(0, n_parts, PARTS):
        part = first + tl.arange(0, PARTS)[:, None]
        valid = (part < n_parts) & (entry < SIZE)[None, :]
        total += tl.load(parts + part.to(tl.int64) * length + offset[None, :], mask=valid, other=0.0)
    return offset, entry < SIZE, tl.sum(total, axis=0)


@triton.jit
def scatter_kernel(
    values,
    permutations,
    columns,
    weight,
    row_sum,
    contexts,
    grads,
    grad_value,
    grad_weight,
    n_graphs,
    n_windows,
    n_iterations,
    K: tl.constexpr,
    PADDING: tl.constexpr,
    N_CLASSES: tl.constexpr,
    SIZE: tl.constexpr,
    CLASSES: tl.constexpr,
    ENTRIES: tl.constexpr,
    GRAPHS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """The gradients of one window; ``cuda_routing.scatter`` says which."""
    window = tl.program_id(0)
    y, entry, real = _axes(N_CLASSES, SIZE, CLASSES, ENTRIES)
    number = y.to(tl.int64) * n_windows + window
    corner = number * (K * K * SIZE) + entry
    from_all_rows = PADDING * tl.load(row_sum + number * SIZE + entry, mask=real, other=0.0)
    row = tl.arange(0, ROWS)
    total = tl.zeros([ROWS, CLASSES * ENTRIES], dtype=weight.dtype.element_ty)
    size = n_graphs * N_CLASSES * SIZE
    for start in range(0, n_graphs, GRAPHS):
        graph = start + tl.arange(0, GRAPHS)
        valid = real & (graph < n_graphs)[:, None, None]
        offset = (graph[:, None, None] * N_CLASSES + y) * SIZE + entry
        value, selection = _load_capsules(values, permutations, columns, graph, window, n_graphs, n_windows)
        selected = _sum_selected(weight + corner, real, selection, K, SIZE)
        votes = (value - PADDING)[:, None, None] * selected + from_all_rows
        grad_votes = tl.load(grads + offset, mask=valid, other=0.0) / (N_CLASSES + 1)
        for r in range(1, n_iterations):
            current_context = tl.load(contexts + r * size + offset, mask=valid, other=0.0)
            slope = tl.load(grads + r * size + offset, mask=valid, other=0.0)
            coupling = _couple(votes, current_context, y < N_CLASSES)
            grad_votes += coupling * slope + _differentiate(votes, slope, coupling) * current_context
        own = tl.sum(tl.sum(selected * grad_votes, axis=2), axis=1)
        tl.store(grad_value + graph.to(tl.int64) * n_windows + window, own, mask=graph < n_graphs)
        # Adding to selected rows would need an order among graphs; a product with the whole capsules has one.
        column = (selection[None, :] >> (row // K * 4)[:, None]) & 15
        capsules = tl.where(column == (row % K)[:, None], value[None, :], PADDING)
        flat = tl.reshape(grad_votes, [GRAPHS, CLASSES * ENTRIES])
        total = tl.dot(capsules, flat, total, input_precision="ieee", out_dtype=total.dtype)
    by_class = tl.reshape(total, [ROWS, CLASSES, ENTRIES])
    tl.store(grad_weight + corner + (row * SIZE)[:, None, None], by_class, mask=real & (row < K * K)[:, None, None])


@triton.jit
def _axes(N_CLASSES: tl.constexpr, SIZE: tl.constexpr, CLASSES: tl.constexpr, ENTRIES: tl.constexpr):
    """Class and entry along the last two of three axes, and which of the two there are."""
    y = tl.arange(0, CLASSES)[None, :, None]
    entry = tl.arange(0, ENTRIES)[None, None, :]
    return y, entry, (y < N_CLASSES) & (entry < SIZE)


@triton.jit
def _load_capsules(values, permutations, columns, graph, window, n_graphs, n_windows):
    """The value of each graph's capsule, and the columns that it selects, packed."""
    offset = graph.to(tl.int64) * n_windows + window
    inside = graph < n_graphs
    permutation = tl.load(permutations + offset, mask=inside, other=0)
    return tl.load(values + offset, mask=inside, other=0.0), tl.load(columns + permutation)


@triton.jit
def _sum_selected(corner, real, selection, K: tl.constexpr, SIZE: tl.constexpr):
    """The sum of the rows of W that each graph selects: ``(GRAPHS, CLASSES, ENTRIES)``."""
    total = tl.load(corner + ((selection & 15) * SIZE)[:, None, None], mask=real, other=0.0)
    for a in tl.static_range(1, K):
        row = a * K + ((selection >> (4 * a)) & 15)
        total += tl.load(corner + (row * SIZE)[:, None, None], mask=real, other=0.0)
    return total


@triton.jit
def _couple(votes, context, real):
    """α, the leaky softmax of û·context over classes: ``(GRAPHS, CLASSES, 1)``."""
    logits = tl.where(real, tl.sum(votes * context, axis=2, keep_dims=True), float("-inf"))
    top = tl.maximum(tl.max(logits, axis=1, keep_dims=True), 0.0)
    shares = tl.exp(logits - top)
    return shares / (tl.sum(shares, axis=1, keep_dims=True) + tl.exp(-top))


@triton.jit
def _differentiate(votes, grad, coupling):
    """The gradient for the logits, α_y (û_y·grad_y - Σ α û·grad): ``(GRAPHS, CLASSES, 1)``."""
    gain = tl.sum(votes * grad, axis=2, keep_dims=True)
    return coupling * (gain - tl.sum(coupling * gain, axis=1, keep_dims=True))
