"""The results of one or more folders, read without changing them, for ``compare`` and ``report``."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isocapsnet._files import DamagedError
from isocapsnet.evaluation.artifacts import check_artifacts, replacing_folder
from isocapsnet.evaluation.jobs import Job
from isocapsnet.evaluation.records import find_disagreement
from isocapsnet.evaluation.results import group_records
from isocapsnet.evaluation.store import Check, Store

_LISTED = 5


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


def merge(collection: Collection, folders: Sequence[Path], out: Path) -> list[str]:
    """Copy a collection and the artifacts of its records into the folder ``out``; sentences about what is left out.

    Usable files in ``out`` stay; others are set aside. Links are not followed.
    """
    target = Store(out)
    records = [record for items in collection.records.values() for record in items]
    errors = [error for items in collection.errors.values() for error in items]
    missing = [(job, record) for job, record in _with_jobs(records) if target.load(job) is None]
    failed = [(job, e) for job, e in _with_jobs(errors) if target.load(job) is None and target.load_error(job) is None]
    target.set_aside_rejected()
    for job, record in missing:
        target.save(job, record)
    for job, error in failed:
        target.save_error(job, error)
    return [note for job, _ in _with_jobs(records) for folder in folders for note in _copy_artifacts(job, folder, out)]


def _with_jobs(items: Iterable[Mapping[str, Any]]) -> list[tuple[Job, Mapping[str, Any]]]:
    return [(Job(**item["job"]), item) for item in items]


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
