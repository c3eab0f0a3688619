"""Vectors as values in Numba code.

LLVM's loop vectoriser gives up on loops that read dozens of arrays and write one, since any of them might overlap.
With vectors as values nothing is left to its judgement: what is written is what runs, in the widest registers of
the machine. A vector holds 64 bytes; on narrower machines LLVM splits it. Arrays of vectors are plain contiguous
1-D arrays, addressed in whole vectors.
"""

import math
import operator
from collections.abc import Callable
from functools import lru_cache
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import extending, njit, types
from numba.core import cgutils
from numba.extending import models, overload, register_model

from isocapsnet.functional.kernels._stale import remove_stale_code

VECTOR_BYTES = 64
#: Up to this many nodes, there is a sum for every permutation.
SUMMED = 4
# Sums that do not wait for each other.
_CHAINS = 4

# To a type checker an intrinsic has the arguments of its typing function, not those it is called with.
intrinsic: Any = extending.intrinsic
Typed = tuple[Any, Callable[..., Any]]  # what an intrinsic returns: its signature and its code generator


class Vector(types.Type):
    """The Numba type of a vector."""

    def __init__(self, dtype: Any, lanes: int) -> None:
        self.dtype, self.lanes = dtype, lanes
        super().__init__(name=f"Vector({dtype}, {lanes})")

    @classmethod
    def of(cls, dtype: Any) -> "Vector":
        """As many numbers as a vector holds."""
        return cls(dtype, VECTOR_BYTES * 8 // dtype.bitwidth)

    def of_indices(self) -> "Vector":
        """int32 indices, one for each lane."""
        return Vector(types.int32, self.lanes)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Vector) -> None:
        element = dmm.lookup(fe_type.dtype).get_value_type()
        super().__init__(dmm, fe_type, ir.VectorType(element, fe_type.lanes))


def _splat(builder: ir.IRBuilder, scalar: ir.Value, lanes: int) -> ir.Value:
    undefined = ir.Constant(ir.VectorType(scalar.type, lanes), ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))


def _call(builder: ir.IRBuilder, name: str, args: list[ir.Value]) -> ir.Value:
    """Call LLVM's function ``name`` on vectors of one type."""
    kind = args[0].type
    suffix = f"v{kind.count}{'f64' if isinstance(kind.element, ir.DoubleType) else 'f32'}"
    signature = ir.FunctionType(kind, [kind] * len(args))
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, f"llvm.{name}.{suffix}"), args)


def _pointer(context: Any, builder: ir.IRBuilder, array: Any, args: Any, vector: ir.VectorType, unit: int) -> ir.Value:
    """The vector that begins ``args[1]`` units into the array ``args[0]``."""
    data = context.make_array(array)(context, builder, args[0]).data
    offset = builder.mul(args[1], ir.Constant(args[1].type, unit))
    return builder.bitcast(builder.gep(data, [offset]), vector.as_pointer())


@intrinsic
def lanes(typingctx: Any, array: Any) -> Typed:
    """How many numbers a vector of the array's dtype holds: a constant to the compiler, unlike ``itemsize``."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return ir.Constant(ir.IntType(64), Vector.of(array.dtype).lanes)

    return types.int64(array), generate


@intrinsic
def load(typingctx: Any, array: Any, i: types.Integer) -> Typed:
    """Vector ``i`` of an array."""
    vector = Vector.of(array.dtype)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        pointer = _pointer(context, builder, array, args, context.get_value_type(vector), vector.lanes)
        return builder.load(pointer, align=array.dtype.bitwidth // 8)

    return vector(array, types.intp), generate


@intrinsic
def load_from(typingctx: Any, array: Any, start: types.Integer) -> Typed:
    """The vector that begins at element ``start`` of an array."""
    vector = Vector.of(array.dtype)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        pointer = _pointer(context, builder, array, args, context.get_value_type(vector), 1)
        return builder.load(pointer, align=array.dtype.bitwidth // 8)

    return vector(array, types.intp), generate


@intrinsic
def store(typingctx: Any, array: Any, i: types.Integer, value: Vector) -> Typed:
    """Overwrite vector ``i`` of an array."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        pointer = _pointer(context, builder, array, args, args[2].type, value.lanes)
        builder.store(args[2], pointer, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), generate


