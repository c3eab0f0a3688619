"""Cards of motifs: what carriers share, where it lies, in whom, and whether other fits agree."""

import json
from dataclasses import fields, replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from isocapsnet import InputError, IsoCapsNetClassifier, load_model, make_planted_graphs, save_model
from isocapsnet.explanation import (
    Explanation,
    attribute_edges,
    explain,
    explain_fit,
    randomization_check,
    read_explanation,
    window_evidence,
)
from isocapsnet.explanation.alignment import compare_shapes
from isocapsnet.explanation.contrasts import margins
from isocapsnet.explanation.motif_cards import agreement_of_motifs, combine_motifs, group_motifs, shuffle_edges
from isocapsnet.explanation.motifs import Motifs
from isocapsnet.explanation.storage import MOTIF_AXES, save_explanation
from isocapsnet.explanation.summary import summarize
from isocapsnet.nn import MotifNetwork
from isocapsnet.nn.motifs import best_thresholds

PLANTED = make_planted_graphs(
    120, 14, kernel_size=4, effect="motif", placement="free", prevalence=0.75, signal_to_noise=8, random_state=0
)
X, Y = PLANTED.graphs, PLANTED.labels
QUICK = {"n_motifs": 12, "max_epochs": 50, "calibrate": False, "random_state": 0}
TINY = {"n_motifs": 4, "kernel_size": 3, "n_templates": 1, "max_epochs": 4, "decoder_sizes": (8,), "random_state": 0}


def fit(**parameters: Any) -> IsoCapsNetClassifier:
    return IsoCapsNetClassifier(**{"windows": "neighborhood", **QUICK, **parameters}).fit(X, Y)


@pytest.fixture(scope="module")
def model() -> IsoCapsNetClassifier:
    return fit()


@pytest.fixture(scope="module")
def explanation(model: IsoCapsNetClassifier) -> Explanation:
    return explain(model, X, Y, folds=3, subjects=[f"s{index}" for index in range(len(X))])


@pytest.fixture(scope="module")
def both_forms() -> IsoCapsNetClassifier:
    """Both networks, hardly trained, with weights that were set."""
    model = IsoCapsNetClassifier(**TINY, windows="auto").fit(X[:40], Y[:40])
    model.form_weights_ = (0.25, 0.75)
    model._describe_carriers(X[:40], Y[:40])
    return model


# -- what the cards say about planted data ---------------------------------------------------------------------


def test_the_card_shows_the_planted_pattern_in_the_units_of_the_edges(explanation: Explanation) -> None:
    card = explanation.motif_cards[0]
    truth, matrix = PLANTED.truth[0].pattern, np.array(card.matrix, dtype=np.float32)
    _, [[cosine]], [[order]] = compare_shapes(truth[None], matrix[None])
    assert cosine > 0.99
    assert np.abs(matrix[np.ix_(order, order)] - truth).max() < 0.15
    assert (card.verdict, card.n_separating, card.n_fits) == ("stable", 3, 3)
    assert card.shape is not None and card.shape.value > card.shape.null
    assert card.unit == "units of the edges"


def test_the_card_names_the_carriers_and_the_nodes_in_each(explanation: Explanation) -> None:
    card, places = explanation.motif_cards[0], PLANTED.occurrences[0]
    _, _, [[order]] = compare_shapes(PLANTED.truth[0].pattern[None], np.array([card.matrix], dtype=np.float32))
    called = {int(carrier.subject[1:]): carrier for carrier in card.carriers}
    is_carrier = places[:, 0] >= 0
    assert np.isin(list(called), np.flatnonzero(is_carrier)).mean() > 0.9
    assert np.isin(np.flatnonzero(is_carrier), list(called)).mean() > 0.9
    in_order = [np.mean(np.array(called[i].nodes)[order] == places[i]) for i in called if is_carrier[i]]
    assert np.mean(in_order) > 0.85, "the nodes, in the order of the pattern"
    assert card.n_carriers == [sum(carrier.label == code for carrier in card.carriers) for code in (0, 1)]
    assert card.n_graphs == [60, 60] and card.favours == 1
    assert abs(card.n_carriers[1] / 60 - 0.75) < 0.1
    counts = np.bincount(np.concatenate([carrier.nodes for carrier in card.carriers]), minlength=14)
    assert np.allclose(card.region_shares, counts / len(card.carriers))
    distances = [carrier.distance for carrier in card.carriers]
    assert distances == sorted(distances)


