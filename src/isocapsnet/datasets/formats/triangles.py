"""One row per subject: matrices written row by row, or the values of one of their triangles."""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.datasets.findings import Findings
from isocapsnet.datasets.formats.edge_graphs import natural_key
from isocapsnet.datasets.formats.text import is_counting
from isocapsnet.datasets.reading import ReadOptions

_SEPARATORS = ("__", "--", "->", "<->", " - ", "~", "|", ":", "_", "-", ".", ",", " ")
Pairs = list[tuple[str, str]]


def expand_rows(
    values: NDArray[Any], titles: Sequence[str] | None, where: str, options: ReadOptions, findings: Findings
) -> tuple[NDArray[np.float64], list[str] | None]:
    """Graphs ``(n_subjects, n_nodes, n_nodes)`` of rows ``(n_subjects, n_values)``, and names of their nodes.

    The titles of the columns say which edges they are, if each names a pair of nodes and all pairs are there. Without
    such titles, rows of n² values are matrices if all of them are symmetric. Rows of a triangle need ``triangle``, the
    order in which it was written, and ``n_nodes``, because a triangle of n nodes without the diagonal has as many
    values as one of n - 1 nodes with it.
    """
    values = np.asarray(values, dtype=np.float64)
    n_subjects, n_values = values.shape
    pairs = None if titles is None else find_pairs(titles)
    if pairs is not None:
        return _place_pairs(values, pairs, where, findings)
    n_nodes = math.isqrt(n_values)
    if n_nodes > 1 and n_nodes * n_nodes == n_values and options.triangle is None:
        graphs = values.reshape(n_subjects, n_nodes, n_nodes)
        if np.array_equal(graphs, graphs.swapaxes(1, 2), equal_nan=True):
            findings.handle(f"rows of {where} read as whole matrices of {n_nodes} nodes", f"{n_subjects} rows")
            return graphs, None
    n_nodes = (math.isqrt(8 * n_values + 1) + 1) // 2  # n (n - 1) / 2 values without the diagonal
    if n_nodes * (n_nodes - 1) // 2 != n_values or n_nodes < 3:
        raise InputError(
            f"The rows of {where} have {n_values} values, which is neither a symmetric matrix nor a triangle of one; "
            "if some columns are not edges, name them with subjects=, target=, site= and covariates=."
        )
    if options.triangle is None:
        raise InputError(
            f"The rows of {where} have {n_values} values, as triangles do, in an order that is not known: pass "
            'triangle="upper" if the upper triangle was written row by row (numpy.triu_indices, squareform), or '
            'triangle="lower" if the lower one was (numpy.tril_indices, nilearn, and upper triangles of MATLAB and R).'
        )
    known = options.expected_n_nodes
    if known not in (n_nodes, n_nodes - 1):
        raise InputError(
            f"The rows of {where} have {n_values} values: triangles of {n_nodes} nodes without the diagonal, or of "
            f"{n_nodes - 1} nodes with it; pass n_nodes={n_nodes} or n_nodes={n_nodes - 1}."
        )
    has_diagonal = known == n_nodes - 1
    indices = np.triu_indices if options.triangle == "upper" else np.tril_indices
    offset = 0 if has_diagonal else 1 if options.triangle == "upper" else -1
    rows, columns = indices(known, offset)
    graphs = np.zeros((n_subjects, known, known))
    graphs[:, rows, columns] = values
    graphs[:, columns, rows] = values
    what = f"{options.triangle} triangles {'with' if has_diagonal else 'without'} the diagonal"
    findings.handle(f"rows of {where} read as {what}", f"{n_subjects} rows")
    return graphs, None


def find_pairs(titles: Sequence[str]) -> Pairs | None:
    """The two nodes that each title names, if all titles do and together they name all pairs of nodes."""
    numbers = [re.findall(r"\d+", title) for title in titles]
    bare = {re.sub(r"\d+", "#", title) for title in titles}  # 0throw_1thcolumn, edge(1,2)
    if len(bare) == 1 and all(len(one) == 2 for one in numbers):
        pairs: Pairs = [(one[0], one[1]) for one in numbers]
        if _are_complete(pairs):
            return pairs
    for separator in _SEPARATORS:
        if all(title.count(separator) == 1 for title in titles):
            ends = [title.split(separator) for title in titles]
            pairs = [(first.strip(), second.strip()) for first, second in ends]
            if all(map(all, pairs)) and _are_complete(pairs):
                return pairs
    return None


def _are_complete(pairs: Pairs) -> bool:
    """Whether these are all pairs of some nodes, each once: in one direction or in both, with or without loops."""
    nodes = {node for pair in pairs for node in pair}
    loops = {pair for pair in pairs if pair[0] == pair[1]}
    n_nodes, undirected = len(nodes), {frozenset(pair) for pair in pairs}
    if n_nodes < 3 or len({*pairs}) != len(pairs) or len(loops) not in (0, n_nodes):
        return False
    n_pairs = n_nodes * (n_nodes - 1) // 2
    return len(undirected) - len(loops) == n_pairs and len(pairs) - len(loops) in (n_pairs, 2 * n_pairs)


def _place_pairs(
    values: NDArray[np.float64], pairs: Pairs, where: str, findings: Findings
) -> tuple[NDArray[np.float64], list[str] | None]:
    nodes = list(dict.fromkeys(node for pair in pairs for node in pair))
    if all(map(str.isdecimal, nodes)):
        nodes = sorted(nodes, key=natural_key)
    index = {node: i for i, node in enumerate(nodes)}
    rows, columns = (np.array([index[pair[side]] for pair in pairs]) for side in (0, 1))
    graphs = np.zeros((len(values), len(nodes), len(nodes)))
    if len({frozenset(pair) for pair in pairs}) == len(pairs):
        graphs[:, columns, rows] = values
    graphs[:, rows, columns] = values
    findings.handle(f"columns of {where} read as edges by their titles, {len(nodes)} nodes", f"{len(values)} rows")
    return graphs, None if is_counting(nodes) else nodes
