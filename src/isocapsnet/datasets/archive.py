"""One ``.npz`` file that numpy reads and the operating system maps.

An npz is a zip of ``.npy`` members. When members are stored uncompressed and start at a multiple of 64 bytes, each
array can be mapped by its offset in the file, which ``numpy.load`` does not do by itself.
"""

import hashlib
import io
import os
import shutil
import struct
import time
import uuid
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import platformdirs
from numpy.lib import format as npy
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.datasets.formats.npy import read_header, read_npy
from isocapsnet.datasets.isolation import Parsed, ReadLimit, parse

_ALIGNMENT = 64
_LOCAL_HEADER_BYTES = 30
_ZIP64_EXTRA_BYTES = 20
# The identifier that other aligning zip writers use for padding, so that zip tools skip it.
_PADDING_FIELD = 0xD935
# Below this size reading is as cheap as mapping.
_MAPPED_BYTES = 1 << 20
# A compressed archive larger than this is unpacked into the cache once instead of into memory every time.
_COMPRESSED_IN_MEMORY_BYTES = 256 << 20
_LEFTOVER_SECONDS = 3600
# Between two members are extra fields and padding (at most 87 bytes) and a data descriptor (24); an array needs more.
_LARGEST_GAP = 128
#: Checksums that were right: of this member of a file with this inode, size and time of change.
_VERIFIED: set[tuple[int, ...]] = set()


