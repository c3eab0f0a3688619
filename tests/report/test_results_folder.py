"""A report of whatever is in a folder, with a note for what is not, or one clear sentence."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from isocapsnet._files import DamagedError
from isocapsnet.cli import main
from isocapsnet.cli._explanations import collect_reconstructions
from isocapsnet.cli._results_folder import find_sweep, read_results
from isocapsnet.evaluation import Store
from isocapsnet.evaluation.artifacts import read_templates
from isocapsnet.report.content import Content, Fit, Method
from isocapsnet.report.gallery import sweep
from isocapsnet.report.page import render
from isocapsnet.report.tables import regions_table
from tests.report.toys import STRENGTHS, make_data, make_explanation, make_folder, make_job, make_record

NOTHING = {"mean": None, "low": None, "high": None}


@pytest.fixture
def folder(toy_folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(toy_folder, tmp_path / "results"))


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A run of one method that has nothing to explain."""
    return make_folder(tmp_path / "small", methods={"linear": 1.0}, repeats=1, with_audit=False, with_failure=False)


def network_of(content: Content) -> Method:
    return next(method for method in content.methods if method.name == "isocapsnet")


# -- a whole folder -----------------------------------------------------------------------------------------------


def test_everything_in_the_folder_is_read_without_a_note(toy_content: Content) -> None:
    assert toy_content.notes == []
    assert toy_content.classes == ["control", "case"]
    assert [method.label for method in toy_content.methods] == ["linear", "isocapsnet", "constant", "gcn"]
    network = toy_content.methods[1]
    assert len(network.fits) == len(network.histories) == 6 and network.n_repeats == 2
    assert network.fits[0].templates is not None and network.fits[0].templates.shape == (2, 4, 4)
    assert [card["verdict"] for card in network.cards] == ["stable", "not stable"]
    assert network.chosen == [("learning_rate = 0.001", 4), ("the defaults", 2)]
    assert (toy_content.n_jobs, toy_content.n_failed) == (37, 1)


def test_predictions_of_all_folds_stand_in_one_order(toy_content: Content) -> None:
    method = toy_content.methods[0]
    assert len(method.labels) == len(method.probabilities) == len(method.fit_of) == 96
    assert np.bincount(method.fit_of).tolist() == [16] * 6


def test_reconstructions_name_each_subject_once_with_its_class(toy_content: Content) -> None:
    found = toy_content.methods[1].reconstructions
    data = make_data()
    assert found is not None
    assert len(set(found.subjects)) == len(found.subjects) == 18
    positions = [data.subjects.tolist().index(subject) for subject in found.subjects]
    assert found.labels.tolist() == data.labels[positions].tolist()
    assert data.adjacency is not None
    assert np.array_equal(found.inputs, data.adjacency[positions])
    assert found.n_available == 48


def test_reconstructions_of_a_fit_that_left_graphs_out_are_of_the_right_subjects() -> None:
    data = make_data()
    explanation = make_explanation(data, make_job(data, "isocapsnet", 0, 0))
    # The first two test graphs had a class that the network does not know.
    kept = replace(explanation, positions=explanation.positions + 2)
    found = collect_reconstructions("m", [kept], [list(range(100, 120))], [f"s{index}" for index in range(120)])
    assert found is not None
    assert list(found.subjects) == [f"s{102 + place}" for place in explanation.examples]
    assert found.labels.tolist() == explanation.codes[explanation.examples].tolist()


def test_command_writes_the_page_beside_the_results_and_the_figures_where_asked(small: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["report", str(small), "--figures", str(tmp_path / "figures")])
    assert result.exit_code == 0, result.output
    assert f"Report: {small / 'report.html'}" in result.output
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"comparison-roc-auc.png", "comparison-roc-auc.svg", "linear-roc.png"} <= names
    assert f"Figures: {len(names)} files in" in result.output


