"""What a leave-site-out evaluation shows site by site, and over a population of sites."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from isocapsnet._format import interval, number, p_value
from isocapsnet.evaluation.areas import design_effect, expected_null_variance, relative_variance
from isocapsnet.evaluation.evidence import Evidence
from isocapsnet.evaluation.inference import area_interval
from isocapsnet.evaluation.meta_analysis import MIN_SITES, RandomEffects, random_effects
from isocapsnet.evaluation.statistics import Interval, weighted_mean

#: A mean of 0 or 1 would leave no variance.
_POSSIBLE = (0.02, 0.98)


@dataclass(frozen=True)
class SiteScores:
    """One test fold, which is a site. Folders of earlier versions may have several small sites in one fold."""

    sites: tuple[str, ...]
    n_subjects: int
    #: Test graphs of each class.
    counts: tuple[int, ...]
    #: Method to its ROC AUC with a 95 % interval.
    areas: Mapping[str, Interval]

    @property
    def name(self) -> str:
        return ", ".join(self.sites)


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

    The interval of a site is that of one fold (:func:`isocapsnet.evaluation.inference.area_interval`).
    """
    tested = {
        index: (fold.sites, fold.area)
        for method in methods
        for index, fold in method.folds.items()
        if fold.sites is not None and fold.area is not None
    }
    if not tested:
        return None
    n_classes = max(len(area.counts) for _, area in tested.values())
    sites = [
        SiteScores(
            sites=tuple(named["tested"]),
            n_subjects=named["n_subjects"],
            counts=tuple(np.bincount(area.labels, minlength=n_classes).tolist()),
            areas={m.label: area_interval([m.areas[index]]) for m in methods if index in m.areas},
        )
        for index, (named, area) in sorted(tested.items())
    ]
    summaries = {method.label: summary for method in methods if (summary := _summarise(method)) is not None}
    return SiteResults(sites, summaries)


def _summarise(method: Evidence) -> RandomEffects | None:
    """The random-effects summary of one method; None for a constant prediction and for few sites.

    The sampling variance of each site is that of its test subjects at the mean over sites, so that a site does not get
    a large weight for being perfect by chance. Sites share training subjects, so the variance of the mean is corrected
    as in every other test.
    """
    folds = [fold for fold in method.areas.values() if not np.isnan(fold.area)]
    if not any(fold.null_variance > 0 for fold in folds):
        return None
    # Of scores without ties: a site where most scores are equal must not have a large weight for that.
    null = [expected_null_variance(f.counts) * design_effect(f.placements, f.labels, f.persons) for f in folds]
    areas = [fold.area for fold in folds]
    expected = float(np.clip(weighted_mean(areas, [fold.weight for fold in folds]), *_POSSIBLE))
    variances = relative_variance(expected, [f.n_test for f in folds]) * null
    widening = 1 + float(np.sum([fold.n_test / fold.n_train for fold in folds]))
    return random_effects(areas, variances, widening=widening)
