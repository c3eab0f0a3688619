"""The vector instructions that have a form of their own on some machines give the same on all."""

import numpy as np
import pytest

numba = pytest.importorskip("numba")

from isocapsnet.functional.kernels import _simd as simd  # noqa: E402


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("features", ["the machine's own", ""])
def test_look_up_finds_every_entry_on_machines_with_and_without_an_instruction_for_it(monkeypatch, dtype, features):
    if not features:
        codegen = type(numba.core.registry.cpu_target.target_context.codegen())
        monkeypatch.setattr(codegen, "magic_tuple", lambda self: ("any", "generic", ""))

    @numba.njit
    def look_up(table, indices, found):
        low, high = simd.load(table, 0), simd.load(table, 1)
        simd.store(found, 0, simd.look_up(low, high, simd.load_indices(indices, 0, table)))

    n = simd.VECTOR_BYTES // np.dtype(dtype).itemsize
    table, found = np.arange(2 * n).astype(dtype) / 3, np.zeros(n, dtype)
    for shift in range(2 * n):
        indices = ((7 * np.arange(n) + shift) % (2 * n)).astype(np.int32)
        look_up(table, indices, found)
        assert np.array_equal(found, table[indices])
