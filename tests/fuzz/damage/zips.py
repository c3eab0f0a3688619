"""Damage to .npz files: the zip is taken apart and written again, with members, sizes and methods that do not fit."""

import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from tests.fuzz.damage.npy import damage_npy, join_npy, odd_array, split_npy
from tests.fuzz.damage.plain import NUMBERS, damage_bytes
from tests.fuzz.damage.trees import damage_json

_STORED, _DEFLATED, _BZIP2, _LZMA = 0, 8, 12, 14
_KEYS = (
    b"adjacency", b"labels", b"subjects", b"sites", b"metadata", b"node_names", b"coordinates", b"time_series",
    b"time_series_lengths", b"test_index_fold_1", b"covariates/age", b"covariates/", b"age", b"templates", b"", b"y",
)  # fmt: skip
_NAMES = (
    b"../../canary.npy", b"/canary.npy", b"..\\canary.npy", b"a/b/c.npy", b"\0.npy", b".npy", b"x" * 60_000 + b".npy",
    b"\xff\xfe.npy", b"adjacency.npy/", b"ADJACENCY.NPY", b"adjacency.npy.npy", b"adjacency", b"\x1b[31m.npy",
    b"con.npy", b"a\nb.npy", b"\xe2\x80\xae.npy",
)  # fmt: skip
#: Bytes that a bomb unpacks to: more than the 2 GB that a process may take.
_BOMB_BYTES = 3 << 30


@dataclass
class Member:
    """A member of a zip; what is None follows from the content, and anything else is written as it is."""

    name: bytes
    content: bytes
    method: int = _STORED
    flags: int = 0
    extra: bytes = b""
    packed: bytes | None = None
    crc: int | None = None
    size: int | None = None
    packed_size: int | None = None
    offset: int | None = None
    local_name: bytes | None = None
    is_whole: bool = False


def unpack(content: bytes) -> list[Member]:
    """The members of a valid zip."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return [
            Member(i.filename.encode(), archive.read(i), i.compress_type, is_whole=True) for i in archive.infolist()
        ]


def pack(members: list[Member], *, head: bytes = b"", comment: bytes = b"") -> bytes:
    """A zip of these members, however little sense they make."""
    body, directory = bytearray(head), bytearray()
    for member in members:
        packed = _compress(member) if member.packed is None else member.packed
        offset = len(body) if member.offset is None else member.offset
        crc = zlib.crc32(member.content) if member.crc is None else member.crc
        size = len(member.content) if member.size is None else member.size
        packed_size = len(packed) if member.packed_size is None else member.packed_size
        extra = member.extra
        if max(size, packed_size) >= 2**32 - 1:
            extra += struct.pack("<HHQQ", 1, 16, size % 2**64, packed_size % 2**64)
            size = packed_size = 2**32 - 1
        local_name = member.name if member.local_name is None else member.local_name
        numbers = struct.pack("<HHHHIII", member.flags, member.method, 0, 0x21, crc, packed_size, size)
        lengths = struct.pack("<H", len(extra))
        body += (
            b"PK\x03\x04\x14\0" + numbers + struct.pack("<H", len(local_name)) + lengths + local_name + extra + packed
        )
        directory += b"PK\x01\x02\x14\x03\x14\0" + numbers + struct.pack("<H", len(member.name)) + lengths
        directory += struct.pack("<HHHII", 0, 0, 0, 0, offset % 2**32) + member.name + extra
    counts = struct.pack("<HHHHII", 0, 0, len(members), len(members), len(directory), len(body) - len(head))
    return bytes(body + directory + b"PK\x05\x06" + counts + struct.pack("<H", len(comment)) + comment)


def _compress(member: Member) -> bytes:
    if member.method not in (_DEFLATED, _BZIP2, _LZMA):
        return member.content
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", member.method) as archive:
        archive.writestr("x", member.content)
    start = 30 + 1
    return buffer.getvalue()[start : start + archive.infolist()[0].compress_size]


@lru_cache(maxsize=1)
def zeros_deflated(n_bytes: int = _BOMB_BYTES) -> bytes:
    """Zeros as a deflate stream, a thousandth of their size, put together from one compressed megabyte."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = compressor.compress(bytes(1 << 20)) + compressor.flush(zlib.Z_FULL_FLUSH)
    return block * (n_bytes >> 20) + compressor.flush()


Members = list[Member]


def _change_content(members: Members, rng: Random) -> None:
    """An array that nothing was done to yet is damaged."""
    if whole := [member for member in members if member.is_whole]:
        member = rng.choice(whole)
        member.content, member.is_whole = damage_npy(member.content, rng), False


def _break_content(members: Members, rng: Random) -> None:
    member = rng.choice(members)
    member.content, member.is_whole = damage_bytes(member.content, rng), False


def _change_metadata(members: Members, rng: Random) -> None:
    """JSON kept as bytes, as in the files that BrainGraphs.save writes."""
    for member in members:
        if member.is_whole and split_npy(member.content)[1].startswith(b"{"):
            text = damage_json(split_npy(member.content)[1], rng)
            header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({len(text)},), }}\n"
            member.content, member.is_whole = join_npy(header, text), False
            return
    _change_content(members, rng)


