"""Explanations beside benchmark records: complete, readable, and never in the record's way."""

from dataclasses import fields, replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isocapsnet import MODELS, InputError, make_planted_graphs
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.evaluation.jobs import Task, run_job
from isocapsnet.evaluation.plan import MethodSpec, Plan
from isocapsnet.evaluation.samples import DataSource
from isocapsnet.explanation.contrasts import separation
from isocapsnet.explanation.fits import FitExplanation, Templates, explain_fit, region_coverage
from isocapsnet.explanation.storage import (
    AXES,
    OPTIONAL_AXES,
    TEMPLATE_AXES,
    read_explanation,
    save_explanation,
    write_explanation,
)
from tests.explanation.conftest import Study as Fits

HOOK = "isocapsnet.explanation:write_explanation"


def test_what_is_written_is_read_back(study: Fits, tmp_path: Path) -> None:
    test = study.tests[0]
    write_explanation(study.models[0], study.planted.graphs[test], study.labels[test], tmp_path)
    loaded, expected = read_explanation(tmp_path), study.explanations[0]
    for kind, first, second in (
        (FitExplanation, loaded, expected),
        (Templates, loaded.templates, expected.templates),
    ):
        for field in fields(kind):
            if field.name != "templates":
                assert np.array_equal(getattr(first, field.name), getattr(second, field.name)), field.name


def test_the_documented_arrays_are_in_the_file_with_the_documented_shapes(study: Fits, tmp_path: Path) -> None:
    with np.load(save_explanation(study.explanations[0], tmp_path), allow_pickle=False) as file:
        shapes = {name: file[name].shape for name in file}
    n, c, k, windows, nodes = 40, 2, 4, 13, 16
    documented = {
        "classes": (2,), "positions": (n,), "codes": (n,), "edges": (nodes, nodes), "randomization": (),
        "representation": (n, 32), "examples": (12,), "example_graphs": (12, nodes, nodes),
        "example_reconstructions": (12, nodes, nodes), "templates": (c, k, k), "stride": (),
        "template_evidence": (n, 1, c), "region_evidence": (n, 1, c, nodes), "unattributed": (n, 1),
        "window_separation": (c, windows, windows), "window_effect": (c, windows, windows),
        "window_influence": (c, windows, windows), "class_scores": (2, c, windows, windows),
        "orientation": (2, c, windows, windows), "orientation_share": (2, c, windows, windows),
    }  # fmt: skip
    assert shapes == documented
    assert documented.keys() == (AXES | OPTIONAL_AXES | TEMPLATE_AXES).keys()


def test_a_file_of_an_earlier_version_with_more_arrays_is_read(study: Fits, tmp_path: Path) -> None:
    path = save_explanation(study.explanations[0], tmp_path)
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path, **arrays, class_evidence=arrays["class_scores"])
    assert np.array_equal(read_explanation(tmp_path).edges, study.explanations[0].edges)


def test_maps_are_what_they_are_called(study: Fits) -> None:
    explanation, model, test = study.explanations[0], study.models[0], study.tests[0]
    found, codes = explanation.templates, explanation.codes
    assert found is not None
    match = model.match(study.planted.graphs[test])
    assert np.allclose(found.class_scores[1], match.scores[codes == 1].mean(axis=0), atol=1e-5)
    assert np.allclose(
        found.window_separation.sum(axis=(1, 2)), separation(found.template_evidence, codes, 2), atol=1e-4
    )
    assert np.allclose(explanation.representation, model.transform(study.planted.graphs[test]))
    graphs = study.planted.graphs[test][explanation.examples]
    assert np.array_equal(explanation.example_graphs, graphs)
    assert np.allclose(explanation.example_reconstructions, model.reconstruct(graphs))


def test_the_named_orientation_turns_the_template_onto_the_window(study: Fits) -> None:
    found, model, graphs = study.explanations[0].templates, study.models[0], study.planted.graphs[study.tests[0]]
    assert found is not None
    match, patients = model.match(graphs), study.explanations[0].codes == 1
    place = np.unravel_index(found.orientation_share[1].argmax(), found.orientation_share[1].shape)
    template, s, t = (int(index) for index in place)
    most = found.orientation[1, template, s, t]
    there = patients & (match.permutations[:, template, s, t] == most)
    assert there.sum() / patients.sum() == pytest.approx(found.orientation_share[1, template, s, t])
    order = np.array(list(permutations(range(4))))[most]
    turned = found.matrices[template][np.ix_(order, order)]
    windows = model.scaler_.transform(graphs[there])[:, s : s + 4, t : t + 4]
    distances = np.linalg.norm((windows - turned).reshape(len(windows), -1), axis=1)
    assert np.allclose(1 - distances, match.scores[there, template, s, t], atol=1e-4)


def test_regions_get_the_mean_of_the_windows_over_them() -> None:
    coverage = region_coverage(n_windows=3, n_nodes=6, kernel_size=2, stride=2)
    assert coverage.tolist() == [[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1]]
    overlapping = region_coverage(n_windows=3, n_nodes=5, kernel_size=2, stride=1)
    assert overlapping[:, 1].tolist() == [0.5, 0.5, 0]
    assert overlapping[:, 4].tolist() == [0, 0, 0], "no window reaches the last node"