@intrinsic
def stream(typingctx: Any, array: Any, i: types.Integer, value: Vector) -> Typed:
    """Overwrite vector ``i`` of an array that begins at a whole vector, past the caches: it is not read again soon."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        pointer = _pointer(context, builder, array, args, args[2].type, value.lanes)
        instruction = builder.store(args[2], pointer, align=VECTOR_BYTES)
        one = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
        instruction.set_metadata("nontemporal", one)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), generate


@intrinsic
def get(typingctx: Any, array: Any, i: types.Integer) -> Typed:
    """Element ``i >= 0`` of an array; Numba's own indexing tests every index for its sign."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.load(builder.gep(context.make_array(array)(context, builder, args[0]).data, [args[1]]))

    return array.dtype(array, types.intp), generate


@intrinsic
def put(typingctx: Any, array: Any, i: types.Integer, value: Any) -> Typed:
    """Overwrite element ``i >= 0`` of an array."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        builder.store(args[2], builder.gep(context.make_array(array)(context, builder, args[0]).data, [args[1]]))
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype), generate


@intrinsic
def prefetch(typingctx: Any, array: Any, i: types.Integer) -> Typed:
    """Ask for vector ``i`` of an array, which may lie outside of it, ahead of its use."""
    vector = Vector.of(array.dtype)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        pointer = _pointer(context, builder, array, args, context.get_value_type(vector), vector.lanes)
        address, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        signature_of = ir.FunctionType(ir.VoidType(), [address, flag, flag, flag])
        function = cgutils.get_or_insert_function(builder.module, signature_of, "llvm.prefetch.p0")
        read, nearest_but_one, data = (ir.Constant(flag, number) for number in (0, 2, 1))
        builder.call(function, [builder.bitcast(pointer, address), read, nearest_but_one, data])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@intrinsic
def broadcast(typingctx: Any, scalar: types.Float) -> Typed:
    """A number in every lane."""
    vector = Vector.of(scalar)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return _splat(builder, args[0], vector.lanes)

    return vector(scalar), generate


@intrinsic
def fma(typingctx: Any, a: Vector, b: Vector, c: Vector) -> Typed:
    """a·b + c, rounded once where the machine can."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return _call(builder, "fmuladd", args)

    return a(a, b, c), generate


@intrinsic
def sqrt(typingctx: Any, a: Vector) -> Typed:
    """Square roots."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return _call(builder, "sqrt", args)

    return a(a), generate


@intrinsic
def ratio(typingctx: Any, a: Vector, b: Vector) -> Typed:
    """a / b where b > 0, else 0."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        zero = ir.Constant(args[1].type, [0.0] * b.lanes)
        return builder.select(builder.fcmp_ordered(">", args[1], zero), builder.fdiv(*args), zero)

    return a(a, b), generate


@intrinsic
def join(typingctx: Any, a: Vector, b: Vector, count: types.Integer) -> Typed:
    """The first ``count`` lanes of ``a``, the others of ``b``."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        number = ir.Constant(ir.VectorType(ir.IntType(32), a.lanes), [*range(a.lanes)])
        return builder.select(builder.icmp_signed("<", number, _splat(builder, args[2], a.lanes)), *args[:2])

    return a(a, b, types.int32), generate


@intrinsic
def maximum(typingctx: Any, a: Vector, b: Vector) -> Typed:
    """The larger of two numbers."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return a(a, b), generate


