"""Damage to MATLAB files of version 5: elements are taken apart, changed and written again with lengths that fit."""

import struct
import zlib
from collections.abc import Callable
from random import Random

from tests.fuzz.damage.plain import NUMBERS, damage_bytes
from tests.fuzz.damage.zips import zeros_deflated

_HEADER_BYTES = 128
_INT8, _UINT8, _INT32, _UINT32, _DOUBLE, _MATRIX, _COMPRESSED, _UTF8 = 1, 2, 5, 6, 9, 14, 15, 16
_CELL, _STRUCT, _OBJECT, _CHAR, _SPARSE, _DOUBLE_CLASS, _FUNCTION, _OPAQUE = 1, 2, 3, 4, 5, 6, 16, 17


def element(kind: int, payload: bytes) -> bytes:
    """Tag, payload, padding to eight bytes."""
    return struct.pack("<II", kind, len(payload)) + payload + bytes(-len(payload) % 8)


def matrix(kind: int, dims: tuple[int, ...], name: bytes, *parts: bytes, flags: int = 0, room: int = 0) -> bytes:
    """A variable: flags, dimensions, name and what its class needs."""
    head = element(_UINT32, struct.pack("<II", kind | flags << 8, room))
    sizes = element(_INT32, struct.pack(f"<{len(dims)}i", *dims))
    return element(_MATRIX, head + sizes + element(_INT8, name) + b"".join(parts))


def doubles(name: bytes, dims: tuple[int, ...], n_values: int) -> bytes:
    return matrix(_DOUBLE_CLASS, dims, name, element(_DOUBLE, bytes(8 * n_values)))


def split(content: bytes) -> tuple[bytes, list[bytes]]:
    """The file's header and its variables, unpacked."""
    variables, place = [], _HEADER_BYTES
    while place + 8 <= len(content):
        kind, size = struct.unpack("<II", content[place : place + 8])
        payload = content[place + 8 : place + 8 + size]
        if kind == _COMPRESSED:
            variables.append(zlib.decompress(payload))
            place += 8 + size
        else:
            variables.append(content[place : place + 8 + size + -size % 8])
            place += 8 + size + -size % 8
    return content[:_HEADER_BYTES], variables


def _tags(variable: bytes) -> list[int]:
    """Where the tags inside a variable are, those of cells' and structs' contents included."""
    places, waiting = [], [(8, len(variable))]
    while waiting and len(places) < 500:
        place, end = waiting.pop()
        while place + 8 <= end:
            kind, size = struct.unpack("<II", variable[place : place + 8])
            places.append(place)
            if kind >> 16:  # a small element: the payload is in the tag
                place += 8
                continue
            if kind == _MATRIX:
                waiting.append((place + 8, min(end, place + 8 + size)))
            place += 8 + size + -size % 8
    return [0, *places]


def _change_tag(variable: bytes, rng: Random) -> bytes:
    """Another type or size in one tag."""
    data, place = bytearray(variable), rng.choice(_tags(variable))
    if rng.random() < 0.5:
        data[place : place + 4] = struct.pack("<I", rng.choice((*range(20), 0x10002, 0x40005, 0x80006, 2**31)))
    else:
        [size] = struct.unpack("<I", data[place + 4 : place + 8])
        new = rng.choice((*NUMBERS, size + rng.choice((-8, -1, 1, 8)))) % 2**32
        data[place + 4 : place + 8] = struct.pack("<I", new)
    return bytes(data)


def _change_flags(variable: bytes, rng: Random) -> bytes:
    """Another class, or a part that is not there announced: imaginary values, logical, room for a sparse matrix."""
    data = bytearray(variable)
    data[16 + rng.randrange(2)] = rng.choice((*range(20), 0x08, 0x02, 0x0A, 0xFF))
    if rng.random() < 0.3:
        data[20:24] = struct.pack("<I", rng.choice(NUMBERS) % 2**32)
    return bytes(data)


