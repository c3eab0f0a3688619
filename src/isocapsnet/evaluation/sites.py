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
        sites: dict[str, set[str]] = {"alone": set(), "pooled": set(), "too_small": set()}
        for fold in folds:
            sites["alone" if len(fold["tested"]) == 1 else "pooled"].update(fold["tested"])
            sites["too_small"].update(fold["too_small"])
        is_tested = sites["alone"] or sites["pooled"]
        return cls(**{name: sorted(members) for name, members in sites.items()}) if is_tested else None

    @property
    def share(self) -> str:
        """``over 9 of 11 sites``."""
        n_tested = len(self.alone) + len(self.pooled)
        return f"over {n_tested} of {n_tested + len(self.too_small)} sites"

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
