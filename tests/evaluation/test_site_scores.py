"""Scores site by site and their random-effects summary, against slow references written from the equations."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import isocapsnet as ic
from isocapsnet.cli import main
from isocapsnet.evaluation.areas import FoldArea
from isocapsnet.evaluation.inference import area_interval
from isocapsnet.evaluation.meta_analysis import random_effects


def slow_summary(scores: list[float], variances: list[float]) -> dict[str, float]:
    """DerSimonian and Laird (1986) with the interval of Hartung and Knapp (2001), sum by sum."""
    k = len(scores)
    fixed = sum(y / v for y, v in zip(scores, variances, strict=True)) / sum(1 / v for v in variances)
    q = sum((y - fixed) ** 2 / v for y, v in zip(scores, variances, strict=True))
    c = sum(1 / v for v in variances) - sum(1 / v**2 for v in variances) / sum(1 / v for v in variances)
    tau2 = max(0.0, (q - (k - 1)) / c)
    total = sum(1 / (v + tau2) for v in variances)
    mean = sum(y / (v + tau2) for y, v in zip(scores, variances, strict=True)) / total
    hartung = sum((y - mean) ** 2 / (v + tau2) for y, v in zip(scores, variances, strict=True)) / (k - 1)
    error2 = max(1.0, hartung) / total
    return {
        "mean": mean,
        "half": stats.t.ppf(0.975, k - 1) * error2**0.5,
        "tau": tau2**0.5,
        "i2": max(0.0, (q - (k - 1)) / q) if q else 0.0,
        "p": 1 - stats.chi2.cdf(q, k - 1),
    }


sites = st.lists(st.tuples(st.floats(0.3, 1.0), st.floats(1e-4, 0.05)), min_size=3, max_size=12)


@given(sites)
def test_the_summary_is_that_of_the_equations(values: list[tuple[float, float]]) -> None:
    scores, variances = map(list, zip(*values, strict=True))
    summary, slow = random_effects(scores, variances, bounds=(-np.inf, np.inf)), slow_summary(scores, variances)
    assert summary is not None
    assert summary.mean == pytest.approx(
        (slow["mean"], slow["mean"] - slow["half"], slow["mean"] + slow["half"]), abs=1e-9
    )
    assert (summary.deviation, summary.share, summary.p_value) == pytest.approx(
        (slow["tau"], slow["i2"], slow["p"]), abs=1e-7
    )


@given(sites, st.permutations(range(3)))
def test_the_summary_does_not_depend_on_the_order_of_sites(values: list[tuple[float, float]], order: Any) -> None:
    mixed = [values[i] for i in order] + values[3:]
    first, second = (random_effects(*map(list, zip(*some, strict=True))) for some in (values, mixed))
    assert first is not None and second is not None
    assert [*first.mean, first.deviation] == pytest.approx([*second.mean, second.deviation], abs=1e-9)


def test_equal_sites_have_no_heterogeneity_and_fewer_than_three_no_summary() -> None:
    summary = random_effects([0.7] * 5, [0.01] * 5)
    assert summary is not None
    assert (summary.deviation, summary.share, summary.p_value) == (0, 0, 1)
    assert summary.heterogeneity.startswith("no ")
    assert random_effects([0.7, 0.8, np.nan], [0.01, 0.01, np.nan]) is None


def test_sites_that_differ_are_said_to() -> None:
    summary = random_effects([0.5, 0.6, 0.7, 0.8, 0.9, 0.95], [0.001] * 6)
    assert summary is not None
    assert summary.p_value < 0.001 and summary.heterogeneity.startswith("considerable")


@pytest.mark.parametrize("deviation", [0.0, 0.08])
def test_the_interval_covers_the_mean_of_a_population_of_sites(deviation: float) -> None:
    rng = np.random.default_rng(0)
    variances = np.array([0.002, 0.004, 0.004, 0.01, 0.01, 0.02, 0.03, 0.03])
    hits = 0
    for _ in range(1000):
        scores = rng.normal(0.7, np.sqrt(variances + deviation**2))
        summary = random_effects(scores, variances, bounds=(-9, 9))
        assert summary is not None
        hits += summary.mean.low <= 0.7 <= summary.mean.high
    assert 0.93 <= hits / 1000 <= 0.995


def test_the_interval_of_a_site_covers_its_expected_area() -> None:
    rng = np.random.default_rng(1)
    labels = (np.arange(30) < 12).astype(int)
    for expected in (0.5, 0.9):
        shift = 2**0.5 * stats.norm.ppf(expected)
        drawn = rng.normal(size=(250, 30)) + shift * labels
        intervals = [area_interval([FoldArea.of(labels, scores, 300)]) for scores in drawn]
        covered = [low <= expected <= high for _, low, high in intervals]
        assert 0.91 <= np.mean(covered) <= 0.995


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of five sites, of which two are too small to be tested."""
    rng = np.random.default_rng(0)
    sizes = {"north": (12, 10), "south": (9, 14), "east": (8, 8), "x": (1, 2), "y": (2, 1)}
    labels = [code for counts in sizes.values() for code, count in enumerate(counts) for _ in range(count)]
    names = [site for site, counts in sizes.items() for _ in range(sum(counts))]
    X = rng.normal(size=(len(labels), 5, 5))
    X = X + X.swapaxes(1, 2)
    X[:, 0, 1] = X[:, 1, 0] = rng.normal(2.0 * np.array(labels))
    path = tmp_path_factory.mktemp("sites") / "study.npz"
    ic.BrainGraphs(X, np.array(["a", "b"])[labels], sites=names, name="five").save(path)
    return path


