"""Verdicts: what the table says, and what it refuses to say."""

from typing import Any

import numpy as np
import pytest

from isocapsnet.evaluation import tabulate
from isocapsnet.evaluation.comparisons import compare_with_reference
from isocapsnet.evaluation.evidence import Evidence, summarise
from isocapsnet.evaluation.procedures import TESTS
from isocapsnet.evaluation.results import group_records


def _record(method: str, repeat: int, fold: int, area: float, **job: Any) -> dict[str, Any]:
    """A record of 20 + 20 test graphs whose ROC AUC is ``area`` (a multiple of 1/400); constant scores for 0.5."""
    wins = round(area * 400)
    positives = np.full(20, float(wins // 20))
    positives[: wins % 20] += 1
    score = np.full(40, 0.3) if area == 0.5 else np.concatenate([np.arange(20) + 0.5, positives]) / 21
    described = {
        "dataset": "d",
        "method": method,
        "version": 1,
        "parameters": {},
        "space": {},
        "protocol": {"name": "nested", "n_folds": 3},
        "preparation": [],
        "use_unlabeled": False,
        "repeat": repeat,
        "fold": fold,
        "permutation": 0,
        "audit": None,
    }
    return {
        "key": f"{method} {repeat} {fold} {job}",
        "job": described | job,
        "classes": ["a", "b"],
        "n_train": 80,
        "test": list(range(40 * fold, 40 * fold + 40)),
        "labels": [0] * 20 + [1] * 20,
        "probabilities": np.c_[1 - score, score].tolist(),
        "seconds": {"tune": 1.0, "fit": 2.0, "predict": 0.5},
    }


def _records(method: str, areas: list[float], **job: Any) -> list[dict[str, Any]]:
    return [_record(method, i // 3, i % 3, area, **job) for i, area in enumerate(areas)]


GOOD = [0.8, 0.82, 0.78, 0.81, 0.79, 0.8]
FAIR = [0.7, 0.72, 0.68, 0.71, 0.69, 0.7]
NOISE = [0.6, 0.4, 0.55, 0.45, 0.65, 0.505]
CONSTANT = [0.5] * 6


def test_the_toy_records_have_the_areas_they_claim() -> None:
    row = tabulate(_records("linear", FAIR)).rows[0]
    assert [scores["roc_auc"] for scores in row.scores.values()] == pytest.approx(FAIR)
    assert row.seconds == 3.5
    assert row.jobs == 6


def test_verdicts_in_words() -> None:
    records = [
        *_records("isocapsnet", [0.95] * 6),
        *_records("linear", FAIR),
        *_records("gcn", NOISE),
        *_records("constant", CONSTANT),
    ]
    table = tabulate(records)
    assert table.test == "corrected-z"
    assert {row.method: row.verdict for row in table.rows} == {
        "isocapsnet": "above chance, better than linear",
        "linear": "above chance",
        "gcn": "not distinguishable from chance, worse than linear",
        "constant": "not distinguishable from chance, worse than linear",
    }
    assert [row.method for row in table.rows if row.is_best] == ["isocapsnet"]


def test_the_resampled_t_test_gives_the_verdicts_it_always_gave() -> None:
    """It takes folds that agree for certainty: a difference of 0.1 in each is p < 1e-70."""
    records = [
        *_records("isocapsnet", GOOD),
        *_records("linear", FAIR),
        *_records("gcn", NOISE),
        *_records("constant", CONSTANT),
    ]
    table = tabulate(records, test="resampled-t")
    assert {row.method: row.verdict for row in table.rows} == {
        "isocapsnet": "above chance, better than linear",
        "linear": "above chance",
        "gcn": "not distinguishable from chance",
        "constant": "not distinguishable from chance, worse than linear",
    }
    assert not any(row.is_best for row in table.rows)  # gcn is too noisy to be beaten after correction
    calm = tabulate(
        [*_records("isocapsnet", GOOD), *_records("linear", FAIR), *_records("constant", CONSTANT)], test="resampled-t"
    )
    assert [row.method for row in calm.rows if row.is_best] == ["isocapsnet"]
    assert all(np.isnan(pair.p_equivalent) for pair in calm.comparisons)
    assert tabulate(records).rows[0].verdict == "above chance, not distinguishable from linear"


def test_methods_with_almost_the_same_predictions_are_equivalent() -> None:
    """0.7 and 0.7025 differ in one of 400 pairs of each of 3 x 10 folds."""
    folds = [(name, area, i) for name, area in (("gcn", 0.7025), ("linear", 0.7)) for i in range(30)]
    records = [{**_record(name, i // 10, i % 10, area), "n_train": 360} for name, area, i in folds]
    table = tabulate(records)
    assert table.rows[0].verdict == "above chance, equivalent to linear (±0.03)"
    assert table.comparisons[0].p_equivalent < 0.05
    assert "equivalent" not in tabulate(records, test="resampled-t").rows[0].verdict


def test_no_winner_is_marked_inside_the_noise() -> None:
    wobbly = [0.74, 0.66, 0.75, 0.67, 0.72, 0.69]
    table = tabulate([*_records("isocapsnet", wobbly), *_records("linear", FAIR)])
    assert table.rows[0].metrics["roc_auc"].mean > table.rows[1].metrics["roc_auc"].mean
    assert table.rows[0].verdict == "above chance, not distinguishable from linear"
    assert not any(row.is_best for row in table.rows)
    assert not tabulate(_records("linear", GOOD)).rows[0].is_best


def test_chance_is_judged_after_holm_over_the_methods_that_could_differ_from_it() -> None:
    weak = [0.62, 0.69, 0.66, 0.64, 0.71, 0.61]
    alone = tabulate(_records("gcn", weak)).rows[0]
    assert alone.verdict == "above chance"
    beside_constant = tabulate([*_records("gcn", weak), *_records("constant", CONSTANT)]).rows[0]
    assert beside_constant.p_chance == alone.p_chance
    many = [record for name in "abcdefgh" for record in _records(name, NOISE)]
    assert tabulate([*_records("gcn", weak), *many]).rows[0].verdict == "not distinguishable from chance"


def test_a_method_below_all_its_permutations_still_counts_in_the_adjustment() -> None:
    null = [r for method in ("gcn", "gin") for p in range(1, 40) for r in _records(method, CONSTANT, permutation=p)]
    table = tabulate([*_records("gcn", GOOD), *_records("gin", [0.4] * 6), *null])
    assert {row.method: row.p_chance for row in table.rows} == {"gcn": pytest.approx(2 / 40), "gin": 1}


def test_permutations_replace_the_test_and_incomplete_draws_do_not_count() -> None:
    null = [r for p in range(1, 40) for r in _records("gcn", CONSTANT, permutation=p)]
    row = tabulate([*_records("gcn", GOOD), *null]).rows[0]
    assert row.p_chance == 1 / 40
    assert row.jobs == 6 + 39 * 6
    incomplete = [r for p in range(1, 40) for r in _records("gcn", CONSTANT, permutation=p)[:5]]
    assert tabulate([*_records("gcn", GOOD), *incomplete]).rows[0].p_chance < 1 / 100


def test_folds_that_agree_by_luck_are_not_believed_beyond_what_their_subjects_allow() -> None:
    """If folds alone were asked, this would be p = 0.000001 and an interval of no width."""
    for test in TESTS:
        lucky = tabulate(_records("gcn", [0.6, 0.6, 0.6, 0.6, 0.6, 0.605]), test=test).rows[0]
        assert lucky.verdict == "not distinguishable from chance"
        assert lucky.metrics["roc_auc"].low < 0.5
        constant = tabulate(_records("constant", CONSTANT), test=test).rows[0]
        assert constant.metrics["roc_auc"] == (0.5, 0.5, 0.5)
        assert constant.p_chance == 1


def test_equal_areas_of_a_handful_of_folds_have_an_interval_of_some_width() -> None:
    low, high = tabulate(_records("gcn", [0.75] * 3)).rows[0].metrics["roc_auc"][1:]
    assert low < 0.7
    assert high > 0.8


def test_nobody_wins_or_loses_where_nobody_is_above_chance() -> None:
    """Folds that agree make the difference certain, but none of the two is above chance."""
    table = tabulate([*_records("linear", [0.55] * 3), *_records("gcn", [0.15] * 3), *_records("constant", [0.5] * 3)])
    assert table.comparisons[0].p_adjusted < 0.001
    assert [row.is_best for row in table.rows] == [False] * 3
    assert all("linear" not in row.verdict for row in table.rows)


def test_folds_without_an_area_are_no_evidence_even_with_permutations() -> None:
    """Where each site holds one class there is no ROC AUC, neither of the data nor of any draw."""
    records = [r for p in range(40) for r in _records("gcn", [0.5] * 3, permutation=p)]
    one_class = [{**record, "labels": [fold % 2] * 40} for fold, record in enumerate(records)]
    row = tabulate(one_class).rows[0]
    assert np.isnan(row.metrics["roc_auc"].mean)
    assert row.p_chance == 1
    assert row.verdict == "ROC AUC is not defined: every test fold holds one class"


def test_a_table_needs_one_record_at_a_time_in_memory() -> None:
    """All records of 40,000 subjects, or of 1000 permutations, are gigabytes."""

    class Probabilities(list[Any]):
        alive = most = 0

        def __init__(self, values: list[Any]) -> None:
            super().__init__(values)
            Probabilities.alive += 1
            Probabilities.most = max(Probabilities.most, Probabilities.alive)

        def __del__(self) -> None:
            Probabilities.alive -= 1

    numbers = [(method, permutation) for method in ("gcn", "linear") for permutation in range(3)]
    records = (record for method, p in numbers for record in _records(method, GOOD, permutation=p))
    table = tabulate({**record, "probabilities": Probabilities(record["probabilities"])} for record in records)
    assert [row.jobs for row in table.rows] == [18, 18]
    assert Probabilities.most <= 2


def test_versions_are_those_of_the_records_not_of_whoever_reads_them() -> None:
    old, new = ({**record, "versions": {"numpy": v}} for record, v in zip(_records("a", GOOD), "12", strict=False))
    assert tabulate([old]).versions == {"numpy": "1"}
    assert tabulate([new, old]).versions == {"numpy": "1, 2"}


def test_a_verdict_says_when_there_are_too_few_permutations() -> None:
    """The smallest p-value of N permutations is 1 / (N + 1)."""
    for n_permutations, is_said in ((18, True), (19, False)):
        null = [r for p in range(1, n_permutations + 1) for r in _records("gcn", CONSTANT, permutation=p)]
        [row] = tabulate([*_records("gcn", GOOD), *null]).rows
        assert row.p_chance == pytest.approx(1 / (n_permutations + 1))
        assert ("too few" in row.verdict) is is_said


def _evidence(method: str, areas: list[float]) -> Evidence:
    summaries = [summarise(record) for record in _records(method, areas)]
    evidence = Evidence(summaries[0].method, method)
    for summary in summaries:
        evidence.add(summary)
    return evidence


def test_the_constant_answer_does_not_make_other_comparisons_harder() -> None:
    """Holm over both comparisons would double the p-value of the one that is clearer."""
    linear, constant, test = _evidence("linear", [0.51] * 6), _evidence("constant", CONSTANT), TESTS["corrected-z"]
    n_between = 0
    for wins in range(4, 120, 2):
        gcn = _evidence("gcn", [0.51 + wins / 400] * 6)
        p_value = test.difference(list(gcn.areas.values()), list(linear.areas.values())).p_value
        if 0.026 < p_value < 0.049:
            n_between += 1
            assert compare_with_reference([linear, gcn, constant], test)["gcn"] == "better than linear"
    assert n_between > 0


def test_a_verdict_says_when_not_even_a_perfect_score_could_be_above_chance() -> None:
    perfect = [1.0, 1.0]
    crowd = [record for name in "abcdefgh" for record in _records(name, perfect)]
    table = tabulate([*crowd, *_records("constant", [0.5, 0.5])], test="resampled-t")
    verdicts = {row.method: row.verdict for row in table.rows}
    assert verdicts["a"].startswith("not distinguishable from chance") and "too few folds" in verdicts["a"]
    assert verdicts["constant"] == "not distinguishable from chance"
    assert tabulate(crowd).rows[0].verdict == "above chance"
    tiny = [
        {**r, "test": r["test"][:3], "labels": [0, 1, 1], "probabilities": [[1, 0], [0, 1], [0, 1]], "n_train": 6}
        for r in crowd
    ]
    assert "even a perfect score would not be above chance" in tabulate(tiny).rows[0].verdict


def test_failures_are_the_verdict() -> None:
    error = {"key": "k", "job": _record("gcn", 0, 0, 0.5)["job"], "reason": "Timeout: over 5 s"}
    rows = tabulate([*_records("gcn", GOOD[:5]), *_records("linear", FAIR)], [error]).rows
    assert rows[0].verdict == "1 of 6 jobs failed: Timeout: over 5 s"
    assert rows[0].metrics["roc_auc"].mean == pytest.approx(np.mean(GOOD[:5]))
    nothing = tabulate([], [error]).rows[0]
    assert nothing.verdict == "1 of 1 jobs failed: Timeout: over 5 s"
    assert np.isnan(nothing.metrics["roc_auc"].mean)


def test_comparisons_use_the_folds_both_methods_have() -> None:
    [comparison] = tabulate([*_records("isocapsnet", GOOD), *_records("linear", FAIR[:3])]).comparisons
    assert comparison.difference.mean == pytest.approx(0.1)
    assert (comparison.first, comparison.second) == ("isocapsnet", "linear")


def test_a_single_fold_is_enough_for_a_test_that_needs_no_variance_between_folds() -> None:
    row = tabulate(_records("gcn", [0.8])).rows[0]
    assert row.verdict == "above chance"
    assert row.metrics["roc_auc"].low > 0.5


def test_a_single_fold_gets_a_wilson_interval_and_no_verdict_from_a_t_test() -> None:
    row = tabulate(_records("gcn", [0.8]), test="resampled-t").rows[0]
    assert row.metrics["accuracy"].low < row.metrics["accuracy"].mean < row.metrics["accuracy"].high
    assert np.isnan(row.metrics["roc_auc"].low)
    assert "single test fold" in row.verdict


def test_the_audit_tells_methods_that_depend_on_node_order() -> None:
    table = tabulate(
        [
            *_records("cnn", [0.9] * 6),
            *_records("cnn", [area - 0.1 for area in FAIR], audit=0),
            *_records("cnn", FAIR, audit=1),
            *_records("linear", FAIR),
            *_records("linear", FAIR, audit=0),
        ]
    )
    audits = {row.method: row.audit for row in table.rows}
    assert audits["cnn"] is not None and audits["linear"] is not None
    assert audits["cnn"].verdict == "depends on the node order"
    assert audits["cnn"].difference.mean == pytest.approx(-0.25)
    assert audits["linear"].verdict == "no dependence on the node order found"
    assert audits["linear"].p_value == 1


def test_another_version_or_tuning_of_a_method_is_another_row() -> None:
    tuned = {"space": {"C": [1]}, "protocol": {"name": "nested", "n_folds": 3, "inner_folds": 3, "n_candidates": 8}}
    table = tabulate(
        [
            *_records("gcn", GOOD),
            *_records("gcn", FAIR, version=2),
            *_records("gcn", NOISE, version=2, **tuned),
            *_records("linear", FAIR),
        ]
    )
    assert {row.method: row.jobs for row in table.rows} == {
        "gcn (version 1, not tuned)": 6,
        "gcn (version 2, not tuned)": 6,
        "gcn (version 2, 8 settings tried)": 6,
        "linear": 6,
    }


def test_records_of_other_data_splits_or_preparation_do_not_share_a_table() -> None:
    records = [
        *_records("linear", FAIR),
        *_records("linear", FAIR, dataset="other"),
        *_records("linear", FAIR, protocol={"name": "paper", "n_folds": 3}),
        *_records("linear", FAIR, preparation=[{"name": "tangent", "parameters": {}}]),
        *_records("gcn", FAIR, protocol={"name": "nested", "n_folds": 3, "inner_folds": 0}),
    ]
    groups = list(group_records(records).values())
    assert [len(group) for group in groups] == [12, 6, 6, 6]
