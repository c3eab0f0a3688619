"""Input scaling of the networks, learned from training graphs alone."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import check_option, iter_chunks

SCALINGS = ("auto", "std", "log", "none")

# Edges that are never negative and reach beyond this are counts (streamlines), not correlations.
_COUNT_LEVEL = 100.0
# Edges per step of the pass over them: a few MB stay in the cache.
_CHUNK_VALUES = 500_000
# Below this share of the mean, a deviation is the rounding of a sum over edges that are all alike.
_ROUNDING = 1e-12


class EdgeScaler(NamedTuple):
    """Brings edges to unit standard deviation, after a signed logarithm for counts.

    Attributes
    ----------
    logarithm : bool
        Whether sign(x)·log(1 + |x|) is taken first.
    scale : float
        What edges are then divided by.
    """

    logarithm: bool
    scale: float

    def transform(self, X: NDArray[Any]) -> NDArray[np.float32]:
        """Original to scaled units; always a new float32 array."""
        scaled = np.array(X, dtype=np.float32)
        if self.logarithm:
            scaled = np.sign(scaled) * np.log1p(np.abs(scaled))
        scaled /= np.float32(self.scale)
        return scaled

    def inverse_transform(self, X: NDArray[Any]) -> NDArray[np.float32]:
        """Scaled to original units."""
        original = np.asarray(X, dtype=np.float32) * np.float32(self.scale)
        return np.sign(original) * np.expm1(np.abs(original)) if self.logarithm else original


def fit_scaler(X: NDArray[Any], scaling: str) -> EdgeScaler:
    """Learn a scaler from graphs ``(n_graphs, n_nodes, n_nodes)`` in one streaming pass over them.

    ``"std"`` divides by the standard deviation of all off-diagonal edges, ``"log"`` does so after a signed
    logarithm, ``"none"`` leaves the graphs alone, and ``"auto"`` takes ``"log"`` for edges that are never negative and
    exceed 100 (counts), ``"std"`` otherwise.
    """
    check_option("scaling", scaling, SCALINGS)
    if scaling == "none":
        return EdgeScaler(False, 1.0)
    edges = ~np.eye(X.shape[1], dtype=bool) if X.shape[1] > 1 else np.ones((1, 1), dtype=bool)
    low, high = np.inf, -np.inf
    plain, logged = _Moments(), _Moments()
    for _, chunk in iter_chunks(X, _CHUNK_VALUES):
        values = np.asarray(chunk[:, edges], dtype=np.float64)
        low, high = min(low, values.min()), max(high, values.max())
        plain.add(values)
        if scaling == "log" or (scaling == "auto" and low >= 0):  # no counts, once an edge was negative
            logged.add(np.sign(values) * np.log1p(np.abs(values)))
    logarithm = scaling == "log" or (scaling == "auto" and bool(low >= 0 and high > _COUNT_LEVEL))
    deviation = (logged if logarithm else plain).deviation()
    return EdgeScaler(logarithm, deviation if deviation > 0 else 1.0)


class _Moments:
    """Running mean and sum of squared deviations (Chan's update), so that chunks can be added one by one."""

    def __init__(self) -> None:
        self.count, self.mean, self.squares = 0, 0.0, 0.0

    def add(self, values: NDArray[np.float64]) -> None:
        count, mean = values.size, float(values.mean())
        shift, total = mean - self.mean, self.count + count
        self.squares += float(np.square(values - mean).sum()) + shift**2 * self.count * count / total
        self.mean += shift * count / total
        self.count = total

    def deviation(self) -> float:
        deviation = float(np.sqrt(self.squares / self.count))
        return deviation if deviation > _ROUNDING * abs(self.mean) else 0.0
