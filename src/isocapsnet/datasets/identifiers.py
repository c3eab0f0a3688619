"""Identifiers of subjects in their many spellings: ``sub-0050952``, ``NYU_0050952_rois`` and ``50952`` are one."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError

Tokens = tuple[str, ...]

_WORDS = re.compile(r"[^\W\d_]+|\d+")
_SUBJECT = re.compile(r"(?:^|_)sub-([^_.]+)")


def plain_name(name: str) -> str:
    """A name in lower case and in one of its Unicode forms; of a BIDS name only the subject's entity."""
    entity = _SUBJECT.search(name) if "sub-" in name else None
    text = (entity[1] if entity else name).lower()
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def tokenize(name: str) -> Tokens:
    """The words and numbers of an identifier: "sub-0050952" and "50952" are the same subject."""
    return tuple([word.lstrip("0") or "0" if word.isdigit() else word for word in _WORDS.findall(plain_name(name))])


def read_list(path: str | Path) -> list[str]:
    """A file with one identifier per line; blank lines and lines that start with ``#`` are skipped."""
    from isocapsnet.datasets.formats.text import read_text  # which needs numpy

    try:
        lines = [line.strip() for line in read_text(Path(path)).split("\n")]
    except OSError as error:
        raise InputError(f"The list {path} cannot be read ({error.strerror or error}).") from error
    names = [line for line in lines if line and not line.startswith("#")]
    if not names:
        raise InputError(f"The list {path} is empty.")
    return names


def _longest(words: Tokens) -> int:
    """Digits of the longest number."""
    return max((len(word) for word in words if word.isdigit()), default=0)


def match_subjects(names: Iterable[str], subjects: Sequence[str], aliases: Mapping[str, str]) -> dict[str, str]:
    """The subject that each name means; names of no subject are left out.

    A name is the subject itself, else has the same words and numbers as it or as one of its ``aliases`` (alias to
    subject), else contains the words and numbers of one subject only. A name of several subjects is refused.
    """
    exact = {alias: subject for alias, subject in aliases.items() if subject in {*subjects}}
    exact |= {f"sub-{subject}": subject for subject in subjects} | {subject: subject for subject in subjects}
    by_tokens: dict[Tokens, set[str]] = {}
    parts: dict[Tokens, set[str]] = {}
    matches: dict[str, str] = {}
    for name in dict.fromkeys(names):
        if name in exact:
            matches[name] = exact[name]
            continue
        if not by_tokens:
            for spelling, subject in exact.items():
                by_tokens.setdefault(tokenize(spelling), set()).add(subject)
            for subject in subjects:
                parts.setdefault(tokenize(subject), set()).add(subject)
        words = tokenize(name)
        candidates = by_tokens.get(words) or set().union(
            *(
                parts.get(words[i:j], ())
                for i in range(len(words))
                for j in range(i + 1, len(words) + 1)
                if _longest(words[i:j]) >= _longest(words[:i] + words[j:])
            )
        )
        if len(candidates) > 1:
            raise InputError(f"{name!r} may be the subject {list_some(sorted(candidates), 3)}; write the whole name.")
        if candidates:
            matches[name] = candidates.pop()
    return matches


def find_site(file_name: str, subject: str) -> str:
    """What is before the subject's number in the name of a file: UM_1 in UM_1_0050302_rois_cc200."""
    numbers = re.findall(r"\d+", subject)
    number = max(numbers, key=len, default="").lstrip("0")
    match = re.match(rf"(?:sub-)?(.*?)[\W_]*(?<!\d)0*{number}(?!\d)", file_name) if number else None
    if match is not None and len(re.findall(rf"(?<!\d)0*{number}(?!\d)", file_name)) > 1:
        raise InputError(f"{file_name} has the number {number} twice, so its site is not known; do not use site=@file.")
    if match is None or not match[1]:
        raise InputError(f"{file_name} has no site before the subject's number in its name; do not use site=@file.")
    return match[1]
