"""Which files of a folder are those of its subjects."""

import re
from collections.abc import Sequence, Set
from pathlib import Path
from typing import NoReturn

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError
from isocapsnet.datasets.findings import Findings
from isocapsnet.datasets.formats.cifti import is_cifti
from isocapsnet.datasets.formats.participants import is_table
from isocapsnet.datasets.formats.recognition import is_named_series
from isocapsnet.datasets.formats.regions import is_region_list
from isocapsnet.datasets.reading import ReadOptions

EDGE_LISTS = frozenset({".edges", ".edgelist"})
TEXTS = EDGE_LISTS | {".csv", ".tsv", ".txt", ".1d"}
# These are only read if there are no others, because other tools leave such files beside matrices.
_SECOND_CHOICE = (".npz", ".nii")
_SIDE_FILES = re.compile(r"(readme|changes|citation|license|licence|dataset_description).*", re.IGNORECASE)
# Regressors of fMRIPrep, which are no time series of regions.
_REGRESSORS = re.compile(r".*desc-confounds.*|.*_confounds(_(timeseries|regressors))?\.(tsv|txt)", re.IGNORECASE)
# Motion as SPM writes it. Capitals are initials of subjects.
_MOTION = re.compile(r"rp_.*\.txt")
# BIDS suffixes of connectivity matrices and time series. If a folder has them, its other tables are ignored.
_BIDS_DATA = re.compile(r"sub-.*_(relmat|conmat|timeseries)\.tsv")
# Formats in which data of subjects may be, and which are not read.
_OTHERS = frozenset(
    {".gz", ".zip", ".bz2", ".xz", ".xlsx", ".xls", ".ods", ".h5", ".hdf5", ".pkl", ".pt", ".rds", ".rda"}
)
# Entities of BIDS that must be the same for all subjects.
_SAME = ("task", "atlas", "seg", "meas", "stat", "desc", "space")
# Atlases in names of files, as BIDS, ABIDE and others write them. Other numbers after them are those of subjects.
_ATLAS = re.compile(
    r"(?<![a-z])(aal(?:[23]|90|116|166|170)?|cc[24]00|ho|ez|tt|dk(?:68|8[0-9])?|desikan|destrieux|dosenbach(?:160)?|"
    r"power(?:264)?|glasser(?:360)?|gordon(?:333)?|basc\d*|brainnetome|harvard[-_]?oxford|schaefer[a-z\d]*)(?![a-z\d])",
    re.IGNORECASE,
)
# At the start of all names, these are initials of subjects.
_INITIALS = re.compile(r"^(?:sub-)?(ho|ez|tt|dk)(?![a-z])", re.IGNORECASE)
# Kinds of connectivity at the end of a name or as a folder. In front they may be initials of subjects.
_MEASURE = re.compile(r"(?:.*[-_.])?(fc|sc|pearson|partial)(?:[-_]?(?:mat(?:rix)?|corr(?:elation)?))?", re.IGNORECASE)


def entity(name: str, key: str) -> str | None:
    """The value of a BIDS entity in a file name: "rest" for "task" in sub-01_task-rest_relmat.tsv."""
    match = re.search(rf"(?:^|_){key}-([^_.]+)", name)
    return match[1] if match else None


