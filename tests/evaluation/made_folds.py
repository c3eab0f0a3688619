"""Test folds with random scores."""

import numpy as np

from isocapsnet.evaluation.areas import FoldArea


def make_folds(
    seed: int, shift: float = 0.0, *, n_folds: int = 3, sizes: tuple[int, ...] = (14, 9), digits: int = 6
) -> list[FoldArea]:
    """Folds with ``sizes`` test subjects of each class, whose scores lie ``shift`` standard deviations apart."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    scores = [rng.normal(size=(len(labels), len(sizes))) + shift * np.eye(len(sizes))[labels] for _ in range(n_folds)]
    return [FoldArea.of(labels, np.round(each, digits), 2 * len(labels)) for each in scores]
