"""Graphs beside their reconstructions, collected from several fits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isocapsnet.explanation.fits import FitExplanation


@dataclass(frozen=True)
class Reconstructions:
    """Graphs that the fits did not train on and their reconstructions, in original units, each subject once.

    ``labels`` ``(n_graphs,)`` are class codes; ``n_available`` is the number of test graphs, of which these are a part.
    """

    subjects: Sequence[str]
    labels: NDArray[np.int64]
    inputs: NDArray[Any]
    outputs: NDArray[Any]
    n_available: int

    def similarity(self) -> tuple[float, float]:
        """Mean correlation over edges of reconstructions with their own graphs and with those of other subjects.

        NaN where it is not defined: a constant graph, a single subject.
        """
        edges = np.triu_indices(self.inputs.shape[1], k=1)
        n_graphs = len(self.inputs)
        with np.errstate(invalid="ignore", divide="ignore"):
            both = np.corrcoef(self.outputs[:, *edges], self.inputs[:, *edges])[:n_graphs, n_graphs:]
        own = np.eye(n_graphs, dtype=bool)
        return float(both[own].mean()), float(both[~own].mean()) if n_graphs > 1 else float("nan")


def collect_reconstructions(
    fits: Sequence[FitExplanation], tests: Sequence[Sequence[int] | NDArray[np.int64]], subjects: Sequence[str]
) -> Reconstructions | None:
    """The examples of all fits, each subject once, from the first fit that has it; None without a decoder."""
    examples: dict[int, tuple[int, Any, Any]] = {}
    for fit, indices in zip(fits, tests, strict=True):
        if fit.example_reconstructions is not None:
            for example, graph, output in zip(
                fit.examples, fit.example_graphs, fit.example_reconstructions, strict=True
            ):
                examples.setdefault(indices[fit.positions[example]], (int(fit.codes[example]), graph, output))
    if not examples:
        return None
    labels, inputs, outputs = zip(*examples.values(), strict=True)
    return Reconstructions(
        subjects=[str(subjects[index]) if len(subjects) else f"subject {index + 1}" for index in examples],
        labels=np.array(labels, dtype=np.int64),
        inputs=np.stack(inputs),
        outputs=np.stack(outputs),
        n_available=len({index for indices in tests for index in indices}),
    )
