"""Damage to HDF5: datasets, attributes and links that h5py writes without complaint and a reader does not expect."""

import io
from collections.abc import Callable
from random import Random
from typing import Any

import h5py
import numpy as np

from tests.fuzz.damage.plain import damage_bytes

_CLASSES = ("cell", "char", "double", "struct", "logical", "function_handle", "", "\0", "int8", "x" * 3000)
_NAMES = ("adjacency", "labels", "subjects", "sites", "node_names", "age", "#refs#", "#subsystem#", "test_index_fold_1")


def _datasets(file: Any) -> list[str]:
    names: list[str] = []
    file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    return names


def _pick(file: Any, rng: Random) -> str:
    """A dataset, as often one of those at the top as any."""
    names = _datasets(file)
    top = [name for name in names if "/" not in name] or names
    return rng.choice((rng.choice(names), rng.choice(top))) if names else ""


def _put(file: Any, name: str, **how: Any) -> Any:
    """Create a dataset where another may be, with the attributes of the old one."""
    attributes = dict(file[name].attrs) if name in file and isinstance(file[name], h5py.Dataset) else {}
    _delete_if_there(file, name)
    new = file.create_dataset(name or "new", **how)
    for key, value in attributes.items():
        new.attrs[key] = value
    return new


def _delete_if_there(file: Any, name: str) -> None:
    if name in file:
        del file[name]


def _change_class(file: Any, rng: Random) -> None:
    """The attribute that says what a MATLAB variable is: another class, or of another type."""
    item = file[_pick(file, rng)]
    item.attrs["MATLAB_class"] = rng.choice(
        (
            *map(np.bytes_, _CLASSES[:-2]),
            "cell",
            3,
            np.zeros(3),
            h5py.Empty("f"),
            np.array([b"cell", b"char"]),
            np.bytes_("cell"),
        )
    )


def _drop_attributes(file: Any, rng: Random) -> None:
    file[_pick(file, rng)].attrs.clear()


def _add_attributes(file: Any, rng: Random) -> None:
    item = file[_pick(file, rng)]
    item.attrs["MATLAB_empty"] = rng.choice((np.uint8(1), np.int64(7), "yes"))
    item.attrs["MATLAB_sparse"] = rng.choice((np.uint64(5), np.uint64(2**63), -1))
    item.attrs["H5PATH"] = "/" * rng.choice((1, 5000))


def _other_values(file: Any, rng: Random) -> None:
    name = _pick(file, rng)
    values = rng.choice(
        (
            np.zeros((5, 5, 4), dtype=rng.choice(("f2", ">f8", "i1", "u8", "c16", "?", "f16"))),
            np.full((5, 5, 4), rng.choice((np.nan, np.inf, 1e308))),
            np.zeros((0, 5, 5)),
            np.zeros((5, 0)),
            np.float64(1),
            np.array([b"a", b"\xff\xfe"]),
            np.zeros(4, dtype=[("a", "f8"), ("b", "S3")]),
            np.zeros(4, dtype="V9"),
            np.full((1, 4), 0x110000, dtype=np.uint32),
            np.full((4, 1), 0xD800, dtype=np.uint16),
            np.full((1, 4), 2**63, dtype=np.uint64),
            np.full((1, 4), -5),
            np.full((1, 4), 0.5),
            np.arange(5.0),
            np.zeros((1,) * 32),
            np.zeros((4, 5, 6, 7)),
        )
    )
    _put(file, name, data=values)


def _other_type(file: Any, rng: Random) -> None:
    name, kind = _pick(file, rng), rng.randrange(6)
    if kind == 0:
        _put(file, name, data=["a", "ü", "", "\x1b[31m"], dtype=h5py.string_dtype())
    elif kind == 1:
        _put(file, name, shape=(4,), dtype=h5py.vlen_dtype(np.int32))[0] = np.arange(3)
    elif kind == 2:
        _put(file, name, data=[0, 1, 1, 0], dtype=h5py.enum_dtype({"NO": 0, "YES": 1}, basetype="i1"))
    elif kind == 3:
        _put(file, name, data=h5py.Empty(rng.choice(("f8", "S10"))))
    elif kind == 4:
        _put(file, name, shape=(4,), dtype=np.dtype("V16"))
    else:
        _put(file, name, shape=(4, 1), dtype=rng.choice((h5py.ref_dtype, h5py.regionref_dtype)))


def _huge(file: Any, rng: Random) -> None:
    """A shape that the file never holds: nothing is stored, and all of it is the fill value."""
    shape = rng.choice(
        (
            (100_000, 100_000),
            (20_000, 20_000, 2),
            (10**6, 10**6, 10**6),
            (5, 5, 10**10),
            (2**62,),
            (17_000, 17_000),
            (1, 10**9),
        )
    )
    how: dict[str, Any] = {"chunks": tuple(min(size, 64) for size in shape)} if rng.random() < 0.7 else {}
    _put(file, _pick(file, rng), shape=shape, dtype=rng.choice(("f8", "u2", "S1000")), fillvalue=None, **how)


