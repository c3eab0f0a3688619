"""A report of whatever is in a folder, with a note for what is not, or one clear sentence."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from isocapsnet._files import DamagedError
from isocapsnet._reporting import read_content
from isocapsnet.cli import main
from isocapsnet.evaluation import Store, tabulate
from isocapsnet.evaluation.artifacts import read_templates
from isocapsnet.evaluation.output import write_results
from isocapsnet.explanation.summary import summarize
from isocapsnet.report.answer import answer
from isocapsnet.report.content import Content, ReportedMethod
from isocapsnet.report.evidence_tables import regions_table
from isocapsnet.report.figures import FIGURES
from isocapsnet.report.figures.comparison import sweep
from isocapsnet.report.page import render
from tests.report.toys import (
    MANY_CANDIDATES,
    STRENGTHS,
    make_data,
    make_explanation,
    make_folder,
    make_job,
    make_record,
)


@pytest.fixture
def folder(toy_folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(toy_folder, tmp_path / "results"))


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A run of one method that has nothing to explain."""
    return make_folder(tmp_path / "small", methods={"linear": 1.0}, repeats=1, with_audit=False, with_failure=False)


def network_of(content: Content) -> ReportedMethod:
    return next(method for method in content.methods if method.row.name == "isocapsnet")


# -- a whole folder -----------------------------------------------------------------------------------------------


def test_everything_in_the_folder_is_read_without_a_note(toy_content: Content) -> None:
    assert toy_content.notes == []
    assert toy_content.classes == ["control", "case"]
    assert [method.label for method in toy_content.methods] == ["linear", "isocapsnet", "constant", "gcn"]
    network = toy_content.methods[1]
    assert len(network.fits) == len(network.histories) == 6 and network.n_repeats == 2
    assert network.fits[0].templates is not None and network.fits[0].templates.shape == (2, 4, 4)
    assert [card.verdict for card in network.cards] == ["stable", "not stable"]
    assert network.selected == [("learning_rate = 0.001", 4), ("the defaults", 2)]
    assert (toy_content.n_jobs, toy_content.n_failed) == (43, 1)


def test_predictions_of_all_folds_stand_in_one_order(toy_content: Content) -> None:
    method = toy_content.methods[0]
    assert len(method.labels) == len(method.probabilities) == len(method.fit_of) == 96
    assert np.bincount(method.fit_of).tolist() == [16] * 6


def test_reconstructions_name_each_subject_once_with_its_class(toy_content: Content) -> None:
    found = network_of(toy_content).explanation.reconstructions
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
    found = summarize([kept], [list(range(100, 120))], subjects=[f"s{i}" for i in range(120)]).reconstructions
    assert found is not None
    assert list(found.subjects) == [f"s{102 + index}" for index in explanation.examples]
    assert found.labels.tolist() == explanation.codes[explanation.examples].tolist()


def test_command_writes_the_page_beside_the_results_and_the_figures_where_asked(small: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["report", str(small), "--figures", str(tmp_path / "figures")])
    assert result.exit_code == 0, result.output
    assert f"Report: {small / 'report.html'}" in result.output
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"comparison-roc-auc.png", "comparison-roc-auc.svg", "linear-roc.png"} <= names
    assert f"Figures: {len(names)} files in" in result.output


def make_sweep(folder: Path, *, with_context: bool) -> Path:
    """Results of a sweep over kernel sizes, beside a method that is not part of it."""
    data, store = make_data(), Store(folder)
    for size, strength in ((5, 1.5), (2, 0.5), (3, 1.0)):
        for fold in range(3):
            job = make_job(data, "isocapsnet", 0, fold, parameters={"kernel_size": size, "max_epochs": 5})
            store.save(job, make_record(data, job, strength, seconds=float(size)))
            other = make_job(data, "isocapsnet", 0, fold, parameters={"kernel_size": size})
            store.save(other, make_record(data, other, 0.1))
    context = {"passport": {"name": "toy", "digest": data.digest()}, "protocol": MANY_CANDIDATES, "preparation": []}
    if with_context:
        labels = {f"isocapsnet[kernel_size={size},max_epochs=5]": size for size in (2, 3, 5, 7)}
        context["sweep"] = {"method": "isocapsnet", "parameter": "kernel_size", "methods": labels}
    write_results(folder, tabulate(store.records()), context)
    return folder


def test_sweep_is_the_one_of_the_run(tmp_path: Path) -> None:
    content = read_content(make_sweep(tmp_path, with_context=True))
    assert content.sweep is not None
    assert (content.sweep.parameter, list(content.sweep.values)) == ("kernel_size", [2, 3, 5]), "7 did not finish"
    assert [method.row.seconds for method in content.sweep.methods] == pytest.approx([2.1, 3.1, 5.1])
    (drawing,) = sweep(content)
    assert drawing.name == "sweep-kernel-size" and drawing.alt.startswith("Mean ROC AUC by kernel_size: 2: ")
    assert "0.500" in drawing.caption, "accuracy of the most frequent class"


