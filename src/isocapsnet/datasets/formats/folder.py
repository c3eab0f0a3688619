"""A folder with one file per subject: matrices, edge lists, BIDS derivatives, GraphML, ROI time series."""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError
from isocapsnet.datasets.archive import read_archive
from isocapsnet.datasets.findings import Findings
from isocapsnet.datasets.formats.arrays import choose_matrix, find_node_names
from isocapsnet.datasets.formats.cifti import read_cifti
from isocapsnet.datasets.formats.edge_graphs import build_graphs
from isocapsnet.datasets.formats.files import EDGE_LISTS, TEXTS, entity, find_files, name_files
from isocapsnet.datasets.formats.graphml import read_graphml
from isocapsnet.datasets.formats.joining import (
    columns_of,
    describe,
    leave_out_others,
    note_graphs_alone,
    note_rows_alone,
    open_participants,
)
from isocapsnet.datasets.formats.matlab import read_mat
from isocapsnet.datasets.formats.matrices import edges_of_matrix, find_edges, parse_matrix
from isocapsnet.datasets.formats.npy import read_npy_matrix
from isocapsnet.datasets.formats.participants import Participants, find_table
from isocapsnet.datasets.formats.recognition import Content, Kind, find_strays, recognise
from isocapsnet.datasets.formats.regions import find_regions, name_regions
from isocapsnet.datasets.formats.text import read_grid
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.identifiers import find_persons, find_site, list_scans, spelling_key
from isocapsnet.datasets.isolation import ReadLimit
from isocapsnet.datasets.reading import COLUMN_OPTIONS, FOLDER_OPTIONS, Reader, ReadOptions, assemble

#: Extension to ``read(path, limit)``, which returns a matrix and the names of its nodes, if the file has any.
_MATRICES: dict[str, Callable[..., tuple[NDArray[Any], list[str] | None]]] = {
    ".npy": read_npy_matrix,
    ".graphml": read_graphml,
    ".nii": read_cifti,
}
#: Formats whose files have several arrays, of which ``array`` chooses one: extension to ``read(path, limit)``.
_ARRAYS: dict[str, Callable[..., Mapping[str, NDArray[Any]]]] = {".mat": read_mat, ".npz": read_archive}
#: Targets that are not columns: the letters at the start of a subject's id, and the folder that contains its file.
_NAME_TARGETS = ("@subject", "@folder")
#: Sites that are not columns: what is before the subject's number in the file name, and the folder.
_NAME_SITES = ("@file", "@folder")
_BIDS_FOLDER = re.compile(r"(sub|ses)-.*|func|anat|dwi")


@dataclass
class _Scan:
    """One subject's file: its row in the participants table and, once read, its content.

    ``name`` is what says whose file it is: the name without extension or, if that is the same for all, the folders.
    """

    path: Path
    name: str
    source: str
    subject: str
    row: int | None
    content: Content | None = None


def read_folder(folder: Path, options: ReadOptions, findings: Findings, limit: ReadLimit) -> BrainGraphs | None:
    """Read every subject's file and join it with the participants table."""
    table = options.participants if options.participants is not None else find_table(folder)
    extensions = _MATRICES.keys() | _ARRAYS.keys()
    paths = find_files(folder, extensions, table if isinstance(table, Path) else None, options, findings)
    if options.subjects is not None and not isinstance(options.subjects, str):
        raise InputError("subjects= is the column of identifiers in the participants table of a folder; give its name.")
    names = name_files(paths, folder)
    participants = open_participants(names, table, options, findings, limit)
    if participants is not None and options.subjects is not None:
        findings.handle(f"subjects from the column {options.subjects}", f"{len(participants.ids)} rows")
    if participants is None and (asked := [c for c in (*columns_of(options), options.subjects) if c and c[0] != "@"]):
        raise InputError(f"{folder.name} has no participants.tsv with {asked[0]!r}; add one, or pass participants=.")
    scans = [_identify(*file, folder, participants, findings) for file in zip(paths, names, strict=True)]
    findings.subjects |= {scan.source: scan.subject for scan in scans}
    if participants is not None:
        rows = [scan.row for scan in scans]
        findings.spell_alike([scan.subject for scan in scans])
        note_rows_alone(participants, rows, findings)
        leave_out_others(participants, [scan.subject for scan in scans], rows, findings)
    # Files of excluded subjects are not opened, because they may be unreadable.
    aliases = {scan.name: scan.subject for scan in scans}
    scans = [scans[i] for i in findings.exclude(options.exclude, [scan.subject for scan in scans], aliases)]
    scans = _read_contents(scans, options, findings, limit)
    if participants is not None:
        note_graphs_alone(participants, {scan.source: scan.row for scan in scans}, findings)
    _check_persons([scan for scan in scans if scan.row is None], findings)
    contents = [scan.content for scan in scans if scan.content is not None]
    regions = options.regions if options.regions is not None else find_regions(folder)
    if options.kind == "auto" and (options.directed is not None or (options.index_base is not None and not regions)):
        options = replace(options, kind="edges")
    kind: Kind = "graphs"
    if contents:
        kind, contents = recognise(contents, options.kind, options.expected_n_nodes, findings)
    kept = {id(content) for content in contents}
    scans = [scan for scan in scans if id(scan.content) in kept]
    about = _build_matrices(contents, kind, options, findings)
    about |= _name_nodes(regions, scans, kind, options, findings, limit)
    about |= _describe(scans, folder, participants, options, findings)
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


