"""MATLAB files: version 5 to 7 through scipy, version 7.3 (HDF5) through h5py."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError


def read_mat(path: Path) -> dict[str, Any]:
    """All numeric and text variables of a ``.mat`` file, in MATLAB's axis order."""
    with path.open("rb") as file:
        is_hdf5 = file.read(8) == b"\x89HDF\r\n\x1a\n" or (file.seek(512), file.read(8))[1] == b"\x89HDF\r\n\x1a\n"
    try:
        return _read_hdf5(path) if is_hdf5 else _read_v5(path)
    except InputError:
        raise
    except Exception as error:  # both libraries raise their own kinds for damaged files
        raise InputError(f"{path.name} is not a readable MATLAB file ({error}); it may be incomplete.") from error


def read_mat_matrix(path: Path) -> NDArray[Any]:
    """The one matrix of a subject's ``.mat`` file; the largest where there are several."""
    matrices = [v for v in read_mat(path).values() if _is_numeric(v) and v.ndim == 2 and min(v.shape) > 1]
    if not matrices:
        raise InputError(f"{path.name} holds no matrix.")
    return max(matrices, key=lambda matrix: matrix.size)


def find_stack(path: Path, variables: dict[str, Any]) -> tuple[str, NDArray[Any]]:
    """The variable that holds all graphs, as ``(n_graphs, n_nodes, n_nodes)``.

    MATLAB stacks subjects along the last axis; the first is taken only where the last cannot be meant.
    """
    stacks = {k: v for k, v in variables.items() if _is_numeric(v) and v.ndim == 3}
    if not stacks:
        raise InputError(
            f"{path.name} holds no array of three dimensions; graphs are stacked as nodes x nodes x subjects."
        )
    name = "adjacency" if "adjacency" in stacks else max(stacks, key=lambda key: stacks[key].size)
    stack = stacks[name]
    if stack.shape[0] == stack.shape[1]:
        return name, np.ascontiguousarray(np.moveaxis(stack, 2, 0))
    if stack.shape[1] == stack.shape[2]:
        return name, stack
    raise InputError(f"{path.name}: {name} has shape {stack.shape}; graphs are stacked as nodes x nodes x subjects.")


def _is_numeric(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "fiub"


def _read_v5(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat

    variables = loadmat(path, squeeze_me=False, chars_as_strings=True)
    return {k: _texts(v) for k, v in variables.items() if not k.startswith("__")}


def _texts(value: Any) -> Any:
    """A cell array of texts as an array of texts, anything else unchanged."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        cells = [cell.item() if isinstance(cell, np.ndarray) and cell.size == 1 else None for cell in value.ravel()]
        return np.array(cells) if all(isinstance(cell, str) for cell in cells) else value
    return value


def _read_hdf5(path: Path) -> dict[str, Any]:
    try:
        import h5py
    except ImportError as error:
        raise InputError(f"{path.name} is a MATLAB 7.3 file; install isocapsnet[data] to read it.") from error

    with h5py.File(path, "r") as file:
        return {
            key: _read_hdf5_variable(file, item)
            for key, item in file.items()
            if isinstance(item, h5py.Dataset) and not key.startswith("#")
        }


def _read_hdf5_variable(file: Any, item: Any) -> Any:
    # HDF5 keeps MATLAB's column-major arrays with their axes reversed.
    values = item[()]
    kind = item.attrs.get("MATLAB_class", b"")
    if kind == b"cell":
        return np.array(["".join(map(chr, np.asarray(file[reference][()]).ravel())) for reference in values.ravel()])
    if kind == b"char":
        return np.array(["".join(map(chr, row)) for row in np.atleast_2d(values.T)])
    return np.ascontiguousarray(np.transpose(values))
