"""Whether graphs are of the kind that a model was fitted to, judged by their values."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet._validation import CHUNK_VALUES, InputError, check_number, iter_chunks, off_diagonal

# Sizes of edges beyond the range of the training graphs by this factor are another unit.
_FACTOR = 10.0
# Rounding of correlations, which are at most 1.
_ROUNDING = 1e-6
# Graphs with negative edges and a largest edge between this and 1 look like correlations.
_NEAR_ONE = 0.9
# Graphs with more edges than the first number are not thresholded; those with fewer than the second are.
_DENSE, _SPARSE = 0.9, 0.5
# If each training graph has this share of negative edges, graphs without any had their signs removed.
_SIGNED = 0.01

#: What is measured in each graph: the root mean square and the largest size of its edges, the share of edges that are
#: negative and that are not 0, the median of its diagonal, and its largest difference from its transpose.
FACTS = ("size", "largest", "negative", "density", "diagonal", "asymmetry")


def measure_graphs(X: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
    """Each of :data:`FACTS` for graphs ``(n_graphs, n_nodes, n_nodes)``: arrays ``(n_graphs,)``."""
    parts = []
    is_edge = off_diagonal(X) if X.shape[1] > 1 else np.ones((1, 1), dtype=bool)
    for _, some in iter_chunks(X):
        chunk = np.asarray(some, dtype=np.float64)
        edges = chunk[:, is_edge]
        with np.errstate(over="ignore"):
            size = np.sqrt((edges**2).mean(axis=1))
        parts.append(
            [
                size,
                np.abs(edges).max(axis=1),
                (edges < 0).mean(axis=1),
                (edges != 0).mean(axis=1),
                np.median(np.diagonal(chunk, axis1=1, axis2=2), axis=1),
                np.abs(chunk - np.swapaxes(chunk, 1, 2)).max(axis=(1, 2)),
            ]
        )
    return {name: np.concatenate(values) for name, values in zip(FACTS, zip(*parts, strict=True), strict=True)}


def summarize_graphs(X: NDArray[Any], indices: NDArray[np.int64]) -> dict[str, list[float]]:
    """The least and the largest of each of :data:`FACTS` over the graphs at ``indices``, for a model file."""
    step = max(1, CHUNK_VALUES // max(1, X[0].size))
    parts = [measure_graphs(X[indices[start : start + step]]) for start in range(0, len(indices), step)]
    facts = {name: np.concatenate([part[name] for part in parts]) for name in FACTS}
    return {name: [float(values.min()), float(values.max())] for name, values in facts.items()}


def check_summary(summary: Any) -> None:
    """Raise InputError for anything but what :func:`summarize_graphs` returns."""
    if not isinstance(summary, dict) or summary.keys() != {*FACTS}:
        raise InputError("its description of the training graphs is not valid")
    for name, (low, high) in summary.items():
        check_number(name, low, low=-np.inf)
        check_number(name, high, low=low)


def check_resemblance(X: NDArray[Any], subjects: Sequence[str], training: Mapping[str, Sequence[float]]) -> None:
    """Refuse graphs whose values are not of the kind that the summary ``training`` describes."""
    facts = measure_graphs(X)
    (size_low, size_high), (_, largest), (negative_low, negative_high), (density_low, density_high), diagonal, skew = (
        training[name] for name in FACTS
    )
    is_symmetric = skew[1] <= _ROUNDING * max(largest, 1.0)
    is_unit = max(abs(value - 1) for value in diagonal) <= _ROUNDING
    # Other weights may be at most 1 in all training graphs by chance.
    are_correlations = largest <= 1 + _ROUNDING and (is_unit or (negative_high > 0 and largest >= _NEAR_ONE))
    has_one_diagonal = diagonal[1] - diagonal[0] <= _ROUNDING
    problems = (
        (
            (facts["size"] * _FACTOR < size_low) | (facts["size"] > size_high * _FACTOR),
            lambda i: (
                f"edges of size {facts['size'][i]:.3g} on average (training graphs: {size_low:.3g} to {size_high:.3g})"
            ),
        ),
        (
            (facts["largest"] > 1 + _ROUNDING) & are_correlations,
            lambda i: f"an edge of {facts['largest'][i]:.3g} (training graphs: at most 1, like correlations)",
        ),
        (
            (facts["negative"] > 0) & (negative_high == 0),
            lambda i: "negative edges (training graphs: none)",
        ),
        (
            (facts["negative"] == 0) & (negative_low > _SIGNED),
            lambda i: f"no negative edges (training graphs: at least {negative_low:.0%})",
        ),
        (
            (facts["density"] < _SPARSE) & (density_low >= _DENSE),
            lambda i: (
                f"edges between {facts['density'][i]:.0%} of the pairs of nodes (training graphs: at least "
                f"{density_low:.0%})"
            ),
        ),
        (
            (facts["density"] >= _DENSE) & (density_high < _SPARSE),
            lambda i: (
                f"edges between {facts['density'][i]:.0%} of the pairs of nodes (training graphs: at most "
                f"{density_high:.0%})"
            ),
        ),
        (
            (np.abs(facts["diagonal"] - diagonal[0]) > 1e-3 * max(1.0, abs(diagonal[0]))) & has_one_diagonal,
            lambda i: f"a diagonal of {facts['diagonal'][i]:.3g} (training graphs: {diagonal[0]:.3g})",
        ),
        (
            (facts["asymmetry"] > _ROUNDING * np.maximum(facts["largest"], 1.0)) & is_symmetric,
            lambda i: "directed edges (training graphs: none)",
        ),
    )
    for is_other, describe in problems:
        if is_other.any():
            index = int(np.argmax(is_other))
            raise InputError(
                f"{is_other.sum()} of {len(is_other)} graphs are of another kind than those that the model was fitted "
                f"to; subject {subjects[index]}, for example, has {describe(index)}. Prepare them like the training "
                "graphs."
            )
