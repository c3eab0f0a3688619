"""A folder with one file per subject: matrices, edge lists, BIDS derivatives, GraphML, ROI time series."""

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError
from isocapsnet.datasets.archive import read_archive
from isocapsnet.datasets.findings import Findings
from isocapsnet.datasets.formats.cifti import is_cifti, read_cifti
from isocapsnet.datasets.formats.edge_graphs import build_graphs
from isocapsnet.datasets.formats.graphml import read_graphml
from isocapsnet.datasets.formats.joining import (
    columns_of,
    describe,
    note_graphs_alone,
    note_rows_alone,
    open_participants,
)
from isocapsnet.datasets.formats.matlab import choose_matrix, read_mat_matrix
from isocapsnet.datasets.formats.matrices import edges_of_matrix, find_edges, parse_matrix
from isocapsnet.datasets.formats.npy import read_npy_matrix
from isocapsnet.datasets.formats.participants import Participants, find_table, is_table
from isocapsnet.datasets.formats.recognition import Content, Kind, find_strays, is_named_series, recognise
from isocapsnet.datasets.formats.regions import find_regions, is_region_list, name_regions
from isocapsnet.datasets.formats.text import read_grid
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.identifiers import find_site
from isocapsnet.datasets.isolation import ReadLimit
from isocapsnet.datasets.reading import COLUMN_OPTIONS, FOLDER_OPTIONS, Reader, ReadOptions, assemble


def read_npz_matrix(path: Path, limit: ReadLimit, array: str | None = None) -> tuple[NDArray[Any], None]:
    """The largest matrix of a subject's ``.npz`` file, or the one that is named; it does not name its nodes."""
    return choose_matrix(path.name, read_archive(path, limit), array), None


_EDGE_LISTS = frozenset({".edges", ".edgelist"})
_TEXTS = _EDGE_LISTS | {".csv", ".tsv", ".txt", ".1d"}
#: Extension to ``read(path, limit)``, which returns a matrix and the names of its nodes, if the file has any.
_MATRICES: dict[str, Callable[..., tuple[NDArray[Any], list[str] | None]]] = {
    ".npy": read_npy_matrix,
    ".mat": read_mat_matrix,
    ".graphml": read_graphml,
    ".npz": read_npz_matrix,
    ".nii": read_cifti,
}
#: Formats whose files have several arrays, of which ``array`` chooses one.
_WITH_ARRAYS = (".mat", ".npz")
_EXTENSIONS = _TEXTS | _MATRICES.keys()
# These are only read if there are no others, because other tools leave such files beside matrices.
_SECOND_CHOICE = (".npz", ".nii")
_SIDE_FILES = re.compile(r"(readme|changes|citation|license|licence|dataset_description).*", re.IGNORECASE)
# BIDS suffixes of connectivity matrices and time series. If a folder has them, its other tables are ignored.
_BIDS_DATA = re.compile(r"sub-.*_(relmat|conmat|timeseries)\.tsv")
#: Targets that are not columns: the letters at the start of a subject's id, and the folder that contains its file.
_NAME_TARGETS = ("@subject", "@folder")
#: Sites that are not columns: what is before the subject's number in the file name, and the folder.
_NAME_SITES = ("@file", "@folder")


@dataclass
class _Scan:
    """One subject's file: its row in the participants table and, once read, its content."""

    path: Path
    source: str
    subject: str
    row: int | None
    content: Content | None = None


def read_folder(folder: Path, options: ReadOptions, findings: Findings, limit: ReadLimit) -> BrainGraphs | None:
    """Read every subject's file and join it with the participants table."""
    table = options.participants if options.participants is not None else find_table(folder)
    paths = _find_files(folder, table if isinstance(table, Path) else None, options, findings)
    if options.subjects is not None and not isinstance(options.subjects, str):
        raise InputError("subjects= is the column of identifiers in the participants table of a folder; give its name.")
    participants = open_participants([path.stem for path in paths], table, options, findings, limit)
    if participants is not None and options.subjects is not None:
        findings.handle("column read as subjects", str(options.subjects))
    if participants is None and (asked := [c for c in (*columns_of(options), options.subjects) if c and c[0] != "@"]):
        raise InputError(f"{folder.name} has no participants.tsv with {asked[0]!r}; add one, or pass participants=.")
    scans = [_identify(path, folder, participants, findings) for path in paths]
    findings.subjects |= {scan.source: scan.subject for scan in scans}
    if participants is not None:
        note_rows_alone(participants, [scan.row for scan in scans], findings)
    # Files of excluded subjects are not opened, because they may be unreadable.
    aliases = {scan.path.stem: scan.subject for scan in scans}
    scans = [scans[i] for i in findings.exclude(options.exclude, [scan.subject for scan in scans], aliases)]
    scans = _read_contents(scans, options, findings, limit)
    if participants is not None:
        note_graphs_alone(participants, {scan.path.name: scan.row for scan in scans}, findings)
    contents = [scan.content for scan in scans if scan.content is not None]
    if options.kind == "auto" and (options.index_base is not None or options.directed is not None):
        options = replace(options, kind="edges")
    kind: Kind = "graphs"
    if contents:
        kind, contents = recognise(contents, options.kind, options.expected_n_nodes, findings)
    kept = {id(content) for content in contents}
    scans = [scan for scan in scans if id(scan.content) in kept]
    about = _build_matrices(contents, kind, options, findings)
    about |= _name_nodes(folder, scans, kind, options, findings, limit)
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
        and not is_region_list(path)
        and path != options.regions
        and (path.suffix.lower() != ".nii" or is_cifti(path))
        and (table is None or not path.samefile(table))
        and not _SIDE_FILES.fullmatch(path.name)
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    files = [path for path in files if _BIDS_DATA.fullmatch(path.name)] or files
    first = [path for path in files if path.suffix.lower() not in _SECOND_CHOICE]
    files = first if 2 * len(first) >= len(files) else files
    if options.select:
        n_files = len(files)
        for part in options.select:  # a part of the file name, else of the folders
            # ses-1 is not a part of ses-12.
            before, after = (r"(?<!\d)" if part[:1].isdigit() else ""), (r"(?!\d)" if part[-1:].isdigit() else "")
            exact = re.compile(before + re.escape(part) + after)
            names = [path for path in files if exact.search(path.name)]
            files = names or [path for path in files if exact.search(path.relative_to(folder).as_posix())]
        findings.handle(f"files whose path has {' and '.join(options.select)}", f"{len(files)} of {n_files} files")
    series = [path for path in files if is_named_series(path.name)]
    graphs = [path for path in files if not is_named_series(path.name)]
    if options.kind == "series":
        chosen = series or graphs
    else:
        chosen = graphs or series
        if graphs and series:
            findings.handle("time series not read, because there are graphs", f"{len(series)} files")
    if not chosen:
        wanted = f" whose path has {' and '.join(options.select)}" if options.select else ""
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


