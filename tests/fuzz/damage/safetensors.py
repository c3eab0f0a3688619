"""Damage to model files: the header, the JSON in it and the tensors, with a digest that is made again to fit."""

import json
import struct
from random import Random
from typing import Any

import numpy as np

from tests.fuzz.damage.plain import NUMBERS
from tests.fuzz.damage.trees import as_json, damage_tree

_TYPES = ("F64", "F32", "F16", "BF16", "I64", "I32", "I8", "U8", "BOOL", "F8_E4M3", "C64", "U64", "X", "", None, 3)
_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1", "U8": "|u1",
    "U16": "<u2", "U32": "<u4", "U64": "<u8", "BOOL": "|b1",
}  # fmt: skip


def split_model(content: bytes) -> tuple[dict[str, Any], bytes]:
    """The JSON header and the bytes behind it."""
    [size] = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def join_model(header: Any, data: bytes, *, size: int | None = None, text: str | None = None) -> bytes:
    encoded = (json.dumps(header) if text is None else text).encode("utf-8", "surrogatepass")
    return struct.pack("<Q", (len(encoded) if size is None else size) % 2**64) + encoded + data


def read_model(content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What isocapsnet keeps in a model file: the JSON in its header, and the arrays."""
    header, data = split_model(content)
    arrays = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start, stop = entry["data_offsets"]
            arrays[name] = np.frombuffer(data[start:stop], _DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return json.loads(header["__metadata__"]["isocapsnet"]), arrays


def write_model(text: str, arrays: dict[str, np.ndarray]) -> bytes:
    """A model file of this JSON and these arrays, with their digest."""
    from isocapsnet.models._persistence import _digest  # imports torch, which other formats need not wait for

    names = {np.dtype(kind).str: name for name, kind in _DTYPES.items()}
    header: dict[str, Any] = {}
    data = b""
    for name, array in arrays.items():
        start, data = len(data), data + array.tobytes()
        header[name] = {"dtype": names[array.dtype.str], "shape": array.shape, "data_offsets": [start, len(data)]}
    try:
        digest = _digest(json.loads(text), arrays)
    except (ValueError, RecursionError, UnicodeEncodeError):  # no longer JSON that can be read
        digest = "0" * 64
    header["__metadata__"] = {"isocapsnet": text, "sha256": digest}
    return join_model(header, data)


def _change_sizes(content: dict[str, Any], rng: Random) -> None:
    """A number among what was fitted, the parameters or the number of nodes that promises far more than there is."""
    number = rng.choice((0, -1, 1, 3, 6, 1000, 10**5, 10**7, 2**31, 2**63, 1e9, 0.5, True, "5", None))
    places: list[tuple[Any, Any]] = [("n_nodes", content)]
    for part in ("parameters", "values"):
        places += [(1, pair) for pair in content[part].get("dict", ())]
    key, container = rng.choice(places)
    container[key] = number if rng.random() < 0.8 else {"tuple": [number] * rng.choice((1, 2, 3))}


def _change_arrays(arrays: dict[str, np.ndarray], rng: Random) -> None:
    """Tensors lost, renamed, of another shape or type, or full of values that no fit gives."""
    if not arrays:
        arrays["extra"] = np.zeros(3)
    name = rng.choice(list(arrays))
    array = arrays.pop(name)
    is_float = array.dtype.kind == "f"
    action = rng.randrange(6)
    if action == 0:
        return
    if action == 1:
        name = rng.choice(("extra", "", f"{name}2", *arrays))
    elif action == 2:
        array = rng.choice((array.ravel(), array[None], np.zeros((0, 7)), array.T.copy(), np.ones((), np.float32)))
    elif action == 3:
        array = rng.choice((array.astype(rng.choice(list(_DTYPES.values()))), np.concatenate([array.ravel()] * 2)))
    elif action == 4:
        array = np.full_like(array, rng.choice((np.nan, np.inf, 1e38, -1, 0))) if is_float else ~array
    elif array.size:
        array = array.copy()
        array.flat[rng.randrange(array.size)] = rng.choice((np.nan, 1e30, 0, -1)) if is_float else 2
    arrays[name] = array


def _change_header(header: dict[str, Any], data: bytes, rng: Random) -> bytes:
    """The safetensors header itself: types, shapes, offsets, its length."""
    names = [name for name in header if name != "__metadata__"]
    action = rng.randrange(6)
    if action == 0 or not names:
        return join_model(damage_tree(header, rng), data)
    entry = header[rng.choice(names)]
    if action == 1:
        entry["dtype"] = rng.choice(_TYPES)
    elif action == 2:
        entry["shape"] = rng.choice(([], [0], [-1], [2**32, 2**32], [2**63], [10**12], [1] * 100, None, [1.5]))
    elif action == 3:
        entry["data_offsets"] = rng.choice(([0, 0], [0, 2**63], [8, 0], [-8, 8], [0], None, [0, len(data) + 8]))
    elif action == 4:
        return join_model(header, data, size=rng.choice((*NUMBERS, 100_000_001)))
    else:
        return join_model(header, data, text=as_json(header, rng) + " " * rng.choice((0, 8, 100_000)))
    return join_model(header, data)


def damage_model(content: bytes, rng: Random) -> bytes:
    """A model file whose content was changed by somebody who knows how its digest is made."""
    header, data = split_model(content)
    if rng.random() < 0.2:
        return _change_header(header, data, rng)
    known, arrays = read_model(content)
    what = rng.choice(
        ("content", "content", "sizes", "sizes", "arrays", "arrays", "sizes and content", "arrays and sizes")
    )
    if "arrays" in what:
        _change_arrays(arrays, rng)
    if "sizes" in what:
        _change_sizes(known, rng)
    if "content" in what:
        known = damage_tree(known, rng)
    return write_model(as_json(known, rng), arrays)
