"""The record of everything that was noticed while data were read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError
from isocapsnet.datasets.identifiers import match_subjects


@dataclass
class Findings:
    """Everything noticed while reading: errors, warnings, what was mended and where, who was left out and why.

    ``refused`` are the errors by the source they are about, ``subjects`` the subject of each source, ``targets`` the
    columns of a table that may have classes, ``unused`` its columns of age, sex and motion that no option names,
    ``identifiers`` what subjects are called if it is another name.
    """

    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    handled: dict[str, list[str]] = field(default_factory=dict)
    exclusions: dict[str, str] = field(default_factory=dict)
    refused: dict[str, list[str]] = field(default_factory=dict, repr=False)
    subjects: dict[str, str] = field(default_factory=dict, repr=False)
    targets: list[str] = field(default_factory=list, repr=False)
    unused: list[str] = field(default_factory=list, repr=False)
    identifiers: dict[str, str] = field(default_factory=dict, repr=False)

    def handle(self, what: str, where: str) -> None:
        """Record that something was mended in a file or, where it is about many at once, how many: "12 subjects"."""
        self.handled.setdefault(what, []).append(where)

    def identify(self, subjects: Iterable[str], names: Iterable[str]) -> None:
        """Record the prefix of BIDS in names of subjects, which is no part of what they are compared by."""
        pairs = zip(subjects, names, strict=True)
        self.identifiers |= {subject: name for subject, name in pairs if name == f"sub-{subject}"}

    def spell_alike(self, subjects: Sequence[str]) -> None:
        """Call all subjects with the prefix of BIDS if some are called so."""
        if self.identifiers:
            self.identifiers |= {subject: f"sub-{subject}" for subject in subjects if subject.isalnum()}

    def name_of(self, subject: str) -> str:
        """What the table or the files call a subject."""
        return self.identifiers.get(subject, subject)

    def name_exclusions(self) -> None:
        """Call the excluded subjects as the table or the files do, once nobody else is compared with them."""
        self.exclusions = {self.name_of(subject): reason for subject, reason in self.exclusions.items()}

    def refuse(self, source: str, sentence: str) -> None:
        """Note an error that would be gone without this source."""
        self.errors.append(sentence)
        self.refused.setdefault(source, []).append(sentence)

    def find_refused(self) -> dict[str, str]:
        """The subjects without whom the data could be read, each with the first problem; none if that is not enough."""
        if sum(map(len, self.refused.values())) < len(self.errors) or not {*self.refused} <= {*self.subjects}:
            return {}
        return {self.subjects[source]: sentences[0] for source, sentences in self.refused.items()}

    def exclude(
        self, names: Iterable[str], subjects: Sequence[str], aliases: Mapping[str, str] | None = None
    ) -> NDArray[np.int64]:
        """Record the subjects that the user leaves out, and return the indices of all who are not excluded.

        A name may be spelled as in :func:`match_subjects`. Names that no subject has are refused.
        """
        excluded = match_subjects(names, subjects, aliases or {})
        listed = match_subjects(names, list(self.exclusions), {})
        if missing := sorted({*names}.difference(excluded, listed)):
            example = f"; subjects are called {self.name_of(subjects[0])!r}, for example" if len(subjects) else ""
            raise InputError(f"There is no subject {missing[0]!r} to exclude{example}.")
        self.exclusions |= dict.fromkeys(sorted({*excluded.values()}), "excluded on request")
        return np.flatnonzero([subject not in self.exclusions for subject in subjects])

    @contextmanager
    def noting(self, source: str | None = None) -> Iterator[None]:
        """Note an error (of one source, if that is given) and leave the block, instead of stopping the reader."""
        try:
            yield
        except InputError as error:
            if source is None:
                self.errors.append(str(error))
            else:
                self.refuse(source, str(error))
