"""More operations on vectors in Numba code: stores at any element, sums of vectors and of lanes."""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils

from isocapsnet.functional.kernels._simd import (
    Typed,
    Vector,
    _call,
    _number_at,
    _plus,
    _pointer,
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
    terms: types.BaseTuple,
    n: types.Integer,
    out: Any,
    k: types.Integer,
    stride: types.Integer,
    add: Any,
) -> Typed:
    """Write ``n`` vectors, each a sum of the same ``len(terms)`` vectors with other factors; the vectors are read once.

    ``out[k + m * stride] = Σ_r numbers[i + m * step + r * apart] · vectors[j + r]``, where ``out`` and ``vectors`` are
    addressed in vectors. Unless ``add`` is None, this is added to what is there.
    """
    vector = Vector.of(vectors.dtype)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        align = vectors.dtype.bitwidth // 8
        load_vector, number = (
            _vector_at(context, builder, vectors, args[4]),
            _number_at(context, builder, numbers, args[0]),
        )
        target = _pointer(context, builder, out, args[8:10], context.get_value_type(vector), vector.lanes)
        own = [load_vector(_plus(builder, args[5], r)) for r in range(len(terms))]
        with cgutils.for_range(builder, args[7]) as loop:
            place = builder.gep(target, [builder.mul(loop.index, args[10])])
            first = builder.add(args[1], builder.mul(loop.index, args[2]))
            total = None if isinstance(add, types.NoneType) else builder.load(place, align=align)
            for r, one in enumerate(own):
                offset = builder.mul(args[3], ir.Constant(args[3].type, r))
                factor = number(builder.add(first, offset))
                total = builder.fmul(factor, one) if total is None else _call(builder, "fmuladd", [factor, one, total])
            builder.store(total, place, align=align)
        return context.get_dummy_value()

    whole = types.intp
    return types.void(numbers, whole, whole, whole, vectors, whole, terms, whole, out, whole, whole, add), generate


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
