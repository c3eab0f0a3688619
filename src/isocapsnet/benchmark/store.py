"""One file per finished job, written at once; "finished" means on disk.

::

    records/<two hex digits>/<key>   a record, or a hundred of one fold's permutation jobs
    errors/<two hex digits>/<key>    why a job failed; gone when it succeeds
    artifacts/<key>/                 what the report needs beside a record
    partial/                         what is being written

Merging the results of two machines is copying their files together.
"""

import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from isocapsnet.benchmark.jobs import Job
from isocapsnet.benchmark.naming import canonical_json, digest_of

#: Permutation jobs of one method and fold that share a file, so that a run has hundreds of files, not 10^5.
BATCH_SIZE = 100
_LEFTOVER_SECONDS = 3600


class Store:
    """The results folder of a benchmark."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._single: dict[str, dict[str, Job]] = {}
        self._read_batch = lru_cache(maxsize=8)(_read_batch)

    def load(self, job: Job) -> dict[str, Any] | None:
        """The record of a finished job; None when there is none, or when its file is damaged."""
        record = _read(self._path("records", job.key))
        if record is not None and record.get("key") == job.key:
            if job.permutation:
                self._single.setdefault(batch_key(job), {})[job.key] = job
            return record
        batch = self._path("records", batch_key(job)) if job.permutation else None
        # A batch that is not there must not be remembered as empty: another run may be about to write it.
        return self._read_batch(batch).get(job.key) if batch is not None and batch.exists() else None

    def save(self, job: Job, record: Mapping[str, Any]) -> None:
        """Put a record on disk; the hundredth of a batch of permutations moves all of them into one file."""
        self._write(self._path("records", job.key), record)
        self._path("errors", job.key).unlink(missing_ok=True)
        if job.permutation:
            batch = self._single.setdefault(batch_key(job), {})
            batch[job.key] = job
            if len(batch) == BATCH_SIZE:
                self._merge(batch_key(job), batch)

    def save_error(self, job: Job, error: Mapping[str, Any]) -> None:
        """Put a failure on disk, with its job."""
        self._write(self._path("errors", job.key), {"key": job.key, "job": job.to_json(), **error})

    def load_error(self, job: Job) -> dict[str, Any] | None:
        """Why a job failed when it was last tried; None when it did not."""
        return _read(self._path("errors", job.key))

    def artifacts(self, job: Job) -> Path:
        """Where a job's artifacts are, or will be."""
        return self.folder / "artifacts" / job.key

    def records(self) -> Iterator[dict[str, Any]]:
        """Every record in the folder, in the order of their keys; damaged files are passed over."""
        seen: set[str] = set()
        for path in sorted(self.folder.glob("records/??/*")):
            content = _read(path) or {}
            batch = content.get("batch", [content])
            for record in batch if isinstance(batch, list) else ():
                key = record.get("key") if isinstance(record, dict) and "job" in record else None
                # A crash can leave a record both alone and in its batch.
                if isinstance(key, str) and key not in seen:
                    seen.add(key)
                    yield record

    def errors(self) -> Iterator[dict[str, Any]]:
        """Every failure in the folder."""
        return filter(None, map(_read, sorted(self.folder.glob("errors/??/*"))))

    def remove_leftovers(self) -> None:
        """Remove what a killed run was writing when it ended; anything younger may belong to a run that lives."""
        for path in self.folder.glob("partial/*"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _LEFTOVER_SECONDS:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _path(self, kind: str, key: str) -> Path:
        return self.folder / kind / key[:2] / key

    def _merge(self, key: str, batch: dict[str, Job]) -> None:
        records = [self.load(job) for job in sorted(batch.values(), key=lambda job: job.permutation)]
        if any(record is None for record in records):
            return
        self._write(self._path("records", key), {"key": key, "batch": records})
        self._remove(batch)
        del self._single[key]
        self._read_batch.cache_clear()

    def _remove(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._path("records", key).unlink(missing_ok=True)

    def _write(self, path: Path, content: Mapping[str, Any]) -> None:
        """Write beside the target, then replace: a reader sees the old file or the new one, never a part."""
        partial = self.folder / "partial" / uuid4().hex
        text = canonical_json(content)
        try:
            partial.write_text(text)
            partial.replace(path)
        except FileNotFoundError:  # the first file of its folder
            for folder in (partial.parent, path.parent):
                folder.mkdir(parents=True, exist_ok=True)
            partial.write_text(text)
            partial.replace(path)


def batch_key(job: Job) -> str:
    """The key of the file that a permutation job shares with the others of its hundred."""
    number = (job.permutation - 1) // BATCH_SIZE
    first = replace(job, permutation=number * BATCH_SIZE + 1)
    return digest_of({**first.to_json(), "permutation": [first.permutation, first.permutation + BATCH_SIZE - 1]})


def _read(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file; None when it is missing or damaged."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _read_batch(path: Path) -> dict[str, dict[str, Any]]:
    """The records of a batch by their key."""
    return {record["key"]: record for record in (_read(path) or {}).get("batch", ())}
