"""Results read from folders: :func:`open_results` and :func:`compare`."""

import json
import shutil
import warnings
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isocapsnet._files import DamagedError
from isocapsnet._planning import publish
from isocapsnet._results import Results, describe_call
from isocapsnet._validation import InputError, check_option
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.evaluation.artifacts import check_artifacts, replacing_folder
from isocapsnet.evaluation.failures import printable
from isocapsnet.evaluation.jobs import Job, method_label
from isocapsnet.evaluation.output import read_context, write_results
from isocapsnet.evaluation.procedures import DEFAULT_TEST, TESTS
from isocapsnet.evaluation.records import check_truth, find_disagreement
from isocapsnet.evaluation.results import group_records, tabulate
from isocapsnet.evaluation.samples import Samples
from isocapsnet.evaluation.store import Check, Store

_LISTED = 5


class DataCopies:
    """The intact copies of data in results folders, by the digest that records name.

    Attributes
    ----------
    problems : list of str
        A sentence for each copy that cannot be used.
    """

    def __init__(self, *folders: Path) -> None:
        self.problems: list[str] = []
        self._paths = sorted(path for folder in folders for path in folder.glob("data/*.npz"))
        self._by_digest: dict[str, Samples] = {}

    def find(self, digest: str) -> Samples | None:
        """The data with this digest, grouped as the digest says; None if there is no copy. A copy is read once."""
        while digest not in self._by_digest and self._paths:
            path = self._paths.pop(0)
            try:
                data = BrainGraphs.load(path)
                groups = [None, *([] if data.covariates is None else data.covariates.columns)]
                views = [Samples(data, group) for group in groups]
            except Exception as error:  # a damaged archive can fail in any way
                self.problems.append(printable(f"The copy of the data in {path.name} cannot be used: {error}"))
            else:
                self._by_digest = {view.digest: view for view in views} | self._by_digest
        return self._by_digest.get(digest)

    def check(self, record: Mapping[str, Any]) -> None:
        """Refuse a record (DamagedError) whose labels differ from those of the data, if there is a copy."""
        samples = self.find(record["job"]["dataset"])
        if samples is not None:
            check_truth(record, samples)


@dataclass(frozen=True)
class Collection:
    """Records and errors by table, and sentences about what was skipped."""

    records: dict[str, list[Mapping[str, Any]]]
    errors: dict[str, list[Mapping[str, Any]]]
    notes: list[str]

    @property
    def groups(self) -> list[str]:
        """The tables, those with records first."""
        return list(dict.fromkeys([*self.records, *self.errors]))


def collect(folders: Iterable[Path], check: Check | None = None) -> Collection:
    """The usable records and errors of folders; records must pass ``check``. Nothing is written."""
    records: dict[str, Mapping[str, Any]] = {}
    errors: dict[str, Mapping[str, Any]] = {}
    notes: list[str] = []
    for store in map(Store, folders):
        records |= {record["key"]: record for record in store.records(check)}
        errors |= {error["key"]: error for error in store.errors()}
        notes += [f"{sentence} It is skipped." for sentence in store.describe_rejected()]
    groups = group_records(records.values())
    reasons = {key: reason for items in groups.values() for key, reason in find_disagreement(items).items()}
    notes += [f"The record {key} {reason}. It is skipped." for key, reason in list(reasons.items())[:_LISTED]]
    if len(reasons) > _LISTED:
        notes.append(f"{len(reasons) - _LISTED} more records disagree with others and are skipped.")
    kept = {name: [item for item in items if item["key"] not in reasons] for name, items in groups.items()}
    failed = group_records(error for key, error in errors.items() if key not in records)
    return Collection({name: items for name, items in kept.items() if items}, failed, notes)


