"""Damage to plain values (dicts, lists, texts, numbers): JSON files, and what is pickled."""

import copy
import json
import math
from collections.abc import Callable
from random import Random
from typing import Any

from tests.fuzz.damage.text import CELLS

#: Values that are wrong nearly everywhere.
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 3, 2**31, 2**63, -(2**63), 2**64, 10**400, 0.5, 1.5, -0.0, 1e308, 5e-324,
    math.nan, math.inf, -math.inf, "", " ", "x" * 10_000, "\0", "\x1b[2J", "\ud800", "9" * 5000, "../../etc/passwd",
    "/etc/passwd", [], {}, [[]], [None], {"": None}, {"a": {"b": []}}, [0] * 1000, [[0.5, 0.5]] * 3, "0", "nan",
    "labels", "adjacency",
)  # fmt: skip
_DEEP = 100_000


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Every container of the tree with each of its keys."""
    found: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        container = waiting.pop()
        keys = container.keys() if isinstance(container, dict) else range(len(container))
        for key in list(keys):
            found.append((container, key))
            if isinstance(container[key], dict | list) and len(found) < 5000:
                waiting.append(container[key])
    return found


def _replace(container: Any, key: Any, rng: Random) -> None:
    container[key] = copy.deepcopy(rng.choice(ODD))


def _replace_text(container: Any, key: Any, rng: Random) -> None:
    container[key] = rng.choice(CELLS)


def _delete(container: Any, key: Any, rng: Random) -> None:
    del container[key]


def _duplicate(container: Any, key: Any, rng: Random) -> None:
    if isinstance(container, list):
        container[key:key] = [container[key]] * rng.choice((1, 1, 3))
    else:
        container[rng.choice(("", "extra", f"{key} "))] = container[key]


def _rename(container: Any, key: Any, rng: Random) -> None:
    if isinstance(container, dict):
        container[rng.choice(("", "x", f"{key}s", "\0", "__class__"))] = container.pop(key)
    else:
        rng.shuffle(container)


def _wrap(container: Any, key: Any, rng: Random) -> None:
    value = container[key]
    container[key] = rng.choice(([value], {"value": value}, str(value)[:2000], [value, value]))


def _nest(container: Any, key: Any, rng: Random) -> None:
    for _ in range(rng.choice((2, 20, 150))):
        container[key] = [container[key]]


def _tweak(container: Any, key: Any, rng: Random) -> None:
    value = container[key]
    if isinstance(value, bool) or not isinstance(value, int | float):
        _replace(container, key, rng)
    else:
        container[key] = rng.choice(
            (-value, value + 1, value - 1, float(value), str(value), value + 1e-9, value * 1000)
        )


def _empty(container: Any, key: Any, rng: Random) -> None:
    container.clear()


def _exchange(container: Any, key: Any, rng: Random) -> None:
    other = rng.choice(list(container.keys() if isinstance(container, dict) else range(len(container))))
    container[key], container[other] = container[other], container[key]


_MUTATORS: tuple[Callable[[Any, Any, Random], None], ...] = (
    _replace, _replace, _replace, _replace_text, _delete, _delete, _duplicate, _rename, _wrap, _nest, _tweak, _tweak,
    _empty, _exchange,
)  # fmt: skip


def damage_tree(tree: Any, rng: Random) -> Any:
    """A copy of the value with one to four places changed."""
    if rng.random() < 0.02:
        return copy.deepcopy(rng.choice(ODD))
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        places = _places(tree) if isinstance(tree, dict | list) else []
        if places:
            # As often near the root as anywhere: long lists of numbers are most of a record.
            container, key = rng.choice((rng.choice(places), rng.choice(places[:12])))
            rng.choice(_MUTATORS)(container, key, rng)
    return tree


def as_json(tree: Any, rng: Random) -> str:
    """The value as JSON, now and then in a form that few writers produce."""
    text = json.dumps(tree, indent=rng.choice((None, None, 1)))
    if rng.random() > 0.1:
        return text
    place = rng.randrange(len(text) + 1)
    snippet = rng.choice(
        (
            "[" * _DEEP,
            '{"a":' * _DEEP,
            "[" * 990 + "]" * 990,
            "9" * 5000,
            "NaN",
            "-Infinity",
            "1e99999",
            '"\\ud800"',
            "\0",
            "\ufeff",
            "'",
            "//",
            ",",
        )
    )
    return text[:place] + snippet + rng.choice((text[place:], ""))


def damage_json(content: bytes, rng: Random) -> bytes:
    """A JSON file whose values were changed."""
    return as_json(damage_tree(json.loads(content), rng), rng).encode("utf-8", "surrogatepass")