def test_carriers_are_found_by_a_fit_that_did_not_see_them() -> None:
    train, test = np.arange(0, 80), np.arange(80, 120)
    model = IsoCapsNetClassifier(windows="neighborhood", **QUICK).fit(X[train], Y[train])
    own, other = (explain_fit(model, X[some], Y[some]) for some in (test, test[::-1]))
    assert own.motifs is not None and other.motifs is not None
    assert np.array_equal(own.motifs.thresholds, other.motifs.thresholds), "the threshold does not see test graphs"
    assert np.array_equal(own.motifs.distances, other.motifs.distances[::-1])
    [card] = combine_motifs([own], [test])[:1]
    assert sum(card.n_graphs) == 40
    assert {int(carrier.subject.split()[1]) - 1 for carrier in card.carriers} <= set(test.tolist())
    assert card.verdict == "not assessed" and card.shape is None


def test_nothing_is_stable_where_labels_mean_nothing(model: IsoCapsNetClassifier) -> None:
    labels = np.random.default_rng(0).permutation(Y)
    found = explain(model, X, labels, folds=3)
    assert not any(card.verdict == "stable" for card in found.motif_cards)


# -- theorems ----------------------------------------------------------------------------------------------------


def test_a_relabelled_graph_gives_relabelled_nodes() -> None:
    model = fit(deviation_from="mean_edge", max_epochs=4)
    order = np.random.default_rng(1).permutation(14)
    before, after = (
        explain_fit(model, X[:9], Y[:9]).motifs,
        explain_fit(model, X[:9][:, order][:, :, order], Y[:9]).motifs,
    )
    assert before is not None and after is not None
    assert np.allclose(before.distances, after.distances, atol=1e-5)
    same = np.isclose(order[after.nodes], before.nodes).all(axis=2)
    assert same.mean() > 0.99  # ties of float32 aside
    assert np.allclose(before.evidence, after.evidence, atol=1e-4)


def test_the_parts_of_motifs_sum_to_the_margin(model: IsoCapsNetClassifier) -> None:
    motifs = explain_fit(model, X[:30], Y[:30]).motifs
    assert motifs is not None
    bias = margins(model.motif_network_.head.bias.detach().cpu().numpy()[None])[0]
    assert np.allclose(motifs.evidence.sum(axis=2) + bias, margins(model._scores(X[:30])), atol=1e-4)


def test_the_parts_of_both_forms_sum_to_the_margin(both_forms: IsoCapsNetClassifier) -> None:
    motifs, windows = explain_fit(both_forms, X[:30], Y[:30]).motifs, window_evidence(both_forms, X[:30])
    assert motifs is not None and motifs.form_weights.tolist() == [0.25, 0.75]
    bias = 0.75 * margins(both_forms.motif_network_.head.bias.detach().cpu().numpy()[None])[0]
    total = motifs.evidence.sum(axis=2) + bias + windows.evidence.sum(axis=(2, 3, 4)) + windows.unattributed
    assert np.allclose(total, margins(both_forms._scores(X[:30])), atol=1e-4)


