"""Data whose nodes must be those of other data, such as the data that a model was fitted to."""

from collections.abc import Sequence
from dataclasses import dataclass

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError
from isocapsnet.datasets.atlas import Atlas
from isocapsnet.datasets.graphs import BrainGraphs


@dataclass(frozen=True)
class Layout:
    """Number and names of the nodes of graphs, and whether their edges have a direction."""

    n_nodes: int
    node_names: Sequence[str] | None = None
    directed: bool | None = None


def layout_of(data: BrainGraphs) -> Layout:
    """The layout of a dataset."""
    names = None if data.atlas is None else data.atlas.node_names
    graphs = data.passport["graphs"]
    return Layout(data.n_nodes, names, graphs is not None and not graphs["symmetric"])


def match_nodes(data: BrainGraphs, n_nodes: int | None, like: Layout | None) -> BrainGraphs:
    """The data with their nodes in the order of ``like``; other nodes, or another number of them, are refused.

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