def find_files(
    folder: Path, extensions: Set[str], table: Path | None, options: ReadOptions, findings: Findings
) -> list[Path]:
    """The subjects' files: graphs or time series, not both. ``extensions`` are those beside :data:`TEXTS`."""
    extensions = extensions | TEXTS
    listed = [
        path
        for path in sorted(folder.rglob("*"))
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    _note_others(listed, findings)
    files = [
        path
        for path in listed
        if path.suffix.lower() in extensions
        and path.is_file()
        and not is_table(path)
        and not is_region_list(path)
        and path != options.regions
        and (path.suffix.lower() != ".nii" or is_cifti(path))
        and (table is None or not path.samefile(table))
        and not _SIDE_FILES.fullmatch(path.name)
    ]
    if regressors := {path for path in files if _REGRESSORS.fullmatch(path.name) or _is_motion(path)}:
        for path in (path for path in files if path in regressors):
            findings.handle("files of confounds or motion not read", path.name)
        files = [path for path in files if path not in regressors]
    if bids := [path for path in files if _BIDS_DATA.fullmatch(path.name)]:
        if len(bids) < len(files):
            what = "files not read, because their names are not those of BIDS matrices or time series"
            findings.handle(what, f"{len(files) - len(bids)} files")
        files = bids
    first = [path for path in files if path.suffix.lower() not in _SECOND_CHOICE]
    if len(first) < len(files) <= 2 * len(first):
        what = f"{' and '.join(_SECOND_CHOICE)} files not read, because most files are others"
        findings.handle(what, f"{len(files) - len(first)} files")
        files = first
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
    elif options.kind == "auto" and _are_side_files(graphs, series):
        chosen = series
        for path in graphs:
            findings.handle("files not read, because the others are time series", path.name)
    else:
        chosen = graphs or series
        if graphs and series:
            findings.handle("time series not read, because there are graphs", f"{len(series)} files")
    if not chosen:
        wanted = f" whose path has {' and '.join(options.select)}" if options.select else ""
        raise InputError(f"{folder.name} holds no matrices ({', '.join(sorted(extensions))}){wanted}.")
    _check_variants(chosen)
    _check_same(chosen, folder, are_groups="@folder" in (options.target, options.site))
    return chosen


def name_files(paths: Sequence[Path], folder: Path) -> list[str]:
    """The names of files without extension; those of their folders if all files are called the same: sub-01/fc.csv."""
    stems = [path.stem for path in paths]
    folders = ["_".join(path.relative_to(folder).parts[:-1]) for path in paths]
    has_numbers = all(any(map(str.isdigit, name)) for name in folders)
    is_alone = len(paths) == 1 and any(map(str.isdigit, stems[0]))
    return folders if len({*stems}) == 1 and has_numbers and not is_alone else stems


def _are_side_files(graphs: list[Path], series: list[Path]) -> bool:
    """Whether the few files beside time series are no subjects': only the names of the time series have a number."""
    if len(series) < 2 or not 0 < len(graphs) <= max(1, len(series) // 4):
        return False
    return all(any(map(str.isdigit, path.stem)) == (path in series) for path in (*graphs, *series))


def _is_motion(path: Path) -> bool:
    """Whether a file is called as SPM's of the motion and is no square matrix."""
    if not _MOTION.fullmatch(path.name):
        return False
    with path.open(encoding="utf-8", errors="replace") as file:
        lines = [line for line in file if line.strip()]
    return not lines or len(re.split(r"[\s,;]+", lines[0].strip())) != len(lines)


def _check_same(paths: list[Path], folder: Path, *, are_groups: bool) -> None:
    """Refuse two names of one file, and files of different atlases or kinds of connectivity.

    ``are_groups`` says that folders are classes or sites.
    """
    targets: dict[Path, Path] = {}
    for path in paths:
        if (other := targets.setdefault(path.resolve(), path)) != path:
            raise InputError(f"{other.name} and {path.name} are links to one file; keep one.")
    for key in _SAME:
        names = {(entity(path.name, key) or "").lower(): path.name for path in reversed(paths)}
        if len(names.keys() - {""}) > 1:
            _refuse_mixture(f"different {key}- parts", [names[value] for value in sorted(names) if value])
    have_initials = all(_INITIALS.match(path.stem) for path in paths)
    stems = {path.name: _INITIALS.sub("", path.stem) if have_initials else path.stem for path in reversed(paths)}
    atlases = {"".join(_ATLAS.findall(stem)[:1]).lower(): name for name, stem in stems.items()}
    if "" not in atlases and len(atlases) > 1:
        _refuse_mixture("names of different atlases", list(atlases.values()))
    measures = {}
    for path in reversed(paths):
        folders = () if are_groups else path.relative_to(folder).parts[:-1]
        parts = (path.stem, *reversed(folders))
        measure = next((match[1].lower() for part in parts if (match := _MEASURE.fullmatch(part))), "")
        measures[measure] = path.relative_to(folder).as_posix()
    if "" not in measures and len(measures) > 1:
        _refuse_mixture("names of different kinds of connectivity", list(measures.values()))


def _refuse_mixture(what: str, names: list[str]) -> NoReturn:
    raise InputError(
        f"The files have {what} ({list_some(names, 2)}); choose one kind with select=, a part of its file name."
    )


def _note_others(paths: list[Path], findings: Findings) -> None:
    """Record what is not read because of its format, and folders that are links."""
    others = [path.name for path in paths if path.suffix.lower() in _OTHERS and path.is_file()]
    links = [path.name for path in paths if path.is_symlink() and path.is_dir()]
    for what, names in (("files of other formats not read", others), ("links to folders not followed", links)):
        if names:
            for name in names:
                findings.handle(what, name)
            findings.warnings.append(f"{what.capitalize()}: {list_some(names, 3)}.")


def _check_variants(paths: list[Path]) -> None:
    """Refuse a folder in which subjects have several files each, naming the choices."""
    subjects = [entity(path.name, "sub") for path in paths]
    variants = {path.name.replace(f"sub-{subject}_", "") for path, subject in zip(paths, subjects, strict=True)}
    if None not in subjects and len(set(subjects)) < len(paths) and 1 < len(variants) < len(paths):
        raise InputError(
            f"Subjects have several matrices each: {', '.join(sorted(variants)[:6])}"
            f"{'...' if len(variants) > 6 else ''}; choose one with select=, a part of its file name."
        )
