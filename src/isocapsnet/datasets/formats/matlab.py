"""MATLAB files: version 5 to 7 through scipy, version 7.3 (HDF5) through h5py."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._packages import importing
from isocapsnet._validation import InputError
from isocapsnet.datasets.isolation import DTYPE, Parsed, ReadLimit, parse

_HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
# Filters that come with HDF5 and h5py: deflate, shuffle, fletcher32, szip, nbit, scale-offset, lzf. Others are plugins.
_HDF5_FILTERS = frozenset({1, 2, 3, 4, 5, 6, 32000})
# Variables that say who the graphs are of, in which no value may be lost.
_ABOUT_GRAPHS = re.compile(r"labels?|y|target|diagnosis|subjects?|sites?|node_names", re.IGNORECASE)
# Structures in structures deeper than this are not read; a damaged file may have endless ones.
_MAX_DEPTH = 3


def read_mat(path: Path, limit: ReadLimit) -> dict[str, NDArray[Any]]:
    """All numeric and text variables of a ``.mat`` file, in MATLAB's axis order; matrices in structures too."""
    return parse(parse_mat, path, limit)[0]


def parse_mat(path: Path, limit: ReadLimit) -> Parsed:
    """The variables of a ``.mat`` file; runs in the isolated process."""
    with path.open("rb") as file:
        is_hdf5 = file.read(8) == _HDF5_MAGIC or (file.seek(512), file.read(8))[1] == _HDF5_MAGIC
    try:
        variables = _read_hdf5(path, limit) if is_hdf5 else _read_v5(path, limit)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # both libraries raise their own kinds for damaged files
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path.name} is not a readable MATLAB file ({reason}); it may be incomplete.") from error
    return {k: v for name, value in variables.items() for k, v in _list_plain(name, value).items()}, {}


def _list_plain(name: str, value: Any, is_nested: bool = False) -> dict[str, NDArray[Any]]:
    """A variable as arrays of real numbers or texts; of a structure its matrices, as ``structure.field``.

    A cell array of matrices of one size is an array with the cells along the last axis.
    """
    if isinstance(value, Mapping):
        return {k: v for field in value for k, v in _list_plain(f"{name}.{field}", value[field], True).items()}
    value = value.toarray() if hasattr(value, "toarray") else value  # sparse
    if not isinstance(value, np.ndarray):
        return {}
    if value.dtype.names is not None and value.size == 1:
        return _list_plain(name, {field: value[field].item() for field in value.dtype.names})
    if value.dtype.names is not None:  # an array of structures: its fields are cell arrays
        return _list_plain(name, {field: value[field] for field in value.dtype.names})
    if value.dtype == object:
        value = _join_cells([cell.toarray() if hasattr(cell, "toarray") else cell for cell in value.ravel()])
    is_matrix = value is not None and value.ndim > 1 and value.dtype.kind in "biuf" and min(value.shape) > 1
    is_plain = value is not None and DTYPE.fullmatch(value.dtype.str) is not None
    return {name: value} if is_plain and (is_matrix or not is_nested) else {}


def _join_cells(cells: Sequence[Any]) -> NDArray[Any] | None:
    """Cells that are all texts, numbers, or matrices of one size, as an array."""
    if not cells or not all(isinstance(cell, np.ndarray) for cell in cells):
        return None
    kinds = {"U" if cell.dtype.kind == "U" else "n" if cell.dtype.kind in "biuf" else "" for cell in cells}
    if kinds == {"U"} and all(cell.size <= 1 for cell in cells):
        return np.array([str(cell.item()) if cell.size else "" for cell in cells])
    shapes = {cell.shape for cell in cells}
    if kinds != {"n"} or len(shapes) > 1:
        return None
    if cells[0].size == 1:
        return np.array([cell.item() for cell in cells])
    if cells[0].ndim != 2 or min(cells[0].shape) < 2:
        return None
    return np.stack(cells, axis=-1) if len(cells) > 1 else cells[0]


def _read_v5(path: Path, limit: ReadLimit) -> dict[str, Any]:
    from scipy.io import loadmat, whosmat

    listed = whosmat(path)
    if twice := [name for name, count in Counter(name for name, _, _ in listed).items() if count > 1]:
        raise InputError(f"{path.name} holds the variable {twice[0]} twice; write the file again.")
    for name, shape, _ in listed:
        limit.check(8 * int(np.prod([int(size) for size in shape], dtype=object)), f"{path.name}: {name}")
    variables = loadmat(path, squeeze_me=False, chars_as_strings=True)
    return {k: v for k, v in variables.items() if not k.startswith("__")}


