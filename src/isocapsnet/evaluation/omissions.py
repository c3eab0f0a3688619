"""What a run could not do although its jobs did not fail: counted over folds, and said in sentences."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from isocapsnet._safe_text import list_some

if TYPE_CHECKING:
    from isocapsnet.evaluation.results import MethodResult

_LISTED = 5
What = TypeVar("What")


def count_omissions(omissions: Iterable[tuple[What, str]]) -> dict[What, tuple[int, str]]:
    """What was left out to how often, and the first reason, from pairs of both."""
    counts: dict[What, tuple[int, str]] = {}
    for what, reason in omissions:
        n_before, first = counts.get(what, (0, reason))
        counts[what] = n_before + 1, first
    return counts


def describe_omissions(rows: Sequence["MethodResult"]) -> list[str]:
    """Sentences about settings that searches could not try, the most frequent first, and gaps in learning curves."""
    rows_of = {what: [row for row in rows if what in row.left_out] for row in rows for what in row.left_out}
    counts = {what: sum(row.left_out[what][0] for row in several) for what, several in rows_of.items()}
    sentences = []
    for what in sorted(counts, key=lambda what: -counts[what]):
        n_folds = sum(len(row.scores) for row in rows_of[what])
        methods, reason = list_some([row.method for row in rows_of[what]]), rows_of[what][0].left_out[what][1]
        where = f"{counts[what]} of {n_folds} folds ({methods})"
        sentences.append(f"The search could not try {what} in {where}: {reason.rstrip('.')}.")
    sentences += [
        f"The learning curve of {row.method} lacks {count} of {len(row.scores)} folds with {share:.0%} of the training "
        f"subjects: {reason.rstrip('.')}."
        for row in rows
        if row.scores
        for share, (count, reason) in sorted(row.curve_gaps.items())
    ]
    more = len(sentences) - _LISTED
    return sentences if more <= 0 else [*sentences[:_LISTED], f"There are {more} more gaps; results.json lists them."]
