"""More operations on vectors in Numba code: stores at any element, sums of lanes, convolutions."""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils

from isocapsnet.functional.kernels._simd import Typed, Vector, _call, _plus, _pointer, _splat, intrinsic


@intrinsic
def store_from(typingctx: Any, array: Any, start: types.Integer, value: Vector) -> Typed:
    """Overwrite the vector that begins at element ``start`` of an array."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        pointer = _pointer(context, builder, array, args, args[2].type, 1)
        builder.store(args[2], pointer, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), generate


@intrinsic
def dot_each(
    typingctx: Any, a: Any, i: types.Integer, b: Any, j: types.Integer, step: types.Integer, split: types.BaseTuple
) -> Typed:
    """The dot product of row t of ``a`` and row t of ``b`` in lane t.

    A row is ``len(split)`` vectors long. The rows of ``a`` follow each other from vector ``i`` on; those of ``b``
    begin at vector ``j`` and lie ``step`` vectors apart.
    """
    vector, parts = Vector.of(a.dtype), len(split)
    pick = ir.VectorType(ir.IntType(32), vector.lanes)
    even, odd = (ir.Constant(pick, [*range(start, 2 * vector.lanes, 2)]) for start in (0, 1))

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        kind = context.get_value_type(vector)
        first = _pointer(context, builder, a, args[:2], kind, vector.lanes)
        second = _pointer(context, builder, b, args[2:4], kind, vector.lanes)

        def load(start: ir.Value, offset: ir.Value) -> ir.Value:
            return builder.load(builder.gep(start, [offset]), align=a.dtype.bitwidth // 8)

        rows = []
        for t in range(vector.lanes):
            total = ir.Constant(kind, [0.0] * vector.lanes)
            for p in range(parts):
                mine = load(first, ir.Constant(ir.IntType(64), t * parts + p))
                element = builder.add(
                    builder.mul(args[4], ir.Constant(ir.IntType(64), t)), ir.Constant(ir.IntType(64), p)
                )
                total = _call(builder, "fmuladd", [mine, load(second, element), total])
            rows.append(total)
        # Halve the number of rows: the even elements of two of them plus their odd elements.
        while len(rows) > 1:
            pairs = zip(rows[::2], rows[1::2], strict=True)
            rows = [
                builder.fadd(builder.shuffle_vector(x, y, even), builder.shuffle_vector(x, y, odd)) for x, y in pairs
            ]
        return rows[0]

    return vector(a, types.intp, b, types.intp, types.intp, split), generate


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
