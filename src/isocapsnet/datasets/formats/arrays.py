"""Which of the arrays in a subject's file is the matrix, and which one names the nodes."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError

# Names of arrays that name the nodes.
_NODE_NAMES = re.compile(r"((node|roi|region)s?_?)?(names?|labels?)|rois|regions", re.IGNORECASE)


def choose_matrix(where: str, arrays: Mapping[str, NDArray[Any]], array: str | None) -> str:
    """The name of a subject's matrix: the one that was asked for, ``adjacency``, or the only one that can be.

    That is the only square matrix, unless a larger one is not square, else the only matrix. Equal matrices count once.
    A matrix in a structure (``results.fc``) counts if it is as large as the one outside, or if none is outside.
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
    if outside := [matrix for name, matrix in matrices.items() if "." not in name]:
        n_square = max((matrix.size for matrix in outside if _is_square(matrix)), default=0)
        least = n_square or max(matrix.size for matrix in outside)
        matrices = {
            name: matrix
            for name, matrix in matrices.items()
            if "." not in name or (matrix.size >= least and (_is_square(matrix) or not n_square))
        }
    square = [name for name, matrix in matrices.items() if _is_square(matrix)]
    largest = max(matrix.size for matrix in matrices.values())
    is_clear = any(matrices[name].size == largest for name in square)
    names = square if is_clear else list(matrices)
    others = [name for name in names[1:] if not _equal(matrices[name], matrices[names[0]])]
    chosen = [names[0], *others]
    # A stack of such matrices, of sessions perhaps, may be what is meant.
    side = matrices[names[0]].shape[0]
    stacks = [k for k, v in arrays.items() if v.dtype.kind in "fiub" and v.ndim == 3 and v.shape[:2] == (side, side)]
    if others or stacks:
        listed = list_some([f"{name} {arrays[name].shape}" for name in [*chosen, *stacks]])
        hints = " or ".join(f'array="{name}"' for name in chosen[:3])
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


def _is_square(matrix: NDArray[Any]) -> bool:
    return matrix.shape[0] == matrix.shape[1]


def _equal(first: NDArray[Any], second: NDArray[Any]) -> bool:
    return np.array_equal(first, second, equal_nan=first.dtype.kind == second.dtype.kind == "f")