def _change_dims(variable: bytes, rng: Random) -> bytes:
    data = bytearray(variable)
    [size] = struct.unpack("<I", data[28:32])
    if 4 <= size <= 64 and 32 + size <= len(data):
        place = 32 + 4 * rng.randrange(size // 4)
        data[place : place + 4] = struct.pack("<I", rng.choice((0, 1, 3, 46341, 10**5, 10**9, *NUMBERS)) % 2**32)
    return bytes(data)


def _change_bytes(variable: bytes, rng: Random) -> bytes:
    return damage_bytes(variable, rng)


def _replace(variable: bytes, rng: Random) -> bytes:
    """A variable of another make: sparse, object, function, opaque, nested, empty, huge."""
    name = rng.choice(
        (b"adjacency", b"labels", b"subjects", b"data", b"__globals__", b"", b"a" * 100, b"\xff", b"\x1b[31m")
    )
    number = rng.choice(NUMBERS) % 2**31
    index = element(_INT32, struct.pack("<4i", 0, rng.choice((1, -1, 2**30)), 2, 3))
    deep = doubles(b"", (1, 1), 1)
    for _ in range(rng.choice((2, 30, 300))):
        deep = matrix(_CELL, (1, 1), b"", deep)
    fields = element(_INT32, struct.pack("<i", rng.choice((8, 0, -1, 2**31 - 1)))) + element(_INT8, b"field\0\0\0")
    return rng.choice(
        (
            matrix(_SPARSE, (5, 5), name, index, index, element(_DOUBLE, bytes(32)), room=number),
            matrix(_SPARSE, (number, 2), name, index, index, element(_DOUBLE, bytes(32)), room=4),
            matrix(_CELL, (number, 1), name, deep),
            matrix(_CELL, (1, 1), name, deep),
            matrix(_STRUCT, (1, 1), name, fields, deep),
            matrix(_STRUCT, (number, 1), name, fields),
            matrix(_OBJECT, (1, 1), name, element(_INT8, b"cls"), fields, deep),
            matrix(_CHAR, (2, 4), name, element(rng.choice((_UTF8, 17, 18, _UINT8, 4)), b"\xff\xfe\x00\xd8abcd")),
            matrix(_CHAR, (number, 4), name, element(_UTF8, b"abcd")),
            matrix(_FUNCTION, (1, 1), name, deep),
            matrix(_OPAQUE, (1, 1), name, element(_INT8, b"MCOS"), element(_INT8, b"string"), deep),
            doubles(name, (number, number), 4),
            doubles(name, (0, 0), 0),
            doubles(name, (-1, -1, 4), 4),
            doubles(name, (1,) * rng.choice((1, 33, 70)), 1),
            doubles(name, (5, 5, 4), rng.choice((1, 99, 101))),
            element(_MATRIX, b""),
            b"",
        )
    )


_MUTATORS: tuple[Callable[[bytes, Random], bytes], ...] = (
    _change_tag, _change_tag, _change_tag, _change_flags, _change_flags, _change_dims, _change_dims, _change_bytes,
    _change_bytes, _replace, _replace,
)  # fmt: skip


def _version_4(rng: Random) -> bytes:
    """A file of MATLAB 4, which has no header but a type, sizes and a name."""
    kind = rng.choice((0, 10, 20, 30, 40, 50, 1, 2, 51, 52, 1000, 4000, 99))
    rows, columns, imaginary, length = (
        rng.choice((n, n, rng.choice(NUMBERS) % 2**32)) for n in (5, 5, rng.randrange(2), 5)
    )
    return struct.pack("<IIIII", kind, rows, columns, imaginary, length) + b"data\0" + bytes(8 * 50)


def _bomb() -> bytes:
    """Three gigabytes of zeros in one compressed variable that says it has them."""
    start = zlib.compressobj(9, zlib.DEFLATED, 15)
    size = 3 << 30
    head = doubles(b"adjacency", (11585, 11585, 3), 0)
    head = struct.pack("<II", _MATRIX, size % 2**32) + head[8:-8] + struct.pack("<II", _DOUBLE, 3 * 11585**2 * 8)
    packed = start.compress(head) + start.flush(zlib.Z_FULL_FLUSH) + zeros_deflated()
    return struct.pack("<II", _COMPRESSED, len(packed)) + packed


def damage_mat5(content: bytes, rng: Random) -> bytes:
    """A .mat file put together again after one to three changes to its variables."""
    if rng.random() < 0.04:
        return _version_4(rng)
    header, variables = split(content)
    for _ in range(rng.choice((1, 1, 2, 3))):
        i = rng.randrange(len(variables))
        if len(variables[i]) > 40:
            variables[i] = rng.choice(_MUTATORS)(variables[i], rng)
    if rng.random() < 0.1:
        rng.choice((rng.shuffle, lambda v: v.append(v[0]), lambda v: v.pop()))(variables)
    if rng.random() < 0.03:
        header = damage_bytes(header, rng)
    if rng.random() < 0.003:
        return header + _bomb()
    return header + b"".join(_compress(v, rng) if rng.random() < 0.4 else v for v in variables)


def _compress(variable: bytes, rng: Random) -> bytes:
    """A compressed element; now and then its stream is cut, has more behind it, or is wrapped again."""
    packed = zlib.compress(variable)
    if rng.random() < 0.15:
        packed = rng.choice((packed[:-5], packed + b"more", damage_bytes(packed, rng)))
    whole = struct.pack("<II", _COMPRESSED, len(packed)) + packed
    return _compress(whole, rng) if rng.random() < 0.02 else whole
