"""What is unusual about data that can be read: above all the same person twice, as in some public datasets."""

import heapq

import numpy as np
from numpy.typing import NDArray

from isocapsnet._safe_text import list_some
from isocapsnet.datasets.atlas import ATLASES
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.resemblance import measure_graphs

# Subjects per block: two blocks of 200-node edge vectors are 80 MB.
_BLOCK = 500


def find_duplicates(
    data: BrainGraphs, threshold: float = 0.99, limit: int = 100
) -> tuple[list[tuple[str, str, float]], int]:
    """Pairs of subjects whose edge vectors correlate above ``threshold``.

    Returns the ``limit`` most similar pairs as ``(subject, subject, correlation)``, and the number of all such pairs.
    """
    strongest: list[tuple[float, int, int]] = []
    n_pairs = 0
    blocks = range(0, len(data), _BLOCK)
    for first in blocks:
        rows = _standard_edges(data, first)
        for second in blocks[first // _BLOCK :]:
            correlation = rows @ (rows if second == first else _standard_edges(data, second)).T
            if second == first:
                correlation[np.tril_indices_from(correlation)] = -1
            i, j = np.nonzero(correlation > threshold)
            n_pairs += len(i)
            pairs = zip((-correlation[i, j]).tolist(), (first + i).tolist(), (second + j).tolist(), strict=True)
            strongest = heapq.nsmallest(limit, [*strongest, *pairs])
    return [(str(data.identifiers[i]), str(data.identifiers[j]), -value) for value, i, j in strongest], n_pairs


def _standard_edges(data: BrainGraphs, start: int) -> NDArray[np.float32]:
    """Edge vectors of one block, centred and of length 1 ``(n_block, n_edges)``; a constant one is zero."""
    rows, columns = np.triu_indices(data.n_nodes, k=1)
    block = slice(start, start + _BLOCK)
    if data.adjacency is not None:
        edges = data.adjacency[block][:, rows, columns].astype(np.float64)
    else:
        with np.errstate(invalid="ignore", divide="ignore"):
            graphs = [np.corrcoef(series, rowvar=False) for series in (data.time_series or ())[block]]
        edges = np.nan_to_num(np.stack(graphs))[:, rows, columns]
    edges -= edges.mean(axis=1, keepdims=True)
    length = np.linalg.norm(edges, axis=1, keepdims=True)
    return (edges / np.where(length > 0, length, 1)).astype(np.float32)


def describe_unusual(data: BrainGraphs) -> list[str]:
    """Warnings about data that can be read but are unusual."""
    sentences: list[str] = []
    if (graphs := data.passport["graphs"]) is not None:
        n_graphs, n_silent = graphs["n_graphs_with_nodes_without_signal"], graphs["n_nodes_without_signal"]
        if not graphs["symmetric"]:
            asymmetry = graphs["largest_asymmetry"]
            sentences.append(f"The graphs are not symmetric (by up to {asymmetry:.3g}); they are kept as directed.")
        if n_silent:
            sentences.append(f"{n_graphs} graphs have nodes without any edge ({n_silent} nodes in all).")
    if data.adjacency is not None and data.n_nodes > 1:
        size = measure_graphs(data.adjacency)["size"]
        usual = np.median(size)
        if other := data.identifiers[(size > 10 * usual) | (10 * size < usual)].tolist():
            sentences.append(
                f"{len(other)} graph(s) have edges more than ten times as large or small as the others: "
                f"{list_some(other, 3)}; is it another unit?"
            )
    if not data.label_names:
        sentences.append("There are no labels; name the column of classes with target=.")
    if data.atlas is None and (sizes := [name for name, (_, size) in ATLASES.items() if size == data.n_nodes]):
        sentences.append(
            f"The {data.n_nodes} nodes have no names; if they are in the order of an atlas (of this size: "
            f"{', '.join(sizes)}), name it with atlas=."
        )
    pairs, n_pairs = find_duplicates(data)
    if n_pairs:
        listed = ", ".join(f"{first} and {second} ({correlation:.4f})" for first, second, correlation in pairs[:6])
        sentences.append(
            f"{n_pairs:,} pair(s) of subjects may be the same person, because their edges correlate above 0.99: "
            f"{listed}{'...' if n_pairs > 6 else ''}"
        )
    return sentences
