"""The parts of file names that may be identifiers of subjects."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from isocapsnet.datasets.identifiers import Tokens, longest_number, plain_name, spelling_key, split_words, tokenize


@dataclass(frozen=True)
class Run:
    """Part of a file name that may be an identifier: its tokens, how many are before and after it, whether it starts
    inside a word, as 50030 does in control50030, and whether it has all numbers that may be an identifier."""

    tokens: Tokens
    n_before: int
    n_after: int
    is_inside: bool
    is_all: bool = True


def find_runs(names: Sequence[str]) -> dict[str, list[Run]]:
    """What may be an identifier in each file name, longest first.

    A run ends where a part between punctuation ends: 1a is not 1. It must reach into the part where file names
    differ, because what they share, such as an atlas, is not an identifier. In the name of a single file, only shorter
    numbers may be left over. Of a BIDS name, the entities up to any other are possible too: sub-01_ses-1.
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
            possible = [checked for run in possible if (checked := _check_rest(run, split_words(name)))]
        possible += _entities_of(name)
        runs[name] = sorted(possible, key=lambda run: -len(run.tokens))
    return runs


def _runs_of(name: str, words: Tokens) -> Iterator[Run]:
    """Runs from the start of a part between punctuation, or from the number after its letters, to the end of one."""
    parts = [part for text in re.split(r"[\W_]+", plain_name(name)) if (part := tokenize(text))]
    ends = list(itertools.accumulate(map(len, parts)))
    starts = [(end - len(part), False) for end, part in zip(ends, parts, strict=True)]
    for (start, _), part in zip(starts.copy(), parts, strict=True):
        if len(part) > 1 and part[0].isalpha() and part[1].isdigit():
            starts.append((start + 1, True))
    for start, is_inside in starts:
        for end in ends:
            if start < end:
                yield Run(words[start:end], start, len(words) - end, is_inside)


def _check_rest(run: Run, words: list[str]) -> Run | None:
    """The run, marked if it leaves numbers over; ``None`` if one of them is as long as its own."""
    end = len(words) - run.n_after
    rest = longest_number(words[: run.n_before] + words[end:])
    if not rest:
        return run
    return replace(run, is_all=False) if longest_number(words[run.n_before : end]) > rest else None


def _entities_of(name: str) -> Iterator[Run]:
    """A BIDS name up to each of its entities after the subject, as a table with a row per session has it."""
    parts = name.split("_")
    for end in range(2, len(parts) + 1) if name.startswith("sub-") else ():
        yield Run(spelling_key("_".join(parts[:end])), 0, 0, False)


def _common_length(sequences: list[Tokens]) -> int:
    """How many tokens all sequences start with; 0 when there is only one."""
    if len(sequences) < 2:
        return 0
    return sum(1 for _ in itertools.takewhile(lambda column: len(set(column)) == 1, zip(*sequences, strict=False)))
