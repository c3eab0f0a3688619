"""The content of records and error files; files with other content are not used.

Every record has the sha256 of its content, so that a changed digit is noticed. Its schema, shapes and ranges are
checked as well, because another program may have written it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from isocapsnet._files import DamagedError
from isocapsnet._validation import InputError
from isocapsnet.evaluation.failures import cut
from isocapsnet.evaluation.jobs import Job
from isocapsnet.evaluation.naming import canonical_json, digest_of
from isocapsnet.evaluation.protocol import PROTOCOLS, Protocol
from isocapsnet.evaluation.samples import Samples

Record = dict[str, Any]

_SEAL = "sha256"
_DEEPEST = 20
_LARGEST_NUMBER = 1 << 53
_LONGEST_TEXT = 100_000
_LONGEST_SECONDS = 1e9
_ROUNDING = 1e-3

_JOB = {
    "dataset": str, "method": str, "version": int, "parameters": dict, "protocol": dict, "space": dict,
    "preparation": list, "use_unlabeled": bool, "repeat": int, "fold": int, "permutation": int,
    "audit": int | None, "share": float,
}  # fmt: skip
_RECORD = {
    "key": str, "job": dict, "split": str, "classes": list, "n_train": int, "test": list, "labels": list,
    "probabilities": list, "settings": dict, "seconds": dict, "peak_memory": int, "versions": dict,
}  # fmt: skip
_ERROR = {"key": str, "job": dict, "reason": str, "traceback": str}
_STEP = {"name": str, "parameters": dict, "columns": list}
_SITES = {"tested": list, "too_small": list, "n_subjects": int}


def seal(content: Mapping[str, Any]) -> Record:
    """A record or an error with the sha256 of its content."""
    return {**content, _SEAL: digest_of(content)}


def check_record(content: Any) -> Record:
    """A sealed record without its seal, or DamagedError."""
    optional = {name: dict for name in ("sites", "left_out") if isinstance(content, dict) and name in content}
    has_sites = "sites" in optional
    record, job = _open(content, _RECORD | optional)
    keeps_sites = PROTOCOLS[job.protocol["name"]].keeps_sites
    _require(has_sites == keeps_sites, "lacks its sites" if keeps_sites else "names sites, but its folds are not sites")
    n_classes, n_test = len(record["classes"]), len(record["test"])
    _require(n_classes > 1, f"names {n_classes} classes")
    named = all(isinstance(name, str | int | float) for name in record["classes"])
    _require(named and len(set(record["classes"])) == n_classes, "has classes without unique names")
    _require(record["n_train"] > 0, "has no training graphs")
    _require(n_test > 0 and _are(record["test"], int) and min(record["test"]) >= 0, "has no test indices")
    _require(len(set(record["test"])) == n_test, "names a test graph twice")
    _require(len(record["labels"]) == n_test, f"has {len(record['labels'])} labels of {n_test} test graphs")
    _require(_are(record["labels"], int), "has labels that are not integers")
    _require(min(record["labels"]) >= 0 and max(record["labels"]) < n_classes, "has labels that are not classes")
    _check_probabilities(record["probabilities"], n_test, n_classes)
    for name, value in record["settings"].items():
        is_offered = name in job.space and value in job.space[name]
        _require(is_offered, f"chose a setting {cut(name, 40)} that was not offered")
    left_out = record.get("left_out", {})
    texts = [*left_out, *left_out.values()]
    is_short = _are(texts, str) and sum(map(len, texts)) <= _LONGEST_TEXT
    _require(is_short, "describes what its search left out in an invalid form")
    _require(set(record["seconds"]) == {"tune", "fit", "predict"}, "lacks its times")
    times = list(record["seconds"].values())
    _require(_are(times, int | float) and 0 <= min(times) <= max(times) < _LONGEST_SECONDS, "has impossible times")
    _require(_are(record["versions"].values(), str), "lacks versions")
    if has_sites:
        sites = _typed(record["sites"], _SITES, "names sites that")
        _require(_are([*sites["tested"], *sites["too_small"]], str) and len(sites["tested"]) > 0, "names no sites")
        _require(0 < sites["n_subjects"] <= n_test, f"counts {sites['n_subjects']} subjects of {n_test} test graphs")
    return record


def check_error(content: Any) -> Record:
    """A sealed error without its seal, or DamagedError."""
    error, _ = _open(content, _ERROR)
    _require(error["reason"].strip() != "", "gives no reason")
    return error


def check_fold(record: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Refuse a record whose fold is not that of the plan: see :func:`isocapsnet.evaluation.jobs.describe_fold`."""
    for name, value in expected.items():
        _require(record[name] == value, f"differs from the plan in its {name}")


