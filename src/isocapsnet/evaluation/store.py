"""One file per finished job, written in one step; a job is finished when its record is on disk.

::

    records/<two hex digits>/<key>.json   a record, or a hundred permutation jobs of one fold
    errors/<two hex digits>/<key>.json    why a job failed; removed when it succeeds
    artifacts/<key>/                      what the report needs beside a record
    inner/<two hex digits>/<key>.json     the scores of a search inside a training fold
    rejected/                             files that could not be used
    partial/                              files that are being written

Earlier versions wrote records and errors without ``.json``; these are still read. To merge the results of two machines,
copy their files together. Every file is checked when it is read (see :mod:`isocapsnet.evaluation.records`); a file that
fails is skipped and noted in :attr:`Store.rejected`.
"""

import json
import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from isocapsnet._files import DamagedError, read_json, set_aside, write_whole
from isocapsnet.evaluation.artifacts import check_artifacts
from isocapsnet.evaluation.failures import printable
from isocapsnet.evaluation.inner_scores import check_scores
from isocapsnet.evaluation.jobs import Job
from isocapsnet.evaluation.naming import canonical_json, digest_of
from isocapsnet.evaluation.records import Record, check_error, check_fold, check_record, seal

#: Permutation jobs of one method and fold that share a file, so that a run has hundreds of files, not 10^5.
BATCH_SIZE = 100
_LEFTOVER_SECONDS = 3600
_LISTED = 5

Check = Callable[[Record], None]


