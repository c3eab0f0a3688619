"""Random-effects summary of scores that were measured at several sites."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from isocapsnet.evaluation.statistics import LEVEL, Interval

#: Fewer sites say nothing about how much sites differ.
MIN_SITES = 3
# How Higgins and Thompson (2002) call an I² below these values.
_SIZES = ((0.25, "little"), (0.5, "moderate"), (0.75, "substantial"), (np.inf, "considerable"))


@dataclass(frozen=True)
class RandomEffects:
    """The mean over a population of sites, and how much its sites differ."""

    n_sites: int
    #: The mean of the expected scores of all sites, with its 95 % interval.
    mean: Interval
    #: τ, the standard deviation of the expected scores of sites.
    deviation: float
    #: I², the share of the variance of the observed scores that differences between sites explain.
    share: float
    #: Of Cochran's test that all sites have the same expected score.
    p_value: float

    @property
    def heterogeneity(self) -> str:
        """``substantial heterogeneity between sites``, or that none was found."""
        if self.p_value > LEVEL:
            return "no heterogeneity between sites found"
        return f"{next(words for limit, words in _SIZES if self.share < limit)} heterogeneity between sites"


def random_effects(
    scores: ArrayLike, variances: ArrayLike, *, widening: float = 1.0, bounds: tuple[float, float] = (0.0, 1.0)
) -> RandomEffects | None:
    """Summarise the ``scores`` (n_sites,) of sites, whose sampling variances (n_sites,) are known.

    The variance between sites is that of DerSimonian and Laird (1986), and the interval of the mean that of Hartung and
    Knapp (2001), but never narrower than the one without their factor. The variance of the mean is multiplied by
    ``widening``, for example because the sites share training subjects. NaN is left out. None for fewer than
    :data:`MIN_SITES` sites.
    """
    y, v = np.asarray(scores, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    y, v = y[~np.isnan(y)], v[~np.isnan(y)]
    n_sites = len(y)
    if n_sites < MIN_SITES:
        return None
    freedom, w = n_sites - 1, 1 / v
    q = float(w @ (y - np.average(y, weights=w)) ** 2)
    between = max(0.0, (q - freedom) / (w.sum() - (w**2).sum() / w.sum()))
    w = 1 / (v + between)
    mean = float(np.average(y, weights=w))
    factor = max(1.0, float(w @ (y - mean) ** 2) / freedom)
    half = float(stats.t.isf(LEVEL / 2, freedom) * np.sqrt(widening * factor / w.sum()))
    return RandomEffects(
        n_sites=n_sites,
        mean=Interval(mean, max(mean - half, bounds[0]), min(mean + half, bounds[1])),
        deviation=float(np.sqrt(between)),
        share=max(0.0, 1 - freedom / q) if q > 0 else 0.0,
        p_value=float(stats.chi2.sf(q, freedom)),
    )
