"""Which sites a leave-site-out evaluation is about, in numbers and in a sentence."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from isocapsnet._safe_text import list_some
from isocapsnet.evaluation.protocol import MIN_PER_CLASS

_LISTED = 5


@dataclass(frozen=True)
class Sites:
    """Sites by how they were tested: as a fold of their own, together as one fold, or not at all."""

    alone: Sequence[str]
    pooled: Sequence[str]
    too_small: Sequence[str]

    @classmethod
    def of(cls, folds: Iterable[Mapping[str, Any]]) -> Self | None:
        """The sites that records name (``tested`` and ``too_small`` of their fold); None without any."""
        alone: set[str] = set()
        pooled: set[str] = set()
        too_small: set[str] = set()
        for fold in folds:
            (alone if len(fold["tested"]) == 1 else pooled).update(fold["tested"])
            too_small.update(fold["too_small"])
        if not alone and not pooled:
            return None
        return cls(sorted(alone), sorted(pooled), sorted(too_small))

    @property
    def n_tested(self) -> int:
        return len(self.alone) + len(self.pooled)

    @property
    def n_sites(self) -> int:
        return self.n_tested + len(self.too_small)

    @property
    def share(self) -> str:
        """``over 9 of 11 sites``."""
        return f"over {self.n_tested} of {self.n_sites} sites"

    @property
    def sentence(self) -> str:
        """How many sites are tested, how small ones are treated, and how folds are weighted."""
        words = f"Scores are {self.share}"
        if self.pooled:
            names = list_some(self.pooled, _LISTED)
            words += f"; {len(self.pooled)} small ones ({names}) are tested together as one fold"
        if self.too_small:
            words += f"; {len(self.too_small)} ({list_some(self.too_small, _LISTED)})"
            words += f" have fewer than {MIN_PER_CLASS} subjects of two classes and only train"
        return f"{words}. Each fold is weighted by its number of subjects."

    def to_json(self) -> dict[str, Any]:
        """The same for ``results.json``."""
        return asdict(self) | {"sentence": self.sentence}
