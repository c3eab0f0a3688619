"""More operations on vectors in Numba code: stores at any element, sums of lanes."""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types

from isocapsnet.functional.kernels._simd import Typed, Vector, _call, _pointer, intrinsic


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