def open_results(folder: str | Path, *, test: str | None = None) -> Results:
    """Read the results that a benchmark left in a folder.

    Nothing is written. If the folder holds several datasets or protocols, the one that ``results.json`` is about is
    read, or else the one with the most records. If the code of a method was changed between two runs, the results of
    the last run are read; :func:`compare` reads all of them.

    Parameters
    ----------
    folder : path
        The results folder.
    test : {"corrected-z", "resampled-t"}, optional
        How intervals and p-values are computed; by default as in the run that wrote the folder.

    Returns
    -------
    results : Results
        What is missing or damaged in the folder is listed in ``results.notes``.

    Examples
    --------
    >>> import isocapsnet
    >>> results = isocapsnet.open_results("results")
    """
    path = Path(folder)
    check_option("test", test or DEFAULT_TEST, tuple(TESTS))
    _check_folders([path])
    saved, problem = read_context(path)
    copies = DataCopies(path)
    collection = collect([path], copies.check)
    if not collection.groups:
        raise InputError(f"There are no results in {path}; run a benchmark with out={path} first.")
    *others, group = sorted(collection.groups, key=lambda g: (_is_about(g, saved), len(collection.records.get(g, ()))))
    notes = [] if problem is None else [f"results.json {problem}. The records may be part of a run."]
    notes += collection.notes
    if others:
        notes.append(
            f"The folder holds {len(others) + 1} groups of results, which differ in data, splits or preparation; one "
            "is shown. isocapsnet.compare shows all of them."
        )
    chosen_test = test or saved.get("test", DEFAULT_TEST)
    saved = saved if _is_about(group, saved) else {}
    former = _find_former(collection, group, saved.get("method_versions", {}))
    if former:
        changed = ", ".join(sorted({label for label, _ in former}))
        notes.append(
            f"The code of {changed} was changed after some results had been stored; these are not shown. "
            "isocapsnet.compare shows them as well."
        )
    has_data = copies.find(json.loads(group)[0]) is not None
    notes += copies.problems
    if not has_data and not copies.problems:
        notes.append("The folder has no copy of the data, so subjects and regions have numbers instead of names.")
    return _make_results(collection, group, saved, copies, [path], notes, chosen_test, former)


def _find_former(collection: Collection, group: str, versions: Mapping[str, int]) -> set[tuple[str, int]]:
    """Methods with versions whose code was changed since; ``versions`` are those of the last run, if it is stored."""
    items = [*collection.records.get(group, []), *collection.errors.get(group, [])]
    stored = {_version_of(item) for item in items}
    return {
        (label, version) for label, version in stored if (label, versions.get(label)) in stored - {(label, version)}
    }


def _version_of(item: Mapping[str, Any]) -> tuple[str, int]:
    """The method of a record or an error, and the version of its code."""
    job = item["job"]
    return method_label(job["method"], job["parameters"]), job["version"]


def _check_folders(paths: Sequence[Path]) -> None:
    if not paths:
        raise InputError("No folder was given; name a folder that a benchmark wrote.")
    for path in paths:
        if not path.is_dir():
            raise InputError(f"There is no folder {path}; name a folder that a benchmark wrote.")


def _make_results(
    collection: Collection,
    group: str,
    saved: Mapping[str, Any],
    copies: DataCopies,
    folders: Sequence[Path],
    notes: Sequence[str] = (),
    test: str = DEFAULT_TEST,
    former: Set[tuple[str, int]] = frozenset(),
) -> Results:
    """The results of one group of records; ``saved`` is what a ``results.json`` says about it."""
    dataset, _, preparation = json.loads(group)
    records, errors = (
        [item for item in part.get(group, []) if _version_of(item) not in former]
        for part in (collection.records, collection.errors)
    )
    samples = copies.find(dataset)
    summary = tabulate(records, errors, test, None if samples is None else samples.persons)
    data = None if samples is None else samples.data
    jobs = [item["job"] for item in [*records, *errors]]
    name = folders[0].resolve().name if len(folders) == 1 else dataset
    context = {
        "passport": {"name": name, "digest": dataset},
        "protocol": {**jobs[0]["protocol"], "repeats": 1 + max(job["repeat"] for job in jobs)},
        "preparation": preparation,
        "data": {"digest": dataset},
        **saved,
        **({} if data is None else {"passport": data.passport}),
        "versions": summary.versions,
    }
    keys = {key for row in summary.rows for key in row.keys.values()}
    by_key = {record["key"]: dict(record) for record in records if record["key"] in keys}
    return Results(summary, context, folders, data, notes, by_key)


