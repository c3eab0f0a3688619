"""One ``.npz`` file that numpy reads and the operating system maps.

An npz is a zip of ``.npy`` members. When members are stored uncompressed and start at a multiple of 64 bytes, each
array can be mapped by its offset in the file, which ``numpy.load`` does not do by itself.
"""

import hashlib
import os
import shutil
import struct
import uuid
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import platformdirs
from numpy.lib import format as npy
from numpy.typing import NDArray

from isocapsnet._validation import InputError

_ALIGNMENT = 64
_LOCAL_HEADER_BYTES = 30
_ZIP64_EXTRA_BYTES = 20
# The identifier that other aligning zip writers use for padding, so that zip tools skip it.
_PADDING_FIELD = 0xD935
# Below this size reading is as cheap as mapping.
_MAPPED_BYTES = 1 << 20
# A compressed archive larger than this is unpacked into the cache once instead of into memory every time.
_COMPRESSED_IN_MEMORY_BYTES = 256 << 20


def cache_folder() -> Path:
    """Where downloads and unpacked archives are kept: ``$ISOCAPSNET_CACHE`` or the platform's cache folder."""
    return Path(os.environ.get("ISOCAPSNET_CACHE") or platformdirs.user_cache_path("isocapsnet"))


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes the place of ``path`` only when the block ends without an error."""
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


def read_archive(path: Path) -> dict[str, NDArray[Any]]:
    """Read all arrays of an npz by name, large ones as read-only memory maps.

    A large compressed archive is unpacked once into the cache folder and mapped there.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
            compressed = sum(info.file_size for info in members if info.compress_type != zipfile.ZIP_STORED)
            if compressed > _COMPRESSED_IN_MEMORY_BYTES:
                return read_archive(_unpacked(path, archive, members))
            return {info.filename.removesuffix(".npy"): _read_member(path, archive, info) for info in members}
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise InputError(f"{path.name} is not a readable .npz file ({error}); it may be incomplete.") from error


def _aligned_member(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    """A member whose data will start at a multiple of 64 bytes."""
    info = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
    start = archive.start_dir + _LOCAL_HEADER_BYTES + len(info.filename.encode()) + _ZIP64_EXTRA_BYTES + 4
    padding = -start % _ALIGNMENT
    info.extra = struct.pack("<HH", _PADDING_FIELD, padding) + bytes(padding)
    return info


def _read_member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    try:
        return _read_or_map(path, archive, info)
    except (ValueError, MemoryError) as error:
        raise InputError(
            f"{path.name}: the array {info.filename.removesuffix('.npy')} cannot be read ({error}); "
            "save numbers and texts only, without pickled objects."
        ) from error


def _read_or_map(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(info) as member:
        if info.compress_type != zipfile.ZIP_STORED or info.file_size < _MAPPED_BYTES:
            return npy.read_array(member, allow_pickle=False)
        version = npy.read_magic(member)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, is_fortran, dtype = read_header(member)
        header_bytes = member.tell()
    if dtype.hasobject:
        raise ValueError("object array")
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        name_bytes, extra_bytes = struct.unpack("<HH", file.read(4))
    start = info.header_offset + _LOCAL_HEADER_BYTES + name_bytes + extra_bytes + header_bytes
    return np.memmap(path, dtype=dtype, mode="r", offset=start, shape=shape, order="F" if is_fortran else "C")


def _unpacked(path: Path, archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> Path:
    """The uncompressed twin of a compressed archive, written into the cache on first use."""
    with path.open("rb") as compressed:
        digest = hashlib.file_digest(compressed, "sha256").hexdigest()
    twin = cache_folder() / "unpacked" / f"{digest}.npz"
    if not twin.exists():
        with replacing(twin) as file, zipfile.ZipFile(file, "w") as unpacked:
            for info in members:
                aligned = _aligned_member(unpacked, info.filename.removesuffix(".npy"))
                with archive.open(info) as source, unpacked.open(aligned, "w", force_zip64=True) as target:
                    shutil.copyfileobj(source, target, 1 << 20)
    return twin
