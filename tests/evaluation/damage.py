"""Ways in which the file of a record can be damaged, edited or swapped, each by its name."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from isocapsnet.evaluation.naming import canonical_json, digest_of
from isocapsnet.evaluation.records import seal

Damage = Callable[[Path], None]


def _bytes(change: Callable[[bytes], bytes]) -> Damage:
    """Another content."""
    return lambda path: _put(path, change(path.read_bytes()))


def _put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _next_digit(found: "re.Match[bytes]") -> bytes:
    return b"%d" % ((int(found[0]) + 1) % 10)


def _edit(change: Callable[[dict[str, Any]], Any], *, sealed: bool = True) -> Damage:
    """Other fields; ``sealed`` with the right checksum, as a program would that knows the format."""

    def damage(path: Path) -> None:
        record = json.loads(path.read_bytes())
        checksum = record.pop("sha256")
        change(record)
        content = seal(record) if sealed and _is_plain(record) else {**record, "sha256": checksum}
        path.write_text(json.dumps(content))

    return damage


def _is_plain(record: Any) -> bool:
    try:
        canonical_json(record)
    except ValueError:
        return False
    return True


def _rekeyed(change: Callable[[dict[str, Any]], Any]) -> Damage:
    """Another job, with the key of that job, under the old name."""

    def edit(record: dict[str, Any]) -> None:
        change(record["job"])
        record["key"] = digest_of(record["job"])

    return _edit(edit)


def _replaced(make: Callable[[Path], None]) -> Damage:
    """Something else in the place of the file."""

    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


def _linked(path: Path) -> None:
    target = path.parents[3] / "elsewhere"
    shutil.copyfile(path, target)
    path.unlink()
    path.symlink_to(target)


def _swapped(path: Path) -> None:
    """The record of another job of the same run."""
    others = (other for other in sorted(path.parents[1].glob("??/*")) if other != path)
    shutil.copyfile(next(others), path)


def _set(**changes: Any) -> Damage:
    return _edit(lambda record: record.update(changes))


def _row(index: int, row: Any) -> Damage:
    return _edit(lambda record: record["probabilities"].__setitem__(index, row))


def _flip(record: dict[str, Any]) -> None:
    record["labels"] = [1 - label for label in record["labels"]]


def _swap_rows(record: dict[str, Any]) -> None:
    rows = record["probabilities"]
    rows[0], rows[-1] = rows[-1], rows[0]


def _shift_test(record: dict[str, Any]) -> None:
    record["test"] = [index + 1 for index in record["test"]]


def _drop_last(record: dict[str, Any]) -> None:
    for name in ("test", "labels", "probabilities"):
        record[name] = record[name][:-1]


def _bury(record: dict[str, Any], levels: int) -> None:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    record["job"]["parameters"]["deep"] = value


KINDS: dict[str, Damage] = {
    # the text
    "empty": _bytes(lambda content: b""),
    "white space": _bytes(lambda content: b" \n "),
    "cut in half": _bytes(lambda content: content[: len(content) // 2]),
    "one byte flipped": _bytes(lambda content: content[:200] + bytes([content[200] ^ 1]) + content[201:]),
    "a digit changed": _bytes(lambda content: re.sub(rb"(?<=\d\.\d\d)\d", _next_digit, content, count=1)),
    "zeros": _bytes(lambda content: bytes(len(content))),
    "noise": _bytes(lambda content: bytes(range(256)) * 20),
    "not UTF-8": _bytes(lambda content: content.replace(b'"job"', b'"job\xff"')),
    "UTF-16": _bytes(lambda content: content.decode().encode("utf-16")),
    "byte order mark": _bytes(lambda content: b"\xef\xbb\xbf" + content),
    "twice": _bytes(lambda content: content + content),
    "half a character": _bytes(lambda content: content.replace(b'"split":"', b'"split":"\\ud800')),
    "null": _bytes(lambda content: b"null"),
    "a number": _bytes(lambda content: b"3"),
    "a list": _bytes(lambda content: b"[]"),
    "an empty object": _bytes(lambda content: b"{}"),
    "10 MB of nesting": _bytes(lambda content: b"[" * 10_000_000),
    "10 MB of objects": _bytes(lambda content: b'{"a":' * 2_000_000),
    "a number of 5000 digits": _bytes(lambda content: content.replace(b'"n_train":', b'"n_train":' + b"9" * 5000)),
    "NaN": _bytes(lambda content: content.replace(b'"fit":', b'"fit":NaN,"x":')),
    "Infinity": _bytes(lambda content: content.replace(b'"fit":', b'"fit":Infinity,"x":')),
    "1e999": _bytes(lambda content: content.replace(b'"fit":', b'"fit":1e999,"x":')),
    # the file
    "a folder": _replaced(lambda path: path.mkdir()),
    "a folder with files": _replaced(lambda path: (path.mkdir(), (path / "a").write_text("b"))),
    "a link to its content": _linked,
    "a broken link": _replaced(lambda path: path.symlink_to("nowhere")),
    "a link to itself": _replaced(lambda path: path.symlink_to(path)),
    "a link to endless zeros": _replaced(lambda path: path.symlink_to("/dev/zero")),
    "a pipe": _replaced(os.mkfifo),
    "a sparse file of 100 GB": _replaced(lambda path: (path.touch(), os.truncate(path, 100 << 30))),
    "the record of another job": _swapped,
    # edited without the checksum
    "labels flipped by hand": _edit(_flip, sealed=False),
    "predictions swapped by hand": _edit(_swap_rows, sealed=False),
    "seconds edited by hand": _edit(lambda record: record["seconds"].update(fit=1.0), sealed=False),
    "checksum removed": lambda path: path.write_text(
        json.dumps({name: value for name, value in json.loads(path.read_bytes()).items() if name != "sha256"})
    ),
    # edited with it
    "labels flipped": _edit(_flip),
    "labels out of range": _edit(lambda record: record["labels"].__setitem__(0, 7)),
    "negative label": _edit(lambda record: record["labels"].__setitem__(0, -1)),
    "labels as text": _edit(lambda record: record.update(labels=list(map(str, record["labels"])))),
    "labels as truth values": _edit(lambda record: record.update(labels=list(map(bool, record["labels"])))),
    "labels as fractions": _edit(lambda record: record.update(labels=list(map(float, record["labels"])))),
    "a label less": _edit(lambda record: record["labels"].pop()),
    "no labels": _set(labels=[]),
    "labels null": _set(labels=None),
    "nobody tested": _set(labels=[], test=[], probabilities=[]),
    "other test graphs": _edit(_shift_test),
    "a test graph less": _edit(_drop_last),
    "a test graph twice": _edit(lambda record: record["test"].__setitem__(0, record["test"][1])),
    "negative test graph": _edit(lambda record: record["test"].__setitem__(0, -1)),
    "test graph beyond the data": _edit(lambda record: record["test"].__setitem__(0, 10**6)),
    "three columns": _edit(lambda record: record.update(probabilities=[[*r, 0.0] for r in record["probabilities"]])),
    "one column": _edit(lambda record: record.update(probabilities=[r[:1] for r in record["probabilities"]])),
    "a ragged row": _row(3, [1.0]),
    "a row of null": _row(0, [None, 0.5]),
    "a row of text": _row(0, ["0.5", "0.5"]),
    "probability above 1": _row(0, [1.5, -0.5]),
    "probabilities of 1e308": _row(0, [1e308, -1e308]),
    "probabilities that sum to 2": _row(0, [1.0, 1.0]),
    "probability of 400 digits": _row(0, [10**400, 0.5]),
    "probabilities null": _set(probabilities=None),
    "a class more": _edit(lambda record: record["classes"].append("other")),
    "a class less": _edit(lambda record: record["classes"].pop()),
    "classes renamed": _set(classes=["well", "ill"]),
    "classes exchanged": _edit(lambda record: record["classes"].reverse()),
    "one class twice": _edit(lambda record: record.update(classes=[record["classes"][0]] * 2)),
    "n_train 0": _set(n_train=0),
    "n_train negative": _set(n_train=-20),
    "n_train of text": _set(n_train="many"),
    "n_train huge": _set(n_train=10**30),
    "n_train of another fold": _edit(lambda record: record.update(n_train=record["n_train"] - 1)),
    "key of nobody": _set(key="0" * 64),
    "key of a list": _set(key=["a"]),
    "a batch, too": _set(batch=3),
    "seconds of a list": _set(seconds=[1.0]),
    "seconds of text": _set(seconds={"tune": 0.0, "fit": "long", "predict": 0.0}),
    "seconds of 1e308": _set(seconds={"tune": 1e308, "fit": 1e308, "predict": 0.0}),
    "seconds negative": _set(seconds={"tune": 0.0, "fit": -1.0, "predict": 0.0}),
    "settings that were not offered": _set(settings={"C": 3}),
    "memory negative": _set(peak_memory=-1),
    "versions of numbers": _set(versions={"numpy": 2}),
    "sites without reason": _set(sites={"tested": ["a"], "too_small": [], "n_subjects": 1}),
    "a field more": _set(comment="edited"),
    "a field less": _edit(lambda record: record.pop("split")),
    "no probabilities": _edit(lambda record: record.pop("probabilities")),
    "no job": _edit(lambda record: record.pop("job")),
    # another job in its place
    "a job of text": _set(job="linear"),
    "job of another dataset": _rekeyed(lambda job: job.update(dataset="sha256:other")),
    "job of another fold": _rekeyed(lambda job: job.update(fold=job["fold"] + 1)),
    "job of fold 10^9": _rekeyed(lambda job: job.update(fold=10**9)),
    "job of a method of numbers": _rekeyed(lambda job: job.update(method=3)),
    "job without audit": _rekeyed(lambda job: job.pop("audit")),
    "job with a colour": _rekeyed(lambda job: job.update(colour="red")),
    "job of an unknown protocol": _rekeyed(lambda job: job["protocol"].update(name="bootstrap")),
    "job with a nameless step": _rekeyed(lambda job: job.update(preparation=[{}])),
    "job 30 levels deep": _edit(lambda record: _bury(record, 30)),
    "job 900 levels deep": _edit(lambda record: _bury(record, 900)),
}

#: One of each sort, for every run of the suite.
FEW = (
    "empty", "predictions swapped by hand", "10 MB of nesting", "NaN", "not UTF-8", "a folder", "a link to its content",
    "a pipe", "labels flipped", "three columns", "probability above 1", "job of another dataset", "key of nobody",
)  # fmt: skip
