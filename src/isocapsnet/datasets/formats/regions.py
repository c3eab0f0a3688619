"""Lists of the regions that each subject has, for matrices of different sizes that do not name their nodes."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError
from isocapsnet.datasets.atlas import load_atlas
from isocapsnet.datasets.findings import Findings
from isocapsnet.datasets.formats.edge_graphs import natural_key
from isocapsnet.datasets.formats.participants import is_identifier
from isocapsnet.datasets.formats.text import Table, is_counting, is_index, is_whole, read_table, read_text
from isocapsnet.datasets.identifiers import match_subjects
from isocapsnet.datasets.isolation import ReadLimit
from isocapsnet.datasets.reading import ReadOptions

#: A table of the regions of all subjects, and the list of one subject beside the matrix with the same name.
_TABLE = re.compile(r"regions\.(csv|tsv|json)", re.IGNORECASE)
_LIST = re.compile(r"(.+)[_-]regions\.(txt|csv|tsv)", re.IGNORECASE)
_TITLE = re.compile(r"(region|roi|node|parcel)s?(_?(list|ids?|labels?|names?|index))?", re.IGNORECASE)
_SEPARATORS = re.compile(r"[\s,;]+")


def is_region_list(path: Path) -> bool:
    """Whether a file is called as lists of regions are."""
    return bool(_TABLE.fullmatch(path.name) or _LIST.fullmatch(path.name))


def find_regions(folder: Path) -> Path | None:
    """Where the lists of regions of a folder are: in one table, or in files beside the matrices."""
    files = [path for path in sorted(folder.rglob("*")) if is_region_list(path) and path.is_file()]
    tables = [path for path in files if _TABLE.fullmatch(path.name) and _is_list_of_subjects(path)]
    files = [path for path in files if _LIST.fullmatch(path.name)]
    if len(tables) > 1:
        raise InputError(f"{folder.name} has several tables of regions ({tables[0].name}...); choose with regions=.")
    return tables[0] if tables else folder if files else None


def known_nodes(options: ReadOptions) -> list[str]:
    """The names of the nodes that ``like`` or the atlas has, if any."""
    if options.like is not None and options.like.node_names:
        return list(options.like.node_names)
    return [] if options.atlas is None else list(load_atlas(options.atlas).node_names)


def name_regions(
    source: Path,
    subjects: Sequence[str],
    sources: Sequence[str],
    sizes: Sequence[int],
    options: ReadOptions,
    findings: Findings,
    limit: ReadLimit,
) -> dict[str, Any]:
    """The names of the nodes of each subject and the order of all nodes, as keywords of :func:`assemble`.

    The nodes are those of ``like`` or of the atlas if these have all regions; else those that any subject has, in
    natural order, or the given number of them if they are counted.
    """
    lists = _read_regions(source, limit)
    aliases = dict(zip((Path(one).stem for one in sources), subjects, strict=True))
    found = match_subjects(lists, subjects, aliases)
    if twice := next((subject for subject, count in Counter(found.values()).items() if count > 1), None):
        raise InputError(
            f"{source.name} has several lists of regions for subject {twice}; give the right ones with regions=."
        )
    matches = {subject: name for name, subject in found.items()}
    if options.regions is None and not matches:  # a file that was found and is about something else
        return {}
    named: list[list[str] | None] = []
    for subject, where, size in zip(subjects, sources, sizes, strict=True):
        regions = lists.get(matches.get(subject, ""))
        problem = None
        if regions is None:
            problem = f"has no list of regions in {source.name}"
        elif len(regions) != size:
            problem = f"has {size} nodes, but {len(regions)} regions in {source.name}"
        elif len({*regions}) < len(regions):
            problem = f"has a region twice in {source.name}"
        if problem is not None:
            findings.refuse(where, f"{where} {problem}.")
        named.append(regions if problem is None else [str(number) for number in range(1, size + 1)])
    order = sorted({region for name in matches.values() for region in lists[name]}, key=natural_key)
    counts = Counter(region for name in matches.values() for region in lists[name])
    if alone := [region for region in order if counts[region] == 1 and len(subjects) > 1]:
        findings.warnings.append(f"{source.name} has regions of one subject only: {list_some(alone)}.")
    order = _complete(order, source.name, options, findings)
    findings.handle(f"nodes of each subject from {source.name}, {len(order)} regions in all", f"{len(named)} subjects")
    return {"node_names": named, "node_order": order}


def _complete(order: list[str], where: str, options: ReadOptions, findings: Findings) -> list[str]:
    """All nodes, of which the regions in ``order`` are some, if their number or their names are given.

    Numbers count from 0 if a 0 occurs, and from 1 if the largest is the number of nodes. Others are refused.
    """
    listed = known_nodes(options)
    if listed and {*order} <= {*listed} and (options.like is not None or not is_counting(listed)):
        return listed
    n_nodes, base = options.expected_n_nodes or len(listed) or None, options.index_base
    if n_nodes is None or not order or not all(map(is_index, order)) or (base is None and int(order[-1]) > n_nodes):
        if base is not None:
            raise InputError("index_base= applies to numbers of regions, and needs n_nodes=; leave it out.")
        return order
    low, high = int(order[0]), int(order[-1])
    if base is None and low > 0 and high < n_nodes:
        raise InputError(
            f"{where} has regions {low} to {high} of {n_nodes}, which may count from 0 or from 1; pass index_base=0 or "
            "index_base=1."
        )
    first = min(low, 1) if base is None else base
    if low < first or high >= first + n_nodes:
        raise InputError(f"{where} has regions {low} to {high}, which are not {n_nodes} regions counted from {first}.")
    findings.handle(f"regions of {where} counted from {first}", f"{n_nodes} regions")
    return [str(number) for number in range(first, first + n_nodes)]


def _read_regions(source: Path, limit: ReadLimit) -> Mapping[str, list[str]]:
    """The regions of each subject, by the name that the list has for the subject."""
    if source.is_dir():
        files = [path for path in sorted(source.rglob("*")) if path.is_file() and _LIST.fullmatch(path.name)]
        if twice := next((n for n, c in Counter(path.name.lower() for path in files).items() if c > 1), None):
            raise InputError(
                f"{source.name} has several files {twice}; give the folder of the right ones with regions=."
            )
        return {_LIST.fullmatch(path.name)[1]: _read_list(path, limit) for path in files}  # type: ignore[index]
    if source.suffix.lower() == ".json":
        return _read_json(source, limit)
    table = read_table(source, limit)
    columns = _find_columns(table)
    if columns is None:
        raise InputError(
            f"{source.name} must have one column of subjects (such as participant_id) and one called regions; it has "
            f"{', '.join(list(table.columns)[:8])}."
        )
    regions: dict[str, list[str]] = {}
    for subject, cell in zip(*map(table.column, columns), strict=True):
        regions.setdefault(subject, []).extend(_split(cell))
    return regions


def _is_list_of_subjects(path: Path) -> bool:
    """Whether a table has the regions of each subject; others describe the regions of an atlas."""
    return path.suffix.lower() == ".json" or _find_columns(read_table(path)) is not None


def _find_columns(table: Table) -> tuple[str, str] | None:
    """The columns of subjects and of their regions, if there is one of each."""
    ids = [column for column in table.columns if is_identifier(column) and not _TITLE.fullmatch(column)]
    titles = [column for column in table.columns if _TITLE.fullmatch(column)]
    return (ids[0], titles[0]) if len(ids) == len(titles) == 1 else None


def _read_list(path: Path, limit: ReadLimit) -> list[str]:
    regions = _split(read_text(path, limit))
    return regions[1:] if regions and _TITLE.fullmatch(regions[0]) else regions


def _split(text: str) -> list[str]:
    parts = [part for part in _SEPARATORS.split(text.strip(" []()\n")) if part]
    return [_spell(part) for part in parts]


def _spell(region: str) -> str:
    """A region's number or name in one spelling: 2, 02 and 2.0 are the same."""
    if is_whole(region) and abs(number := float(region)) < 2**53:
        return f"{number:.0f}"
    return region


def _read_json(path: Path, limit: ReadLimit) -> dict[str, list[str]]:
    try:
        content = json.loads(read_text(path, limit))
        if not isinstance(content, dict) or not all(isinstance(one, list) for one in content.values()):
            raise ValueError("not a list of regions for each subject")
        return {subject: [_spell(str(region)) for region in regions] for subject, regions in content.items()}
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path.name} is not an object with a list of regions for each subject ({error}).") from error
