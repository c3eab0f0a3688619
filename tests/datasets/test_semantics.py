"""Altered studies are read right or refused, never wrong."""

from collections import Counter

import pytest

from .alterations import make_case, outcome


def count_outcomes(folder, seeds):
    """Outcomes by kind of file; a wrong one fails with its seed and what was done."""
    counts: Counter[tuple[str, str]] = Counter()
    for seed in seeds:
        case = make_case(seed, folder / str(seed))
        result, why = outcome(case, folder / str(seed))
        assert result != "wrong", f"seed {seed}: {why}; {', '.join(case.steps)}"
        counts[case.kind, result] += 1
    return counts


def test_altered_studies_are_right_or_refused(tmp_path):
    counts = count_outcomes(tmp_path, range(120))
    for kind in ("matrices", "edges", "series"):
        assert counts[kind, "right"] >= 5
        assert counts[kind, "refused"] >= 5


@pytest.mark.slow
def test_thousands_of_altered_studies_are_right_or_refused(tmp_path):
    counts = count_outcomes(tmp_path, range(1000, 4000))
    print(*(f"{kind}: {result} {count}" for (kind, result), count in sorted(counts.items())), "wrong 0", sep="\n")
    assert counts.total() == 3000
