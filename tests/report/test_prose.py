"""The words say what the numbers show, and how sure they are."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from isocapsnet import MODELS
from isocapsnet.evaluation.results import Comparison, MethodResult, ResultsTable
from isocapsnet.evaluation.statistics import Interval
from isocapsnet.models import CONTROLS
from isocapsnet.report import answer, prose
from isocapsnet.report.content import Content, Fit, ReportedMethod
from isocapsnet.report.tables import tuning_table


def make_row(
    label: str, area: float, *, p_chance: float = 0.001, n_folds: int = 6, failed: int = 0, is_best: bool = False
) -> MethodResult:
    folds = [(0, fold) for fold in range(n_folds)]
    return MethodResult(
        method=label,
        name=label,
        jobs=6,
        failures={"no": failed},
        metrics={"roc_auc": Interval(area, area - 0.1, area + 0.1)},
        scores={fold: {"roc_auc": area} for fold in folds},
        keys=dict.fromkeys(folds, "k"),
        n_test=dict.fromkeys(folds, 10),
        weights=dict.fromkeys(folds, 1),
        seconds=1.0,
        use_unlabeled=False,
        p_chance=p_chance,
        is_best=is_best,
    )


def make_content(*rows: MethodResult, comparisons: Sequence[Comparison] = (), **context: Any) -> Content:
    passport = {"name": "study", "n_graphs": 60, "n_nodes": 90, "classes": {"control": 40, "case": 20}}
    return Content(
        table=ResultsTable(rows, comparisons, 0.5, {}),
        methods=[ReportedMethod(row) for row in rows],
        classes=["control", "case"],
        passport=passport,
        **context,
    )


def test_question_names_classes_and_their_sizes() -> None:
    question = prose.question(make_content())
    assert "control (40) and case (20)" in question and "90 nodes" in question


def test_classes_named_by_numbers_are_called_classes() -> None:
    content = make_content()
    passport = {**content.passport, "classes": {"-1": 20, "1": 56}}
    content = replace(content, passport=passport, classes=["class -1", "class 1"])
    assert "class -1 (20) and class 1 (56)" in prose.question(content)
    assert "class -1: 20, class 1: 56" in prose.methods_text(content)
    assert [prose.class_title(name) for name in ("0", "2.5", "HC2", "autism")] == [
        "class 0",
        "class 2.5",
        "HC2",
        "autism",
    ]


def test_answer_is_yes_when_methods_are_above_chance_and_names_them() -> None:
    content = make_content(
        make_row("linear", 0.7), make_row("gcn", 0.5, p_chance=0.6), make_row("constant", 0.5, p_chance=1)
    )
    assert answer.answer(content)[0] == "Yes: linear is above chance."
    content = make_content(make_row("linear", 0.7), make_row("gcn", 0.65))
    assert answer.answer(content)[0] == "Yes: both methods (linear and gcn) are above chance."


def test_answer_says_not_shown_when_nothing_is_above_chance_and_leaves_the_constant_predictor_out() -> None:
    content = make_content(make_row("linear", 0.55, p_chance=0.3), make_row("constant", 0.5, p_chance=1.0))
    assert answer.answer(content)[0] == "Not shown: linear is not distinguishable from chance on these data."
    content = make_content(make_row("linear", 0.55, p_chance=0.3), make_row("gcn", 0.5, p_chance=0.5))
    assert answer.answer(content)[0].startswith("Not shown: neither linear nor gcn is distinguishable from chance")


def test_the_controls_of_a_comparison_are_not_counted_among_its_methods() -> None:
    """The verdict is about "both methods", so the line below it must not list three."""
    content = make_content(make_row("gcn", 0.8, is_best=True), make_row("linear", 0.6), make_row("constant", 0.5))
    assert (
        answer.answer(content)[0]
        == "Yes: both methods (gcn and linear) are above chance, and gcn is better than linear."
    )
    assert answer.compared(content).startswith("Compared: gcn and linear, with constant as a control, over ")
    assert answer.compared(make_content(make_row("constant", 0.5))).startswith("Compared: constant over ")


def test_answer_gives_the_highest_mean_with_its_interval_and_test() -> None:
    sentence = answer.answer(make_content(make_row("gcn", 0.6), make_row("linear", 0.75)))[1]
    assert sentence.startswith("linear ") and "0.750 [0.650, 0.850]" in sentence
    assert "6 test folds, p\u00a0=\u00a00.001 against chance" in sentence


@pytest.mark.parametrize(
    ("is_best", "words"), [(True, "linear is better than gcn"), (False, "none is marked as the best")]
)
def test_answer_marks_a_winner_only_when_there_is_one(is_best: bool, words: str) -> None:
    content = make_content(make_row("linear", 0.75, is_best=is_best), make_row("gcn", 0.6))
    assert any(words in sentence for sentence in answer.answer(content))


def test_answer_sets_the_capsule_network_against_the_linear_model_whichever_way_the_pair_is_stored() -> None:
    rows = make_row("isocapsnet", 0.7), make_row("linear", 0.75)
    difference = Interval(0.05, -0.01, 0.11)
    for first, second, expected in (
        ("isocapsnet", "linear", "0.050 [−0.010, 0.110]"),
        ("linear", "isocapsnet", "−0.050 [−0.110, 0.010]"),
    ):
        pair = Comparison(first, second, difference, 0.5, 0.5)
        assert any(
            f"isocapsnet minus linear is {expected}" in sentence
            for sentence in answer.answer(make_content(*rows, comparisons=[pair]))
        )


def test_answer_says_when_there_is_no_linear_model_to_compare_with() -> None:
    assert any("no linear model" in sentence for sentence in answer.answer(make_content(make_row("gcn", 0.7))))


def test_answer_says_what_would_have_been_missed() -> None:
    power = {"n_scores": 6, "above_chance": 0.66, "between_methods": 0.12}
    sentences = answer.answer(make_content(make_row("linear", 0.7), detectable=power))
    assert any("0.66" in sentence and "0.12" in sentence for sentence in sentences)
    vague = answer.answer(make_content(make_row("linear", 0.7), detectable=power | {"between_methods": 0.6}))
    assert any("0.66" in sentence for sentence in vague) and not any("0.60 between" in sentence for sentence in vague)
    hopeless = answer.answer(make_content(make_row("linear", 0.7), detectable=power | {"above_chance": 1.2}))
    assert any("hardly show any effect" in sentence for sentence in hopeless)


def test_answer_of_single_folds_failures_and_nothing_at_all() -> None:
    single = make_content(make_row("linear", 0.9, n_folds=1))
    assert answer.answer(single)[0] == "Yes: linear is above chance."
    by_t_test = replace(single, table=replace(single.table, test="resampled-t"))
    assert answer.answer(by_t_test)[0].startswith("Undecided")
    assert answer.answer(make_content(make_row("linear", float("nan"))))[0].startswith("There is no answer")
    assert any("2 of 6 jobs failed" in s for s in answer.answer(make_content(make_row("linear", 0.7, failed=2))))


def test_protocol_says_what_was_tuned_and_on_what() -> None:
    nested = {"name": "nested", "n_folds": 5, "repeats": 3, "inner_folds": 4, "n_candidates": 8}
    text = prose.protocol_text(make_content(protocol=nested, preparation=["tangent"]))
    assert "stratified 5-fold cross-validation, repeated 3 times" in text
    assert "4 inner folds, from at most 8 settings" in text
    assert text.endswith(": tangent.")
    fixed = prose.protocol_text(make_content(protocol={"name": "paper", "n_folds": 3, "inner_folds": 0}))
    assert "did no tuning" in fixed and "inside each fit" not in fixed
    assert "by stratified 3-fold cross-validation." in fixed
    given = replace(make_content(protocol={"name": "paper", "inner_folds": 0}), passport={"n_folds": 4})
    assert "the 4 folds that come with the dataset." in prose.protocol_text(given)
    assert "not on record" in prose.protocol_text(make_content())


def test_evidence_of_networks_that_are_not_above_chance_is_called_doubtful() -> None:
    rows = [make_row("gcn", 0.55, p_chance=0.4), make_row("gin", 0.8), make_row("linear", 0.5, p_chance=0.6)]
    content = make_content(*rows)
    assert prose.doubtful_evidence(content) == ""
    explained: Any = object()
    methods = [replace(m, explanation=explained if m.label != "linear" else None) for m in content.methods]
    assert prose.doubtful_evidence(replace(content, methods=methods)).startswith("gcn is not shown to be above chance")


def test_what_a_method_chooses_inside_a_fit_is_said_unless_it_was_set() -> None:
    methods = [
        ReportedMethod(make_row("linear", 0.7)),
        ReportedMethod(replace(make_row("freq[C=1]", 0.6), name="freq", parameters={"C": 1})),
        ReportedMethod(replace(make_row("linear[C=1]", 0.6), name="linear", parameters={"C": 1})),
        ReportedMethod(make_row("gcn", 0.6)),
    ]
    content = replace(make_content(protocol={"name": "paper", "n_folds": 3, "inner_folds": 0}), methods=methods)
    assert "within its training graphs: C of linear; density of freq[C=1]." in prose.protocol_text(content)
    searched = {row[0].text: row[2].text for row in tuning_table(content).rows}
    assert searched["linear"] == "C: inside each fit" and searched["gcn"] == "nothing"


def test_what_is_said_to_be_chosen_inside_a_fit_is_a_parameter_that_is_not_set_by_default() -> None:
    methods = MODELS | CONTROLS
    for name, parameters in prose.SELECTED_IN_FIT.items():
        defaults = methods[name]().get_params()
        assert [defaults[parameter] for parameter in parameters] == [None] * len(parameters)
    unset = {name for name in methods for p in ("C", "density") if methods[name]().get_params().get(p, 0) is None}
    assert unset == set(prose.SELECTED_IN_FIT)


def test_methods_text_counts_graphs_and_names_the_test_against_chance() -> None:
    content = make_content(make_row("linear", 0.7), make_row("gcn", 0.6), protocol={"name": "nested", "n_folds": 3})
    text = prose.methods_text(content)
    assert "linear and gcn on study (60 graphs of 90 nodes; control: 40, case: 20)" in text
    assert "one-sided z-test" in text and "DeLong" in text and "±0.03" in text
    by_t_test = replace(content, table=replace(content.table, test="resampled-t"))
    assert "one-sided corrected resampled t-test" in prose.methods_text(by_t_test)
    permuted = replace(content, protocol={"name": "nested", "permutations": 1000})
    assert "by 1000 permutations of the subjects' data" in prose.methods_text(permuted)


def test_chosen_settings_are_counted_over_folds() -> None:
    fit = Fit(0, np.zeros(1, dtype=np.int64), np.ones((1, 2)))
    fits = [fit, replace(fit, settings={"C": 1}), replace(fit, settings={"C": 1})]
    method = ReportedMethod(make_row("linear", 0.7), fits)
    assert method.selected == [("C = 1", 2), ("the defaults", 1)]


def test_bibtex_holds_the_methods_used_and_the_statistics() -> None:
    text = prose.bibtex(["isocapsnet", "isocapsnet-released", "fastisonn", "linear"], "resampled-t")
    assert text.count("@") == 5
    assert "arXiv:2206.13465" in text and "IsoNN" in text and "nadeau2003" in text and "holm1979" in text
    assert "hanley1982" in text
    assert text.count("{") == text.count("}")
    assert "delong1988" in prose.bibtex([], "corrected-z")


def test_equivalence_is_a_finding_and_the_families_of_tests_are_named_once() -> None:
    rows = make_row("isocapsnet", 0.75), make_row("linear", 0.75), make_row("constant", 0.5, p_chance=1.0)
    pair = Comparison("isocapsnet", "linear", Interval(0.0, -0.01, 0.01), 1.0, 1.0, 0.004)
    content = make_content(*rows, comparisons=[pair])
    assert any("differ by less than 0.03" in sentence for sentence in answer.answer(content))
    wide = make_content(*rows, comparisons=[replace(pair, p_equivalent=0.2)])
    assert not any("differ by less than" in sentence for sentence in answer.answer(wide))
    text = prose.multiplicity_text(content)
    assert "2 tests against chance" in text and "one pair" in text and "Equal adjusted p-values" in text
    assert prose.multiplicity_text(make_content()) == ""


def test_tests_with_an_adjusted_p_value_of_1_are_counted_and_constant_scores_are_not() -> None:
    rows = [make_row("a", 0.52, p_chance=1.0), make_row("b", 0.6, p_chance=0.2), make_row("c", 0.48, p_chance=1.0)]
    constant = make_row("constant", 0.5, p_chance=1.0)
    assert "3 tests against chance" in prose.multiplicity_text(make_content(*rows, constant))
