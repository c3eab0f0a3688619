"""MATLAB files: version 5 to 7 through scipy, version 7.3 (HDF5) through h5py."""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError
from isocapsnet.datasets.isolation import DTYPE, Parsed, ReadLimit, parse

_HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
# Filters that come with HDF5 and h5py: deflate, shuffle, fletcher32, szip, nbit, scale-offset, lzf. Others are plugins.
_HDF5_FILTERS = frozenset({1, 2, 3, 4, 5, 6, 32000})
# Names of arrays that name the nodes.
_NODE_NAMES = re.compile(r"((node|roi|region)s?_?)?(names?|labels?)|rois|regions", re.IGNORECASE)


def read_mat(path: Path, limit: ReadLimit) -> dict[str, NDArray[Any]]:
    """All numeric and text variables of a ``.mat`` file, in MATLAB's axis order."""
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
    return {name: value for name, value in variables.items() if _is_plain(value)}, {}


def choose_matrix(where: str, arrays: Mapping[str, NDArray[Any]], array: str | None) -> str:
    """The name of a subject's matrix: the one that was asked for, ``adjacency``, or the only one that can be.

    That is the only square matrix, unless a larger one is not square, else the only matrix. Equal matrices count once.
    """
    matrices = {k: v for k, v in arrays.items() if v.dtype.kind in "fiub" and v.ndim == 2 and min(v.shape) > 1}
    if array is not None:
        if array not in matrices:
            raise InputError(f"{where} has no matrix {array!r}; it has {', '.join(matrices) or 'none'}.")
        return array
    if not matrices:
        if any(v.ndim == 3 for v in arrays.values()):
            raise InputError(
                f"{where} has no matrix, but a stack; if it has all subjects, give this file, not its folder."
            )
        raise InputError(f"{where} holds no matrix.")
    if "adjacency" in matrices:
        return "adjacency"
    if "Z" in matrices and "DOF" in arrays:  # results of CONN, which also have standard errors
        return "Z"
    square = [name for name, matrix in matrices.items() if matrix.shape[0] == matrix.shape[1]]
    largest = max(matrix.size for matrix in matrices.values())
    is_clear = any(matrices[name].size == largest for name in square)
    names = square if is_clear else list(matrices)
    others = [name for name in names[1:] if not _equal(matrices[name], matrices[names[0]])]
    if others:
        listed = list_some([f"{name} {matrices[name].shape}" for name in [names[0], *others]])
        hints = " or ".join(f'array="{name}"' for name in [names[0], *others][:3])
        raise InputError(f"{where} has several matrices ({listed}); choose one with {hints}.")
    return names[0]


def find_node_names(where: str, arrays: Mapping[str, NDArray[Any]], n_nodes: int) -> list[str] | None:
    """The names of the nodes: ``node_names``, else the only array of texts that is called as names of regions are."""
    texts = {k: np.char.decode(v, "latin-1") if v.dtype.kind == "S" else v for k, v in arrays.items()}
    named = {
        key.lower(): [str(text).strip() for text in value.reshape(-1)]
        for key, value in texts.items()
        if value.dtype.kind == "U" and value.size == n_nodes > 1 and _NODE_NAMES.fullmatch(key)
    }
    # Texts that repeat, such as networks, are about the nodes, but do not name them.
    named = {key: names for key, names in named.items() if "" not in names and len({*names}) == n_nodes}
    if "node_names" in named:
        return named["node_names"]
    if len({tuple(names) for names in named.values()}) > 1:
        raise InputError(f"{where} names its nodes in {list_some(sorted(named))} differently; call one node_names.")
    return next(iter(named.values()), None)


def _equal(first: NDArray[Any], second: NDArray[Any]) -> bool:
    return np.array_equal(first, second, equal_nan=first.dtype.kind == second.dtype.kind == "f")


def _is_plain(value: Any) -> bool:
    """Whether a variable is an array of real numbers or texts; structures and other cells are left out."""
    return isinstance(value, np.ndarray) and DTYPE.fullmatch(value.dtype.str) is not None


def _read_v5(path: Path, limit: ReadLimit) -> dict[str, Any]:
    from scipy.io import loadmat, whosmat

    listed = whosmat(path)
    if twice := [name for name, count in Counter(name for name, _, _ in listed).items() if count > 1]:
        raise InputError(f"{path.name} holds the variable {twice[0]} twice; write the file again.")
    for name, shape, _ in listed:
        limit.check(8 * int(np.prod([int(size) for size in shape], dtype=object)), f"{path.name}: {name}")
    variables = loadmat(path, squeeze_me=False, chars_as_strings=True)
    return {k: _texts(v) for k, v in variables.items() if not k.startswith("__")}


def _texts(value: Any) -> Any:
    """A cell array of texts as an array of texts, anything else unchanged."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        cells = [cell.item() if isinstance(cell, np.ndarray) and cell.size == 1 else None for cell in value.ravel()]
        return np.array(cells) if all(isinstance(cell, str) for cell in cells) else value
    return value


def _read_hdf5(path: Path, limit: ReadLimit) -> dict[str, Any]:
    try:
        import h5py
    except ImportError as error:
        raise InputError(f"{path.name} is a MATLAB 7.3 file; install isocapsnet[data] to read it.") from error

    with h5py.File(path, "r") as file:
        variables = {}
        for key in file:
            if not isinstance(file.get(key, getlink=True), h5py.HardLink):
                raise InputError(f"{path.name}: {key} is a link, which MATLAB never writes.")
            if not key.startswith("#") and isinstance(file[key], h5py.Dataset):
                variables[key] = _read_hdf5_variable(file, file[key], f"{path.name}: {key}", limit)
        return variables


def _read_hdf5_variable(file: Any, item: Any, where: str, limit: ReadLimit) -> Any:
    values = _read_values(item, where, limit)
    kind = item.attrs.get("MATLAB_class", b"")
    if isinstance(kind, bytes) and kind == b"cell":
        cells = [_read_values(file[reference], where, limit) for reference in values.ravel()]
        return np.array(["".join(map(chr, cell.ravel())) for cell in cells])
    if isinstance(kind, bytes) and kind == b"char":
        return np.array(["".join(map(chr, row)) for row in np.atleast_2d(values.T)])
    # HDF5 keeps MATLAB's column-major arrays with their axes reversed.
    return np.ascontiguousarray(np.transpose(values))


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