def _identify(path: Path, name: str, folder: Path, participants: Participants | None, findings: Findings) -> _Scan:
    """The subject of a file, by the participants table where it has one, else by the file's name."""
    source = path.relative_to(folder).as_posix()
    with findings.noting(source):
        if participants is not None and (row := participants.find(name)) is not None:
            return _Scan(path, name, source, participants.ids[row], row)
    stem = re.sub(r"\.(pconn|ptseries)$", "", name, flags=re.IGNORECASE)
    if (subject := entity(stem, "sub")) and participants is None:
        findings.identify([subject], [f"sub-{subject}"])
    return _Scan(path, name, source, subject or stem, None)


def _read_contents(scans: list[_Scan], options: ReadOptions, findings: Findings, limit: ReadLimit) -> list[_Scan]:
    """Read all files. Those that are not like the others, neither in name nor in content, are set aside on record."""
    problems: dict[str, str] = {}
    for scan in scans:
        try:
            scan.content = _read_content(scan.path, scan.source, limit, options.array)
        except InputError as error:
            problems[scan.source] = str(error)
    names = {scan.source: (scan.name, scan.row is not None) for scan in scans}
    strays = find_strays(names, {scan.source: scan.content for scan in scans})
    for source in strays:
        findings.handle("files set aside, because neither their names nor their contents are like the others", source)
    if strays:
        findings.warnings.append(f"{len(strays)} file(s) set aside, because they are no matrices: {list_some(strays)}.")
    for source, sentence in problems.items():
        if source not in strays:
            findings.refuse(source, sentence)
    scans = [scan for scan in scans if scan.source not in strays]
    arrays = Counter(scan.content.array for scan in scans if scan.content is not None and scan.content.array)
    if 1 < len(arrays) < arrays.total():  # if all are different, they are called after the subjects
        listed = list_some([f'array="{name}" ({count} files)' for name, count in arrays.most_common()], 3)
        findings.errors.append(f"The matrices of the files are called differently; choose one: {listed}.")
    return scans


def _check_persons(scans: Sequence[_Scan], findings: Findings) -> None:
    """Refuse several files of a person of whom no table says which one is meant."""
    files: dict[str, list[str]] = {}
    for scan, person in zip(scans, find_persons([scan.subject for scan in scans]), strict=True):
        files.setdefault(person, []).append(scan.source)
    repeated = [several for several in files.values() if len(several) > 1]
    if repeated and len({spelling_key(scan.subject) for scan in scans}) == len(scans):
        findings.errors.append(
            f"{list_some(repeated[0], 3)} are of one person by their names ({len(repeated)} people have several "
            f"files); choose one file each with select=, a part of its name{list_scans(repeated[0])}."
        )


