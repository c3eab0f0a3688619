"""Names and MNI coordinates of nodes, and matching of the nodes of two datasets.

The tables in this folder have region names and centroids in MNI millimetres of AAL (Tzourio-Mazoyer et al.,
2002) and Desikan-Killiany (Desikan et al., 2006), in the order in which connectomes of these atlases list them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError, check_option

if TYPE_CHECKING:
    from isocapsnet.datasets.graphs import BrainGraphs

#: Atlas name to (table, number of its first regions); AAL90 is AAL116 without cerebellum and vermis.
ATLASES = {"aal90": ("aal116", 90), "aal116": ("aal116", 116), "dk82": ("dk82", 82)}


class Atlas:
    """Node names ``(n_nodes,)`` and, if available, their coordinates in MNI millimetres ``(n_nodes, 3)``."""

    def __init__(self, node_names: Sequence[str], coordinates: ArrayLike | None = None, *, name: str = "") -> None:
        self.name = name
        self.node_names = tuple(map(str, node_names))
        self.coordinates: NDArray[np.float32] | None = None
        if coordinates is not None:
            values = np.asarray(coordinates)
            if values.shape != (len(self), 3) or values.dtype.kind not in "fiu" or not np.isfinite(values).all():
                raise InputError(f"Coordinates of {len(self)} nodes are {values.dtype} of shape {values.shape}.")
            self.coordinates = values.astype(np.float32)
            self.coordinates.flags.writeable = False

    def __len__(self) -> int:
        return len(self.node_names)

    def __repr__(self) -> str:
        return f"Atlas({self.name or 'unnamed'}, {len(self)} nodes)"


def load_atlas(name: str) -> Atlas:
    """Load the atlas ``name``: "aal90", "aal116" or "dk82" (Desikan-Killiany with sub-cortical regions)."""
    check_option("atlas", name, tuple(ATLASES))
    table_name, n_nodes = ATLASES[name]
    with (files("isocapsnet.datasets") / "atlases" / f"{table_name}.csv").open() as file:
        table = pd.read_csv(file, nrows=n_nodes, keep_default_na=False)
    return Atlas(table["name"].tolist(), table[["x", "y", "z"]].to_numpy(), name=name)


def find_atlas(
    node_names: Sequence[str] | None, coordinates: NDArray[Any] | None, n_nodes: int, atlas_name: str, name: str
) -> Atlas | None:
    """An atlas of the given names and coordinates of nodes, else a built-in atlas whose name is in that of the data."""
    if coordinates is not None or node_names is not None:
        same = next((a for a in map(load_atlas, ATLASES) if list(a.node_names) == list(node_names or ())), None)
        names = node_names or [str(i) for i in range(1, n_nodes + 1)]
        return same or Atlas(names, coordinates, name=atlas_name)
    named = [a for a in ATLASES if a in f"{atlas_name} {name}".lower() and ATLASES[a][1] == n_nodes]
    return load_atlas(named[0]) if named else None


@dataclass(frozen=True)
class Layout:
    """Number and names of the nodes of graphs, and whether their edges have a direction."""

    n_nodes: int
    node_names: Sequence[str] | None = None
    directed: bool | None = None


def layout_of(data: "BrainGraphs") -> Layout:
    """The layout of a dataset."""
    names = None if data.atlas is None else data.atlas.node_names
    graphs = data.passport["graphs"]
    return Layout(data.n_nodes, names, graphs is not None and not graphs["symmetric"])


def match_nodes(data: "BrainGraphs", n_nodes: int | None, like: Layout | None) -> "BrainGraphs":
    """The data with their nodes in the order of ``like``. Data with other nodes, or another number, are refused.

    Data that do not name their nodes are assumed to have them in that order.
    """
    what = data.name or "The data"
    wanted = (n_nodes, None if like is None else like.n_nodes)
    if other := next((number for number in wanted if number not in (None, data.n_nodes)), None):
        raise InputError(f"{what} has graphs of {data.n_nodes} nodes, but {other} are needed.")
    names = None if like is None else like.node_names
    if names is None or data.atlas is None or list(data.atlas.node_names) == list(names):
        return data
    index = {name: node for node, name in enumerate(data.atlas.node_names)}
    if index.keys() != {*names} or len(index) != len(names):
        others = [name for name in index if name not in {*names}]
        raise InputError(
            f"{what} has the nodes {list_some(others, 3)}, which are not among those needed ({list_some(names, 3)}); "
            "use data of the same regions, with the same atlas=."
        )
    order = [index[name] for name in names]
    coordinates = data.atlas.coordinates
    return data.replace(
        adjacency=None if data.adjacency is None else data.adjacency[:, order][:, :, order],
        time_series=None if data.time_series is None else [series[:, order] for series in data.time_series],
        atlas=Atlas(names, None if coordinates is None else coordinates[order], name=data.atlas.name),
    )
