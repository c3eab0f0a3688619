"""The scores of methods at each site, whether folds are sites or not."""

from collections.abc import Sequence

import numpy as np

from isocapsnet.evaluation.areas import FoldArea
from isocapsnet.evaluation.inference import area_interval
from isocapsnet.evaluation.site_scores import SiteScores
from isocapsnet.evaluation.statistics import Interval
from isocapsnet.report.content import Content, ReportedMethod

# Sites share their training subjects with all others, which the interval of a single site leaves out.
_NO_OVERLAP = 10**9


def site_scores(content: Content) -> Sequence[SiteScores]:
    """The ROC AUC of each method at each site; empty with fewer than two sites.

    If folds are not sites, a pair of subjects is compared only if one fit predicted both: areas of the subjects of
    a site in single folds are averaged with their numbers of pairs as weights. The interval is that of one repeat of
    the cross-validation, averaged over repeats, because repeats test the same subjects.
    """
    if content.table.site_results is not None:
        return content.table.site_results.sites
    subjects = content.subjects
    if subjects is None or subjects.sites is None:
        return []
    names = np.asarray(subjects.sites)
    labelled = subjects.labels >= 0
    sites = sorted(set(names[labelled].tolist()))
    methods = [method for method in content.methods if len(method.fits) and len(method.test)]
    if len(sites) < 2 or not methods:
        return []
    return [
        SiteScores(
            sites=(site,),
            n_subjects=int(np.sum(here)),
            counts=tuple(np.bincount(subjects.labels[here], minlength=len(content.classes)).tolist()),
            areas={method.label: _area_at(method, names == site) for method in methods},
        )
        for site in sites
        for here in [labelled & (names == site)]
    ]


def _area_at(method: ReportedMethod, is_here: np.ndarray) -> Interval:
    """The ROC AUC of a method for the graphs of a site, from pairs of graphs that one fit predicted."""
    by_repeat: dict[int, list[FoldArea]] = {}
    for fit in method.fits:
        here = is_here[fit.test]
        counts = np.bincount(fit.labels[here], minlength=fit.probabilities.shape[1])
        if (counts > 0).sum() > 1:
            n_pairs = (counts.sum() ** 2 - (counts**2).sum()) / 2
            area = FoldArea.of(fit.labels[here], fit.probabilities[here], _NO_OVERLAP, weight=float(n_pairs))
            by_repeat.setdefault(fit.repeat, []).append(area)
    if not by_repeat:
        return Interval(*[float("nan")] * 3)
    return Interval(*np.mean([area_interval(folds) for folds in by_repeat.values()], axis=0).tolist())
