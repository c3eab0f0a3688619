"""How often tests are wrong and intervals miss, on simulated studies of ridge regression with cross-validation."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from sklearn.model_selection import StratifiedKFold

from isocapsnet.evaluation import differences, inference, resampled
from isocapsnet.evaluation.areas import FoldArea

N_FEATURES = 300
#: The folds of two methods in each study.
Pairs = list[tuple[list[FoldArea], list[FoldArea]]]


class Study(NamedTuple):
    """Subjects, share of the last class, folds, repeats, classes, and how far the classes lie apart."""

    n_subjects: int
    balance: float
    n_folds: int = 3
    repeats: int = 1
    n_classes: int = 2
    effect: float = 0.0
    #: Scores are rounded to halves of their standard deviation.
    has_ties: bool = False


def simulate(study: Study, seed: int) -> tuple[list[FoldArea], list[FoldArea]]:
    """The folds of two methods that are equally good: ridge regression on two thirds of the features each."""
    # Noise and splits do not depend on the effect, so that methods with other effects can be compared.
    rng = np.random.default_rng([seed, *np.ravel(study._replace(effect=0.0)).view(np.uint64).tolist()])
    n_last = round(study.n_subjects * study.balance)
    labels = np.append(np.arange(study.n_subjects - n_last) % (study.n_classes - 1), [study.n_classes - 1] * n_last)
    means = rng.choice([-1.0, 1.0], (study.n_classes, N_FEATURES)) * study.effect / np.sqrt(N_FEATURES)
    features = rng.normal(size=(study.n_subjects, N_FEATURES)) + means[labels]
    third = N_FEATURES // 3
    kernels = [part @ part.T for part in (features[:, : 2 * third], features[:, third:])]
    methods: tuple[list[FoldArea], list[FoldArea]] = ([], [])
    for _ in range(study.repeats):
        folds = StratifiedKFold(study.n_folds, shuffle=True, random_state=int(rng.integers(1 << 31)))
        for train, test in folds.split(labels, labels):
            for kernel, method in zip(kernels, methods, strict=True):
                scores = _ridge(kernel, np.eye(study.n_classes)[labels], train, test)
                scores = np.round(2 * scores / scores.std(axis=0)) / 2 if study.has_ties else scores
                method.append(FoldArea.of(labels[test], scores, len(train), subjects=test))
    return methods


def _ridge(
    kernel: NDArray[np.float64], targets: NDArray[np.float64], train: NDArray[np.int64], test: NDArray[np.int64]
) -> NDArray[np.float64]:
    inside = kernel[np.ix_(train, train)]
    centred = targets[train] - targets[train].mean(axis=0)
    scores: NDArray[np.float64] = kernel[np.ix_(test, train)] @ np.linalg.solve(
        inside + N_FEATURES / 3 * np.eye(len(train)), centred
    )
    return scores


@cache
def studies(study: Study, n_studies: int = 100) -> Pairs:
    return [simulate(study, seed) for seed in range(n_studies)]


def is_at_most_5_percent(findings: Sequence[bool]) -> bool:
    """Whether a true rate of 5 % or less is compatible with the findings, by a one-sided 99 % binomial bound."""
    return bool(stats.binomtest(int(sum(findings)), len(findings), 0.05, alternative="greater").pvalue > 0.01)


def mean_area(folds: Sequence[FoldArea]) -> float:
    return float(np.mean([fold.area for fold in folds]))


def coverage(pairs: Pairs) -> float:
    """Share of studies whose interval holds the expected area, for which the mean over all studies is taken."""
    expected = np.mean([mean_area(folds) for pair in pairs for folds in pair])
    bounds = [inference.area_interval(first) for first, _ in pairs]
    return float(np.mean([low <= expected <= high for _, low, high in bounds]))


NULL = [
    Study(60, 0.5),
    Study(60, 0.2),
    Study(60, 0.5, repeats=3),
    Study(60, 0.5, n_folds=5),
    Study(60, 1 / 3, n_classes=3),
    Study(60, 0.5, has_ties=True),
]


@pytest.mark.parametrize("study", NULL, ids=str)
def test_no_association_is_called_above_chance_in_at_most_5_percent_of_studies(study: Study) -> None:
    pairs = studies(study)
    assert is_at_most_5_percent([inference.above_chance(first) <= 0.05 for first, _ in pairs])


@pytest.mark.parametrize("study", NULL, ids=str)
def test_equal_methods_are_called_different_in_at_most_5_percent_of_studies(study: Study) -> None:
    pairs = studies(study)
    assert is_at_most_5_percent([differences.difference(*pair).p_value <= 0.05 for pair in pairs])


def test_the_tests_use_the_level_that_they_are_given() -> None:
    p_values = [inference.above_chance(first) for study in NULL for first, _ in studies(study)]
    assert 0.01 < np.mean(np.array(p_values) <= 0.05) <= 0.05
    different = [differences.difference(*pair).p_value for study in NULL for pair in studies(study)]
    assert np.mean(np.array(different) <= 0.05) <= 0.05


def test_folds_are_not_independent_so_the_correction_is_needed() -> None:
    """Were training subjects not shared, the variance of the mean would be v / J."""
    pairs = [pair for study in NULL[2:4] for pair in studies(study)]
    z = [
        (mean_area(first) - 0.5) / np.sqrt(np.mean([fold.null_variance for fold in first]) / len(first))
        for first, _ in pairs
    ]
    assert not is_at_most_5_percent([value > 1.6449 for value in z])


@pytest.mark.parametrize("effect", [0.0, 1.5, 3.0], ids="effect {}".format)
def test_the_interval_holds_the_expected_area_in_92_to_99_percent_of_studies(effect: float) -> None:
    """Of 100 studies, chance adds three more or less."""
    assert coverage(studies(Study(60, 0.5, effect=effect))) >= 0.89


def test_more_is_found_than_by_the_resampled_t_test() -> None:
    pairs = studies(Study(60, 0.5, effect=1.5))
    z = np.mean([inference.above_chance(first) <= 0.05 for first, _ in pairs])
    t = np.mean([resampled.above_chance(first) <= 0.05 for first, _ in pairs])
    assert z > t + 0.2


# -- the same with more studies and in more cells -----------------------------------------------------------------

GRID = [
    Study(n_subjects, balance, n_folds, repeats, n_classes)
    for n_subjects in (40, 100, 200)
    for n_classes in (2, 3)
    for balance in (1 / n_classes, 0.2)
    for n_folds, repeats in ((3, 1), (3, 5), (10, 1))
    if n_subjects * balance >= n_folds
]


@pytest.mark.slow
@pytest.mark.parametrize("study", GRID, ids=str)
def test_levels_in_the_grid(study: Study) -> None:
    pairs = [simulate(study, seed) for seed in range(500)]
    shares = {
        "above chance": [inference.above_chance(first) <= 0.05 for first, _ in pairs],
        "different": [differences.difference(*pair).p_value <= 0.05 for pair in pairs],
    }
    print(study, {name: np.mean(found) for name, found in shares.items()})
    assert all(is_at_most_5_percent(found) for found in shares.values())


@pytest.mark.slow
@pytest.mark.parametrize("effect", [0.0, 1.2, 2.0, 3.0], ids="effect {}".format)
@pytest.mark.parametrize("study", [study for study in GRID if study.n_subjects <= 100 and study.repeats == 1], ids=str)
def test_coverage_in_the_grid(study: Study, effect: float) -> None:
    pairs = [simulate(study._replace(effect=effect), seed) for seed in range(200)]
    share = coverage(pairs)
    print(study, effect, np.mean([mean_area(first) for first, _ in pairs]), share)
    assert share >= 0.92 - 0.03  # chance adds three of a hundred, more or less


@pytest.mark.slow
@pytest.mark.parametrize("study", [Study(200, 0.5), Study(200, 0.5, repeats=5)], ids=str)
def test_methods_that_differ_by_the_margin_are_called_equivalent_in_at_most_5_percent_of_studies(study: Study) -> None:
    """The first method has more features with an effect; the margin is set to the true difference.

    It is so wide that methods without a difference are called equivalent.
    """
    strong = [simulate(study._replace(effect=2.0), seed) for seed in range(300)]
    weak = [simulate(study._replace(effect=1.2), seed) for seed in range(300)]
    apart = [(first, second) for (first, _), (_, second) in zip(strong, weak, strict=True)]
    margin = abs(np.mean([mean_area(first) - mean_area(second) for first, second in apart]))
    false, true = (
        [differences.difference(*pair, margin).p_equivalent <= 0.05 for pair in pairs] for pairs in (apart, strong)
    )
    print(study, margin, np.mean(false), np.mean(true))
    assert is_at_most_5_percent(false)
    assert np.mean(true) > 0.2