def _replace(members: Members, rng: Random) -> None:
    member = rng.choice(members)
    member.content, member.is_whole = odd_array(rng), False


def _duplicate(members: Members, rng: Random) -> None:
    member = rng.choice(members)
    content = rng.choice((member.content, odd_array(rng), damage_bytes(member.content, rng)))
    members.insert(rng.randrange(len(members) + 1), Member(member.name, content, member.method))


def _remove(members: Members, rng: Random) -> None:
    del members[rng.randrange(len(members))]


def _exchange(members: Members, rng: Random) -> None:
    first, second = rng.choice(members), rng.choice(members)
    first.name, second.name = second.name, first.name


def _rename(members: Members, rng: Random) -> None:
    rng.choice(members).name = rng.choice(_NAMES) if rng.random() < 0.5 else rng.choice(_KEYS) + b".npy"


def _add(members: Members, rng: Random) -> None:
    name = rng.choice(_NAMES) if rng.random() < 0.3 else rng.choice(_KEYS) + b".npy"
    members.insert(rng.randrange(len(members) + 1), Member(name, odd_array(rng)))


def _compress_anew(members: Members, rng: Random) -> None:
    method = rng.choice((_DEFLATED, _BZIP2, _LZMA))
    for member in members if rng.random() < 0.5 else [rng.choice(members)]:
        member.method = method
    if rng.random() < 0.5:
        member = rng.choice(members)
        member.packed = damage_bytes(_compress(member), rng)


def _name_another_method(members: Members, rng: Random) -> None:
    member = rng.choice(members)
    member.packed = _compress(member)
    member.method = rng.choice((_STORED, 1, 6, _DEFLATED, 9, _BZIP2, _LZMA, 93, 95, 98, 99, 0xFFFF))


def _set_flags(members: Members, rng: Random) -> None:
    rng.choice(members).flags = rng.choice((0x1, 0x8, 0x9, 0x20, 0x40, 0x41, 0x800, 0x2000, 0xFFFF))


def _lie_about_size(members: Members, rng: Random) -> None:
    member = rng.choice(members)
    number = rng.choice((*NUMBERS, len(member.content) + rng.choice((-9, -1, 1, 64)), 300 << 20, 1 << 40)) % 2**64
    setattr(member, rng.choice(("size", "size", "packed_size")), number)


def _lie_about_place(members: Members, rng: Random) -> None:
    rng.choice(members).offset = rng.choice((*NUMBERS, 30, 64)) % 2**32


def _lie_about_crc(members: Members, rng: Random) -> None:
    rng.choice(members).crc = rng.getrandbits(32)


def _lie_in_local_header(members: Members, rng: Random) -> None:
    rng.choice(members).local_name = rng.choice((b"", b"other.npy", *_NAMES))


def _add_extra(members: Members, rng: Random) -> None:
    """Extra fields: zip64 with sizes missing or absurd, another name in Unicode, padding, rubbish."""
    rng.choice(members).extra = rng.choice(
        (
            struct.pack("<HH", 1, 0),
            struct.pack("<HHQ", 1, 8, 2**63),
            struct.pack("<HHQQ", 1, 16, 2**64 - 1, 2**64 - 1),
            struct.pack("<HHBI", 0x7075, 9, 1, 0) + b"labels.npy",
            struct.pack("<HH", 0xD935, 0xFFFF),
            rng.randbytes(rng.randrange(1, 40)),
        )
    )


def _bomb(members: Members, rng: Random) -> None:
    """A member of zeros, declared as it is or as something small."""
    if rng.random() > 0.03:
        _change_content(members, rng)
        return
    shape = rng.choice(("(3, 11585, 11585)", f"({_BOMB_BYTES // 8},)", "(4, 5, 5)"))
    header = join_npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n", b"")
    start = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = start.compress(header) + start.flush(zlib.Z_FULL_FLUSH) + zeros_deflated()
    size = rng.choice((len(header) + _BOMB_BYTES, len(header) + _BOMB_BYTES, 328, 255 << 20))
    crc = rng.getrandbits(32)
    member = Member(rng.choice(members).name, b"", _DEFLATED, packed=packed, size=size, crc=crc)
    members[:] = [member, *(other for other in members if other.name != member.name)]


_MUTATORS: tuple[Callable[[Members, Random], None], ...] = (
    _change_content, _change_content, _change_content, _change_content, _break_content, _change_metadata,
    _change_metadata, _replace, _replace, _duplicate, _remove, _exchange, _rename, _add, _compress_anew,
    _name_another_method, _set_flags, _lie_about_size, _lie_about_place, _lie_about_crc, _lie_in_local_header,
    _add_extra, _bomb,
)  # fmt: skip


def damage_zip(content: bytes, rng: Random) -> bytes:
    """An .npz put together again after one to three changes to its members."""
    members = unpack(content)
    for _ in range(rng.choice((1, 1, 2, 3))):
        if members:
            rng.choice(_MUTATORS)(members, rng)
    if rng.random() < 0.95:
        return pack(members)
    return pack(members, head=rng.choice((b"", b"junk", bytes(600))), comment=rng.choice((b"", b"c", bytes(60_000))))
