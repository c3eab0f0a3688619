"""Leave-site-out: which sites are test folds, what they weigh, and that every text says the same."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmark_toys import Logistic, Prior, make_study, toy_method, toy_source
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from isocapsnet._reporting import read_content
from isocapsnet._validation import InputError
from isocapsnet.cli import main
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.synthetic import make_planted_graphs
from isocapsnet.evaluation import (
    METRICS,
    DataSource,
    InProcessExecutor,
    Plan,
    Protocol,
    Samples,
    Store,
    resampled,
    run,
    statistics,
    tabulate,
)
from isocapsnet.evaluation.areas import FoldArea
from isocapsnet.evaluation.protocol import MIN_PER_CLASS
from isocapsnet.report import answer, prose

PROTOCOL = Protocol("leave-site-out", inner_folds=0)
#: Site to its numbers of controls and cases: nine of different size, two of one person each.
ELEVEN = {f"s{size:02}": (size, size) for size in (3, 4, 5, 6, 7, 8, 9, 10, 16)} | {"tiny1": (1, 0), "tiny2": (0, 1)}


def site_study(sites: dict[str, tuple[int, ...]], subjects: Any = None) -> Samples:
    """Subjects with a class effect, as many of each class and site as asked for."""
    labels = [code for counts in sites.values() for code, count in enumerate(counts) for _ in range(count)]
    names = [site for site, counts in sites.items() for _ in range(sum(counts))]
    study = make_study(n_graphs=len(labels))
    X = study.X.copy()
    X[:, 0, 1] = X[:, 1, 0] = np.random.default_rng(1).normal(labels)
    persons = pd.DataFrame({"person": study.subjects if subjects is None else subjects})
    n_classes = max(map(len, sites.values()))
    data = study.replace(
        adjacency=X, labels=labels, label_names=list("abc")[:n_classes], sites=names, covariates=persons
    )
    return Samples(data, "person")


def eleven_sites() -> BrainGraphs:
    data = site_study(ELEVEN).data
    assert isinstance(data, BrainGraphs)
    return data


def folds_of(sites: dict[str, tuple[int, ...]], subjects: Any = None) -> dict[tuple[str, ...], tuple[str, ...]]:
    splits = PROTOCOL.splits(site_study(sites, subjects), 0)
    return {split.sites: split.too_small for split in splits}


def test_a_site_of_one_class_trains_but_is_no_test_fold() -> None:
    splits = PROTOCOL.splits(Samples(eleven_sites()), 0)
    assert [split.name for split in splits] == [f"s{size:02}" for size in (3, 4, 5, 6, 7, 8, 9, 10, 16)]
    assert {split.too_small for split in splits} == {("tiny1", "tiny2")}
    study = eleven_sites()
    tiny = np.flatnonzero(np.char.startswith(study.sites, "tiny"))
    assert all(np.isin(tiny, split.train).all() for split in splits)


def test_small_sites_are_listed_and_never_tested_together() -> None:
    large = {"a": (5, 5), "b": (4, 4)}
    assert folds_of(large | {"c": (1, 1), "d": (1, 2)}) == {("a",): ("c", "d"), ("b",): ("c", "d")}
    assert folds_of(large | {"c": (1, 1)}) == {("a",): ("c",), ("b",): ("c",)}
    assert folds_of(large | {"c": (9, 0), "d": (0, 9)}) == {("a",): ("c", "d"), ("b",): ("c", "d")}
    assert folds_of({"a": (3, 3, 0), "b": (0, 2, 2), "c": (2, 1, 1)}) == {("a",): ("c",), ("b",): ("c",)}


def test_scores_that_know_the_site_alone_are_at_chance_in_every_fold() -> None:
    study = site_study({"a": (9, 4), "b": (3, 7), "cases": (1, 8), "controls": (8, 1)})
    share_of_cases = {site: study.labels[study.sites == site].mean() for site in np.unique(study.sites)}
    for split in PROTOCOL.splits(study, 0):
        scores = [share_of_cases[site] for site in study.sites[split.test]]
        assert FoldArea.of(study.labels[split.test], scores, len(split.train)).area == 0.5


def test_people_are_counted_not_their_scans() -> None:
    sites = {"a": (6, 6), "b": (6, 6), "c": (3, 3)}
    alone = np.array([f"p{i}" for i in range(30)])
    assert folds_of(sites, subjects=alone) == {("a",): (), ("b",): (), ("c",): ()}
    scans = alone.copy()
    scans[24:27] = "one control"
    assert folds_of(sites, subjects=scans) == {("a",): ("c",), ("b",): ("c",)}


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(any), min_size=2, max_size=8))
def test_every_tested_site_is_in_one_fold_and_every_fold_can_be_scored(counts: list[tuple[int, int]]) -> None:
    study = site_study({f"s{i}": count for i, count in enumerate(counts)})
    try:
        splits = PROTOCOL.splits(study, 0)
    except InputError:
        return
    tested = [site for split in splits for site in split.sites]
    assert sorted([*tested, *splits[0].too_small]) == np.unique(study.sites).tolist()
    for split in splits:
        assert np.bincount(study.labels[split.test]).min() >= MIN_PER_CLASS
        assert np.isin(study.sites[split.test], split.sites).all()
        assert not np.isin(study.sites[split.train], split.sites).any()


def test_sites_none_of_which_can_be_scored_are_refused() -> None:
    with pytest.raises(InputError, match=r"None of the 3 sites .* 2 subjects"):
        PROTOCOL.splits(site_study({"a": (5, 1), "b": (1, 0), "c": (0, 5)}), 0)


def test_means_intervals_and_comparisons_weigh_a_fold_by_its_subjects(tmp_path: Path) -> None:
    methods = (toy_method("linear", Logistic), toy_method("constant", Prior))
    source = DataSource("test_leave_site_out:eleven_sites", eleven_sites().digest())
    plan = Plan(source, methods, PROTOCOL, repeats=1, permutations=3)
    run(plan.tasks(tmp_path), Store(tmp_path), InProcessExecutor())
    table = tabulate(Store(tmp_path).records())
    [linear] = [row for row in table.rows if row.method == "linear"]
    subjects = [2 * size for size in (3, 4, 5, 6, 7, 8, 9, 10, 16)]
    assert list(linear.weights.values()) == list(linear.n_test.values()) == subjects
    for name in METRICS:
        scores = [scores[name] for scores in linear.scores.values()]
        assert linear.metrics[name].mean == pytest.approx(np.average(scores, weights=subjects)), name
    areas = np.array([scores["roc_auc"] for scores in linear.scores.values()])
    assert areas.mean() != pytest.approx(np.average(areas, weights=subjects))
    [comparison] = table.comparisons
    assert abs(comparison.difference.mean) == pytest.approx(np.average(areas - 0.5, weights=subjects))
    assert linear.verdict.endswith("(over 9 of 11 sites)")


def test_folds_of_other_protocols_weigh_the_same(tmp_path: Path) -> None:
    plan = Plan(toy_source(), (toy_method("linear", Logistic),), Protocol(n_folds=4), repeats=1)
    run(plan.tasks(tmp_path), Store(tmp_path), InProcessExecutor())
    [row] = tabulate(Store(tmp_path).records()).rows
    assert set(row.weights.values()) == {1}
    assert row.metrics["roc_auc"].mean == pytest.approx(np.mean([s["roc_auc"] for s in row.scores.values()]))


@pytest.fixture(scope="module")
def run_on_eleven_sites(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The results folder of a run from the command line, and what it printed."""
    folder = tmp_path_factory.mktemp("sites")
    study = eleven_sites()
    planted = make_planted_graphs(len(study.labels), 8, signal_to_noise=3.0, random_state=0)
    order = np.argsort(planted.labels, kind="stable")[np.argsort(np.argsort(study.labels, kind="stable"))]
    labels = planted.labels[order]
    BrainGraphs(planted.graphs[order], labels, sites=study.sites, name="sites").save(folder / "sites.npz")
    command = ["benchmark", str(folder / "sites.npz"), "--protocol", "leave-site-out", "--methods", "linear,constant"]
    result = CliRunner().invoke(main, [*command, "--candidates", "1", "--jobs", "0", "--out", str(folder / "out")])
    assert result.exit_code == 0, result.output
    return folder / "out", " ".join(result.output.split())


