"""Atlases from files of names and coordinates: tables, ``*_dseg.tsv`` of BIDS, ``.node`` of BrainNet Viewer."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.datasets.atlas import ATLASES, NO_NETWORK, Atlas, find_nodes, load_atlas
from isocapsnet.datasets.fields import MISSING
from isocapsnet.datasets.formats.text import Table, parse_numbers, read_grid, read_table

# Names of columns without capitals and punctuation, the preferred one first.
_NAMES = ("name", "roiname", "label", "region", "regionname", "roi", "node", "nodename", "labels", "abbreviation")
_POINTS = (("x", "y", "z"), ("mnix", "mniy", "mniz"), ("xmni", "ymni", "zmni"), ("r", "a", "s"))
_NETWORK = re.compile(r"network|yeo|module|system|community")
_BACKGROUND = ("background", "unknown", *MISSING)


def read_atlas(path: Path) -> Atlas:
    """The atlas in a file.

    Coordinates may be missing if the names are those of a built-in atlas, which has them.
    """
    atlas = _read_nodes(path) if path.suffix == ".node" else _read_table(path)
    if repeated := next((name for name in atlas.node_names if atlas.node_names.count(name) > 1), None):
        raise InputError(f"{path.name} has two regions called {repeated!r}; names must be unique.")
    return atlas if atlas.coordinates is not None else _complete(atlas)


def _read_nodes(path: Path) -> Atlas:
    """BrainNet Viewer: x, y, z, colour, size and name, separated by blanks; the name ``-`` is none."""
    grid = read_grid(path)
    if any(len(row) < 3 for row in grid.rows):
        raise InputError(
            f"{path.name} has lines with fewer than three numbers; a .node file has x, y, z, colour, size."
        )
    points = parse_numbers(path.name, [row[:3] for row in grid.rows], grid.lines)
    names = [" ".join(row[5:]) for row in grid.rows]
    numbered = [name if name not in ("", "-") else str(number) for number, name in enumerate(names, start=1)]
    return Atlas(numbered, points, name=path.stem)


def _read_table(path: Path) -> Atlas:
    table = read_table(path)
    keys = {re.sub(r"[\W_]+", "", name.lower()): name for name in table.columns}
    name = next((keys[key] for key in _NAMES if key in keys), None)
    if name is None:
        raise InputError(f"{path.name} has no column of names; call it 'name' (it has {', '.join(table.columns)}).")
    names = table.column(name)
    rows = _rows_by_index(table, names, keys.get("index")) if names else []
    if not rows:
        raise InputError(f"{path.name} has no regions.")
    axes = next((axes for axes in _POINTS if all(axis in keys for axis in axes)), None)
    points = None if axes is None else _points(table, [keys[axis] for axis in axes], rows)
    networks = {
        column: [_network(table.column(column)[row]) for row in rows]
        for key, column in keys.items()
        if _NETWORK.search(key) and not key.startswith(("label", "index", "color")) and not key.endswith("id")
    }
    return Atlas([names[row] for row in rows], points, networks=networks, name=path.stem.removesuffix("_dseg"))


def _rows_by_index(table: Table, names: Sequence[str], index: str | None) -> list[int]:
    """The rows in the order of the index of BIDS, if there is one, without the background."""
    rows = [row for row, name in enumerate(names) if name.lower() not in _BACKGROUND]
    if index is None:
        if len(rows) < len(names):
            missing = next(row for row, name in enumerate(names) if name.lower() in _BACKGROUND)
            raise InputError(f"{table.name} has no name of a region in line {table.lines[missing]}.")
        return rows
    numbers = parse_numbers(table.name, [[cell] for cell in table.column(index)], table.lines)[:, 0]
    return sorted(rows, key=lambda row: float(numbers[row]))


def _points(table: Table, columns: Sequence[str], rows: Sequence[int]) -> NDArray[np.float64]:
    cells = [[table.column(column)[row] for column in columns] for row in rows]
    points = parse_numbers(table.name, cells, [table.lines[row] for row in rows])
    if not np.isfinite(points).all():
        missing = rows[int(np.argwhere(~np.isfinite(points))[0, 0])]
        raise InputError(
            f"{table.name} has no coordinates in line {table.lines[missing]}; fill in {', '.join(columns)}."
        )
    return points


def _network(cell: str) -> str:
    return NO_NETWORK if cell.lower() in MISSING else cell


def _complete(atlas: Atlas) -> Atlas:
    """The atlas with the coordinates of a built-in one that has its names, if there is one."""
    for name in (name for name, (_, size) in ATLASES.items() if size == len(atlas)):
        same = load_atlas(name)
        if (nodes := find_nodes(same, atlas.node_names)) is not None:
            same = same.take(nodes)
            networks = atlas.networks or same.networks
            return Atlas(atlas.node_names, same.coordinates, networks=networks, name=atlas.name)
    return atlas
