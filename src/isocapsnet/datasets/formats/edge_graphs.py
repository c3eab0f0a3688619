"""From edge lists to graphs.

A single list does not say whether nodes count from 0 or 1, how many there are, or whether edges are directed. This is
decided for all subjects together, by the rules of :func:`build_graphs` or by options. Ambiguous data are refused.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError
from isocapsnet.datasets.atlas import load_atlas
from isocapsnet.datasets.findings import Findings
from isocapsnet.datasets.formats.matrices import EdgeList
from isocapsnet.datasets.formats.text import is_counting
from isocapsnet.datasets.reading import ReadOptions

# A dense matrix of more nodes takes a gigabyte.
_MOST_NODES = 10_000
# Node numbers that are all larger than this are codes of an atlas, not indices.
_CODES = 100


def build_graphs(
    lists: Sequence[EdgeList], options: ReadOptions, findings: Findings
) -> tuple[list[NDArray[np.float64]], list[str], bool]:
    """Adjacency matrices of edge lists, the names of their nodes, and whether edges have a direction.

    Nodes: numbers count from 0 if a 0 occurs, and from 1 if the largest is the given number of nodes or, if none is
    given, if the smallest is 1. The number of nodes is the given one, else the largest that occurs. Numbers that are
    all larger than 100 and than the number of different ones are codes. Codes and names are sorted naturally.

    Direction: edges are directed if a pair has two weights. They are undirected if every pair is listed in both
    directions, or every pair once and in one triangle (of named nodes: in some order of the nodes).

    An edge that is repeated with an equal weight counts once; with another weight it is refused. Edges of a node to
    itself are on the diagonal.
    """
    _check_ends(lists, options)
    names, ends = _index_nodes(lists, options, findings)
    pairs = [_Pairs(one, index, len(names), findings) for one, index in zip(lists, ends, strict=True)]
    is_directed = _find_direction(pairs, options, findings, are_named=any(one.ends.dtype.kind == "U" for one in lists))
    graphs = [one.graph(is_directed, findings) for one in pairs]
    is_silent = ~np.logical_or.reduce([graph.any(axis=0) | graph.any(axis=1) for graph in graphs])
    if is_silent.any():
        silent = [names[node] for node in np.flatnonzero(is_silent)]
        findings.handle(
            f"edge lists: nodes without an edge in any file ({list_some(silent)})",
            f"{len(silent)} node{'s' * (len(silent) > 1)}",
        )
    return graphs, names, is_directed


def _check_ends(lists: Sequence[EdgeList], options: ReadOptions) -> None:
    """Refuse lists that may be something else: columns without a common node, a first row that may be titles."""
    full = [one for one in lists if len(one.ends)]
    if not full:
        raise InputError(f"{lists[0].name} and the other edge lists have no edges at all.")
    has_more_nodes = (options.expected_n_nodes or 0) > 3  # then two or three columns are not time series
    if options.kind == "edges" or full[0].is_titled or has_more_nodes:
        return
    sources, targets = ({str(node) for one in full for node in np.unique(one.ends[:, side])} for side in (0, 1))
    if sources.isdisjoint(targets):
        raise InputError(
            f"No node in the first column of {full[0].name} and the other files is in the second column of any, so "
            'they may not be edge lists; pass kind="edges" or kind="series".'
        )
    first = full[0].ends[0].tolist()
    is_bare = full[0].ends.dtype.kind == "U" and not full[0].has_weights
    if is_bare and sum(np.isin(one.ends, first).sum() for one in full) == 2 * len(full):
        raise InputError(
            f"The first line of {full[0].name} ({' '.join(first)}) may be a header or an edge; call its columns source "
            'and target, or pass kind="edges".'
        )


def _index_nodes(
    lists: Sequence[EdgeList], options: ReadOptions, findings: Findings
) -> tuple[list[str], list[NDArray[np.int64]]]:
    """The names of the nodes in their order, and the indices of the ends of each list's edges."""
    are_named = any(one.ends.dtype.kind == "U" for one in lists)
    ends = [one.ends.astype(np.str_ if are_named else np.int64) for one in lists]
    ids = np.unique(np.concatenate([one.ravel() for one in ends]))
    if not are_named and options.index_base is None and options.expected_n_nodes is None and options.atlas is None:
        _check_bases(lists, ends)
    names, order, what = _list_nodes(ids, are_named, options)
    findings.handle(f"edge lists: {len(names)} nodes, {what}", f"{len(lists)} files")
    if options.n_nodes is not None and len(names) != options.n_nodes:
        raise InputError(f"The edge lists have {len(names)} nodes, but n_nodes={options.n_nodes} was given.")
    other = next((node for node in ids.tolist() if str(node) not in order), None)
    if other is not None:
        where = next(edges.name for edges, one in zip(lists, ends, strict=True) if (one == other).any())
        raise InputError(f"{where} has the node {other}; check n_nodes=, index_base= and atlas= ({len(names)} nodes).")
    index = np.array([order[str(node)] for node in ids.tolist()], dtype=np.int64)
    return names, [index[np.searchsorted(ids, one)] for one in ends]