def test_the_importance_of_one_motif_is_its_weight_times_the_spread_of_its_score(model: IsoCapsNetClassifier) -> None:
    motifs = explain_fit(model, X, Y).motifs
    assert motifs is not None
    spread = model.transform(X).std(axis=0)
    for index in range(3):
        expected = abs(motifs.weights[0, index]) * spread[index]
        assert motifs.importance(np.array([index])) == pytest.approx(expected, rel=1e-3)
    everything = motifs.evidence[:, 0].sum(axis=1).std()
    assert motifs.importance(np.arange(12)) == pytest.approx(everything, rel=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_the_threshold_has_the_best_balanced_accuracy_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    distances, inside = rng.integers(0, 8, (30, 3)).astype(np.float64), rng.random((30, 3)) < 0.4
    thresholds = best_thresholds(torch.from_numpy(distances), torch.from_numpy(inside)).numpy()

    def accuracy(column: int, threshold: float) -> float:
        called = distances[:, column] <= threshold
        return float(called[inside[:, column]].mean() - called[~inside[:, column]].mean())

    for column, threshold in enumerate(thresholds):
        assert accuracy(column, threshold) == max(accuracy(column, value) for value in np.unique(distances))


def test_shuffled_edges_are_the_same_edges() -> None:
    patterns = np.random.default_rng(0).normal(size=(20, 5, 5)).astype(np.float32)
    patterns += patterns.swapaxes(1, 2)
    shuffled = shuffle_edges(patterns, np.random.default_rng(1))
    rows, columns = np.triu_indices(5, k=1)
    assert np.array_equal(shuffled, shuffled.swapaxes(1, 2))
    assert np.array_equal(np.sort(shuffled[:, rows, columns]), np.sort(patterns[:, rows, columns]))
    assert not np.allclose(shuffled[:, rows, columns], patterns[:, rows, columns])


def test_a_shape_agrees_if_it_comes_back_in_any_order_of_nodes_and_not_if_it_does_not() -> None:
    rng = np.random.default_rng(0)
    noise = shuffle_edges(np.tile(PLANTED.truth[0].pattern, (32, 1, 1)), rng).reshape(4, 8, 4, 4)
    pattern = rng.normal(size=(5, 5)).astype(np.float32)
    pattern += pattern.T
    stacks = rng.normal(size=(4, 8, 5, 5)).astype(np.float32)
    stacks += stacks.swapaxes(2, 3)
    assert agreement_of_motifs(stacks[0, 0], list(stacks[1:]), 0).p_value > 0.05
    for stack in stacks:
        order = rng.permutation(5)
        stack[rng.integers(8)] = pattern[np.ix_(order, order)]
    found = agreement_of_motifs(pattern, list(stacks), 0)
    assert found.value == pytest.approx(1, abs=1e-4) and found.p_value <= 0.01
    assert agreement_of_motifs(noise[0, 0], list(noise), 0).null > 0.8, "of 8 with 4 nodes one always looks similar"


def test_motifs_that_look_alike_are_one_motif(model: IsoCapsNetClassifier) -> None:
    motifs = explain_fit(model, X[:20], Y[:20]).motifs
    assert motifs is not None
    groups = group_motifs(motifs)
    assert sorted(np.concatenate(groups).tolist()) == list(range(12))
    importance = [motifs.importance(members) for members in groups]
    assert importance[0] == max(importance)
    _, cosines, _ = compare_shapes(motifs.patterns, motifs.patterns)
    assert all((cosines[members[0], members] >= 0.95).all() for members in groups)
    assert len(groups[0]) > 1, "several of the templates found the planted pattern"


# -- forms, units, files -------------------------------------------------------------------------------------------


def test_without_weight_the_motif_form_changes_nothing(both_forms: IsoCapsNetClassifier, tmp_path: Path) -> None:
    alone = IsoCapsNetClassifier(**TINY, windows="contiguous", calibrate=False).fit(X[:40], Y[:40])
    model = IsoCapsNetClassifier(**TINY, windows="auto", calibrate=True).fit(X[:40], Y[:40])
    model.form_weights_ = (1.0, 0.0)
    first, second = (explain(one, X[:40], Y[:40], folds=2) for one in (alone, model))
    assert first.cards == second.cards and not second.motif_cards and not second.notes
    second.save(tmp_path)
    assert not (tmp_path / "motifs.csv").exists()
    assert set(json.loads((tmp_path / "cards.json").read_text())) >= {"cards"}
    assert "motifs" not in json.loads((tmp_path / "cards.json").read_text())


def test_templates_without_weight_have_no_cards_and_this_is_said(both_forms: IsoCapsNetClassifier) -> None:
    own = explain_fit(both_forms, X[:30], Y[:30])
    both = summarize([own], [np.arange(30)])
    assert both.cards and both.motif_cards and "1 of 1 fits" in both.notes[0]
    both_forms.form_weights_ = (0.0, 1.0)
    try:
        single = explain_fit(both_forms, X[:30], Y[:30])
    finally:
        both_forms.form_weights_ = (0.25, 0.75)
    found = summarize([single], [np.arange(30)])
    assert not found.cards and found.motif_cards
    [note] = found.notes
    assert "weight 0" in note and "do not contribute" in note


def test_fits_without_the_motif_form_count_against_it(explanation: Explanation, model: IsoCapsNetClassifier) -> None:
    fits = [explain_fit(model, X[i::3], Y[i::3]) for i in range(3)]
    tests = [np.arange(120)[i::3] for i in range(3)]
    card = combine_motifs(fits, tests, class_names=["control", "case"])[0]
    counts = zip(card.n_carriers, card.n_graphs, ["control", "case"], strict=True)
    assert card.verdict == "stable" and all(f"{a} of {b} {name} graphs" in card.sentence for a, b, name in counts)
    assert f"{card.n_carriers[1]} of {card.n_graphs[1]} class 1 graphs" in combine_motifs(fits, tests)[0].sentence
    without = [*fits, replace(fits[0], motifs=None)]
    card = combine_motifs(without, [*tests, tests[0]])[0]
    assert (card.n_fits, card.n_without, card.n_left_out, card.verdict) == (4, 1, 0, "not stable")


def test_templates_that_all_found_the_same_pattern_do_not_make_its_shape_less_sure(model: IsoCapsNetClassifier) -> None:
    tests = [np.arange(120)[i::3] for i in range(3)]
    fits = [explain_fit(model, X[some], Y[some]) for some in tests]
    same = np.tile(PLANTED.truth[0].pattern, (12, 1, 1))
    alike = [replace(fit, motifs=replace(fit.motifs, patterns=same)) for fit in fits]
    [card] = combine_motifs(alike, tests)
    assert card.shape is not None and card.shape.value == pytest.approx(1) and card.shape.null < 0.95
    assert card.verdict == "stable" and card.n_members == 12


def test_refits_weigh_the_forms_only_if_the_motif_form_has_weight(
    both_forms: IsoCapsNetClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted: list[bool] = []
    original = IsoCapsNetClassifier.fit
    monkeypatch.setattr(
        IsoCapsNetClassifier, "fit", lambda self, *args: fitted.append(self.calibrate) or original(self, *args)
    )
    explain(both_forms, X[:40], Y[:40], folds=2)
    monkeypatch.setattr(both_forms, "form_weights_", (1.0, 0.0))
    explain(both_forms, X[:40], Y[:40], folds=2)
    assert fitted == [True, True, False, False]


def test_counts_are_shown_as_differences_of_logarithms() -> None:
    counts = np.round(np.exp(3 + X))
    model = IsoCapsNetClassifier(windows="neighborhood", **{**QUICK, "scaling": "log"}).fit(counts, Y)
    found = explain_fit(model, counts, Y)
    card = combine_motifs([found], [np.arange(len(X))])[0]
    assert "log(1 + edge)" in card.unit
    [cosine] = compare_shapes(PLANTED.truth[0].pattern[None], np.array([card.matrix], dtype=np.float32))[1][0]
    assert cosine > 0.95
    assert np.abs(np.array(card.matrix)).max() == pytest.approx(1, abs=0.25), "planted on exp(3 + x)"


def test_contiguous_windows_are_refused_where_there_are_none(model: IsoCapsNetClassifier) -> None:
    with pytest.raises(InputError, match="explain_fit"):
        window_evidence(model, X[:3])
    found = explain_fit(model, X[:6], Y[:6])
    assert found.templates is None and found.example_reconstructions is None
    assert found.representation is not None and found.representation.shape == (6, 12)


@pytest.mark.parametrize("method", ["gradient", "integrated"])
def test_edges_are_attributed_for_all_forms(
    model: IsoCapsNetClassifier, both_forms: IsoCapsNetClassifier, method: str
) -> None:
    if method == "integrated":
        pytest.importorskip("captum")
    for one in (model, both_forms):
        found = attribute_edges(one, X[:8], method)
        assert found.shape == (8, 1, 14, 14) and np.isfinite(found).all() and found.any()


def test_an_untrained_motif_network_attributes_something(model: IsoCapsNetClassifier) -> None:
    assert model.motif_network_.head.weight.any()
    untrained = MotifNetwork(14, 2, n_templates=12)
    assert not untrained.head.weight.any(), "which would give every edge 0 and pass the check without a reason"
    assert 0 < abs(randomization_check(model, X[:16])) < 1


def test_motifs_are_written_and_read(model: IsoCapsNetClassifier, tmp_path: Path) -> None:
    found = explain_fit(model, X[:20], Y[:20])
    path = save_explanation(found, tmp_path)
    loaded = read_explanation(tmp_path).motifs
    assert {field.name for field in fields(Motifs)} == set(MOTIF_AXES)
    for field in fields(Motifs):
        assert np.array_equal(getattr(loaded, field.name), getattr(found.motifs, field.name)), field.name
    with np.load(path) as file:
        arrays = dict(file)
    for damage in ({"motif_nodes": arrays["motif_nodes"] + 14}, {"motif_form_weights": np.ones(3)}):
        np.savez(path, **arrays | damage)
        with pytest.raises(InputError, match=r"explanation\.npz is damaged"):
            read_explanation(tmp_path)
    del arrays["motif_thresholds"]
    np.savez(path, **arrays)
    with pytest.raises(InputError, match="motif_thresholds"):
        read_explanation(tmp_path)


def test_the_table_of_carriers_is_saved(explanation: Explanation, tmp_path: Path) -> None:
    explanation.save(tmp_path)
    lines = (tmp_path / "motifs.csv").read_text().splitlines()
    assert lines[0] == "motif,subject,class,distance,indices,regions"
    assert len(lines) == 1 + sum(len(card.carriers) for card in explanation.motif_cards)
    cards = json.loads((tmp_path / "cards.json").read_text())["motifs"]
    assert cards[0]["n_carriers"] == explanation.motif_cards[0].n_carriers
    assert "motif 1" in set(explanation.table["from"])


def test_a_saved_model_is_explained_as_before(model: IsoCapsNetClassifier, tmp_path: Path) -> None:
    save_model(model, tmp_path / "model.safetensors")
    loaded = load_model(tmp_path / "model.safetensors")
    first, second = (explain_fit(one, X[:9], Y[:9]).motifs for one in (model, loaded))
    assert first is not None and second is not None
    assert np.array_equal(first.patterns, second.patterns) and first.patterns.any()
    assert np.array_equal(first.nodes, second.nodes)


def test_orders_of_nodes_are_all_tried() -> None:
    pattern = PLANTED.truth[0].pattern
    turned = np.stack([pattern[np.ix_(order, order)] for order in permutations(range(4))])
    distances, cosines, orders = compare_shapes(pattern[None], turned)
    assert np.allclose(distances, 0, atol=1e-5) and np.allclose(cosines, 1)
    assert all(
        np.allclose(matrix[np.ix_(order, order)], pattern) for matrix, order in zip(turned, orders[0], strict=True)
    )
