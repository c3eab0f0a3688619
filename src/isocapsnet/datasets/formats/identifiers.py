"""Who a file is named after: identifiers as tables write them, and the parts of file names that may be one."""

import itertools
import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from isocapsnet.datasets.fields import MISSING

_WORDS = re.compile(r"[^\W\d_]+|\d+")
_SUBJECT = re.compile(r"(?:^|_)sub-([^_.]+)")
_FLOAT = re.compile(r"(\d{1,15})[.,]0+", re.ASCII)
_ROUNDED = re.compile(r"\d+([.,]\d+e\+?|e\+)\d+", re.ASCII | re.IGNORECASE)

Tokens = tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """Part of a file name that may be an identifier: its tokens, how many are before and after it, and whether it
    starts inside a word, as 50030 does in control50030."""

    tokens: Tokens
    n_before: int
    n_after: int
    is_inside: bool


def tokenize(name: str) -> Tokens:
    """The words and numbers of an identifier: "sub-0050952" and "50952" are the same subject."""
    return tuple([word.lstrip("0") or "0" if word.isdigit() else word for word in _WORDS.findall(_plain(name))])


def is_rounded(identifier: str) -> bool:
    """Whether a spreadsheet has rounded an identifier: 5.0952e4, 5E+04."""
    return _ROUNDED.fullmatch(identifier) is not None


def clean_identifiers(cells: Sequence[str]) -> list[str]:
    """Identifiers without the prefix of BIDS, empty where they are missing.

    A column that a spreadsheet has turned into numbers (50952.0) holds the whole numbers before the point.
    """
    present = {cell for cell in {*cells} if cell.lower() not in MISSING}
    if present and all(map(_FLOAT.fullmatch, present)):
        return [re.split("[.,]", cell)[0] if cell in present else "" for cell in cells]
    return [cell.removeprefix("sub-") if cell in present else "" for cell in cells]


def index_identifiers(identifiers: Sequence[str], wanted: Collection[Tokens]) -> dict[Tokens, list[int]]:
    """The rows of each identifier that is wanted."""
    keys = {one: tokens for one in {*identifiers} if (tokens := tokenize(one)) in wanted}
    rows: dict[Tokens, list[int]] = {}
    for row, identifier in enumerate(identifiers):
        if identifier in keys:
            rows.setdefault(keys[identifier], []).append(row)
    return rows


def find_repeated(identifiers: Sequence[str]) -> list[list[int]]:
    """The rows of each identifier that is there more than once, in any writing: sub-1 and sub-01 are one."""
    rows: dict[Tokens, list[int]] = {}
    for row, identifier in enumerate(identifiers):
        if tokens := tokenize(identifier):
            rows.setdefault(tokens, []).append(row)
    return [repeated for repeated in rows.values() if len(repeated) > 1]


def find_runs(names: Sequence[str]) -> dict[str, list[Run]]:
    """What may be an identifier in each file name, longest first.

    A run ends where a part between punctuation ends: 1a is not 1. It must reach into the part where file names
    differ, because what they share, such as an atlas, is not an identifier. In the name of a single file, no number may
    be left over.
    """
    tokens = [tokenize(name) for name in names]
    n_common_before, n_common_after = _common_length(tokens), _common_length([one[::-1] for one in tokens])
    runs: dict[str, list[Run]] = {}
    for name, words in zip(names, tokens, strict=True):
        first, last = n_common_before, len(words) - n_common_after - 1
        if first > last:
            first, last = 0, len(words) - 1
        possible = [run for run in _runs_of(name, words) if run.n_before <= last and len(words) - run.n_after > first]
        if len(names) == 1:
            left_over = {run: words[: run.n_before] + words[len(words) - run.n_after :] for run in possible}
            possible = [run for run in possible if not any(map(str.isdigit, left_over[run]))]
        runs[name] = sorted(possible, key=lambda run: -len(run.tokens))
    return runs


def _plain(name: str) -> str:
    """A name in lower case and in one of its Unicode forms; of a BIDS name only the subject's entity."""
    entity = _SUBJECT.search(name) if "sub-" in name else None
    text = (entity[1] if entity else name).lower()
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def _runs_of(name: str, words: Tokens) -> Iterator[Run]:
    """Runs from the start of a part between punctuation, or from the number after its letters, to the end of one."""
    parts = [part for text in re.split(r"[\W_]+", _plain(name)) if (part := tokenize(text))]
    ends = list(itertools.accumulate(map(len, parts)))
    starts = [(end - len(part), False) for end, part in zip(ends, parts, strict=True)]
    for (start, _), part in zip(starts.copy(), parts, strict=True):
        if len(part) > 1 and part[0].isalpha() and part[1].isdigit():
            starts.append((start + 1, True))
    for start, is_inside in starts:
        for end in ends:
            if start < end:
                yield Run(words[start:end], start, len(words) - end, is_inside)


def _common_length(sequences: list[Tokens]) -> int:
    """How many tokens all sequences start with; 0 when there is only one."""
    if len(sequences) < 2:
        return 0
    return sum(1 for _ in itertools.takewhile(lambda column: len(set(column)) == 1, zip(*sequences, strict=False)))