def test_methods_that_differ_in_one_parameter_are_no_sweep_unless_the_run_was_one(tmp_path: Path) -> None:
    content = read_content(make_sweep(tmp_path, with_context=False))
    assert content.sweep is None and list(sweep(content)) == []


# -- sites --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site_content(tmp_path_factory: pytest.TempPathFactory) -> Content:
    """Leave-site-out on a site of 36 and one of 12 subjects: perfect on the large one, reversed on the small one."""
    data, store = make_data(), Store(tmp_path_factory.mktemp("sites"))
    protocol = {"name": "leave-site-out", "n_folds": 3, "inner_folds": 3, "n_candidates": 8}
    sites = np.where(np.arange(48) < 36, "large", "small")
    for size in (2, 3):
        for fold, site in enumerate(("large", "small")):
            job = make_job(data, "linear", 0, fold, protocol=protocol, parameters={"C": size}, space={})
            test = np.flatnonzero(sites == site)
            labels = data.labels[test]
            positive = np.where(labels == (1 - fold), 0.9, 0.1)
            positive[:2] = positive[:2][::-1]
            tested = {"tested": [site], "too_small": [], "n_subjects": len(test)}
            record = make_record(data, job, 1.0) | {"n_train": 48 - len(test), "sites": tested}
            record |= {"test": test.tolist(), "labels": labels.tolist(), "split": site}
            store.save(job, record | {"probabilities": np.stack([1 - positive, positive], axis=1).tolist()})
    context = {"passport": {"name": "toy", "digest": data.digest()}, "protocol": protocol, "preparation": []}
    swept = {"linear[C=2]": 2, "linear[C=3]": 3}
    context["sweep"] = {"method": "linear", "parameter": "C", "methods": swept}
    write_results(store.folder, tabulate(store.records()), context)
    return read_content(store.folder)


def test_figures_and_text_of_unequal_sites_have_the_weighted_mean_of_the_table(site_content: Content) -> None:
    method = site_content.methods[0]
    area, correct = method.row.metrics["roc_auc"].mean, method.row.metrics["accuracy"].mean
    plain = np.mean([fold["roc_auc"] for fold in method.row.scores.values()])
    assert abs(area - plain) > 0.15, "the plain mean is visibly different"
    assert area == pytest.approx(np.average([f["roc_auc"] for f in method.row.scores.values()], weights=[36, 12]))

    def artists(name: str, gid: str) -> list[Any]:
        return FIGURES[name](site_content).findobj(lambda artist: artist.get_gid() == gid)

    assert artists("comparison", "mean-0")[0].get_xdata()[0] == pytest.approx(area)
    assert artists("accuracy", "mean-0")[0].get_xdata()[0] == pytest.approx(correct)
    assert list(artists("folds", "mean-0")[0].get_xdata()) == pytest.approx([area, area])
    assert FIGURES["roc"](site_content).axes[0].get_title(loc="left") == f"ROC, mean AUC {area:.3f}"
    (curve,) = artists("roc", "mean")
    assert np.trapezoid(curve.get_ydata(), curve.get_xdata()) == pytest.approx(area, abs=0.02)
    lines = {line.get_label(): line.get_ydata() for line in FIGURES["sweep"](site_content).axes[0].lines}
    assert lines["ROC AUC"][0] == pytest.approx(area)
    confusion = FIGURES["confusion"](site_content).axes[0].texts
    counts = [float(text.get_text().split("\n")[0]) for text in confusion]
    assert (counts[0] + counts[3]) / sum(counts) == pytest.approx(correct), "pooled predictions agree with the weights"
    words = " ".join(answer(site_content))
    assert f"{area:.3f}" in words and f"{plain:.3f}" not in words and "weighted by its number of subjects" in words


# -- a broken or partial one --------------------------------------------------------------------------------------


def test_run_that_has_not_ended_gives_a_report_and_a_note(tmp_path: Path) -> None:
    make_folder(tmp_path / "results", repeats=1, with_results=False)
    content = read_content(tmp_path / "results")
    assert any("results.json is missing" in note for note in content.notes)
    assert content.name == "toy study"
    assert content.protocol["repeats"] == 1


@pytest.mark.parametrize("damage", ["{", "[]", '{"passport": 3}'])
def test_damaged_results_json_is_noted_and_the_records_speak(folder: Path, damage: str) -> None:
    (folder / "results.json").write_text(damage)
    content = read_content(folder)
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
    content = read_content(folder)
    assert content.n_jobs == 40
    for path in (first, second, error):
        assert any(path.name in note and "skipped" in note for note in content.notes)
    assert not (folder / "rejected").exists()
    assert first.exists() and second.exists() and error.exists()