def _check_bases(lists: Sequence[EdgeList], ends: Sequence[NDArray[Any]]) -> None:
    """Refuse lists of which some may count from 0 and others from 1: none has both 0 and the largest number."""
    high = max(int(one.max(initial=0)) for one in ends)
    from_0 = [edges.name for edges, one in zip(lists, ends, strict=True) if (one == 0).any()]
    to_high = [edges.name for edges, one in zip(lists, ends, strict=True) if (one == high).any()]
    if from_0 and not {*from_0} & {*to_high}:
        raise InputError(
            f"{from_0[0]} has node 0 but not {high}, {to_high[0]} has node {high} but not 0, and no file has both, so "
            "some may count from 0 and others from 1; pass index_base=0 if all count from 0."
        )


def _list_nodes(ids: NDArray[Any], are_named: bool, options: ReadOptions) -> tuple[list[str], dict[str, int], str]:
    """The names of the nodes, the index of each by the id that files have, and how they were determined."""
    given = list(options.like.node_names) if options.like is not None and options.like.node_names else None
    if are_named and options.index_base is not None:
        raise InputError("index_base= does not apply to edge lists whose nodes have names; leave it out.")
    if given is None and are_named and options.atlas is not None:
        given = list(load_atlas(options.atlas).node_names)
    counted = given is not None and is_counting(given)  # numbers instead of names do not identify nodes
    if given is not None and (are_named or (not counted and {*map(str, ids.tolist())} <= {*given})):
        return given, {name: i for i, name in enumerate(given)}, "by their names"
    is_open = options.n_nodes is None and options.index_base is None and options.like is None
    if given is None and (are_named or (is_open and ids.min() > max(_CODES, len(ids)))):
        names = sorted(map(str, ids.tolist()), key=natural_key)
        what = f"those of the {'names' if are_named else 'codes'} that have an edge in any file"
        return names, {name: i for i, name in enumerate(names)}, what
    is_listed = given is not None and given[0] in ("node 0", "node 1")  # as named below
    if given is not None and is_listed and options.index_base is None:
        return given, {name.removeprefix("node "): i for i, name in enumerate(given)}, "counted as in training"
    base, n_nodes, why = _find_base(ids, options)
    names = [f"node {number}" for number in range(base, base + n_nodes)]
    if given is not None and (is_listed or counted):
        names = given
    return names, {str(base + i): i for i in range(n_nodes)}, f"counted from {base} ({why})"


def natural_key(name: str) -> list[tuple[bool, int, str, str]]:
    """A key that sorts region2 before region10. Numbers may have any number of digits."""
    parts = [(part, part.lstrip("0") if part.isdecimal() else "") for part in re.split(r"(\d+)", name)]
    return [(not part.isdecimal(), len(digits), digits, part) for part, digits in parts]


def _find_base(ids: NDArray[Any], options: ReadOptions) -> tuple[int, int, str]:
    """Whether nodes count from 0 or 1, how many there are, and how that is known."""
    low, high = int(ids.min()), int(ids.max())
    n_nodes = options.expected_n_nodes
    if n_nodes is None and options.atlas is not None:
        n_nodes = len(load_atlas(options.atlas))
    if options.index_base is not None:
        base, why = options.index_base, "as asked for"
    elif low == 0:
        base, why = 0, "0 occurs"
    elif n_nodes == high:
        base, why = 1, f"0 does not occur and {high} does"
    elif low == 1 and n_nodes is None:
        base, why = 1, "1 is the smallest number in all files"
    else:
        raise InputError(
            f"The edge lists have nodes {low} to {high}{'' if n_nodes is None else f' of {n_nodes}'}, which may count "
            "from 0 or from 1; pass index_base=0 or index_base=1."
        )
    if n_nodes is None:
        n_nodes = high - base + 1
        why += f"; the largest number is {high}, and later nodes without an edge in any file cannot be detected"
        if 2 * len(ids) < n_nodes:
            raise InputError(f"Only {len(ids)} of the nodes {base} to {high} have an edge in any file; pass n_nodes=.")
    if n_nodes > _MOST_NODES:
        raise InputError(f"Edge lists of {n_nodes} nodes are too large for dense matrices; at most {_MOST_NODES} work.")
    if low < base:
        raise InputError(f"The node {low} occurs in the edge lists, but index_base={base}.")
    return base, n_nodes, why


