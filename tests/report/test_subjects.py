"""Who the subjects are, what is predicted for them, at which sites, and how far probabilities can be trusted."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy import stats

from isocapsnet import open_results
from isocapsnet._reporting import make_content
from isocapsnet._validation import InputError
from isocapsnet.cli import main
from isocapsnet.evaluation.metrics import roc_auc
from isocapsnet.evaluation.statistics import Interval
from isocapsnet.report import answer, prose
from isocapsnet.report.content import Content, Fit, ReportedMethod, Subjects
from isocapsnet.report.figures.roc import _precision_curves
from isocapsnet.report.page import render
from isocapsnet.report.rates import average_precision, decision_rates, describe_calibration
from isocapsnet.report.sites import site_scores
from isocapsnet.report.subject_tables import (
    LISTED,
    describe_missed,
    predict_subjects,
    predictions_table,
    subjects_table,
)
from isocapsnet.report.tables import rates_table
from tests.report.test_prose import make_content as make_toy
from tests.report.test_prose import make_row
from tests.report.toys import make_data, make_folder, network_alone


def make_method(
    label: str, tests: list[list[int]], labels: list[list[int]], positive: list[list[float]], repeats: list[int]
) -> ReportedMethod:
    """A method with one fit per list; ``positive`` are probabilities of the class 1."""
    fits = [
        Fit(repeat, np.array(truth), np.stack([1 - np.array(p), np.array(p)], axis=1), test=np.array(test))
        for test, truth, p, repeat in zip(tests, labels, positive, repeats, strict=True)
    ]
    row = make_row(label, 0.7, n_folds=len(fits))
    return ReportedMethod(replace(row, metrics={**row.metrics, "brier": Interval(0.2, 0.1, 0.3)}), fits)


TWICE = make_method(
    "linear", [[0, 1, 2, 3], [0, 1, 2, 3]], [[0, 0, 1, 1]] * 2, [[0.1, 0.6, 0.3, 0.9], [0.2, 0.4, 0.4, 0.8]], [0, 1]
)


def test_predictions_are_counted_by_subject_over_repeats() -> None:
    found = predict_subjects(TWICE, 5, positive=1)
    assert found.probability[:4] == pytest.approx([0.15, 0.5, 0.35, 0.85]) and np.isnan(found.probability[4])
    assert found.n_tests.tolist() == [2, 2, 2, 2, 0] and found.n_wrong.tolist() == [0, 1, 2, 0, 0]
    assert found.always_wrong.tolist() == [False, False, True, False, False]
    assert predict_subjects(TWICE, 5, positive=0).probability[:4] == pytest.approx([0.85, 0.5, 0.65, 0.15])


def test_the_table_of_predictions_marks_who_is_always_wrong_and_lists_them_first(toy_content: Content) -> None:
    table = predictions_table(toy_content)
    assert table is not None and len(table.rows) == 48
    frame = pd.DataFrame(
        {
            "subject": method.test,
            "wrong": method.probabilities.argmax(axis=1) != method.labels,
            "method": method.label,
        }
        for method in toy_content.methods
        if method.fits and method.label != "constant"
    ).explode(["subject", "wrong"])
    always = frame.groupby(["method", "subject"])["wrong"].all()
    expected = {str(make_data().subjects[subject]) for _, subject in always[always].index}
    marked = [row[0].text for row in table.rows if row[-1].is_marked]
    assert set(marked) == expected and expected
    assert [row[0].text for row in table.rows[: len(marked)]] == marked
    assert "constant: P(case)" not in table.columns and "linear: P(case)" in table.columns


def make_methods(labels: list[str], n_graphs: int = 4) -> Content:
    """Methods that are always wrong about graph 0, of which the class is 0, and right about all others."""
    truth = (np.arange(n_graphs) % 2).tolist()
    positive = [0.9, *(0.1 + 0.8 * label for label in truth[1:])]
    methods = [make_method(label, [list(range(n_graphs))], [truth], [positive], [0]) for label in labels]
    subjects = Subjects([f"s{i}" for i in range(n_graphs)], np.array(truth))
    return replace(make_toy(), methods=methods, subjects=subjects)


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        (["a"], ["a"]),
        (["a", "b"], ["a", "b"]),
        (["a", "b", "c", "d", "e"], ["a", "b", "c", "d"]),
        (["a", "b", "c", "d", "e", "linear"], ["a", "b", "c", "linear"]),
        (["a", "linear"], ["a", "linear"]),
    ],
)
def test_the_best_methods_and_the_reference_are_shown(labels: list[str], shown: list[str]) -> None:
    table = predictions_table(make_methods(labels))
    assert table is not None and [column.split(":")[0] for column in table.columns if ": P(" in column] == shown


def test_subjects_are_counted_beyond_those_that_are_listed() -> None:
    content = make_methods(["a", "linear"], n_graphs=LISTED + 200)
    table = predictions_table(content)
    assert table is not None and len(table.rows) == LISTED
    words = describe_missed(content).split()
    assert words[:3] == ["1", "of", "1200"]
    assert "1 of them by all methods shown" in describe_missed(content)
    assert "all methods" not in describe_missed(make_methods(["a"]))


def test_rates_are_those_of_the_confusion_matrix_and_follow_the_positive_class() -> None:
    content = replace(make_toy(), methods=[TWICE])
    rates = decision_rates(content, TWICE)
    assert [round(rate.mean, 4) for rate in rates.values()] == [0.5, 0.75, 0.6667, 0.6]
    other = decision_rates(replace(content, positive=0), TWICE)
    assert other["sensitivity"] == rates["specificity"]
    assert other["positive predictive value"] == rates["negative predictive value"]
    interval = stats.binomtest(1, 2).proportion_ci(method="wilson")  # 2 of 4 decisions, but two subjects
    assert rates["sensitivity"][1:] == pytest.approx((interval.low, interval.high))


def test_average_precision_is_the_mean_over_folds_and_curves_never_rise_with_recall() -> None:
    from sklearn.metrics import average_precision_score

    content = replace(make_toy(), methods=[TWICE])
    expected = [average_precision_score(fit.labels, fit.probabilities[:, 1]) for fit in TWICE.fits]
    assert average_precision(content, TWICE) == pytest.approx(np.mean(expected))
    for _, precision in _precision_curves(TWICE, 1).values():
        assert (np.diff(precision) <= 1e-12).all()
    perfect = make_method("a", [[0, 1]], [[0, 1]], [[0.2, 0.8]], [0])
    assert _precision_curves(perfect, 1)[0][1] == pytest.approx(1.0)
    flat = make_method("a", [[0, 1, 2, 3]], [[0, 0, 0, 1]], [[0.5] * 4], [0])
    assert _precision_curves(flat, 1)[0][1] == pytest.approx(0.25)


def test_beyond_two_classes_each_has_its_sensitivity() -> None:
    probabilities = np.eye(3)[[0, 1, 1, 2]] * 0.7 + 0.1
    method = ReportedMethod(make_row("linear", 0.7), [Fit(0, np.array([0, 0, 1, 2]), probabilities)])
    content = replace(make_toy(), classes=["a", "b", "c"], methods=[method], positive=2)
    assert [rate.mean for rate in decision_rates(content, method).values()] == [0.5, 1.0, 1.0]
    assert "average precision" not in rates_table(content).columns


def test_a_site_is_scored_by_pairs_that_one_fit_predicted(toy_content: Content) -> None:
    sites = {site.name: site for site in site_scores(toy_content)}
    assert sites.keys() == {"north", "south"}
    is_north = np.arange(48) % 4 < 2
    method = next(method for method in toy_content.methods if method.label == "linear")
    wins = pairs = 0.0
    for fit in method.fits:
        here = is_north[fit.test]
        n_pairs = int((fit.labels[here] == 0).sum() * (fit.labels[here] == 1).sum())
        wins += n_pairs * roc_auc(fit.labels[here], fit.probabilities[here])
        pairs += n_pairs
    area = sites["north"].areas["linear"]
    assert area.mean == pytest.approx(wins / pairs)
    assert 0 <= area.low < area.mean < area.high <= 1
    assert sites["north"].counts == (12, 12)
    single = replace(method, fits=[fit for fit in method.fits if fit.repeat == 0])
    once = {site.name: site for site in site_scores(replace(toy_content, methods=[single]))}["north"]
    assert np.ptp(area[1:]) > 0.7 * np.ptp(once.areas["linear"][1:]), "repeats are no new subjects"


def test_subjects_are_described_by_class_with_the_usual_tests(toy_content: Content) -> None:
    table = subjects_table(toy_content)
    assert table is not None
    rows = {row[0].text: row for row in table.rows}
    assert rows.keys() == {"AGE_AT_SCAN", "sex", "site"}  # nobody asked for shoe sizes
    data = make_data()
    assert data.covariates is not None
    ages = data.covariates["AGE_AT_SCAN"]
    controls, cases = (ages[data.labels == code] for code in (0, 1))
    assert f"{controls.mean():.1f} ± {controls.std():.1f}" in rows["AGE_AT_SCAN"][1].text
    assert rows["AGE_AT_SCAN"][3].value == pytest.approx(stats.kruskal(controls, cases).pvalue)
    assert rows["site"][1].text == "north 12 (50%), south 12 (50%)"
    assert table.columns[1] == "control (n = 24)"


def test_missing_covariates_are_counted(toy_content: Content) -> None:
    assert toy_content.subjects is not None
    frame = toy_content.subjects.covariates.copy()
    frame.loc[[0, 2], "AGE_AT_SCAN"], frame.loc[1, "sex"] = np.nan, ""
    table = subjects_table(replace(toy_content, subjects=replace(toy_content.subjects, covariates=frame)))
    assert table is not None
    rows = {row[0].text: row for row in table.rows}
    assert rows["AGE_AT_SCAN"][1].text.endswith("2 missing") and "missing" not in rows["AGE_AT_SCAN"][2].text
    assert rows["sex"][2].text.endswith("1 missing")


@pytest.mark.parametrize(
    ("scores", "words", "is_poor"),
    [((0.45, 0.55), "too cautious", True), ((0.01, 0.99), "agrees", False), ((0.05, 0.95), "agrees", False)],
)
def test_calibration_is_commented(scores: tuple[float, float], words: str, is_poor: bool) -> None:
    labels = np.arange(60) % 2
    positive = np.where(labels == 1, scores[1], scores[0])
    method = make_method("linear", [list(range(60))], [labels.tolist()], [positive.tolist()], [0])
    brier = float(np.mean((positive - labels) ** 2))
    metrics = {"roc_auc": Interval(1.0, 0.9, 1.0), "brier": Interval(brier, brier, brier)}
    said = describe_calibration(replace(method, row=replace(method.row, metrics=metrics)))
    assert said is not None and words in said.text and said.is_poor == is_poor
    assert f"{brier:.3f}" in said.text and "0.250" in said.text
    assert ("ranks subjects well" in said.text) == is_poor
    by_chance = describe_calibration(replace(method, row=replace(method.row, metrics=metrics, p_chance=0.06)))
    assert by_chance is not None and "ranks subjects well" not in by_chance.text


def test_calibration_says_when_a_method_is_too_sure() -> None:
    labels = np.arange(60) % 2
    positive = np.where(np.arange(60) % 3 == 0, 1 - labels, labels) * 0.98 + 0.01
    method = make_method("linear", [list(range(60))], [labels.tolist()], [positive.tolist()], [0])
    said = describe_calibration(method)
    assert said is not None and "too sure" in said.text and "99%" in said.text and "67%" in said.text


def test_key_figures_give_the_best_area_the_difference_to_linear_and_the_number_of_graphs(toy_content: Content) -> None:
    figures = {figure.name: figure for figure in answer.key_figures(toy_content)}
    best = toy_content.methods[0].row
    shown = figures[f"ROC AUC of {best.method}"]
    assert (
        shown.value == f"{best.metrics['roc_auc'].mean:.2f}" and f"{best.metrics['roc_auc'].low:.2f}" in shown.details
    )
    pair = next(p for p in toy_content.table.comparisons if {p.first, p.second} == {"isocapsnet", "linear"})
    sign = 1 if pair.first == "isocapsnet" else -1
    difference = figures["isocapsnet minus linear"].value.replace("−", "-")
    assert float(difference) == pytest.approx(sign * pair.difference.mean, abs=0.006)
    assert figures["labelled graphs"].value == "48"
    assert "isocapsnet, linear" in answer.compared(toy_content).replace("linear, isocapsnet", "isocapsnet, linear")


def test_a_best_method_that_covariates_explain_is_called_into_question() -> None:
    control = replace(make_row("confound-only", 0.68), covariates=("age", "sex"))
    content = make_toy(replace(make_row("linear", 0.7), not_better_than=("confound-only",)), control)
    assert "age and sex alone" in answer.caution(content)
    assert answer.caution(make_toy(make_row("linear", 0.7), control)) == ""
    assert {figure.name for figure in answer.key_figures(content)} >= {"ROC AUC without graphs"}
    assert any("age and sex" in sentence for sentence in answer.against_controls(content))


def test_title_and_positive_class_reach_the_page(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "results", methods={"linear": 1.0}, repeats=1, with_audit=False)
    page = tmp_path / "page.html"
    options = ["--title", "A <b>title", "--positive-class", "control"]
    result = CliRunner().invoke(main, ["report", str(folder), "--out", str(page), *options])
    assert result.exit_code == 0, result.output
    text = page.read_text()
    assert "<h1>A &lt;b&gt;title</h1>" in text and "<title>A &lt;b&gt;title" in text
    assert "control is the positive class" in text and "linear: P(control)" in text
    assert "true positive rate (control)" in text


def test_a_positive_class_that_is_none_is_refused_with_the_names(toy_folder: Path) -> None:
    with pytest.raises(InputError, match="control, case"):
        make_content(open_results(toy_folder), positive_class="patient")
    result = CliRunner().invoke(main, ["report", str(toy_folder), "--positive-class", "patient"])
    assert result.exit_code == 2 and "control, case" in result.output


def test_exclusions_are_one_count_and_prepared_matrices_are_called_so(toy_content: Content) -> None:
    network = next(method for method in toy_content.methods if method.explanation is not None)
    lines = [("excluded", "12 subjects: motion"), ("name", "toy")]
    drawn = network_alone(toy_content, with_reconstructions=True)
    page = render(
        replace(toy_content, coordinates=None, methods=[drawn], passport_lines=lines, preparation=["tangent"])
    )
    assert "Excluded: 12 subjects: motion." in page
    assert "prepared matrices (tangent)" in page and "tangent space" in page
    assert prose.prepared_text(toy_content) == ""
    fit = replace(network.fits[0], settings={"transform": "fisher-z"})
    chosen = replace(toy_content, methods=[replace(network, fits=[fit])])
    assert "fisher-z" in prose.prepared_text(chosen) and "tangent" not in prose.prepared_text(chosen)


def test_reconstructions_of_an_average_graph_are_folded(toy_content: Content) -> None:
    network = next(method for method in toy_content.methods if method.explanation is not None)
    assert network.explanation is not None and network.explanation.reconstructions is not None
    graphs = network.explanation.reconstructions
    average = replace(graphs, outputs=np.repeat(graphs.inputs.mean(axis=0, keepdims=True), len(graphs.inputs), axis=0))
    failed = replace(network, explanation=replace(network.explanation, reconstructions=average))
    assert prose.failed_reconstructions(toy_content) == ""
    content = replace(toy_content, methods=[failed])
    assert "failed" in prose.failed_reconstructions(content)
    page = render(replace(content, coordinates=None, methods=[replace(failed, fits=())]))
    assert "<summary>Show the reconstructions</summary>" in page