@intrinsic
def minimum(typingctx: Any, a: Vector, b: Vector) -> Typed:
    """The smaller of two numbers."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.select(builder.fcmp_ordered("<", *args), *args)

    return a(a, b), generate


@intrinsic
def with_sign(typingctx: Any, a: Vector, b: Vector) -> Typed:
    """Numbers with the absolute values of ``a`` and the signs of ``b``."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return _call(builder, "copysign", args)

    return a(a, b), generate


@intrinsic
def earlier(typingctx: Any, a: Vector, b: Vector) -> Typed:
    """The smaller of two indices."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.select(builder.icmp_signed("<", *args), *args)

    return a(a, b), generate


@intrinsic
def any_earlier(typingctx: Any, a: Vector, b: Vector) -> Typed:
    """Whether an index in any lane of ``a`` is smaller than the one in ``b``."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        mask = builder.bitcast(builder.icmp_signed("<", *args), ir.IntType(a.lanes))
        return builder.icmp_unsigned("!=", mask, ir.Constant(mask.type, 0))

    return types.boolean(a, b), generate


@intrinsic
def index_where(typingctx: Any, a: Vector, floor: Vector, index: types.Integer, otherwise: Any) -> Typed:
    """``index`` where ``a >= floor``; elsewhere ``otherwise``, an index or a vector of indices."""
    indices = a.of_indices()
    other = indices if isinstance(otherwise, Vector) else types.int32

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        index, otherwise = (x if isinstance(x.type, ir.VectorType) else _splat(builder, x, a.lanes) for x in args[2:])
        return builder.select(builder.fcmp_ordered(">=", args[0], args[1]), index, otherwise)

    return indices(a, floor, types.int32, other), generate


@intrinsic
def exp(typingctx: Any, a: Vector) -> Typed:
    """e^a for a <= 0, to the last bit or two: 2ⁿ by its exponent bits times a Taylor series on |r| <= ln(2)/2."""
    double = a.dtype == types.float64
    degree, mantissa_bits, bias, lowest = (13, 52, 1023, -708.0) if double else (7, 23, 127, -87.0)
    # ln 2 in two parts: n times the first is exact.
    high, low = (0.6931471803691238, 1.9082149292705877e-10) if double else (0.693359375, -2.12194440e-4)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        kind = args[0].type
        whole = ir.VectorType(ir.IntType(a.dtype.bitwidth), a.lanes)

        def constant(value: float, kind: ir.VectorType = kind) -> ir.Constant:
            return ir.Constant(kind, [value] * a.lanes)

        x = builder.select(builder.fcmp_ordered("<", args[0], constant(lowest)), constant(lowest), args[0])
        n = _call(builder, "rint", [builder.fmul(x, constant(1 / math.log(2)))])
        minus_n = builder.fneg(n)
        r = _call(builder, "fmuladd", [minus_n, constant(high), x])
        r = _call(builder, "fmuladd", [minus_n, constant(low), r])
        series = constant(1 / math.factorial(degree))
        for i in reversed(range(degree)):
            series = _call(builder, "fmuladd", [series, r, constant(1 / math.factorial(i))])
        exponent = builder.add(builder.fptosi(n, whole), constant(bias, whole))
        power = builder.bitcast(builder.shl(exponent, constant(mantissa_bits, whole)), kind)
        return builder.fmul(series, power)

    return a(a), generate


