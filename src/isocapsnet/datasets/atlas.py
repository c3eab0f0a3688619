"""Names, MNI coordinates and networks of nodes, and matching of the nodes of two datasets.

The tables in the folder ``atlases`` name their sources and licences in their first lines. ``benchmarks/atlases.py``
makes them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError

if TYPE_CHECKING:
    from isocapsnet.datasets.graphs import BrainGraphs

#: Atlas name to (table, number of its first regions); AAL90 is AAL116 without cerebellum and vermis.
ATLASES = {
    "aal90": ("aal116", 90),
    "aal116": ("aal116", 116),
    "cc200": ("cc200", 200),
    "destrieux148": ("destrieux148", 148),
    "dk68": ("dk68", 68),
    "dk82": ("dk82", 82),
    "dosenbach160": ("dosenbach160", 160),
    "glasser360": ("glasser360", 360),
    "harvard-oxford96": ("harvard-oxford96", 96),
    "power264": ("power264", 264),
    "schaefer100": ("schaefer100", 100),
    "schaefer200": ("schaefer200", 200),
    "schaefer300": ("schaefer300", 300),
    "schaefer400": ("schaefer400", 400),
    "seitzman300": ("seitzman300", 300),
}
# The order of the parcels of Schaefer's atlas in names of files: 7Networks, 17Networks, 17net.
_NETWORKS = re.compile(r"(?<!\d)(7|17)[-_ ]?net(?:work)?s?(?![a-z])", re.IGNORECASE)
#: A node without a network: below the cortex, in the cerebellum, or not known.
NO_NETWORK = "no network"


class Atlas:
    """Regions: their names and, where available, their coordinates and networks.

    Parameters
    ----------
    node_names : sequence of str (n_nodes,)
    coordinates : array-like (n_nodes, 3), optional
        In MNI millimetres.
    networks : mapping of str to sequence of str (n_nodes,), optional
        For each partition, such as "yeo7", the network of each node. The first partition is the default.
    aliases : sequence of str (n_nodes,), optional
        Other names, by which the nodes of a dataset are recognised.
    name : str
    """

    def __init__(
        self,
        node_names: Sequence[str],
        coordinates: ArrayLike | None = None,
        *,
        networks: Mapping[str, Sequence[str]] | None = None,
        aliases: Sequence[str] | None = None,
        name: str = "",
    ) -> None:
        self.name = name
        self.node_names = tuple(map(str, node_names))
        self.aliases = None if aliases is None else tuple(map(str, aliases))
        self.networks = {kind: tuple(map(str, values)) for kind, values in (networks or {}).items()}
        self.coordinates: NDArray[np.float32] | None = None
        for what, texts in [("aliases", self.aliases or self.node_names), *self.networks.items()]:
            if len(texts) != len(self):
                raise InputError(f"{what} of {len(self)} nodes has {len(texts)} entries; give one per node.")
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

    def take(
        self, nodes: Sequence[int], node_names: Sequence[str] | None = None, *, name: str | None = None
    ) -> "Atlas":
        """Some of the regions, by index and in that order, under other names if given."""
        return Atlas(
            [self.node_names[node] for node in nodes] if node_names is None else node_names,
            None if self.coordinates is None else self.coordinates[list(nodes)],
            networks={kind: [values[node] for node in nodes] for kind, values in self.networks.items()},
            aliases=None if self.aliases is None else [self.aliases[node] for node in nodes],
            name=self.name if name is None else name,
        )


def load_atlas(source: "str | Path | Atlas") -> Atlas:
    """Load an atlas by name, or from a table.

    Parameters
    ----------
    source : str, path or Atlas
        One of ``ATLASES``; the name of an atlas that :func:`~isocapsnet.datasets.atlas_download.fetch_atlas` has
        downloaded; or a file of names and coordinates: a CSV or TSV table with columns ``name``, ``x``, ``y``, ``z``
        and, optionally, networks, the ``*_dseg.tsv`` of a BIDS atlas, or a ``.node`` file of BrainNet Viewer.
    """
    from isocapsnet.datasets.atlas_download import DOWNLOADS, downloaded
    from isocapsnet.datasets.atlas_tables import read_atlas

    if isinstance(source, Atlas):
        return source
    if not isinstance(source, str | Path):
        raise InputError(f"atlas= must be a name, a path or an Atlas, not {type(source).__name__}.")
    if source in ATLASES:
        return _built_in(str(source))
    if str(source) in DOWNLOADS:
        return downloaded(str(source))
    try:
        is_file = Path(source).is_file()
    except OSError:  # a name that is too long
        is_file = False
    if not is_file:
        raise InputError(
            f"atlas={str(source)!r} is unknown; choose one of {', '.join(ATLASES)}, one that can be downloaded "
            f"({list_some(DOWNLOADS, 4)}), or a table of names and coordinates."
        )
    return read_atlas(Path(source))


@cache
def _built_in(name: str) -> Atlas:
    table, n_nodes = ATLASES[name]
    with (files("isocapsnet.datasets") / "atlases" / f"{table}.csv").open() as file:
        return atlas_of_table(pd.read_csv(file, nrows=n_nodes, keep_default_na=False, comment="#"), name)


def atlas_of_table(table: pd.DataFrame, name: str) -> Atlas:
    """An atlas of a table with the columns name, x, y, z, perhaps alias, and networks in all others."""
    others = {str(column): table[column].tolist() for column in table if column not in ("name", "x", "y", "z")}
    aliases = others.pop("alias", None)
    points = table[["x", "y", "z"]].to_numpy()
    return Atlas(table["name"].astype(str).tolist(), points, networks=others, aliases=aliases, name=name)


def find_atlas(
    node_names: Sequence[str] | None, coordinates: NDArray[Any] | None, n_nodes: int, name: str
) -> Atlas | None:
    """An atlas of the given names and coordinates of nodes, if there are any.

    Names that are those of a built-in atlas, in any order, give its coordinates. The number of nodes and the name of
    the data do not say in which order the nodes are.
    """
    if coordinates is None and node_names is None:
        return None
    if node_names is None:
        return Atlas([str(i) for i in range(1, n_nodes + 1)], coordinates, name=name)
    candidates = [_built_in(a) for a, (_, size) in ATLASES.items() if size == n_nodes]
    for atlas in candidates:
        if atlas.node_names == tuple(node_names):
            return atlas
    for atlas in candidates if coordinates is None else ():
        if (nodes := find_nodes(atlas, node_names)) is not None:
            return atlas.take(nodes, node_names)
    return Atlas(node_names, coordinates, name=name)


def fit_atlas(atlas: Atlas, node_names: Sequence[str] | None, n_nodes: int) -> Atlas:
    """The regions of an atlas in the order of the nodes of a dataset.

    Nodes with names are found by name, others have the order of the atlas. An atlas that does not have all of these
    names, or has another number of regions, is refused.
    """
    if len(atlas) != n_nodes:
        same = [name for name, (_, size) in ATLASES.items() if size == n_nodes]
        advice = f"with {n_nodes} regions there is {', '.join(same)}" if same else "give a table of these nodes instead"
        raise InputError(
            f"atlas={atlas.name!r} has {len(atlas)} regions, but the graphs have {n_nodes} nodes; {advice}."
        )
    if node_names is None or are_numbered(node_names):
        return atlas
    if (nodes := find_nodes(atlas, node_names)) is not None:
        return atlas if nodes == list(range(n_nodes)) else atlas.take(nodes)
    keys = {*_keys(atlas.node_names), *_keys(atlas.aliases or ())}
    others = [name for name, key in zip(node_names, _keys(node_names), strict=True) if key not in keys]
    raise InputError(
        f"atlas={atlas.name!r} does not have {len(others) or 'all'} of the {n_nodes} nodes of the data "
        f"({list_some(others or node_names, 3)}); its regions are called {list_some(atlas.node_names, 3)}."
    )


def check_networks(atlas: Atlas, names: Sequence[str]) -> None:
    """Refuse an order of Schaefer's parcels if the names of files say that they are in the other one."""
    order = "17" if atlas.name.endswith("-17") else "7"
    named = {number for name in names for number in _NETWORKS.findall(name)}
    if re.fullmatch(r"schaefer\d+(-17)?", atlas.name) and named - {order}:
        other = atlas.name.removesuffix("-17") + ("" if order == "17" else "-17")
        raise InputError(
            f"atlas={atlas.name!r} has the order of {order} networks, but the data are called {named.pop()}Networks; "
            f'pass atlas="{other}", or a table of the nodes.'
        )


