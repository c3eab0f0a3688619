"""Scaling of the edges for the networks, learned from the training graphs."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from isocapsnet._validation import InputError, iter_chunks

SCALINGS = ("auto", "std", "log", "none")

# Non-negative edges beyond this are counts (of streamlines), not correlations.
_COUNT_LEVEL = 100.0
# Values per step of the pass over the edges: a few MB fit in the cache.
_CHUNK_VALUES = 500_000
# Networks compute in single precision, in which sums of squares of larger values overflow.
_LARGEST_SCALED = 1e15
# Scales outside of this range are computed in double precision.
_SINGLE_PRECISION = (1e-20, 1e20)


class InputScaler(NamedTuple):
    """Scales edges to unit standard deviation, after a signed logarithm for counts.

    Attributes
    ----------
    logarithm : bool
        Whether sign(x)·log(1 + |x|) is taken first.
    scale : float
        The divisor of the edges.
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
        """Precision of the scaling: single, or double for very small and very large scales."""
        low, high = _SINGLE_PRECISION
        return np.dtype(np.float32 if low < self.scale < high else np.float64)

    @property
    def limit(self) -> float:
        """The largest edge that the networks can compute with."""
        scaled = np.inf if self.logarithm else _LARGEST_SCALED * self.scale
        return min(float(np.finfo(self.dtype).max), scaled)


def fit_scaler(X: NDArray[Any], scaling: str) -> InputScaler:
    """Learn a scaler from graphs ``(n_graphs, n_nodes, n_nodes)`` in one streaming pass over them.

    ``"std"`` divides by the standard deviation of all off-diagonal edges, ``"log"`` does so after a signed logarithm,
    ``"none"`` leaves the graphs unchanged, and ``"auto"`` takes ``"log"`` for edges that are never negative and exceed
    100 (counts), ``"std"`` otherwise.
    """
    if scaling == "none":
        return InputScaler(False, 1.0)
    edges = ~np.eye(X.shape[1], dtype=bool) if X.shape[1] > 1 else np.ones((1, 1), dtype=bool)
    low, high = np.inf, -np.inf
    plain, logged = StandardScaler(), StandardScaler()
    with np.errstate(over="ignore", invalid="ignore"):  # check_magnitude refuses what overflows here
        for _, chunk in iter_chunks(X, _CHUNK_VALUES):
            values = np.asarray(chunk[:, edges], dtype=np.float64).reshape(-1, 1)
            low, high = min(low, values.min()), max(high, values.max())
            plain.partial_fit(values)
            if scaling == "log" or (scaling == "auto" and low >= 0):  # negative edges are no counts
                logged.partial_fit(np.sign(values) * np.log1p(np.abs(values)))
    logarithm = scaling == "log" or (scaling == "auto" and bool(low >= 0 and high > _COUNT_LEVEL))
    scale = float((logged if logarithm else plain).scale_[0])  # 1 if all edges are equal
    return InputScaler(logarithm, scale if np.isfinite(scale) else 1.0)


def check_magnitude(X: NDArray[Any], scaler: InputScaler, name: str = "X") -> None:
    """Raise InputError for graphs ``(n_graphs, n_nodes, n_nodes)`` with an entry that is too large to compute with."""
    limit = scaler.limit
    for start, chunk in iter_chunks(X):
        if max(float(chunk.max()), -float(chunk.min())) > limit:
            graph, row, column = np.argwhere(np.abs(chunk.astype(np.float64)) > limit)[0].tolist()
            raise InputError(
                f"{name}: graph {start + graph} has the value {chunk[graph, row, column]:.4g} at row {row}, column "
                f"{column}, which is too large to compute with (the limit is {limit:.2g}, from the scale of the "
                "training edges); correct the value or leave the graph out."
            )
