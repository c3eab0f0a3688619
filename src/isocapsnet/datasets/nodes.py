"""Data that must be like others: the same nodes in the same order, such as those of a fitted model."""

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError
from isocapsnet.datasets.atlas import Atlas
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.study import Layout, ReadOptions


def layout_of(data: BrainGraphs) -> Layout:
    """Number and names of the nodes of a dataset, and whether its edges have a direction."""
    names = None if data.atlas is None else data.atlas.node_names
    graphs = data.passport["graphs"]
    return Layout(data.n_nodes, names, graphs is not None and not graphs["symmetric"])


def match_nodes(data: BrainGraphs, options: ReadOptions) -> BrainGraphs:
    """The data with their nodes in the order that is asked for; refused where they have others, or another number.

    Data without names of their nodes are taken to have them in that order.
    """
    names = None if options.like is None else options.like.node_names
    wanted = [options.n_nodes] if options.like is None else [options.n_nodes, options.like.n_nodes]
    if other := next((n_nodes for n_nodes in wanted if n_nodes not in (None, data.n_nodes)), None):
        raise InputError(f"{data.name or 'The data'} has graphs of {data.n_nodes} nodes, but {other} are needed.")
    if names is None or data.atlas is None or list(data.atlas.node_names) == list(names):
        return data
    place = {name: node for node, name in enumerate(data.atlas.node_names)}
    if place.keys() != {*names} or len(place) != len(names):
        others = [name for name in place if name not in {*names}]
        raise InputError(
            f"{data.name or 'The data'} has other nodes ({list_some(others, 3)}) than needed ({list_some(names, 3)}); "
            "use data of the same regions, and the same --atlas."
        )
    order = [place[name] for name in names]
    coordinates = data.atlas.coordinates
    return data.replace(
        adjacency=None if data.adjacency is None else data.adjacency[:, order][:, :, order],
        time_series=None if data.time_series is None else [series[:, order] for series in data.time_series],
        atlas=Atlas(names, None if coordinates is None else coordinates[order], name=data.atlas.name),
    )
