"""Options with which refused data could be read, found by trying those that the refusals name."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from isocapsnet.datasets.findings import Findings
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.reading import ReadOptions

# An argument with a value, as messages write it: kind="edges", n_nodes=8, directed=True.
_HINT = re.compile(r"""\b(\w+)=(?:"([^"]+)"|(\d{1,9})|(True|False))""")
_OPTIONS = frozenset(field.name for field in fields(ReadOptions)) - {"exclude", "max_missing", "read_limit", "like"}
#: Options of several values.
_ADDED = ("where", "select")
_MOST_TRIALS = 10
_MOST_CHANGES = 3
_SECONDS = 30.0


@dataclass(frozen=True)
class Remedy:
    """Changes of options, and the data that are read with them."""

    changes: dict[str, Any]
    data: BrainGraphs


def find_remedies(source: Any, options: ReadOptions, findings: Findings) -> list[Remedy]:
    """The smallest changes of ``options`` that make refused data readable.

    There are several if the data are ambiguous; only their owner knows which is right. The search ends after ten trials
    or half a minute.
    """
    from isocapsnet.datasets.readers import read_graphs

    started, n_trials = time.monotonic(), 0
    level: list[tuple[dict[str, Any], Findings]] = [({}, findings)]
    seen: list[dict[str, Any]] = []
    for _ in range(_MOST_CHANGES):
        found: list[Remedy] = []
        following: list[tuple[dict[str, Any], Findings]] = []
        for changes, noted in level:
            for name, value in _list_hints(noted):
                # Another condition or part of a name is added to those that are given.
                given = changes.get(name, getattr(options, name)) if name in _ADDED else ()
                trial = {**changes, name: (*given, value) if name in _ADDED else value}
                if trial in seen or trial == changes or n_trials >= _MOST_TRIALS:
                    continue
                seen.append(trial)
                n_trials += 1
                data, attempt = None, Findings()
                with attempt.noting():
                    data = read_graphs(source, replace(options, **trial), attempt)
                if data is not None:
                    found.append(Remedy(trial, data))
                else:
                    following.append((trial, attempt))
                if time.monotonic() - started > _SECONDS:
                    return []  # others that fit as well may be left
        if found:
            return found
        level = following
    return []


def _list_hints(findings: Findings) -> Iterator[tuple[str, Any]]:
    """The options that refusals name with a value; to set subjects aside comes last."""
    for sentence in findings.errors[:3]:
        for name, text, number, flag in _HINT.findall(sentence):
            if name in _OPTIONS:
                yield name, text or (int(number) if number else flag == "True")
    if findings.find_refused():
        yield "skip_refused", True
