"""More operations on vectors in Numba code: stores at any element, sums of vectors and of lanes, convolutions."""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils

from isocapsnet.functional.kernels._simd import (
    VECTOR_BYTES,
    Typed,
    Vector,
    _add_across,
    _call,
    _number_at,
    _plus,
    _pointer,
    _splat,
    _vector_at,
    intrinsic,
)


@intrinsic
def store_from(typingctx: Any, array: Any, start: types.Integer, value: Vector) -> Typed:
    """Overwrite the vector that begins at element ``start`` of an array."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        pointer = _pointer(context, builder, array, args, args[2].type, 1)
        builder.store(args[2], pointer, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), generate


@intrinsic
def combine(
    typingctx: Any,
    numbers: Any,
    i: types.Integer,
    step: types.Integer,
    apart: types.Integer,
    vectors: Any,
    j: types.Integer,
    gap: types.Integer,
    terms: types.BaseTuple,
    n: types.Integer,
    out: Any,
    k: types.Integer,
    stride: types.Integer,
    add: Any,
) -> Typed:
    """Write ``n`` vectors, each a sum of the same ``len(terms)`` vectors with other factors; the vectors are read once.

    ``out[k + m * stride] = Σ_r numbers[i + m * step + r * apart] · vectors[j + r * gap]``, where indices of ``out`` and
    ``vectors`` count vectors. Unless ``add`` is None, this is added to what is there.
    """
    vector = Vector.of(vectors.dtype)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        numbers_at, i, step, apart, vectors_at, j, gap, _, n, out_at, k, stride, _ = args
        align, number = vectors.dtype.bitwidth // 8, _number_at(context, builder, numbers, numbers_at)
        load_vector = _vector_at(context, builder, vectors, vectors_at)
        target = _pointer(context, builder, out, [out_at, k], context.get_value_type(vector), vector.lanes)
        own = [load_vector(builder.add(j, _times(builder, gap, r))) for r in range(len(terms))]
        with cgutils.for_range(builder, n) as loop:
            place = builder.gep(target, [builder.mul(loop.index, stride)])
            first = builder.add(i, builder.mul(loop.index, step))
            total = None if isinstance(add, types.NoneType) else builder.load(place, align=align)
            for r, one in enumerate(own):
                factor = number(builder.add(first, _times(builder, apart, r)))
                total = builder.fmul(factor, one) if total is None else _call(builder, "fmuladd", [factor, one, total])
            builder.store(total, place, align=align)
        return context.get_dummy_value()

    whole = types.intp
    numbers_and_vectors = numbers, whole, whole, whole, vectors, whole, whole, terms
    return types.void(*numbers_and_vectors, whole, out, whole, whole, add), generate


def _times(builder: ir.IRBuilder, number: ir.Value, factor: int) -> ir.Value:
    return builder.mul(number, ir.Constant(number.type, factor))


@intrinsic
def dot_block(typingctx: Any, a: Any, i: types.Integer, b: Any, j: types.Integer, n: types.Integer) -> Typed:
    """Dot products of rows of ``n`` vectors: of row s of ``a`` and row t of ``b`` in lane ``s * lanes // 4 + t``.

    There are 4 rows of ``a``, from vector ``i`` on, and ``lanes // 4`` of ``b``, from vector ``j`` on.
    """
    vector = Vector.of(a.dtype)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        kind = context.get_value_type(vector)
        first, second = _vector_at(context, builder, a, args[0]), _vector_at(context, builder, b, args[2])
        starts = [builder.add(args[1], _times(builder, args[4], s)) for s in range(4)]
        others = [builder.add(args[3], _times(builder, args[4], t)) for t in range(vector.lanes // 4)]
        zero = ir.Constant(kind, [0.0] * vector.lanes)
        slots = [cgutils.alloca_once_value(builder, zero) for _ in range(vector.lanes)]
        for slot in slots:  # also when this code is inside of a loop
            builder.store(zero, slot)
        with cgutils.for_range(builder, args[4]) as loop:
            rows = [first(builder.add(start, loop.index)) for start in starts]
            columns = [second(builder.add(start, loop.index)) for start in others]
            pairs = ((row, column) for row in rows for column in columns)
            for slot, pair in zip(slots, pairs, strict=True):
                builder.store(_call(builder, "fmuladd", [*pair, builder.load(slot)]), slot)
        return _add_across(builder, [builder.load(slot) for slot in slots])

    return vector(a, types.intp, b, types.intp, types.intp), generate


@intrinsic
def multiply_block(
    typingctx: Any,
    numbers: Any,
    i: types.Integer,
    step: types.Integer,
    vectors: Any,
    j: types.Integer,
    n: types.Integer,
    out: Any,
    k: types.Integer,
    stride: types.Integer,
    near: Any,
) -> Typed:
    """Write 4 rows of 4 vectors to an array that begins at a whole vector; past the caches if ``near`` is None.

    ``out[k + s * stride + t] = Σ_m numbers[i + m * step + s] · vectors[j * 4 + m * 4 + t]`` over m below ``n``.
    """
    vector = Vector.of(vectors.dtype)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        numbers_at, i, step, vectors_at, j, n, out_at, k, stride, _ = args
        kind = context.get_value_type(vector)
        number, load_vector = (
            _number_at(context, builder, numbers, numbers_at),
            _vector_at(context, builder, vectors, vectors_at),
        )
        target = _pointer(context, builder, out, [out_at, k], kind, vector.lanes)
        zero = ir.Constant(kind, [0.0] * vector.lanes)
        slots = [cgutils.alloca_once_value(builder, zero) for _ in range(16)]
        for slot in slots:
            builder.store(zero, slot)
        with cgutils.for_range(builder, n) as loop:
            first = builder.add(i, builder.mul(loop.index, step))
            start = _times(builder, builder.add(j, loop.index), 4)
            factors = [number(_plus(builder, first, s)) for s in range(4)]
            row = [load_vector(_plus(builder, start, t)) for t in range(4)]
            pairs = ((factor, one) for factor in factors for one in row)
            for slot, pair in zip(slots, pairs, strict=True):
                builder.store(_call(builder, "fmuladd", [*pair, builder.load(slot)]), slot)
        nontemporal = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
        for x, slot in enumerate(slots):
            place = builder.gep(target, [_plus(builder, _times(builder, stride, x // 4), x % 4)])
            stored = builder.store(builder.load(slot), place, align=VECTOR_BYTES)
            if isinstance(near, types.NoneType):
                stored.set_metadata("nontemporal", nontemporal)
        return context.get_dummy_value()

    whole = types.intp
    return types.void(numbers, whole, whole, vectors, whole, whole, out, whole, whole, near), generate


@intrinsic
def add_up(typingctx: Any, a: Vector) -> Typed:
    """The sum of the lanes: halves are added until one number is left."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        total, n = args[0], a.lanes
        while n > 1:
            n //= 2
            halves = (ir.Constant(ir.VectorType(ir.IntType(32), n), [*range(start, start + n)]) for start in (0, n))
            total = builder.fadd(*(builder.shuffle_vector(total, total, half) for half in halves))
        return builder.extract_element(total, ir.Constant(ir.IntType(32), 0))

    return a.dtype(a), generate