def test_sweep_is_found_among_methods_that_differ_in_one_parameter(tmp_path: Path) -> None:
    data, store = make_data(), Store(tmp_path)
    for size, strength in ((5, 1.5), (2, 0.5), (3, 1.0)):
        for fold in range(3):
            job = make_job(data, "isocapsnet", 0, fold, parameters={"kernel_size": size, "max_epochs": 5})
            store.save(job, make_record(data, job, strength, seconds=float(size)))
    content = read_results(tmp_path)
    assert content.sweep is not None
    assert (content.sweep.parameter, list(content.sweep.values)) == ("kernel_size", [2, 3, 5])
    assert content.sweep.seconds == pytest.approx([2.1, 3.1, 5.1])
    assert content.sweep.metrics["roc_auc"].shape == (3, 3)
    assert content.sweep.constant_accuracy == pytest.approx(0.5)
    drawn = sweep(content)
    assert drawn is not None and drawn.alt.startswith("Mean ROC AUC by kernel_size: 2: ")
    assert "the most frequent class has an accuracy of 0.500" in drawn.caption


def test_constant_accuracy_of_a_sweep_is_that_of_the_most_frequent_class_over_folds() -> None:
    folds = [np.array([1, 1, 1, 0]), np.array([1, 0])]
    metrics = dict.fromkeys(("roc_auc", "accuracy", "weighted_f1"), NOTHING)
    row = {"method": "m", "seconds": 1.0, "metrics": metrics, "folds": [{"weight": 1}, {"weight": 3}]}
    fits = [Fit(0, fold, labels, np.ones((len(labels), 2)) / 2) for fold, labels in enumerate(folds)]
    found = find_sweep([Method(row, "m", {"size": size}, fits=fits) for size in (1, 2, 3)])
    assert found is not None and found.constant_accuracy == pytest.approx((0.75 + 3 * 0.5) / 4)


# -- a broken or partial one --------------------------------------------------------------------------------------


def test_run_that_has_not_ended_gives_a_report_and_a_note(tmp_path: Path) -> None:
    make_folder(tmp_path / "results", repeats=1, with_results=False)
    content = read_results(tmp_path / "results")
    assert any("results.json is missing" in note for note in content.notes)
    assert content.name == "toy study"
    assert content.results["protocol"]["repeats"] == 1


@pytest.mark.parametrize("damage", ["{", "[]", '{"passport": 3}'])
def test_damaged_results_json_is_noted_and_the_records_speak(folder: Path, damage: str) -> None:
    (folder / "results.json").write_text(damage)
    content = read_results(folder)
    assert any("results.json is damaged" in note for note in content.notes)
    assert len(content.methods) == 4


def test_damaged_records_and_errors_are_passed_over_and_named(folder: Path) -> None:
    """The store reads them; what it refuses is tested with the store."""
    first, second = sorted(folder.glob("records/??/*"))[:2]
    [error] = folder.glob("errors/??/*")
    first.write_bytes(first.read_bytes()[:100])
    record = json.loads(second.read_text())
    del record["probabilities"]
    second.write_text(json.dumps(record))
    error.write_text("{}")
    content = read_results(folder)
    assert content.n_jobs == 34
    for path in (first, second, error):
        assert any(path.name in note and "passed over" in note for note in content.notes)
    assert not (folder / "rejected").exists()
    assert first.exists() and second.exists() and error.exists()


def test_a_method_of_which_only_audits_are_left_is_a_report_too(folder: Path) -> None:
    for path in folder.glob("records/??/*"):
        job = json.loads(path.read_text())["job"]
        if job["method"] == "linear" and job["audit"] is None:
            path.write_text("")
    content = read_results(folder)
    [linear] = [method for method in content.methods if method.label == "linear"]
    assert (linear.fits, linear.row["verdict"]) == ([], "no test fold is finished")
    assert "linear" in render(content)