def _packed_zeros(file: Any, rng: Random) -> None:
    """A few chunks of zeros, each a thousandth of what it becomes."""
    side = rng.choice((300, 900))
    how = {"chunks": (side, side), "compression": rng.choice(("gzip", "lzf")), "shuffle": rng.random() < 0.5}
    _put(file, _pick(file, rng), data=np.zeros((side, side)), **how)


def _link(file: Any, rng: Random) -> None:
    name = _pick(file, rng)
    target = rng.choice(
        (
            h5py.SoftLink("/"),
            h5py.SoftLink("/nowhere"),
            h5py.SoftLink(f"/{name}"),
            h5py.SoftLink("/" + "a/" * 3000),
            h5py.ExternalLink("/etc/passwd", "/"),
            h5py.ExternalLink("x.mat", "/adjacency"),
            h5py.ExternalLink("../../../../etc/hosts", "/data"),
            h5py.ExternalLink("missing.h5", "/adjacency"),
        )
    )
    if rng.random() < 0.7 and name in file:
        del file[name]
    file[name if name not in file else "extra"] = target


def _cycle(file: Any, rng: Random) -> None:
    group = file.require_group(rng.choice(("loop", "#refs#", "a/b/c")))
    group["again"] = rng.choice((group, file["/"]))


def _elsewhere(file: Any, rng: Random) -> None:
    """Values that lie in another file: virtual datasets and external storage."""
    name = _pick(file, rng)
    if rng.random() < 0.5:
        _delete_if_there(file, name)
        how, space = h5py.h5p.create(h5py.h5p.DATASET_CREATE), h5py.h5s.create_simple((5, 5, 4))
        how.set_obj_track_times(False)  # h5py's own function would write the time into the file
        how.set_virtual(space, rng.choice((b"x.mat", b"/etc/passwd", b"missing.h5", b".")), b"adjacency", space)
        h5py.h5d.create(file.id, (name or "new").encode(), h5py.h5t.IEEE_F64LE, space, how)
    else:
        outside = rng.choice(("/etc/passwd", "missing.raw", "x.mat"))
        _put(file, name, shape=(5, 5, 4), dtype="u1", external=[(outside, 0, 100)])


def _references(file: Any, rng: Random) -> None:
    """Cells that refer to nothing, to themselves, to groups, to numbers."""
    name = _pick(file, rng)
    some = file[_pick(file, rng)].ref
    targets = [rng.choice((some, file.ref, h5py.Reference())) for _ in range(rng.choice((1, 4, 4, 2000)))]
    new = _put(file, name, data=np.array([targets], dtype=h5py.ref_dtype))
    new.attrs["MATLAB_class"] = np.bytes_("cell")
    if rng.random() < 0.4:
        new[0, 0] = new.ref


def _rename(file: Any, rng: Random) -> None:
    name, new = _pick(file, rng), rng.choice((*_NAMES, "a" * 3000, "\x1b[31m", "ü", "deep/er/" * 200 + "x"))
    if name and new not in file:
        file.move(name, new)


def _delete(file: Any, rng: Random) -> None:
    del file[_pick(file, rng)]


def _group_instead(file: Any, rng: Random) -> None:
    name = _pick(file, rng)
    del file[name]
    file.create_group(name).create_dataset("x", data=1.0)


def _many(file: Any, rng: Random) -> None:
    for number in range(rng.choice((20, 150))):
        file.create_group(f"{rng.choice(_NAMES)}{number}")


_MUTATORS: tuple[Callable[[Any, Random], None], ...] = (
    _change_class, _change_class, _drop_attributes, _add_attributes, _other_values, _other_values, _other_values,
    _other_type, _other_type, _huge, _packed_zeros, _link, _link, _cycle, _elsewhere, _references, _references,
    _rename, _delete, _group_instead, _many,
)  # fmt: skip


def damage_hdf5(content: bytes, rng: Random) -> bytes:
    """An HDF5 file that h5py opened, changed in one to three ways and closed."""
    buffer = io.BytesIO(content)
    try:
        with h5py.File(buffer, "r+") as file:
            for _ in range(rng.choice((1, 1, 2, 3))):
                rng.choice(_MUTATORS)(file, rng)
    except (OSError, KeyError, ValueError, TypeError, RuntimeError):
        # h5py refuses the change; what was written so far stands.
        return damage_bytes(buffer.getvalue() or content, rng)
    return buffer.getvalue()
