"""The 24 permutations below a prefix, evaluated together in Triton: the heart of the search on a GPU."""

# Triton compiles a subset of Python without types, in which tuples grow by addition only.
# mypy: disallow-untyped-defs=False, disable-error-code="assignment"
# ruff: noqa: RUF005

import triton
import triton.language as tl


@triton.jit
def permute(template, prefixed, nodes, prefix, SIZE: tl.constexpr, PADDING: tl.constexpr):
    """The entries of the template with its nodes in the order of a prefix, behind their padding."""
    K: tl.constexpr = SIZE - PADDING
    entries = ()
    for i in tl.static_range(SIZE * SIZE):
        if i // SIZE < PADDING or i % SIZE < PADDING:
            entries = entries + (0.0,)
        elif K <= 4:  # no prefix but the empty one
            entries = entries + (tl.load(template + (i // SIZE - PADDING) * K + i % SIZE - PADDING),)
        elif prefixed is not None:
            entries = entries + (tl.load(prefixed + prefix * K * K + i),)
        else:
            order = nodes + prefix * 24 * K
            x, y = tl.load(order + i // SIZE), tl.load(order + i % SIZE)
            entries = entries + (tl.load(template + x.to(tl.int32) * K + y),)
    return entries


@triton.jit
def _pair(permuted, entries, SIZE: tl.constexpr, X: tl.constexpr, Y: tl.constexpr, P: tl.constexpr, Q: tl.constexpr):
    """What nodes X and Y add together at positions P and Q."""
    there = permuted[X * SIZE + Y] * entries[P * SIZE + Q]
    return there + permuted[Y * SIZE + X] * entries[Q * SIZE + P]


@triton.jit
def _alone(permuted, entries, SIZE: tl.constexpr, PADDING: tl.constexpr, NODE: tl.constexpr, PLACE: tl.constexpr):
    """What free node NODE adds at position PLACE, with the nodes of the prefix at theirs."""
    if (NODE < PADDING or PLACE < PADDING) and NODE != PLACE:
        return tl.full(entries[0].shape, float("-inf"), entries[0].dtype)  # a padding node stays in place
    gain = permuted[NODE * SIZE + NODE] * entries[PLACE * SIZE + PLACE]
    for i in tl.static_range(SIZE - 4):
        gain += _pair(permuted, entries, SIZE, i, NODE, i, PLACE)
    return gain


@triton.jit
def _leaf(start, gains, pairs, X: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    """The permutation that puts free node X first, then number A, number B and the last of the other three."""
    C: tl.constexpr = 3 - A - B
    U: tl.constexpr = A + (A >= X)
    V: tl.constexpr = B + (B >= X)
    W: tl.constexpr = C + (C >= X)
    head = (start + gains[A]) + (pairs[4 * U + V] + pairs[16 + 4 * U + W])
    return head + ((gains[3 + B] + gains[6 + C]) + pairs[32 + 4 * V + W])


@triton.jit
def _six(permuted, entries, total, alone, pairs, SIZE: tl.constexpr, X: tl.constexpr):
    """The six permutations that put free node X first."""
    F: tl.constexpr = SIZE - 4
    start = total + alone[X]
    gains = ()
    for r in tl.static_range(1, 4):
        for i in tl.static_range(3):
            gain = alone[4 * r + i + (i >= X)] + _pair(permuted, entries, SIZE, F + X, F + i + (i >= X), F, F + r)
            gains = gains + (gain,)
    return (
        _leaf(start, gains, pairs, X, 0, 1),
        _leaf(start, gains, pairs, X, 0, 2),
        _leaf(start, gains, pairs, X, 1, 0),
        _leaf(start, gains, pairs, X, 1, 2),
        _leaf(start, gains, pairs, X, 2, 0),
        _leaf(start, gains, pairs, X, 2, 1),
    )


@triton.jit
def leaves_below(permuted, entries, SIZE: tl.constexpr, PADDING: tl.constexpr):
    """Correlations of the 24 permutations below a prefix, in table order.

    ``permuted`` are the entries of the template in the order of the prefix, ``entries`` those of the windows. The free
    nodes and positions are those from F on.
    """
    F: tl.constexpr = SIZE - 4
    total = tl.zeros_like(entries[0])
    for i in tl.static_range(F):
        for j in tl.static_range(F):
            total += permuted[i * SIZE + j] * entries[i * SIZE + j]
    alone = ()  # [4 r + y]: node y at position r
    for r in tl.static_range(4):
        for y in tl.static_range(4):
            alone = alone + (_alone(permuted, entries, SIZE, PADDING, F + y, F + r),)
    pairs = ()  # [16 s + 4 y + z]: nodes y and z at the last three positions, taken in pairs
    for s in tl.static_range(3):
        for y in tl.static_range(4):
            for z in tl.static_range(4):
                pairs = pairs + (_pair(permuted, entries, SIZE, F + y, F + z, F + 1 + s // 2, F + 2 + (s + 1) // 2),)
    leaves = ()
    for x in tl.static_range(4):
        leaves = leaves + _six(permuted, entries, total, alone, pairs, SIZE, x)
    return leaves