@intrinsic
def convolve_rows(
    typingctx: Any,
    planes: Any,
    start: types.Integer,
    row_length: types.Integer,
    plane_length: types.Integer,
    n_planes: types.Integer,
    weight: Any,
    first: types.Integer,
    rows: Any,
    place: types.Integer,
    row_step: types.Integer,
    kernel: types.BaseTuple,
    filters: types.BaseTuple,
    split: types.BaseTuple,
) -> Typed:
    """Write ``len(split)`` vectors of two successive rows of a convolution by each of ``len(filters)`` filters.

    The patch of the first output begins at element ``start`` of ``planes``. From element ``first`` on, ``weight`` has
    the biases, then for each plane, row and column of the k = ``len(kernel)`` wide patch the weights of all filters.
    Rows of outputs, two of the first filter, two of the next and so on, lie ``row_step`` elements apart in ``rows``,
    from element ``place`` on. The terms of every output are added in the same order.
    """
    vector, k, n_filters, parts = Vector.of(planes.dtype), len(kernel), len(filters), len(split)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        kind, align = context.get_value_type(vector), planes.dtype.bitwidth // 8
        source, weights, target = (
            context.make_array(array)(context, builder, args[i]).data
            for i, array in ((0, planes), (5, weight), (7, rows))
        )

        def at(number: int) -> ir.Constant:
            return ir.Constant(ir.IntType(64), number)

        def load(offset: ir.Value) -> ir.Value:
            return builder.load(builder.bitcast(builder.gep(source, [offset]), kind.as_pointer()), align=align)

        def load_weight(offset: ir.Value) -> ir.Value:
            return _splat(builder, builder.load(builder.gep(weights, [offset])), vector.lanes)

        totals = {}
        for f in range(n_filters):
            bias = load_weight(_plus(builder, args[6], f))
            for y in range(2):
                for p in range(parts):
                    totals[f, y, p] = cgutils.alloca_once_value(builder, bias)
        # Loops that the compiler does not unroll: it would keep values for the next row, in more registers than exist.
        with cgutils.for_range(builder, args[4]) as plane, cgutils.for_range(builder, at(k)) as line:
            corner = builder.add(args[1], builder.mul(plane.index, args[3]))
            corner = builder.add(corner, builder.mul(line.index, args[2]))
            of_line = builder.add(builder.mul(plane.index, at(k)), line.index)
            of_line = _plus(builder, builder.add(args[6], builder.mul(of_line, at(k * n_filters))), n_filters)
            for x in range(k):
                values = {
                    (y, p): load(_plus(builder, builder.add(corner, args[2]) if y else corner, x + p * vector.lanes))
                    for y in range(2)
                    for p in range(parts)
                }
                for f in range(n_filters):
                    factor = load_weight(_plus(builder, of_line, x * n_filters + f))
                    for key, value in values.items():
                        slot = totals[f, *key]
                        builder.store(_call(builder, "fmuladd", [factor, value, builder.load(slot)]), slot)
        for (f, y, p), slot in totals.items():
            step = _plus(builder, builder.mul(args[9], at(2 * f + y)), p * vector.lanes)
            pointer = builder.gep(target, [builder.add(args[8], step)])
            builder.store(builder.load(slot), builder.bitcast(pointer, kind.as_pointer()), align=align)
        return context.get_dummy_value()

    whole = types.intp
    arguments = planes, whole, whole, whole, whole, weight, whole, rows, whole, whole, kernel, filters, split
    return types.void(*arguments), generate
