"""Damage to records of a benchmark by somebody who knows how their keys and checksums are made."""

import json
from pathlib import PurePosixPath
from random import Random
from typing import Any

from isocapsnet import InputError
from isocapsnet.evaluation.naming import digest_of
from isocapsnet.evaluation.records import seal
from tests.fuzz.damage.trees import as_json, damage_tree


def damage_record(content: bytes, rng: Random) -> bytes:
    """A record, an error or a batch with other values, and the key and checksum that belong to them."""
    tree = damage_tree(json.loads(content), rng)
    batch = tree.get("batch") if isinstance(tree, dict) else None
    if isinstance(batch, list):
        tree["batch"] = [seal_anew(item, has_its_key=rng.random() < 0.9) for item in batch]
    else:
        tree = seal_anew(tree, has_its_key=rng.random() < 0.9)
    return as_json(tree, rng).encode("utf-8", "surrogatepass")


def seal_anew(item: Any, has_its_key: bool = True) -> Any:
    """The record or error with the checksum of what it holds now, and the key of its job."""
    if not isinstance(item, dict):
        return item
    try:
        key = {"key": digest_of(item["job"])} if "job" in item and has_its_key else {}
        return seal({name: value for name, value in {**item, **key}.items() if name != "sha256"})
    except InputError:  # it holds what cannot be in a record, such as NaN
        return item


def place_of(content: bytes, path: str) -> str:
    """The path that a file of the store should have by its key; the one it has where that cannot be said."""
    try:
        key = json.loads(content)["key"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return path
    is_key = isinstance(key, str) and len(key) == 64 and key.isalnum()
    return f"{PurePosixPath(path).parts[0]}/{key[:2]}/{key}" if is_key else path
