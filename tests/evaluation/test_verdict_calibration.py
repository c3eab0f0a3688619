"""The simulation behind docs/calibration.md: its fast forms against the library's, and a small run of it."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from isocapsnet.evaluation.areas import FoldArea
from isocapsnet.evaluation.procedures import TESTS

_BENCHMARKS = str(Path(__file__).parents[2] / "benchmarks")


@pytest.fixture
def ridge(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(_BENCHMARKS)
    import calibration_ridge

    return calibration_ridge


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_the_areas_of_many_datasets_are_those_of_each(ridge: ModuleType, n_classes: int) -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(n_classes), [7, 4, 3, 5][:n_classes])
    scores = rng.normal(size=(6, len(labels), n_classes))
    if n_classes == 2:
        scores[:, :, 0] = -scores[:, :, 1]
    for own, fast in zip(scores, ridge.fold_areas(labels, scores, 30), strict=True):
        slow = FoldArea.of(labels, own, 30)
        assert (fast.area, fast.null_variance, fast.n_train) == pytest.approx(
            (slow.area, slow.null_variance, slow.n_train)
        )
        assert fast.placements == pytest.approx(slow.placements)
        assert fast.labels.tolist() == slow.labels.tolist()


def test_the_scores_of_a_fold_are_those_of_a_regression_on_the_other_folds(ridge: ModuleType) -> None:
    cell = ridge.Cell(40, 0.35, 3, "1 x 3")
    features = ridge.draw_features(cell, 0.1, 2, np.random.default_rng(0))
    targets = np.eye(3)[cell.labels] - np.eye(3)[cell.labels].mean(axis=0)
    splits = cell.splits()
    for (train, test), fast in zip(splits, ridge.ridge_scores(features, cell.labels, splits), strict=True):
        for own, scores in zip(features, fast, strict=True):
            model = Ridge(alpha=features.shape[2], fit_intercept=False).fit(own[train], targets[train])
            assert scores == pytest.approx(model.predict(own[test]), abs=1e-8)


def test_both_methods_are_equally_good_and_a_worse_one_is_as_much_worse_as_asked_for(ridge: ModuleType) -> None:
    cell = ridge.Cell(60, 0.4, 2, "1 x 3")
    first, second, scores = ridge.ridge_folds(cell, 0.12, 150, "test")
    assert ridge.mean_area(first) > 0.65
    assert ridge.mean_area(first) == pytest.approx(ridge.mean_area(second), abs=0.02)
    worse = ridge.worsen(cell, first, scores, 0.1)
    assert ridge.mean_area(first) - ridge.mean_area(worse) == pytest.approx(0.1, abs=0.005)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_false_claims_stay_below_the_level_and_true_ones_are_found(ridge: ModuleType, n_classes: int) -> None:
    cell = ridge.Cell(80, 0.3, n_classes, "1 x 3")
    first, second, _ = ridge.ridge_folds(cell, 0.0, 300, "test")
    null = ridge.measure(first, second, 0.5)
    assert _shares(null, "above_chance")["corrected-z"] <= 0.08
    assert _shares(null, "different")["corrected-z"] <= 0.08
    assert 0.92 <= _shares(null, "covered")["corrected-z"] <= 1
    effect = ridge.measure(ridge.ridge_folds(cell, 0.15, 100, "test")[0])
    power = _shares(effect, "above_chance")
    assert power["corrected-z"] > 0.8 and power["corrected-z"] >= power["resampled-t"]


def _shares(figures: dict[str, Any], claim: str) -> dict[str, float]:
    return {name: figures[name][claim] / figures["n"] for name in TESTS}


def test_the_page_lists_every_cell_and_marks_shares_above_the_level(
    ridge: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import calibration
    import calibration_page

    monkeypatch.setattr(calibration, "FOLDER", tmp_path / "calibration")
    monkeypatch.setattr(calibration, "CELLS", [ridge.Cell(40, 0.5, 2, "1 x 3"), ridge.Cell(40, 0.2, 2, "1 x 10")])
    monkeypatch.setattr(calibration, "NAMED", {"tiny": ridge.Cell(24, 0.5, 2, "1 x 3")})
    monkeypatch.setattr(sys, "argv", ["calibration.py", "ridge", "linear", "--datasets", "2", "--effects", "10"])
    calibration.main()
    page = (tmp_path / "calibration.md").read_text()
    assert "40 subjects, 2 classes, smallest 0.5, 1 x 3" in page
    assert "fewer than the 10 folds" in page
    assert "| linear | tiny" in page
    before = (tmp_path / "calibration" / "linear.json").read_bytes()
    calibration.main()  # nothing is left to do
    assert (tmp_path / "calibration" / "linear.json").read_bytes() == before
    assert calibration_page.is_exceeded((75, 1000)) and not calibration_page.is_exceeded((60, 1000))
