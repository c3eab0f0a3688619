"""Numpy's ``.npy`` layout, read without evaluating anything: the header is matched, not parsed as Python."""

import math
import re
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.datasets.isolation import DTYPE, ReadLimit

_MAGIC = b"\x93NUMPY"
_HEADER_BYTES = 1 << 16
_ITEM = (
    r"\s*'(?:descr'\s*:\s*'(?P<d{0}>[^']*)'|fortran_order'\s*:\s*(?P<o{0}>True|False)"
    r"|shape'\s*:\s*\((?P<s{0}>[\dL, ]*)\))\s*"
)
_HEADER = re.compile(r"\s*\{" + ",".join(_ITEM.format(i) for i in range(3)) + r",?\s*\}\s*")


class NpyHeader(NamedTuple):
    """What an ``.npy`` says about its array; ``n_bytes`` are those of the header itself."""

    dtype: "np.dtype[Any]"
    shape: tuple[int, ...]
    order: str
    n_bytes: int


def read_header(file: BinaryIO, file_bytes: int, where: str) -> NpyHeader:
    """Read the header of an array of numbers or texts, which must fill ``file_bytes``; refuse any other."""
    start = file.read(8)
    wide = start[6:7] in (b"\x02", b"\x03")
    length_bytes = file.read(4 if wide else 2)
    if start[:6] != _MAGIC or start[6:7] not in (b"\x01", b"\x02", b"\x03") or len(length_bytes) < (4 if wide else 2):
        raise InputError(f"{where} is not a numpy array; it is damaged or incomplete.")
    length = int.from_bytes(length_bytes, "little")
    text = file.read(min(length, _HEADER_BYTES))
    match = _HEADER.fullmatch(text.decode("latin-1")) if len(text) == length else None
    fields = {key[0]: value for key, value in match.groupdict().items() if value is not None} if match else {}
    if fields.keys() != {"d", "o", "s"}:
        kind = "pickled objects or records" if b"|O" in text or b"[(" in text else "an array that cannot be read"
        raise InputError(f"{where} holds {kind}; save numbers and texts only.")
    if not DTYPE.fullmatch(fields["d"]):
        raise InputError(f"{where} holds values of type {fields['d'][:20]!r}; save numbers and texts only.")
    try:
        dtype = np.dtype(fields["d"])
    except TypeError as error:
        raise InputError(f"{where} holds values of the unknown type {fields['d']!r}.") from error
    if len(fields["s"]) > 1000:
        raise InputError(f"{where} declares an impossible shape.")
    shape = tuple(int(part.strip("L ")) for part in fields["s"].split(",") if part.strip("L "))
    if len(shape) > 32 or max(shape, default=0) >= 1 << 62:
        raise InputError(f"{where} declares the impossible shape {fields['s'][:80]}.")
    n_bytes = len(start) + len(length_bytes) + length
    if n_bytes + (data_bytes := math.prod(shape) * dtype.itemsize) != file_bytes:
        raise InputError(f"{where} declares {data_bytes} bytes of data, but has another size; it is damaged.")
    return NpyHeader(dtype, shape, "F" if fields["o"] == "True" else "C", n_bytes)


def read_npy(file: BinaryIO, file_bytes: int, where: str, limit: ReadLimit) -> NDArray[Any]:
    """Read an array from a stream of ``file_bytes``, which it must fill."""
    header = read_header(file, file_bytes, where)
    limit.check(file_bytes - header.n_bytes, where)
    values = np.frombuffer(file.read(file_bytes - header.n_bytes), dtype=header.dtype)
    return values.reshape(header.shape, order=header.order)  # type: ignore[call-overload]


def read_npy_matrix(path: Path, limit: ReadLimit) -> tuple[NDArray[Any], None]:
    """The matrix of an ``.npy`` file, which does not name its nodes."""
    with path.open("rb") as file:
        matrix = read_npy(file, path.stat().st_size, path.name, limit)
    limit.take(matrix.nbytes, path.name)
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        how = "; if it has all subjects, give this file, not its folder" if matrix.ndim == 3 else ""
        what = f"holds {matrix.dtype} of shape {matrix.shape}; a matrix of numbers is needed"
        raise InputError(f"{path.name} {what}{how}.")
    return matrix, None