def test_labels_that_the_network_does_not_know_are_left_out(study: Fits) -> None:
    test = study.tests[0]
    labels = study.labels[test].copy()
    labels[:3] = 7
    found = explain_fit(study.models[0], study.planted.graphs[test], labels)
    assert found.positions.tolist() == list(range(3, len(test)))
    assert len(found.codes) == len(test) - 3
    with pytest.raises(InputError, match=r"classes of the model \(0, 1\)"):
        explain_fit(study.models[0], study.planted.graphs[test], labels + 7)
    with pytest.raises(InputError, match="40 graphs but 2 labels"):
        explain_fit(study.models[0], study.planted.graphs[test], labels[:2])


def test_a_fold_with_one_class_is_explained_without_comparing(study: Fits) -> None:
    test = study.tests[0][study.labels[study.tests[0]] == 1]
    found = explain_fit(study.models[0], study.planted.graphs[test], study.labels[test])
    assert found.templates is not None
    assert not found.templates.window_separation.any()
    assert np.isnan(found.templates.class_scores[0]).all()
    assert (found.templates.orientation[0] == -1).all()


def test_a_method_that_is_no_network_writes_nothing(tmp_path: Path) -> None:
    planted = make_planted_graphs(12, 6, kernel_size=3)
    write_explanation(MODELS["linear"]().fit(planted.graphs, planted.labels), planted.graphs, planted.labels, tmp_path)
    assert not list(tmp_path.iterdir())


def test_missing_and_damaged_files_are_said_in_one_sentence(study: Fits, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"explanation\.npz does not exist"):
        read_explanation(tmp_path)
    path = save_explanation(study.explanations[0], tmp_path)
    whole = bytearray(path.read_bytes())
    for damage in (whole[:500], whole[:200] + bytes(400) + whole[600:]):
        path.write_bytes(damage)
        with pytest.raises(InputError, match="damaged or was written by another version"):
            read_explanation(tmp_path)
    np.savez(path, classes=np.array(["a", "b"]))
    with pytest.raises(InputError, match="damaged or was written by another version"):
        read_explanation(tmp_path)


# -- in a benchmark -----------------------------------------------------------------------------------------------


def load_planted(seed: int) -> BrainGraphs:
    planted = make_planted_graphs(36, 8, kernel_size=3, random_state=seed)
    return BrainGraphs(planted.graphs, planted.labels, label_names=["control", "patient"])


def fail(*arguments: Any) -> None:
    raise RuntimeError("no explanation today")


def _tasks(folder: Path, explain: str | None) -> list[Task]:
    parameters = {"max_epochs": 3, "kernel_size": 3, "decoder_sizes": (8,), "random_state": 0}
    methods = (
        MethodSpec("isocapsnet", "isocapsnet.models.isocapsnet:IsoCapsNetClassifier", parameters=parameters),
        MethodSpec("constant", "isocapsnet.models.baselines:ConstantClassifier"),
    )
    source = DataSource(f"{__name__}:load_planted", load_planted(0).digest(), {"seed": 0})
    return Plan(source, methods, repeats=1, permutations=1, explain=explain).tasks(folder)


def _compare(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in ("seconds", "peak_memory")}


@pytest.mark.filterwarnings("ignore")
def test_the_hook_explains_test_graphs_and_changes_no_record(tmp_path: Path) -> None:
    task, constant = _tasks(tmp_path, HOOK)[:2]
    record = run_job(task)
    assert _compare(record) == _compare(run_job(replace(task, explain=None, artifacts=None)))
    found = read_explanation(task.artifacts or "")
    assert found.codes.tolist() == record["labels"]
    assert np.array_equal(found.example_graphs, load_planted(0).X[np.array(record["test"])[found.examples]])
    run_job(constant)
    assert not Path(constant.artifacts or "").exists(), "nothing to show leaves no folder behind"


@pytest.mark.filterwarnings("ignore")
def test_a_hook_that_fails_leaves_a_warning_and_a_record(tmp_path: Path) -> None:
    task = _tasks(tmp_path, f"{__name__}:fail")[0]
    record = run_job(task)
    assert len(record["probabilities"]) == 12
    folder = Path(task.artifacts or "")
    assert (
        "There is no explanation of this fit (RuntimeError: no explanation today)"
        in (folder / "warnings.json").read_text()
    )
    assert (folder / "history.json").exists()


def test_jobs_of_the_null_are_not_explained_and_keys_do_not_change(tmp_path: Path) -> None:
    explained, plain = _tasks(tmp_path, HOOK), _tasks(tmp_path, None)
    assert [task.job.key for task in explained] == [task.job.key for task in plain]
    assert {task.explain for task in explained if task.job.permutation} == {None}
    assert {task.explain for task in explained if not task.job.permutation} == {HOOK}
