"""Identifiers of subjects in their many spellings: ``sub-0050952``, ``NYU_0050952_rois`` and ``50952`` are one."""

import itertools
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError

if TYPE_CHECKING:
    from isocapsnet.datasets.findings import Findings

Tokens = tuple[str, ...]

_WORDS = re.compile(r"[^\W\d_]+|\d+")
_SUBJECT = re.compile(r"(?:^|_)sub-([^_.]+)")
#: Titles of lists of identifiers.
_TITLES = ("participant_id", "participant", "subject_id", "sub_id", "subject", "subjects", "id", "ids")
#: Parts of names that say which scan or copy of a person's it is: ses-2, run1, V2, retest, REST1_LR, " (1)", copy; and
#: after a number: bl and m12 (ADNI), FU1, day2, r1, MR1 and MR_d0129 (OASIS), 20190131, 25750_2_0 (UK Biobank).
_SCAN = re.compile(
    r"(?<![^\W\d_])((ses|sess|session|run|visit|scan|rep|repeat|timepoint|tp|wave|task|acq|dir)(-[a-z0-9]+|[_ ]?\d+)"
    r"|[vt]\d|pre|post|test|retest|baseline|follow[-_]?up\d*|rest\d*|lr|rl|ap|pa|copy([ _]of)?"
    r"|(?<=\d[-_. ])(bl|m(03|06|12|18|24|36|48|60|72)|fu\d*|day\d+|r\d|mr(\d|_d\d{4})"
    r"|20\d\d(?P<dash>-?)(0[1-9]|1[0-2])(?P=dash)(0[1-9]|[12]\d|3[01]))|(?<=_\d{5}_)[0-3]_0)(?![^\W_])|\(\d+\)",
    re.IGNORECASE,
)


def plain_name(name: str) -> str:
    """A name in lower case and in one of its Unicode forms; of a BIDS name only the subject's entity."""
    entity = _SUBJECT.search(name) if "sub-" in name else None
    text = (entity[1] if entity else name).lower().replace("ndar_inv", "ndarinv")  # ABCD writes both
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def split_words(name: str) -> list[str]:
    """The words and numbers of a plain name, as they are written."""
    return _WORDS.findall(plain_name(name))


def tokenize(name: str) -> Tokens:
    """The words and numbers of an identifier: "sub-0050952" and "50952" are the same subject."""
    return tuple([word.lstrip("0") or "0" if word.isdigit() else word for word in split_words(name)])


def find_persons(subjects: Sequence[str]) -> list[str]:
    """The person of each identifier, which may be that of a scan: sub-01_ses-1 and sub-01_ses-2, 01_run1 and 01_run2.

    Identifiers are of one person if they have the same BIDS entity ``sub``, or differ only in the part that names the
    scan and have a number beside it.
    """
    persons = []
    for name in subjects:
        is_bids = _SUBJECT.search(name) is not None
        words = tokenize(name if is_bids else _SCAN.sub("", name))
        persons.append(" ".join(words) if is_bids or any(map(str.isdigit, words)) else name)
    return persons


def find_separated(people: Sequence[object], subjects: Sequence[str]) -> list[list[int]]:
    """The indices of each of ``people`` (one per subject) whose subjects are not of one person by their names."""
    persons = find_persons(subjects)
    indices: dict[object, list[int]] = {}
    for index, one in enumerate(people):
        indices.setdefault(one, []).append(index)
    return [several for several in indices.values() if len({persons[i] for i in several}) > 1]


def list_scans(names: Sequence[str]) -> str:
    """How to choose one of several scans of a person by the part of its name, as the end of a sentence."""
    parts = dict.fromkeys(match[0] for name in names if (match := _SCAN.search(name)))
    return ", such as " + " or ".join(f'select="{part}"' for part in parts) if len(parts) == len(names) else ""


def spelling_key(subject: str) -> Tokens:
    """What all spellings of an identifier share: sub-01, 1 and SUB-1. It is different for each scan of a person."""
    return tokenize(subject.lower().removeprefix("sub-").replace("sub-", "sub_"))


def check_unique(subjects: Sequence[str], sources: Sequence[str], findings: "Findings") -> None:
    """Refuse a subject who occurs twice, also in two spellings; several scans of a person are on record."""
    if "" in subjects:
        findings.errors.append(f"{sources[subjects.index('')].rstrip(' ')} has no identifier; give it one.")
    spellings: dict[Any, list[int]] = {}
    for index, subject in enumerate(subjects):
        spellings.setdefault(spelling_key(subject) or subject, []).append(index)
    for indices in (several for several in spellings.values() if len(several) > 1):
        names = list(dict.fromkeys(subjects[i] for i in indices))
        where = list(dict.fromkeys(sources[i] for i in indices))
        if len(names) > 1:
            findings.errors.append(f"{list_some(list(map(repr, names)), 3)} are spellings of one subject; keep one.")
            continue
        problem = f"Subject {findings.name_of(names[0])!r} has {len(indices)} matrices"
        paths = [PurePosixPath(source) for source in where]
        if len(where) > 1 and len({path.name for path in paths}) == 1 and not list_scans(where):
            # select= would leave out a whole folder, unless it is that of a session.
            own = " and ".join(f"{path.parent.name}_{path.name}" for path in paths[:2])
            findings.errors.append(
                f"{problem} ({', '.join(where[:3])}), and identifiers must differ. If these are several people, rename "
                f"the files, such as {own}; if they are one person, keep one file."
            )
            continue
        if len(where) > 1:  # of several files, one can be chosen
            problem += f" ({', '.join(where[:3])}); choose one with select=, a part of its path{list_scans(where)}"
        findings.errors.append(f"{problem}, or keep one of them.")
    n_persons = len({*find_persons(subjects)})
    if n_persons < len(spellings):
        findings.handle("several graphs of one person, by the names", f"{len(spellings)} graphs of {n_persons} people")
        findings.warnings.append(
            f"The {len(spellings)} graphs are of {n_persons} people by their names; a person is never in training and "
            "test at once."
        )


def read_list(path: str | Path) -> list[str]:
    """A file with one identifier per line; blank lines, lines that start with ``#`` and a title are skipped."""
    from isocapsnet.datasets.formats.text import read_text  # which needs numpy

    try:
        lines = [line.strip() for line in read_text(Path(path)).split("\n")]
    except OSError as error:
        raise InputError(f"The list {path} cannot be read ({error.strerror or error}).") from error
    names = [line for line in lines if line and not line.startswith("#")]
    names = names[1:] if names and names[0].lower() in _TITLES else names
    if not names:
        raise InputError(f"The list {path} is empty.")
    return names


def longest_number(words: Sequence[str]) -> int:
    """Digits of the longest number."""
    return max((len(word) for word in words if word.isdigit()), default=0)


def match_subjects(names: Iterable[str], subjects: Sequence[str], aliases: Mapping[str, str]) -> dict[str, str]:
    """The subject that each name means; names of no subject are left out.

    A name is the subject itself, else has the same words and numbers as it or as one of its ``aliases`` (alias to
    subject), else contains the words and numbers of one subject only, up to the end of a part between punctuation: 1a
    does not contain 1. A name of several subjects is refused.
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
        ends = [*itertools.accumulate(len(tokenize(part)) for part in re.split(r"[\W_]+", plain_name(name)))]
        candidates = by_tokens.get(words) or set().union(
            *(
                parts.get(words[i:j], ())
                for i in range(len(words))
                for j in ends
                if i < j and longest_number(words[i:j]) >= longest_number(words[:i] + words[j:])
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
