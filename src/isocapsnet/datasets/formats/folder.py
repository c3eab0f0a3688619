"""A folder with one matrix per subject: plain files, BIDS derivatives, GraphML, ROI time series."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.datasets.formats.graphml import read_graphml
from isocapsnet.datasets.formats.matlab import read_mat_matrix
from isocapsnet.datasets.formats.matrices import read_text_matrix
from isocapsnet.datasets.formats.participants import Participants, find_table, is_table
from isocapsnet.datasets.study import Findings, ReadOptions, Study

_EXTENSIONS = frozenset({".csv", ".tsv", ".txt", ".1d", ".npy", ".mat", ".graphml"})
_SIDE_FILES = re.compile(r"(readme|changes|citation|license|licence|dataset_description).*", re.IGNORECASE)
# BIDS suffixes of connectivity matrices and time series; where a folder has them, its other tables are side files.
_BIDS_DATA = re.compile(r"sub-.*_(relmat|conmat|timeseries)\.tsv")
#: Targets that are no column: the letters that a subject's id starts with, and the folder that its file lies in.
_NAME_TARGETS = ("@subject", "@folder")
_SERIES = re.compile(r"time[-_]?series|_rois_|\.1d$", re.IGNORECASE)


@dataclass
class _Scan:
    """One subject's file: its row in the participants table and, once read, what it holds."""

    path: Path
    subject: str
    row: int | None
    matrix: NDArray[Any] | None = None
    node_names: list[str] | None = None


def read_folder(folder: Path, options: ReadOptions, findings: Findings) -> Study:
    """Read every subject's file and join it with the participants table."""
    table = options.participants or find_table(folder)
    paths = _find_files(folder, table, options, findings)
    participants = Participants(table, [_stem(path) for path in paths]) if table else None
    columns = [None if options.target in _NAME_TARGETS else options.target, options.site, *(options.covariates or ())]
    if participants is None and any(columns):
        raise InputError(
            f"{folder.name} has no participants.tsv or participants.csv to take {next(filter(None, columns))!r} from; "
            "add one, or name the table with --participants."
        )
    scans = [_identify(path, participants, findings) for path in paths]
    if participants is not None:
        _compare(participants, scans, findings)
    excluded = {subject.removeprefix("sub-") for subject in options.exclude}
    findings.exclusions |= {s.subject: "excluded on request" for s in scans if s.subject in excluded}
    scans = [scan for scan in scans if scan.subject not in excluded]
    for scan in scans:
        try:
            scan.matrix, scan.node_names = _read_matrix(scan.path)
        except InputError as error:
            findings.errors.append(str(error))
    study = _make_study(folder, [scan for scan in scans if scan.matrix is not None], options)
    if participants is not None:
        try:
            _join(study, participants, [scan.row for scan in scans if scan.matrix is not None], options)
        except InputError as error:
            findings.errors.append(str(error))
    return study


def _stem(path: Path) -> str:
    return path.name[: -len(path.suffix)]


def _entity(name: str, key: str) -> str | None:
    """The value of a BIDS entity in a file name: "rest" for "task" in sub-01_task-rest_relmat.tsv."""
    match = re.search(rf"(?:^|_){key}-([^_.]+)", name)
    return match[1] if match else None


def _find_files(folder: Path, table: Path | None, options: ReadOptions, findings: Findings) -> list[Path]:
    """The subjects' files, either of graphs or of time series."""
    files = [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in _EXTENSIONS
        and path.is_file()
        and not is_table(path)
        and (table is None or path.resolve() != table.resolve())
        and not _SIDE_FILES.fullmatch(path.name)
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    files = [path for path in files if _BIDS_DATA.fullmatch(path.name)] or files
    files = [path for path in files if all(part in path.name for part in options.select)]
    series = [path for path in files if _SERIES.search(path.name)]
    graphs = [path for path in files if not _SERIES.search(path.name)]
    if options.kind == "series":
        chosen = series or graphs
    else:
        chosen = graphs or series
        if graphs and series:
            findings.handle("time series beside the graphs left aside", f"{len(series)} files")
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
            f"{'...' if len(variants) > 6 else ''}; choose one with --select, a part of its file name."
        )


def _identify(path: Path, participants: Participants | None, findings: Findings) -> _Scan:
    """Whose file this is, by the participants table where it knows, else by the file's name."""
    stem = _stem(path)
    try:
        row = participants.find(stem) if participants else None
    except InputError as error:
        findings.errors.append(str(error))
        row = None
    if participants is not None and row is not None:
        return _Scan(path, participants.identifier(row), row)
    return _Scan(path, _entity(stem, "sub") or stem, None)


def _compare(participants: Participants, scans: list[_Scan], findings: Findings) -> None:
    """Note who is listed twice, who has no matrix and which matrix belongs to nobody listed."""
    findings.errors.extend(participants.duplicates())
    for subject in participants.without({scan.row for scan in scans}):
        findings.exclusions[subject] = f"no matrix for this row of {participants.path.name}"
    for scan in scans:
        if scan.row is None:
            findings.handle(f"matrix without a row in {participants.path.name} kept as unlabelled", scan.path.name)


def _read_matrix(path: Path) -> tuple[NDArray[Any], list[str] | None]:
    suffix = path.suffix.lower()
    if suffix == ".graphml":
        return read_graphml(path)
    if suffix == ".mat":
        return read_mat_matrix(path), None
    if suffix != ".npy":
        return read_text_matrix(path)
    try:
        matrix = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{path.name} is not a readable .npy array of numbers ({error}).") from error
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise InputError(
            f"{path.name} holds {matrix.dtype} values of shape {matrix.shape}; a matrix of numbers is needed."
        )
    return matrix, None


def _make_study(folder: Path, scans: list[_Scan], options: ReadOptions) -> Study:
    study = Study(
        matrices=[scan.matrix for scan in scans if scan.matrix is not None],
        sources=[scan.path.relative_to(folder).as_posix() for scan in scans],
        subjects=[scan.subject for scan in scans],
        node_names=[scan.node_names for scan in scans],
    )
    if scans:
        name = _stem(scans[0].path)
        study.atlas_name = _entity(name, "atlas") or _entity(name, "seg") or ""
        study.is_series = _are_series(study, options.kind)
    if options.target == "@subject":
        study.labels = ["".join(itertools.takewhile(str.isalpha, scan.subject)) for scan in scans]
    elif options.target == "@folder":
        study.labels = [scan.path.parent.name for scan in scans]
    return study


def _join(study: Study, participants: Participants, rows: Sequence[int | None], options: ReadOptions) -> None:
    """Take labels, sites and covariates from the table."""
    if options.target is not None and options.target not in _NAME_TARGETS:
        study.labels = participants.values(options.target, rows)
    if options.site is not None:
        study.sites = [site or "unknown" for site in participants.values(options.site, rows)]
    if options.covariates:
        study.covariates = participants.covariates(options.covariates, rows)


def _are_series(study: Study, kind: str) -> bool:
    """Whether the files are time series: by name, else because none is square and all have the same columns."""
    if kind != "auto":
        return kind == "series"
    if _SERIES.search(study.sources[0]):
        return True
    shapes: Sequence[tuple[int, ...]] = [matrix.shape for matrix in study.matrices]
    return all(rows != columns for rows, columns in shapes) and len({columns for _, columns in shapes}) == 1