def cache_folder() -> Path:
    """Where downloads and unpacked archives are kept: ``$ISOCAPSNET_CACHE`` or the platform's cache folder."""
    return Path(os.environ.get("ISOCAPSNET_CACHE") or platformdirs.user_cache_path("isocapsnet"))


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that replaces ``path`` only if the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("xb") as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_archive(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write named arrays as an uncompressed, aligned npz; equal arrays give equal files."""
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(_aligned_member(archive, name), "w", force_zip64=True) as member:
                npy.write_array(member, array, allow_pickle=False)


def read_archive(path: Path, limit: ReadLimit | None = None, *, own: bool = False) -> dict[str, NDArray[Any]]:
    """Read all arrays of an npz by name, large ones as read-only memory maps.

    With ``own``, a file that :func:`write_archive` did not write is refused: compressed arrays may be of any size.

    A large compressed archive is unpacked once into the cache folder and mapped there. The checksum of every member is
    verified; that of a mapped member when the file is first read after a change.
    """
    limit = limit or ReadLimit()
    arrays, facts = parse(parse_archive, path, limit, in_memory=_COMPRESSED_IN_MEMORY_BYTES, own=own)
    if facts["is_packed"]:
        twin = _unpacked(path, limit)
        try:
            return read_archive(twin, limit)
        except InputError:
            twin.unlink(missing_ok=True)
            raise
    for name, (dtype, shape, order, start) in facts["mapped"].items():
        arrays[name] = np.memmap(path, dtype=dtype, mode="r", offset=start, shape=tuple(shape), order=order)
    return {name: arrays[name] for name in facts["names"]}


def parse_archive(path: Path, limit: ReadLimit, *, in_memory: int, own: bool = False) -> Parsed:
    """The small arrays of an npz, and where in the file the large ones are; runs in the isolated process.

    ``is_packed`` says that more than ``in_memory`` bytes are compressed, and nothing was read.
    """
    with _open_zip(path) as archive:
        members = _list_members(path, archive)
        compressed = sum(info.file_size for info in members.values() if info.compress_type != zipfile.ZIP_STORED)
        if own and compressed:
            raise InputError(f"{path.name} has compressed arrays, which saved data never have; save the data again.")
        # A small file that expands a lot is read into memory, where the limit applies, and not written to disk.
        if compressed > in_memory and path.stat().st_size > in_memory // 8:
            return {}, {"is_packed": True}
        arrays, mapped = {}, {}
        for name, info in members.items():
            where = f"{path.name}: the array {name}"
            if info.compress_type == zipfile.ZIP_STORED and info.file_size >= _MAPPED_BYTES:
                mapped[name] = _locate(path, archive, info, where)
            else:
                limit.check(info.file_size, where)
                arrays[name] = read_npy(io.BytesIO(archive.read(info)), info.file_size, where, limit)
                limit.take(arrays[name].nbytes, where)
        return arrays, {"is_packed": False, "names": list(members), "mapped": mapped}


def unpack_archive(path: Path, limit: ReadLimit, *, target: str) -> Parsed:
    """Write the arrays of a compressed npz uncompressed to ``target``; runs in the isolated process."""
    with _open_zip(path) as archive, zipfile.ZipFile(target, "w") as unpacked:
        members = _list_members(path, archive)
        limit.check(sum(info.file_size for info in members.values()), path.name)
        for name, info in members.items():
            aligned = _aligned_member(unpacked, name)
            with archive.open(info) as source, unpacked.open(aligned, "w", force_zip64=True) as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
    return {}, {}


@contextmanager
def _open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise InputError(f"{path.name} is not a readable .npz file ({error}); it may be incomplete.") from error


def _list_members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The arrays of an archive by name; refuses what numpy does not write, and members that are not listed."""
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name == info.filename:
            raise InputError(f"{path.name} holds {name!r}, which is not an array; write the file again with numpy.")
        if name in members:
            raise InputError(f"{path.name} holds the array {name} twice; write the file again.")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
            raise InputError(f"{path.name}: the array {name} is encrypted or has a compression that numpy never uses.")
        members[name] = info
    listed = sorted(members.values(), key=lambda info: info.header_offset)
    starts = [*(info.header_offset for info in listed), archive.start_dir]
    ends = [0, *(i.header_offset + _LOCAL_HEADER_BYTES + len(i.filename) + i.compress_size for i in listed)]
    if any(start - end > _LARGEST_GAP for start, end in zip(starts, ends, strict=True)):
        raise InputError(f"{path.name} holds data that its directory does not list; the file is damaged.")
    return members


def _aligned_member(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    """A member whose data will start at a multiple of 64 bytes."""
    info = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
    start = archive.start_dir + _LOCAL_HEADER_BYTES + len(info.filename.encode()) + _ZIP64_EXTRA_BYTES + 4
    padding = -start % _ALIGNMENT
    info.extra = struct.pack("<HH", _PADDING_FIELD, padding) + bytes(padding)
    return info


def _locate(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, where: str) -> tuple[str, Any, str, int]:
    """Type, shape, memory order and offset of a member that can be mapped, once its checksum is right."""
    with path.open("rb") as file:
        state = os.fstat(file.fileno())
        file.seek(info.header_offset + 26)
        start = info.header_offset + _LOCAL_HEADER_BYTES + sum(struct.unpack("<HH", file.read(4)))
    key = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, start, info.file_size, info.CRC)
    with archive.open(info) as member:
        header = read_header(member, info.file_size, where)  # type: ignore[arg-type]
        try:
            while key not in _VERIFIED and member.read(1 << 20):
                pass  # zipfile compares the checksum when the last block is read
        except zipfile.BadZipFile as error:
            what = "does not match its checksum; the file is damaged, so copy or convert it again"
            raise InputError(f"{where} {what}.") from error
    _VERIFIED.add(key)
    return header.dtype.str, header.shape, header.order, start + header.n_bytes


def _unpacked(path: Path, limit: ReadLimit) -> Path:
    """The uncompressed copy of a compressed archive, written into the cache on first use."""
    with path.open("rb") as compressed:
        digest = hashlib.file_digest(compressed, "sha256").hexdigest()
    twin = cache_folder() / "unpacked" / f"{digest}.npz"
    # Left by a killed process; a younger file may belong to a running process.
    for leftover in twin.parent.glob(".*.npz.*"):
        with suppress(OSError):
            if time.time() - leftover.stat().st_mtime > _LEFTOVER_SECONDS:
                leftover.unlink()
    if not twin.exists():
        with replacing(twin) as file:
            parse(unpack_archive, path, limit, target=file.name)
    return twin
