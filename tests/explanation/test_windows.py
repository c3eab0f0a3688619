"""The account of a class score, window by window, adds up; and it blames the right window."""

from typing import Any

import numpy as np
import pytest
import torch

from isocapsnet import MODELS, InputError, IsoCapsNetClassifier, make_planted_graphs
from isocapsnet.explanation.contrasts import margins
from isocapsnet.explanation.windows import find_layer, window_evidence

PLANTED = make_planted_graphs(36, 9, kernel_size=3, random_state=0)
TINY = {"kernel_size": 3, "max_epochs": 4, "device": "cpu", "random_state": 0}


def _fit(method: str, labels: np.ndarray = PLANTED.labels, **parameters: Any) -> Any:
    one_form = {"windows": "contiguous"} if method == "isocapsnet" else {}
    return MODELS[method](**{**TINY, **one_form, **parameters}).fit(PLANTED.graphs, labels)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("isocapsnet", {"residual": False}),
        ("isocapsnet", {"residual": False, "weight_sharing": "template"}),
        ("isocapsnet", {"residual": False, "primary_size": 5}),
        ("isocapsnet", {"residual": False, "matching": "spectral", "n_templates": 3}),
        ("isocapsnet", {"residual": False, "matching": "spectral", "kernel_size": 9}),
        ("isocapsnet", {"residual": False, "stride": 2, "routing_iterations": 1}),
        ("isocapsnet", {"residual": False, "routing_over": "windows", "learning_rate": 0.03, "max_epochs": 20}),
        ("isocapsnet-released", {}),
    ],
    ids=str,
)
def test_routed_weights_of_all_windows_sum_to_the_class_scores(method: str, parameters: dict[str, Any]) -> None:
    model = _fit(method, decoder_sizes=(8,), **parameters)
    found = window_evidence(model, PLANTED.graphs)
    total = margins(model._scores(PLANTED.graphs))
    assert np.allclose(found.evidence.sum(axis=(2, 3, 4)), total, atol=1e-5)
    assert np.abs(found.unattributed).max() < 1e-5
    assert np.abs(total).max() > 1e-3


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("isonn", {}),
        ("isonn", {"n_layers": 2}),
        ("fastisonn", {"projection": "none"}),
        ("fastisonn", {"projection": "permutation"}),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_no_window_explains_is_the_same_for_every_graph(method: str, parameters: dict[str, Any]) -> None:
    model = _fit(method, **parameters)
    found = window_evidence(model, PLANTED.graphs)
    total = margins(model._scores(PLANTED.graphs))
    assert np.allclose(found.evidence.sum(axis=(2, 3, 4)) + found.unattributed, total, atol=1e-4)
    assert found.unattributed.std() < 0.02 * total.std()


def test_what_no_window_explains_is_the_residual_at_the_mean_scores() -> None:
    model = _fit("isocapsnet", windows="contiguous", learning_rate=0.01, max_epochs=20)
    found = window_evidence(model, PLANTED.graphs)
    capsules = model.transform(PLANTED.graphs).reshape(len(PLANTED.graphs), 2, -1)
    direction = capsules / np.linalg.norm(capsules, axis=2, keepdims=True)
    with torch.no_grad():
        residual = model.module_.residual(torch.from_numpy(found.scores.mean(axis=0, keepdims=True))).numpy()
    expected = margins((direction * residual).sum(axis=2))
    assert np.abs(expected).max() > 0.01
    assert np.allclose(found.unattributed, expected, atol=0.02 * np.abs(expected).max())


def test_evidence_lies_in_the_only_window_that_has_a_vote() -> None:
    model = _fit("isocapsnet", residual=False, n_templates=1)
    weight = model.module_.digit.weight
    with torch.no_grad():
        kept = weight[:, :, 10].clone()
        weight.zero_()
        weight[:, :, 10] = kept
    found = window_evidence(model, PLANTED.graphs).evidence[:, 0, 0].reshape(len(PLANTED.graphs), -1)
    assert set(np.flatnonzero(np.abs(found).max(axis=0))) == {10}


def test_three_classes_have_three_contrasts_that_cancel() -> None:
    model = _fit("isocapsnet", labels=np.arange(36) % 3, residual=False)
    evidence = window_evidence(model, PLANTED.graphs).evidence
    assert evidence.shape[1] == 3
    assert np.abs(evidence.sum(axis=1)).max() < 1e-6


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["isocapsnet", "isocapsnet-released"])
def test_scores_and_permutations_are_those_of_the_model(method: str) -> None:
    model = _fit(method)
    found, match = window_evidence(model, PLANTED.graphs), model.match(PLANTED.graphs)
    assert np.array_equal(found.scores, match.scores)
    assert np.array_equal(found.permutations, match.permutations)


def test_the_model_predicts_as_before_after_it_was_explained() -> None:
    model = _fit("isonn")
    before = model.predict_proba(PLANTED.graphs)
    window_evidence(model, PLANTED.graphs)
    assert np.array_equal(model.predict_proba(PLANTED.graphs), before)
    assert "forward" not in vars(find_layer(model))


def test_a_network_without_templates_is_refused() -> None:
    model = MODELS["cnn"](max_epochs=1, random_state=0).fit(PLANTED.graphs, PLANTED.labels)
    with pytest.raises(InputError, match="has no templates"):
        window_evidence(model, PLANTED.graphs)


def test_a_batch_at_a_time_gives_the_same_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    model = IsoCapsNetClassifier(**TINY).fit(PLANTED.graphs, PLANTED.labels)
    whole = window_evidence(model, PLANTED.graphs)
    monkeypatch.setattr("isocapsnet.explanation.windows._BATCH_VALUES", 1)
    assert np.allclose(window_evidence(model, PLANTED.graphs).evidence, whole.evidence, atol=1e-6)
