"""Input scaling of the networks, learned from training graphs alone."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import InputError, check_option, iter_chunks

SCALINGS = ("auto", "std", "log", "none")

# Edges that are never negative and reach beyond this are counts (streamlines), not correlations.
_COUNT_LEVEL = 100.0
# Edges per step of the pass over them: a few MB stay in the cache.
_CHUNK_VALUES = 500_000
# Below this share of the mean, a deviation is the rounding of a sum over edges that are all alike.
_ROUNDING = 1e-12
# Networks compute in single precision, where squares of edges beyond this, and sums of such squares, have no room.
_LARGEST_SCALED = 1e15
# Scales between these leave room in single precision for edges that are much smaller or larger.
_SINGLE_PRECISION = (1e-20, 1e20)


class InputScaler(NamedTuple):
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
        scaled = np.array(X, dtype=self.dtype)
        if self.logarithm:
            scaled = np.sign(scaled) * np.log1p(np.abs(scaled))
        scaled /= self.dtype.type(self.scale)
        return scaled.astype(np.float32, copy=False)

    def inverse_transform(self, X: NDArray[Any]) -> NDArray[Any]:
        """Scaled to original units."""
        original = np.asarray(X, dtype=self.dtype) * self.dtype.type(self.scale)
        return np.sign(original) * np.expm1(np.abs(original)) if self.logarithm else original

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the numbers that are scaled: single precision, or double for units that it has no room for."""
        low, high = _SINGLE_PRECISION
        return np.dtype(np.float32 if low < self.scale < high else np.float64)

    @property
    def limit(self) -> float:
        """The largest edge that can be scaled, and computed with after that."""
        scaled = np.inf if self.logarithm else _LARGEST_SCALED * self.scale
        return min(float(np.finfo(self.dtype).max), scaled)


def fit_scaler(X: NDArray[Any], scaling: str) -> InputScaler:
    """Learn a scaler from graphs ``(n_graphs, n_nodes, n_nodes)`` in one streaming pass over them.

    ``"std"`` divides by the standard deviation of all off-diagonal edges, ``"log"`` does so after a signed
    logarithm, ``"none"`` leaves the graphs alone, and ``"auto"`` takes ``"log"`` for edges that are never negative and
    exceed 100 (counts), ``"std"`` otherwise.
    """
    check_option("scaling", scaling, SCALINGS)
    if scaling == "none":
        return InputScaler(False, 1.0)
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
    return InputScaler(logarithm, deviation if 0 < deviation < np.inf else 1.0)


def check_magnitude(X: NDArray[Any], scaler: InputScaler, name: str = "X") -> None:
    """Refuse graphs ``(n_graphs, n_nodes, n_nodes)`` with an entry too large to be scaled and computed with."""
    limit = scaler.limit
    for start, chunk in iter_chunks(X):
        if max(float(chunk.max()), -float(chunk.min())) > limit:
            graph, row, column = np.argwhere(np.abs(chunk.astype(np.float64)) > limit)[0].tolist()
            raise InputError(
                f"{name}: graph {start + graph} has the value {chunk[graph, row, column]:.4g} at row {row}, column "
                f"{column}, which is too large to compute with (the limit is {limit:.2g}, from the scale of the "
                "training edges); correct the value or leave the graph out."
            )


class _Moments:
    """Running mean and sum of squared deviations (Chan's update), so that chunks can be added one by one."""

    def __init__(self) -> None:
        self.count, self.mean, self.squares = 0, 0.0, 0.0

    def add(self, values: NDArray[np.float64]) -> None:
        count, mean = values.size, float(values.mean())
        shift, total = mean - self.mean, self.count + count
        with np.errstate(over="ignore", invalid="ignore"):  # check_magnitude refuses what overflows here
            self.squares += float(np.square(values - mean).sum()) + shift**2 * self.count * count / total
        self.mean += shift * count / total
        self.count = total

    def deviation(self) -> float:
        deviation = float(np.sqrt(self.squares / self.count))
        return deviation if deviation > _ROUNDING * abs(self.mean) else 0.0
