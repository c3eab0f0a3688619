"""Shares of datasets and tables, as ``docs/calibration.md`` shows them."""

from collections.abc import Iterable, Sequence

import numpy as np
from scipy import stats

LEVEL = 0.05
#: Numbers of datasets with a claim, and of datasets, in one cell.
Count = tuple[int, int]


def smallest_marked(n_datasets: int) -> int:
    """The smallest number of claims in ``n_datasets`` that is above the level by a one-sided 99 % binomial bound."""
    return int(stats.binom.isf(0.01, n_datasets, LEVEL)) + 1


def is_exceeded(count: Count) -> bool:
    """Whether a share is above the level by a one-sided 99 % binomial bound."""
    claimed, n_datasets = count
    return claimed >= smallest_marked(n_datasets)


def show_share(count: Count) -> str:
    """A share, marked if it is above the level."""
    return f"{count[0] / count[1]:.3f}" + (" **!**" if is_exceeded(count) else "")


def pooled(counts: Iterable[Count]) -> float:
    """The share of all datasets of several cells."""
    claimed, n_datasets = np.sum(list(counts), axis=0)
    return float(claimed / n_datasets)


def show_range(numbers: Iterable[int]) -> str:
    """``1000``, or ``125 to 1000``."""
    low, high = np.sort(list(numbers))[[0, -1]]
    return f"{low}" if low == high else f"{low} to {high}"


def make_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"
