"""What a leave-site-out evaluation shows site by site, and over a population of sites."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import optimize, stats

from isocapsnet._format import interval, number, p_value
from isocapsnet.evaluation.evidence import Evidence, FoldIndex
from isocapsnet.evaluation.meta_analysis import MIN_SITES, RandomEffects, random_effects
from isocapsnet.evaluation.statistics import CHANCE, LEVEL, Interval, auc_variance, weighted_mean


@dataclass(frozen=True)
class SiteScores:
    """One test fold: a site, or small sites that are tested together."""

    sites: tuple[str, ...]
    n_subjects: int
    #: Test graphs of each class.
    counts: tuple[int, ...]
    #: Method to its ROC AUC with a 95 % interval.
    areas: Mapping[str, Interval]

    @property
    def name(self) -> str:
        return self.sites[0] if len(self.sites) == 1 else f"{len(self.sites)} small sites"


@dataclass(frozen=True)
class SiteResults:
    """Scores of each site, and a summary over sites of each method that has one."""

    sites: Sequence[SiteScores]
    summaries: Mapping[str, RandomEffects]

    @property
    def sentences(self) -> list[str]:
        """The summary of each method in a sentence."""
        if not self.summaries:
            return [f"There are fewer than {MIN_SITES} scored sites, too few for a summary over sites."]
        return [f"{label}: {describe(summary)}." for label, summary in self.summaries.items()]

    def to_json(self) -> dict[str, Any]:
        """The same for ``results.json``."""
        return {
            "scores": [
                asdict(site) | {"areas": {label: area._asdict() for label, area in site.areas.items()}}
                for site in self.sites
            ],
            "summaries": {
                label: asdict(summary) | {"mean": summary.mean._asdict(), "heterogeneity": summary.heterogeneity}
                for label, summary in self.summaries.items()
            },
        }


def describe(summary: RandomEffects) -> str:
    """``ROC AUC 0.71 [0.62, 0.80] over 9 sites; moderate heterogeneity between sites (I² = 45 %, ...)``."""
    return (
        f"ROC AUC {interval(*summary.mean)} over {summary.n_sites} sites; {summary.heterogeneity} "
        f"(I² = {number(100 * summary.share, 0)} %, {p_value(summary.p_value)}; standard deviation of sites "
        f"{number(summary.deviation)})"
    )


def score_sites(methods: Sequence[Evidence]) -> SiteResults | None:
    """The ROC AUC of each method at each site, and over sites; None if folds are not sites.

    The sampling variance of a site's ROC AUC in the summary is that of Hanley and McNeil at the mean over sites, so
    that a site does not get a large weight for being perfect by chance.
    """
    folds = {index: fold for method in methods for index, fold in method.folds.items() if fold.sites is not None}
    if not folds:
        return None
    sites = [
        SiteScores(
            sites=tuple(fold.sites["tested"]),
            n_subjects=fold.weight,
            counts=tuple(fold.counts),
            areas={method.label: _area(method, index) for method in methods if index in method.folds},
        )
        for index, fold in sorted(folds.items())
        if fold.sites is not None
    ]
    summaries = {method.label: summary for method in methods if (summary := _summarise(method)) is not None}
    return SiteResults(sites, summaries)


def area_interval(area: float, counts: Sequence[int]) -> Interval:
    """The ROC AUC of one test set with a 95 % interval: the values from which it is not significantly different.

    The variance is that of Hanley and McNeil at each such value, so the interval has a width also at 0 and 1, as
    Wilson's has for a share. ``counts`` are the test graphs of each class.
    """
    critical = stats.norm.isf(LEVEL / 2)

    def excess(value: float) -> float:
        return abs(area - value) - critical * np.sqrt(auc_variance(value, counts))

    if np.isnan(area) or np.isnan(auc_variance(CHANCE, counts)):
        return Interval(area, float("nan"), float("nan"))
    low = optimize.brentq(excess, 0.0, area) if area > 0 and excess(0.0) > 0 else 0.0
    high = optimize.brentq(excess, area, 1.0) if area < 1 and excess(1.0) > 0 else 1.0
    return Interval(area, float(low), float(high))


def _area(method: Evidence, index: FoldIndex) -> Interval:
    """The ROC AUC of one site; without a width for a constant prediction, whose area is 0.5 by definition."""
    fold = method.folds[index]
    area = fold.scores["roc_auc"]
    return Interval(area, area, area) if _is_constant(method) else area_interval(area, fold.counts)


def _is_constant(method: Evidence) -> bool:
    return set(method.areas().values()) <= {CHANCE}


def _summarise(method: Evidence) -> RandomEffects | None:
    """The random-effects summary of one method; None for a constant prediction and for few sites."""
    folds = list(method.folds.values())
    areas = [fold.scores["roc_auc"] for fold in folds]
    if _is_constant(method):
        return None
    expected = float(np.clip(weighted_mean(areas, [fold.weight for fold in folds]), 0.02, 0.98))
    variances = [auc_variance(expected, fold.counts) for fold in folds]
    # Sites share training subjects: the factor of Nadeau and Bengio, as in every other test.
    widening = 1 + len(folds) * float(np.mean([fold.ratio for fold in folds]))
    return random_effects(areas, variances, widening=widening)