def _identify(path: Path, folder: Path, participants: Participants | None, findings: Findings) -> _Scan:
    """The subject of a file, by the participants table where it has one, else by the file's name."""
    source = path.relative_to(folder).as_posix()
    with findings.noting(source):
        if participants is not None and (row := participants.find(path.stem)) is not None:
            return _Scan(path, source, participants.ids[row], row)
    stem = re.sub(r"\.(pconn|ptseries)$", "", path.stem, flags=re.IGNORECASE)
    return _Scan(path, source, _entity(stem, "sub") or stem, None)


def _read_contents(scans: list[_Scan], options: ReadOptions, findings: Findings, limit: ReadLimit) -> list[_Scan]:
    """Read all files. Those that are not like the others, neither in name nor in content, are set aside on record."""
    problems: dict[str, str] = {}
    for scan in scans:
        try:
            scan.content = _read_content(scan.path, scan.source, limit, options.array)
        except InputError as error:
            problems[scan.source] = str(error)
    names = {scan.source: (scan.path.stem, scan.row is not None) for scan in scans}
    strays = find_strays(names, {scan.source: scan.content for scan in scans})
    for source in strays:
        findings.handle("files set aside, because neither their names nor their contents are like the others", source)
    if strays:
        findings.warnings.append(f"{len(strays)} file(s) set aside, because they are no matrices: {list_some(strays)}.")
    for source, sentence in problems.items():
        if source not in strays:
            findings.refuse(source, sentence)
    return [scan for scan in scans if scan.source not in strays]


def _read_content(path: Path, source: str, limit: ReadLimit, array: str | None) -> Content:
    """What a subject's file holds; text that may be a matrix and an edge list is returned as both."""
    suffix = path.suffix.lower()
    if array is not None and suffix not in _WITH_ARRAYS:
        raise InputError(f"array= does not apply to {path.name}, which has one matrix; leave it out.")
    if suffix not in _TEXTS:
        arguments = () if array is None else (array,)
        matrix, node_names = _MATRICES[suffix](path, limit, *arguments)
        edges = edges_of_matrix(source, matrix) if node_names is None else None
        return Content(source, matrix, node_names, edges=edges)
    grid = read_grid(path, limit)
    edges = find_edges(replace(grid, name=source))
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


def _name_nodes(
    folder: Path, scans: Sequence[_Scan], kind: Kind, options: ReadOptions, findings: Findings, limit: ReadLimit
) -> dict[str, Any]:
    """The names of the nodes from lists of the regions of each subject, if there are such lists."""
    source = options.regions if options.regions is not None else find_regions(folder)
    matrices = [scan.content.matrix for scan in scans if scan.content is not None and scan.content.matrix is not None]
    if source is None or kind == "edges" or len(matrices) < len(scans):
        if options.regions is not None and kind == "edges":
            raise InputError("regions= does not apply to edge lists, which name their nodes; leave it out.")
        return {}
    if options.regions is None and all(scan.content is not None and scan.content.node_names for scan in scans):
        return {}
    with findings.noting():
        subjects, sources = [scan.subject for scan in scans], [scan.source for scan in scans]
        sizes = [matrix.shape[1] for matrix in matrices]
        return name_regions(source, subjects, sources, sizes, options, findings, limit)
    return {}


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
    for name, value, allowed in (("target", options.target, _NAME_TARGETS), ("site", options.site, _NAME_SITES)):
        if value is not None and value[:1] == "@" and value not in allowed:
            raise InputError(f"{name}= has no {value!r}; give a column, or {' or '.join(allowed)}.")
    if options.site == "@folder":
        about["sites"] = [scan.path.parent.name for scan in scans]
    elif options.site == "@file":
        with findings.noting():
            about["sites"] = [find_site(scan.path.stem, scan.subject) for scan in scans]
    if participants is not None:
        about |= describe(participants, [scan.row for scan in scans], options, findings)
    return about
