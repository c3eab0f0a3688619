"""Titles of columns and arrays that name subjects."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from isocapsnet._safe_text import list_some
from isocapsnet._validation import InputError
from isocapsnet.datasets.fields import is_missing
from isocapsnet.datasets.formats.text import is_number, is_whole
from isocapsnet.datasets.identifiers import find_separated

#: Words in the titles of columns of identifiers.
_ID_WORDS = frozenset(
    "id ids eid subject subjectid subjectkey subj subjid sub subid participant patient identifier code".split()  # noqa: SIM905
)
_CODE_WORDS = frozenset(("id", "ids", "identifier", "code", "name", "number"))
_PERSON_WORDS = _ID_WORDS - _CODE_WORDS
#: Words in the titles of columns that name something else than subjects: site_id, session_id, diagnosis_code.
_OTHER_WORDS = frozenset(
    "site sites center centre scanner session ses visit family diagnosis dx group type status sex gender arm".split()  # noqa: SIM905
)


def rank_title(column: str) -> int:
    """0 for participant_id, 1 for other titles of identifiers, 2 for all others."""
    words = re.findall(r"[a-z]+", column.lower())
    if "".join(words) == "participantid":
        return 0
    return 1 if _ID_WORDS & {*words} and not _OTHER_WORDS & {*words} else 2


def is_identifier(column: str) -> bool:
    return rank_title(column) < 2


def names_people(title: str, values: Sequence[str], *, has_ids: bool) -> bool:
    """Whether a column or an array has persons, each perhaps several times, by its title.

    ``groups`` are persons in scikit-learn and classes elsewhere, and ``patient`` may be yes or no: how many different
    values there are decides. It decides for all titles if something else identifies the graphs (``has_ids``).
    """
    words = {*re.findall(r"[a-z]+", title.lower())}
    is_group = words in ({"groups"}, {"patient"})
    if is_group or has_ids:
        n_values = len({*values})
        if n_values < 3 or (n_values < 8 and 3 * n_values < len(values)):
            return False
    is_code = bool(words & _CODE_WORDS and words & _PERSON_WORDS)
    return is_group or (is_identifier(title) and (words <= _ID_WORDS - {"code"} or is_code))


def choose_unique(where: str, columns: Mapping[str, Sequence[str]], how: str) -> str | None:
    """The best title of identifiers whose values are all different; refused if only persons with several graphs are."""
    titles = [title for title, values in columns.items() if is_identifier(title) and not _is_measured(title, values)]
    repeated = {title: values for title, values in columns.items() if len({*values}) < len(values)}
    unique = [title for title in titles if title not in repeated]
    people = [title for title, values in repeated.items() if names_people(title, values, has_ids=False)]
    if people and not unique:
        raise InputError(
            f"{where} has several graphs of one person, if {people[0]!r} names persons; {how}. If it does not, name it "
            "with covariates=."
        )
    return min(unique, key=rank_title, default=None)


def _is_measured(title: str, values: Sequence[str]) -> bool:
    """Whether these are numbers of another kind than identifiers, such as subject_age."""
    words = {*re.findall(r"[a-z]+", title.lower())}
    if not all(map(is_number, values)):
        return False
    is_code = words <= _ID_WORDS or bool(words & _CODE_WORDS)
    return not is_code or not all(is_whole(text) or is_missing(text) for text in values)


def check_people(where: str, columns: Mapping[str, NDArray[Any]], ids: Sequence[str], used: Sequence[Any]) -> None:
    """Refuse an array that assigns several graphs to one person, if their identifiers do not say so.

    Arrays that are ``used`` for something else do not count.
    """
    names_used = [name for name in used if isinstance(name, str)]
    for title, array in columns.items():
        values = [*map(str, array.tolist())]
        if title in names_used or not names_people(title, values, has_ids=True):
            continue
        if several := find_separated(values, ids):
            names = list_some([ids[i] for i in several[0]], 3)
            raise InputError(
                f"{where} has the array {title!r}, which says that {names} are of one person; pass subjects= that say "
                "so too, such as sub-01_ses-1. If it does not name persons, name it with covariates=."
            )