def find_nodes(atlas: Atlas, node_names: Sequence[str]) -> list[int] | None:
    """The region of each node by its name, or by the other names of the atlas; None if one is missing or ambiguous."""
    wanted = _keys(node_names)
    for names in (atlas.node_names, atlas.aliases or ()):
        index = {key: node for node, key in enumerate(_keys(names))}
        if len(index) == len(names) == len(wanted) and index.keys() == {*wanted}:
            return [index[key] for key in wanted]
    return None


def _keys(names: Sequence[str]) -> list[str]:
    """Names without capitals and punctuation, without the prefix of Schaefer's parcels and the suffix of Glasser's."""
    plain = (re.sub(r"[\W_]+", "", name.casefold()) for name in names)
    return [re.sub(r"^(7|17)networks|roi$", "", name) or name for name in plain]


def are_numbered(names: Sequence[str]) -> bool:
    """Whether names are numbers from 0 or 1 on, perhaps behind the same letters: node 1, node 2..."""
    parts = [re.fullmatch(r"(.*?\D|)0*(\d{1,9})", name.strip()) for name in names]
    if not all(parts) or len({part[1] for part in parts if part}) > 1:
        return False
    numbers = [int(part[2]) for part in parts if part]
    return numbers == list(range(numbers[0], numbers[0] + len(names))) and numbers[0] in (0, 1)


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
    return data.replace(
        adjacency=None if data.adjacency is None else data.adjacency[:, order][:, :, order],
        time_series=None if data.time_series is None else [series[:, order] for series in data.time_series],
        atlas=data.atlas.take(order),
    )
