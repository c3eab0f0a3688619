"""Damage that knows nothing of a format: bits flipped, parts cut, repeated or swapped, numbers set to bad values."""

from collections.abc import Callable
from random import Random

#: Where counts, sizes and offsets go wrong.
NUMBERS = (0, 1, 2, 127, 128, 255, 256, 2**15 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, -1)
_EDGE = 512
_MOST_INSERTED = 4096


def _place(data: bytes | bytearray, rng: Random) -> int:
    """A position, as often near an end as anywhere: headers and directories are there."""
    size = len(data)
    return rng.choice((rng.randrange(size), rng.randrange(min(size, _EDGE)), max(0, size - 1 - rng.randrange(_EDGE))))


def _flip(data: bytearray, rng: Random) -> None:
    for _ in range(rng.choice((1, 1, 1, 2, 8, 64))):
        data[_place(data, rng)] ^= 1 << rng.randrange(8)


def _overwrite(data: bytearray, rng: Random) -> None:
    start = _place(data, rng)
    for position in range(start, min(len(data), start + rng.choice((1, 1, 2, 4, 16)))):
        data[position] = rng.choice((0, 0xFF, rng.randrange(256)))


def _cut(data: bytearray, rng: Random) -> None:
    start = _place(data, rng)
    stop = rng.choice((start + 1, start + rng.randrange(1, 64), len(data)))
    del data[start:stop]


def _cut_front(data: bytearray, rng: Random) -> None:
    del data[: rng.randrange(1, min(len(data), 600) + 1)]


def _insert(data: bytearray, rng: Random) -> None:
    start = _place(data, rng)
    data[start:start] = rng.choice((rng.randbytes(rng.randrange(1, 32)), bytes(rng.randrange(1, _MOST_INSERTED))))


def _repeat(data: bytearray, rng: Random) -> None:
    start = _place(data, rng)
    block = data[start : start + rng.randrange(1, 256)]
    data[start:start] = block * rng.choice((1, 1, 2, 16))


def _move(data: bytearray, rng: Random) -> None:
    start = _place(data, rng)
    stop = start + rng.randrange(1, 128)
    block = data[start:stop]
    del data[start:stop]
    target = rng.randrange(len(data) + 1)
    data[target:target] = block


def _copy_over(data: bytearray, rng: Random) -> None:
    source, target = _place(data, rng), _place(data, rng)
    block = data[source : source + rng.randrange(1, 64)]
    data[target : target + len(block)] = block


def _set_number(data: bytearray, rng: Random) -> None:
    size = rng.choice((1, 2, 4, 8))
    start = _place(data, rng)
    number = rng.choice(NUMBERS) % (1 << 8 * size)
    data[start : start + size] = number.to_bytes(size, rng.choice(("little", "big")))


def _change_number(data: bytearray, rng: Random) -> None:
    """What is a count or a size somewhere becomes a little larger or smaller."""
    start = _place(data, rng)
    data[start] = (data[start] + rng.choice((-8, -2, -1, 1, 2, 8))) % 256


def _become_something_else(data: bytearray, rng: Random) -> None:
    data[:] = rng.choice((b"", b"\0", bytes(64), rng.randbytes(200), b"PK\x05\x06" + bytes(18), b"\x93NUMPY", b"{}"))


_MUTATORS: tuple[Callable[[bytearray, Random], None], ...] = (
    _flip, _flip, _overwrite, _overwrite, _cut, _cut_front, _insert, _repeat, _move, _copy_over, _set_number,
    _set_number, _change_number, _change_number,
)  # fmt: skip


def damage_bytes(content: bytes, rng: Random) -> bytes:
    """The content after one to four random operations."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if not data or rng.random() < 0.01:
            _become_something_else(data, rng)
        else:
            rng.choice(_MUTATORS)(data, rng)
    return bytes(data)
