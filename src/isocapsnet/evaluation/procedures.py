"""The tests that a table can be made with, by name. A new one is one entry of :data:`TESTS`."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from isocapsnet.evaluation import differences, inference, resampled
from isocapsnet.evaluation.areas import FoldArea
from isocapsnet.evaluation.differences import Difference
from isocapsnet.evaluation.power import Design, describe_power
from isocapsnet.evaluation.statistics import Interval

Folds = Sequence[FoldArea]


class Procedure(NamedTuple):
    """How intervals and tests are computed from test folds, and how a paper describes it.

    Attributes
    ----------
    above_chance : callable
        The folds of a method to the one-sided p-value of ROC AUC > 0.5.
    area_interval : callable
        The folds of a method to the interval of its ROC AUC.
    mean_interval : callable
        Scores and variances of another metric, folds, and the bounds of the metric, to its interval.
    difference : callable
        The folds of two methods, in the same order, to their difference in ROC AUC.
    power : callable
        The folds of a plan and its number of methods to numbers by name: ``n_scores`` test folds; ``above_chance`` and
        ``between_methods``, the ROC AUC and the difference that are found with 80 % power. Further names are those of
        ``power.describe_power``.
    min_folds : int
        Test folds without which there is no test.
    of_chance, of_differences, of_intervals : str
        What was done, for a methods section.
    """

    above_chance: Callable[[Folds], float]
    area_interval: Callable[[Folds], Interval]
    mean_interval: Callable[..., Interval]
    difference: Callable[[Folds, Folds], Difference]
    power: Callable[[Design, int], dict[str, float]]
    min_folds: int
    of_chance: str
    of_differences: str
    of_intervals: str


#: The test that is used unless another one is asked for.
DEFAULT_TEST = "corrected-z"

TESTS: dict[str, Procedure] = {
    "corrected-z": Procedure(
        inference.above_chance,
        inference.area_interval,
        inference.mean_interval,
        differences.difference,
        describe_power,
        min_folds=1,
        of_chance="by a one-sided z-test with the exact variance of ROC AUC over all assignments of labels to the test "
        "graphs of each fold (Mann and Whitney, 1947; Hoeffding, 1951)",
        of_differences="by two-sided tests with the variance of the paired difference, averaged over repeats (DeLong "
        "et al., 1988), and, with at least five test folds, the variance between fits; equivalence within "
        f"±{differences.MARGIN} by two one-sided tests (Schuirmann, 1987)",
        of_intervals="The interval of ROC AUC is a score interval (Hanley and McNeil, 1982; Newcombe, 2006); those of "
        "other metrics are from the squared contributions of the test graphs (infinitesimal jackknife).",
    ),
    "resampled-t": Procedure(
        resampled.above_chance,
        resampled.area_interval,
        resampled.mean_interval,
        resampled.difference,
        resampled.describe_power,
        min_folds=2,
        of_chance="by a one-sided corrected resampled t-test",
        of_differences="by two-sided corrected resampled t-tests on the same folds",
        of_intervals="The variance of ROC AUC is at least the variance implied by the number of test graphs (Hanley "
        "and McNeil, 1982).",
    ),
}
