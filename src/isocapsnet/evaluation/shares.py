"""Learning curves over the number of subjects: fits on a share of the training subjects of each fold.

The test graphs of a fold stay as they are. Smaller samples are parts of larger ones, and all methods get the same.
Preparation and tuning see the sample alone.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from isocapsnet._validation import InputError
from isocapsnet.evaluation.areas import FoldArea
from isocapsnet.evaluation.naming import seed_from
from isocapsnet.evaluation.procedures import Procedure
from isocapsnet.evaluation.protocol import Split
from isocapsnet.evaluation.samples import Samples
from isocapsnet.evaluation.statistics import Interval

_LEAST_PER_CLASS = 2


class CurvePoint(NamedTuple):
    """A share of the training subjects, the mean number of training graphs, and the ROC AUC over test folds."""

    share: float
    n_train: float
    area: Interval


def read_shares(values: str | float | Sequence[float]) -> tuple[float, ...]:
    """Different shares between 0 and 1, smallest first, from one number, several, or a text such as ``"0.25,0.5"``."""
    parts = values.split(",") if isinstance(values, str) else np.atleast_1d(values).tolist()
    try:
        shares = sorted({float(part) for part in parts if str(part).strip()})
    except (ValueError, TypeError):
        shares = [float("nan")]
    if not all(0 < share < 1 for share in shares):
        raise InputError(
            f"learning_curve={values!r} cannot be read; give shares of the training subjects between 0 and 1, such as "
            "0.25,0.5,0.75."
        )
    return tuple(shares)


def take_share(samples: Samples, split: Split, share: float, repeat: int, fold: int) -> Split:
    """The fold with a share of the training subjects of each class, at least two; people are kept whole.

    The order in which people are taken depends on the data and the fold alone, so a sample holds every smaller one.
    """
    if share == 1:
        return split
    rng = np.random.default_rng(seed_from("share", samples.digest, repeat, fold))
    persons = samples.subjects[split.train].astype(str)
    names, first = np.unique(persons, return_index=True)
    classes = samples.labels[split.train][first]
    kept: list[str] = []
    for label in np.unique(classes):
        of_class = rng.permutation(names[classes == label])
        kept += of_class[: max(_LEAST_PER_CLASS, round(share * len(of_class)))].tolist()
    return split._replace(train=split.train[np.isin(persons, kept)])


def learning_curve(
    folds_of: Mapping[float, Mapping[tuple[int, int], FoldArea]], procedure: Procedure
) -> tuple[CurvePoint, ...]:
    """Points by share, from the folds of each; empty if there are none but those of all training subjects."""
    points = []
    for share, folds in sorted(folds_of.items()):
        areas = [area for _, area in sorted(folds.items())]  # in one order, so that sums are the same to the last digit
        if areas:
            n_train = float(np.mean([area.n_train for area in areas]))
            points.append(CurvePoint(share, n_train, procedure.area_interval(areas)))
    return tuple(points) if len(points) > 1 else ()
