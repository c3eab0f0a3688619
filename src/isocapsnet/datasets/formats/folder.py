"""A folder with one file per subject: matrices, edge lists, BIDS derivatives, GraphML, ROI time series."""

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.datasets.formats.edge_graphs import build_graphs
from isocapsnet.datasets.formats.graphml import read_graphml
from isocapsnet.datasets.formats.matlab import read_mat_matrix
from isocapsnet.datasets.formats.matrices import edges_of_matrix, find_edges, parse_matrix
from isocapsnet.datasets.formats.npy import read_npy_matrix
from isocapsnet.datasets.formats.participants import Participants, find_table, is_table
from isocapsnet.datasets.formats.recognition import Content, Kind, is_named_series, recognise
from isocapsnet.datasets.formats.text import read_grid
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.isolation import ReadLimit
from isocapsnet.datasets.reading import COLUMN_OPTIONS, FOLDER_OPTIONS, Findings, Reader, ReadOptions, assemble

_EDGE_LISTS = frozenset({".edges", ".edgelist"})
_TEXTS = _EDGE_LISTS | {".csv", ".tsv", ".txt", ".1d"}
#: Extension to ``read(path, limit)``, which returns a matrix and the names of its nodes, if the file has any.
_MATRICES: dict[str, Callable[[Path, ReadLimit], tuple[NDArray[Any], list[str] | None]]] = {
    ".npy": read_npy_matrix,
    ".mat": read_mat_matrix,
    ".graphml": read_graphml,
}
_EXTENSIONS = _TEXTS | _MATRICES.keys()
_SIDE_FILES = re.compile(r"(readme|changes|citation|license|licence|dataset_description).*", re.IGNORECASE)
# BIDS suffixes of connectivity matrices and time series. If a folder has them, its other tables are ignored.
_BIDS_DATA = re.compile(r"sub-.*_(relmat|conmat|timeseries)\.tsv")
#: Targets that are not columns: the letters at the start of a subject's id, and the folder that contains its file.
_NAME_TARGETS = ("@subject", "@folder")


@dataclass
class _Scan:
    """One subject's file: its row in the participants table and, once read, its content."""

    path: Path
    subject: str
    row: int | None
    content: Content | None = None


def read_folder(folder: Path, options: ReadOptions, findings: Findings, limit: ReadLimit) -> BrainGraphs | None:
    """Read every subject's file and join it with the participants table."""
    table = options.participants or find_table(folder)
    paths = _find_files(folder, table, options, findings)
    participants = Participants(table, [path.stem for path in paths], limit) if table else None
    columns = [None if options.target in _NAME_TARGETS else options.target, options.site, *(options.covariates or ())]
    if participants is None and (asked := [column for column in columns if column]):
        raise InputError(f"{folder.name} has no participants.tsv with {asked[0]!r}; add one, or pass participants=.")
    scans = [_identify(path, participants, findings) for path in paths]
    if participants is not None:
        _compare(participants, scans, findings)
    # Files of excluded subjects are not opened, because they may be unreadable.
    scans = [scans[i] for i in findings.exclude(options.exclude, [scan.subject for scan in scans])]
    for scan in scans:
        with findings.noting():
            scan.content = _read_content(scan.path, scan.path.relative_to(folder).as_posix(), limit)
    contents = [scan.content for scan in scans if scan.content is not None]
    if options.kind == "auto" and (options.index_base is not None or options.directed is not None):
        options = replace(options, kind="edges")
    kind: Kind = "graphs"
    if contents:
        kind, contents = recognise(contents, options.kind, options.expected_n_nodes, findings)
    kept = {id(content) for content in contents}
    scans = [scan for scan in scans if id(scan.content) in kept]
    about = _build_matrices(contents, kind, options, findings)
    about |= _describe(scans, participants, options, findings)
    return assemble(
        subjects=[scan.subject for scan in scans],
        sources=[content.source for content in contents],
        options=replace(options, exclude=()),
        findings=findings,
        is_series=kind == "series",
        name=folder.stem,
        **about,
    )


READER = Reader(
    lambda source: isinstance(source, Path) and source.is_dir(), read_folder, (*COLUMN_OPTIONS, *FOLDER_OPTIONS)
)


def _entity(name: str, key: str) -> str | None:
    """The value of a BIDS entity in a file name: "rest" for "task" in sub-01_task-rest_relmat.tsv."""
    match = re.search(rf"(?:^|_){key}-([^_.]+)", name)
    return match[1] if match else None