def test_a_method_of_which_only_audits_are_left_is_a_report_too(folder: Path) -> None:
    for path in folder.glob("records/??/*"):
        job = json.loads(path.read_text())["job"]
        if job["method"] == "linear" and job["audit"] is None:
            path.write_text("")
    content = read_content(folder)
    [linear] = [method for method in content.methods if method.label == "linear"]
    assert (linear.fits, linear.row.verdict) == ([], "no test fold is finished")
    assert "linear" in render(replace(content, methods=[m for m in content.methods if m.explanation is None]))


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
    content = read_content(folder)
    assert any("templates" in note and second.name in note for note in content.notes)
    assert any("history" in note and second.name in note for note in content.notes)
    assert any("explanation.npz is damaged" in note for note in content.notes)
    network = network_of(content)
    assert len(network.histories) == 4
    assert network.explanation is not None and network.explanation.n_fits == 4


def test_explanations_of_another_version_are_noted(folder: Path) -> None:
    path = sorted(folder.glob("artifacts/*/explanation.npz"))[0]
    np.savez(path, something=np.zeros(3))
    assert any("another version" in note for note in read_content(folder).notes)


def test_run_without_explanations_says_so_and_shows_the_templates(folder: Path) -> None:
    for path in folder.glob("artifacts/*/explanation.npz"):
        path.unlink()
    content = read_content(folder)
    assert any("no explanation of isocapsnet" in note for note in content.notes)
    page = render(replace(content, methods=[network_of(content)]))
    assert "Learned templates of the first fold" in page and 'id="evidence"' not in page


def test_missing_copy_of_the_data_leaves_numbers_for_names(folder: Path) -> None:
    shutil.rmtree(folder / "data")
    content = read_content(folder)
    assert any("no copy of the data" in note for note in content.notes)
    assert content.node_name(3) == "node 4"
    (folder / "results.json").unlink()
    assert read_content(folder).n_nodes == 90
    found = network_of(content).explanation.reconstructions
    assert found is not None and found.subjects[0].startswith("subject ")
    assert regions_table(content, network_of(content).cards[0], "card").rows[0][0].text == "node 21"


def test_changed_copy_of_the_data_is_not_used(folder: Path) -> None:
    (path,) = (folder / "data").glob("*.npz")
    path.write_bytes(path.read_bytes()[:5000])
    assert any(path.name in note for note in read_content(folder).notes)


def test_data_without_coordinates_give_a_report_with_a_note(tmp_path: Path) -> None:
    data = make_data(with_atlas=False)
    folder = make_folder(tmp_path / "r", data=data, methods={"isocapsnet": 1.0}, repeats=1, with_audit=False)
    content = read_content(folder)
    assert any("no coordinates" in note for note in content.notes)
    page = render(content)
    assert 'id="connectome-viewer"' not in page and "node 21" in page


def test_copy_of_the_data_is_found_among_several_with_and_without_results_json(folder: Path) -> None:
    other = make_data(n_graphs=60, with_atlas=False, name="other")
    other.save(folder / "data" / "0000000000000000.npz")
    assert read_content(folder).node_name(0) == "PreCG.L"
    (folder / "results.json").unlink()
    assert read_content(folder).node_name(0) == "PreCG.L"


def test_folder_of_two_studies_is_about_the_one_of_results_json(folder: Path) -> None:
    other = make_data(n_graphs=60, name="other")
    store = Store(folder)
    for fold in range(3):
        for repeat in range(30):
            job = make_job(other, "linear", repeat, fold)
            store.save(job, make_record(other, job, STRENGTHS["linear"]))
    content = read_content(folder)
    assert any("holds 2 groups" in note for note in content.notes)
    assert len(content.methods) == 4


def test_failed_rows_have_their_own_parameters(tmp_path: Path) -> None:
    data, store = make_data(), Store(tmp_path)
    for parameters in ({}, {"kernel_size": 9}):
        store.save_error(make_job(data, "isonn", 0, 0, parameters=parameters), {"reason": "no", "traceback": ""})
    assert {m.label: m.row.parameters for m in read_content(tmp_path).methods} == {
        "isonn": {},
        "isonn[kernel_size=9]": {"kernel_size": 9},
    }


def test_only_failures_are_a_report_too(tmp_path: Path) -> None:
    data, store = make_data(), Store(tmp_path)
    store.save_error(make_job(data, "gcn", 0, 0), {"reason": "RuntimeError: no", "traceback": ""})
    page = render(read_content(tmp_path))
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