class Store:
    """The results folder of a benchmark.

    Attributes
    ----------
    rejected : dict
        Path to what could not be used of it: key to reason; the key is empty for the whole file.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.rejected: dict[Path, dict[str, str]] = {}
        self._single: dict[str, dict[str, Job]] = {}
        self._read_batch = lru_cache(maxsize=8)(self._read)

    def load(self, job: Job, expected: Mapping[str, Any] | None = None) -> Record | None:
        """The record of a finished job, or None if there is no usable one.

        ``expected`` is the fold of the plan (``jobs.describe_fold``).
        """
        path = self._find("records", job.key)
        record = self._read(path).get(job.key)
        if record is not None and job.permutation:
            self._single.setdefault(batch_key(job), {})[job.key] = job
        elif job.permutation:
            path = self._find("records", batch_key(job))
            # An absent batch is not cached as empty: another run may be about to write it.
            record = self._read_batch(path).get(job.key) if path.exists() else None
        check = None if expected is None else (lambda record: check_fold(record, expected))
        return record if record is not None and self._passes(check, record, path) else None

    def load_key(self, key: str) -> Record | None:
        """The record of a job that is no permutation, by its key; None if there is no usable one."""
        return self._read(self._find("records", key)).get(key)

    def save(self, job: Job, record: Mapping[str, Any]) -> Record:
        """Write a record and return it as :meth:`load` would; the last of a batch of permutations merges the batch.

        DamagedError for a record that :meth:`load` would not accept.
        """
        content = canonical_json(seal(record))
        checked = check_record(json.loads(content))
        if checked["key"] != job.key:
            raise DamagedError("is the record of another job")
        self._write(self._path("records", job.key), content)
        self._remove("errors", [job.key])
        if job.permutation:
            batch = self._single.setdefault(batch_key(job), {})
            batch[job.key] = job
            if len(batch) == BATCH_SIZE:
                self._merge(batch_key(job), batch)
        return checked

    def save_error(self, job: Job, error: Mapping[str, Any]) -> None:
        """Write why a job failed."""
        content = {"key": job.key, "job": job.to_json(), "reason": error["reason"], "traceback": error["traceback"]}
        self._write(self._path("errors", job.key), canonical_json(seal(content)))

    def load_error(self, job: Job) -> Record | None:
        """Why a job failed in its last run, or None."""
        return self._read(self._find("errors", job.key), check_error).get(job.key)

    def check_inner_scores(self, job: Job) -> None:
        """Note if the inner scores of a job cannot be used."""
        self._read(inner_scores_path(self.folder, job), check_scores)

    def artifacts(self, job: Job) -> Path:
        """The folder of a job's artifacts."""
        return self.folder / "artifacts" / job.key

    def has_whole_artifacts(self, job: Job) -> bool:
        """Whether the artifacts of a job can be read."""
        try:
            check_artifacts(self.artifacts(job))
        except DamagedError as error:
            self._reject(self.artifacts(job), str(error))
            return False
        return True

    def records(self, check: Check | None = None) -> Iterator[Record]:
        """Every record in the folder that passes ``check``, in the order of the files."""
        seen: set[str] = set()
        for path in sorted(self.folder.glob("records/??/*")):
            for record in self._read(path).values():
                # A crash can leave a record both alone and in its batch.
                if record["key"] not in seen and self._passes(check, record, path):
                    seen.add(record["key"])
                    yield record

    def errors(self) -> Iterator[Record]:
        """Every failure in the folder."""
        for path in sorted(self.folder.glob("errors/??/*")):
            yield from self._read(path, check_error).values()

    def describe_rejected(self) -> list[str]:
        """A sentence for each of the first files that could not be used, and one for the others."""
        first = list(self.rejected.items())[:_LISTED]
        sentences = [printable(f"{path} {_first(reasons)}.") for path, reasons in first]
        more = len(self.rejected) - len(sentences)
        return [*sentences, f"{more} more files of {self.folder} cannot be used."] if more else sentences

    def set_aside_rejected(self) -> None:
        """Move rejected files to ``rejected/``, with a warning for each of the first ones.

        The usable records of a batch stay.
        """
        sentences = self.describe_rejected()
        for path, reasons in self.rejected.items():
            kept = [] if "" in reasons else [r for key, r in self._read_batch(path).items() if key not in reasons]
            folder = self.folder / "rejected" / path.relative_to(self.folder).parts[0]
            if set_aside(path, folder, as_copy=bool(kept)) is not None and kept:
                self._write_batch(path, kept)
        self.rejected.clear()
        self._read_batch.cache_clear()
        for sentence in sentences:
            warnings.warn(f"{sentence} Kept in {self.folder / 'rejected'}; computed again.", stacklevel=2)

    def remove_leftovers(self) -> None:
        """Remove the partial files of killed runs; a recent file may belong to another run that is still alive."""
        for path in self.folder.glob("partial/*"):
            with suppress(OSError):
                if time.time() - path.lstat().st_mtime > _LEFTOVER_SECONDS:
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def _path(self, kind: str, key: str) -> Path:
        return self.folder / kind / key[:2] / f"{key}.json"

    def _find(self, kind: str, key: str) -> Path:
        """The file of a key: that of an earlier version, without suffix, if there is no other."""
        path = self._path(kind, key)
        former = path.with_suffix("")
        return former if not os.path.lexists(path) and os.path.lexists(former) else path

    def _read(self, path: Path, validate: Callable[[Any], Record] = check_record) -> dict[str, Record]:
        """What is usable of a file by key: a record or an error, or the records of a batch."""
        try:
            content = read_json(path)
            if validate is check_record and isinstance(content, dict) and "batch" in content:
                return self._open_batch(path, content)
            record = validate(content)
            if record["key"] != _key_of(path):
                raise DamagedError("holds the content of another file")
            return {record["key"]: record}
        except FileNotFoundError:
            return {}
        except DamagedError as error:
            self._reject(path, str(error))
            return {}

    def _open_batch(self, path: Path, content: Record) -> dict[str, Record]:
        if not isinstance(content["batch"], list) or content.keys() > {"key", "batch"}:
            raise DamagedError("is no batch of records")
        records: dict[str, Record] = {}
        for number, item in enumerate(content["batch"], start=1):
            try:
                record = check_record(item)
                if not record["job"]["permutation"] or batch_key(Job(**record["job"])) != _key_of(path):
                    raise DamagedError("belongs to another file")
                records[record["key"]] = record
            except DamagedError as error:
                self._reject(path, str(error), f"record {number}")
        if not records:
            raise DamagedError("is a batch without any usable record")
        return records

    def _passes(self, check: Check | None, record: Record, path: Path) -> bool:
        try:
            if check is not None:
                check(record)
        except DamagedError as error:
            self._reject(path, str(error), "" if _key_of(path) == record["key"] else record["key"])
            return False
        return True

    def _reject(self, path: Path, reason: str, key: str = "") -> None:
        """Note that a file, or the record ``key`` in it, cannot be used."""
        self.rejected.setdefault(path, {})[key] = reason

    def _merge(self, key: str, batch: dict[str, Job]) -> None:
        records = [self.load(job) for job in sorted(batch.values(), key=lambda job: job.permutation)]
        whole = [record for record in records if record is not None]
        if len(whole) < len(records):
            return
        self._write_batch(self._path("records", key), whole)
        self._remove("records", batch)
        del self._single[key]
        self._read_batch.cache_clear()

    def _remove(self, kind: str, keys: Iterable[str]) -> None:
        for key in keys:
            for path in (self._path(kind, key), self._path(kind, key).with_suffix("")):
                path.unlink(missing_ok=True)

    def _write_batch(self, path: Path, records: Iterable[Record]) -> None:
        self._write(path, canonical_json({"key": _key_of(path), "batch": [seal(record) for record in records]}))

    def _write(self, path: Path, text: str) -> None:
        write_whole(path, text.encode(), self.folder / "partial")


def _key_of(path: Path) -> str:
    return path.name.removesuffix(".json")


def inner_scores_path(folder: Path, job: Job) -> Path:
    """The file with the inner scores of a job."""
    return folder / "inner" / job.search_key[:2] / f"{job.search_key}.json"


def batch_key(job: Job) -> str:
    """The key of the file that a permutation job shares with the others of its hundred."""
    first = job.permutation - (job.permutation - 1) % BATCH_SIZE
    return digest_of({**job.to_json(), "permutation": [first, first + BATCH_SIZE - 1]})


def _first(reasons: Mapping[str, str]) -> str:
    """What is wrong with a file or with its first bad record."""
    if "" in reasons:
        return reasons[""]
    what = "one record" if len(reasons) == 1 else f"{len(reasons)} records, the first of which"
    return f"holds {what} that cannot be used: it {next(iter(reasons.values()))}"
