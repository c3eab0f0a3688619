"""The checks of every entry point before any work is done (leaf module, numpy only).

An :class:`InputError` is one sentence: what is wrong, where, and what to do. It names arguments as ``n_nodes=``, which
the command line turns into options before it prints the sentence and exits with 2.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isocapsnet._safe_text import printable

# Values per step of a streaming pass: 32 MB of float32, whatever the size of the array behind it.
CHUNK_VALUES = 8_000_000
# Squares and sums of squares of larger values overflow.
_MAX_VALUE = 1e100


class InputError(ValueError):
    """Input that cannot be used; the message is one printable line of limited length.

    Parameters
    ----------
    sentence : str
        What is wrong, where, and how to fix it.
    """

    def __init__(self, sentence: str) -> None:
        super().__init__(printable(sentence))


def iter_chunks(X: NDArray[Any], chunk_values: int = CHUNK_VALUES) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield ``(start, X[start:stop])`` so that a memory-mapped array is never loaded whole."""
    per_graph = max(1, int(np.prod(X.shape[1:])))
    step = max(1, chunk_values // per_graph)
    for start in range(0, len(X), step):
        yield start, X[start : start + step]


def check_graphs(
    X: ArrayLike,
    *,
    n_nodes: int | None = None,
    min_graphs: int = 1,
    name: str = "X",
) -> NDArray[Any]:
    """Return ``X`` as a numeric array ``(n_graphs, n_nodes, n_nodes)``, or refuse it.

    An array is neither copied nor changed, so a memory map stays a memory map.
    """
    try:
        graphs = np.asanyarray(X)
    except ValueError as error:
        raise InputError(
            f"{name}: the graphs do not have one common shape; every graph must have the same number of nodes."
        ) from error
    if graphs.dtype.kind not in "fiub":
        raise InputError(f"{name} holds {graphs.dtype} values; graphs must be real numbers.")
    if graphs.ndim != 3:
        hint = " (for one graph, pass graph[None])" if graphs.ndim == 2 else ""
        raise InputError(
            f"{name} has {graphs.ndim} dimension(s), shape {graphs.shape}; "
            f"graphs must have shape (n_graphs, n_nodes, n_nodes){hint}."
        )
    if graphs.shape[1] != graphs.shape[2]:
        raise InputError(
            f"{name} holds {graphs.shape[1]} x {graphs.shape[2]} matrices; adjacency matrices must be square."
        )
    if graphs.shape[1] == 0:
        raise InputError(f"{name} holds graphs without nodes.")
    if len(graphs) < min_graphs:
        raise InputError(f"{name} holds {len(graphs)} graph(s); at least {min_graphs} are needed.")
    if n_nodes is not None and graphs.shape[1] != n_nodes:
        raise InputError(
            f"{name} holds graphs of {graphs.shape[1]} nodes, but the model was fitted on graphs of {n_nodes} nodes."
        )
    if graphs.dtype.kind == "f":
        limit = min(_MAX_VALUE, float(np.finfo(graphs.dtype).max))
        for start, chunk in iter_chunks(graphs):
            # Both are NaN if a value is.
            if -limit <= chunk.min() and chunk.max() <= limit:
                continue
            graph, row, column = (int(i) for i in np.argwhere(~(np.abs(chunk) <= limit))[0])
            value = chunk[graph, row, column]
            advice = (
                f"values beyond {_MAX_VALUE:g} are too large to compute with, so divide all graphs by one number"
                if np.isfinite(value)
                else "remove the subject or replace its missing edges before fitting"
            )
            raise InputError(
                f"{name}: graph {start + graph} has the value {value} at row {row}, column {column}; {advice}."
            )
    return graphs


def check_labels(y: ArrayLike, n_graphs: int, *, min_classes: int = 2) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return ``(classes, codes)``: the sorted class labels and, per graph, the index of its class."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise InputError(f"y has shape {labels.shape}; labels must be one value per graph.")
    if len(labels) != n_graphs:
        raise InputError(f"X holds {n_graphs} graphs but y holds {len(labels)} labels.")
    missing = [i for i, label in enumerate(labels.tolist()) if label is None or label != label]
    if missing:
        raise InputError(
            f"y has no label for graph {missing[0]} ({len(missing)} missing in all); "
            "pass unlabelled graphs as X_unlabeled instead."
        )
    if labels.dtype.kind == "f" and not np.array_equal(labels, np.round(labels)):
        raise InputError("y holds fractional numbers; this is a classifier, so labels must name classes.")
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise InputError("y mixes label types that cannot be ordered; use one type for all labels.") from error
    if len(classes) == 0:
        raise InputError("y is empty.")
    if len(classes) < min_classes:
        only = classes.tolist()[0]
        raise InputError(f"y holds {len(classes)} class ({only!r}); a classifier needs at least {min_classes} classes.")
    return classes, codes.astype(np.int64)


def check_option(name: str, value: Any, allowed: Sequence[Any]) -> None:
    """Refuse a value that is not among ``allowed``."""
    if value not in allowed:
        raise InputError(f"{name}={value!r} is unknown; choose one of {', '.join(map(repr, allowed))}.")


def check_number(
    name: str, value: Any, *, low: float, high: float = np.inf, integer: bool = False, open_low: bool = False
) -> None:
    """Refuse a number outside ``[low, high]`` (``(low, high]`` with ``open_low``)."""
    kinds = (int, np.integer) if integer else (int, float, np.integer, np.floating)
    too_low = value is None or isinstance(value, bool) or not isinstance(value, kinds)
    if too_low or not (value > low if open_low else value >= low) or value > high:
        kind = "a whole number" if integer else "a number"
        bound = f"{'above' if open_low else 'of at least'} {low}" + ("" if high == np.inf else f" and at most {high}")
        raise InputError(f"{name}={value!r} is out of range; it must be {kind} {bound}.")


def check_target(what: str, path: Path) -> None:
    """Refuse a path that no file can be written to: a folder, or a file in a folder that is missing or misspelt."""
    if path.is_dir():
        raise InputError(f"{what} cannot be written to {path}: it is a folder; give the name of a file.")
    if not path.parent.is_dir():
        raise InputError(f"{what} cannot be written to {path}: there is no folder {path.parent}; make it first.")


def off_diagonal(X: NDArray[Any]) -> NDArray[np.bool_]:
    """Where graphs ``X`` have edges between different nodes ``(n_nodes, n_nodes)``."""
    return ~np.eye(X.shape[1], dtype=bool)
