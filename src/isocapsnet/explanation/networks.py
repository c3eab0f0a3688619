"""Which networks the important edges join: attributions summed over the networks of an atlas."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isocapsnet._validation import InputError


def sum_over_networks(edges: NDArray[np.floating], networks: Sequence[str]) -> tuple[list[str], NDArray[np.float64]]:
    """Attribution within and between the networks of an atlas: names, and sums ``(n_networks, n_networks)``.

    ``edges`` ``(n_nodes, n_nodes)`` is symmetric, ``networks`` has the network of each node. A sum is signed, has each
    edge once and leaves out the diagonal of ``edges``; names are in order of appearance.
    """
    if len(networks) != len(edges):
        raise InputError(f"networks has {len(networks)} entries, but there are {len(edges)} nodes; give one per node.")
    names = list(dict.fromkeys(networks))
    members = np.array([[network == name for network in networks] for name in names], dtype=np.float64)
    between = members @ (edges * ~np.eye(len(edges), dtype=bool)) @ members.T
    return names, between / (1 + np.eye(len(names)))


def tabulate_pairs(edges: NDArray[np.floating], networks: Sequence[str], n_strongest: int) -> pd.DataFrame:
    """The pairs of networks that edges join, those with the largest share of the absolute attribution first.

    Parameters
    ----------
    edges : array (n_nodes, n_nodes)
        Symmetric.
    networks : sequence of str (n_nodes,)
    n_strongest : int
        How many of the strongest edges are counted.

    Returns
    -------
    DataFrame
        ``first`` and ``second`` network (equal for edges within one), number of ``edges``, how many of them are among
        the ``strongest``, their ``share`` of the absolute attribution, the share that is ``expected`` if all edges are
        equal, and the ``ratio`` of both.
    """
    rows, columns = np.triu_indices(len(edges), k=1)
    strengths = np.abs(np.asarray(edges, dtype=np.float64)[rows, columns])
    is_strong = np.zeros(len(strengths))
    strongest = np.argsort(-strengths, kind="stable")[:n_strongest]
    is_strong[strongest] = strengths[strongest] > 0

    def per_pair(values: NDArray[np.float64]) -> NDArray[np.float64]:
        matrix = np.zeros(np.shape(edges))
        matrix[rows, columns] = matrix[columns, rows] = values
        return sum_over_networks(matrix, networks)[1]

    names = list(dict.fromkeys(networks))
    counts, strong, sums = (per_pair(values) for values in (np.ones(len(strengths)), is_strong, strengths))
    first, second = np.triu_indices(len(names))
    frame = pd.DataFrame(
        {
            "first": np.array(names)[first],
            "second": np.array(names)[second],
            "edges": counts[first, second].round().astype(int),
            "strongest": strong[first, second].round().astype(int),
            "share": sums[first, second] / (strengths.sum() or 1.0),
            "expected": counts[first, second] / max(len(strengths), 1),
        }
    )
    frame = frame[frame["edges"] > 0].assign(ratio=lambda table: table["share"] / table["expected"])
    return frame.sort_values("share", ascending=False, kind="stable", ignore_index=True)
