"""Keys and seeds from names, never from loop order or memory addresses."""

import hashlib
import json
import reprlib
from typing import Any

import numpy as np

from isocapsnet._validation import InputError


def canonical_json(value: Any) -> str:
    """One text per value: keys sorted, no white space, tuples as lists, no NaN."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{reprlib.repr(value)} cannot be written as JSON: {error}; use finite numbers, text, lists or None."
        ) from error


def digest_of(value: Any) -> str:
    """The sha256 of ``value`` as canonical JSON, 64 hex digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def seed_from(*names: Any) -> int:
    """A seed below 2**31 that depends on the names alone."""
    return int(digest_of(names)[:8], 16) >> 1


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not JSON")
