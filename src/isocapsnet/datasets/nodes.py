"""Data for which it is known how many nodes they must have, or which, such as those of a fitted model."""

from collections.abc import Sequence

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError
from isocapsnet.datasets.atlas import Atlas
from isocapsnet.datasets.graphs import BrainGraphs


def match_nodes(data: BrainGraphs, n_nodes: int | None, nodes: Sequence[str] | None) -> BrainGraphs:
    """The data with their nodes in the order of ``nodes``; refused where they have other nodes, or another number.

    Data without names of their nodes are taken to have them in that order.
    """
    wanted = n_nodes if nodes is None else len(nodes)
    if wanted not in (None, data.n_nodes):
        raise InputError(
            f"{data.name or 'The data'} has graphs of {data.n_nodes} nodes, but {wanted} nodes are needed."
        )
    if nodes is None or data.atlas is None or list(data.atlas.node_names) == list(nodes):
        return data
    place = {name: node for node, name in enumerate(data.atlas.node_names)}
    if place.keys() != {*nodes} or len(place) != len(nodes):
        others = [name for name in place if name not in {*nodes}]
        raise InputError(
            f"{data.name or 'The data'} has other nodes ({list_some(others, 3)}) than needed ({list_some(nodes, 3)}); "
            "use data of the same regions, and the same --atlas."
        )
    order = [place[name] for name in nodes]
    coordinates = data.atlas.coordinates
    return data.replace(
        adjacency=None if data.adjacency is None else data.adjacency[:, order][:, :, order],
        time_series=None if data.time_series is None else [series[:, order] for series in data.time_series],
        atlas=Atlas(nodes, None if coordinates is None else coordinates[order], name=data.atlas.name),
    )