class _Pairs:
    """The edges of one file by the indices of their nodes, each once."""

    def __init__(self, edges: EdgeList, ends: NDArray[np.int64], n_nodes: int, findings: Findings) -> None:
        self.name, self.n_nodes, self.lines = edges.name, n_nodes, np.asarray(edges.lines, dtype=np.int64)
        self.ends, self.weights = ends.reshape(-1, 2), edges.weights
        if not np.isfinite(edges.weights).all():
            line = self.lines[np.flatnonzero(~np.isfinite(edges.weights))[0]]
            findings.refuse(edges.name, f"{edges.name} has a weight in line {line} that is missing or infinite.")
        keys, first, inverse = np.unique(self.ends @ [n_nodes, 1], return_index=True, return_inverse=True)
        self._refuse(self.weights != self.weights[first][inverse], first[inverse], findings)
        if len(keys) < len(self.ends):
            findings.handle("edge lists: repeated edges with equal weights kept once", edges.name)
        self.ends, self.weights, self.lines = self.ends[first], self.weights[first], self.lines[first]
        if (self.ends[:, 0] == self.ends[:, 1]).any():
            findings.handle("edge lists: edges of nodes to themselves kept on the diagonal", edges.name)
        reverse = self.ends @ [1, n_nodes]
        index = np.searchsorted(keys, reverse).clip(max=max(0, len(keys) - 1))
        #: The index of each edge's reverse, -1 if there is none (n_edges,).
        self.reverse = np.where(keys[index] == reverse, index, -1) if len(keys) else index

    def _refuse(self, is_other: NDArray[np.bool_], earlier: NDArray[np.int64], findings: Findings) -> None:
        """Note the first edge that was listed before with another weight."""
        for edge in np.flatnonzero(is_other & np.isfinite(self.weights))[:1]:
            findings.refuse(
                self.name,
                f"{self.name} has two weights for one edge, {self.weights[earlier[edge]]:g} in line "
                f"{self.lines[earlier[edge]]} and {self.weights[edge]:g} in line {self.lines[edge]}; keep one.",
            )

    def graph(self, is_directed: bool, findings: Findings) -> NDArray[np.float64]:
        """The adjacency matrix ``(n_nodes, n_nodes)``."""
        matrix = np.zeros((self.n_nodes, self.n_nodes))
        rows, columns = self.ends.T
        if not is_directed:
            is_other = (self.reverse >= 0) & (self.weights != self.weights[self.reverse])
            self._refuse(is_other, self.reverse, findings)
            matrix[columns, rows] = self.weights
        matrix[rows, columns] = self.weights
        return matrix


def _find_direction(pairs: Sequence[_Pairs], options: ReadOptions, findings: Findings, are_named: bool) -> bool:
    """Whether edges have a direction, by the rules of :func:`build_graphs`."""
    n_single = n_both = 0
    differ, rises, falls = False, False, False
    for one in pairs:
        off = one.ends[:, 0] != one.ends[:, 1]
        is_both = off & (one.reverse >= 0)
        differ |= bool((is_both & (one.weights != one.weights[one.reverse])).any())
        n_both, n_single = n_both + int(is_both.sum()), n_single + int((off & ~is_both).sum())
        rises |= bool((one.ends[:, 0] < one.ends[:, 1]).any())
        falls |= bool((one.ends[:, 0] > one.ends[:, 1]).any())
    if options.directed is not None:
        is_directed, why = options.directed, "as asked for"
    elif options.like is not None and options.like.directed is not None:
        is_directed, why = options.like.directed, "as in training"
    elif differ:
        is_directed, why = True, "pairs have other weights in the other direction"
    elif not n_single:
        is_directed, why = False, "pairs are listed in both directions with equal weights"
    elif not n_both and (not (rises and falls) or (are_named and _have_an_order(pairs))):
        is_directed, why = False, "pairs are listed once, always in the same order of their nodes"
        if are_named:
            findings.warnings.append("Pairs of nodes are listed in one direction only; if meant, pass directed=True.")
    else:
        raise InputError(
            f"{pairs[0].name} and the other edge lists have {n_both} edges whose reverse is there with an equal weight "
            f"and {n_single} whose reverse is not; pass directed=True or directed=False."
        )
    findings.handle(f"edge lists: {'directed' if is_directed else 'undirected'} ({why})", f"{len(pairs)} files")
    return is_directed


def _have_an_order(pairs: Sequence[_Pairs]) -> bool:
    """Whether the nodes can be put in an order in which all edges of all files go forward."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n_nodes = pairs[0].n_nodes
    ends = np.concatenate([one.ends for one in pairs])
    edges = coo_array((np.ones(len(ends)), ends.T), shape=(n_nodes, n_nodes))
    return int(connected_components(edges, connection="strong")[0]) == n_nodes
