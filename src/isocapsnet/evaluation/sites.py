"""Which sites a leave-site-out evaluation is about, in numbers and in a sentence."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from isocapsnet._safe_text import list_some
from isocapsnet.evaluation.protocol import MIN_PER_CLASS

_LISTED = 5


@dataclass(frozen=True)
class Sites:
    """Sites that were tested, and those that were too small for that."""

    tested: Sequence[str]
    too_small: Sequence[str]

    @classmethod
    def of(cls, folds: Iterable[Mapping[str, Any]]) -> Self | None:
        """The sites that records name (``tested`` and ``too_small`` of their fold); None without any."""
        tested: set[str] = set()
        too_small: set[str] = set()
        for fold in folds:
            tested.update(fold["tested"])
            too_small.update(fold["too_small"])
        return cls(sorted(tested), sorted(too_small - tested)) if tested else None

    @property
    def share(self) -> str:
        """``over 9 of 11 sites``."""
        return f"over {len(self.tested)} of {len(self.tested) + len(self.too_small)} sites"

    @property
    def sentence(self) -> str:
        """How many sites are tested, which are too small for that, and how folds are weighted."""
        words = f"Scores are {self.share}"
        if self.too_small:
            words += f"; {len(self.too_small)} ({list_some(self.too_small, _LISTED)})"
            words += f" do not have {MIN_PER_CLASS} subjects in each of two classes and are used for training only"
        return f"{words}. Each fold is weighted by its number of subjects."

    def to_json(self) -> dict[str, Any]:
        """The same for ``results.json``."""
        return asdict(self) | {"sentence": self.sentence}