def test_table_results_report_and_verdict_say_how_many_sites_count(run_on_eleven_sites: tuple[Path, str]) -> None:
    folder, output = run_on_eleven_sites
    results = json.loads((folder / "results.json").read_text())
    sentence = results["sites"]["sentence"]
    assert "over 9 of 11 sites" in sentence and "tiny1, tiny2" in sentence
    assert results["sites"]["too_small"] == ["tiny1", "tiny2"]
    assert output.count(sentence) == 2  # before the run and under the table
    frame = pd.read_csv(folder / "results.csv")
    assert all("over 9 of 11 sites" in verdict for verdict in frame.verdict)
    content = read_content(folder)
    assert sentence in answer.answer(content)
    assert sentence in prose.protocol_text(content)
    assert "With 9 test folds" in output
    folds = results["methods"][0]["folds"]
    weighted = np.average([fold["roc_auc"] for fold in folds], weights=[fold["weight"] for fold in folds])
    assert content.methods[0].row.metrics["roc_auc"].mean == pytest.approx(weighted)
    assert frame.roc_auc[0] == pytest.approx(weighted)


# -- weights in the statistics ------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1), min_size=2, max_size=9), st.integers(1, 50))
def test_equal_weights_change_nothing(scores: list[float], weight: int) -> None:
    weights = [weight] * len(scores)
    plain, weighted = (resampled.corrected_interval(scores, 0.3, weights=w) for w in (None, weights))
    assert weighted == pytest.approx(plain, nan_ok=True)
    tests = [resampled.corrected_t_test(scores, 0.3, weights=w) for w in (None, weights)]
    assert tests[0] == pytest.approx(tests[1])
    variances = np.square(scores)
    assert resampled.mean_variance(variances, weights) == pytest.approx(np.mean(variances))


def test_the_weighted_test_keeps_its_level_where_large_folds_vary_less() -> None:
    """Weighted least squares: scores with variance 1/w have exactly this t-distribution."""
    rng = np.random.default_rng(0)
    weights = np.array([2, 3, 5, 8, 30, 60])
    scores = rng.normal(size=(4000, 6)) / np.sqrt(weights)
    p_values = [resampled.corrected_t_test(row, 0.0, weights=weights) for row in scores]
    assert stats.kstest(p_values, "uniform").pvalue > 0.01
    assert np.mean(np.array(p_values) < 0.05) == pytest.approx(0.05, abs=0.01)


def test_the_variance_of_a_weighted_mean_is_that_of_a_simulation() -> None:
    rng = np.random.default_rng(0)
    variances, weights = np.array([1.0, 4.0, 0.5]), np.array([1, 2, 7])
    means = np.average(rng.normal(size=(40_000, 3)) * np.sqrt(variances), axis=1, weights=weights)
    assert resampled.mean_variance(variances, weights) / 3 == pytest.approx(means.var(), rel=0.03)


@pytest.mark.parametrize("scores", [[], [np.nan]])
def test_nothing_defined_gives_no_mean(scores: Sequence[float]) -> None:
    assert np.isnan(statistics.weighted_mean(scores, [1] * len(scores)))
    assert resampled.mean_variance(scores, [1] * len(scores)) == 0