def _is_about(group: str, saved: Mapping[str, Any]) -> bool:
    """Whether a group of records is the one that ``results.json`` describes."""
    dataset, protocol, preparation = json.loads(group)
    digest = (saved.get("data") or saved.get("passport") or {}).get("digest")
    same_protocol = (saved.get("protocol") or {}).get("name") == protocol["name"]
    return bool(dataset == digest and same_protocol and saved.get("preparation", []) == preparation)


def compare(*folders: str | Path, out: str | Path | None = None, test: str = DEFAULT_TEST) -> list[Results]:
    """Read results folders together: one :class:`Results` per dataset, protocol and preparation.

    Parameters
    ----------
    *folders : path
        Results of several runs or machines.
    out : path, optional
        Merge the folders into this one. They must be about one dataset under one protocol.
    test : {"corrected-z", "resampled-t"}
        How intervals and p-values are computed; see :func:`isocapsnet.benchmark`.

    Returns
    -------
    list of Results
        One for each.

    Examples
    --------
    >>> import isocapsnet
    >>> [results] = isocapsnet.compare("results-a", "results-b", out="merged")
    """
    paths = [Path(folder) for folder in folders]
    check_option("test", test, tuple(TESTS))
    _check_folders(paths)
    copies = DataCopies(*paths)
    collection = collect(paths, copies.check)
    for note in [*collection.notes, *copies.problems]:
        warnings.warn(note, stacklevel=2)
    if not collection.groups:
        raise InputError(f"There are no records in {', '.join(map(str, paths))}; run a benchmark first.")
    contexts = [context for context, _ in map(read_context, paths) if "digest" in context.get("data", {})]
    passports = {context["data"]["digest"]: {"passport": context["passport"]} for context in contexts}
    results = [
        _make_results(collection, group, passports.get(json.loads(group)[0], {}), copies, paths, test=test)
        for group in collection.groups
    ]
    if out is not None:
        if len(results) > 1:
            raise InputError("out= merges runs on one dataset under one protocol; these folders hold several.")
        for note in merge(collection, paths, Path(out)):
            warnings.warn(note, stacklevel=2)
        [merged] = results
        samples = copies.find(merged.context["data"]["digest"])
        if samples is not None:
            source = publish(samples, Path(out))
            merged.context["data"]["file"] = f"data/{Path(source.file or '').name}"
        merged.context["command"] = describe_call("compare", *paths, {"out": out})
        write_results(Path(out), merged.summary, merged.context)
        merged.folders = (Path(out),)
    return results


def merge(collection: Collection, folders: Sequence[Path], out: Path) -> list[str]:
    """Copy a collection and the artifacts of its records into the folder ``out``; sentences about what is left out.

    Usable files in ``out`` stay; others are set aside. Links are not followed.
    """
    target = Store(out)
    records = [(Job(**record["job"]), record) for items in collection.records.values() for record in items]
    errors = [(Job(**error["job"]), error) for items in collection.errors.values() for error in items]
    missing = [(job, record) for job, record in records if target.load(job) is None]
    failed = [(job, e) for job, e in errors if target.load(job) is None and target.load_error(job) is None]
    target.set_aside_rejected()
    for job, record in missing:
        target.save(job, record)
    for job, error in failed:
        target.save_error(job, error)
    return [note for job, _ in records for folder in folders for note in _copy_artifacts(job, folder, out)]


def _copy_artifacts(job: Job, folder: Path, out: Path) -> list[str]:
    """Copy the artifacts of a job unless they exist; a sentence if they cannot be used."""
    source, target = Store(folder).artifacts(job), Store(out).artifacts(job)
    if target.exists() or not (source.exists() or source.is_symlink()):
        return []
    try:
        check_artifacts(source)
    except DamagedError as error:
        return [f"{source} {error}. It is not copied."]
    with replacing_folder(target) as partial:
        for path in source.iterdir():
            shutil.copyfile(path, partial / path.name, follow_symlinks=False)
    return []