def _read_hdf5(path: Path, limit: ReadLimit) -> dict[str, Any]:
    with importing(f"{path.name} is a MATLAB 7.3 file, which needs h5py", "data"):
        import h5py

    with h5py.File(path, "r") as file:
        variables = {}
        for key in file:
            if not isinstance(file.get(key, getlink=True), h5py.HardLink):
                raise InputError(f"{path.name}: {key} is a link, which MATLAB never writes.")
            if not key.startswith("#"):
                variables[key] = _read_hdf5_variable(file, file[key], f"{path.name}: {key}", limit)
        return variables


def _read_hdf5_variable(file: Any, item: Any, where: str, limit: ReadLimit, depth: int = 0) -> Any:
    """A variable as scipy returns those of version 5; structures as dictionaries, ``None`` for other objects."""
    import h5py

    kind = item.attrs.get("MATLAB_class", b"")
    kind = kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)
    if isinstance(item, h5py.Group):
        if "MATLAB_sparse" in item.attrs:
            return _read_hdf5_sparse(item, where, limit)
        fields = list(item) if depth < _MAX_DEPTH else []
        are_own = all(isinstance(item.get(field, getlink=True), h5py.HardLink) for field in fields)
        names = fields if are_own else []
        return {name: _read_hdf5_variable(file, item[name], f"{where}.{name}", limit, depth + 1) for name in names}
    if not isinstance(item, h5py.Dataset):
        return None
    if "MATLAB_object_decode" in item.attrs or kind == "string":
        if _ABOUT_GRAPHS.fullmatch(where.rpartition(" ")[2]):
            raise InputError(
                f"{where} is a MATLAB string, which cannot be read; save it as a cell array, with cellstr."
            )
        return None
    values = _read_values(item, where, limit)
    if item.attrs.get("MATLAB_empty"):  # the values are the shape
        return np.array([], dtype=np.str_ if kind == "char" else np.float64)
    if kind == "cell":
        if depth >= _MAX_DEPTH:
            return None
        cells = np.empty(values.size, dtype=object)
        for i, reference in enumerate(values.ravel()):
            cells[i] = _read_hdf5_variable(file, file[reference], where, limit, _MAX_DEPTH)
        return cells
    if kind == "char" or (not kind and depth == _MAX_DEPTH and values.dtype == np.uint16):
        return np.array(["".join(map(chr, row)) for row in np.atleast_2d(values.T)])
    if values.dtype == object:  # references of a structure array
        return None
    # HDF5 keeps MATLAB's column-major arrays with their axes reversed.
    return np.ascontiguousarray(np.transpose(values))


def _read_hdf5_sparse(group: Any, where: str, limit: ReadLimit) -> Any:
    """A sparse matrix, which MATLAB stores by columns."""
    from scipy.sparse import csc_array

    parts = {key: _read_values(group[key], where, limit) for key in ("data", "ir", "jc") if key in group}
    n_rows, n_columns = int(group.attrs["MATLAB_sparse"]), len(parts["jc"]) - 1
    limit.check(8 * n_rows * n_columns, where)
    if "data" not in parts or "ir" not in parts:  # no value differs from 0
        return np.zeros((n_rows, n_columns))
    return csc_array((parts["data"], parts["ir"], parts["jc"]), shape=(n_rows, n_columns))


def _read_values(dataset: Any, where: str, limit: ReadLimit) -> NDArray[Any]:
    """The values that a dataset itself stores; refuses what it declares without storing, or stores elsewhere."""
    limit.check(int(dataset.size or 0) * dataset.dtype.itemsize, where)
    properties = dataset.id.get_create_plist()
    filters = {properties.get_filter(i)[0] for i in range(properties.get_nfilters())}
    if dataset.is_virtual or dataset.external or filters - _HDF5_FILTERS:
        raise InputError(f"{where} keeps its values in other files, or needs a plugin to be read.")
    if dataset.size and not dataset.id.get_storage_size():
        raise InputError(f"{where} declares {dataset.size} values but holds none.")
    return np.asarray(dataset[()])
