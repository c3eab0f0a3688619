"""The simulation behind docs/calibration.md: its fast forms against the library's, and a small run of it."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from joblib import parallel_config
from scipy import stats
from sklearn.linear_model import Ridge

from isocapsnet.evaluation.areas import FoldArea, pair_shares
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
        assert pair_shares(fast) == pytest.approx(pair_shares(slow))
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


@pytest.mark.parametrize("n_classes", [2, 3])
def test_stored_ranks_give_the_areas_of_the_scores(ridge: ModuleType, n_classes: int) -> None:
    import calibration_methods

    cell = ridge.Cell(30, 0.3, n_classes, "5 x 3")
    splits = cell.splits()
    # Many ties, as networks that learned nothing have.
    scores = np.random.default_rng(0).integers(0, 4, size=(len(splits), 10, n_classes)) / 7
    columns = scores[:, :, 1:] if n_classes == 2 else scores
    text = calibration_methods.encode(np.concatenate([stats.rankdata(own, axis=0) for own in columns]))
    for (train, test), own, fast in zip(splits, scores, calibration_methods.decode(text, cell), strict=True):
        slow = FoldArea.of(cell.labels[test], own, len(train))
        assert (fast.area, fast.null_variance, fast.n_train) == (slow.area, slow.null_variance, slow.n_train)
        assert fast.placements.tolist() == slow.placements.tolist()


@pytest.fixture
def small(ridge: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The command for two ridge cells, of which one is refused, and one cell of methods, in a folder of its own."""
    import calibration
    import calibration_methods

    monkeypatch.setattr(calibration, "FOLDER", tmp_path / "calibration")
    monkeypatch.setattr(calibration, "CELLS", [ridge.Cell(40, 0.5, 2, "1 x 3"), ridge.Cell(40, 0.2, 2, "1 x 10")])
    for module in (calibration, calibration_methods):
        monkeypatch.setattr(module, "NAMED", {"tiny": ridge.Cell(24, 0.5, 2, "1 x 3")})
    return calibration


def run_command(calibration: ModuleType, monkeypatch: pytest.MonkeyPatch, command: str) -> dict[str, str]:
    """The page, and the stored results by the name of their file."""
    monkeypatch.setattr(sys, "argv", ["calibration.py", *command.split()])
    calibration.main()
    files = {path.name: path.read_text() for path in calibration.FOLDER.iterdir()}
    return {"page": (calibration.FOLDER.parent / "calibration.md").read_text(), **files}


def test_the_page_lists_every_cell_and_says_of_how_many_datasets(
    small: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "ridge linear --datasets 3 --effects 10"
    first = run_command(small, monkeypatch, command)
    assert "| 40 subjects, 2 classes, smallest 0.5, 1 x 3 | 3 | 10 |" in first["page"]
    assert "fewer than the 10 folds" in first["page"]
    assert "| tiny: 24 subjects, 2 classes, smallest 0.5, 1 x 3 | 3 |" in first["page"]
    assert "above .05 by the 99 % bound in 0 of 1 cells (3 datasets each)" in first["page"]
    assert run_command(small, monkeypatch, command) == first, "nothing is left to do"
    with parallel_config("threading"):  # processes would import everything first
        more = run_command(small, monkeypatch, "linear --datasets 5 --jobs 2")
    before, after = (json.loads(files["linear.json"])["tiny"]["ranks"] for files in (first, more))
    assert after.keys() == {"0", "1", "2", "3", "4"} and before.items() <= after.items()


def test_results_of_another_version_are_computed_again(small: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    command = "ridge linear --datasets 2 --effects 10"
    first = run_command(small, monkeypatch, command)
    stored = {name: json.loads(first[name]) for name in ("ridge.json", "linear.json")}
    for figures in stored["ridge.json"]["40 subjects, 2 classes, smallest 0.5, 1 x 3"]["figures"].values():
        figures["tests"], figures["corrected-z"] = "earlier", {**figures["corrected-z"], "different": 1}
    stored["linear.json"]["tiny"]["method"][1] -= 1
    stored["linear.json"]["tiny"]["ranks"] = {"0": stored["linear.json"]["tiny"]["ranks"]["1"]}
    for name, content in stored.items():
        (small.FOLDER / name).write_text(json.dumps(content))
    page = run_command(small, monkeypatch, "page")["page"]
    assert "1 of 1 cells are of an earlier version of the tests" in page and "`linear` are of version" in page
    assert run_command(small, monkeypatch, command) == first


def test_the_smallest_share_that_is_marked_is_that_of_a_99_percent_binomial_bound(ridge: ModuleType) -> None:
    from calibration_tables import is_exceeded

    for n_datasets in (10, 100, 999):
        for claimed in range(n_datasets // 5):
            tail = stats.binomtest(claimed, n_datasets, 0.05, alternative="greater").pvalue
            assert is_exceeded((claimed, n_datasets)) == (tail < 0.01)
