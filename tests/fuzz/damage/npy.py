"""Damage to .npy files: headers that lie about what follows, and arrays that are not what the name promises."""

import ast
import io
import struct
from random import Random
from typing import Any

import numpy as np

from tests.fuzz.damage.plain import NUMBERS, damage_bytes

_DTYPES = (
    "'<f8'", "'>f8'", "'<f4'", "'<f2'", "'<f16'", "'<i8'", "'|i1'", "'<u8'", "'|b1'", "'<c16'", "'|O'", "'<U3'",
    "'>U1'", "'<U0'", "'|S5'", "'|S0'", "'|V8'", "'|V0'", "'<M8[D]'", "'<m8[ns]'", "'<M8'", "'<U2147483647'",
    "'|V1000000000'", "[('a', '<f8')]", "[('a', '<f8'), ('b', '|O')]", "[('a', '<f8', (1000000,))]", "[('', '<f8')]",
    "[]", "()", "None", "8", "'f8,f8'", "'float64'", "'no'", "''", "'\\x00'", "{'names': ['a'], 'formats': ['<f8']}",
    "b'<f8'", "('<f8', (3, 3))", "('<f8', {})", "[[('a', '<f8')]]", "'<f8' '<f8'", "'T'", "'<e'",
    "[('a', [('b', [('c', '<f8')])])]",
)  # fmt: skip
_SHAPES = (
    "()", "(0,)", "(1,)", "(-1,)", "(0, 0, 0)", "(4, 0, 0)", "(0, 5, 5)", "(-4, 5, 5)", "(9223372036854775807,)",
    "(2147483648, 2147483648)", "(4294967296, 4294967296, 1)", "(2**3,)", "(1e3,)", "(4.0, 5, 5)", "(True,)",
    "('4',)", "4", "[4, 5, 5]", "None", "(None,)", "(1000000000, 8)", "(100000, 100000)", "(46341, 46341)",
    "(-1, -1)", "(10**30,)", "(1" + "0" * 30 + ",)", "(" + "1, " * 33 + ")", "(" + "1, " * 65 + ")",
    "(" + "0, " * 20 + ")", "(0, 9223372036854775807)",
)  # fmt: skip
_HEADERS = (
    "", " ", "{", "}", "{}", "1", "[]", "None", "'a'", "{'descr': '<f8'}", "{'a': 1}",
    "__import__('os').system('touch canary')", "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), 'more': 1}",
    "(" * 9000, "[" * 300, "-" * 9000 + "1", "{**{}}", "\0",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }L", "x" * 20_000, "{'descr': (5L), ", "é", "'",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (4L, 5L, 5L), }", '"""', "{1: 2, 'descr': 3, b'shape': 4}",
    "9" * 9000,
)  # fmt: skip


def split_npy(content: bytes) -> tuple[dict[str, str], bytes]:
    """The header, its values as text, and the data behind it."""
    [size] = struct.unpack("<H", content[8:10])
    header = ast.literal_eval(content[10 : 10 + size].decode("latin-1"))
    return {key: repr(header[key]) for key in ("descr", "fortran_order", "shape")}, content[10 + size :]


def join_npy(header: str, data: bytes, version: tuple[int, int] = (1, 0), length: int | None = None) -> bytes:
    """The file of a header's text, whatever it says."""
    encoded = header.encode("utf-8", "replace")
    if version[0] == 1 and len(encoded) > 0xFFFF:
        version = (2, 0)
    size = len(encoded) if length is None else length
    counted = struct.pack("<H", size % 2**16) if version[0] == 1 else struct.pack("<I", size % 2**32)
    return b"\x93NUMPY" + bytes(version) + counted + encoded + data


def save_npy(array: Any) -> bytes:
    """What ``numpy.save`` writes, objects included."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


class _Call:
    """Pickles as a call that would leave a file where the driver looks for it."""

    def __reduce__(self) -> tuple[Any, ...]:
        import os

        return os.system, ("touch canary",)


def odd_array(rng: Random, n: int = 4) -> bytes:
    """An array that is valid, and wrong for nearly every purpose."""
    array = rng.choice(
        (
            lambda: np.float64(1.0),
            lambda: np.zeros(0),
            lambda: np.zeros((n, 1)),
            lambda: np.arange(n + rng.choice((-1, 0, 1))),
            lambda: np.full(n, rng.choice((np.nan, np.inf, 1e308, -1.0, 0.5))),
            lambda: np.full((n, 5, 5), rng.choice((np.nan, np.inf, 1e308, 1e-320))),
            lambda: np.zeros(
                (n, 5, rng.choice((4, 5, 6))), dtype=rng.choice(("f2", "f4", "i1", "u8", "c16", "?", ">f8"))
            ),
            lambda: np.array(["a", "b", "", "\x1b[31m"] * n)[:n],
            lambda: np.array(["same"] * n),
            lambda: np.array(["x" * 5000] * n),
            lambda: np.array([b"\xff\xfe", b"a"] * n)[:n],
            lambda: np.array([1, None, "x", [1, 2]] * n, dtype=object)[:n],
            lambda: np.array([_Call()], dtype=object),
            lambda: np.array(["2020-01-01", "NaT"] * n, dtype="M8[D]")[:n],
            lambda: np.array([1, 2] * n, dtype="m8[s]")[:n],
            lambda: np.zeros(n, dtype=[("a", "f8"), ("b", "U3")]),
            lambda: np.full(n, 2**63, dtype=np.uint64),
            lambda: np.full(n, -1),
            lambda: np.array([2**40, -5] * n)[:n],
            lambda: np.zeros((1,) * rng.choice((2, 5, 32))),
            lambda: np.asfortranarray(np.arange(25.0).reshape(5, 5)),
            lambda: np.arange(n, dtype=">i4"),
            lambda: np.arange(n, dtype=np.longdouble),
            lambda: np.frombuffer(rng.choice((b"{}", b"[]", b"null", b"{" * 2000, b"\xff")), dtype=np.uint8),
            lambda: np.array([0x110000, 0xD800, 65, 0x7FFFFFFF] * n, dtype="<u4")[:n].view("<U1"),
        )
    )()
    return save_npy(array)


def damage_npy(content: bytes, rng: Random) -> bytes:
    """An .npy file with another header over the same data, other data under the same header, or another array."""
    header, data = split_npy(content)
    version, length = (1, 0), None
    action = rng.randrange(12)
    if action < 3:
        header["shape"] = rng.choice(_SHAPES) if rng.random() < 0.7 else _other_shape(header["shape"], rng)
    elif action < 6:
        header["descr"] = rng.choice(_DTYPES)
    elif action == 6:
        header["fortran_order"] = rng.choice(("True", "1", "None", "'no'", "[]"))
    elif action == 7:
        version = rng.choice(((1, 0), (2, 0), (3, 0), (0, 0), (9, 9), (1, 9), (255, 255)))
    elif action == 8:
        length = rng.choice((*NUMBERS, len(str(header)) + rng.choice((-10, 10))))
    elif action == 9:
        return join_npy(rng.choice(_HEADERS), data, rng.choice(((1, 0), (2, 0), (3, 0))))
    elif action == 10:
        return odd_array(rng)
    else:
        data = rng.choice((b"", data[:-1], data + bytes(8), data * 2, b"\xff" * len(data), damage_bytes(data, rng)))
    items = [f"{key!r}: {value}" for key, value in header.items()]
    if rng.random() < 0.05:
        rng.choice((items.reverse, items.pop))()
    return join_npy("{" + ", ".join(items) + ", }\n", data, version, length)


def _other_shape(shape: str, rng: Random) -> str:
    """The shape with one number changed, or its numbers in another order."""
    sizes = list(ast.literal_eval(shape))
    if sizes:
        sizes[rng.randrange(len(sizes))] = rng.choice((0, 1, 2, 3, 7, *NUMBERS))
        rng.shuffle(sizes)
    return repr(tuple(sizes))