def _vector_at(context: Any, builder: ir.IRBuilder, array: Any, value: Any) -> Callable[[ir.Value], ir.Value]:
    """A function that loads the vector with a given number from an array."""
    vector = context.get_value_type(Vector.of(array.dtype))
    data = context.make_array(array)(context, builder, value).data
    start = builder.bitcast(data, vector.as_pointer())
    return lambda number: builder.load(builder.gep(start, [number]), align=array.dtype.bitwidth // 8)


def _number_at(context: Any, builder: ir.IRBuilder, array: Any, value: Any) -> Callable[[ir.Value], ir.Value]:
    """A function that loads the element with a given number from an array, into every lane."""
    data = context.make_array(array)(context, builder, value).data
    lanes = Vector.of(array.dtype).lanes
    return lambda number: _splat(builder, builder.load(builder.gep(data, [number])), lanes)


def _selected(context: Any, builder: ir.IRBuilder, index: Any, value: Any, parts: int) -> Callable[[int], ir.Value]:
    """A function that gives the first vector of the row which ``index`` selects for lane t; without an index, row t."""
    if isinstance(index, types.NoneType):
        return lambda t: ir.Constant(ir.IntType(64), t * parts)
    data = context.make_array(index)(context, builder, value).data

    def first_vector(t: int) -> ir.Value:
        row = builder.load(builder.gep(data, [ir.Constant(ir.IntType(64), t)]))
        return builder.mul(row, ir.Constant(row.type, parts))

    return first_vector


def _plus(builder: ir.IRBuilder, number: ir.Value, more: int) -> ir.Value:
    return builder.add(number, ir.Constant(number.type, more))


def _add_up(builder: ir.IRBuilder, terms: list[ir.Value]) -> ir.Value:
    """The sum of vectors, in pairs."""
    while len(terms) > 1:
        terms = [builder.fadd(*pair) for pair in zip(terms[::2], terms[1::2], strict=False)] + terms[len(terms) & ~1 :]
    return terms[0]


def _add_across(builder: ir.IRBuilder, rows: list[ir.Value]) -> ir.Value:
    """The sum of the elements of row t in lane t, for as many rows as a vector has lanes."""
    lanes = len(rows)
    element = rows[0].type.element
    within = 16 // (8 if isinstance(element, ir.DoubleType) else 4)  # shuffles inside of 16 bytes are the cheapest
    pick = ir.VectorType(ir.IntType(32), lanes)

    def choose_from(blocks: list[int], size: int) -> ir.Constant:
        return ir.Constant(pick, [block * size + i for block in blocks for i in range(size)])

    # Halve the number of rows: the even parts of two of them plus their odd parts, first of elements inside of blocks
    # of 16 bytes, then of these blocks.
    while len(rows) > 1:
        if len(rows) > lanes // within:
            starts = [x + start for start in range(0, lanes, within) for x in (0, lanes)]
            even, odd = (
                ir.Constant(pick, [start + i for start in starts for i in range(first, within, 2)]) for first in (0, 1)
            )
        else:
            even, odd = (choose_from([*range(first, 2 * lanes // within, 2)], within) for first in (0, 1))
        pairs = zip(rows[::2], rows[1::2], strict=True)
        rows = [builder.fadd(builder.shuffle_vector(x, y, even), builder.shuffle_vector(x, y, odd)) for x, y in pairs]
    return rows[0]


@intrinsic
def dot_rows(
    typingctx: Any,
    a: Any,
    i: types.Integer,
    index: Any,
    b: Any,
    j: types.Integer,
    step: types.Integer,
    split: types.BaseTuple,
) -> Typed:
    """The dot product of two rows in every lane t.

    A row is ``len(split)`` vectors long. That of ``a`` is row ``index[t]`` of those which begin at vector ``i``. Those
    of ``b`` begin at vector ``j`` and lie ``step`` vectors apart.
    """
    vector, parts = Vector.of(a.dtype), len(split)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        first, second = _vector_at(context, builder, a, args[0]), _vector_at(context, builder, b, args[3])
        selected = _selected(context, builder, index, args[2], parts)
        rows = []
        for t in range(vector.lanes):
            start = builder.add(args[1], selected(t))
            other = builder.add(args[4], builder.mul(args[5], ir.Constant(ir.IntType(64), t)))
            total = builder.fmul(first(start), second(other))
            for p in range(1, parts):
                total = _call(
                    builder, "fmuladd", [first(_plus(builder, start, p)), second(_plus(builder, other, p)), total]
                )
            rows.append(total)
        return _add_across(builder, rows)

    return vector(a, types.intp, index, b, types.intp, types.intp, split), generate


@intrinsic
def dot_columns(
    typingctx: Any, columns: Any, i: types.Integer, row: Any, j: types.Integer, split: types.BaseTuple
) -> Typed:
    """The dot product of a row with the column in every lane.

    The row is ``len(split)`` vectors long and begins at vector ``j``. Vector ``i`` has the first element of each
    column, the next one their second, and so on.
    """
    vector, n_terms = Vector.of(columns.dtype), len(split) * Vector.of(columns.dtype).lanes

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        column, number = _vector_at(context, builder, columns, args[0]), _number_at(context, builder, row, args[2])
        start = builder.mul(args[3], ir.Constant(ir.IntType(64), vector.lanes))
        totals: list[ir.Value] = []
        for d in range(n_terms):
            pair = column(_plus(builder, args[1], d)), number(_plus(builder, start, d))
            if d < _CHAINS:
                totals.append(builder.fmul(*pair))
            else:
                totals[d % _CHAINS] = _call(builder, "fmuladd", [*pair, totals[d % _CHAINS]])
        return _add_up(builder, totals)

    return vector(columns, types.intp, row, types.intp, split), generate


@intrinsic
def transpose(
    typingctx: Any, rows: Any, i: types.Integer, columns: Any, j: types.Integer, split: types.BaseTuple
) -> Typed:
    """Write the columns of a square of as many rows as a vector has lanes, from vector ``j`` on.

    Rows are ``len(split)`` vectors long; vector ``i`` is the part of the first of them that is in the square.
    """
    vector, parts = Vector.of(rows.dtype), len(split)
    pick = ir.VectorType(ir.IntType(32), vector.lanes)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        load_row, n = _vector_at(context, builder, rows, args[0]), vector.lanes
        square = [load_row(_plus(builder, args[1], t * parts)) for t in range(n)]
        size = 1
        while size < n:  # exchange the off-diagonal blocks of this size
            low = ir.Constant(pick, [x + n - size if x & size else x for x in range(n)])
            high = ir.Constant(pick, [x + n if x & size else x + size for x in range(n)])
            for t in range(n):
                if not t & size:
                    pair = square[t], square[t + size]
                    square[t], square[t + size] = (builder.shuffle_vector(*pair, mask) for mask in (low, high))
            size *= 2
        kind = context.get_value_type(vector)
        target = builder.bitcast(context.make_array(columns)(context, builder, args[2]).data, kind.as_pointer())
        for d, column in enumerate(square):
            place = builder.gep(target, [_plus(builder, args[3], d)])
            builder.store(column, place, align=columns.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(rows, types.intp, columns, types.intp, split), generate


@intrinsic
def weigh_rows(
    typingctx: Any, factors: Any, i: types.Integer, rows: Any, j: types.Integer, index: Any, split: types.BaseTuple
) -> Typed:
    """The sum over t of lane t of vector ``i`` of ``factors`` times a vector of row ``index[t]``.

    Rows are ``len(split)`` vectors long; vector ``j`` is the one that is wanted of the first of them.
    """
    vector, parts = Vector.of(rows.dtype), len(split)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        number, row = _number_at(context, builder, factors, args[0]), _vector_at(context, builder, rows, args[2])
        selected = _selected(context, builder, index, args[4], parts)
        start = builder.mul(args[1], ir.Constant(ir.IntType(64), vector.lanes))
        totals: list[ir.Value] = []
        for t in range(vector.lanes):
            pair = number(_plus(builder, start, t)), row(builder.add(args[3], selected(t)))
            if t < _CHAINS:
                totals.append(builder.fmul(*pair))
            else:
                totals[t % _CHAINS] = _call(builder, "fmuladd", [*pair, totals[t % _CHAINS]])
        return _add_up(builder, totals)

    return vector(factors, types.intp, rows, types.intp, index, split), generate


@intrinsic
def spread_vectors(
    typingctx: Any,
    first: types.Float,
    vectors: Any,
    i: types.Integer,
    factors: Any,
    j: types.Integer,
    terms: types.Integer,
    totals: Any,
    m: types.Integer,
    own: Any,
    n: types.Integer,
    rows: Any,
    r: types.Integer,
    index: Any,
    targets: Any,
    nodes: types.BaseTuple,
    split: types.BaseTuple,
) -> Typed:
    """Mix a row z = Σ factor · vector for every lane, add it up, and return its dot product with a row of ``rows``.

    ``terms`` rows of ``vectors`` are mixed, from vector ``i`` on. The factor of the first is ``first`` in all
    lanes; those of the others are the vectors ``j``, ``j + 1``, … of ``factors``. The z of lane t is added to row t of
    ``totals``, from vector ``m`` on. Its row in ``rows`` is row ``index[t]`` of those that begin at vector ``r``. Up to
    :data:`SUMMED` nodes, it is also multiplied with lane t of vector ``n`` of ``own`` and added to the same row of
    ``targets``; otherwise it is written to row t of ``targets``. All rows are ``len(split)`` vectors long.
    """
    vector, parts = Vector.of(rows.dtype), len(split)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        def pointer(array: Any, value: Any) -> ir.Value:
            data = context.make_array(array)(context, builder, value).data
            return builder.bitcast(data, context.get_value_type(vector).as_pointer())

        def add(target: ir.Value, number: ir.Value, z: ir.Value, scale: ir.Value | None = None) -> None:
            place = builder.gep(target, [number])
            total = builder.load(place, align=align)
            total = builder.fadd(total, z) if scale is None else _call(builder, "fmuladd", [scale, z, total])
            builder.store(total, place, align=align)

        align, lanes = rows.dtype.bitwidth // 8, vector.lanes
        load_vector = _vector_at(context, builder, vectors, args[1])
        load_row = _vector_at(context, builder, rows, args[10])
        factor, excess = _number_at(context, builder, factors, args[3]), _number_at(context, builder, own, args[8])
        all_totals, all_targets = pointer(totals, args[6]), pointer(targets, args[13])
        selected = _selected(context, builder, index, args[12], parts)
        first_factor, first_own = (builder.mul(args[x], ir.Constant(ir.IntType(64), lanes)) for x in (4, 9))
        step, products = ir.Constant(args[5].type, 1), [None] * lanes
        for p in range(parts):
            start = _plus(builder, args[2], p)
            common = builder.fmul(_splat(builder, args[0], lanes), load_vector(start))
            mixed = [cgutils.alloca_once_value(builder, common) for _ in range(lanes)]
            with cgutils.for_range_slice(builder, step, args[5], step) as (term, _):
                one = load_vector(builder.add(start, builder.mul(term, ir.Constant(term.type, parts))))
                first = builder.mul(builder.sub(term, step), ir.Constant(term.type, lanes))
                first = builder.add(first_factor, first)
                for t, slot in enumerate(mixed):
                    weight = factor(_plus(builder, first, t))
                    builder.store(_call(builder, "fmuladd", [weight, one, builder.load(slot)]), slot)
            for t, slot in enumerate(mixed):
                z, here = builder.load(slot), _plus(builder, builder.add(args[11], selected(t)), p)
                add(all_totals, _plus(builder, args[7], t * parts + p), z)
                if len(nodes) <= SUMMED:
                    add(all_targets, here, z, excess(_plus(builder, first_own, t)))
                else:
                    place = builder.gep(all_targets, [ir.Constant(ir.IntType(64), t * parts + p)])
                    builder.store(z, place, align=align)
                entry = load_row(here)
                if p == 0:
                    products[t] = builder.fmul(entry, z)
                else:
                    products[t] = _call(builder, "fmuladd", [entry, z, products[t]])
        return _add_across(builder, products)

    types_of = (
        rows.dtype, vectors, types.intp, factors, types.intp, types.intp, totals, types.intp, own, types.intp, rows,
        types.intp, index, targets, nodes, split,
    )  # fmt: skip
    return vector(*types_of), generate


def _halves(k: int) -> tuple[list[tuple[int, ...]], int]:
    """All permutations in lexicographic order, and where each is cut in two."""
    return [*permutations(range(k))], (k + 1) // 2


@intrinsic
def sum_by_permutation(
    typingctx: Any,
    rows: Any,
    i: types.Integer,
    sums: Any,
    j: types.Integer,
    nodes: types.BaseTuple,
    split: types.BaseTuple,
) -> Typed:
    """Write the sum of the rows (a, p(a)) to ``sums`` for every permutation p, and return the sum of all rows.

    Only a vector of each row is added, the one that vector ``i`` is of the first of ``len(nodes)²`` rows. The sums
    begin at vector ``j``. Rows and sums are ``len(split)`` vectors long. Of more than :data:`SUMMED` nodes, nothing is
    written.
    """
    k, parts, vector = len(nodes), len(split), Vector.of(rows.dtype)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        load_row = _vector_at(context, builder, rows, args[0])
        target = builder.bitcast(
            context.make_array(sums)(context, builder, args[2]).data, context.get_value_type(vector).as_pointer()
        )
        row = {(a, x): load_row(_plus(builder, args[1], (a * k + x) * parts)) for a in range(k) for x in range(k)}
        orders, cut = _halves(k) if k <= SUMMED else ([], 0)
        of_half: dict[tuple[int, tuple[int, ...]], ir.Value] = {}
        for number, order in enumerate(orders):
            halves = [(start, half) for start, half in ((0, order[:cut]), (cut, order[cut:])) if half]
            for start, half in halves:
                if (start, half) not in of_half:
                    terms = [row[start + a, x] for a, x in enumerate(half)]
                    of_half[start, half] = _add_up(builder, terms)
            total = _add_up(builder, [of_half[half] for half in halves])
            place = builder.gep(target, [_plus(builder, args[3], number * parts)])
            builder.store(total, place, align=sums.dtype.bitwidth // 8)
        return _add_up(builder, [*row.values()])

    return vector(rows, types.intp, sums, types.intp, nodes, split), generate


@intrinsic
def add_by_permutation(
    typingctx: Any,
    sums: Any,
    i: types.Integer,
    rows: Any,
    j: types.Integer,
    nodes: types.BaseTuple,
    split: types.BaseTuple,
) -> Typed:
    """Add the vector of every permutation p to the rows (a, p(a)); the reverse of :func:`sum_by_permutation`."""
    k, parts = len(nodes), len(split)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        if k > SUMMED:
            return context.get_dummy_value()
        load_sum, load_row = _vector_at(context, builder, sums, args[0]), _vector_at(context, builder, rows, args[2])
        kind = context.get_value_type(Vector.of(rows.dtype))
        target = builder.bitcast(context.make_array(rows)(context, builder, args[2]).data, kind.as_pointer())
        orders, cut = _halves(k)
        for p in range(parts):
            of_half: dict[tuple[int, tuple[int, ...]], list[ir.Value]] = {}
            for number, order in enumerate(orders):
                value = load_sum(_plus(builder, args[1], number * parts + p))
                for start, half in ((0, order[:cut]), (cut, order[cut:])):
                    of_half.setdefault((start, half), []).append(value)
            of_row: dict[tuple[int, int], list[ir.Value]] = {}
            for (start, half), values in of_half.items():
                total = _add_up(builder, values)
                for a, x in enumerate(half):
                    of_row.setdefault((start + a, x), []).append(total)
            for (a, x), values in of_row.items():
                place = _plus(builder, args[3], (a * k + x) * parts + p)
                total = _add_up(builder, [load_row(place), *values])
                builder.store(total, builder.gep(target, [place]), align=rows.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(sums, types.intp, rows, types.intp, nodes, split), generate


@intrinsic
def load_indices(typingctx: Any, array: Any, i: types.Integer, like: Any) -> Typed:
    """Vector ``i`` of an array of int32 indices, one for each lane of a vector of the dtype of ``like``."""
    indices = Vector.of(like.dtype).of_indices()

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        pointer = _pointer(context, builder, array, args, context.get_value_type(indices), indices.lanes)
        return builder.load(pointer, align=4)

    return indices(array, types.intp, like), generate


@intrinsic
def half_byte(typingctx: Any, packed: Vector, i: types.Integer) -> Typed:
    """Number ``i`` of the eight numbers below 16 that are packed into every lane."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        distance = builder.trunc(builder.shl(args[1], ir.Constant(args[1].type, 2)), ir.IntType(32))
        moved = builder.lshr(args[0], _splat(builder, distance, packed.lanes))
        return builder.and_(moved, ir.Constant(moved.type, [15] * packed.lanes))

    return packed(packed, types.intp), generate


@intrinsic
def entry_index(typingctx: Any, row: Vector, column: Vector, width: types.Integer) -> Typed:
    """``row * width + column`` in every lane."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.add(builder.mul(args[0], _splat(builder, args[2], row.lanes)), args[1])

    return row(row, column, types.int32), generate


@intrinsic
def choose(typingctx: Any, indices: Vector, i: types.Integer, a: Vector, b: Vector) -> Typed:
    """``a`` in the lanes where the index is ``i``, ``b`` in the others."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        here = _splat(builder, builder.trunc(args[1], ir.IntType(32)), indices.lanes)
        return builder.select(builder.icmp_signed("==", args[0], here), *args[2:])

    return a(indices, types.intp, a, b), generate


@intrinsic
def look_up(typingctx: Any, low: Vector, high: Vector, indices: Vector) -> Typed:
    """Entries of a table of two vectors."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        values, others, positions = args
        if low.dtype == types.float32 and "+avx512f" in context.codegen().magic_tuple()[2].split(","):
            permute = ir.FunctionType(values.type, [values.type, positions.type, values.type])
            name = "llvm.x86.avx512.vpermi2var.ps.512"  # one instruction
            function = cgutils.get_or_insert_function(builder.module, permute, name)
            return builder.call(function, [values, positions, others])
        table = cgutils.alloca_once(builder, ir.ArrayType(values.type, 2))
        for half, vector in enumerate((values, others)):
            builder.store(vector, cgutils.gep_inbounds(builder, table, 0, half))
        start = builder.bitcast(table, values.type.element.as_pointer())
        result = ir.Constant(values.type, ir.Undefined)
        for t in range(low.lanes):
            lane = ir.Constant(ir.IntType(32), t)
            entry = builder.load(builder.gep(start, [builder.extract_element(positions, lane)]))
            result = builder.insert_element(result, entry, lane)
        return result

    return low(low, high, indices), generate


def _define_operator(function: Callable[..., Any], instruction: str) -> None:
    @intrinsic
    def emit(typingctx: Any, a: Vector, b: Vector) -> Typed:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
            return getattr(builder, instruction)(*args)

        return a(a, b), generate

    @overload(function, strict=False)
    def implement(a: Any, b: Any) -> Any:
        return (lambda a, b: emit(a, b)) if isinstance(a, Vector) and a == b else None


_define_operator(operator.add, "fadd")
_define_operator(operator.sub, "fsub")
_define_operator(operator.mul, "fmul")
_define_operator(operator.truediv, "fdiv")


@njit(cache=True, nogil=True)
def empty(n: int, like: Any) -> Any:
    """Room for ``n`` vectors of the dtype of ``like``, so placed that no vector spans two cache lines."""
    array = np.empty((n + 1) * lanes(like), dtype=like.dtype)
    offset = (-array.ctypes.data % VECTOR_BYTES) // like.itemsize
    return array[offset : offset + n * lanes(like)]


@lru_cache(maxsize=1)
def forget_stale_code() -> None:
    """Forget compiled code of other sources; to be called before code is loaded, and done on the first call."""
    if (folder := empty.stats.cache_path) is not None:  # that of all kernels
        remove_stale_code(Path(folder))