def _find_files(folder: Path, table: Path | None, options: ReadOptions, findings: Findings) -> list[Path]:
    """The subjects' files: graphs or time series, not both."""
    files = [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in _EXTENSIONS
        and path.is_file()
        and not is_table(path)
        and (table is None or not path.samefile(table))
        and not _SIDE_FILES.fullmatch(path.name)
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    files = [path for path in files if _BIDS_DATA.fullmatch(path.name)] or files
    files = [path for path in files if all(part in path.name for part in options.select)]
    series = [path for path in files if is_named_series(path.name)]
    graphs = [path for path in files if not is_named_series(path.name)]
    if options.kind == "series":
        chosen = series or graphs
    else:
        chosen = graphs or series
        if graphs and series:
            findings.handle("time series not read, because there are graphs", f"{len(series)} files")
    if not chosen:
        wanted = f" whose name has {' and '.join(options.select)}" if options.select else ""
        raise InputError(f"{folder.name} holds no matrices ({', '.join(sorted(_EXTENSIONS))}){wanted}.")
    _check_variants(chosen)
    return chosen


def _check_variants(paths: list[Path]) -> None:
    """Refuse a folder in which subjects have several files each, naming the choices."""
    subjects = [_entity(path.name, "sub") for path in paths]
    variants = {path.name.replace(f"sub-{subject}_", "") for path, subject in zip(paths, subjects, strict=True)}
    if None not in subjects and len(set(subjects)) < len(paths) and 1 < len(variants) < len(paths):
        raise InputError(
            f"Subjects have several matrices each: {', '.join(sorted(variants)[:6])}"
            f"{'...' if len(variants) > 6 else ''}; choose one with select=, a part of its file name."
        )


def _identify(path: Path, participants: Participants | None, findings: Findings) -> _Scan:
    """The subject of a file, by the participants table where it has one, else by the file's name."""
    with findings.noting():
        if participants is not None and (row := participants.find(path.stem)) is not None:
            return _Scan(path, participants.ids[row], row)
    return _Scan(path, _entity(path.stem, "sub") or path.stem, None)


def _compare(participants: Participants, scans: list[_Scan], findings: Findings) -> None:
    """Note subjects that are listed twice, rows without a matrix, and matrices without a row."""
    findings.errors.extend(participants.duplicates())
    rows = {scan.row for scan in scans}
    for row, subject in enumerate(participants.ids):
        if subject and row not in rows:
            findings.exclusions[subject] = f"no matrix for this row of {participants.path.name}"
    for scan in scans:
        if scan.row is None:
            findings.handle(f"matrix without a row in {participants.path.name} kept as unlabelled", scan.path.name)


def _read_content(path: Path, source: str, limit: ReadLimit) -> Content:
    """What a subject's file holds; text that may be a matrix and an edge list is returned as both."""
    suffix = path.suffix.lower()
    if suffix not in _TEXTS:
        matrix, node_names = _MATRICES[suffix](path, limit)
        edges = edges_of_matrix(source, matrix) if node_names is None else None
        return Content(source, matrix, node_names, edges=edges)
    grid = read_grid(path, limit)
    edges = find_edges(grid)
    if suffix in _EDGE_LISTS and edges is None:
        raise InputError(f"{path.name} is not an edge list: its rows must be two nodes and, optionally, a weight.")
    if edges is not None and (suffix in _EDGE_LISTS or edges.is_titled):
        return Content(source, edges=edges)
    try:
        table = parse_matrix(grid)
    except InputError:
        if edges is None:
            raise
        return Content(source, edges=edges)
    return Content(source, table.values, table.names, table.row_names is not None, edges)


def _build_matrices(
    contents: Sequence[Content], kind: Kind, options: ReadOptions, findings: Findings
) -> dict[str, Any]:
    """The matrices and the names of their nodes."""
    if kind != "edges":
        if options.index_base is not None or options.directed is not None:
            findings.errors.append("index_base= and directed= apply to edge lists only; leave them out.")
        return {
            "matrices": [content.matrix for content in contents if content.matrix is not None],
            "node_names": [content.node_names for content in contents],
        }
    lists = [content.edges for content in contents if content.edges is not None]
    with findings.noting():
        graphs, names, is_directed = build_graphs(lists, options, findings) if lists else ([], [], None)
        return {"matrices": graphs, "node_names": [names] * len(lists), "is_directed": is_directed}
    return {"matrices": []}


def _describe(
    scans: Sequence[_Scan], participants: Participants | None, options: ReadOptions, findings: Findings
) -> dict[str, Any]:
    """Labels, sites and covariates of the subjects, and the atlas that the files name."""
    about: dict[str, Any] = {}
    if scans:
        name = scans[0].path.stem
        about["atlas_name"] = _entity(name, "atlas") or _entity(name, "seg") or ""
    if options.target == "@subject":
        about["labels"] = ["".join(itertools.takewhile(str.isalpha, scan.subject)) for scan in scans]
    elif options.target == "@folder":
        about["labels"] = [scan.path.parent.name for scan in scans]
    if participants is None:
        return about
    rows = [scan.row for scan in scans]
    with findings.noting():
        if options.target is not None and options.target not in _NAME_TARGETS:
            about["labels"] = participants.values(options.target, rows)
            for word, count in participants.missing_words(options.target, rows).items():
                findings.handle(f"{word!r} in column {options.target!r} taken for a missing label", f"{count} subjects")
        if options.site is not None:
            about["sites"] = [site or "unknown" for site in participants.values(options.site, rows)]
        if options.covariates:
            about["covariates"] = participants.covariates(options.covariates, rows)
    return about
