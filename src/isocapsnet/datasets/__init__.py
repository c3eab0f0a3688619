"""Reading and checking of connectomes. Public names are imported on first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_PUBLIC = {
    "Atlas": "atlas",
    "BrainGraphs": "graphs",
    "CATALOG": "catalog",
    "READERS": "readers",
    "Reader": "reading",
    "TRANSFORMS": "connectivity",
    "assemble": "reading",
    "examine_graphs": "readers",
    "fetch_atlas": "atlas_download",
    "fetch_graphs": "catalog",
    "load_atlas": "atlas",
    "load_graphs": "readers",
    "make_planted_graphs": "synthetic",
}

__all__ = [
    "CATALOG",
    "READERS",
    "TRANSFORMS",
    "Atlas",
    "BrainGraphs",
    "Reader",
    "assemble",
    "examine_graphs",
    "fetch_atlas",
    "fetch_graphs",
    "load_atlas",
    "load_graphs",
    "make_planted_graphs",
]

if TYPE_CHECKING:
    from isocapsnet.datasets.atlas import Atlas, load_atlas
    from isocapsnet.datasets.atlas_download import fetch_atlas
    from isocapsnet.datasets.catalog import CATALOG, fetch_graphs
    from isocapsnet.datasets.connectivity import TRANSFORMS
    from isocapsnet.datasets.graphs import BrainGraphs
    from isocapsnet.datasets.readers import READERS, examine_graphs, load_graphs
    from isocapsnet.datasets.reading import Reader, assemble
    from isocapsnet.datasets.synthetic import make_planted_graphs


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
