"""What theory says beside the figures of ``docs/calibration.md``: shared training subjects, and equivalence."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from calibration_ridge import SCHEMES
from calibration_tables import make_table
from isocapsnet.evaluation.differences import MARGIN
from isocapsnet.evaluation.power import CORRELATION, Design, needed_subjects, power_of_equivalence

WIDTH = """Most intervals are wider than they have to be. The variance of the mean over J folds is taken to be that of
one fold times 1 / J + n_test / n_train (Nadeau and Bengio, 2003), because folds share training subjects. The table has
two other factors. "Needed" is the variance of the mean, over datasets, divided by that of one fold. "By shared pairs"
follows from theory, if there is nothing to find and scores are linear in the labels of the training subjects, as those
of ridge regression are. The area of a fold is then a sum over pairs of a test and a training subject. Two folds of one
repeat, in which these pairs are the same with their roles exchanged, correlate by n_test / n_train; two folds of
different repeats by 2 f (1 - f), where f is the share of subjects that are tested.

At a ROC AUC of 0.5 the needed factor is a little below that of shared pairs. The better subjects are classified, the
less the folds depend on each other, and the smaller it is. The factor of Nadeau and Bengio is kept for two reasons.
Other methods are not linear in the labels. And the variance of a fold that is computed is that over
test subjects; that over training sets comes on top. The right factor cannot be estimated without bias from one dataset
(Bengio and Grandvalet, 2004). It is the same for chance and intervals, so that these agree. For differences of
two methods over several repeats, how much the contributions of subjects differ between repeats says more
(`largest_variance` in `evaluation/differences.py`).
"""


def show_factors(cells: Mapping[str, Mapping[str, Any]], areas: Sequence[str]) -> str:
    """Why intervals are wide: the factor for shared training subjects beside the one that would be right."""
    rows = []
    for scheme, (repeats, n_folds) in SCHEMES.items():
        needed = []
        for area in areas:
            figures = [row["figures"][area] for row in cells.values() if row["scheme"] == scheme]
            factors = [figure["variance"] / figure["fold_variance"] for figure in figures if "variance" in figure]
            needed.append(f"{np.mean(factors):.2f} ({min(factors):.2f} to {max(factors):.2f})" if factors else "-")
        tested, n_scores = 1 / n_folds, repeats * n_folds
        shared = (2 + (n_scores - n_folds) * 2 * tested * (1 - tested)) / n_scores
        rows.append([scheme, f"{1 / n_scores + 1 / (n_folds - 1):.2f}", f"{shared:.2f}", *needed])
    columns = ["folds", "factor", "by shared pairs", *(f"needed at {area} (over cells)" for area in areas)]
    return WIDTH + "\n" + make_table(columns, rows)


def describe_equivalence(n_subjects: int) -> str:
    """Whether "equivalent" can be said of so many subjects, and how many it needs, by the formulas of the library."""
    needed, errors = [], []
    for scheme, (repeats, n_folds) in SCHEMES.items():
        n_test = n_subjects / n_folds
        counts = [[n_test / 2] * 2] * (repeats * n_folds)
        design = Design(counts, [n_subjects - n_test] * len(counts), [1.0] * len(counts))
        errors.append(np.sqrt(2 * (1 - CORRELATION) * design.variance()))
        needed.append(f"{needed_subjects(design, power_of_equivalence):,.0f} with {scheme}")
    return (
        f"It can be said only if the standard error of the difference is below {MARGIN} / {stats.norm.isf(0.05):.3f} = "
        f"{MARGIN / stats.norm.isf(0.05):.3f}. With {n_subjects} subjects in two classes of one size it is "
        f"{min(errors):.3f} to {max(errors):.3f} near chance, if the areas of the methods correlate by {CORRELATION}. "
        f"80 % power needs {', '.join(needed)} folds."
    )