def check_truth(record: Mapping[str, Any], samples: Samples) -> None:
    """Refuse a record whose labels are not those of the data."""
    _require(record["classes"] == samples.class_names, "names other classes than the data")
    _require(max(record["test"]) < len(samples), f"tests a graph that is not among the {len(samples)} of the data")
    labels = samples.labels[record["test"]]
    expected = np.where(labels < 0, -1, np.searchsorted(samples.classes, labels)).tolist()
    _require(record["labels"] == expected, "has other labels than the data")
    n_labelled = len(samples.labelled)
    _require(record["n_train"] + len(record["test"]) <= n_labelled, f"has more graphs than the {n_labelled} labelled")


def find_disagreement(records: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Key to reason of the records that disagree with most others about the classes or the test graphs of a fold.

    All methods have the same folds. Without a majority for a fold, none of its records is used.
    """
    items = list(records)
    views = {
        "other records about the classes": lambda r: ("", r["classes"]),
        "other methods about who was tested in its fold": lambda r: (
            [r["job"]["repeat"], r["job"]["fold"], r["job"].get("share", 1)],
            [r["test"], r["labels"], r["n_train"], r.get("sites")],
        ),
    }
    reasons: dict[str, str] = {}
    for what, view in views.items():
        groups: dict[str, dict[str, str]] = {}
        for record in items:
            where, seen = view(record)
            groups.setdefault(canonical_json(where), {})[record["key"]] = digest_of(seen)
        for seen_by in groups.values():
            [(most, votes)] = Counter(seen_by.values()).most_common(1)
            agreed = most if 2 * votes > len(seen_by) else None
            reasons |= {key: f"disagrees with {what}" for key, seen in seen_by.items() if seen != agreed}
    return reasons


def _open(content: Any, schema: Mapping[str, Any]) -> tuple[Record, Job]:
    """A record or error that is typed, sealed and of its job, without the seal; and that job."""
    try:
        _require(_is_shallow(content, _DEEPEST), "is nested too deeply")
        _require(isinstance(content, dict), "is not a record")
        inner = {name: value for name, value in content.items() if name != _SEAL}
        _require(_SEAL in content, "has no checksum: it was edited, or written by another version")
        _typed(inner, schema, "")
        job = _read_job(inner["job"])
        _require(job.key == inner["key"], "has a key that is not that of its job")
        _require(digest_of(inner) == content[_SEAL], "was changed after it was written: its checksum differs")
    except InputError as error:  # the content has no canonical JSON
        raise DamagedError("holds numbers that are not finite") from error
    return inner, job


def _read_job(content: Record) -> Job:
    # A share of 1 is not named.
    _typed(content, {name: kind for name, kind in _JOB.items() if name != "share" or name in content}, "has a job that")
    _require(0 < content.get("share", 1) <= 1, "has an invalid share of training subjects")
    try:
        is_supported = Protocol.from_json(content["protocol"]).to_json() == content["protocol"]
    except (TypeError, ValueError):
        is_supported = False
    _require(is_supported, "has a protocol that this version does not support")
    for step in content["preparation"]:
        _require(isinstance(step, dict) and _are(_typed(step, _STEP, "has a step that")["columns"], str), "has no step")
    _require(_are(content["space"].values(), list), "has a search space without values")
    return Job(**content)


def _typed(content: Record, schema: Mapping[str, Any], prefix: str) -> Record:
    """``content`` if it has the fields and types of the schema, with numbers and texts of a plausible size."""
    for name in content:
        _require(name in schema, f"{prefix} has the unexpected field {cut(repr(name), 60)}".strip())
    for name, kind in schema.items():
        _require(name in content, f"{prefix} lacks {name}".strip())
        value = content[name]
        fits = isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
        if isinstance(value, int):
            fits = fits and 0 <= value < _LARGEST_NUMBER
        if isinstance(value, str):
            fits = fits and len(value) <= _LONGEST_TEXT
        _require(fits, f"{prefix} has {name} = {cut(repr(value), 60)}".strip())
    return content


def _check_probabilities(rows: Sequence[Any], n_test: int, n_classes: int) -> None:
    _require(len(rows) == n_test, f"has {len(rows)} rows of probabilities for {n_test} test graphs")
    for row in rows:
        _require(isinstance(row, list) and len(row) == n_classes, f"has a row without {n_classes} probabilities")
        _require(_are(row, int | float) and min(row) >= 0 and max(row) <= 2, "has values that are not probabilities")
        _require(abs(sum(row) - 1) <= _ROUNDING, "has probabilities that do not sum to 1")


def _are(values: Iterable[Any], kind: Any) -> bool:
    return all(isinstance(value, kind) and not isinstance(value, bool) for value in values)


def _is_shallow(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return True
    items = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_is_shallow(item, levels - 1) for item in items)


def _require(holds: bool, reason: str) -> None:
    if not holds:
        raise DamagedError(reason)