def _read_content(path: Path, source: str, limit: ReadLimit, array: str | None) -> Content:
    """What a subject's file holds; text that may be a matrix and an edge list is returned as both."""
    suffix = path.suffix.lower()
    if suffix in _ARRAYS:
        arrays = _ARRAYS[suffix](path, limit)
        name = choose_matrix(path.name, arrays, array)
        matrix, node_names = arrays[name], find_node_names(path.name, arrays, arrays[name].shape[1])
        return Content(source, matrix, node_names, edges=edges_of_matrix(source, matrix), array=name)
    if array is not None:
        raise InputError(f"array= does not apply to {path.name}, which has one matrix; leave it out.")
    if suffix not in TEXTS:
        matrix, node_names = _MATRICES[suffix](path, limit)
        edges = edges_of_matrix(source, matrix) if node_names is None else None
        return Content(source, matrix, node_names, edges=edges)
    grid = read_grid(path, limit)
    edges = find_edges(replace(grid, name=source))
    if suffix in EDGE_LISTS and edges is None:
        raise InputError(f"{path.name} is not an edge list: its rows must be two nodes and, optionally, a weight.")
    if edges is not None and (suffix in EDGE_LISTS or edges.is_titled):
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
        if options.directed is not None:
            findings.errors.append("directed= applies to edge lists only; leave it out.")
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
    source: Path | None,
    scans: Sequence[_Scan],
    kind: Kind,
    options: ReadOptions,
    findings: Findings,
    limit: ReadLimit,
) -> dict[str, Any]:
    """The names of the nodes from lists of the regions of each subject, if there are such lists."""
    matrices = [scan.content.matrix for scan in scans if scan.content is not None and scan.content.matrix is not None]
    names: dict[str, Any] = {}
    if kind == "edges":
        if options.regions is not None:
            raise InputError("regions= does not apply to edge lists, which name their nodes; leave it out.")
        return names
    are_named = all(scan.content is not None and scan.content.node_names for scan in scans)
    if source is not None and len(matrices) == len(scans) and not (options.regions is None and are_named):
        with findings.noting():
            subjects, sources = [scan.subject for scan in scans], [scan.source for scan in scans]
            sizes = [matrix.shape[1] for matrix in matrices]
            names = name_regions(source, subjects, sources, sizes, options, findings, limit)
    if options.index_base is not None and not names and not findings.errors:
        findings.errors.append("index_base= applies to edge lists and to lists of regions only; leave it out.")
    return names


def _find_folders(scans: Sequence[_Scan], folder: Path) -> list[str]:
    """The folder of each file, without those that are there for each subject, session and type of data."""
    subjects: dict[Path, set[str]] = {}
    for scan in scans:
        for parent in Path(scan.source).parents:
            subjects.setdefault(parent, set()).add(scan.subject)

    def is_own(parent: Path, scan: _Scan) -> bool:
        is_called_so = spelling_key(parent.name) == spelling_key(scan.subject) and len(subjects[parent]) == 1
        return is_called_so or _BIDS_FOLDER.fullmatch(parent.name) is not None

    names = []
    for scan in scans:
        inside = list(Path(scan.source).parents)[:-1]
        shared = [parent.name for parent in inside if not is_own(parent, scan)]
        if inside and not shared:
            raise InputError(f"{scan.source} is in a folder of one subject; @folder needs folders of several subjects.")
        names.append(shared[0] if shared else folder.name)
    return names


def _describe(
    scans: Sequence[_Scan], folder: Path, participants: Participants | None, options: ReadOptions, findings: Findings
) -> dict[str, Any]:
    """Labels, sites and covariates of the subjects, and the atlas that the files name."""
    about: dict[str, Any] = {}
    if scans:
        name = scans[0].path.stem
        about["atlas_name"] = entity(name, "atlas") or entity(name, "seg") or ""
    if options.target == "@subject":
        about["labels"] = ["".join(itertools.takewhile(str.isalpha, scan.subject)) for scan in scans]
    elif options.target == "@folder":
        with findings.noting():
            about["labels"] = _find_folders(scans, folder)
    for name, value, allowed in (("target", options.target, _NAME_TARGETS), ("site", options.site, _NAME_SITES)):
        if value is not None and value[:1] == "@" and value not in allowed:
            raise InputError(f"{name}= has no {value!r}; give a column, or {' or '.join(allowed)}.")
    if options.site == "@folder":
        with findings.noting():
            about["sites"] = _find_folders(scans, folder)
    elif options.site == "@file":
        with findings.noting():
            about["sites"] = [find_site(scan.name, scan.subject) for scan in scans]
    if participants is not None:
        about |= describe(participants, [scan.row for scan in scans], options, findings)
    return about