def test_missing_and_damaged_artifacts_are_left_out(folder: Path) -> None:
    first, second, third = sorted(folder.glob("artifacts/*"))[:3]
    shutil.rmtree(first)
    whole = (second / "templates.npz").read_bytes()
    (second / "history.json").write_text("[")
    (third / "explanation.npz").write_bytes(b"PK not a zip either")
    for damage in (b"", b"PK not a zip", whole[: len(whole) // 2], whole[:-30] + bytes(30)):
        (second / "templates.npz").write_bytes(damage)
        with pytest.raises(DamagedError):
            read_templates(second)
    content = read_results(folder)
    assert any("templates" in note and second.name in note for note in content.notes)
    assert any("history" in note and second.name in note for note in content.notes)
    assert any("explanation.npz is damaged" in note for note in content.notes)
    network = network_of(content)
    assert len(network.histories) == 4
    assert network.attribution is not None and network.attribution.n_fits == 4


def test_explanations_of_another_version_are_noted(folder: Path) -> None:
    path = sorted(folder.glob("artifacts/*/explanation.npz"))[0]
    np.savez(path, something=np.zeros(3))
    assert any("another version" in note for note in read_results(folder).notes)


def test_run_without_explanations_says_so_and_shows_the_templates(folder: Path) -> None:
    for path in folder.glob("artifacts/*/explanation.npz"):
        path.unlink()
    content = read_results(folder)
    assert any("no explanation of isocapsnet, so there is no evidence card" in note for note in content.notes)
    page = render(replace(content, methods=[network_of(content)]))
    assert "Learned templates of the first fold" in page and 'id="evidence"' not in page


def test_missing_copy_of_the_data_leaves_numbers_for_names(folder: Path) -> None:
    shutil.rmtree(folder / "data")
    content = read_results(folder)
    assert any("no copy of the data" in note for note in content.notes)
    assert content.node_name(3) == "node 4"
    (folder / "results.json").unlink()
    assert read_results(folder).n_nodes == 90
    found = network_of(content).reconstructions
    assert found is not None and found.subjects[0].startswith("subject ")
    assert regions_table(content, network_of(content).cards[0], "card").rows[0][0].text == "node 21"


def test_changed_copy_of_the_data_is_not_used(folder: Path) -> None:
    (path,) = (folder / "data").glob("*.npz")
    path.write_bytes(path.read_bytes()[:5000])
    assert any("copy of the data cannot be used" in note for note in read_results(folder).notes)


def test_data_without_coordinates_give_a_report_with_a_note(tmp_path: Path) -> None:
    data = make_data(with_atlas=False)
    folder = make_folder(tmp_path / "r", data=data, methods={"isocapsnet": 1.0}, repeats=1, with_audit=False)
    content = read_results(folder)
    assert any("no coordinates" in note for note in content.notes)
    page = render(content)
    assert 'id="connectome-viewer"' not in page and "node 21" in page


def test_copy_of_the_data_is_found_among_several_with_and_without_results_json(folder: Path) -> None:
    other = make_data(n_graphs=60, with_atlas=False, name="other")
    other.save(folder / "data" / "0000000000000000.npz")
    assert read_results(folder).node_name(0) == "PreCG.L"
    (folder / "results.json").unlink()
    assert read_results(folder).node_name(0) == "PreCG.L"


def test_folder_of_two_studies_is_about_the_one_of_results_json(folder: Path) -> None:
    other = make_data(n_graphs=60, name="other")
    store = Store(folder)
    for fold in range(3):
        for repeat in range(30):
            job = make_job(other, "linear", repeat, fold)
            store.save(job, make_record(other, job, STRENGTHS["linear"]))
    content = read_results(folder)
    assert any("holds 2 studies" in note for note in content.notes)
    assert len(content.methods) == 4


def test_failed_rows_have_their_own_parameters(tmp_path: Path) -> None:
    data, store = make_data(), Store(tmp_path)
    for parameters in ({}, {"kernel_size": 9}):
        store.save_error(make_job(data, "isonn", 0, 0, parameters=parameters), {"reason": "no", "traceback": ""})
    assert {m.label: m.parameters for m in read_results(tmp_path).methods} == {
        "isonn": {},
        "isonn[kernel_size=9]": {"kernel_size": 9},
    }


def test_only_failures_are_a_report_too(tmp_path: Path) -> None:
    data, store = make_data(), Store(tmp_path)
    store.save_error(make_job(data, "gcn", 0, 0), {"reason": "RuntimeError: no", "traceback": ""})
    page = render(read_results(tmp_path))
    assert "RuntimeError: no" in page and "There is no answer" in page


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.mkdir(), "There are no results in"),
        (lambda path: None, "There is no folder"),
    ],
)
def test_what_is_no_results_folder_is_refused_in_one_sentence(tmp_path: Path, make: object, words: str) -> None:
    make(tmp_path / "nothing")  # type: ignore[operator]
    result = CliRunner().invoke(main, ["report", str(tmp_path / "nothing")])
    assert result.exit_code == 2
    assert words in result.output and "Traceback" not in result.output


def test_unwritable_target_is_one_sentence(small: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(main, ["report", str(small), "--out", str(tmp_path / "file" / "report.html")])
    assert result.exit_code == 2
    assert "cannot be written" in result.output