def test_every_door_shows_each_site_and_the_summary(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ["--protocol", "leave-site-out", "--methods", "linear[C=1.0],constant", "--jobs", "0", "--out", str(out)]
    shown = CliRunner().invoke(main, ["benchmark", str(folder), *options], env={"COLUMNS": "160"})
    assert shown.exit_code == 0, shown.output
    results = ic.open_results(out)
    assert results.sites is not None and results.site_summary is not None
    by_site = results.sites[results.sites["method"] == "linear[C=1.0]"].set_index("site")
    assert by_site["n_subjects"].to_dict() == {"east": 16, "north": 22, "south": 23}
    assert by_site[["n_a", "n_b"]].to_numpy().tolist() == [[8, 8], [12, 10], [9, 14]]
    scored = results.predictions.query("method == 'linear[C=1.0]'").groupby("fold")
    assert by_site["roc_auc"].tolist() == pytest.approx(
        [stats.mannwhitneyu(f.p_b[f.label == "b"], f.p_b[f.label == "a"])[0] / (f.label == "b").sum()
         / (f.label == "a").sum() for _, f in scored]
    )  # fmt: skip
    constant = results.sites[results.sites["method"] == "constant"]
    assert (constant[["roc_auc", "roc_auc_low", "roc_auc_high"]] == 0.5).all(axis=None)
    assert results.site_summary["method"].tolist() == ["linear[C=1.0]"]
    assert results.site_summary["n_sites"].tolist() == [3]
    saved = json.loads((out / "results.json").read_text())["site_results"]
    assert saved["summaries"]["linear[C=1.0]"]["mean"]["mean"] == pytest.approx(results.site_summary["roc_auc"][0])
    page = results.report(tmp_path / "report.html").read_text()
    for site in ("north", "south", "east"):
        assert site in shown.output and f'<th scope="row">{site}</th>' in page
    assert "heterogeneity between sites" in shown.output and "heterogeneity between sites" in page
    assert "over 3 of 5 sites" in shown.output and "x, y" in shown.output


def test_without_sites_as_folds_the_page_says_that_each_site_also_trained(folder: Path, tmp_path: Path) -> None:
    results = ic.benchmark(folder, "constant", out=tmp_path, folds=2, repeats=1, jobs=0, progress=False)
    assert results.sites is None and results.site_summary is None
    assert "Folds were not sites" in results.report(tmp_path / "report.html").read_text()
